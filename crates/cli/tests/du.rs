//! `du`: its totals equal those of GNU `du`. For stores, they equal the sums of the listings.

use crate::support;

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::Command;

use firstbyte_testkit::lacks_root;
use rustix::mount::{UnmountFlags, unmount};
use serde_json::Value;
use support::servers::S3;
use support::{Ran, World};

fn plant(world: &World) {
    world.write("tree/a/b/deep", &vec![1; 100_000]);
    world.write("tree/a/two", &vec![2; 5_000]);
    world.write("tree/top", b"1");
    fs::hard_link(world.path("tree/a/b/deep"), world.path("tree/a/again")).unwrap();
    fs::hard_link(world.path("tree/a/b/deep"), world.path("tree/once-more")).unwrap();
    symlink("top", world.path("tree/link")).unwrap();
    fs::File::create(world.path("tree/sparse")).unwrap().set_len(1 << 30).unwrap();
}

fn rows(ran: &Ran) -> Vec<(String, u64)> {
    let text = String::from_utf8(ran.stdout.clone()).unwrap();
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        (row["name"].as_str().unwrap().to_owned(), row["bytes"].as_u64().unwrap())
    };
    text.lines().map(row).collect()
}

/// Returns the disk space of each directory, as GNU `du` prints it.
fn gnu(world: &World, arguments: &[&str]) -> Vec<(String, u64)> {
    let mut command = Command::new("du");
    let output = command.current_dir(world.path("")).arg("-B1").args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let row =
        |line: &str| line.split_once('\t').map(|(bytes, name)| (name.to_owned(), bytes.parse().unwrap()));
    let mut rows: Vec<(String, u64)> = text.lines().filter_map(row).collect();
    rows.sort();
    rows
}

#[test]
fn local_totals_are_those_of_gnu_du_with_hard_links_counted_once() {
    let world = World::new();
    plant(&world);
    assert_eq!(rows(&world.run(&["du", "--format", "ndjson", "tree"]).ok()), gnu(&world, &["-s", "tree"]));
    let three = ["tree", "tree/a", "tree/a/b"];
    let found = rows(&world.run(&["du", "--format", "ndjson", "-d", "9", "tree"]).ok());
    assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), three);
    assert_eq!(found[0], gnu(&world, &["tree"])[0]);
    assert!(found[0].1 > found[1].1 && found[1].1 >= found[2].1, "{found:?}");
}

#[test]
fn the_apparent_size_is_the_length_of_everything() {
    let world = World::new();
    plant(&world);
    let length = |name: &str| world.path(name).symlink_metadata().unwrap().size();
    let names =
        ["tree", "tree/a", "tree/a/b", "tree/a/b/deep", "tree/a/two", "tree/top", "tree/link", "tree/sparse"];
    let total = names.iter().map(|name| length(name)).sum();
    let found = rows(&world.run(&["du", "--apparent-size", "--format", "ndjson", "tree"]).ok());
    assert_eq!(found, [("tree".to_owned(), total)]);
}

/// Mounts a file system that is unmounted when this value is dropped.
struct Mounted(std::path::PathBuf);

impl Mounted {
    fn new(world: &World, kind: &str, options: &str, at: &str) -> Self {
        fs::create_dir_all(world.path(at)).unwrap();
        let mut command = Command::new("mount");
        command.current_dir(world.path("")).args(["-t", kind, "-o", options, kind, at]);
        assert!(command.status().unwrap().success(), "{command:?}");
        Self(world.path(at))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        unmount(&self.0, UnmountFlags::DETACH).unwrap();
    }
}

#[test]
fn the_files_of_an_overlay_of_two_file_systems_are_on_one() {
    if lacks_root() {
        return;
    }
    let world = World::new();
    let _lower = Mounted::new(&world, "tmpfs", "size=8m", "lower");
    let _upper = Mounted::new(&world, "tmpfs", "size=8m", "upper");
    world.write("lower/below/file", &[1; 40_000]);
    for name in ["upper/work", "upper/new"] {
        fs::create_dir(world.path(name)).unwrap();
    }
    let [lower, upper, work] = ["lower", "upper/new", "upper/work"].map(|name| world.path(name));
    let (lower, upper, work) = (lower.display(), upper.display(), work.display());
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work},xino=off");
    let _overlay = Mounted::new(&world, "overlay", &options, "over");
    world.write("over/above/file", &[2; 80_000]);
    let _inside = Mounted::new(&world, "tmpfs", "size=8m", "over/above/inside");
    world.write("over/above/inside/file", &[3; 20_000]);
    let sum = |arguments: &[&str]| {
        let found =
            rows(&world.run(&[&["du", "--apparent-size", "--format", "ndjson"], arguments].concat()).ok());
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].1
    };
    // Directories of a file system in memory have some bytes each.
    let whole = sum(&["over"]);
    let stays = sum(&["-x", "over"]);
    assert!((120_000..140_000).contains(&stays) && whole - stays >= 20_000, "{stays} of {whole}");
}

#[test]
fn prefixes_are_summed_by_the_lengths_of_their_objects() {
    for s3 in [S3::ours(), S3::minio(), S3::versitygw()] {
        let world = World::with_s3(&s3);
        for (name, length) in [("t/a/b/x", 1_000), ("t/a/y", 200), ("t/z", 30), ("t/a-b", 4)] {
            world.write(name, &vec![0; length]);
        }
        world.run(&["cp", "-r", "t", "s3://bucket/"]).ok();
        let du =
            |arguments: &[&str]| rows(&world.run(&[&["du", "--format", "ndjson"], arguments].concat()).ok());
        let row = |name: &str, bytes| (format!("s3://bucket/{name}"), bytes);
        assert_eq!(du(&["s3://bucket/t"]), [row("t", 1_234)]);
        assert_eq!(du(&["-d", "1", "s3://bucket/t"]), [row("t", 1_234), row("t/a/", 1_200)]);
        assert_eq!(du(&["s3://bucket/t/a*"]), [row("t/a", 1_200), row("t/a-b", 4)]);
        assert_eq!(du(&["s3://bucket/t/z"]), [row("t/z", 30)]);
        let text = world.run(&["du", "s3://bucket/t/"]).ok().stdout;
        assert_eq!(String::from_utf8(text).unwrap(), format!("{:>16} {:>10} s3://bucket/t/\n", 1_234, 4));
        world.run(&["du", "s3://bucket/none"]).fails(1, &["s3://bucket/none", "not found"]);
        world.run(&["du", "s3://bucket/none/"]).fails(1, &["s3://bucket/none/: no objects there"]);
        assert_eq!(du(&["s3://bucket"]), [("s3://bucket".to_owned(), 1_234)]);
    }
}

#[test]
fn each_match_of_a_pattern_has_a_row_and_nothing_else_has() {
    let world = World::new();
    plant(&world);
    symlink("nowhere", world.path("dangling")).unwrap();
    let names = |arguments: &[&str]| {
        let found = rows(&world.run(&[&["du", "--format", "ndjson"], arguments].concat()).ok());
        found.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(names(&["tree/t*"]), ["tree/top"]);
    assert_eq!(names(&["tree/*/two"]), ["tree/a/two"]);
    assert_eq!(
        rows(&world.run(&["du", "--format", "ndjson", "tree/a*"]).ok()),
        gnu(&world, &["-s", "tree/a"])
    );
    assert_eq!(names(&["dangling"]), ["dangling"]);
    world.run(&["du", "tree/none*"]).fails(1, &["tree/none*", "no name matches"]);
}

#[test]
fn rows_are_sorted_by_size_when_asked() {
    let world = World::new();
    for (name, length) in [("small", 1), ("large", 900_000), ("middle", 90_000)] {
        world.write(&format!("tree/{name}/f"), &vec![1; length]);
    }
    let found = rows(&world.run(&["du", "-d", "1", "--sort", "size", "--format", "ndjson", "tree"]).ok());
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["tree", "tree/large", "tree/middle", "tree/small"]);
}

#[test]
fn a_root_that_is_not_there_is_one_clear_line() {
    let world = World::new();
    world.run(&["du", "none"]).fails(1, &["none", "not found"]);
}

#[test]
fn memory_does_not_grow_with_the_number_of_rows() {
    const ROWS: usize = 60_000;
    let world = World::new();
    for number in 0..ROWS {
        let name = format!("tree/{number:05}-a-directory-with-a-name-of-usual-length-for-a-sample/in");
        fs::create_dir_all(world.path(&name)).unwrap();
    }
    let du = |arguments: &[&str]| {
        let ran = world.run(&[&["--json", "--memory", "8MiB", "du", "--apparent-size"], arguments].concat());
        let ran = ran.ok();
        let lines = ran.stdout.iter().filter(|byte| **byte == b'\n').count();
        let receipt: Value =
            ran.stderr.lines().rev().find_map(|line| serde_json::from_str(line).ok()).unwrap();
        (lines, receipt["peak_memory_bytes"].as_u64().unwrap())
    };
    let (few, least) = du(&["tree"]);
    let (many, most) = du(&["-d", "1", "tree"]);
    assert_eq!((few, many), (1, ROWS + 1));
    // Sums and sorted rows may take 8 MiB each, and there are buffers. Without these limits, the
    // many rows would take 25 MiB more.
    assert!(most <= least + (14 << 20), "{most} bytes for {many} rows, {least} for one");
}
