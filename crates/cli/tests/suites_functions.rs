//! The suites for serverless functions, s1 and s5, with tiny sizes and from start to end. They run
//! with stand-ins, and with targets that are given.

use crate::support;

use std::fs;

use firstbyte_bench::data;
use firstbyte_bench::result::{Basis, Outcome, Results};
use firstbyte_bench::statistics;
use firstbyte_testkit::{BUCKET, lacks_root};
use rustix_futex_sync::Mutex;
use support::World;
use support::servers::S3;

/// Lock that lets only one suite run at a time. A cold run may drop the page cache of the whole
/// machine, including the files that another suite has just warmed.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs a suite once, and reads its results. Only a contender that lacks boto3 may fail.
#[track_caller]
fn run(world: &World, suite: &str, words: &[&str]) -> Results {
    let out = world.path("results.jsonl");
    let mut all = vec!["-q", "bench", "run", "--suite", suite, "--rounds", "1"];
    all.extend(["--out", out.to_str().unwrap()]);
    all.extend(words);
    let alone = ALONE.lock();
    let output = world.command(&all).output().unwrap();
    drop(alone);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let results = Results::parse(&fs::read_to_string(out).expect(&said)).unwrap();
    assert!(!results.runs.is_empty(), "{said}");
    for run in &results.runs {
        let without_boto3 = run.error.as_ref().is_some_and(|error| error.contains("pip install boto3"));
        assert!(run.outcome == Outcome::Ok || without_boto3, "{run:?}");
        assert!(run.marks.is_empty(), "{run:?}");
    }
    results
}

/// Returns the cells of a table that have a figure. Each is given by the titles of its row and
/// column.
fn figures(results: &Results, table: usize) -> Vec<(String, String)> {
    let table = &results.header.tables[table];
    let mut found = Vec::new();
    for (row, cells) in table.rows.iter().zip(statistics::cells(table, results)) {
        for (column, cell) in table.columns.iter().zip(cells) {
            if cell.value.is_some() {
                found.push((row.title.clone(), column.title.clone()));
            }
        }
    }
    found
}

#[test]
fn s1_starts_functions_on_stand_ins() {
    if lacks_root() {
        return;
    }
    let world = World::new();
    let sets = ["--case", "512MB", "--set", "size=2MiB", "--set", "starts=2"];
    let results = run(&world, "s1", &sets);
    assert!(results.runs.iter().all(|run| run.basis == Basis::Emulated && run.jobs.len() == 2));
    let stages = figures(&results, 0);
    for way in ["download", "lazy open", "mount", "slow directory"] {
        let columns: Vec<&str> =
            stages.iter().filter(|(row, _)| row == &format!("512 MB, {way}")).map(|(_, c)| &**c).collect();
        assert_eq!(columns, ["ready", "opened", "first byte", "part", "all", "fits the limit", "at once"]);
        // The bytes that crossed the links prove that every start was cold.
        let cold = results.runs.iter().find(|run| run.contender == way && run.round == 1).unwrap();
        assert_eq!(cold.cache.held, Some(true), "{cold:?}");
    }
    assert_eq!(figures(&results, 1).len(), 5 * 4);
}

#[test]
fn s5_reads_large_and_small_on_stand_ins() {
    if lacks_root() {
        return;
    }
    let world = World::new();
    let cases = ["--case", "big-512MB", "--case", "small-3008MB", "--case", "sweep-4"];
    let sets = ["--set", "size=2MiB", "--set", "files=5"];
    let results = run(&world, "s5", &[&cases[..], &sets].concat());
    assert!(results.runs.iter().all(|run| run.basis == Basis::Emulated));
    for run in results.runs.iter().filter(|run| run.outcome == Outcome::Ok) {
        assert_eq!(run.cache.held, Some(true), "{run:?}");
    }
    let big = figures(&results, 0);
    let has = |row: &str| big.contains(&(row.to_owned(), "512 MB".to_owned()));
    assert!(has("S3, firstbyte cp") && has("slow directory, shutil.copy, cached"), "{big:?}");
    assert!(figures(&results, 1).len() >= 8 && figures(&results, 2).len() >= 3);
}

#[test]
fn given_targets_take_the_place_of_stand_ins() {
    let server = S3::ours_with(&[]);
    let mut world = World::with_s3(&server);
    world.set("AWS_ENDPOINT_URL", &server.url);
    // The directory must be on a disk, because files on tmpfs are never cold.
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for root in [&server.root.join(BUCKET), disk.path()] {
        data::file(&root.join("big"), 2 << 20, 1).unwrap();
        data::files(&root.join("small"), 5, &data::FileSizes::parse("1KB..2KB").unwrap(), 1).unwrap();
    }
    let (target, directory) = (format!("s3://{BUCKET}/"), disk.path().to_str().unwrap());
    let results = run(&world, "s1", &[&format!("s3://{BUCKET}/big"), directory, "--set", "starts=2"]);
    let cases: Vec<&str> = results.header.cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(cases, ["object", "directory"]);
    assert!(results.runs.iter().all(|run| run.basis == Basis::Measured));
    fs::remove_file(world.path("results.jsonl")).unwrap();
    let results = run(&world, "s5", &[&target, directory]);
    assert_eq!(results.header.cases.len(), 4);
    let yours = figures(&results, 3);
    assert!(yours.len() >= 12, "{yours:?}");
}
