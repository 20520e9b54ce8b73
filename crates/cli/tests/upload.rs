//! Uploads whose source changes while they run, and uploads that are killed on a slow link.

use crate::support;

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::process::Child;
use std::time::Duration;

use firstbyte_link::{Link, LinkConfig, LinkRate, RunningLink};
use firstbyte_testkit::{ends_within, until, write_file};
use support::World;
use support::servers::S3;

/// Time within which a failure counts as noticed at once. The rest of the upload would take longer.
const MAX_FAILURE_TIME: Duration = Duration::from_secs(4);

/// Makes a server behind a link with `rate` bytes per second, and a world that uses the server.
fn behind(rate: u64) -> (S3, RunningLink, World) {
    let server = S3::ours();
    let mut world = World::with_s3(&server);
    let config = LinkConfig::new("127.0.0.1:0".parse().unwrap(), server.address());
    let rate = Some(LinkRate::bytes_per_second(rate));
    let link = Link::start(LinkConfig { rate, ..config }).unwrap();
    world.set("FIRSTBYTE_ENDPOINT_URL", &format!("http://{}", link.address()));
    (server, link, world)
}

fn wait_for_bytes(link: &RunningLink, bytes: u64) {
    until("bytes", || link.counters().bytes_to_server >= bytes);
}

/// Waits until a run ends, which must be soon. Returns its standard error.
fn fails_at_once(mut child: Child) -> String {
    let status = ends_within(MAX_FAILURE_TIME, &mut child).expect("an end at once");
    let mut message = String::new();
    child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    assert_eq!(status.code(), Some(1), "{message}");
    message
}

#[test]
fn a_source_that_shrinks_ends_its_upload_in_parts_at_once() {
    let (_server, link, world) = behind(8_000_000);
    let source = world.write("source", b"");
    write_file(&source, 1, 48 << 20).unwrap();
    let child = world.spawn(&["cp", "source", "s3://bucket/key"]);
    wait_for_bytes(&link, 6 << 20);
    OpenOptions::new().write(true).open(&source).unwrap().set_len(1 << 20).unwrap();
    let message = fails_at_once(child);
    assert!(message.contains("source") && message.contains("changed while it was read"), "{message}");
}

#[test]
fn a_source_that_shrinks_ends_its_upload_in_one_request_at_once() {
    let (_server, link, world) = behind(2_000_000);
    let source = world.write("source", b"");
    write_file(&source, 2, 12 << 20).unwrap();
    let child = world.spawn(&["cp", "source", "s3://bucket/key"]);
    wait_for_bytes(&link, 1 << 20);
    OpenOptions::new().write(true).open(&source).unwrap().set_len(4 << 20).unwrap();
    let message = fails_at_once(child);
    assert!(message.contains("source") && message.contains("changed while it was read"), "{message}");
}

#[test]
fn a_source_that_grows_replaces_nothing_and_the_message_names_the_way_out() {
    let (server, link, world) = behind(8_000_000);
    std::fs::write(server.root.join("bucket/key"), b"old").unwrap();
    let source = world.write("source", b"");
    write_file(&source, 4, 48 << 20).unwrap();
    let child = world.spawn(&["cp", "source", "s3://bucket/key"]);
    wait_for_bytes(&link, 6 << 20);
    OpenOptions::new().append(true).open(&source).unwrap().write_all(b"a line").unwrap();
    let message = fails_at_once(child);
    assert!(message.contains("copy it to another file first"), "{message}");
    assert_eq!(std::fs::read(server.root.join("bucket/key")).unwrap(), b"old");
}

#[test]
fn a_byte_changed_in_place_during_an_upload_is_reported_as_a_change() {
    let (_server, link, world) = behind(4_000_000);
    let source = world.write("source", b"");
    write_file(&source, 3, 14 << 20).unwrap();
    let child = world.spawn(&["cp", "source", "s3://bucket/key"]);
    wait_for_bytes(&link, 1 << 20);
    let last = (14 << 20) - 1;
    let mut byte = [0];
    let file = OpenOptions::new().read(true).write(true).open(&source).unwrap();
    file.read_exact_at(&mut byte, last).unwrap();
    file.write_all_at(&[!byte[0]], last).unwrap();
    let message = fails_at_once(child);
    assert!(message.contains("source") && message.contains("changed while it was read"), "{message}");
}

#[test]
fn an_upload_killed_on_a_thin_link_has_finished_most_of_what_it_sent() {
    let (server, link, world) = behind(8_000_000);
    let source = world.write("source", b"");
    write_file(&source, 4, 96 << 20).unwrap();
    let mut child = world.spawn(&["cp", "source", "s3://bucket/key"]);
    wait_for_bytes(&link, 56 << 20);
    child.kill().unwrap();
    child.wait().unwrap();
    // The new link, without a limit, must have the same address, because another address would be
    // another service.
    let address = link.address();
    drop(link);
    let _link = Link::start(LinkConfig::new(address, server.address())).unwrap();
    let receipt = world.run(&["--json", "cp", "source", "s3://bucket/key"]).ok().receipt();
    let resumed = receipt["resumed_bytes"].as_u64().unwrap();
    assert!(resumed >= 24 << 20, "{receipt}");
}
