//! Receipts: every field that applies, in every verb.

use crate::support;

use firstbyte_testkit::bytes;
use support::World;
use support::servers::S3;

const ALWAYS: [&str; 13] = [
    "verb",
    "source",
    "objects",
    "bytes",
    "skipped",
    "seconds",
    "bytes_per_second",
    "requests",
    "retries",
    "hedged",
    "resumed_bytes",
    "reread_bytes",
    "peak_memory_bytes",
];

#[test]
fn a_copy_s_receipt_has_every_field() {
    let s3 = S3::minio();
    let world = World::with_s3(&s3);
    world.write("some", &bytes(1, 3 << 20));
    world.run(&["cp", "some", "s3://bucket/some"]).ok();
    let receipt = world.run(&["--json", "cp", "s3://bucket/some", "back"]).ok().receipt();
    for field in ALWAYS.iter().chain(&[
        "cpu_seconds",
        "failed",
        "destination",
        "first_byte_seconds",
        "verified",
        "version",
    ]) {
        assert!(receipt.get(field).is_some(), "{field} is missing in {receipt}");
    }
    assert_eq!(receipt["objects"], 1);
    assert_eq!(receipt["bytes"], 3 << 20);
    assert!(receipt["requests"].as_u64().unwrap() >= 1);
    assert!(receipt["version"].as_str().unwrap().contains("etag"), "{receipt}");
}

#[test]
fn a_failed_copy_s_receipt_names_what_failed_and_why() {
    let world = World::new();
    let ran = world.run(&["--json", "cp", "nowhere", "out"]);
    let receipt = ran.receipt();
    let ran = ran.fails(1, &["nowhere"]);
    assert_eq!(receipt["failed"].as_array().unwrap().len(), 1);
    assert!(receipt["failed"][0]["error"].as_str().unwrap().contains("not found"), "{receipt}");
    assert_eq!(ran.stdout.iter().filter(|byte| **byte == b'\n').count(), 1);
}

#[test]
fn a_receipt_never_mixes_with_data_on_standard_output() {
    let world = World::new();
    world.write("some", b"content");
    let ran = world.run(&["--json", "cp", "some", "-"]);
    assert_eq!(ran.stdout, b"content");
    assert!(ran.stderr.contains("\"verb\":\"cp\""), "{ran:?}");
}

#[test]
fn people_get_one_line_and_quiet_gets_none() {
    let world = World::new();
    world.write("some", b"content");
    let ran = world.run(&["cp", "some", "one"]).ok();
    let line = String::from_utf8(ran.stdout).unwrap();
    assert!(line.starts_with("copied 7 B in ") && line.lines().count() == 1, "{line}");
    assert_eq!(ran.stderr, "");
    let ran = world.run(&["-q", "cp", "some", "two"]).ok();
    assert!(ran.stdout.is_empty() && ran.stderr.is_empty(), "{ran:?}");
}

#[test]
fn twice_verbose_shows_every_request_and_what_was_planned() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    world.write("source", &bytes(3, 17 << 20));
    let logged = world.run(&["-vv", "cp", "source", "s3://bucket/x"]).ok().stderr;
    for fact in [
        "request operation=CreateMultipartUpload",
        "request operation=UploadPart",
        "parts=3",
        "run route=Network",
    ] {
        assert!(logged.contains(fact), "{fact} is not in:\n{logged}");
    }
    let logged = world.run(&["-v", "cp", "source", "s3://bucket/x"]).ok().stderr;
    assert!(!logged.contains("request operation"), "{logged}");
}

#[test]
fn stat_prints_the_same_facts_aligned_and_as_json() {
    let world = World::new();
    world.write("some", b"content");
    let json = world.run(&["--json", "stat", "some"]).ok().receipt();
    assert_eq!(json["size"], 7);
    assert_eq!(json["kind"], "file");
    assert_eq!(json["strength"], "strong");
    let text = String::from_utf8(world.run(&["stat", "some"]).ok().stdout).unwrap();
    assert!(text.lines().any(|line| line.starts_with("size ") && line.contains("7 (7 B)")), "{text}");
    let ran = world.run(&["stat", "some", "nowhere"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
}

#[test]
fn completions_and_help_are_there_for_every_verb() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = String::from_utf8(world.run(&["completions", shell]).ok().stdout).unwrap();
        assert!(script.contains("firstbyte") && script.contains("no-sign-request"), "{shell}");
    }
    for verb in ["cp", "sync", "cat", "stat", "plan", "serve", "link"] {
        let help = String::from_utf8(world.run(&[verb, "--help"]).ok().stdout).unwrap();
        assert!(help.contains("Example"), "{verb}");
    }
}
