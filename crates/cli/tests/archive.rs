//! `cp -a` keeps the properties of the entries of a local tree, in addition to their content.

use crate::support;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use support::World;

/// Returns the properties of an entry that `cp -a` keeps: mode, owner, group, modification time,
/// and the target of a symbolic link.
fn facts(path: &Path) -> (u32, u32, u32, i64, i64, Option<String>) {
    let found = fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let link = fs::read_link(path).ok().map(|target| target.to_str().unwrap().to_owned());
    // The times of symbolic links are not compared.
    let time = if link.is_some() { (0, 0) } else { (found.mtime(), found.mtime_nsec()) };
    (found.mode(), found.uid(), found.gid(), time.0, time.1, link)
}

fn age(path: &Path, seconds: u64) {
    let time = SystemTime::now() - Duration::from_secs(seconds);
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

/// Writes a tree that has every kind of entry.
fn plant(world: &World) {
    let root = world.path("src");
    world.write("src/bin/tool", b"#!/bin/sh\n");
    world.write("src/private/key", b"secret");
    fs::create_dir(root.join("empty")).unwrap();
    symlink("bin/tool", root.join("tool")).unwrap();
    symlink("nowhere/at-all", root.join("dangling")).unwrap();
    symlink("bin", root.join("directory")).unwrap();
    fs::set_permissions(root.join("bin/tool"), Permissions::from_mode(0o6755)).unwrap();
    fs::set_permissions(root.join("private"), Permissions::from_mode(0o500)).unwrap();
    fs::set_permissions(root.join("private/key"), Permissions::from_mode(0o400)).unwrap();
    if rustix::process::geteuid().is_root() {
        chown(root.join("private/key"), Some(1234), Some(4321)).unwrap();
        chown(root.join("bin"), Some(77), None).unwrap();
        lchown(root.join("tool"), Some(5), Some(6)).unwrap();
        // The mode is set after the owner, because changing the owner removes these bits.
        fs::set_permissions(root.join("bin/tool"), Permissions::from_mode(0o6755)).unwrap();
    }
    for (seconds, name) in [(100, "bin/tool"), (200, "bin"), (300, "private"), (400, "empty"), (500, "")] {
        age(&root.join(name), seconds);
    }
}

const NAMES: [&str; 9] =
    ["", "bin", "bin/tool", "private", "private/key", "empty", "tool", "dangling", "directory"];

fn assert_same(world: &World, to: &str) {
    for name in NAMES {
        assert_eq!(facts(&world.path("src").join(name)), facts(&world.path(to).join(name)), "{name}");
    }
}

#[test]
fn everything_is_kept_and_a_second_copy_finds_nothing_to_do() {
    let world = World::new();
    plant(&world);
    let copy = |words: &[&str]| world.run(&[&["--json", "cp", "-a"], words].concat()).ok().receipt();
    // The copied objects are two files and three symbolic links.
    assert_eq!(copy(&["src", "dst"])["objects"], 5);
    assert_same(&world, "dst");
    let again = copy(&["src", "dst"]);
    assert_eq!((&again["objects"], &again["skipped"]), (&0.into(), &5.into()));
    // Copying again restores what was changed in the copy, even in files whose content is
    // unchanged.
    fs::set_permissions(world.path("dst/bin/tool"), Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(world.path("dst/tool")).unwrap();
    symlink("elsewhere", world.path("dst/tool")).unwrap();
    fs::remove_file(world.path("dst/dangling")).unwrap();
    world.write("dst/dangling", b"a file in the link's place");
    assert_eq!(copy(&["src", "dst"])["objects"], 2);
    assert_same(&world, "dst");
    assert_eq!(support::names_below(&world.path("dst")).len(), 5);
}

#[test]
fn single_files_and_links_are_kept_too() {
    let world = World::new();
    plant(&world);
    for name in ["tool", "dangling", "directory"] {
        world.run(&["cp", "-a", &format!("src/{name}"), &format!("{name}-2")]).ok();
        assert_eq!(facts(&world.path("src").join(name)), facts(&world.path(&format!("{name}-2"))));
    }
    fs::create_dir(world.path("into")).unwrap();
    world.run(&["cp", "-a", "src/bin/tool", "src/dangling", "into/"]).ok();
    for (from, to) in [("bin/tool", "tool"), ("dangling", "dangling")] {
        assert_eq!(facts(&world.path("src").join(from)), facts(&world.path("into").join(to)));
    }
}

#[test]
fn what_cannot_be_kept_is_refused_before_anything_is_written() {
    let world = World::new();
    plant(&world);
    world.run(&["cp", "-a", "src", "s3://bucket/x"]).fails(2, &["--archive", "local"]);
    world.run(&["cp", "-a", "s3://bucket/x", "dst"]).fails(2, &["--archive"]);
    world.run(&["cp", "-a", "--dry-run", "src", "dst"]).ok();
    assert!(!world.path("dst").exists());
    // No option may delete the content of a directory that stands where the source has a symbolic
    // link.
    world.write("dst/tool/kept", b"content");
    let ran = world.run(&["cp", "-a", "src", "dst"]);
    assert!(ran.code == Some(3) && ran.stderr.contains("a directory is in the link's place"), "{ran:?}");
    assert_eq!(world.read("dst/tool/kept"), b"content");
}

#[test]
fn a_file_that_is_not_copied_keeps_its_attributes() {
    let world = World::new();
    plant(&world);
    let mine = world.write("dst/bin/tool", b"another");
    fs::set_permissions(&mine, Permissions::from_mode(0o640)).unwrap();
    age(&mine, 50);
    let before = facts(&mine);
    world.run(&["cp", "-a", "--no-clobber", "src", "dst"]).ok();
    assert_eq!((facts(&mine), world.read("dst/bin/tool")), (before, b"another".to_vec()));
    assert_eq!(facts(&world.path("dst/private/key")), facts(&world.path("src/private/key")));
}

#[test]
fn nothing_outside_the_destination_is_changed_through_its_links() {
    let world = World::new();
    plant(&world);
    let outside = world.write("outside/tool", b"not mine");
    fs::set_permissions(&outside, Permissions::from_mode(0o640)).unwrap();
    let before = facts(&outside);
    fs::create_dir(world.path("dst")).unwrap();
    symlink("../outside", world.path("dst/bin")).unwrap();
    let ran = world.run(&["cp", "-a", "src", "dst"]);
    assert!(ran.code == Some(3) && ran.stderr.contains("symbolic link"), "{ran:?}");
    assert_eq!(facts(&outside), before);
    assert_eq!(fs::read(outside).unwrap(), b"not mine");
}

#[test]
fn only_copies_of_what_the_source_is_now_take_its_attributes() {
    let world = World::new();
    plant(&world);
    fs::create_dir(world.path("dst")).unwrap();
    fs::set_permissions(world.path("dst"), Permissions::from_mode(0o1777)).unwrap();
    // If the destination already has a file of this name, the file is kept.
    let own = world.write("dst/tool", b"another");
    fs::set_permissions(&own, Permissions::from_mode(0o640)).unwrap();
    world.run(&["cp", "-a", "--no-clobber", "src/bin/", "dst"]).ok();
    assert_eq!(fs::metadata(&own).unwrap().mode() & 0o7777, 0o640);
    // A pattern matches the entries of a directory, so the directory's own mode stays.
    fs::set_permissions(world.path("dst"), Permissions::from_mode(0o1777)).unwrap();
    world.run(&["cp", "-a", "src/bin/t*", "dst/"]).ok();
    assert_eq!(fs::metadata(world.path("dst")).unwrap().mode() & 0o7777, 0o1777);
    assert_eq!(facts(&world.path("src/bin/tool")), facts(&world.path("dst/tool")));
}
