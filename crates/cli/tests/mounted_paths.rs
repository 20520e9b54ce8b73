//! Paths below a mount as operands of `hydrate`, `release` and `status`, and several daemons of one
//! directory.

use crate::support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use firstbyte_testkit::{BUCKET, bytes, until};
use rustix::fs::{FileType, Mode, XattrFlags, mknodat, setxattr};
use serde_json::Value;
use support::World;
use support::place::Place;
use support::servers::S3;

/// Mounts a bucket with three files below `run/`, with the cache `cache`.
fn mounted(server: &S3) -> Place {
    let bucket = server.root.join(BUCKET);
    fs::create_dir_all(bucket.join("run")).unwrap();
    for number in 0..3 {
        fs::write(bucket.join(format!("run/{number}.dat")), bytes(number, 30_000)).unwrap();
    }
    let place = Place::new(World::with_s3(server));
    place.mount(&format!("s3://{BUCKET}"), &["--cache", "cache"]);
    place
}

fn rows(place: &Place, args: &[&str]) -> Vec<Value> {
    let ran = place.world.run(&[&["--json", "status"], args].concat()).ok();
    let text = String::from_utf8(ran.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_copy_with_the_attributes_of_a_mounted_file_is_no_path_under_the_mount() {
    let server = S3::ours();
    let place = mounted(&server);
    place.world.run(&["hydrate", "--wait", "-r", "mnt"]).ok();
    let copy = place.world.write("copy", b"content");
    let cache = place.world.path("cache");
    for (name, value) in
        [("location", &b"s3://bucket/run/0.dat"[..]), ("cache", cache.as_os_str().as_bytes())]
    {
        // This fails on a file system without extended attributes. A copy could not keep them
        // there either.
        let _ = setxattr(&copy, format!("user.firstbyte.{name}"), value, XattrFlags::empty());
    }
    assert_eq!(rows(&place, &["copy"])[0]["location"], "copy");
    place.world.run(&["release", "copy"]).ok();
    assert_eq!(rows(&place, &["mnt/run/0.dat"])[0]["state"], "hydrated");
    place.unmount().ok();
}

#[test]
fn patterns_and_directories_below_a_mount_stand_for_what_is_mounted() {
    let server = S3::ours();
    let place = mounted(&server);
    let begun = place.world.run(&["hydrate", "-r", "mnt/run"]).ok();
    assert!(begun.stderr.contains("`firstbyte status -r "), "{begun:?}");
    place.world.run(&["hydrate", "--wait", "-r", "mnt/run"]).ok();
    // A directory is not called released if something below it is cached.
    let text = String::from_utf8(place.world.run(&["status", "mnt/run"]).ok().stdout).unwrap();
    assert!(text.contains("partial") && text.contains("3 objects below; -r lists them"), "{text}");
    assert_eq!(rows(&place, &["mnt/run"])[0]["bytes_here"], 90_000);
    assert_eq!(rows(&place, &["mnt/run/[01].dat"]).len(), 2);
    let released = place.world.run(&["--json", "release", "mnt/run/[01].dat"]).ok().receipt();
    assert_eq!(released["objects"], 2);
    assert_eq!(rows(&place, &["-r", "mnt"]).last().unwrap()["location"], "s3://bucket/run/2.dat");
    place.world.run(&["hydrate", "mnt/run/*.txt"]).fails(2, &["mnt/run/*.txt", "the shell"]);
    place.unmount().ok();
}

#[test]
fn every_failure_of_a_hydration_by_the_daemon_is_reported() {
    let place = Place::new(World::new());
    for number in 0..130 {
        place.world.write(&format!("src/{number}"), &bytes(number, 20_000));
    }
    place.mount("src", &["--cache", "cache", "--cache-size", "8KiB"]);
    let ran = place.world.run(&["--json", "hydrate", "--wait", "-r", "mnt"]);
    assert_eq!(ran.receipt()["failed"].as_array().unwrap().len(), 130, "{:?}", ran.code);
    place.unmount().ok();
}

#[test]
fn a_local_name_that_is_not_text_is_hydrated_below_a_mount() {
    let place = Place::new(World::new());
    place.world.write("src/x", b"content");
    let name = OsStr::from_bytes(b"odd\\\xff");
    fs::write(place.world.path("src").join(name), b"other").unwrap();
    place.mount("src", &["--cache", "cache"]);
    let path = Path::new("mnt").join(name);
    let words = ["--json", "hydrate", "--wait"].map(OsStr::new);
    let hydrate = [&words[..], &[path.as_os_str()]].concat();
    assert_eq!(place.world.run(&hydrate).ok().receipt()["objects"], 1);
    place.unmount().ok();
}

#[test]
fn a_refused_mount_leaves_the_log_of_the_mount_that_is_there() {
    let place = Place::new(World::new());
    place.world.write("src/x", b"content");
    let receipt = place.mount("src", &[]);
    let log = Path::new(receipt["log"].as_str().unwrap());
    fs::write(log, "a line\n").unwrap();
    place.world.run(&["mount", "src", "mnt"]).fails(1, &["mounted there already"]);
    assert_eq!(fs::read_to_string(log).unwrap(), "a line\n");
    // The refused mount leaves no log of its own.
    let logs = fs::read_dir(log.parent().unwrap()).unwrap().flatten();
    assert_eq!(logs.filter(|entry| entry.path().extension() == Some(OsStr::new("log"))).count(), 1);
    place.unmount().ok();
}

#[test]
fn a_mount_after_a_lazy_unmount_keeps_its_socket_and_log_when_the_first_daemon_ends() {
    let place = Place::new(World::new());
    place.world.write("src/x", &bytes(2, 1 << 20));
    let first = place.mount("src", &["--cache", "cache"]);
    let open = fs::File::open(place.directory.join("x")).unwrap();
    place.world.run(&["unmount", "--lazy", "mnt"]).ok();
    let second = place.mount("src", &["--cache", "cache"]);
    let exists = |receipt: &Value, field: &str| Path::new(receipt[field].as_str().unwrap()).exists();
    // Both daemons run, and each answers for its own mount.
    place.world.run(&["hydrate", "--wait", "mnt/x"]).ok();
    drop(open);
    until("the first daemon ends", || !exists(&first, "control"));
    assert!(exists(&second, "control") && exists(&second, "log"));
    place.world.run(&["hydrate", "--wait", "mnt/x"]).ok();
    place.unmount().ok();
    assert!(!exists(&second, "control"), "unmount has waited for the daemon");
}

#[test]
fn a_named_log_is_continued() {
    let place = Place::new(World::new());
    place.world.write("src/x", b"content");
    place.world.write("log", b"an earlier line\n");
    place.mount("src", &["--log", "log"]);
    place.unmount().ok();
    assert!(place.world.read("log").starts_with(b"an earlier line\n"));
}

#[test]
fn what_is_no_file_or_directory_is_not_mounted() {
    let place = Place::new(World::new());
    let pipe = place.world.path("pipe");
    mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
    place.world.run(&["mount", "pipe", "mnt"]).fails(1, &["pipe", "is a device, socket or pipe"]);
    assert!(!place.is_mounted());
}

#[test]
fn a_mount_below_another_is_named_when_the_other_cannot_be_unmounted() {
    let place = Place::new(World::new());
    place.world.write("src/below/x", b"content");
    place.mount("src", &[]);
    place.world.run(&["mount", "src", "mnt/below", "--nonempty"]).ok();
    place.world.run(&["unmount", "mnt"]).fails(1, &["in use", "mnt/below", "unmount that first"]);
    place.world.run(&["unmount", "mnt/below"]).ok();
    place.unmount().ok();
}

#[test]
fn a_verb_with_one_place_names_it_in_the_object_of_its_failure() {
    let place = Place::new(World::new());
    for (args, location) in [(["unmount", "mnt"], "mnt"), (["serve", "nowhere"], "nowhere")] {
        let ran = place.world.run(&["--json", args[0], args[1]]);
        assert_eq!(ran.receipt()["failed"][0]["location"], location, "{ran:?}");
    }
}
