//! `serve` and `cp` used together, in common setups.

use crate::support;

use std::io::{Read, Write};

use firstbyte_testkit::{ACCESS_KEY, BUCKET, SECRET_KEY, bytes, until};
use support::World;
use support::place::Place;
use support::servers::S3;

/// Starts our own server with access keys, below a base path, as it would be behind a reverse
/// proxy.
fn below_a_base_path(world: &World) -> S3 {
    let keys = world.write("keys", format!("{ACCESS_KEY} {SECRET_KEY} write\n").as_bytes());
    S3::ours_with(&["--write", "--base-path", "/some/files", "--auth", keys.to_str().unwrap()])
}

#[test]
fn signed_copies_go_both_ways_below_a_base_path() {
    let keys = World::new();
    let s3 = below_a_base_path(&keys);
    let world = World::with_s3(&s3);
    // The small object needs one request, the large one several parts.
    for (name, length) in [("small ü+", 1_000), ("large", 40 << 20)] {
        let content = bytes(1, length);
        world.write("source", &content);
        let there = format!("s3://bucket/dir/{name}");
        let receipt = world.run(&["--json", "cp", "source", &there]).ok().receipt();
        assert_eq!(receipt["verified"], "full", "{receipt}");
        assert!(std::fs::read(s3.root.join("bucket/dir").join(name)).unwrap() == content);
        world.run(&["cp", &there, "back"]).ok();
        assert!(world.read("back") == content);
        world.run(&["cp", &there, "s3://bucket/copied"]).ok();
        assert!(std::fs::read(s3.root.join("bucket/copied")).unwrap() == content);
    }
    world.run(&["cp", "-r", "s3://bucket/dir/", "listed"]).ok();
    assert_eq!(world.names(), ["back", "listed/large", "listed/small ü+", "source"]);
}

#[test]
fn below_a_base_path_a_wrong_secret_and_a_missing_right_are_refused() {
    let keys = World::new();
    let s3 = below_a_base_path(&keys);
    let mut world = World::with_s3(&s3);
    world.write("source", b"content");
    world.set("AWS_SECRET_ACCESS_KEY", "wrong");
    world.run(&["cp", "source", "s3://bucket/x"]).fails(1, &["s3://bucket/x", "denied"]);
    world.run(&["--no-sign-request", "cp", "source", "s3://bucket/x"]).fails(1, &["s3://bucket/x", "denied"]);
    assert!(!s3.root.join("bucket/x").exists());
}

#[test]
fn an_object_from_the_year_11476_is_shown_and_copied() {
    let s3 = S3::ours_with(&["--write"]);
    let world = World::with_s3(&s3);
    let far = std::time::UNIX_EPOCH + std::time::Duration::from_secs(300_000_000_000);
    // `cp` sends the time of the file. /dev/shm stores times as 64-bit numbers, so it can store
    // this time.
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let source = memory.path().join("source");
    std::fs::write(&source, "content").unwrap();
    std::fs::File::options().write(true).open(&source).unwrap().set_modified(far).unwrap();
    world.run(&["cp", source.to_str().unwrap(), "s3://bucket/far"]).ok();
    for place in
        ["s3://bucket/far".to_owned(), format!("{}/bucket/far", s3.url), source.display().to_string()]
    {
        let shown = world.run(&["stat", &place]).ok();
        assert!(
            String::from_utf8_lossy(&shown.stdout).contains("+11476-08-15T05:20:00Z"),
            "{place}: {}",
            String::from_utf8_lossy(&shown.stdout)
        );
    }
    for verb in [&["ls", "-l"][..], &["du"], &["--json", "ls"]] {
        world.run(&[verb, &["s3://bucket/"]].concat()).ok();
    }
    world.run(&["cp", "s3://bucket/far", "back"]).ok();
    assert_eq!(world.read("back"), b"content");
}

#[test]
fn a_client_that_signs_nothing_reads_a_directory_served_as_one_bucket() {
    // The served directory contains a directory with the same name as the bucket. Its content must
    // not be served as the bucket.
    let s3 = S3::ours_with(&["--write", "--bucket", BUCKET]);
    let (small, large) = (bytes(1, 1_000), bytes(2, 40 << 20));
    std::fs::write(s3.root.join("small"), &small).unwrap();
    std::fs::write(s3.root.join("large"), &large).unwrap();
    std::fs::write(s3.root.join(BUCKET).join("small"), "inner").unwrap();
    let mut world = World::with_s3(&s3);
    world.set("FIRSTBYTE_NO_SIGN_REQUEST", "1");
    for (name, content) in [("small", &small), ("large", &large)] {
        world.run(&["cp", &format!("s3://{BUCKET}/{name}"), name]).ok();
        assert!(world.read(name) == *content, "{name}");
        let part = world.run(&["cat", "--range", "100-199", &format!("s3://{BUCKET}/{name}")]).ok();
        assert!(part.stdout == content[100..200], "{name}");
    }
    world.run(&["cp", "-r", &format!("s3://{BUCKET}/"), "all"]).ok();
    assert!(world.read("all/small") == small && world.read(&format!("all/{BUCKET}/small")) == b"inner");
    world.run(&["cp", "small", &format!("s3://{BUCKET}/written/small")]).ok();
    assert!(std::fs::read(s3.root.join("written/small")).unwrap() == small);
    let place = Place::new(world);
    place.mount(&format!("s3://{BUCKET}"), &["--cache", "cache"]);
    assert!(place.read("small").unwrap() == small);
    assert!(place.read("large").unwrap() == large);
    assert!(place.read(&format!("{BUCKET}/small")).unwrap() == b"inner");
    place.unmount().ok();
}

#[test]
fn the_access_log_shows_no_signature() {
    let keys = World::new();
    let file = keys.write("keys", format!("{ACCESS_KEY} {SECRET_KEY} write\n").as_bytes());
    let log = std::fs::File::create(keys.path("log")).unwrap();
    let s3 = S3::ours_logging(&["--access-log", "--auth", file.to_str().unwrap()], log);
    std::fs::write(s3.root.join(BUCKET).join("x"), "content").unwrap();
    let world = World::with_s3(&s3);
    assert_eq!(world.run(&["cat", &format!("s3://{BUCKET}/x")]).ok().stdout, b"content");
    let signature = "5ec2e75ec2e75ec2e75ec2e7";
    let forged = format!("X-Amz-Credential=mallory%0Ax%2F20260101&X-Amz-Signature={signature}");
    let mut stream = std::net::TcpStream::connect(s3.address()).unwrap();
    let request =
        format!("GET /{BUCKET}/x?{forged} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    // The thread of each connection writes its line of the log after it has sent the response.
    let log = || String::from_utf8(keys.read("log")).unwrap();
    until("both lines", || log().contains("X-Amz-Signature=") && log().contains(&format!(" {ACCESS_KEY} ")));
    let log = log();
    assert!(log.contains("X-Amz-Signature=..."), "{log}");
    assert!(!log.contains(signature) && !log.contains(SECRET_KEY), "{log}");
    // Clients must not be able to forge lines of the log: neither the forged access key nor a line
    // that begins with the text after the forged line end appears.
    assert!(!log.contains(" mallory") && !log.lines().any(|line| line.starts_with('x')), "{log}");
}
