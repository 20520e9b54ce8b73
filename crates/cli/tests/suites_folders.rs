//! The suites s2 and s4 with tiny sizes. Every installed contender does its work, and the tables
//! show the published figures next to the measured ones.

use crate::support;

use std::fs;

use firstbyte_bench::result::{CacheState, Outcome, Results, Run};
use firstbyte_bench::statistics::cells;
use support::World;

/// Runs cases of a suite for one round, and returns their results. Exit code 4, which means that a
/// run has failed, is allowed.
fn measured(world: &World, suite: &str, words: &[&str]) -> Results {
    let out = world.path("results.jsonl");
    let mut line =
        vec!["-q", "bench", "run", "--suite", suite, "--rounds", "1", "--out", out.to_str().unwrap()];
    line.extend(words);
    let output = world.command(&line).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(out.exists(), "{said}");
    Results::parse(&fs::read_to_string(out).unwrap()).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// Returns the measured run of a contender, which must have succeeded.
#[track_caller]
fn run<'a>(results: &'a Results, case: &str, contender: &str) -> &'a Run {
    let is = |run: &&Run| run.case == case && run.contender == contender && run.round == 1;
    let run = results.runs.iter().find(is).unwrap_or_else(|| panic!("{case}: no run of {contender}"));
    assert_eq!(run.outcome, Outcome::Ok, "{case}, {contender}: {:?}", run.error);
    run
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

const FOLDERS: [&str; 14] = [
    "--set",
    "names=3000",
    "--set",
    "slow_names=1000",
    "--set",
    "churn=40",
    "--set",
    "buffers=2KiB 10MiB",
    "--set",
    "levels=1",
    "--set",
    "width=1",
    "--max-time",
    "30m",
];

#[test]
fn names_are_listed_by_every_program_in_one_directory_and_in_a_layout() {
    let results = measured(&World::new(), "s4", &FOLDERS);
    for program in ["os.scandir", "getdents64 10MiB", "ls -f", "ls", "find", "firstbyte ls"] {
        let state = |state: &str| run(&results, "flat", &format!("{program}, {state}")).cache.wanted;
        assert_eq!([state("cold"), state("warm")], [CacheState::Cold, CacheState::Warm], "{program}");
        assert!(run(&results, "slow", &format!("{program}, cold")).requests.unwrap() > 0, "{program}");
    }
    let figure = |contender: &str, metric: &str| run(&results, "layout", contender).metrics[metric];
    assert_eq!(figure("created and deleted, flat", "leaves"), 1.0);
    assert_eq!(figure("created and deleted, flat", "files_in_a_leaf"), 3000.0);
    assert_eq!(figure("created and deleted, sharded", "leaves"), 16.0);
    let cells: Vec<_> = results.header.tables.iter().map(|table| cells(table, &results)).collect();
    assert_eq!((cells[0][0][0].published.as_str(), cells[0][0][0].value.is_some()), ("about 60 s", true));
    assert!(cells[3].iter().flatten().all(|cell| cell.value.is_some()), "flat against the layout");
    assert!(results.header.cases[0].title.starts_with("3000 names"), "{}", results.header.cases[0].title);
}

#[test]
fn a_directory_of_the_user_is_only_read() {
    let world = World::new();
    for name in 0..50 {
        world.write(&format!("data/{name}"), b"");
    }
    let data = world.path("data");
    let before = fs::metadata(&data).unwrap().modified().unwrap();
    let results = measured(&world, "s4", &[data.to_str().unwrap()]);
    assert!(results.runs.iter().all(|run| (run.case.as_str(), run.outcome) == ("directory", Outcome::Ok)));
    run(&results, "directory", "firstbyte ls, warm");
    assert_eq!(fs::metadata(&data).unwrap().modified().unwrap(), before);
}

const TRANSFERS: [&str; 20] = [
    "--set",
    "size=2MB",
    "--set",
    "sizes=64KiB",
    "--set",
    "frames=1MiB",
    "--set",
    "chunks=64KiB 1MiB",
    "--set",
    "chunked=1MiB",
    "--set",
    "clients=2",
    "--set",
    "shared=256KiB",
    "--set",
    "eight=64KiB",
    "--set",
    "upload=9MiB",
    "--max-time",
    "30m",
];

/// Contenders whose programs are not installed are skipped. All others must succeed.
#[test]
fn files_arrive_by_every_server_and_design() {
    let results = measured(&World::new(), "s2", &TRANSFERS);
    let mut needed = vec![("whole", "serve + cp"), ("8-clients-of-64KiB", "serve + cp"), ("upload", "cp")];
    for (program, contenders) in [
        ("nginx", &[("whole", "nginx + curl"), ("2-clients-256KiB", "nginx + curl")][..]),
        ("vsftpd", &[("whole-64KiB", "vsftpd + curl"), ("2-clients-256KiB", "vsftpd + curl")]),
        ("chromium", &[("upload", "the page"), ("upload", "one PUT by Chromium")]),
    ] {
        needed.extend(contenders.iter().filter(|_| is_installed(program)));
    }
    let is_offline = |run: &Run| run.error.as_ref().is_some_and(|error| error.contains("is there a network"));
    if is_installed("java") && is_installed("mvn") && !results.runs.iter().any(is_offline) {
        needed.extend([
            ("whole", "Netty, 5 MB chunks"),
            ("frame", "Netty, one frame, 1 GB"),
            ("chunks", "Netty, chunks of 64KiB"),
            ("2-clients-256KiB", "Netty, 5 MB chunks"),
        ]);
    }
    for (case, contender) in needed {
        let run = run(&results, case, contender);
        assert!(run.metrics["server_peak_bytes"] > 0.0, "{case}, {contender}");
    }
}
