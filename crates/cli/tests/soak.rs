//! Long runs, which are short unless variables set larger values. They test large numbers of
//! clients, of unchanged objects and of bytes. Kills and faulty links are tested in `tests/soak`.
//!
//! Variables, with the values for which the promises hold: `FIRSTBYTE_CLIENTS` (1000) clients that
//! read `FIRSTBYTE_CLIENT_MIB` (16) each, `FIRSTBYTE_UNCHANGED` (100000) objects, and
//! `FIRSTBYTE_SPARSE_GIB` (50).

use crate::support;

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;

use firstbyte_testkit::{bytes, count};
use support::World;
use support::servers::S3;

#[test]
fn many_clients_at_once_get_their_bytes_while_idle_ones_are_held() {
    let (clients, length) = (count("FIRSTBYTE_CLIENTS", 40), count("FIRSTBYTE_CLIENT_MIB", 1) << 20);
    let s3 = S3::ours();
    let content = bytes(1, usize::try_from(length).unwrap());
    std::fs::write(s3.root.join("bucket/shared"), &content).unwrap();
    let half_open: Vec<TcpStream> = (0..clients)
        .map(|_| {
            let mut stream = TcpStream::connect(s3.address()).unwrap();
            stream.write_all(b"GET /bucket/shared HTTP/1.1\r\n").unwrap();
            stream
        })
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..clients {
            let fetch = || assert!(fetch(s3.address()).ends_with(&content), "a client got other bytes");
            std::thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, fetch).unwrap();
        }
    });
    drop(half_open);
    let status = std::fs::read_to_string(format!("/proc/{}/status", s3.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak <= 64 << 10, "serve had {peak} KiB resident");
}

fn fetch(address: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /bucket/shared HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

#[test]
fn a_sync_of_unchanged_objects_only_lists() {
    let objects = count("FIRSTBYTE_UNCHANGED", 2_000);
    // Uses versitygw, because `serve` gives objects the times of their files, which does not prove
    // that a file is unchanged.
    let s3 = S3::versitygw();
    let world = World::with_s3(&s3);
    for number in 0..objects {
        world.write(&format!("tree/{}/{number}", number % 100), b"same");
    }
    // An object that is at least two seconds newer than its file proves that the file is unchanged.
    std::thread::sleep(std::time::Duration::from_millis(3_100));
    world.run(&["sync", "tree", "s3://bucket/tree"]).ok();
    let receipt = world.run(&["--json", "sync", "tree", "s3://bucket/tree"]).ok().receipt();
    assert_eq!(
        (receipt["objects"].as_u64(), receipt["skipped"].as_u64()),
        (Some(0), Some(objects)),
        "{receipt}"
    );
    // Each page of a listing has 1,000 keys. No requests besides the listing are needed.
    assert!(receipt["requests"].as_u64().unwrap() <= objects.div_ceil(1_000) + 1, "{receipt}");
}

#[test]
fn peak_memory_does_not_grow_with_the_object() {
    let largest = count("FIRSTBYTE_SPARSE_GIB", 2);
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    for gib in [1, 10, 50].into_iter().filter(|gib| *gib < largest).chain([largest]) {
        File::create(s3.root.join("bucket/sparse")).unwrap().set_len(gib << 30).unwrap();
        let receipt = world.run(&["--json", "cp", "s3://bucket/sparse", "/dev/null"]).ok().receipt();
        assert_eq!(receipt["bytes"], gib << 30);
        let peak = receipt["peak_memory_bytes"].as_u64().unwrap();
        assert!(peak <= 32 << 20, "{gib} GiB took {peak} bytes of memory");
    }
}
