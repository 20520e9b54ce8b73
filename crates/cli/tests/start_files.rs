//! Start files. A mount records them, `profile` joins them, and a mount, a gateway and `hydrate`
//! fetch what they name.

use crate::support;

use std::fs;

use firstbyte_testkit::{BUCKET, bytes, until};
use serde_json::Value;
use support::World;
use support::place::Place;
use support::servers::S3;

const MIB: u64 = 1 << 20;

/// A bucket with some objects, and a mount that has recorded reads at the beginning of two of them.
struct Recorded {
    server: S3,
    place: Place,
}

impl Recorded {
    fn new() -> Self {
        let server = S3::ours();
        for (key, seed, size) in
            [("db/a", 1, 3 * MIB), ("db/sub/b", 2, MIB), ("db/c", 3, MIB), ("other/x", 4, 10)]
        {
            put(&server, key, seed, size);
        }
        let place = Place::new(World::with_s3(&server));
        place.mount("s3://bucket/db", &["--cache", "first", "--record", "start"]);
        let mut head = vec![0; 100];
        let file = fs::File::open(place.directory.join("sub/b")).unwrap();
        std::io::Read::read_exact(&mut &file, &mut head).unwrap();
        drop(file);
        assert!(place.read("a").unwrap() == bytes(1, 3 << 20));
        place.unmount().ok();
        until("the end of the record", || place.world.read("start").ends_with(b"}\n") && reads(&place) >= 2);
        Self { server, place }
    }

    /// Returns the state of each object in a cache, and the number of its cached bytes.
    fn cached(&self, cache: &str) -> Vec<(String, u64)> {
        let ran = self.place.world.run(&["--json", "status", "-r", "--cache", cache]).ok();
        let rows = String::from_utf8(ran.stdout).unwrap();
        let row = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
        let mut rows: Vec<(String, u64)> = rows
            .lines()
            .map(row)
            .map(|row| (row["location"].as_str().unwrap().to_owned(), row["bytes_here"].as_u64().unwrap()))
            .filter(|(_, here)| *here > 0)
            .collect();
        rows.sort();
        rows
    }
}

fn put(server: &S3, key: &str, seed: u64, size: u64) {
    let path = server.root.join(BUCKET).join(key);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // Each write replaces the file. The new inode makes it a new version.
    let fresh = server.root.join("fresh");
    fs::write(&fresh, bytes(seed, usize::try_from(size).unwrap())).unwrap();
    fs::rename(fresh, path).unwrap();
}

fn reads(place: &Place) -> usize {
    let text = String::from_utf8(place.world.read("start")).unwrap();
    text.lines().filter(|line| line.contains("\"read\":\"a\"") | line.contains("\"read\":\"sub/b\"")).count()
}

#[test]
fn a_mount_fetches_what_an_earlier_one_recorded_and_says_so_beforehand() {
    let recorded = Recorded::new();
    let place = &recorded.place;
    // The start file is stored next to the data, and is read from there.
    place.world.run(&["-q", "cp", "start", "s3://bucket/db/.start"]).ok();
    let options = ["--cache", "second", "--replay", "s3://bucket/db/.start", "--model", "s3-standard"];
    let receipt = place.mount("s3://bucket/db", &options);
    let start = &receipt["start"];
    assert_eq!((start["objects"].as_u64(), start["object_bytes"].as_u64()), (Some(2), Some(4 * MIB)));
    assert!(start["predicted_seconds"].as_f64().unwrap() > 0.0 && start["directories"].as_u64() >= Some(2));
    until("the recorded ranges", || recorded.cached("second").len() == 2);
    until("all of them", || {
        recorded.cached("second").iter().map(|(_, here)| here).sum::<u64>()
            == start["bytes"].as_u64().unwrap()
    });
    let here = recorded.cached("second");
    assert_eq!(here[0], ("s3://bucket/db/a".to_owned(), 3 * MIB));
    assert!(here[1].0.ends_with("sub/b") && here[1].1 < MIB, "{here:?}");
    assert!(place.read("c").unwrap() == bytes(3, 1 << 20));
    place.unmount().ok();
    let words = [
        "mount",
        "s3://bucket/db",
        "mnt",
        "--cache",
        "second",
        "--replay",
        "start",
        "--model",
        "s3-standard",
    ];
    let ran = place.world.run(&words).ok();
    let said = String::from_utf8(ran.stdout).unwrap();
    assert!(said.contains("ready in ") && said.contains(" of 4.00 MiB"), "{said}");
    place.unmount().ok();
}

#[test]
fn a_stale_start_file_falls_back_to_reads_and_one_of_another_place_is_refused() {
    let recorded = Recorded::new();
    let place = &recorded.place;
    put(&recorded.server, "db/a", 9, 2 * MIB);
    place.mount("s3://bucket/db", &["--cache", "second", "--replay", "start", "--log", "log"]);
    until("a line", || String::from_utf8_lossy(&place.world.read("log")).contains("the start file is stale"));
    assert!(place.read("a").unwrap() == bytes(9, 2 << 20));
    assert!(place.read("sub/b").unwrap() == bytes(2, 1 << 20));
    place.unmount().ok();
    for (words, facts) in [
        (["s3://bucket/other", "--replay", "start"], ["s3://bucket/db", "s3://bucket/other"]),
        (["s3://bucket/db", "--replay", "none"], ["none", "not found"]),
        (["s3://bucket/db", "--replay", "s3://bucket/other/x"], ["s3://bucket/other/x", "line 1"]),
    ] {
        let ran =
            place.world.run(&[&["mount"][..], &[words[0], "mnt", "--cache", "third"], &words[1..]].concat());
        assert!(ran.code == Some(1) || ran.code == Some(2), "{ran:?}");
        assert_eq!(ran.stderr.trim_end().lines().count(), 1, "{ran:?}");
        assert!(facts.iter().all(|fact| ran.stderr.contains(fact)), "{facts:?}: {ran:?}");
    }
}

#[test]
fn joined_runs_warm_a_cache_and_a_gateway_and_the_bound_holds() {
    let recorded = Recorded::new();
    let world = &recorded.place.world;
    let merged =
        world.run(&["--json", "profile", "merge", "start", "start", "--max", "2MiB", "--out", "joined"]).ok();
    let receipt: Value = serde_json::from_slice(&merged.stdout).unwrap();
    assert!(receipt["bytes"].as_u64().unwrap() <= 2 * MIB && receipt["left_out_bytes"].as_u64() > Some(0));
    world.run(&["-q", "hydrate", "--replay", "joined", "--cache", "second"]).ok();
    let here: u64 = recorded.cached("second").iter().map(|(_, here)| here).sum();
    assert_eq!(Some(here), receipt["bytes"].as_u64());
    let mut gateway = world
        .command(&[
            "serve",
            "s3://bucket",
            "--cache",
            "third",
            "--listen",
            "127.0.0.1:0",
            "--replay",
            "start",
        ])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    until("the gateway has the ranges", || recorded.cached("third").len() == 2);
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    world.write("old", b"0 10 s3://bucket/db/c\n");
    world.run(&["-q", "hydrate", "--replay", "old", "--cache", "fourth"]).ok();
    assert_eq!(recorded.cached("fourth")[0].0, "s3://bucket/db/c");
    world.run(&["profile", "merge", "start", "old"]).fails(1, &["older release"]);
}

#[test]
fn a_hydrated_file_is_read_by_the_kernel_while_reads_are_recorded() {
    let recorded = Recorded::new();
    let place = &recorded.place;
    place.mount("s3://bucket/db", &["--cache", "first", "--record", "again"]);
    assert!(place.read("a").unwrap() == bytes(1, 3 << 20));
    place.unmount().ok();
    until("the record", || String::from_utf8_lossy(&place.world.read("again")).contains("\"read\":\"a\""));
    let text = String::from_utf8(place.world.read("again")).unwrap();
    assert!(text.contains(&format!("\"to\":{}", 3 * MIB)), "{text}");
}
