//! Web servers and URLs that support GET but not HEAD. Every verb works, and shows a length only if
//! a GET has returned it.

use crate::support;

use firstbyte_testkit::{Quirk, QuirkStore, bytes};
use support::World;
use support::place::Place;

const LEN: usize = 300_000;

/// Quirks with which HEAD is refused, or does not state the true length.
const NO_HEAD: [Quirk; 4] = [Quirk::NoHead, Quirk::HeadDenied, Quirk::HeadsLengthZero, Quirk::HeadsNoLength];

fn store_with(quirks: &[Quirk]) -> (QuirkStore, Vec<u8>, String) {
    let store = QuirkStore::start(quirks);
    let content = bytes(1, LEN);
    store.insert("file", &content);
    store.insert("nothing", b"");
    let url = format!("{}/bucket/file", store.url());
    (store, content, url)
}

#[test]
fn a_file_without_head_is_described_mounted_compared_hydrated_and_copied() {
    for quirk in NO_HEAD {
        let (store, content, url) = store_with(&[quirk]);
        let place = Place::new(World::new());
        let world = &place.world;
        world.write("same", &content);
        let stat = world.run(&["--json", "stat", &url]).ok().receipt();
        assert_eq!(stat["size"], LEN, "{quirk:?}");
        world.run(&["check", &url, "same"]).ok();
        world.run(&["cp", &url, "copy"]).ok();
        assert!(world.read("copy") == content, "{quirk:?}");
        let part = world.run(&["cat", "--range", "-5", &url]).ok();
        assert_eq!(part.stdout, content[LEN - 5..], "{quirk:?}");
        place.mount(&url, &["--cache", "cache"]);
        assert!(place.read("file").unwrap() == content, "{quirk:?}");
        place.unmount().ok();
        world.run(&["hydrate", &url, "--cache", "other", "--wait"]).ok();
        let empty = format!("{}/bucket/nothing", store.url());
        let stat = world.run(&["--json", "stat", &empty]).ok().receipt();
        assert_eq!(stat["size"], 0, "{quirk:?}");
    }
}

#[test]
fn a_server_that_knows_neither_head_nor_ranges_is_read_whole() {
    let (_store, content, url) = store_with(&[Quirk::NoHead, Quirk::NoRanges]);
    let world = World::new();
    assert_eq!(world.run(&["--json", "stat", &url]).ok().receipt()["size"], LEN);
    world.run(&["cp", &url, "copy"]).ok();
    assert!(world.read("copy") == content);
}

#[test]
fn a_missing_file_is_reported_as_missing_without_head() {
    let (store, ..) = store_with(&[Quirk::NoHead]);
    let missing = format!("{}/bucket/absent", store.url());
    World::new().run(&["stat", &missing]).fails(1, &["absent", "not found"]);
}

#[test]
fn lengths_of_head_and_get_that_differ_are_an_error_and_never_a_short_file() {
    let (_store, _, url) = store_with(&[Quirk::HeadsHalfLength]);
    let place = Place::new(World::new());
    place.mount(&url, &["--cache", "cache"]);
    place.read("file").unwrap_err();
    place.unmount().ok();
}

#[test]
fn an_object_of_s3_without_head_is_described_by_get() {
    for quirk in NO_HEAD {
        let (store, content, _) = store_with(&[quirk]);
        let mut world = World::new();
        world.set("FIRSTBYTE_ENDPOINT_URL", store.url());
        world.set("AWS_ACCESS_KEY_ID", "key");
        world.set("AWS_SECRET_ACCESS_KEY", "secret");
        world.set("AWS_REGION", "us-east-1");
        assert_eq!(
            world.run(&["--json", "stat", "s3://bucket/file"]).ok().receipt()["size"],
            LEN,
            "{quirk:?}"
        );
        assert_eq!(
            world.run(&["--json", "stat", "s3://bucket/nothing"]).ok().receipt()["size"],
            0,
            "{quirk:?}"
        );
        world.run(&["mv", "s3://bucket/file", "s3://bucket/moved"]).ok();
        assert!(store.objects()["moved"] == content && !store.objects().contains_key("file"), "{quirk:?}");
    }
}
