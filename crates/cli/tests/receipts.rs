//! Receipts contain every field that applies, for every verb.

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

#[test]
fn requests_of_runs_that_fail_are_counted() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    world.write("f", b"x");
    for words in [
        &["cp", "s3://bucket/none", "out"][..],
        &["cp", "f", "s3://nobucket/f"],
        &["cp", "s3://bucket/none", "s3://bucket/none2", "out/"],
        &["cat", "s3://bucket/none"],
        &["sync", "s3://nobucket/d", "out"],
        &["mv", "s3://bucket/none", "out"],
        &["check", "s3://bucket/none", "s3://bucket/f"],
        &["rm", "-r", "--yes", "s3://nobucket/d"],
        &["rb", "s3://nobucket"],
        &["tree", "s3://nobucket/d"],
    ] {
        let ran = world.run(&[&["--json"], words].concat());
        assert_ne!(ran.code, Some(0), "{words:?}");
        let text = [ran.stdout.clone(), ran.stderr.clone().into_bytes()].concat();
        let text = String::from_utf8(text).unwrap();
        let receipt = text.lines().find(|line| line.starts_with('{'));
        let receipt = receipt.unwrap_or_else(|| panic!("{words:?}: no receipt in {text}"));
        let receipt: serde_json::Value = serde_json::from_str(receipt).unwrap();
        assert!(receipt["requests"].as_u64().unwrap() >= 1, "{words:?}: {receipt}");
    }
}

#[test]
fn retries_are_counted_whatever_is_repeated() {
    for words in [
        &["cp", "s3://bucket/k", "out"][..],
        &["cp", "--compare=none", "f", "s3://bucket/k"],
        &["cat", "s3://bucket/k"],
        &["cp", "-r", "s3://bucket/", "out"],
        &["rm", "s3://bucket/k"],
        &["check", "f", "s3://bucket/k"],
    ] {
        let store = firstbyte_testkit::QuirkStore::start(&[firstbyte_testkit::Quirk::FlakyKeys]);
        store.insert("k", b"content");
        let mut world = World::new();
        world.set("AWS_ENDPOINT_URL", store.url());
        world.set("AWS_ACCESS_KEY_ID", "k");
        world.set("AWS_SECRET_ACCESS_KEY", "s");
        world.write("f", b"other");
        let ran = world.run(&[&["--json"], words].concat());
        let text = [ran.stdout.clone(), ran.stderr.clone().into_bytes()].concat();
        let text = String::from_utf8(text).unwrap();
        // `cat` prints the content before the receipt, and the content does not end in a line feed.
        let receipt =
            text.rfind("{\"schema\"").map_or("{}", |at| text[at..].lines().next().unwrap_or_default());
        let receipt: serde_json::Value = serde_json::from_str(receipt).unwrap();
        assert!(receipt["retries"].as_u64().unwrap_or(0) >= 1, "{words:?}: {text}");
    }
}

#[test]
fn a_list_of_lines_has_seconds_and_bytes_of_its_own() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    world.write("f", &bytes(1, 100_000));
    world.write("list", b"cp f s3://bucket/a\ncp f s3://bucket/b\ncp none s3://bucket/c\nls s3://bucket/\n");
    let ran = world.run(&["--json", "run", "list"]);
    let text = String::from_utf8(ran.stdout.clone()).unwrap();
    let last = text.lines().find(|line| line.contains("\"verb\":\"run\"")).unwrap();
    let receipt: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!((&receipt["objects"], &receipt["bytes"]), (&3.into(), &200_000.into()), "{receipt}");
    assert!(receipt["requests"].as_u64().unwrap() >= 2, "{receipt}");
    // Starting a process takes some milliseconds on every machine.
    assert!(receipt["seconds"].as_f64().unwrap() > 0.001, "{receipt}");
    assert!(receipt["bytes_per_second"].as_f64().unwrap() > 0.0, "{receipt}");
}
