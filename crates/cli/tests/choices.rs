//! The options that choose what is copied work in every direction: up, down, local and within a
//! store.

use crate::support;

use std::time::{Duration, SystemTime};

use support::World;
use support::servers::S3;

fn write(world: &World, name: &str, content: &[u8], age: u64) {
    let path = world.write(name, content);
    let time = SystemTime::now() - Duration::from_secs(age);
    std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

fn copied(world: &World, args: &[&str]) -> (u64, u64) {
    let receipt = world.run(&[&["--json"], args].concat()).ok().receipt();
    (receipt["objects"].as_u64().unwrap(), receipt["skipped"].as_u64().unwrap())
}

#[test]
fn what_the_destination_has_is_skipped_by_the_rule_that_was_asked_for() {
    for s3 in [S3::ours(), S3::minio()] {
        let world = World::with_s3(&s3);
        write(&world, "src/same", b"same", 1000);
        write(&world, "src/older", b"source!", 1000);
        write(&world, "src/new", b"new", 1000);
        write(&world, "dst/same", b"SAME", 500);
        write(&world, "dst/older", b"destination", 500);
        for (pair, name) in
            [(["src", "dst"], "local"), (["src", "s3://bucket/t"], "up"), (["s3://bucket/s", "dst"], "down")]
        {
            let again = |rule: &str| {
                write(&world, "dst/same", b"SAME", 500);
                write(&world, "dst/older", b"destination", 500);
                let _ = std::fs::remove_file(world.path("dst/new"));
                world.run(&["rm", "-r", "--yes", "s3://bucket/t", "s3://bucket/s"]).ok();
                world.run(&["cp", "-r", "src/", "s3://bucket/s"]).ok();
                world.run(&["cp", "-r", "dst/", "s3://bucket/t"]).ok();
                copied(&world, &["sync", rule, pair[0], pair[1]])
            };
            assert_eq!(again("--size-only"), (2, 1), "{name}");
            assert_eq!(again("--no-clobber"), (1, 2), "{name}");
            if name != "down" {
                // The object was uploaded a moment ago, so it is newer than all files of this test.
                assert_eq!(again("--update"), (1, 2), "{name}");
            }
        }
        // The options also apply to single objects.
        write(&world, "dst/same", b"SAME", 500);
        for rule in ["--no-clobber", "--size-only", "--update"] {
            assert_eq!(copied(&world, &["cp", rule, "src/same", "dst/same"]), (0, 1), "{rule}");
            assert_eq!(
                copied(&world, &["cp", rule, "src/same", "src/older", "dst/"]).1,
                if rule == "--size-only" { 1 } else { 2 }
            );
            write(&world, "dst/older", b"destination", 500);
            assert_eq!(
                copied(&world, &["cp", rule, "src/same", &format!("s3://bucket/{rule}")]),
                (1, 0),
                "{rule}"
            );
            assert_eq!(
                copied(&world, &["cp", rule, "src/same", &format!("s3://bucket/{rule}")]),
                (0, 1),
                "{rule}"
            );
        }
        assert_eq!(world.read("dst/same"), b"SAME");
        assert_eq!(world.run(&["cp", "--update", "--size-only", "src/same", "x"]).code, Some(2));
    }
}

#[test]
fn sources_are_chosen_by_size_age_depth_and_lists_of_patterns() {
    let s3 = S3::minio();
    let world = World::with_s3(&s3);
    write(&world, "src/small", b"1", 10);
    write(&world, "src/d/large", &[2; 5000], 100_000);
    write(&world, "src/d/e/middle", &[3; 500], 5000);
    world.run(&["cp", "-r", "src/", "s3://bucket/src"]).ok();
    let names = |args: &[&str]| {
        let _ = std::fs::remove_dir_all(world.path("out"));
        world.run(&[&["cp", "-r", "src/", "out"], args].concat()).ok();
        let mut names = support::names_below(&world.path("out"));
        names.sort();
        names
    };
    assert_eq!(names(&["--min-size", "400"]), ["d/e/middle", "d/large"]);
    assert_eq!(names(&["--min-size", "400", "--max-size", "500"]), ["d/e/middle"]);
    assert_eq!(names(&["--max-age", "2h"]), ["d/e/middle", "small"]);
    assert_eq!(names(&["--min-age", "1h", "--max-age", "2h"]), ["d/e/middle"]);
    assert_eq!(names(&["--max-depth", "2"]), ["d/large", "small"]);
    world.write("list", b"# a comment\n\n*ddle\nsmall\n");
    assert_eq!(names(&["--exclude-from", "list"]), ["d/large"]);
    assert_eq!(names(&["--exclude", "*", "--include-from", "list", "--exclude", "small"]), ["d/e/middle"]);
    assert_eq!(
        copied(&world, &["cp", "-r", "s3://bucket/src/", "down", "--max-size", "500", "--max-depth", "1"]),
        (1, 0)
    );
    assert_eq!(copied(&world, &["cp", "src/small", "src/d/large", "up/", "--min-size", "2"]), (1, 1));
    world.run(&["mv", "-r", "src", "moved", "--max-age", "2h"]).ok();
    assert_eq!(support::names_below(&world.path("src")), ["d/large"]);
    let missing = world.run(&["cp", "-r", "src/", "x", "--exclude-from", "nowhere"]);
    assert!(missing.code == Some(2) && missing.stderr.contains("nowhere"), "{missing:?}");
    world.run(&["cp", "-r", "http://127.0.0.1:1/d/", "x", "--min-size", "1"]).fails(2, &["--min-size"]);
}

#[test]
fn cache_control_goes_with_uploads() {
    for s3 in [S3::ours(), S3::minio(), S3::versitygw()] {
        let world = World::with_s3(&s3);
        world.write("file", b"content");
        world.run(&["cp", "file", "s3://bucket/x", "--cache-control", "max-age=60"]).ok();
        world.run(&["cp", "s3://bucket/x", "s3://bucket/y", "--cache-control", "no-store"]).ok();
        for (key, value) in [("x", "max-age=60"), ("y", "no-store")] {
            let stat = world.run(&["--json", "stat", &format!("s3://bucket/{key}")]).ok().receipt();
            assert_eq!(stat["cache_control"], value, "{}", s3.url);
        }
        world.run(&["cp", "file", "copy", "--cache-control", "no-store"]).fails(2, &["--cache-control"]);
    }
}

#[test]
fn a_list_names_what_is_copied() {
    for s3 in [S3::ours(), S3::minio()] {
        let world = World::with_s3(&s3);
        for name in ["a", "b", "d/c", "d/e", "f\ng"] {
            write(&world, &format!("src/{name}"), name.as_bytes(), 1000);
        }
        world.run(&["cp", "-r", "src/", "s3://bucket/src"]).ok();
        world.write("list", b"# names\nd/c\n/a\n./a\n\n");
        world.write("zeros", b"f\ng\0b\0");
        for (number, from) in ["src", "src/", "s3://bucket/src"].iter().enumerate() {
            for (number, to) in
                [format!("out-{number}"), format!("s3://bucket/out-{number}")].iter().enumerate()
            {
                let copy =
                    |list: &[&str]| copied(&world, &[&["cp", from, to, "--files-from"], list].concat());
                assert_eq!(copy(&["list"]), (2, 0), "{from} {to}");
                // Objects whose copies exist, are complete and have not changed are skipped.
                assert_eq!(copy(&["list"]), (0, 2), "{from} {to}");
                assert_eq!(copy(&["zeros", "-0"]), (2, 0), "{from} {to}");
                assert_eq!(
                    copied(&world, &["sync", from, to, "--files-from", "list"]),
                    (0, 2),
                    "{from} {to}"
                );
                if number == 0 {
                    assert_eq!(support::names_below(&world.path(to)), ["a", "b", "d/c", "f\ng"]);
                }
            }
        }
        let ran =
            world.run_with_input(&["cp", "s3://bucket/src", "in/", "--files-from", "-"], b"b\nmissing\n");
        assert!(ran.code == Some(3) && ran.stderr.contains("src/missing"), "{ran:?}");
        let limited = ["cp", "s3://bucket/src", "in/", "--files-from", "-", "--min-size", "1"];
        let ran = world.run_with_input(&limited, b"b\nmissing\n");
        assert!(ran.code == Some(3) && ran.stderr.contains("src/missing"), "{ran:?}");
        assert_eq!(world.read("in/b"), b"b");
        // A prefix is not an object, no matter whether the prefix has keys.
        for from in ["s3://bucket/src", "src"] {
            for name in ["d", "d/"] {
                let ran = world.run_with_input(&["cp", from, "no/", "--files-from", "-"], name.as_bytes());
                assert!(ran.code != Some(0) && ran.stderr.contains("src/d"), "{from} {name}: {ran:?}");
                assert!(support::names_below(&world.path("no")).is_empty(), "{from} {name}");
            }
        }
        world.write("wrong", b"a\n../list\n");
        world.run(&["cp", "src", "x", "--files-from", "wrong"]).fails(2, &["../list"]);
        world.run(&["cp", "src", "x", "--files-from", "nowhere"]).fails(1, &["nowhere"]);
        world.run(&["cp", "a", "b", "x", "--files-from", "list"]).fails(2, &["--files-from"]);
        let ran = world.run(&["sync", "--delete", "src", "x", "--files-from", "list"]);
        assert!(ran.code == Some(2) && ran.stderr.contains("--files-from"), "{ran:?}");
        world.write("patterns", b"a\0f\ng\0");
        world.run(&["cp", "-r", "src/", "y", "-0", "--exclude-from", "patterns"]).ok();
        assert_eq!(support::names_below(&world.path("y")), ["b", "d/c", "d/e"]);
    }
}
