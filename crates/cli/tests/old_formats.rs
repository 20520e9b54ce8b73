//! Files that other builds have written. Older ones are read or dropped, newer ones are refused by
//! name, as docs/stability.md promises.

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};

use firstbyte_testkit::bytes;
use support::servers::S3;
use support::{World, names_below};

/// A journal of a download that does not record the service of its source comes from an older
/// build, and is not continued. The copy starts from the beginning, and its result is right.
#[test]
fn a_journal_without_a_service_is_not_continued_and_the_copy_is_right() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    let content = bytes(5, 48 << 20);
    world.write("big", &content);
    world.run(&["cp", "big", "s3://bucket/big"]).ok();
    let cut = ["--json", "cp", "s3://bucket/big", "copy", "--limit-rate", "12MiB", "--deadline", "2s"];
    let ran = world.run(&cut);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let journal = world.path(".copy.firstbyte-journal");
    let written = fs::read(&journal).unwrap();
    let end = written.iter().position(|byte| *byte == b'\n').unwrap();
    let mut header: serde_json::Value = serde_json::from_slice(&written[..end]).unwrap();
    header.as_object_mut().unwrap().remove("service").unwrap();
    fs::write(&journal, [header.to_string().as_bytes(), &written[end..]].concat()).unwrap();
    let receipt = world.run(&["--json", "cp", "s3://bucket/big", "copy"]).ok().receipt();
    assert_eq!(receipt["resumed_bytes"], 0, "{receipt}");
    assert!(world.read("copy") == content && !journal.exists());
}

#[test]
fn an_old_cache_is_emptied_and_a_newer_one_refused() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    world.write("some", &bytes(3, 300_000));
    world.run(&["cp", "some", "s3://bucket/some"]).ok();
    world.run(&["hydrate", "--wait", "s3://bucket/some", "--cache", "cache"]).ok();
    let format = world.path("cache/format");
    let title = fs::read_to_string(&format).unwrap();
    let number: u32 = title.trim().rsplit(' ').next().unwrap().parse().unwrap();
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/stability.md")).unwrap();
    assert!(page.contains(&format!("| cache | {number}, ")), "the number in docs/stability.md");
    // Format 2: the name of a cached object does not contain its store.
    fs::write(&format, title.replace(&number.to_string(), "2")).unwrap();
    let status =
        world.run(&["--json", "hydrate", "--wait", "s3://bucket/some", "--cache", "cache"]).ok().receipt();
    assert_eq!(status["bytes"], 300_000, "{status}");
    fs::write(&format, title.replace(&number.to_string(), "99")).unwrap();
    let ran = world.run(&["hydrate", "--wait", "s3://bucket/some", "--cache", "cache"]);
    ran.fails(1, &["cache format 99", &format!("knows {number}")]);
}

#[test]
fn a_receipt_of_a_newer_schema_is_refused_with_its_number() {
    let world = World::new();
    world.write("tree/a", b"content");
    world.run(&["plan", "tree/", "--shards", "1", "--out", "manifest.parquet"]).ok();
    let receipt =
        ["cp", "--manifest", "manifest.parquet", "--shard", "0/1", "out", "--receipt", "receipt.json"];
    world.run(&receipt).ok();
    world.run(&["receipts", "merge", "manifest.parquet", "receipt.json"]).ok();
    let text = String::from_utf8(world.read("receipt.json")).unwrap();
    fs::write(world.path("newer.json"), text.replace("\"schema\":1", "\"schema\":2")).unwrap();
    world.run(&["receipts", "merge", "manifest.parquet", "newer.json"]).fails(1, &["schema 2", "newer.json"]);
}

/// Returns the path of a file that build 5c495d8 of 2026-11-26 wrote.
fn kept(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/formats/5c495d8")).join(name)
}

/// Copies a directory with files that this build wrote.
fn restore(from: &Path, to: &Path) {
    for name in names_below(from) {
        let path = to.join(&name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(from.join(&name), path).unwrap();
    }
}

#[test]
fn a_cache_of_an_older_build_is_emptied_and_used() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    restore(&kept("cache"), &world.path("cache"));
    let old = names_below(&world.path("cache/objects"));
    assert_eq!(fs::read_to_string(world.path("cache/format")).unwrap(), "firstbyte cache 2\n");
    let content = bytes(4, 140_000);
    world.write("large", &content);
    world.run(&["cp", "large", "s3://bucket/large"]).ok();
    let receipt =
        world.run(&["--json", "hydrate", "--wait", "s3://bucket/large", "--cache", "cache"]).ok().receipt();
    assert_eq!(
        (receipt["objects"].as_u64(), receipt["bytes"].as_u64()),
        (Some(1), Some(140_000)),
        "{receipt}"
    );
    let new = names_below(&world.path("cache/objects"));
    assert!(old.iter().all(|name| !new.contains(name)), "{new:?}");
    assert_ne!(fs::read_to_string(world.path("cache/format")).unwrap(), "firstbyte cache 2\n");
}

#[test]
fn a_cache_of_an_older_build_is_left_as_it_is_by_verbs_that_only_read_and_release() {
    let world = World::new();
    restore(&kept("cache"), &world.path("cache"));
    let files = || -> Vec<_> {
        names_below(&world.path("cache"))
            .into_iter()
            .map(|name| (world.read(&format!("cache/{name}")), name))
            .collect()
    };
    let before = files();
    for verb in [
        &["status"][..],
        &["status", "-r"],
        &["status", "--verify"],
        &["status", "s3://bucket/large"],
        &["release", "s3://bucket/large"],
        &["release", "-r", "s3://bucket"],
        &["release", "--all"],
    ] {
        let ran = world.run(&[verb, &["--cache", "cache"]].concat()).ok();
        assert!(ran.stderr.contains("older version"), "{verb:?}: {ran:?}");
        assert!(files() == before, "{verb:?}: {:?}", names_below(&world.path("cache")));
        world.run(&[verb, &["--cache", "none"]].concat()).ok();
        assert!(!world.path("none").exists(), "{verb:?}");
    }
}

#[test]
fn a_journal_of_an_older_build_is_not_taken_for_bytes_of_another_object() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    let content = bytes(6, 48 << 20);
    world.write("big", &content);
    world.run(&["cp", "big", "s3://bucket/big"]).ok();
    fs::copy(kept("journal"), world.path(".copy.firstbyte-journal")).unwrap();
    fs::write(world.path(".copy.firstbyte-part"), vec![0; 48 << 20]).unwrap();
    let receipt = world.run(&["--json", "cp", "s3://bucket/big", "copy"]).ok().receipt();
    assert_eq!(receipt["resumed_bytes"], 0, "{receipt}");
    assert!(world.read("copy") == content);
}

#[test]
fn a_manifest_and_a_receipt_of_an_older_build_are_read() {
    let world = World::new();
    let (manifest, receipt) = (kept("manifest.parquet"), kept("receipt.json"));
    let words = ["--json", "receipts", "merge", manifest.to_str().unwrap(), receipt.to_str().unwrap()];
    let merged = String::from_utf8(world.run(&words).ok().stdout).unwrap();
    let merged: serde_json::Value = serde_json::from_str(merged.lines().last().unwrap()).unwrap();
    assert_eq!(merged["done"]["objects"], 2, "{merged}");
    assert_eq!(merged["missing"]["objects"], 0, "{merged}");
}
