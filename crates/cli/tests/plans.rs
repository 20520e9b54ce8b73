//! The plans in this repository and its documentation, and resources that several cases of a plan
//! share.

use crate::support;

use std::fs;
use std::path::Path;

use firstbyte_bench::result::{Outcome, Results};
use support::{Ran, World};

/// Runs a plan and returns its results.
fn measured(world: &World, plan: &str, more: &[&str]) -> Results {
    let plan = world.write("plan.toml", plan.as_bytes());
    let out = world.path("results.jsonl");
    let mut words =
        vec!["-q", "bench", "run", "--plan", plan.to_str().unwrap(), "--out", out.to_str().unwrap()];
    words.extend(more);
    let output = world.command(&words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Results::parse(&fs::read_to_string(out).unwrap()).unwrap()
}

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn the_example_of_the_documentation_runs() {
    let text = fs::read_to_string(repository().join("docs/reference/bench.md")).unwrap();
    let example = text.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let results = measured(&World::new(), example, &["--rounds", "1", "--set", "size=1MiB"]);
    assert_eq!(results.header.cases[1].stand_ins, ["link: 20 ms"]);
    assert_eq!(results.header.cases[0].stand_ins, [""; 0]);
    for case in ["near", "far"] {
        let run = results.counted(case, "firstbyte").next().unwrap();
        assert_eq!((run.outcome, run.bytes), (Outcome::Ok, Some(1 << 20)));
        // The far case has a slower link than the near one, and no other difference.
        assert!(case == "near" || run.seconds >= 0.02, "{case}: {} s", run.seconds);
    }
}

#[test]
fn every_plan_of_the_benchmarks_is_one() {
    let world = World::new();
    let mut cases = 0;
    for entry in fs::read_dir(repository().join("peers")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|kind| kind == "toml") {
            let words = ["--json", "bench", "run", "--dry-run", "--plan", path.to_str().unwrap()];
            let output = world.command(&words).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            cases += String::from_utf8_lossy(&output.stdout).lines().count();
        }
    }
    assert!(cases >= 50, "{cases} cases");
}

#[test]
fn cases_share_variables_and_environment_and_have_their_own() {
    let plan = r#"
[vars]
number = "1"
[env]
SHARED = "{number}"
OWN = "1"
[[data]]
name = "unused"
size = "{nothing}"
[[case]]
name = "first"
uses = []
rounds = 1
[[case.contender]]
name = "printer"
command = ["sh", "-c", "echo '{{\"number\": {number}, \"shared\": '$SHARED', \"own\": '$OWN'}}'"]
prints = "metrics"
check = { command = ["sh", "-c", "test $OWN -gt 0"] }
[[case]]
name = "second"
like = "first"
vars = { number = "2" }
env = { OWN = "{number}{number}" }
"#;
    let results = measured(&World::new(), plan, &[]);
    for (case, number, own) in [("first", 1.0, 1.0), ("second", 2.0, 22.0)] {
        let metrics = &results.counted(case, "printer").next().unwrap().metrics;
        assert_eq!([metrics["number"], metrics["shared"], metrics["own"]], [number, number, own]);
    }
}

#[test]
fn a_prediction_may_rest_on_what_was_measured_before_it() {
    let world = World::new();
    let plan = r#"
[[case]]
name = "start"
[[case.contender]]
name = "empty job"
command = ["sleep", "0.3"]
[[case]]
name = "job"
[[case.contender]]
name = "predicted"
[case.contender.modelled]
option = "efs-elastic"
measured = { start = "start / empty job" }
workload = """
[data]
size = "1 B"
[compute]
at = "m5.large"
startup = "{start} s"
"""
"#;
    let results = measured(&world, plan, &["--rounds", "1"]);
    let of = |case: &str| results.runs.iter().rfind(|run| run.case == case).unwrap();
    let (start, job) = (of("start").seconds, of("job").seconds);
    // After the start, the remaining time is for the mount and for the round trips of one file.
    assert!(job > start && job < start + 0.2, "{start} {job}");
    let file = world.write("plan.toml", plan.as_bytes());
    world
        .run(&["-q", "bench", "run", "--plan", file.to_str().unwrap(), "--case", "job"])
        .fails(2, &["it needs what \"empty job\" of the case \"start\" measures"]);
}

#[test]
fn names_that_are_not_there_get_one_line() {
    let world = World::new();
    let case = |fields: &str| {
        format!("[[case]]\nname = \"a\"\n{fields}\n[[case.contender]]\nname = \"b\"\ncommand = [\"true\"]\n")
    };
    for (plan, part) in [
        (case("uses = [\"minio\"]"), "uses \"minio\", which is no data or service"),
        (case("like = \"z\""), "which is no case before it"),
        (case("env = { A = \"{nothing}\" }"), "{nothing} has no value"),
    ] {
        let path = world.write("plan.toml", plan.as_bytes());
        let output =
            world.command(&["-q", "bench", "run", "--plan", path.to_str().unwrap()]).output().unwrap();
        Ran::from(output).fails(2, &["plan.toml", part]);
    }
}

#[test]
fn a_sweep_is_one_contender_per_combination_and_its_values_can_be_set() {
    let plan = r#"
[vars]
chunks = "4KiB 1MiB"
[[case]]
name = "swept"
rounds = 1
[[case.contender]]
name = "{chunk}, {clients} clients"
each = { chunk = "{chunks}", clients = ["1", "2"] }
command = ["sh", "-c", "echo '{{\"clients\": {clients}, \"seconds\": 1}}'; test {chunk} = 4KiB"]
prints = "metrics"
parameters = { chunk_bytes = "{chunk}", concurrency = "{clients}" }
"#;
    let results = measured(&World::new(), plan, &["--set", "chunks=4KiB"]);
    let lines = &results.header.cases[0].contenders;
    let found: Vec<_> =
        lines.iter().map(|line| (line.name.as_str(), line.parameters["chunk_bytes"])).collect();
    assert_eq!(found, [("4KiB, 1 clients", 4096.0), ("4KiB, 2 clients", 4096.0)]);
    let run = results.counted("swept", "4KiB, 2 clients").next().unwrap();
    assert_eq!((run.outcome, run.metrics["clients"]), (Outcome::Ok, 2.0));
}

#[test]
fn what_is_wrong_in_a_plan_is_found_by_its_line_also_with_like() {
    let world = World::new();
    let plan = "[[case]]\nname = \"a\"\n[[case]]\nname = \"b\"\nlike = \"a\"\nspeed = 3\n";
    let path = world.write("plan.toml", plan.as_bytes());
    let output = world.command(&["-q", "bench", "run", "--plan", path.to_str().unwrap()]).output().unwrap();
    Ran::from(output).fails(2, &["plan.toml", "line 6", "speed"]);
}

#[test]
fn a_blast_database_and_its_queries_are_data() {
    let plan = r#"
[vars]
size = "2MB"
rate = "20ms"
[[data]]
name = "db"
kind = "blast"
size = "{size}"
volume = "1MB"
seed = 21
[[data]]
name = "queries"
kind = "queries"
size = "{size}"
sequences = "3"
seed = 21
[[case]]
name = "search"
rounds = 1
[[case.services]]
name = "named"
command = ["sh", "-c", "echo ready; exec sleep 1000"]
ready = "line"
stand_in = "a stand-in of {rate}"
[[case.contender]]
name = "blastn"
job = { workload = "blast", target = "{data.db}", database = "db", query = "{data.queries}", destination = "{out}" }
check = { command = ["sh", "-c", "test $(cut -f1 {out}/results.tsv | sort -u | wc -l) = 3"] }
"#;
    let results = measured(&World::new(), plan, &[]);
    let run = results.counted("search", "blastn").next().unwrap();
    assert_eq!(run.metrics["sequences"], 3.0);
    assert!(run.bytes.unwrap() > 2_000_000, "{:?}", run.bytes);
    assert_eq!(results.header.cases[0].stand_ins, ["a stand-in of 20ms"]);
}

#[test]
fn an_optional_job_whose_program_is_missing_is_left_out_with_a_line() {
    let plan = r#"
[[case]]
name = "reads"
rounds = 1
[[case.contender]]
name = "by fio"
job = { workload = "fio", target = "{disk}", object = "none" }
optional = true
[[case.contender]]
name = "other"
command = ["/bin/true"]
"#;
    let world = World::new();
    let path = world.write("plan.toml", plan.as_bytes());
    let words = ["bench", "run", "--plan", path.to_str().unwrap()];
    let output = world.command(&words).env("PATH", "/nonexistent").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("by fio: left out, fio is not installed; install it: the package fio"), "{said}");
}
