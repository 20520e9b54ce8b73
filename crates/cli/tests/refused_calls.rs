//! Refuses system calls that improve a copy but are not essential, as some file systems and
//! sandboxes do. The copy must work without them.

use crate::support;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use firstbyte_testkit::bytes;
use support::refusals::{CALLS, Call, ERRORS, named, refuse};
use support::servers::S3;
use support::{Ran, World, names_below};

fn run_without(world: &World, call: Call, error: i32, args: &[&str]) -> Ran {
    let mut command = world.command(args);
    refuse(&mut command, call, error);
    Ran::from(command.stdin(Stdio::null()).output().unwrap())
}

#[track_caller]
fn assert_same(world: &World, place: &str, what: &str) {
    assert_eq!(names_below(&world.path("tree")), names_below(&world.path(place)), "{what}");
    for name in names_below(&world.path("tree")) {
        assert!(
            world.read(&format!("tree/{name}")) == world.read(&format!("{place}/{name}")),
            "{what}: {name}"
        );
    }
}

#[test]
fn a_tree_is_copied_without_each_call_that_only_improves_it() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    for (seed, name) in (1..).zip(["a", "d/b", "d/e/c"]) {
        world.write(&format!("tree/{name}"), &bytes(seed, 5_000));
    }
    world.write("tree/large", &bytes(9, 5 << 20));
    for call in CALLS {
        for error in ERRORS {
            let what = format!("{} fails with error {error}", call.name);
            for args in [
                &["cp", "-r", "--durability", "full", "tree/", "copied"][..],
                &["cp", "-r", "--durability", "data", "tree/", "s3://bucket/up"],
                &["sync", "s3://bucket/up", "down"],
                &["cp", "-a", "tree/", "kept"],
                &["mv", "-r", "copied", "moved/tree"],
                &["mv", "kept/a", "down/a"],
                &["cp", "down/a", "kept/a"],
            ] {
                let ran = run_without(&world, call, error, args);
                assert_eq!(ran.code, Some(0), "{what}: {args:?}: {ran:?}");
                // Each refused call is reported in one line.
                let lines = ran.stderr.lines().filter(|line| line.contains("the file system")).count();
                assert_eq!(ran.stderr.lines().count(), lines, "{what}: {args:?}: {ran:?}");
                assert!(lines <= 2, "{what}: {args:?}: {ran:?}");
            }
            for place in ["moved/tree", "down", "kept"] {
                assert_same(&world, place, &what);
            }
            for place in ["moved", "down", "kept"] {
                fs::remove_dir_all(world.path(place)).unwrap();
            }
            fs::remove_dir_all(s3.root.join("bucket/up")).unwrap();
        }
    }
}

#[test]
fn a_link_is_moved_where_a_rename_cannot_keep_what_is_there() {
    for error in ERRORS {
        let world = World::new();
        world.write("file", b"x");
        symlink("nowhere", world.path("link")).unwrap();
        let ran = run_without(&world, named("renameat2"), error, &["mv", "link", "new"]);
        assert_eq!(ran.code, Some(0), "{error}: {ran:?}");
        assert_eq!(fs::read_link(world.path("new")).unwrap().to_str(), Some("nowhere"));
        assert!(world.path("link").symlink_metadata().is_err());
    }
}

#[test]
fn a_refusal_is_said_once_and_not_with_quiet() {
    let world = World::new();
    for number in 0..20 {
        world.write(&format!("tree/{number}"), b"x");
    }
    let flock = named("flock");
    let ran = run_without(&world, flock, libc::ENOSYS, &["cp", "-r", "tree/", "out"]);
    assert_eq!(ran.stderr.lines().filter(|line| line.contains("has no locks")).count(), 1, "{ran:?}");
    let ran = run_without(&world, flock, libc::ENOLCK, &["-q", "cp", "-r", "tree/", "quiet"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(names_below(&world.path("out")).len(), 20);
}

#[test]
fn without_locks_two_copies_at_once_do_not_mix() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    let contents = [bytes(1, 6 << 20), bytes(2, 6 << 20)];
    for (name, content) in ["one", "two"].into_iter().zip(&contents) {
        fs::write(s3.root.join("bucket").join(name), content).unwrap();
    }
    let start = |name: &str| {
        let mut command =
            world.command(&["-q", "cp", "--limit-rate", "20MB", &format!("s3://bucket/{name}"), "same"]);
        refuse(&mut command, named("flock"), libc::ENOSYS);
        command.spawn().unwrap()
    };
    let mut running = [start("one"), start("two")];
    for child in &mut running {
        assert!(child.wait().unwrap().success());
    }
    assert!(contents.contains(&world.read("same")));
    assert_eq!(names_below(&world.path("")), ["same"]);
    // The name that a killed run left is a symbolic link, which a later run must not take for its
    // own file.
    symlink("nowhere", world.path(".same.firstbyte-part")).unwrap();
    let ran = run_without(&world, named("flock"), libc::EOPNOTSUPP, &["cp", "s3://bucket/one", "same"]);
    assert!(ran.code != Some(0) || world.read("same") == contents[0], "{ran:?}");
}
