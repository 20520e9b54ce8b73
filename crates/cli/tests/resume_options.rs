//! A killed copy is continued only if that gives the same result: with the same options, at the
//! same service.

use crate::support;

use std::fs;
use std::time::SystemTime;

use firstbyte_testkit::{Quirk, QuirkStore, bytes, until};
use support::World;

/// Length of the upload in bytes. It has several parts, some of which a killed run has sent.
const UPLOAD_BYTES: usize = 24 << 20;
/// Rate limit that leaves time for a kill in the middle.
const RATE: &str = "16MB";

fn world_of(store: &QuirkStore) -> World {
    let mut world = World::new();
    world.set("AWS_ACCESS_KEY_ID", "key");
    world.set("AWS_SECRET_ACCESS_KEY", "secret");
    world.set("AWS_REGION", "us-east-1");
    world.set("FIRSTBYTE_ENDPOINT_URL", store.url());
    world
}

/// Starts a copy, and kills it once the store has answered `count` requests whose text contains
/// `text`.
fn kill_after(world: &World, store: &QuirkStore, args: &[&str], text: &str, count: usize) {
    let mut child = world.spawn(args);
    until("requests", || store.requests().iter().filter(|line| line.contains(text)).count() >= count);
    child.kill().unwrap();
    child.wait().unwrap();
}

fn begun_uploads(store: &QuirkStore) -> usize {
    store.requests().iter().filter(|line| line.starts_with("POST") && line.contains("uploads")).count()
}

/// Makes a store and a world. In the world, an upload of `source` to `s3://bucket/key` was killed.
fn killed_upload() -> (QuirkStore, World, Vec<u8>) {
    let store = QuirkStore::start(&[]);
    let world = world_of(&store);
    let content = bytes(1, UPLOAD_BYTES);
    world.write("source", &content);
    let args = ["cp", "source", "s3://bucket/key", "--limit-rate", RATE, "--concurrency", "1"];
    kill_after(&world, &store, &args, "partNumber", 2);
    assert_eq!(store.uploads().len(), 1);
    (store, world, content)
}

#[test]
fn an_upload_with_the_same_options_is_continued() {
    let (store, world, content) = killed_upload();
    let receipt = world.run(&["--json", "cp", "source", "s3://bucket/key"]).ok().receipt();
    assert!(receipt["resumed_bytes"].as_u64().unwrap() > 0, "{receipt}");
    assert!(store.objects()["key"] == content);
    assert_eq!(begun_uploads(&store), 1);
}

#[test]
fn an_upload_with_other_options_starts_anew_and_the_old_one_is_aborted() {
    for (option, header, value) in [
        (["--acl", "bucket-owner-full-control"], "x-amz-acl", "bucket-owner-full-control"),
        (["--sse", "AES256"], "x-amz-server-side-encryption", "AES256"),
        (["--storage-class", "STANDARD_IA"], "x-amz-storage-class", "STANDARD_IA"),
        (["--tag", "a=b"], "x-amz-tagging", "a=b"),
        (["--metadata", "run=7"], "x-amz-meta-run", "7"),
        (["--content-type", "text/csv"], "content-type", "text/csv"),
    ] {
        let (store, world, content) = killed_upload();
        let args = [&["--json", "cp", "source", "s3://bucket/key"][..], &option[..]].concat();
        let receipt = world.run(&args).ok().receipt();
        assert_eq!(receipt["resumed_bytes"].as_u64().unwrap_or(0), 0, "{option:?}");
        assert!(store.objects()["key"] == content);
        assert_eq!(store.headers("key").unwrap().get(header).map(String::as_str), Some(value));
        assert!(store.uploads().is_empty(), "{option:?}: the old upload is aborted");
    }
}

#[test]
fn an_upload_at_another_service_is_neither_continued_nor_aborted() {
    let (first, mut world, content) = killed_upload();
    // The two stores give their uploads the same ids, so only the addresses differ.
    let second = QuirkStore::start(&[]);
    world.set("FIRSTBYTE_ENDPOINT_URL", second.url());
    world.run(&["cp", "source", "s3://bucket/key"]).ok();
    assert!(second.objects()["key"] == content);
    assert_eq!((first.uploads().len(), second.uploads().len()), (1, 0));
    world.set("FIRSTBYTE_ENDPOINT_URL", first.url());
    let receipt = world.run(&["--json", "cp", "source", "s3://bucket/key"]).ok().receipt();
    assert!(receipt["resumed_bytes"].as_u64().unwrap() > 0, "{receipt}");
}

#[test]
fn a_download_from_another_service_starts_anew() {
    let stores = [QuirkStore::start(&[Quirk::NoTags]), QuirkStore::start(&[Quirk::NoTags])];
    // The objects differ only in their service and their content.
    let modified = SystemTime::UNIX_EPOCH;
    let contents = [bytes(2, UPLOAD_BYTES), bytes(3, UPLOAD_BYTES)];
    for (store, content) in stores.iter().zip(&contents) {
        store.insert_at("key", content, modified);
    }
    let mut world = world_of(&stores[0]);
    let args = ["cp", "s3://bucket/key", "copy", "--limit-rate", RATE, "--concurrency", "1"];
    kill_after(&world, &stores[0], &args, "GET /bucket/key", 3);
    world.set("FIRSTBYTE_ENDPOINT_URL", stores[1].url());
    world.run(&["cp", "s3://bucket/key", "copy"]).ok();
    assert!(fs::read(world.path("copy")).unwrap() == contents[1], "bytes of two objects were mixed");
}
