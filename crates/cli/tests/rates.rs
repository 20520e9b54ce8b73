//! Rate limits hold from the first second. At any time, the bytes that have passed are at most the
//! rate times the elapsed time, plus one second's worth.

use crate::support;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::time::Instant;

use firstbyte_link::{Link, LinkConfig, RunningLink};
use firstbyte_testkit::{until, write_file};
use support::World;
use support::place::Place;
use support::servers::S3;

const RATE: u64 = 3_000_000;
/// Bytes of HTTP heads and listings, which the rate does not limit.
const OVERHEAD_BYTES: u64 = 128 << 10;

/// Starts a link without limits, which counts bytes.
fn counting(server: &S3) -> RunningLink {
    Link::start(LinkConfig::new("127.0.0.1:0".parse().unwrap(), server.address())).unwrap()
}

fn world_behind(link: &RunningLink, server: &S3) -> World {
    let mut world = World::with_s3(server);
    world.set("FIRSTBYTE_ENDPOINT_URL", &format!("http://{}", link.address()));
    world
}

/// Checks that the rate is not exceeded at any time, until four seconds' worth of bytes has passed.
#[track_caller]
fn assert_held(passed: impl Fn() -> u64) {
    until("bytes pass", || passed() >= OVERHEAD_BYTES);
    let began = Instant::now();
    until("four seconds' worth passes", || {
        let bytes = passed();
        let allowed = RATE as f64 * (began.elapsed().as_secs_f64() + 1.0) + (2 * OVERHEAD_BYTES) as f64;
        assert!(bytes as f64 <= allowed, "{bytes} bytes after {:?}", began.elapsed());
        bytes > 4 * RATE
    });
}

/// The rate is so low that every machine can reach it.
#[test]
fn a_run_at_its_rate_says_that_the_rate_limited_it() {
    let server = S3::ours();
    write_file(&server.root.join("bucket/object"), 1, 250_000).unwrap();
    let world = World::with_s3(&server);
    let ran = world.run(&["--json", "cp", "--limit-rate", "50KB", "s3://bucket/object", "copy"]).ok();
    assert_eq!(ran.receipt()["bound_by"], "limit", "{ran:?}");
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_download_keeps_to_its_rate_from_the_first_second() {
    let server = S3::ours();
    write_file(&server.root.join("bucket/big"), 1, 256 << 20).unwrap();
    let link = counting(&server);
    let world = world_behind(&link, &server);
    let _run = Killed(world.spawn(&["cp", "--limit-rate", "3MB", "s3://bucket/big", "out"]));
    assert_held(|| link.counters().bytes_to_client);
}

#[test]
fn a_tree_of_small_objects_keeps_to_its_rate_from_the_first_second() {
    let server = S3::ours();
    for number in 0..400 {
        write_file(&server.root.join(format!("bucket/{number}")), number, 100_000).unwrap();
    }
    let link = counting(&server);
    let world = world_behind(&link, &server);
    let _run = Killed(world.spawn(&["sync", "--limit-rate", "3MB", "s3://bucket/", "out"]));
    assert_held(|| link.counters().bytes_to_client);
}

#[test]
fn an_upload_keeps_to_its_rate_from_the_first_second() {
    let server = S3::ours();
    let link = counting(&server);
    let world = world_behind(&link, &server);
    write_file(&world.write("source", b""), 2, 256 << 20).unwrap();
    let _run = Killed(world.spawn(&["cp", "--limit-rate", "3MB", "source", "s3://bucket/key"]));
    assert_held(|| link.counters().bytes_to_server);
}

#[test]
fn an_upload_of_a_stream_keeps_to_its_rate_from_the_first_second() {
    let server = S3::ours();
    let link = counting(&server);
    let world = world_behind(&link, &server);
    write_file(&world.write("source", b""), 3, 64 << 20).unwrap();
    let mut run = world.command(&["cp", "--limit-rate", "3MB", "-", "s3://bucket/key"]);
    let run = run.stdin(fs::File::open(world.path("source")).unwrap());
    let _run = Killed(run.spawn().unwrap());
    assert_held(|| link.counters().bytes_to_server);
}

#[test]
fn a_copy_between_services_keeps_to_its_rate_in_both_directions() {
    let server = S3::ours();
    write_file(&server.root.join("bucket/big"), 4, 128 << 20).unwrap();
    let link = counting(&server);
    let world = world_behind(&link, &server);
    let source = format!("http://{}/bucket/big", link.address());
    let _run = Killed(world.spawn(&["cp", "--limit-rate", "3MB", &source, "s3://bucket/copy"]));
    std::thread::scope(|scope| {
        scope.spawn(|| assert_held(|| link.counters().bytes_to_client));
        scope.spawn(|| assert_held(|| link.counters().bytes_to_server));
    });
}

#[test]
fn hydration_keeps_to_its_rate_from_the_first_second() {
    let server = S3::ours();
    write_file(&server.root.join("bucket/big"), 5, 256 << 20).unwrap();
    let link = counting(&server);
    let world = world_behind(&link, &server);
    let args = ["hydrate", "--wait", "--cache", "cache", "--limit-rate", "3MB", "s3://bucket/big"];
    let _run = Killed(world.spawn(&args));
    assert_held(|| link.counters().bytes_to_client);
}

#[test]
fn hydration_below_a_mount_keeps_to_its_rate_from_the_first_second() {
    let server = S3::ours();
    write_file(&server.root.join("bucket/big"), 6, 256 << 20).unwrap();
    let link = counting(&server);
    let place = Place::new(world_behind(&link, &server));
    place.mount("s3://bucket", &["--cache", "cache"]);
    {
        let _run = Killed(place.world.spawn(&["hydrate", "--wait", "--limit-rate", "3MB", "mnt/big"]));
        assert_held(|| link.counters().bytes_to_client);
    }
    let lazy = place.world.run(&["unmount", "--lazy", "mnt"]);
    assert_eq!(lazy.code, Some(0), "{lazy:?}");
}

/// Reads a server's response to one GET on a thread. Returns a function that returns the number of
/// bytes read so far.
fn reading(server: &S3) -> impl Fn() -> u64 + use<> {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    let mut stream = TcpStream::connect(server.address()).unwrap();
    write!(stream, "GET /bucket/big HTTP/1.1\r\nhost: {}\r\n\r\n", server.address()).unwrap();
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        while let Ok(read) = stream.read(&mut buffer) {
            if read == 0 {
                return;
            }
            counted.fetch_add(read as u64, Ordering::Relaxed);
        }
    });
    move || count.load(Ordering::Relaxed)
}

#[test]
fn a_server_keeps_to_the_rate_of_all_connections_from_the_first_second() {
    let server = S3::ours_with(&["--limit-rate", "3MB"]);
    write_file(&server.root.join("bucket/big"), 7, 64 << 20).unwrap();
    let readers: Vec<_> = (0..16).map(|_| reading(&server)).collect();
    assert_held(|| readers.iter().map(|count| count()).sum());
}

#[test]
fn a_server_keeps_to_the_rate_of_each_connection_from_the_first_second() {
    let server = S3::ours_with(&["--limit-connection-rate", "3MB"]);
    write_file(&server.root.join("bucket/big"), 8, 64 << 20).unwrap();
    let (one, other) = (reading(&server), reading(&server));
    std::thread::scope(|scope| {
        scope.spawn(|| assert_held(one));
        scope.spawn(|| assert_held(other));
    });
}
