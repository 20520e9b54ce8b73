//! No name that a server or URL contains can make a copy write outside its destination.

use crate::support;

use firstbyte_testkit::{Scripted, ScriptedReply};
use support::{World, names_below};

/// Serves a bucket whose only key is `x/../esc`. Also serves an object `x/..`, and one byte at
/// every other path.
fn bucket() -> Scripted {
    Scripted::start(|_, head| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        let listing = "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>x/../esc</Key>\
                       <LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>\"e\"</ETag><Size>1</Size>\
                       </Contents></ListBucketResult>";
        let headers = ["etag: \"e\"", "last-modified: Thu, 01 Jan 2026 00:00:00 GMT"];
        match head {
            _ if target.contains("list-type") => {
                ScriptedReply::answer("200 OK", &["content-type: application/xml"], listing.as_bytes())
            }
            _ if head.starts_with("HEAD") => {
                ScriptedReply::raw("200 OK", &[&headers[..], &["content-length: 1"]].concat(), b"")
            }
            _ => ScriptedReply::answer("200 OK", &headers, b"x"),
        }
    })
}

fn world(server: &Scripted) -> World {
    let mut world = World::new();
    for (name, value) in [
        ("FIRSTBYTE_ENDPOINT_URL", server.url()),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_REGION", "us-east-1"),
    ] {
        world.set(name, value);
    }
    std::fs::create_dir_all(world.path("d/e")).unwrap();
    world
}

#[test]
fn a_url_whose_name_holds_a_slash_is_copied_into_no_directory() {
    let server = bucket();
    let world = world(&server);
    for name in ["a%2F..%2F..%2Fesc", "..%2fesc", "%2e%2e", "%2E", "b%2Fc", "x%00y"] {
        let url = format!("{}/{name}", server.url());
        for verb in [&["cp"][..], &["cp", "-r"], &["sync"]] {
            let args = [verb, &[url.as_str(), "d/e/"]].concat();
            let ran = world.run(&args);
            assert_ne!(ran.code, Some(0), "{args:?}: {ran:?}");
        }
        world.run(&["cp", &url, "d/e/"]).fails(2, &["no usable file name", "name the destination"]);
        world.run(&["cp", &url, "d/e/named"]).ok();
        assert_eq!(names_below(&world.path("")), ["d/e/named"], "{name}");
        std::fs::remove_file(world.path("d/e/named")).unwrap();
    }
}

#[test]
fn a_key_that_ends_in_dots_is_copied_into_no_directory() {
    let server = bucket();
    let world = world(&server);
    for verb in ["cp", "mv"] {
        world.run(&[verb, "-r", "s3://b/x/..", "d/e/"]).fails(2, &["no usable file name"]);
        world.run(&[verb, "s3://b/x/..", "d/e/"]).fails(2, &["no usable file name"]);
    }
    assert!(names_below(&world.path("")).is_empty());
    // The key `x/../esc` would lead out of the destination, so it is refused.
    for verb in [&["cp", "-r"][..], &["mv", "-r"], &["sync"]] {
        let args = [verb, &["s3://b/x/", "d/e/"]].concat();
        let ran = world.run(&args);
        assert!(ran.code != Some(0) && ran.stderr.contains("another directory"), "{args:?}: {ran:?}");
    }
    assert!(names_below(&world.path("")).is_empty());
    assert!(server.heads().iter().all(|head| !head.starts_with("DELETE") && !head.starts_with("POST")));
}
