//! `mv` moves its operands. At no instant is anything lost, and nothing else is deleted.

use crate::support;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::time::{Duration, SystemTime};

use firstbyte_testkit::{Scripted, ScriptedReply, bytes, count, until};
use support::disk::SmallDisk;
use support::moves;
use support::servers::S3;
use support::{World, names_below};

const NAMES: [&str; 5] = ["run/a.txt", "run/b.bam", "run/deep/c.txt", "run/deep/d d.bam", "runner/e.txt"];

fn planted() -> World {
    let world = World::new();
    plant(&world);
    world
}

fn plant(world: &World) {
    for name in NAMES {
        world.write(&format!("tree/{name}"), name.as_bytes());
    }
}

fn keys(world: &World) -> Vec<String> {
    let listed = String::from_utf8(world.run(&["ls", "-R", "s3://bucket"]).ok().stdout).unwrap();
    let mut keys: Vec<_> = listed.lines().filter(|key| !key.ends_with('/')).map(str::to_owned).collect();
    keys.sort();
    keys
}

#[test]
fn a_tree_goes_to_a_store_within_it_and_back() {
    for s3 in [S3::ours(), S3::minio(), S3::versitygw()] {
        let world = World::with_s3(&s3);
        plant(&world);
        let planned = world.run(&["mv", "-r", "-n", "tree", "s3://bucket/"]).ok();
        assert_eq!(String::from_utf8(planned.stdout).unwrap().matches("would move").count(), NAMES.len());
        let receipt = world.run(&["--json", "mv", "-r", "tree", "s3://bucket/"]).ok().receipt();
        assert_eq!((&receipt["objects"], &receipt["verb"]), (&NAMES.len().into(), &"mv".into()));
        assert!(!world.path("tree").exists());
        assert_eq!(keys(&world), NAMES.map(|name| format!("tree/{name}")));
        world.run(&["mv", "-r", "s3://bucket/tree/run", "s3://bucket/new", "--exclude", "*.bam"]).ok();
        let moved = ["new/a.txt", "new/deep/c.txt", "tree/run/b.bam", "tree/run/deep/d d.bam"];
        assert_eq!(keys(&world), [&moved[..], &["tree/runner/e.txt"]].concat());
        world.run(&["mv", "s3://bucket/tree/runner/e.txt", "here/"]).ok();
        world.run(&["mv", "s3://bucket/tree/run/*.bam", "here/"]).ok();
        assert_eq!(names_below(&world.path("here")), ["b.bam", "e.txt"]);
        world.run(&["mv", "-r", "s3://bucket/", "all"]).ok();
        assert_eq!(names_below(&world.path("all")), ["new/a.txt", "new/deep/c.txt", "tree/run/deep/d d.bam"]);
        assert_eq!(world.read("all/tree/run/deep/d d.bam"), b"run/deep/d d.bam");
        assert!(keys(&world).is_empty());
    }
}

#[test]
fn what_has_a_free_name_on_the_same_file_system_is_renamed() {
    let world = planted();
    let inode = |name: &str| std::os::unix::fs::MetadataExt::ino(&world.path(name).metadata().unwrap());
    let (file, directory) = (inode("tree/run/a.txt"), inode("tree/run"));
    world.run(&["mv", "-r", "tree/run", "new/deep/run"]).ok();
    assert_eq!((inode("new/deep/run/a.txt"), inode("new/deep/run")), (file, directory));
    world.run(&["mv", "new/deep/run/a.txt", "tree"]).ok();
    assert_eq!(inode("tree/a.txt"), file);
    // If the destination is an existing directory, its own files stay, and the files are moved one
    // by one.
    world.run(&["mv", "-r", "new/deep/run/", "tree"]).ok();
    assert_eq!(
        names_below(&world.path("tree")),
        ["a.txt", "b.bam", "deep/c.txt", "deep/d d.bam", "runner/e.txt"]
    );
    assert!(world.path("new/deep/run").exists() && !world.path("new/deep/run/deep").exists());
}

#[test]
fn another_file_of_that_name_is_replaced_as_by_cp() {
    let world = planted();
    world.write("old/b.bam", b"old");
    world.write("old/kept", b"kept");
    world.run(&["mv", "tree/run/b.bam", "old/"]).ok();
    world.run(&["mv", "-r", "tree/run/", "old"]).ok();
    assert_eq!(world.read("old/b.bam"), b"run/b.bam");
    assert_eq!(names_below(&world.path("old")), ["a.txt", "b.bam", "deep/c.txt", "deep/d d.bam", "kept"]);
    world.write("tree/x", b"x");
    std::fs::create_dir_all(world.path("old/x/below")).unwrap();
    let ran = world.run(&["mv", "tree/x", "old/x/"]).ok();
    assert!(world.path("old/x/x").exists(), "{ran:?}");
}

#[test]
fn a_tree_moves_across_file_systems_and_a_full_disk_loses_nothing() {
    let world = planted();
    world.write("big", &bytes(1, 8 << 20));
    let Some(disk) = SmallDisk::new("size=4m") else { return };
    world.run(&["mv", "big", disk.path().to_str().unwrap()]).fails(1, &["space"]);
    assert!(world.read("big") == bytes(1, 8 << 20));
    let Some(disk) = SmallDisk::new("size=4m") else { return };
    let target = disk.path().join("tree");
    world.run(&["mv", "-r", "tree", target.to_str().unwrap()]).ok();
    assert!(!world.path("tree").exists());
    assert_eq!(names_below(&target), NAMES);
    world.run(&["mv", "-r", target.to_str().unwrap(), "back"]).ok();
    assert_eq!(names_below(&world.path("back")), NAMES);
    assert!(!target.exists());
}

#[test]
fn a_move_to_another_file_system_keeps_owners_and_modes() {
    let Some(disk) = SmallDisk::new("size=4m") else { return };
    let world = planted();
    world.write("file", b"file");
    let (tree, file) = (world.path("tree"), world.path("file"));
    for (path, mode) in
        [(tree.join("run/deep"), 0o750), (tree.join("run/a.txt"), 0o640), (file.clone(), 0o4711)]
    {
        std::os::unix::fs::chown(&path, Some(1234), Some(2345)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let there = |name: &str| disk.path().join(name);
    world.run(&["mv", "file", there("file").to_str().unwrap()]).ok();
    world.run(&["mv", "-r", "tree", there("tree").to_str().unwrap()]).ok();
    for (path, mode) in [("tree/run/deep", 0o750), ("tree/run/a.txt", 0o640), ("file", 0o4711)] {
        let found = std::fs::metadata(there(path)).unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (1234, 2345, mode), "{path}");
    }
}

#[test]
fn a_tree_that_has_been_moved_is_no_error_and_one_that_never_was_is() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    plant(&world);
    for (source, target) in [
        ("tree", "s3://bucket/t"),
        ("s3://bucket/t", "s3://bucket/u"),
        ("s3://bucket/u/", "s3://bucket/v/"),
        ("s3://bucket/v", "back"),
    ] {
        world.run(&["mv", "-r", source, target]).ok();
        let again = world.run(&["mv", "-r", source, target]).ok();
        assert!(again.stderr.contains("nothing is left to move"), "{source}: {again:?}");
    }
    assert_eq!(names_below(&world.path("back")), NAMES);
    world.run(&["mv", "-r", "nowhere", "s3://bucket/x"]).fails(1, &["nowhere", "not found"]);
    world.run(&["mv", "-r", "s3://bucket/nowhere", "x"]).fails(1, &["nowhere", "not found"]);
    world.run(&["mv", "-r", "s3://nobucket/t", "back"]).fails(1, &["nobucket"]);
    world.run(&["mv", "back/none", "back/run"]).fails(1, &["none"]);
}

#[test]
fn no_link_is_followed() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    world.write("outside/kept", b"kept");
    world.write("tree/file", b"file");
    symlink(world.path("outside"), world.path("tree/to-directory")).unwrap();
    symlink(world.path("outside/kept"), world.path("tree/to-file")).unwrap();
    symlink(world.path("outside"), world.path("link")).unwrap();
    world.run(&["mv", "-r", "link/", "s3://bucket/"]).fails(2, &["a link"]);
    world.run(&["mv", "-r", "link", "s3://bucket/"]).fails(1, &["a link"]);
    let ran = world.run(&["mv", "-r", "tree", "s3://bucket/"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(
        ran.stderr.contains("to-directory: is a link") && ran.stderr.contains("to-file: is a link"),
        "{ran:?}"
    );
    assert_eq!(keys(&world), ["tree/file"]);
    assert!(world.path("tree/to-directory").is_symlink() && world.path("tree/to-file").is_symlink());
    // A symbolic link is still a symbolic link after it was renamed.
    world.run(&["mv", "link", "renamed"]).ok();
    assert_eq!(std::fs::read_link(world.path("renamed")).unwrap(), world.path("outside"));
    assert_eq!(world.read("outside/kept"), b"kept");
}

#[test]
fn a_directory_that_becomes_a_link_leads_no_deletion_outside() {
    let s3 = S3::ours();
    let content = bytes(2, 4 << 20);
    for round in 0..4 {
        let mut world = World::with_s3(&s3);
        world.write("outside/big", &content);
        world.write("tree/d/big", &content);
        let link = support::kills::slow_link(&s3, 8 << 20);
        world.set("FIRSTBYTE_ENDPOINT_URL", &format!("http://{}", link.address()));
        let mut child = world.spawn(&["mv", "-r", "tree", &format!("s3://bucket/{round}/")]);
        // The source is replaced while it is being sent, or just after that.
        let sent = round * 1_400_000 + 100_000;
        until("it sends", || link.counters().bytes_to_server >= sent || child.try_wait().unwrap().is_some());
        let swapped = std::fs::rename(world.path("tree/d"), world.path("aside"))
            .and_then(|()| symlink(world.path("outside"), world.path("tree/d")));
        child.wait_with_output().unwrap();
        assert!(world.read("outside/big") == content);
        assert!(swapped.is_err() || world.path("aside").exists());
    }
}

#[test]
fn a_source_that_changes_after_its_copy_stays() {
    let changed = |first: &'static str, then: &'static str| {
        let server = Scripted::start(move |_, head| {
            let line = head.lines().next().unwrap_or_default().to_owned();
            if !line.contains(" /bucket/x ") {
                return ScriptedReply::raw("404 Not Found", &["content-length: 0"], b"");
            }
            let etag = if line.starts_with("HEAD") { then } else { first };
            ScriptedReply::answer("200 OK", &[&format!("etag: \"{etag}\"")], b"content")
        });
        let mut world = World::with_s3(&S3::ours());
        world.set("FIRSTBYTE_ENDPOINT_URL", server.url());
        let ran = world.run(&["mv", "s3://bucket/x", "out"]);
        assert_eq!(world.read("out"), b"content");
        (ran, server.heads().iter().any(|head| head.starts_with("DELETE")))
    };
    let (ran, deleted) = changed("one", "one");
    assert!(ran.code == Some(0) && deleted, "{ran:?}");
    let (ran, deleted) = changed("one", "two");
    assert!(!deleted, "{ran:?}");
    assert!(ran.code == Some(3) && ran.stderr.contains("changed"), "{ran:?}");
}

#[test]
fn a_file_that_changes_while_it_is_sent_stays() {
    let s3 = S3::ours();
    let mut world = World::with_s3(&s3);
    let link = support::kills::slow_link(&s3, 2 << 20);
    world.set("FIRSTBYTE_ENDPOINT_URL", &format!("http://{}", link.address()));
    world.write("big", &bytes(3, 2 << 20));
    let child = world.spawn(&["mv", "big", "s3://bucket/"]);
    until("it sends", || link.counters().bytes_to_server >= 64 << 10);
    world.write("big", b"written meanwhile");
    let ran = support::Ran::from(child.wait_with_output().unwrap());
    assert_ne!(ran.code, Some(0), "{ran:?}");
    assert_eq!(world.read("big"), b"written meanwhile");
}

#[test]
fn what_would_overwrite_what_was_moved_is_refused() {
    let world = planted();
    world.write("one/x", b"1");
    world.write("two/x", b"2");
    world.run(&["mv", "one/x", "two/x", "tree/"]).fails(2, &["tree/x", "one at a time"]);
    world.run(&["mv", "-r", "one/", "two/", "tree/"]).fails(2, &["one at a time"]);
    world.run(&["mv", "one/*", "two/*", "tree/"]).fails(2, &["one at a time"]);
    world.run(&["mv", "-r", "tree/run/", "tree/"]).fails(2, &["inside", "tree/run"]);
    world.run(&["mv", "-r", "tree", "tree/below"]).fails(2, &["inside"]);
    world.run(&["mv", "one/x", "one/x"]).fails(2, &["same"]);
    world.run(&["mv", "tree", "new"]).fails(2, &["-r"]);
    world.run(&["mv", "-", "new"]).fails(2, &["stream", "cp"]);
    world.run(&["mv", "-r", ".", "new"]).fails(2, &["mv"]);
    world.run(&["mv", "http://127.0.0.1:1/x", "new"]).fails(2, &["web server", "cp"]);
    world.run(&["mv", "nowhere", "new"]).fails(1, &["nowhere", "not found"]);
    assert_eq!(world.names().len(), NAMES.len() + 2);
    // Files of one directory have different names, so patterns there never give two files the same
    // target.
    world.run(&["mv", "tree/run/*.txt", "tree/run/*.bam", "one/"]).ok();
    assert_eq!(names_below(&world.path("one")), ["a.txt", "b.bam", "x"]);
}

#[test]
fn directories_that_were_empty_go_along_and_those_with_more_stay() {
    let s3 = S3::minio();
    let world = World::with_s3(&s3);
    plant(&world);
    std::fs::create_dir_all(world.path("tree/run/empty/empty")).unwrap();
    world.write("tree/run/.b.bam.firstbyte-part", b"of another copy");
    std::fs::create_dir(world.path("to")).unwrap();
    world.run(&["mv", "-r", "tree/run", "to", "--exclude", "*.bam"]).ok();
    assert!(world.path("to/run").exists() || world.path("to/empty/empty").exists());
    assert_eq!(names_below(&world.path("tree/run")), [".b.bam.firstbyte-part", "b.bam", "deep/d d.bam"]);
    assert!(!world.path("tree/run/empty").exists());
}

#[test]
fn no_file_is_lost_when_the_reader_of_the_output_leaves() {
    let world = planted();
    let line = "\"$PROGRAM\" mv -r tree/run/ new | true";
    support::shell("sh").args(["-c", line]).current_dir(world.path(".")).status().unwrap();
    let names = [names_below(&world.path("new")), names_below(&world.path("tree/run"))].concat();
    assert_eq!(names.len(), 4, "{names:?}");
}

#[test]
fn a_tree_moves_between_any_two_places() {
    moves::between_all_pairs();
}

#[test]
fn killed_at_random_instants_it_loses_nothing_and_deletes_nothing_beyond() {
    moves::survive(count("FIRSTBYTE_MOVE_KILLS", 8));
}

#[test]
fn killed_on_the_way_to_another_name_of_the_same_place_it_loses_nothing() {
    moves::survive_aliases(count("FIRSTBYTE_MOVE_ALIAS_KILLS", 14));
}

#[test]
fn a_file_under_two_names_loses_the_old_one() {
    let world = World::new();
    world.write("tree/x", b"x");
    world.write("tree/z", b"z");
    fs::create_dir(world.path("there")).unwrap();
    for name in ["tree/y", "there/x"] {
        fs::hard_link(world.path("tree/x"), world.path(name)).unwrap();
    }
    world.run(&["mv", "tree/x", "tree/y"]).ok();
    assert_eq!(names_below(&world.path("tree")), ["y", "z"]);
    fs::hard_link(world.path("tree/y"), world.path("tree/x")).unwrap();
    assert_eq!(world.run(&["--json", "mv", "-r", "tree/", "there/"]).ok().receipt()["objects"], 3);
    assert_eq!(names_below(&world.path("")), ["there/x", "there/y", "there/z"]);
    assert_eq!((world.read("there/x"), world.read("there/y")), (b"x".to_vec(), b"x".to_vec()));
    // An entry that has two paths stays.
    symlink("there", world.path("link")).unwrap();
    world.run(&["mv", "there/x", "link/x"]).fails(2, &["same"]);
    assert_eq!(world.read("there/x"), b"x");
}

#[test]
fn directories_keep_their_times_on_another_file_system() {
    let Some(disk) = SmallDisk::new("size=4m") else { return };
    let world = planted();
    let time = |days: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(days * 86_400);
    let directories = ["tree", "tree/run", "tree/run/deep", "tree/runner"];
    for (name, days) in directories.into_iter().zip(10_000..) {
        fs::File::open(world.path(name)).unwrap().set_modified(time(days)).unwrap();
    }
    let at = |name: &str| disk.path().join(name);
    world.run(&["mv", "-r", "tree", at("tree").to_str().unwrap()]).ok();
    for (name, days) in directories.into_iter().zip(10_000..) {
        assert_eq!(fs::metadata(at(name)).unwrap().modified().unwrap(), time(days), "{name}");
    }
}

#[test]
fn no_destination_goes_up_from_a_directory_that_does_not_exist() {
    let world = World::new();
    fs::create_dir_all(world.path("empty")).unwrap();
    for destination in ["missing/..", "missing/../x/", "./missing/.."] {
        world.run(&["mv", "-r", "empty", destination]).fails(2, &["missing does not exist"]);
        world.run(&["cp", "-r", "empty", destination]).fails(2, &["missing does not exist"]);
    }
    assert!(world.path("empty").exists() && !world.path("missing").exists());
    fs::create_dir(world.path("there")).unwrap();
    world.run(&["mv", "-r", "empty", "there/../there"]).ok();
}
