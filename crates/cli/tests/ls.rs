//! `ls` lists every name, whatever bytes it has, from every kind of location and in every format.

use crate::support;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use std::time::Duration;

use firstbyte_link::{SlowFs, SlowFsConfig};
use serde_json::Value;
use support::servers::S3;
use support::{Ran, World};

/// Names that break programs which treat names as text.
const ODD: [&[u8]; 7] = [
    b".hidden",
    b"with space",
    b"line\nfeed",
    b"\x1b[31mred",
    b"quote\"comma,",
    b"\xff\xfe",
    "ü😀".as_bytes(),
];

fn plant(world: &World) {
    world.write("tree/a/b/deep.txt", b"12345");
    world.write("tree/a/two.txt", b"12");
    world.write("tree/top.gz", b"1");
    for name in ODD {
        fs::write(world.path("tree").join(OsStr::from_bytes(name)), b"odd").unwrap();
    }
    fs::create_dir(world.path("tree/empty")).unwrap();
    symlink("nowhere", world.path("tree/dangling")).unwrap();
    symlink(".", world.path("tree/loop")).unwrap();
}

/// Returns the names that `find` prints. `ls` must list the same names.
fn find(world: &World, arguments: &[&str]) -> BTreeSet<Vec<u8>> {
    let mut command = Command::new("find");
    command
        .current_dir(world.path("tree"))
        .args([".", "-mindepth", "1"])
        .args(arguments)
        .args(["-printf", "%P\\0"]);
    names(&command.output().unwrap().stdout)
}

fn names(output: &[u8]) -> BTreeSet<Vec<u8>> {
    let names: Vec<&[u8]> = output.split(|byte| *byte == 0).filter(|name| !name.is_empty()).collect();
    let set: BTreeSet<Vec<u8>> = names.iter().map(|name| name.to_vec()).collect();
    assert_eq!(set.len(), names.len(), "a name came twice");
    set
}

fn lines(ran: &Ran) -> Vec<String> {
    String::from_utf8(ran.stdout.clone()).unwrap().lines().map(str::to_owned).collect()
}

fn sorted_lines(ran: &Ran) -> Vec<String> {
    let mut lines = lines(ran);
    lines.sort();
    lines
}

fn rows(ran: &Ran) -> Vec<Value> {
    lines(ran).iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn local_names_are_those_that_find_has_byte_for_byte() {
    let world = World::new();
    plant(&world);
    for (ours, finds) in [
        (vec!["ls", "-0", "tree"], vec!["-maxdepth", "1"]),
        (vec!["ls", "-0", "-R", "tree"], vec![]),
        (vec!["ls", "-0", "-d", "2", "tree/"], vec!["-maxdepth", "2"]),
        (vec!["ls", "-0", "-R", "--sort", "name", "tree"], vec![]),
        (vec!["ls", "-0", "-R", "--buffer", "4KiB", "tree"], vec![]),
    ] {
        assert_eq!(names(&world.run(&ours).ok().stdout), find(&world, &finds), "{ours:?}");
    }
}

#[test]
fn a_tree_reads_the_same_from_every_store() {
    let wanted = ["a-b/x", "a.txt", "a/b/c", "a/z", "top"];
    for s3 in [S3::ours(), S3::minio(), S3::versitygw()] {
        let world = World::with_s3(&s3);
        for name in wanted {
            world.write(&format!("t/{name}"), name.as_bytes());
        }
        world.run(&["cp", "-r", "t", "s3://bucket/"]).ok();
        assert_eq!(sorted_lines(&world.run(&["ls", "-R", "s3://bucket/t"]).ok()), wanted);
        assert_eq!(sorted_lines(&world.run(&["ls", "s3://bucket/t/"]).ok()), ["a-b/", "a.txt", "a/", "top"]);
        assert_eq!(
            sorted_lines(&world.run(&["ls", "-d", "2", "s3://bucket/t"]).ok()),
            ["a-b/x", "a.txt", "a/b/", "a/z", "top"]
        );
        assert_eq!(sorted_lines(&world.run(&["ls", "s3://bucket/t/*.txt"]).ok()), ["a.txt"]);
        assert_eq!(sorted_lines(&world.run(&["ls", "s3://bucket/t/a*/*"]).ok()), ["a-b/x", "a/b/", "a/z"]);
        assert_eq!(lines(&world.run(&["ls", "s3://bucket/t/a/z"]).ok()), ["s3://bucket/t/a/z"]);
        assert!(lines(&world.run(&["ls", "s3://"]).ok()).contains(&"bucket/".to_owned()));
        let row = &rows(&world.run(&["--json", "ls", "-l", "s3://bucket/t/top"]).ok())[0];
        assert_eq!((&row["size"], &row["kind"]), (&Value::from(3), &Value::from("file")));
        world.run(&["ls", "s3://bucket/none"]).fails(1, &["s3://bucket/none", "not found"]);
        world.run(&["ls", "s3://none/"]).fails(1, &["s3://none: no such bucket"]);
    }
}

#[test]
fn every_name_survives_ndjson_and_csv() {
    let world = World::new();
    plant(&world);
    let wanted = find(&world, &[]);
    let found: BTreeSet<Vec<u8>> = rows(&world.run(&["ls", "-R", "--format", "ndjson", "tree"]).ok())
        .iter()
        .map(|row| match row["name_hex"].as_str() {
            Some(hex) => (0..hex.len() / 2)
                .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
                .collect(),
            None => row["name"].as_str().unwrap().as_bytes().to_vec(),
        })
        .collect();
    assert_eq!(found, wanted);
    let csv = world.run(&["ls", "--format", "csv", "-l", "--sort", "name", "tree/a"]).ok();
    let text = String::from_utf8(csv.stdout).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("name,name_hex,kind,size,modified,etag,storage_class"));
    assert!(lines.next().unwrap().starts_with("b,,directory,,"));
    assert!(lines.next().unwrap().starts_with("two.txt,,file,2,"));
}

#[test]
fn rows_come_in_the_order_asked_for_also_where_memory_is_short() {
    let world = World::new();
    for number in 0..3_000_u64 {
        let path = world
            .write(&format!("tree/{:04}", number * 7919 % 3000), &vec![b'x'; (number * 31 % 97) as usize]);
        let then = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000 + number * 13 % 501);
        fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
    }
    let listed = |sort: &str, more: &[&str]| {
        let arguments =
            [&["--memory", "64KiB", "ls", "--format", "ndjson", "--sort", sort, "tree"], more].concat();
        rows(&world.run(&arguments).ok())
    };
    let name = |row: &Value| row["name"].as_str().unwrap().to_owned();
    let by_name = listed("name", &[]);
    assert_eq!(by_name.len(), 3_000);
    assert!(by_name.is_sorted_by_key(name));
    assert!(
        listed("size", &[])
            .is_sorted_by_key(|row| (std::cmp::Reverse(row["size"].as_u64().unwrap()), name(row)))
    );
    assert!(listed("mtime", &[]).is_sorted_by_key(|row| (
        std::cmp::Reverse(row["modified"].as_str().unwrap().to_owned()),
        name(row)
    )));
    let mut turned = listed("size", &["--reverse"]);
    turned.reverse();
    assert_eq!(turned, listed("size", &[]));
}

#[test]
fn several_places_are_listed_with_their_names_in_front() {
    let world = World::new();
    plant(&world);
    let ran = world.run(&["ls", "tree/a", "tree/a/b/", "tree/top.gz"]).ok();
    assert_eq!(sorted_lines(&ran), ["tree/a/b", "tree/a/b/deep.txt", "tree/a/two.txt", "tree/top.gz"]);
}

#[test]
fn a_long_listing_says_kind_size_and_time() {
    let world = World::new();
    let path = world.write("tree/f", b"12345");
    let then = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
    assert_eq!(lines(&world.run(&["ls", "-l", "tree"]).ok()), ["f            5 2023-11-14T22:13:20Z f"]);
}

#[test]
fn what_is_no_directory_is_listed_as_what_it_is() {
    let world = World::new();
    world.write("file", b"12345");
    symlink("file", world.path("link")).unwrap();
    symlink("nowhere", world.path("dangling")).unwrap();
    for (name, kind, size) in [
        ("file", "file", Some(5)),
        ("link", "symlink", Some(4)),
        ("dangling", "symlink", Some(7)),
        ("/dev/null", "other", None),
    ] {
        let row = &rows(&world.run(&["ls", "-l", "--format", "ndjson", name]).ok())[0];
        assert_eq!((row["name"].as_str(), row["kind"].as_str()), (Some(name), Some(kind)));
        assert_eq!(row["size"].as_u64(), size, "{name}");
    }
}

#[test]
fn only_what_can_match_a_pattern_is_asked_of_a_store() {
    let (s3, from) = (S3::ours(), World::new());
    let world = World::with_s3(&s3);
    for month in 1..=12 {
        for day in 1..=3 {
            from.write(&format!("t/2025-{month:02}/{day}.gz"), b"x");
            from.write(&format!("t/2026-{month:02}/{day}.gz"), b"x");
        }
    }
    let ran = Ran::from(
        world.command(&["cp", "-qr", from.path("t").to_str().unwrap(), "s3://bucket/"]).output().unwrap(),
    );
    ran.ok();
    for (verb, pattern, found, most) in [
        ("ls", "2026-1*", 3, 1),
        ("ls", "2026-0[1-3]/2*", 3, 4),
        ("ls", "*-11/?.gz", 6, 3),
        ("du", "2026-1*", 3, 1),
    ] {
        let ran = world.run(&["--json", verb, &format!("s3://bucket/t/{pattern}")]).ok();
        assert_eq!(rows(&ran).len(), found, "{verb} {pattern}");
        let receipt: Value = serde_json::from_str(ran.stderr.lines().last().unwrap()).unwrap();
        assert!(receipt["requests"].as_u64().unwrap() <= most, "{verb} {pattern}: {receipt}");
    }
    let to = world.path("to/");
    let copied = world.run(&["--json", "cp", "s3://bucket/t/2026-12/*", to.to_str().unwrap()]).ok();
    assert_eq!(copied.receipt()["objects"], 3);
}

#[test]
fn what_cannot_be_listed_is_named_and_the_rest_comes() {
    let world = World::new();
    plant(&world);
    let closed = world.path("tree/closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o0)).unwrap();
    let run = |args: &[&str]| Ran::from(world.unprivileged(args).output().unwrap());
    // A directory in which no name can match is not listed.
    assert_eq!(lines(&run(&["ls", "tree/a*/t*"]).ok()), ["a/two.txt"]);
    assert_eq!(lines(&run(&["ls", "-R", "tree/a"]).ok()).len(), 3);
    assert_eq!(run(&["du", "tree/a*"]).ok().stderr, "");
    let ran = run(&["--json", "ls", "-R", "tree"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(rows(&ran).iter().any(|row| row["name"] == "a/b/deep.txt"));
    let (line, receipt) = ran.stderr.trim_end().rsplit_once('\n').unwrap();
    assert!(line.starts_with("error: ") && line.contains("tree/closed"), "{line}");
    let receipt: Value = serde_json::from_str(receipt).unwrap();
    assert!(receipt["failed"][0]["location"].as_str().unwrap().ends_with("tree/closed"), "{receipt}");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_root_that_cannot_be_listed_is_one_clear_line() {
    let world = World::new();
    plant(&world);
    world.run(&["ls", "none"]).fails(1, &["none", "not found"]);
    world.run(&["ls", "tree/*.none"]).fails(1, &["tree/*.none", "no name matches"]);
    world.run(&["ls", "ftp://host/x"]).fails(2, &["ftp://host/x", "unknown scheme"]);
    world.run(&["ls", "-0", "--format", "csv", "tree"]).fails(2, &["-0"]);
    let ran = world.run(&["--json", "ls", "tree/a", "none"]);
    let receipt: Value = serde_json::from_str(ran.stderr.lines().next().unwrap()).unwrap();
    assert_eq!(receipt["failed"][0]["location"], "none", "{receipt}");
    let ran = world.run(&["ls", "none", "tree/a"]);
    assert_eq!(
        (ran.code, sorted_lines(&ran)),
        (Some(3), vec!["tree/a/b".to_owned(), "tree/a/two.txt".to_owned()])
    );
}

#[test]
fn a_crowded_directory_of_a_network_file_system_is_pointed_out_once() {
    let world = World::new();
    for number in 0..10_500 {
        world.write(&format!("tree/crowded/{number:05}"), b"");
        world.write(&format!("tree/too/{number:05}"), b"");
    }
    fs::create_dir(world.path("mounted")).unwrap();
    let mounted = SlowFs::start(&SlowFsConfig::new(world.path("tree"), [world.path("mounted")])).unwrap();
    let ran = world.run(&["ls", "-R", "mounted"]).ok();
    assert_eq!(lines(&ran).len(), 21_002);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    for fact in ["mounted/", "more than 10,000 entries", "fuse", "firstbyte layout"] {
        assert!(ran.stderr.contains(fact), "{}", ran.stderr);
    }
    assert_eq!(world.run(&["-q", "ls", "-R", "mounted"]).ok().stderr, "");
    for places in [vec!["-R", "."], vec!["mounted/crowded", "mounted/too"]] {
        let ran = world.run(&[&["ls"], &places[..]].concat()).ok();
        assert_eq!(ran.stderr.lines().count(), 1, "{places:?}: {}", ran.stderr);
    }
    drop(mounted);
    assert_eq!(world.run(&["ls", "-R", "tree"]).ok().stderr, "");
}

#[test]
fn verbose_says_how_a_directory_is_read_and_why() {
    let world = World::new();
    plant(&world);
    let ran = world.run(&["-v", "ls", "--buffer", "128KiB", "tree"]).ok();
    assert!(ran.stderr.contains("128 KiB") && ran.stderr.contains("asked"), "{}", ran.stderr);
    assert!(world.run(&["-v", "ls", "tree"]).ok().stderr.contains("KiB"));
}

#[test]
fn a_directory_page_of_a_web_server_is_listed_as_well() {
    let s3 = S3::ours();
    let world = World::new();
    fs::create_dir(s3.root.join("bucket/d")).unwrap();
    for name in ["d/x", "f 1"] {
        fs::write(s3.root.join("bucket").join(name), "12").unwrap();
    }
    let url = format!("{}/bucket/", s3.url);
    assert_eq!(sorted_lines(&world.run(&["ls", &url]).ok()), ["d/", "f 1"]);
    assert_eq!(sorted_lines(&world.run(&["ls", "-R", &url]).ok()), ["d/x", "f 1"]);
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let world = World::new();
    for number in 0..20_000 {
        world.write(&format!("tree/a-name-that-fills-the-pipe-{number:06}"), b"");
    }
    let mut child = world.spawn(&["ls", "tree"]);
    drop(child.stdout.take());
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
}
