//! `hydrate`, `release` and `status` as users run them, on locations and on paths under a mount.

use crate::support;

use std::fs;
use std::path::PathBuf;

use firstbyte_link::{Link, LinkConfig, LinkRate};
use firstbyte_testkit::{BUCKET, bytes, until};
use serde_json::Value;
use support::servers::S3;
use support::{Ran, World};

const MIB: u64 = 1 << 20;

/// Makes a world whose bucket has `big`, which is a little larger than 5 MiB, and three files below
/// `run/`.
fn world(server: &S3) -> World {
    let bucket = server.root.join(BUCKET);
    fs::create_dir_all(bucket.join("run")).unwrap();
    fs::write(bucket.join("big"), bytes(1, 5 << 20 | 77)).unwrap();
    for number in 0..3 {
        fs::write(bucket.join(format!("run/{number}.dat")), bytes(10 + number, 30_000)).unwrap();
    }
    World::with_s3(server)
}

/// Returns the rows that `status` prints with `args`, one row per object.
fn status(world: &World, args: &[&str]) -> Vec<Value> {
    let ran = world.run(&[&["--json", "status", "--cache", "cache"], args].concat()).ok();
    String::from_utf8(ran.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn hydrate(world: &World, args: &[&str]) -> Ran {
    world.run(&[&["--json", "hydrate", "--cache", "cache"], args].concat())
}

#[test]
fn an_object_is_brought_here_found_and_let_go() {
    let server = S3::ours();
    let world = world(&server);
    let before = status(&world, &["s3://bucket/big"]);
    assert_eq!((before[0]["state"].as_str(), before[0]["bytes_here"].as_u64()), (Some("released"), Some(0)));

    let receipt = hydrate(&world, &["s3://bucket/big"]).ok().receipt();
    assert_eq!((receipt["objects"].as_u64(), receipt["bytes"].as_u64()), (Some(1), Some(5 << 20 | 77)));
    let row = &status(&world, &["s3://bucket/big"])[0];
    assert_eq!((row["state"].as_str(), row["bytes_here"].as_u64()), (Some("hydrated"), Some(5 << 20 | 77)));

    // A second run fetches nothing, because all bytes are in the cache.
    let again = hydrate(&world, &["s3://bucket/big"]).ok().receipt();
    assert_eq!(again["resumed_bytes"], again["bytes"]);

    let released = world.run(&["--json", "release", "--cache", "cache", "s3://bucket/big"]).ok().receipt();
    assert_eq!(released["objects"], 1);
    assert_eq!(status(&world, &["s3://bucket/big"])[0]["state"], "released");
    assert!(status(&world, &[]).is_empty());
}

#[test]
fn status_alone_sums_up_the_cache_and_lists_it_with_recursive() {
    let server = S3::ours();
    let world = world(&server);
    let text = |args: &[&str]| {
        let ran = world.run(&[&["status", "--cache", "cache"], args].concat()).ok();
        String::from_utf8(ran.stdout).unwrap()
    };
    assert!(text(&[]).starts_with("no cache yet"), "{}", text(&[]));
    hydrate(&world, &["--pin", "s3://bucket/big"]).ok();
    hydrate(&world, &["-r", "s3://bucket/run/"]).ok();
    let summary = text(&[]);
    for line in ["hydrated  4 objects, 5.09 MiB", "partial   0 objects", "pinned    1 object\n"] {
        assert!(summary.contains(line), "{line}: {summary}");
    }
    assert!(!summary.contains("s3://"), "{summary}");
    assert_eq!(text(&["-r"]).lines().filter(|line| line.contains("s3://")).count(), 4);
}

#[test]
fn directories_and_patterns_are_taken_whole_and_a_directory_only_with_recursive() {
    let server = S3::ours();
    let world = world(&server);
    world.run(&["hydrate", "--cache", "cache", "s3://bucket/run"]).fails(1, &["s3://bucket/run", "-r"]);
    let receipt = hydrate(&world, &["-r", "s3://bucket/run"]).ok().receipt();
    assert_eq!((receipt["objects"].as_u64(), receipt["bytes"].as_u64()), (Some(3), Some(90_000)));
    assert_eq!(status(&world, &["-r", "s3://bucket/"]).len(), 3);
    world.run(&["release", "--cache", "cache", "s3://bucket/run/1*"]).ok();
    let mut left: Vec<_> = status(&world, &[]).iter().map(|row| row["location"].to_string()).collect();
    left.sort();
    assert_eq!(left, ["\"s3://bucket/run/0.dat\"", "\"s3://bucket/run/2.dat\""]);
    world.run(&["release", "--cache", "cache", "--all"]).ok();
    assert!(status(&world, &[]).is_empty());
}

#[test]
fn local_paths_are_found_however_they_are_written() {
    let world = World::new();
    world.write("tree/a", b"content");
    hydrate(&world, &["-r", "tree"]).ok();
    let whole = world.path("tree").display().to_string();
    for path in ["tree", "tree/", "./tree", "tree/*", &whole] {
        assert_eq!(status(&world, &["-r", path]).len(), 1, "{path}");
    }
    assert!(status(&world, &["-r", "tre"]).is_empty());
    world.run(&["release", "--cache", "cache", "-r", "tree"]).ok();
    assert!(status(&world, &[]).is_empty());
}

#[test]
fn what_is_missing_is_named_and_the_rest_is_brought() {
    let server = S3::ours();
    let world = world(&server);
    let ran = hydrate(&world, &["s3://bucket/nothing", "s3://bucket/big"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stderr.contains("s3://bucket/nothing"), "{ran:?}");
    assert_eq!(ran.receipt()["failed"][0]["location"], "s3://bucket/nothing");
    assert_eq!(status(&world, &["s3://bucket/big"])[0]["state"], "hydrated");
}

#[test]
fn pinned_objects_stay_when_others_need_room() {
    let server = S3::ours();
    let world = world(&server);
    let limit = ["--cache-size", "6MiB"];
    hydrate(&world, &[&limit[..], &["-r", "--pin", "s3://bucket/run"]].concat()).ok();
    // The object is larger than the space that the pinned objects leave in the cache.
    fs::write(server.root.join(BUCKET).join("huge"), bytes(3, 8 << 20)).unwrap();
    hydrate(&world, &[&limit[..], &["s3://bucket/big"]].concat()).ok();
    hydrate(&world, &[&limit[..], &["s3://bucket/huge"]].concat());
    let rows = status(&world, &["-r", "s3://bucket/run"]);
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| row["state"] == "hydrated" && row["pinned"] == true), "{rows:?}");
    let here: u64 = status(&world, &[]).iter().map(|row| row["bytes_here"].as_u64().unwrap()).sum();
    assert!(here <= 6 * MIB, "{here}");
}

#[test]
fn a_killed_hydration_goes_on_where_it_was() {
    let server = S3::ours();
    let mut world = world(&server);
    fs::write(server.root.join(BUCKET).join("slow"), bytes(4, 16 << 20)).unwrap();
    let config = LinkConfig::new("127.0.0.1:0".parse().unwrap(), server.address());
    let link =
        Link::start(LinkConfig { rate: Some(LinkRate::bytes_per_second(16 * MIB)), ..config }).unwrap();
    world.set("FIRSTBYTE_ENDPOINT_URL", &format!("http://{}", link.address()));
    let args = ["--json", "hydrate", "--cache", "cache", "s3://bucket/slow"];
    let mut child = world.spawn(&args);
    until("blocks", || link.counters().bytes_to_client >= 8 * MIB);
    child.kill().unwrap();
    child.wait().unwrap();
    let row = &status(&world, &["s3://bucket/slow"])[0];
    let kept = row["bytes_here"].as_u64().unwrap();
    assert!(kept > 0 && row["state"] == "partial", "{row}");
    let receipt = world.run(&args).ok().receipt();
    // A kill may lose the blocks that are being filled at that moment, although they have been
    // reported.
    let being_filled = 16 * 131_072;
    assert!(receipt["resumed_bytes"].as_u64().unwrap() + being_filled >= kept, "{receipt} after {row}");
    assert_eq!(status(&world, &["s3://bucket/slow"])[0]["state"], "hydrated");
}

#[test]
fn bytes_changed_by_other_hands_are_found_and_dropped() {
    let server = S3::ours();
    let world = world(&server);
    hydrate(&world, &["s3://bucket/big"]).ok();
    let verified = world.run(&["--json", "status", "--cache", "cache", "--verify"]).ok().receipt();
    assert_eq!((verified["blocks"].as_u64(), verified["wrong"].as_u64()), (Some(41), Some(0)));
    let data =
        support::names_below(&world.path("cache")).into_iter().find(|name| name.ends_with(".data")).unwrap();
    let file = fs::OpenOptions::new().write(true).open(world.path("cache").join(data)).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"damage", 300_000).unwrap();
    let ran = world.run(&["--json", "status", "--cache", "cache", "--verify"]);
    assert_eq!((ran.code, ran.receipt()["wrong"].as_u64()), (Some(1), Some(1)), "{ran:?}");
    assert_eq!(status(&world, &["s3://bucket/big"])[0]["state"], "partial");
}

#[test]
fn bad_input_gets_one_line() {
    let server = S3::ours();
    let world = world(&server);
    world.write("file", b"x");
    world.run(&["hydrate", "--cache", "file", "s3://bucket/big"]).fails(1, &["file"]);
    world.run(&["status", "--cache", "file"]).fails(1, &["file"]);
    world.run(&["hydrate", "--cache", "cache", "--replay", "none"]).fails(1, &["none"]);
    world.write("cache9/format", b"firstbyte cache 99\n");
    world.run(&["status", "--cache", "cache9"]).fails(1, &["cache9", "99"]);
    assert_eq!(world.run(&["hydrate"]).code, Some(2));
    assert_eq!(world.run(&["release"]).code, Some(2));
}

/// A bucket that is mounted at `mnt` in a world. Dropping the value unmounts it.
struct MountedBucket {
    world: World,
    at: PathBuf,
}

impl MountedBucket {
    fn new(server: &S3, options: &[&str]) -> Self {
        let mut world = world(server);
        let at = world.path("mnt");
        fs::create_dir_all(&at).unwrap();
        let runtime = at.parent().unwrap().parent().unwrap().join("run");
        fs::create_dir_all(&runtime).unwrap();
        world.set("XDG_RUNTIME_DIR", runtime.to_str().unwrap());
        world.run(&[&["mount", "s3://bucket", "mnt", "--cache", "cache"], options].concat()).ok();
        Self { world, at }
    }
}

impl Drop for MountedBucket {
    fn drop(&mut self) {
        if !self.world.run(&["unmount", "mnt"]).stderr.is_empty() {
            // An earlier panic has already reported its error. Now only the mount must be removed.
            support::place::detach(&self.at);
        }
    }
}

#[test]
fn a_path_under_a_mount_is_brought_here_by_its_daemon() {
    let server = S3::ours();
    let mounted = MountedBucket::new(&server, &[]);
    let world = &mounted.world;
    let receipt = world.run(&["--json", "hydrate", "--wait", "-r", "mnt/run"]).ok().receipt();
    assert_eq!((receipt["objects"].as_u64(), receipt["bytes"].as_u64()), (Some(3), Some(90_000)));
    assert_eq!(status(world, &["mnt/run/0.dat"])[0]["state"], "hydrated");
    // Without --wait, the command returns when fetching has begun.
    world.run(&["hydrate", "mnt/big"]).ok();
    until("hydrated", || status(world, &["mnt/big"])[0]["state"] == "hydrated");
    // Without `--cache`, the cache of the mount is used.
    let ran = world.run(&["--json", "status", "mnt/big"]).ok();
    assert_eq!(ran.receipt()["location"], "s3://bucket/big");
    assert_eq!(fs::read(mounted.at.join("big")).unwrap(), bytes(1, 5 << 20 | 77));
    world.run(&["release", "-r", "mnt"]).ok();
    assert_eq!(fs::read(mounted.at.join("run/2.dat")).unwrap(), bytes(12, 30_000));
}

#[test]
fn what_a_mount_noted_is_brought_here_in_that_order() {
    let server = S3::ours();
    let mounted = MountedBucket::new(&server, &["--record", "order"]);
    for name in ["run/2.dat", "big", "run/0.dat"] {
        fs::read(mounted.at.join(name)).unwrap();
    }
    mounted.world.run(&["unmount", "mnt"]).ok();
    until("the record", || {
        String::from_utf8_lossy(&mounted.world.read("order")).matches("\"read\"").count() >= 3
    });
    mounted.world.run(&["release", "--cache", "cache", "--all"]).ok();
    hydrate(&mounted.world, &["--replay", "order"]).ok();
    let mut here: Vec<_> = status(&mounted.world, &[])
        .iter()
        .map(|row| (row["location"].as_str().unwrap().to_owned(), row["state"].as_str().unwrap().to_owned()))
        .collect();
    here.sort();
    let hydrated = |name: &str| (format!("s3://bucket/{name}"), "hydrated".to_owned());
    assert_eq!(here, [hydrated("big"), hydrated("run/0.dat"), hydrated("run/2.dat")]);
}

#[test]
fn of_more_than_the_cache_can_hold_what_fits_is_brought_and_the_rest_is_named() {
    for (count, size, cache_size) in [(40_u64, MIB, "4MiB"), (100, 1024, "40KiB")] {
        let server = S3::ours();
        let many = server.root.join(BUCKET).join("many");
        fs::create_dir_all(&many).unwrap();
        for number in 0..count {
            fs::write(many.join(format!("{number:03}")), bytes(number, usize::try_from(size).unwrap()))
                .unwrap();
        }
        let world = World::with_s3(&server);
        let arguments = ["--cache-size", cache_size, "-r", "s3://bucket/many"];
        let ran = hydrate(&world, &arguments);
        assert_eq!(ran.code, Some(3), "{ran:?}");
        let receipt = ran.receipt();
        let done = receipt["objects"].as_u64().unwrap();
        let failed = receipt["failed"].as_array().unwrap();
        assert!(done >= 3 && done + failed.len() as u64 == count, "{done} done of {count}");
        assert!(failed[0]["error"].as_str().unwrap().contains("--cache-size"), "{failed:?}");
        let here = status(&world, &[]).iter().filter(|row| row["state"] == "hydrated").count() as u64;
        assert_eq!(here, done, "what the receipt says is here");
    }
}

#[test]
fn a_pipe_is_named_as_the_reason_why_it_is_not_hydrated() {
    let world = World::new();
    world.write("file", b"x");
    let pipe = world.path("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();
    let ran = world.run(&["hydrate", "pipe"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("device, socket or pipe"), "{ran:?}");
}

#[test]
fn an_empty_object_is_hydrated_until_it_is_released() {
    let server = S3::ours();
    let world = world(&server);
    fs::write(server.root.join(BUCKET).join("empty"), b"").unwrap();
    assert_eq!(status(&world, &["s3://bucket/empty"])[0]["state"], "released");
    hydrate(&world, &["s3://bucket/empty"]).ok();
    assert_eq!(status(&world, &["s3://bucket/empty"])[0]["state"], "hydrated");
    assert_eq!(world.run(&["status", "--cache", "cache", "--verify"]).code, Some(0));
    world.run(&["release", "--cache", "cache", "s3://bucket/empty"]).ok();
    assert_eq!(status(&world, &["s3://bucket/empty"])[0]["state"], "released");
}

#[test]
fn a_cache_that_cannot_be_used_is_the_reason_and_not_its_size() {
    let server = S3::ours();
    let world = world(&server);
    hydrate(&world, &["s3://bucket/big"]).ok();
    let map =
        support::names_below(&world.path("cache")).into_iter().find(|name| name.ends_with(".map")).unwrap();
    let shard = world.path("cache").join(map).parent().unwrap().to_owned();
    fs::remove_dir_all(&shard).unwrap();
    fs::write(&shard, b"no directory").unwrap();
    let ran = world.run(&["hydrate", "--cache", "cache", "s3://bucket/big"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("Not a directory"), "{ran:?}");
    assert!(!ran.stderr.contains("--cache-size"), "{ran:?}");
}

#[test]
fn control_characters_of_names_do_not_reach_the_terminal() {
    let world = World::new();
    world.write("tree/a\x1b[2J\nb", b"content");
    hydrate(&world, &["-r", "tree"]).ok();
    let text = String::from_utf8(world.run(&["status", "--cache", "cache", "-r"]).ok().stdout).unwrap();
    assert!(text.contains("a\\x1b[2J\\x0ab") && !text.contains('\x1b'), "{text:?}");
}
