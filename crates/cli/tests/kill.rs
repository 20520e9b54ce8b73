//! `kill -9` at any moment. The next run must resume and give the same result, move few bytes
//! twice, and leave no temporary file.
//!
//! `FIRSTBYTE_KILLS` is the number of kill moments for each direction.

use crate::support;

use firstbyte_testkit::{bytes, count, until, write_file};
use firstbyte_transfer::ChunkPlan;
use support::World;
use support::kills::{Survival, slow_link, survive};
use support::servers::S3;

const LENGTH: u64 = 96 << 20;
/// Maximum number of bytes that a killed download leaves unread in its sockets, in addition to the
/// chunk in flight. A request spans several chunks, and a client that gets no processor time does
/// not read them. Uploads need no such margin, because each part is one request.
const MAX_SOCKET_BYTES: u64 = 4 << 20;

fn kills() -> u64 {
    count("FIRSTBYTE_KILLS", 3)
}

#[test]
fn a_killed_download_from_s3_resumes() {
    let s3 = S3::minio();
    let mut world = World::with_s3(&s3);
    write_file(&world.write("source", b""), 1, LENGTH).unwrap();
    world.run(&["cp", "source", "s3://bucket/big"]).ok();
    for seed in 0..kills() {
        let link = slow_link(&s3, LENGTH);
        world.set("FIRSTBYTE_ENDPOINT_URL", &format!("http://{}", link.address()));
        download_survives(&world, survive(&world, &["s3://bucket/big", "out"], link, LENGTH, seed, 1));
    }
}

#[test]
fn a_killed_download_over_http_resumes() {
    let s3 = S3::ours();
    let world = World::new();
    write_file(&world.write("source", b""), 2, LENGTH).unwrap();
    std::fs::copy(world.path("source"), s3.root.join("bucket/big")).unwrap();
    for seed in 0..kills() {
        let link = slow_link(&s3, LENGTH);
        let url = format!("http://{}/bucket/big", link.address());
        // All runs for one seed use the same link: another port would be another source.
        download_survives(&world, survive(&world, &[&url, "out"], link, LENGTH, seed, 1));
    }
}

#[track_caller]
fn download_survives(world: &World, survival: Survival) {
    survival.assert_bounded(survival.carried.bytes_to_client, &ChunkPlan::download(LENGTH), MAX_SOCKET_BYTES);
    assert!(world.read("out") == world.read("source"));
    assert_eq!(world.names(), ["out", "source"]);
    std::fs::remove_file(world.path("out")).unwrap();
}

#[test]
fn a_killed_upload_resumes_and_leaves_no_parts() {
    let s3 = S3::minio();
    let mut world = World::with_s3(&s3);
    write_file(&world.write("source", b""), 3, LENGTH).unwrap();
    for seed in 0..kills() {
        let link = slow_link(&s3, LENGTH);
        // The program remembers uploads by their destination. So each seed has its own destination,
        // to keep its runs apart from those of other seeds.
        let target = format!("s3://bucket/up{seed}");
        world.set("FIRSTBYTE_ENDPOINT_URL", &format!("http://{}", link.address()));
        let survival = survive(&world, &["source", &target], link, LENGTH, seed, 1);
        survival.assert_bounded(survival.carried.bytes_to_server, &ChunkPlan::upload(LENGTH), 0);
        world.set("FIRSTBYTE_ENDPOINT_URL", &s3.url);
        assert!(world.run(&["cat", &target]).ok().stdout == world.read("source"));
        let stale = world.run(&["--json", "cp", "--abort-stale=0s", "s3://bucket"]).ok().receipt();
        assert_eq!(stale["deleted"], 0, "{stale}");
        assert_eq!(world.names(), ["source"]);
    }
}

#[test]
fn an_upload_abandoned_for_good_is_found_and_aborted() {
    let s3 = S3::minio();
    let mut world = World::with_s3(&s3);
    world.write("source", &bytes(4, 64 << 20));
    let link = slow_link(&s3, 64 << 20);
    world.set("FIRSTBYTE_ENDPOINT_URL", &format!("http://{}", link.address()));
    let mut child = world.spawn(&["cp", "source", "s3://bucket/abandoned"]);
    // Waits until more than one part has been sent.
    until("parts", || link.counters().bytes_to_server >= 20 << 20);
    child.kill().unwrap();
    child.wait().unwrap();
    let receipt = world.run(&["--json", "cp", "--abort-stale=0s", "s3://bucket"]).ok().receipt();
    assert_eq!(receipt["deleted"], 1, "{receipt}");
    let receipt = world.run(&["--json", "cp", "--abort-stale=0s", "s3://bucket"]).ok().receipt();
    assert_eq!(receipt["deleted"], 0, "{receipt}");
}
