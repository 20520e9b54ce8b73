//! `plan`, the shards of a manifest, and `receipts merge`: many workers together do the work of
//! one.

use crate::support;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use firstbyte_testkit::bytes;
use serde_json::Value;
use support::servers::S3;
use support::{Ran, World, names_below};

const SHARDS: u64 = 3;
const OBJECTS: usize = 40;

/// Makes a bucket with objects below `run`, and a manifest `m` of the objects. Also returns the
/// server.
fn planned() -> (S3, World) {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    for number in 0..OBJECTS {
        let path = s3.root.join(format!("bucket/run/d{}/n{number:02}", number % 4));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes(number as u64, 100 + 37 * number * number)).unwrap();
    }
    plan(&world, "s3://bucket/run");
    (s3, world)
}

fn plan(world: &World, source: &str) -> Value {
    world.run(&["--json", "plan", source, "--shards", "3", "--out", "m"]).ok().receipt()
}

/// Runs one shard. Its receipt is written to the file `r<SHARD>`.
fn shard(world: &World, verb: &str, shard: u64, destination: &[&str]) -> Ran {
    let (shard, receipt) = (format!("{shard}/{SHARDS}"), format!("r{shard}"));
    let words = ["--json", verb, "--manifest", "m", "--shard", &shard, "--receipt", &receipt];
    world.run(&[&words, destination].concat())
}

fn merged(world: &World, receipts: &[&str]) -> Ran {
    world.run(&[&["--json", "receipts", "merge", "m"], receipts].concat())
}

fn same_tree(one: &Path, other: &Path) {
    let (one, other) = (contents(one), contents(other));
    assert!(one.keys().eq(other.keys()), "{:?} {:?}", one.keys(), other.keys());
    assert!(one == other, "other content");
}

/// Returns the content of every file below a directory.
fn contents(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => directories.push(entry.path()),
                false => drop(found.insert(
                    entry.path().strip_prefix(root).unwrap().to_owned(),
                    fs::read(entry.path()).unwrap(),
                )),
            }
        }
    }
    found
}

#[test]
fn shards_together_are_the_whole_and_each_may_be_run_again() {
    let (s3, world) = planned();
    for number in 0..SHARDS {
        let receipt = shard(&world, "cp", number, &["to/"]).ok().receipt();
        assert_eq!(receipt["skipped"], 0);
        assert_eq!(receipt["shard"]["index"], number);
    }
    same_tree(&s3.root.join("bucket/run"), &world.path("to/run"));
    let all = merged(&world, &["r0", "r1", "r2"]).ok().receipt();
    assert_eq!((&all["done"]["objects"], &all["missing"]["objects"]), (&OBJECTS.into(), &0.into()));
    let again = shard(&world, "cp", 1, &["to/"]).ok().receipt();
    assert_eq!((&again["objects"], &again["skipped"]), (&0.into(), &again["shard"]["objects"]));
    fs::copy(world.path("r1"), world.path("r1-again")).unwrap();
    let all = merged(&world, &["r0", "r1", "r1-again", "r2"]).ok().receipt();
    assert_eq!(all["doubled"], serde_json::json!([{ "shard": 1, "receipts": 2 }]));
}

#[test]
fn a_lost_shard_is_missing_with_its_objects() {
    let (_s3, world) = planned();
    let bytes: Vec<u64> =
        [0, 2].map(|n| shard(&world, "cp", n, &["to/"]).ok().receipt()["bytes"].as_u64().unwrap()).into();
    let ran = merged(&world, &["r0", "r2"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let all = ran.receipt();
    assert_eq!(all["lost_shards"], serde_json::json!([1]));
    assert_eq!(all["done"]["bytes"], bytes.iter().sum::<u64>());
    assert_eq!(
        all["missing_objects"].as_array().unwrap().len() as u64,
        all["missing"]["objects"].as_u64().unwrap()
    );
    let text = world.run(&["receipts", "merge", "m", "r0", "r2"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("no receipt of shards: 1"), "{text:?}");
}

#[test]
fn an_object_that_changed_fails_with_both_versions_and_nothing_else_does() {
    for to in ["to/", "s3://bucket/copy/"] {
        let (s3, world) = planned();
        fs::write(s3.root.join("bucket/run/d0/n00"), b"another").unwrap();
        let ran: Vec<Ran> = (0..SHARDS).map(|number| shard(&world, "cp", number, &[to])).collect();
        let failed: Vec<&Ran> = ran.iter().filter(|ran| ran.code != Some(0)).collect();
        assert_eq!(failed.len(), 1, "{ran:?}");
        assert_eq!(failed[0].code, Some(3));
        let lines: Vec<&str> = failed[0].stderr.lines().collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(
            lines[0].contains("s3://bucket/run/d0/n00: changed since it was planned")
                && lines[0].contains("found etag"),
            "{lines:?}"
        );
        let all = merged(&world, &["r0", "r1", "r2"]);
        assert_eq!(all.code, Some(3));
        let all = all.receipt();
        assert_eq!(all["changed"][0]["location"], "s3://bucket/run/d0/n00", "{all}");
        assert_eq!(all["missing_objects"], serde_json::json!(["s3://bucket/run/d0/n00"]));
        assert_eq!(all["done"]["objects"], OBJECTS - 1);
    }
}

#[test]
fn an_object_that_changed_is_not_hydrated_in_another_version() {
    let (s3, world) = planned();
    fs::write(s3.root.join("bucket/run/d0/n00"), b"another").unwrap();
    let codes: Vec<Option<i32>> =
        (0..SHARDS).map(|number| shard(&world, "hydrate", number, &[]).code).collect();
    assert_eq!(codes.iter().filter(|code| **code == Some(3)).count(), 1, "{codes:?}");
    let all = merged(&world, &["r0", "r1", "r2"]).receipt();
    assert_eq!(all["changed"][0]["location"], "s3://bucket/run/d0/n00", "{all}");
    assert_eq!(all["done"]["objects"], OBJECTS - 1);
}

#[test]
fn two_receipts_of_a_shard_add_up() {
    let (_s3, world) = planned();
    (0..SHARDS).for_each(|number| drop(shard(&world, "cp", number, &["to/"]).ok()));
    let mut receipt: Value = serde_json::from_slice(&world.read("r0")).unwrap();
    let last = receipt["shard"]["objects"].as_u64().unwrap() - 1;
    for (name, done) in [("r0a", "0".to_owned()), ("r0b", format!("1-{last}"))] {
        receipt["shard"]["done"] = done.into();
        world.write(name, receipt.to_string().as_bytes());
    }
    assert_eq!(merged(&world, &["r0a", "r1", "r2"]).code, Some(3));
    let all = merged(&world, &["r0a", "r0b", "r1", "r2"]).ok().receipt();
    assert_eq!((&all["done"]["objects"], &all["lost_shards"]), (&OBJECTS.into(), &serde_json::json!([])));
}

#[test]
fn local_files_are_pinned_too_whatever_their_names() {
    let world = World::new();
    for name in [&b"plain"[..], b"\xff\xfe", b"line\nfeed", b"d/\xc3\xbc#%20?"] {
        let path = world.path("from").join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    plan(&world, "from");
    for number in 0..SHARDS {
        shard(&world, "cp", number, &["to"]).ok();
    }
    same_tree(&world.path("from"), &world.path("to"));
    merged(&world, &["r0", "r1", "r2"]).ok();
}

#[test]
fn a_file_of_the_same_length_that_was_written_since_is_not_copied() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    for name in ["a", "b", "c"] {
        world.write(&format!("from/{name}"), b"before");
    }
    plan(&world, "from");
    world.write("from/b", b"AFTER.");
    for to in ["to", "s3://bucket/to"] {
        let ran: Vec<Ran> = (0..SHARDS).map(|number| shard(&world, "cp", number, &[to])).collect();
        let codes: Vec<i32> = ran.iter().map(|ran| ran.code.unwrap()).collect();
        assert_eq!(codes.iter().filter(|code| **code == 3).count(), 1, "{ran:?}");
        assert_eq!(merged(&world, &["r0", "r1", "r2"]).receipt()["done"]["objects"], 2);
    }
    assert_eq!(names_below(&world.path("to")), ["a", "c"]);
    assert_eq!(names_below(&s3.root.join("bucket/to")), ["a", "c"]);
}

#[test]
fn sync_and_hydrate_take_shards_as_well() {
    let (s3, world) = planned();
    for number in 0..SHARDS {
        shard(&world, "sync", number, &["to"]).ok();
    }
    same_tree(&s3.root.join("bucket/run"), &world.path("to"));
    for number in 0..SHARDS {
        shard(&world, "hydrate", number, &[]).ok();
    }
    let all = merged(&world, &["r0", "r1", "r2"]).ok().receipt();
    assert_eq!(all["done"]["objects"], OBJECTS);
    let status = world.run(&["status", "-r", "s3://bucket/run", "--json"]).ok();
    let hydrated = String::from_utf8_lossy(&status.stdout).matches("\"hydrated\"").count();
    assert_eq!(hydrated, OBJECTS, "{status:?}");
}

#[test]
fn sources_keep_their_places_and_single_objects_their_names() {
    let (s3, world) = planned();
    let words = ["plan", "s3://bucket/run/d0/", "s3://bucket/run/d1", "s3://bucket/run/d2/n0*"];
    let single = ["s3://bucket/run/d3/n07", "s3://bucket/run/d3/n03", "--shards", "3", "--out", "m"];
    world.run(&[&words[..], &single].concat()).ok();
    for number in 0..SHARDS {
        shard(&world, "cp", number, &["to/"]).ok();
    }
    let names = names_below(&world.path("to"));
    assert!(names.contains(&"n00".to_owned()) && names.contains(&"d1/n01".to_owned()), "{names:?}");
    assert_eq!(names.len(), 10 + 10 + 2 + 2, "{names:?}");
    assert_eq!(fs::read(s3.root.join("bucket/run/d3/n07")).unwrap(), world.read("to/n07"));
    let ran = shard(&world, "cp", 0, &["no-directory"]);
    assert_eq!(ran.code, Some(2), "several sources need a directory: {ran:?}");
}

#[test]
fn an_array_job_says_which_shard_it_is() {
    let (_s3, mut world) = planned();
    world
        .run(&["cp", "--manifest", "m", "--shard", "auto", "to/"])
        .fails(2, &["AWS_BATCH_JOB_ARRAY_INDEX", "SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX"]);
    for (name, value) in [
        ("SLURM_ARRAY_TASK_ID", "9"),
        ("SLURM_ARRAY_TASK_MIN", "5"),
        ("SLURM_ARRAY_TASK_STEP", "2"),
        ("SLURM_ARRAY_TASK_COUNT", "3"),
    ] {
        world.set(name, value);
    }
    let receipt = world.run(&["--json", "cp", "--manifest", "m", "--shard", "auto", "to/"]).ok().receipt();
    assert_eq!(receipt["shard"]["index"], 2);
    world.set("SLURM_ARRAY_TASK_COUNT", "4");
    world
        .run(&["cp", "--manifest", "m", "--shard", "auto", "to/"])
        .fails(2, &["the array job has 4 shards and the manifest has 3"]);
}

#[test]
fn what_does_not_fit_is_refused_in_one_line() {
    let (_s3, world) = planned();
    world.write("text", b"no manifest at all, but long enough to be read as one");
    world.write("r", b"{}");
    let cp = |words: &[&str]| world.run(&[&["cp"], words].concat());
    cp(&["--manifest", "m", "--shard", "0/4", "to/"])
        .fails(2, &["--shard has 4 shards and the manifest has 3"]);
    cp(&["--manifest", "m", "to/"]).fails(2, &["m: needs the number of a shard", "--shard auto"]);
    cp(&["--manifest", "m", "--shard", "0/3", "s3://bucket/run", "to/"])
        .fails(2, &["takes only a destination"]);
    cp(&["--manifest", "m", "--shard", "0/3", "--exclude", "x", "to/"])
        .fails(2, &["--exclude", "firstbyte plan"]);
    cp(&["--manifest", "text", "--shard", "0/3", "to/"]).fails(1, &["text: is not a manifest"]);
    cp(&["--manifest", "none", "--shard", "0/3", "to/"]).fails(1, &["none: No such file"]);
    merged(&world, &["r"]).fails(1, &["r: is not the receipt of a shard"]);
    world.run(&["plan", "s3://bucket/empty/", "--out", "n"]).fails(1, &["s3://bucket/empty"]);
    assert!(!world.path("n").exists());
    shard(&world, "cp", 0, &["to/"]).ok();
    let other = plan(&world, "s3://bucket/run/d1");
    assert_eq!(other["objects"], 10);
    merged(&world, &["r0"]).fails(1, &["r0: a receipt of the manifest"]);
    world.run(&["hydrate", "--shard", "0/3", "s3://bucket/run"]).fails(2, &["--manifest"]);
}

#[test]
fn a_plan_says_what_no_copy_takes() {
    let world = World::new();
    world.write("tree/a", b"1");
    world.write("tree/.b.firstbyte-part", b"1");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        world.path("tree/pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let ran = world.run(&["--json", "plan", "tree", "--out", "m"]).ok();
    assert_eq!((&ran.receipt()["objects"], &ran.receipt()["left_out"]), (&1.into(), &2.into()));
    let ran = world.run(&["plan", "tree", "--out", "m"]).ok();
    let line = "left out: pipes, sockets and devices (1); unfinished copies, named .*.firstbyte-part (1)";
    assert!(ran.stderr.contains(line), "{}", ran.stderr);
    let copied = world.run(&["--json", "cp", "-r", "tree", "copy"]).ok();
    assert_eq!(copied.receipt()["left_out"], 2, "as a copy of the tree says");
}
