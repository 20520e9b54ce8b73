//! `bench run` as users run it, with real processes and servers: plans, kills, wrong content,
//! missing programs and limits.

use crate::support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use firstbyte_bench::result::{Outcome, Results, Run};
use firstbyte_testkit::{BUCKET, until};
use rustix::process::{Pid, Signal, kill_process};
use support::servers::S3;
use support::{Ran, World};

const SLEEPERS: &str = r#"
[[case]]
name = "sleep"
title = "two sleepers"
rounds = 3
destination = "disk"
goals = [{ metric = "seconds", over = "long", at_most = 0.9 }]
[[case.contender]]
name = "short"
command = ["sleep", "0.01"]
[[case.contender]]
name = "long"
command = ["sleep", "0.05"]
"#;

fn bench(world: &World, plan: &str, more: &[&str]) -> (Output, Option<Results>) {
    let plan = world.write("plan.toml", plan.as_bytes());
    let out = world.path("results.jsonl");
    let mut words =
        vec!["-q", "bench", "run", "--plan", plan.to_str().unwrap(), "--out", out.to_str().unwrap()];
    words.extend(more);
    let output = world.command(&words).output().unwrap();
    (output, read(&out))
}

fn read(out: &Path) -> Option<Results> {
    Results::parse(&fs::read_to_string(out).ok()?).ok()
}

/// Starts a measurement. Returns it with the process id that one of its commands wrote to the file
/// `mark`.
fn started(mut command: Command, mark: &Path) -> (Child, String) {
    let running = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut pid = String::new();
    until("the command", || {
        pid = fs::read_to_string(mark).unwrap_or_default();
        pid.ends_with('\n')
    });
    (running, pid.trim().to_owned())
}

/// Returns whether the process exists and has not ended. A zombie counts as ended, because init may
/// take a while to reap it.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn rounds(runs: &[Run], contender: &str) -> Vec<u32> {
    runs.iter().filter(|run| run.contender == contender).map(|run| run.round).collect()
}

#[test]
fn contenders_take_turns_and_every_run_is_written() {
    let world = World::new();
    let (output, results) = bench(&world, SLEEPERS, &[]);
    assert!(output.status.success(), "{}", message(&output));
    // The report is the result of the verb, so `-q` does not suppress it.
    let shown = String::from_utf8_lossy(&output.stdout);
    // Only some words are checked, because other load on the machine decides which contender is
    // fastest. The sentences of reports have tests of their own.
    assert!(["two sleepers", "short", "long", "goal"].iter().all(|word| shown.contains(word)), "{shown}");
    let results = results.unwrap();
    assert_eq!(results.header.cases[0].subject, "short");
    for contender in ["short", "long"] {
        assert_eq!(rounds(&results.runs, contender), [0, 1, 2, 3]);
    }
    // In each round both contenders run, before either runs for the next round.
    let order: Vec<u32> = results.runs.iter().map(|run| run.round).collect();
    assert_eq!(order, [0, 0, 1, 1, 2, 2, 3, 3]);
    for run in &results.runs {
        let least = if run.contender == "short" { 0.01 } else { 0.05 };
        assert!(run.outcome == Outcome::Ok && run.seconds >= least, "{run:?}");
        assert!(run.peak_memory_bytes > 0);
    }
}

#[test]
fn the_same_line_continues_what_a_kill_ended() {
    let world = World::new();
    let plan = world.write("plan.toml", SLEEPERS.replace("0.05", "0.2").as_bytes());
    let out = world.path("results.jsonl");
    let words = ["-q", "bench", "run", "--plan", plan.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let mut killed = world.command(&words).spawn().unwrap();
    until("runs", || read(&out).is_some_and(|results| results.runs.len() >= 3));
    killed.kill().unwrap();
    killed.wait().unwrap();
    let before = read(&out).unwrap().runs;
    assert!(before.len() < 8);
    assert!(world.command(&words).status().unwrap().success());
    let after = read(&out).unwrap().runs;
    assert_eq!(after[..before.len()], before[..]);
    let set: BTreeSet<_> = after.iter().map(|run| (run.contender.clone(), run.round)).collect();
    assert_eq!((after.len(), set.len()), (8, 8));
}

#[test]
fn ctrl_c_keeps_what_was_measured_and_leaves_no_process() {
    let world = World::new();
    let mark = world.path("mark");
    let plan = SLEEPERS.replace(
        "[\"sleep\", \"0.05\"]",
        &format!("[\"sh\", \"-c\", \"echo $$ > {}; sleep 60\"]", mark.display()),
    );
    let plan = world.write("plan.toml", plan.as_bytes());
    let out = world.path("results.jsonl");
    let words = ["-q", "bench", "run", "--plan", plan.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let (running, pid) = started(world.command(&words), &mark);
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", message(&output));
    assert!(!runs(&pid), "the contender still runs");
    assert!(read(&out).unwrap().runs.iter().all(|run| run.contender == "short"));
}

#[test]
fn ctrl_c_ends_a_command_that_prepares() {
    let world = World::new();
    let mark = world.path("mark");
    let setup = format!("setup = [[\"sh\", \"-c\", \"echo $$ > {}; sleep 60; true\"]]\n", mark.display());
    let plan = SLEEPERS.replace("rounds = 3\n", &format!("rounds = 3\n{setup}"));
    let plan = world.write("plan.toml", plan.as_bytes());
    let running = world.command(&["-q", "bench", "run", "--plan", plan.to_str().unwrap()]);
    let (running, pid) = started(running, &mark);
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", message(&output));
    assert!(!runs(&pid), "the command still runs");
}

#[test]
fn wrong_content_failures_and_long_runs_are_outcomes() {
    let world = World::new();
    let plan = r#"
[[case]]
name = "outcomes"
rounds = 3
timeout = 0.5
[[case.data]]
name = "big"
size = "3MiB"
seed = 5
[[case.contender]]
name = "right"
command = ["cp", "{data.big}", "{out}/"]
check = { same = "{data.big}" }
[[case.contender]]
name = "wrong"
command = ["sh", "-c", "head -c 3145727 {data.big} > {out}/big; printf x >> {out}/big"]
check = { same = "{data.big}" }
[[case.contender]]
name = "failing"
command = ["sh", "-c", "echo no such luck >&2; exit 7"]
[[case.contender]]
name = "hanging"
command = ["sleep", "60"]
"#;
    let (output, results) = bench(&world, plan, &[]);
    assert_eq!(output.status.code(), Some(3), "{}", message(&output));
    let runs = results.unwrap().runs;
    assert_eq!(rounds(&runs, "right"), [0, 1, 2, 3]);
    // A contender that has failed twice in a row is skipped from then on.
    for (name, outcome, text) in [
        ("wrong", Outcome::Wrong, "wrong content at byte 3145727"),
        ("failing", Outcome::Failed, "exit code 7: no such luck"),
        ("hanging", Outcome::TimedOut, "ended by the engine"),
    ] {
        assert_eq!(rounds(&runs, name), [0, 1], "{name}");
        let run = runs.iter().find(|run| run.contender == name).unwrap();
        assert_eq!(run.outcome, outcome);
        assert!(run.error.as_ref().unwrap().contains(text), "{run:?}");
    }
}

#[test]
fn services_get_ports_are_filled_and_end() {
    let world = World::new();
    let plan = r#"
[[case]]
name = "served"
rounds = 1
[[case.data]]
name = "object"
under = "root/bucket"
size = "1MiB"
[[case.services]]
name = "own"
command = ["{firstbyte}", "serve", "{data}/root", "--listen", "127.0.0.1:0"]
ready = "address"
[[case.services]]
name = "link"
command = ["{firstbyte}", "--json", "link", "--to", "127.0.0.1:{own.port}", "--rtt", "5ms"]
ready = "address"
stand_in = "link: 5 ms"
[[case.contender]]
name = "firstbyte"
command = ["{firstbyte}", "-q", "cp", "{link.url}/bucket/object", "{out}/"]
check = { same = "{data.object}" }
bytes = "1MiB"
[[case.contender]]
name = "pid"
command = ["sh", "-c", "echo '{{\"pid\": {own.pid}, \"seconds\": 2}}'"]
prints = "metrics"
"#;
    let (output, results) = bench(&world, plan, &[]);
    assert!(output.status.success(), "{}", message(&output));
    let results = results.unwrap();
    assert_eq!(results.header.cases[0].stand_ins, ["link: 5 ms"]);
    let run = results.runs.iter().find(|run| run.contender == "pid").unwrap();
    assert_eq!(run.seconds, 2.0);
    let pid = run.metrics["pid"] as u32;
    assert!(!runs(&pid.to_string()), "the server still runs");
    assert_eq!(results.runs.iter().find(|run| run.contender == "firstbyte").unwrap().bytes, Some(1 << 20));
}

#[test]
fn jobs_run_at_once_and_each_has_its_figures() {
    let world = World::new();
    let plan = r#"
[[case]]
name = "jobs"
rounds = 1
[[case.contender]]
name = "three"
jobs = 3
command = ["sh", "-c", "sleep 0.1; echo '{{\"bytes\": 1{job}}}'"]
prints = "metrics"
"#;
    let (output, results) = bench(&world, plan, &[]);
    assert!(output.status.success(), "{}", message(&output));
    let run = &results.unwrap().runs[1];
    assert_eq!(run.jobs.iter().map(|job| job.bytes.unwrap()).collect::<Vec<_>>(), [10, 11, 12]);
    assert_eq!((run.bytes, run.metrics["bytes"]), (Some(33), 11.0));
}

#[test]
fn limits_stop_before_they_are_passed() {
    let world = World::new();
    let plan = SLEEPERS.replace("name = \"short\"", "name = \"short\"\nbytes = \"1MiB\"");
    let (output, results) = bench(&world, &plan, &["--max-bytes", "2MiB"]);
    Ran::from(output).fails(1, &["--max-bytes", "continues"]);
    assert_eq!(rounds(&results.unwrap().runs, "short"), [0, 1]);
}

#[test]
fn nonsense_gets_one_line_and_exit_code_2() {
    let world = World::new();
    for (plan, part) in [
        ("nonsense", "plan.toml"),
        ("[[case]]\nname = \"a\"", "no contenders"),
        (
            "[[case]]\nname = \"a\"\n[[case.contender]]\nname = \"b\"",
            "either a command, a job, a call of a function or a model is needed",
        ),
        (&SLEEPERS.replace("\"long\"", "\"short\""), "two contenders are called"),
        (&SLEEPERS.replace("over = \"long\"", "over = \"other\""), "not a contender"),
        (&SLEEPERS.replace("\"0.05\"", "\"{nothing}\""), "{nothing} has no value"),
        (&SLEEPERS.replace("rounds", "runds"), "runds"),
    ] {
        let (output, _) = bench(&world, plan, &[]);
        Ran::from(output).fails(2, &["plan.toml", part]);
        fs::remove_file(world.path("results.jsonl")).ok();
    }
    let (output, _) = bench(&world, SLEEPERS, &["--case", "other"]);
    Ran::from(output).fails(2, &["no case other", "its cases are sleep"]);
    let (output, _) = bench(&world, SLEEPERS, &["--set", "size=1"]);
    Ran::from(output).fails(2, &["no variable size"]);
}

#[test]
fn results_of_another_plan_or_a_newer_build_are_left_alone() {
    let world = World::new();
    let (output, _) = bench(&world, SLEEPERS, &[]);
    assert!(output.status.success(), "{}", message(&output));
    let before = fs::read(world.path("results.jsonl")).unwrap();
    let (output, _) = bench(&world, &SLEEPERS.replace("0.01", "0.02"), &[]);
    Ran::from(output).fails(1, &["results.jsonl", "another command line"]);
    assert_eq!(fs::read(world.path("results.jsonl")).unwrap(), before);
    world.write("results.jsonl", b"{\"record\":\"header\",\"schema\":99}\n");
    let (output, _) = bench(&world, SLEEPERS, &[]);
    Ran::from(output).fails(1, &["results.jsonl", "schema 99", "newer"]);
}

#[test]
fn braces_of_a_target_and_of_a_command_mean_themselves() {
    let world = World::new();
    let big = world.write("a{out}b}/big", &[7; 5000]);
    let (target, out) = (big.parent().unwrap().to_str().unwrap(), world.path("results.jsonl"));
    let line = ["-q", "bench", "run", target, "--rounds", "1", "--out", out.to_str().unwrap()];
    let measured = |more: &[&str]| {
        let _ = fs::remove_file(&out);
        let output = world.command(&[&line[..], more].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", message(&output));
        let runs = read(&out).unwrap().runs;
        assert!(runs.iter().all(|run| run.outcome == Outcome::Ok), "{runs:?}");
    };
    measured(&["--workload", "seq-read", "--workload", "rand-read"]);
    let count = r#"set -e; test "$(wc -c < {target}/big | awk '{print $1}')" = 5000"#;
    measured(&["--workload", "command", "--", "sh", "-c", count]);
}

#[test]
fn an_endpoint_that_is_given_is_that_of_every_command() {
    let server = S3::ours();
    fs::write(server.root.join(BUCKET).join("big"), [7; 5000]).unwrap();
    let world = World::with_s3(&server);
    let (target, out) = (format!("s3://{BUCKET}/big"), world.path("results.jsonl"));
    let line = ["-q", "--endpoint-url", &server.url, "bench", "run", &target, "--workload", "open"];
    let mut command =
        world.command(&[&line[..], &["--rounds", "1", "--out", out.to_str().unwrap()]].concat());
    let output = command.env_remove("FIRSTBYTE_ENDPOINT_URL").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", message(&output));
    let runs = read(&out).unwrap().runs;
    assert!(!runs.is_empty() && runs.iter().all(|run| run.outcome == Outcome::Ok), "{runs:?}");
}

#[test]
fn a_report_does_not_replace_results_and_a_failure_is_no_success() {
    let world = World::new();
    let (_, results) = bench(&world, SLEEPERS, &[]);
    assert!(results.is_some());
    let (file, text) = (world.path("results.jsonl"), fs::read(world.path("results.jsonl")).unwrap());
    let out = file.to_str().unwrap();
    world.run(&["bench", "report", out, "--out", out]).fails(2, &["--out", "file of results"]);
    assert!(fs::read(&file).unwrap() == text);
    let failed =
        String::from_utf8(text.clone()).unwrap().replace("\"outcome\":\"ok\"", "\"outcome\":\"failed\"");
    let failed = world.write("failed.jsonl", failed.as_bytes());
    let ran = world.run(&["bench", "compare", out, failed.to_str().unwrap()]);
    assert!(ran.code == Some(1) && String::from_utf8_lossy(&ran.stdout).contains("FAILS NOW"), "{ran:?}");
    let header = text.split_inclusive(|byte| *byte == b'\n').next().unwrap();
    let header = world.write("header.jsonl", header);
    world.run(&["bench", "compare", out, header.to_str().unwrap()]).fails(1, &["nothing in these files"]);
}

#[test]
fn a_plan_without_cases_is_no_measurement() {
    let world = World::new();
    let plan = world.write("plan.toml", b"name = \"none\"\n");
    for more in [&[][..], &["--dry-run"]] {
        world
            .run(&[&["bench", "run", "--plan", plan.to_str().unwrap()], more].concat())
            .fails(2, &["no cases"]);
    }
}
