//! `rm` deletes its operands and nothing else. `mb` creates buckets, and `rb` removes them.

use crate::support;

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;

use firstbyte_testkit::{ACCESS_KEY, SECRET_KEY, Scripted, ScriptedReply};
use support::servers::S3;
use support::{World, names_below};

const NAMES: [&str; 6] =
    ["run/a.txt", "run/b.bam", "run/deep/c.txt", "run/deep/d d.bam", "runner/e.txt", "f"];

fn planted(s3: &S3) -> World {
    let world = World::with_s3(s3);
    for name in NAMES {
        world.write(&format!("tree/{name}"), name.as_bytes());
    }
    world.run(&["sync", "tree", "s3://bucket"]).ok();
    world
}

fn keys(world: &World) -> Vec<String> {
    let listed = world.run(&["ls", "-R", "s3://bucket"]).ok();
    let mut keys: Vec<String> = String::from_utf8(listed.stdout)
        .unwrap()
        .lines()
        .filter(|key| !key.ends_with('/'))
        .map(str::to_owned)
        .collect();
    keys.sort();
    keys
}

#[test]
fn a_prefix_goes_and_its_neighbours_stay() {
    for s3 in [S3::ours(), S3::minio(), S3::versitygw()] {
        let world = planted(&s3);
        world.run(&["rm", "s3://bucket/f"]).ok();
        let planned = world.run(&["rm", "-r", "-n", "s3://bucket/run"]).ok();
        let planned = String::from_utf8(planned.stdout).unwrap();
        assert_eq!(planned.matches("would delete").count(), 4, "{planned}");
        assert_eq!(keys(&world).len(), 5);
        let receipt =
            world.run(&["--json", "rm", "-r", "s3://bucket/run", "--exclude", "*.bam"]).ok().receipt();
        assert_eq!(receipt["deleted"], 2);
        assert_eq!(keys(&world), ["run/b.bam", "run/deep/d d.bam", "runner/e.txt"], "{}", s3.url);
        world.run(&["rm", "-r", "s3://bucket/run/"]).ok();
        assert_eq!(keys(&world), ["runner/e.txt"]);
    }
}

#[test]
fn a_pattern_deletes_what_it_matches_only() {
    let s3 = S3::minio();
    let world = planted(&s3);
    world.run(&["rm", "s3://bucket/run/*.txt"]).ok();
    assert_eq!(keys(&world), ["f", "run/b.bam", "run/deep/c.txt", "run/deep/d d.bam", "runner/e.txt"]);
    world.run(&["rm", "tree/run/*"]).ok();
    assert_eq!(names_below(&world.path("tree/run")), ["deep/c.txt", "deep/d d.bam"]);
    world.run(&["rm", "s3://bucket/run/*.cram"]).fails(1, &["no name matches"]);
}

#[test]
fn no_link_is_followed() {
    let world = World::new();
    world.write("outside/kept", b"kept");
    world.write("tree/file", b"file");
    symlink(world.path("outside"), world.path("tree/to-directory")).unwrap();
    symlink(world.path("outside/kept"), world.path("tree/to-file")).unwrap();
    symlink(world.path("outside"), world.path("link")).unwrap();
    let url = format!("file://{}/", world.path("link").display());
    for written in ["link/", "link//", "link///", &url] {
        world.run(&["rm", "-r", written]).fails(2, &["a link"]);
    }
    world.run(&["rm", "-r", "tree", "link"]).ok();
    assert_eq!(world.names(), ["outside/kept"]);
    assert!(!world.path("link").is_symlink() && !world.path("tree").exists());
}

#[test]
fn a_tree_goes_with_what_interrupted_copies_left_in_it() {
    let world = World::new();
    for name in ["tree/a", "tree/.a.firstbyte-part", "tree/deep/.b.firstbyte-journal", "tree/.hidden/c"] {
        world.write(name, b"x");
    }
    std::fs::create_dir_all(world.path("tree/empty/empty")).unwrap();
    world.run(&["rm", "-r", "tree"]).ok();
    assert!(!world.path("tree").exists());
}

#[test]
fn unfinished_copies_of_what_stays_stay() {
    let world = World::new();
    for name in ["tree/a", "tree/keep", "tree/.keep.firstbyte-part", "tree/deep/b"] {
        world.write(name, b"x");
    }
    world.run(&["rm", "-r", "tree", "--exclude", "keep"]).ok();
    assert_eq!(world.names(), ["tree/.keep.firstbyte-part", "tree/keep"]);
    world.run(&["rm", "tree/keep", "--exclude", "keep"]).ok();
    assert!(world.path("tree/keep").exists());
}

#[test]
fn a_directory_that_is_not_empty_in_the_end_is_an_error() {
    let world = World::new();
    world.write("tree/.x.firstbyte-part/file", b"x");
    world.run(&["rm", "-r", "tree"]).fails(3, &["tree", "not empty"]);
}

#[test]
fn the_marker_of_a_prefix_goes_too() {
    for s3 in [S3::ours(), S3::minio()] {
        let world = planted(&s3);
        let user = format!("{ACCESS_KEY}:{SECRET_KEY}");
        let hash = "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let put =
            ["-sf", "--aws-sigv4", "aws:amz:us-east-1:s3", "-u", &user, "-H", hash, "-X", "PUT", "-d", ""];
        let url = format!("{}/bucket/run/", s3.url);
        assert!(Command::new("curl").args(put).arg(&url).status().unwrap().success());
        world.run(&["rm", "-r", "s3://bucket/run"]).ok();
        world.run(&["stat", "s3://bucket/run/"]).fails(1, &["no objects there"]);
    }
}

#[test]
fn what_is_missing_is_an_error_unless_it_may_be() {
    let s3 = S3::ours();
    let world = planted(&s3);
    world.run(&["rm", "-r", "s3://"]).fails(2, &["names no bucket"]);
    world.run(&["rm", "-r", "s3://bucket/missing"]).fails(1, &["not found"]);
    world.run(&["rm", "-r", "--yes", "s3://bucket/missing"]).ok();
}

#[test]
fn what_is_not_meant_to_be_deleted_is_refused() {
    let s3 = S3::ours();
    let world = planted(&s3);
    world.run(&["rm", "s3://bucket/run"]).fails(2, &["-r"]);
    world.run(&["rm", "tree"]).fails(2, &["-r"]);
    let above = format!("file://{}/tree/%2e%2e", world.path("").display());
    for special in [".", "..", "/", "tree/..", "file:///", &above] {
        world.run(&["rm", "-r", special]).fails(2, &[]);
    }
    world.run(&["rm", "s3://bucket/missing"]).fails(1, &["missing"]);
    // If any operand is wrong, none is deleted.
    world.run(&["rm", "s3://bucket/f", "s3://bucket/missing"]).fails(1, &[]);
    assert_eq!(keys(&world).len(), NAMES.len());
    world.run(&["rm", "--yes", "s3://bucket/missing", "s3://bucket/f"]).ok();
    assert_eq!(keys(&world).len(), NAMES.len() - 1);
}

#[test]
fn a_terminal_is_asked_before_many_names_go() {
    let world = World::new();
    for number in 0..100 {
        world.write(&format!("many/{number}"), b"x");
    }
    let answered = |answer: &str| {
        let shown = format!("echo {answer} | script -qec '\"$PROGRAM\" rm -r many' /dev/null");
        support::shell("sh").args(["-c", &shown]).current_dir(world.path(".")).output().unwrap()
    };
    let refused = answered("n");
    let said = String::from_utf8_lossy(&refused.stdout);
    assert!(said.contains("[y/N]") && !refused.status.success(), "{said}");
    assert_eq!(names_below(&world.path("many")).len(), 100);
    assert!(answered("y").status.success());
    assert!(!world.path("many").exists());
}

#[test]
fn a_killed_run_deletes_nothing_beyond_and_the_next_one_ends_it() {
    let s3 = S3::minio();
    let world = World::with_s3(&s3);
    for number in 0..3000 {
        world.write(&format!("tree/run/{number}"), b"x");
    }
    world.write("tree/kept/a", b"x");
    world.run(&["sync", "tree", "s3://bucket"]).ok();
    for round in 0..4 {
        let mut child = world.spawn(&["rm", "-r", "s3://bucket/run"]);
        // The instant of the kill does not matter, because the next run completes the work.
        std::thread::sleep(std::time::Duration::from_millis(20 + 30 * round));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    world.run(&["rm", "--yes", "-r", "s3://bucket/run"]).ok();
    assert_eq!(keys(&world), ["kept/a"]);
}

#[test]
fn buckets_are_made_and_removed_when_empty() {
    for s3 in [S3::ours(), S3::minio(), S3::versitygw()] {
        let world = planted(&s3);
        world.run(&["mb", "s3://new-one", "s3://new-two"]).ok();
        world.run(&["mb", "s3://new-one"]).fails(1, &["s3://new-one", "Bucket"]);
        world.run(&["cp", "tree/f", "s3://new-one/"]).ok();
        world.run(&["rb", "s3://new-one"]).fails(1, &["s3://new-one", "rm -r s3://new-one"]);
        world.run(&["rm", "-r", "s3://new-one"]).ok();
        assert_eq!(world.run(&["--json", "rb", "s3://new-one", "s3://new-two"]).ok().receipt()["deleted"], 2);
        world.run(&["rb", "s3://new-one"]).fails(1, &["s3://new-one: no such bucket"]);
        world.run(&["rb", "s3://bucket/run"]).fails(2, &["is not a bucket"]);
        assert_eq!(keys(&world).len(), NAMES.len());
    }
}

#[test]
fn a_directory_whose_names_are_all_excluded_is_not_opened() {
    let world = World::new();
    for name in ["tree/a", "tree/priv/b", "tree/deep/priv/c", "tree/deep/d"] {
        world.write(name, b"x");
    }
    let modes = |mode| {
        for name in ["tree/priv", "tree/deep/priv"] {
            std::fs::set_permissions(world.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    for name in ["", "tree", "tree/deep"] {
        std::fs::set_permissions(world.path(name), std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    modes(0o000);
    let args = ["rm", "-r", "tree", "--exclude", "**/priv/"];
    let ran = world.unprivileged(&args).output().unwrap();
    modes(0o755);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert_eq!(names_below(&world.path("tree")), ["deep/priv/c", "priv/b"]);
}

#[test]
fn an_object_that_may_not_be_read_can_be_deleted() {
    for status in ["403 Forbidden", "400 Bad Request"] {
        let server = Scripted::start(move |_, head| match head.starts_with("DELETE") {
            true => ScriptedReply::raw("204 No Content", &[], b""),
            false => ScriptedReply::answer(status, &[], b"<Error><Code>InvalidRequest</Code></Error>"),
        });
        let mut world = World::new();
        for (name, value) in
            [("AWS_ENDPOINT_URL", server.url()), ("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s")]
        {
            world.set(name, value);
        }
        let ran = world.run(&["--json", "rm", "s3://bucket/key"]).ok();
        assert_eq!(ran.receipt()["deleted"], 1, "{ran:?}");
        assert!(server.heads().iter().any(|head| head.starts_with("DELETE /bucket/key ")), "{status}");
    }
}

#[test]
fn a_web_server_never_deletes_a_directory() {
    let server = Scripted::start(|_, head| match head.starts_with("DELETE /locked ") {
        true => ScriptedReply::answer("207 Multi-Status", &[], b"<multistatus/>"),
        false => ScriptedReply::raw("204 No Content", &[], b""),
    });
    let world = World::new();
    for directory in ["tree/", "tree/?key=1", ""] {
        let url = format!("{}/{directory}", server.url());
        world.run(&["rm", &url]).fails(1, &["is a directory"]);
    }
    assert_eq!(server.count(), 0);
    world.run(&["rm", &format!("{}/file", server.url())]).ok();
    // A server refuses to delete a directory without what is in it.
    assert!(server.heads()[0].to_ascii_lowercase().contains("\r\ndepth: 0\r\n"), "{:?}", server.heads());
    world.run(&["rm", &format!("{}/locked", server.url())]).fails(1, &["locked", "207"]);
}
