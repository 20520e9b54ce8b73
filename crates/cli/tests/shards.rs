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
const OBJECT_COUNT: usize = 40;

/// Makes a bucket with objects below `run`, and a manifest `m` of the objects. Also returns the
/// server.
fn planned() -> (S3, World) {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    for number in 0..OBJECT_COUNT {
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

fn assert_same_tree(one: &Path, other: &Path) {
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
    assert_same_tree(&s3.root.join("bucket/run"), &world.path("to/run"));
    let all = merged(&world, &["r0", "r1", "r2"]).ok().receipt();
    assert_eq!((&all["done"]["objects"], &all["missing"]["objects"]), (&OBJECT_COUNT.into(), &0.into()));
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
        assert_eq!(all["done"]["objects"], OBJECT_COUNT - 1);
    }
}

#[test]
fn an_object_that_changed_is_not_hydrated_in_another_version() {
    let (s3, world) = planned();
    fs::write(s3.root.join("bucket/run/d0/n00"), b"another").unwrap();
    let ran: Vec<_> = (0..SHARDS).map(|number| shard(&world, "hydrate", number, &[])).collect();
    let failed: Vec<_> = ran.iter().filter(|ran| ran.code == Some(3)).collect();
    assert_eq!(failed.len(), 1, "{ran:?}");
    let said = &failed[0].stderr;
    assert!(said.contains("plan again") && !said.contains("open it again"), "{said}");
    let all = merged(&world, &["r0", "r1", "r2"]).receipt();
    assert_eq!(all["changed"][0]["location"], "s3://bucket/run/d0/n00", "{all}");
    assert_eq!(all["done"]["objects"], OBJECT_COUNT - 1);
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
    assert_eq!(
        (&all["done"]["objects"], &all["lost_shards"]),
        (&OBJECT_COUNT.into(), &serde_json::json!([]))
    );
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
    assert_same_tree(&world.path("from"), &world.path("to"));
    merged(&world, &["r0", "r1", "r2"]).ok();
}

#[test]
fn a_manifest_is_no_object_of_itself() {
    let world = World::new();
    world.write("tree/a", b"1");
    for _ in 0..2 {
        let receipt =
            world.run(&["--json", "plan", "tree", "--out", "tree/m", "--shards", "1"]).ok().receipt();
        assert_eq!((&receipt["objects"], &receipt["left_out"]), (&1.into(), &0.into()), "{receipt}");
    }
    world.run(&["cp", "--manifest", "tree/m", "--shard", "0/1", "to/"]).ok();
    assert_eq!(contents(&world.path("to")).len(), 1);
    // Other files of that name are objects.
    world.write("tree/below/m", b"2");
    let receipt = world.run(&["--json", "plan", "tree", "--out", "tree/m", "--shards", "1"]).ok().receipt();
    assert_eq!(receipt["objects"], 2);
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
    assert_same_tree(&s3.root.join("bucket/run"), &world.path("to"));
    for number in 0..SHARDS {
        shard(&world, "hydrate", number, &[]).ok();
    }
    let all = merged(&world, &["r0", "r1", "r2"]).ok().receipt();
    assert_eq!(all["done"]["objects"], OBJECT_COUNT);
    let status = world.run(&["status", "-r", "s3://bucket/run", "--json"]).ok();
    let hydrated = String::from_utf8_lossy(&status.stdout).matches("\"hydrated\"").count();
    assert_eq!(hydrated, OBJECT_COUNT, "{status:?}");
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

#[test]
fn what_is_to_be_run_again_includes_shards_that_were_stopped_or_failed_in_part() {
    let (s3, world) = planned();
    (0..2).for_each(|number| drop(shard(&world, "cp", number, &["to/"]).ok()));
    let mut stopped: Value = serde_json::from_slice(&world.read("r0")).unwrap();
    stopped["shard"]["done"] = "".into();
    world.write("r0", stopped.to_string().as_bytes());
    let all = merged(&world, &["r0", "r1"]).receipt();
    assert_eq!(all["lost_shards"], serde_json::json!([2]));
    assert_eq!(all["incomplete_shards"], serde_json::json!([0, 2]));
    let text = world.run(&["receipts", "merge", "m", "r0", "r1"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("shards to run again: 0, 2"), "{text:?}");
    [0, 2].iter().for_each(|number| drop(shard(&world, "cp", *number, &["to/"]).ok()));
    let all = merged(&world, &["r0", "r1", "r2"]).ok().receipt();
    assert_eq!(all["incomplete_shards"], serde_json::json!([]));
    assert_same_tree(&s3.root.join("bucket/run"), &world.path("to/run"));
}

#[test]
fn failures_of_a_shard_that_another_run_has_done_are_forgotten() {
    let (_s3, world) = planned();
    shard(&world, "cp", 0, &["to/"]).ok();
    let mut failed: Value = serde_json::from_slice(&world.read("r0")).unwrap();
    failed["shard"]["done"] = "".into();
    failed["failed"] = serde_json::json!([{ "location": "s3://bucket/run", "error": "interrupted" }]);
    world.write("r0-first", failed.to_string().as_bytes());
    let all = merged(&world, &["r0-first"]).receipt();
    assert_eq!(all["failed"][0]["error"], "interrupted", "{all}");
    let all = merged(&world, &["r0-first", "r0"]).receipt();
    assert_eq!(all["failed"], serde_json::json!([]), "{all}");
    assert_eq!(all["incomplete_shards"], serde_json::json!([1, 2]));
}

#[test]
fn receipts_of_several_destinations_name_each_of_them() {
    let (_s3, world) = planned();
    for (number, to) in [(0, "to/"), (1, "elsewhere/"), (2, "to/")] {
        shard(&world, "cp", number, &[to]).ok();
    }
    let all = merged(&world, &["r0", "r1", "r2"]).ok().receipt();
    let expected = serde_json::json!([
        { "destination": "elsewhere/", "shards": [1] },
        { "destination": "to/", "shards": [0, 2] }
    ]);
    assert_eq!(all["destinations"], expected);
    let text = world.run(&["receipts", "merge", "m", "r0", "r1", "r2"]).ok();
    assert!(String::from_utf8_lossy(&text.stdout).contains("to elsewhere/: shards 1"), "{text:?}");
}

#[test]
fn false_numbers_in_a_receipt_are_refused_and_use_no_memory() {
    let (_s3, world) = planned();
    shard(&world, "cp", 0, &["to/"]).ok();
    let receipt: Value = serde_json::from_slice(&world.read("r0")).unwrap();
    let mut large = receipt.clone();
    large["shard"]["objects"] = 1_000_000_000_000_000_000_u64.into();
    world.write("large", large.to_string().as_bytes());
    merged(&world, &["large"]).fails(1, &["large: shard 0/3 does not fit the manifest"]);
    let mut sum = receipt.clone();
    sum["bytes"] = u64::MAX.into();
    world.write("sum", sum.to_string().as_bytes());
    assert_eq!(merged(&world, &["sum", "r0"]).receipt()["bytes"], u64::MAX);
    world.write("marked", &[b"\xef\xbb\xbf", world.read("r0").as_slice()].concat());
    assert_eq!(merged(&world, &["marked"]).receipt()["lost_shards"], serde_json::json!([1, 2]));
    let mut plain = receipt;
    plain.as_object_mut().unwrap().remove("shard");
    world.write("plain", plain.to_string().as_bytes());
    merged(&world, &["plain"]).fails(1, &["plain: is a receipt of cp without a manifest"]);
}

#[test]
fn manifests_and_receipts_are_local_files_and_a_url_is_refused_before_the_work() {
    let (_s3, world) = planned();
    let copy = ["cp", "--manifest", "m", "--shard", "0/3", "to/", "--receipt"];
    world.run(&["plan", "s3://bucket/run", "--out", "s3://bucket/m"]).fails(2, &["s3://bucket/m", "local"]);
    world.run(&[&copy[..], &["s3://bucket/r0"]].concat()).fails(2, &["s3://bucket/r0", "local"]);
    world.run(&["cp", "--manifest", "s3://bucket/m", "--shard", "0/3", "to/"]).fails(2, &["local"]);
    merged(&world, &["s3://bucket/r0"]).fails(2, &["local"]);
    world.write("file", b"");
    world.run(&[&copy[..], &["file/r0"]].concat()).fails(1, &["file/r0"]);
    fs::create_dir(world.path("directory")).unwrap();
    world.run(&[&copy[..], &["directory"]].concat()).fails(1, &["directory"]);
    assert!(!world.path("s3:").exists() && !world.path("to").exists(), "{:?}", world.names());
    world.run(&[&copy[..], &["new/r0"]].concat()).ok();
    assert!(world.path("new/r0").exists());
}

#[test]
fn a_worker_that_cannot_begin_leaves_a_receipt_that_merges() {
    let (_s3, world) = planned();
    shard(&world, "hydrate", 0, &["--cache", "/proc/none"]).fails(1, &["/proc/none"]);
    shard(&world, "cp", 1, &["to/"]).ok();
    let all = merged(&world, &["r0", "r1"]);
    assert_eq!(all.code, Some(3), "{all:?}");
    assert_eq!(all.receipt()["incomplete_shards"], serde_json::json!([0, 2]));
}

#[test]
fn an_empty_object_that_was_removed_or_changed_is_not_hydrated() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    fs::create_dir_all(s3.root.join("bucket/run")).unwrap();
    ["a", "b", "c"].iter().for_each(|name| fs::write(s3.root.join("bucket/run").join(name), b"").unwrap());
    plan(&world, "s3://bucket/run");
    fs::remove_file(s3.root.join("bucket/run/a")).unwrap();
    fs::write(s3.root.join("bucket/run/b"), b"content").unwrap();
    let codes = [0, 1, 2].map(|number| shard(&world, "hydrate", number, &[]).code);
    assert_eq!(codes.iter().filter(|code| **code == Some(3)).count(), 2, "{codes:?}");
    let all = merged(&world, &["r0", "r1", "r2"]).receipt();
    let missing = serde_json::json!(["s3://bucket/run/a", "s3://bucket/run/b"]);
    let mut found = all["missing_objects"].clone();
    found.as_array_mut().unwrap().sort_by_key(Value::to_string);
    assert_eq!(found, missing, "{all}");
    assert_eq!(all["changed"][0]["location"], "s3://bucket/run/b");
}

#[test]
fn names_that_a_plan_leaves_out_may_be_broken() {
    let world = World::new();
    world.write("tree/a.gz", b"1");
    world.write("tree/sub/b.gz", b"2");
    std::os::unix::fs::symlink("nowhere", world.path("tree/broken")).unwrap();
    std::os::unix::fs::symlink("..", world.path("tree/sub/up")).unwrap();
    let plan = |words: &[&str]| world.run(&[&["--json", "plan", "--out", "m"], words].concat());
    plan(&["tree"]).fails(1, &["tree/"]);
    let kept = plan(&["tree", "--exclude", "broken", "--exclude", "sub/up/"]).ok();
    assert_eq!(kept.receipt()["objects"], 2);
    let kept = plan(&["tree/*.gz"]).ok();
    assert_eq!(kept.receipt()["objects"], 1);
}

#[test]
fn named_objects_are_divided_among_workers_too() {
    let world = World::new();
    let names: Vec<String> = (0..20).map(|number| format!("from/n{number:02}")).collect();
    names.iter().for_each(|name| drop(world.write(name, name.as_bytes())));
    let named: Vec<&str> = names.iter().map(String::as_str).collect();
    let copied = [0, 1].map(|number| {
        let shard = format!("{number}/2");
        let words = [&["--json", "cp", "--shard", &shard][..], &named, &["to/"]].concat();
        world.run(&words).ok().receipt()["objects"].as_u64().unwrap()
    });
    assert!(copied.iter().all(|objects| (1..20).contains(objects)), "{copied:?}");
    assert_eq!(copied.iter().sum::<u64>(), 20);
    assert_same_tree(&world.path("from"), &world.path("to"));
    let alone = [0, 1].map(|number| {
        let words = ["--json", "cp", "--shard", &format!("{number}/2"), "from/n00", "one"];
        world.run(&words).ok().receipt()["objects"].as_u64().unwrap()
    });
    assert_eq!(alone.iter().sum::<u64>(), 1, "{alone:?}");
    world.run(&["cp", "--shard", "0/2", "from/n00", "-"]).fails(2, &["a stream has none"]);
}

#[test]
fn two_objects_that_would_be_copied_to_one_name_are_refused_by_name() {
    let world = World::new();
    for (name, content) in
        [("one/a", "1"), ("one/b", "2"), ("two/b", "3"), ("two/c", "4"), ("two/two/d", "5")]
    {
        world.write(name, content.as_bytes());
    }
    let plan =
        |sources: &[&str]| world.run(&[&["plan", "--shards", "3", "--out", "m"], sources].concat()).ok();
    for (sources, refused) in [
        (&["one/", "two/"][..], true),
        (&["one/", "one/"], true),
        (&["one/b", "two/b"], true),
        (&["two/", "two"], false),
        (&["one", "two"], false),
        (&["one/", "two"], false),
        (&["one/a", "two/c", "one/b"], false),
    ] {
        let planned = plan(sources);
        assert_eq!(planned.stderr.contains("have the same name"), refused, "{sources:?}: {planned:?}");
        let ran = shard(&world, "cp", 0, &["to/"]);
        match refused {
            true => drop(ran.fails(2, &["both would be copied to the same name", "plan them separately"])),
            false => drop(ran.ok()),
        }
        assert!(!refused || !world.path("to").exists(), "{sources:?}");
        let _ = fs::remove_dir_all(world.path("to"));
        shard(&world, "hydrate", 0, &[]).ok();
    }
    plan(&["one", "two"]);
    shard(&world, "sync", 0, &["to"]).fails(2, &["sync takes one source"]);
}
