//! The suite s3 with tiny sizes. Every case runs to its end, the results of blastn are compared,
//! and the tables show the states and passes of the runs.

use crate::support;

use std::fs;
use std::os::unix::fs::MetadataExt;

use firstbyte_bench::result::{Outcome, Results, Run};
use support::{Ran, World};

/// Variables with which the whole suite takes only seconds.
const TINY: [&str; 9] = [
    "size=2MB",
    "volume=1MB",
    "q50000=20",
    "q500000=40",
    "batch=3000",
    "memory_size=96MB",
    "sequential=16MiB",
    "random=1MiB",
    "below=88MiB",
];

/// Runs cases of the suite, each once, and returns their results.
fn measured(world: &World, cases: &[&str], more: &[&str]) -> Results {
    let out = world.path("results.jsonl");
    let mut words =
        vec!["-q", "bench", "run", "--suite", "s3", "--rounds", "1", "--out", out.to_str().unwrap()];
    for case in cases {
        words.extend(["--case", case]);
    }
    for value in TINY {
        words.extend(["--set", value]);
    }
    words.extend(more);
    let output = world.command(&words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Results::parse(&fs::read_to_string(out).unwrap()).unwrap()
}

/// Returns the measured run of a contender: the run after the warm-up.
fn run_of<'a>(results: &'a Results, case: &str, contender: &str) -> &'a Run {
    let mut of = results.runs.iter().filter(|run| run.case == case && run.contender == contender);
    let run = of.next_back().unwrap_or_else(|| panic!("{case}: no run of {contender}"));
    assert_eq!((run.outcome, run.round), (Outcome::Ok, 1), "{case}: {contender}: {:?}", run.error);
    run
}

#[test]
fn searches_find_their_queries_in_every_state() {
    // The other search cases differ only in the number of queries.
    let case = "search-50000";
    let results = measured(&World::new(), &[case], &[]);
    for contender in ["own rate, cold", "shared rate, warm", "lazily, half hydrated", "lazily, hydrated"] {
        assert_eq!(run_of(&results, case, contender).metrics["sequences"], 20.0);
    }
    let four = run_of(&results, case, "four jobs, cold");
    assert_eq!(four.jobs.len(), 4);
    assert!(four.jobs.iter().all(|job| job.metrics["sequences"] == 20.0));
    // Each job has a page cache of its own, so the storage has to send the database four times.
    let passes = |contender| run_of(&results, case, contender).figure("passes").unwrap();
    assert!(passes("own rate, cold") > 0.8 && passes("four jobs, cold") > 0.8);
    assert!(passes("lazily, cold") > 0.8 && passes("shared rate, warm") < 0.1);
    assert!(passes("lazily, hydrated") < 0.1);
    let half = passes("lazily, half hydrated");
    assert!((0.2..0.8).contains(&half), "{half}");
    assert_eq!(results.header.cases.len(), 1);
    assert!(results.header.cases[0].stand_ins[0].contains("320MB/s for each client"));
}

#[test]
fn the_database_is_brought_here_in_every_way_and_searched_again() {
    let results = measured(&World::new(), &["bring", "repeat", "share"], &[]);
    for contender in ["dd", "hydrate", "dd, then search", "hydrate, then search", "lazily, then search"] {
        run_of(&results, "bring", contender);
    }
    assert_eq!(run_of(&results, "repeat", "shared rate").metrics["searches"], 10.0);
    assert_eq!(run_of(&results, "share", "four jobs").jobs.len(), 4);
}

#[test]
fn memory_below_the_database_reads_it_again_and_above_does_not() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    let results = measured(&World::new(), &["memory"], &[]);
    let passes = |contender| run_of(&results, "memory", contender).figure("passes").unwrap();
    assert!(passes("below") > 1.5, "{}", passes("below"));
    assert!(passes("above") < 1.1, "{}", passes("above"));
}

#[test]
fn fio_reads_as_much_as_the_plan_says_and_its_absence_is_one_line() {
    let world = World::new();
    let results = measured(&world, &["fio-sequential", "fio-random"], &[]);
    for (case, operations) in [("fio-sequential", 16.0), ("fio-random", 256.0)] {
        for contender in ["slow directory", "local directory"] {
            assert_eq!(run_of(&results, case, contender).metrics["operations"], operations);
        }
    }
    // The directory contains cp and sh, but not fio.
    let bin = world.path("bin");
    fs::create_dir_all(&bin).unwrap();
    for name in ["sh", "cp", "mkdir"] {
        std::os::unix::fs::symlink(format!("/bin/{name}"), bin.join(name)).unwrap();
    }
    let words = ["bench", "run", "--suite", "s3", "--case", "fio-random", "--rounds", "1"];
    let output = world.command(&words).env("PATH", &bin).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Ran::from(output).ok();
    assert!(said.contains("left out, fio is not installed; install it: the package fio"), "{said}");
}

#[test]
fn a_directory_of_the_user_is_searched_and_only_read() {
    let world = World::new();
    let directory = world.path("mine");
    fs::create_dir_all(directory.parent().unwrap()).unwrap();
    firstbyte_bench::data::database(&directory, 2_000_000, 1_000_000, 21).unwrap();
    let names = || fs::read_dir(&directory).unwrap().count();
    let before = names();
    let cases = ["own-search-500", "own-repeat"];
    let results = measured(&world, &cases, &["--set", "database=db", directory.to_str().unwrap()]);
    assert_eq!(run_of(&results, "own-search-500", "one job, again").metrics["sequences"], 1.0);
    assert_eq!(run_of(&results, "own-search-500", "four jobs, cold").jobs.len(), 4);
    assert_eq!(run_of(&results, "own-repeat", "directory").metrics["searches"], 10.0);
    assert_eq!(names(), before);
}
