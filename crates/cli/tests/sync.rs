//! `sync` in both directions, for every kind of store. A second run must have nothing to do.

use crate::support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use firstbyte_testkit::bytes;
use support::servers::S3;
use support::{World, names_below};

fn plant(world: &World) {
    for (seed, name) in (1..).zip(["a", "dir/b", "dir/ü c", "z.gz"]) {
        world.write(&format!("tree/{name}"), &bytes(seed, 10_000));
    }
}

#[track_caller]
fn assert_synced(world: &World, from: &str, to: &str, copied: u64, skipped: u64) {
    let receipt = world.run(&["--json", "sync", from, to]).ok().receipt();
    assert_eq!(
        (receipt["objects"].as_u64(), receipt["skipped"].as_u64()),
        (Some(copied), Some(skipped)),
        "{receipt}"
    );
}

#[test]
fn after_a_sync_there_is_nothing_to_do_in_either_direction() {
    for s3 in [S3::ours(), S3::minio(), S3::versitygw()] {
        let world = World::with_s3(&s3);
        plant(&world);
        // Stores date objects in whole seconds, so the files are made clearly older than the
        // objects.
        world.age("tree");
        assert_synced(&world, "tree", "s3://bucket/tree", 4, 0);
        assert_synced(&world, "tree", "s3://bucket/tree", 0, 4);
        assert_synced(&world, "s3://bucket/tree", "tree", 0, 4);
        let receipt = world.run(&["--json", "cp", "-r", "s3://bucket/tree", "tree"]).ok().receipt();
        assert_eq!((&receipt["objects"], &receipt["skipped"]), (&0.into(), &4.into()), "{receipt}");
        assert_synced(&world, "s3://bucket/tree", "back", 4, 0);
        assert_synced(&world, "s3://bucket/tree", "back", 0, 4);
        assert_synced(&world, "back", "s3://bucket/tree", 0, 4);
        for name in names_below(&world.path("tree")) {
            assert!(world.read(&format!("tree/{name}")) == world.read(&format!("back/{name}")), "{name}");
        }
    }
}

#[test]
fn a_changed_file_is_copied_and_the_others_are_not() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    plant(&world);
    assert_synced(&world, "tree", "s3://bucket/tree", 4, 0);
    world.write("tree/a", &bytes(77, 10_001));
    assert_synced(&world, "tree", "s3://bucket/tree", 1, 3);
    let there = world.run(&["cat", "s3://bucket/tree/a"]).ok().stdout;
    assert!(there == world.read("tree/a"));
}

#[test]
fn an_object_that_another_program_changed_is_copied_back_though_its_file_has_its_length() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    plant(&world);
    assert_synced(&world, "tree", "s3://bucket/tree", 4, 0);
    world.write("other/a", &bytes(77, 10_000));
    world.run(&["cp", "other/a", "s3://bucket/tree/a"]).ok();
    // Stores date objects in whole seconds, so the time of the change is set to a minute later.
    let object = std::fs::File::options().write(true).open(s3.root.join("bucket/tree/a")).unwrap();
    object.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(60)).unwrap();
    let planned = world.run(&["sync", "--dry-run", "s3://bucket/tree", "tree"]).ok().stdout;
    let planned = String::from_utf8(planned).unwrap();
    assert_eq!(planned.matches("s3://bucket/tree/").count(), 1, "{planned}");
    assert_synced(&world, "s3://bucket/tree", "tree", 1, 3);
    assert!(world.read("tree/a") == bytes(77, 10_000));
}

#[test]
fn extra_objects_go_only_when_asked_and_a_dry_run_only_names_them() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    plant(&world);
    world.run(&["sync", "tree", "s3://bucket/tree"]).ok();
    std::fs::remove_file(world.path("tree/dir/b")).unwrap();
    world.run(&["sync", "tree", "s3://bucket/tree"]).ok();
    assert_eq!(names_below(&s3.root.join("bucket/tree")).len(), 4);
    let ran = world.run(&["sync", "--delete", "--dry-run", "tree", "s3://bucket/tree"]).ok();
    assert!(String::from_utf8(ran.stdout).unwrap().contains("would delete s3://bucket/tree/dir/b"));
    assert_eq!(names_below(&s3.root.join("bucket/tree")).len(), 4);
    let receipt = world.run(&["--json", "sync", "--delete", "tree", "s3://bucket/tree"]).ok().receipt();
    assert_eq!(receipt["deleted"], 1, "{receipt}");
    assert_eq!(names_below(&s3.root.join("bucket/tree")), names_below(&world.path("tree")));
}

#[test]
fn comparing_by_checksum_sees_what_length_and_time_hide() {
    let world = World::new();
    let left = world.write("left/f", b"one");
    let right = world.write("right/f", b"two");
    let then = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    for path in [&left, &right] {
        std::fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
    }
    world.run(&["sync", "left", "right"]).ok();
    assert_eq!(world.read("right/f"), b"two");
    world.run(&["sync", "--compare", "checksum", "left", "right"]).ok();
    assert_eq!(world.read("right/f"), b"one");
}

#[test]
fn an_excluded_directory_name_does_not_keep_a_file_from_replacing_a_directory() {
    let world = World::new();
    world.write("src/name", b"file");
    for (kept, code) in [(false, 0), (true, 1)] {
        world.write("dst/name/inside", b"x");
        std::fs::create_dir(world.path("dst/name/tmp")).unwrap();
        if kept {
            world.write("dst/name/a/tmp", b"a file of this name is left out, and stays");
        }
        let ran = world.run(&["sync", "--delete", "src", "dst", "--exclude", "tmp"]);
        assert_eq!(ran.code, Some(code), "{ran:?}");
        assert_eq!(world.path("dst/name").is_dir(), kept);
        std::fs::remove_dir_all(world.path("dst")).unwrap();
    }
}

#[test]
fn what_is_excluded_is_not_looked_at_and_a_destination_that_only_shows_errors_is_synced() {
    let world = World::new();
    for name in ["src/a", "src/priv/b", "dst/priv/c", "dst/old", "disk/lost/d"] {
        world.write(name, name.as_bytes());
    }
    symlink("nowhere", world.path("src/bad")).unwrap();
    for name in ["src/priv", "dst/priv", "disk/lost"] {
        fs::set_permissions(world.path(name), fs::Permissions::from_mode(0o000)).unwrap();
    }
    for name in ["", "dst", "disk"] {
        fs::set_permissions(world.path(name), fs::Permissions::from_mode(0o777)).unwrap();
    }
    let run = |words: &[&str]| {
        let ran = world.unprivileged(words).output().unwrap();
        (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    for words in [
        &["cp", "-r", "src/", "o", "--exclude", "priv/", "--exclude", "bad"][..],
        &["cp", "-r", "src/a*", "w/"],
        &["sync", "src", "disk", "--exclude", "priv/", "--exclude", "bad"],
        &["sync", "--delete", "src", "dst", "--exclude", "priv/", "--exclude", "bad"],
        &["check", "src", "dst", "--exclude", "priv/", "--exclude", "bad"],
    ] {
        let (code, errors) = run(words);
        assert_eq!(code, Some(0), "{words:?}: {errors}");
    }
    assert!(!world.path("dst/old").exists());
    let (code, errors) = run(&["sync", "--delete", "src", "dst"]);
    assert!(code == Some(3) && errors.contains("bad") && errors.contains("priv"), "{errors}");
    for name in ["src/priv", "dst/priv", "disk/lost"] {
        fs::set_permissions(world.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn a_dry_run_shows_what_is_copied_into_the_place_of_a_file_or_link() {
    let world = World::new();
    for name in ["src/dir/x", "src/dir/sub/y", "src/e/z", "src/f", "dst/dir", "dst/f/g/h", "dst/extra"] {
        world.write(name, name.as_bytes());
    }
    symlink("/nowhere", world.path("dst/e")).unwrap();
    let planned = world.run(&["--json", "sync", "--delete", "--dry-run", "src", "dst"]).ok();
    let text = String::from_utf8(planned.stdout).unwrap();
    let rows: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let named = |action: &str, key: &str| {
        let rows = rows.iter().filter(|row| row["action"] == action);
        let mut names: Vec<_> = rows.map(|row| row[key].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(named("copy", "source"), ["src/dir/sub/y", "src/dir/x", "src/e/z", "src/f"]);
    assert_eq!(named("delete", "location"), ["dst/dir", "dst/e", "dst/extra"]);
    world.run(&["sync", "--delete", "src", "dst"]).ok();
    assert_eq!(names_below(&world.path("dst")), names_below(&world.path("src")));
}

#[test]
fn what_interrupted_copies_left_of_missing_names_goes_with_the_extras() {
    let world = World::new();
    let left = ["dst/.gone.firstbyte-part", "dst/.gone.firstbyte-journal", "dst/old/.x.firstbyte-part"];
    let kept = ["dst/.keep.tmp.firstbyte-part", "dst/.running.firstbyte-part"];
    for name in [&["src/a"][..], &left, &kept].concat() {
        world.write(name, b"x");
    }
    // A running copy has locked its partial file.
    let running = fs::File::open(world.path(kept[1])).unwrap();
    running.lock().unwrap();
    world.run(&["sync", "src", "dst"]).ok();
    assert!(left.into_iter().all(|name| world.path(name).exists()), "{:?}", world.names());
    world.run(&["sync", "--delete", "--dry-run", "src", "dst"]).ok();
    assert!(left.into_iter().all(|name| world.path(name).exists()), "{:?}", world.names());
    let receipt =
        world.run(&["--json", "sync", "--delete", "src", "dst", "--exclude", "*.tmp"]).ok().receipt();
    assert_eq!(receipt["deleted"], 0, "{receipt}");
    assert_eq!(names_below(&world.path("dst")), [".keep.tmp.firstbyte-part", ".running.firstbyte-part", "a"]);
    assert!(!world.path("dst/old").exists());
}

#[test]
fn a_name_that_cannot_be_listed_is_the_location_of_its_failure() {
    let world = World::new();
    world.write("src/a", b"a");
    symlink("nowhere", world.path("src/bad")).unwrap();
    for args in
        [&["cp", "-r", "src/", "out/"][..], &["sync", "src", "out"], &["sync", "--delete", "src", "out"]]
    {
        let ran = world.run(&[&["--json"], args].concat());
        assert_eq!(ran.receipt()["failed"][0]["location"], "src/bad", "{args:?}: {ran:?}");
    }
}
