//! Emulated serverless functions as users run them: each job has a control group and a link, jobs
//! run in waves, and memory may run out. Enforcing limits needs root.

use crate::support;

use std::fs;
use std::process::Output;

use firstbyte_bench::result::{Basis, Outcome, Results};
use firstbyte_testkit::lacks_root;
use support::{Ran, World};

/// Runs a plan and reads its results.
fn bench(world: &World, plan: &str) -> (Output, Option<Results>) {
    let plan = world.write("plan.toml", plan.as_bytes());
    let out = world.path("results.jsonl");
    let words = ["-q", "bench", "run", "--plan", plan.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let output = world.command(&words).output().unwrap();
    let text = fs::read_to_string(out).ok();
    (output, text.and_then(|text| Results::parse(&text).ok()))
}

#[track_caller]
fn complete(world: &World, plan: &str) -> Results {
    let (output, results) = bench(world, plan);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    results.unwrap()
}

/// A plan whose jobs print the memory limit and the inode of their control group, and the port of
/// their link.
const WITNESS: &str = r#"
[vars]
starts = "2"

[[data]]
name = "root"
kind = "directory"

[[services]]
name = "serve"
command = ["{firstbyte}", "serve", "{data.root}", "--listen", "127.0.0.1:0"]
ready = "address"

[[services]]
name = "far"
command = ["{firstbyte}", "--json", "link", "--to", "127.0.0.1:{serve.port}", "--preset", "function"]
ready = "address"
for_each_job = true
stand_in = "link: 20 ms"

[[case]]
name = "functions"
rounds = 1
[[case.contender]]
name = "witness"
function = "134217728"
jobs = "{starts}"
waves = true
link = "far"
prints = "metrics"
env = { LINK = "{far.port}" }
check = { command = ["test", "-f", "{out}/{job}"] }
command = ["sh", "-c", '''
touch $OUT/{job}
g=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup); f=memory.limit_in_bytes
[ -f $g/$f ] || {{ g=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup); f=memory.max; }}
curl -so /dev/null http://127.0.0.1:{far.port}/
echo "{{\"limit\": $(cat $g/$f), \"group\": $(stat -c %i $g), \"port\": {far.port}, \"link\": $LINK}}"
''']
"#;

#[test]
fn each_job_has_a_group_and_a_link_of_its_own() {
    if lacks_root() {
        return;
    }
    let world = World::new();
    let results = complete(&world, &WITNESS.replace("touch $OUT", "touch {out}"));
    assert_eq!(
        results.header.cases[0].stand_ins,
        ["link: 20 ms", "function: 134 MB and 0.076 processors for each job"]
    );
    let run = &results.runs[1];
    assert_eq!((run.basis, run.jobs.len()), (Basis::Emulated, 2));
    // The counters of all links are added up. Each job sends one request.
    assert_eq!(run.requests, Some(2));
    let of = |name: &str| [0, 1].map(|job| run.jobs[job].metrics[name]);
    assert_eq!(of("limit"), [134_217_728.0; 2]);
    assert_ne!(of("group")[0], of("group")[1]);
    assert_ne!(of("port")[0], of("port")[1]);
    assert_eq!(of("port"), of("link"));
}

#[test]
fn a_missing_output_of_one_job_counts_as_wrong_content() {
    let world = World::new();
    let (_, results) = bench(&world, &WITNESS.replace("touch $OUT/{job}", "touch {out}/0"));
    assert!(results.unwrap().runs.iter().all(|run| run.outcome == Outcome::Wrong));
}

/// Returns a plan of functions that each get half of the machine's memory, so that only one fits
/// beside the other processes.
fn halves(waves: bool) -> String {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let kib: u64 = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .unwrap()
        .trim()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    format!(
        r#"
[[case]]
name = "halves"
rounds = 1
[[case.contender]]
name = "half"
function = "{}KiB"
jobs = 2
waves = {waves}
prints = "metrics"
command = ["sh", "-c", "b=$(date +%s%N); sleep 0.05; echo '{{{{\"began\": '$b', \"ended\": '$(date +%s%N)'}}}}'"]
"#,
        kib / 2
    )
}

#[test]
fn functions_that_do_not_fit_in_memory_together_run_in_waves() {
    if lacks_root() {
        return;
    }
    let world = World::new();
    let results = complete(&world, &halves(true));
    let run = &results.runs[1];
    assert_eq!((run.metrics["jobs_at_once"], run.jobs.len()), (1.0, 2));
    assert!(run.jobs[0].metrics["ended"] <= run.jobs[1].metrics["began"], "{run:?}");
}

#[test]
fn functions_that_do_not_fit_are_refused_before_anything_runs() {
    let world = World::new();
    let (output, results) = bench(&world, &halves(false));
    Ran::from(output).fails(2, &["contender half", "2 jobs", "this machine has", "waves"]);
    assert!(results.is_none_or(|results| results.runs.is_empty()));
}

#[test]
fn a_function_without_memory_left_says_so() {
    if lacks_root() {
        return;
    }
    let world = World::new();
    let plan = r#"
[[case]]
name = "full"
rounds = 1
[[case.contender]]
name = "hog"
function = "32MB"
command = ["sh", "-c", "head -c 200000000 /dev/zero | tail"]
"#;
    let (_, results) = bench(&world, plan);
    let run = &results.unwrap().runs[0];
    assert_eq!(run.outcome, Outcome::Failed);
    let error = run.error.as_deref().unwrap();
    assert!(error.contains("memory was used up (function: 32 MB"), "{error}");
}

#[test]
fn functions_in_a_plan_that_make_no_sense_are_refused() {
    let world = World::new();
    for (old, new, part) in [
        ("134217728", "much", "function"),
        ("134217728", "0", "the least memory of a function is 32MB"),
        ("waves = true", "waves = true\ncpus = 1.0", "leave out memory_limit and cpus"),
        ("function = \"134217728\"", "", "waves are of functions"),
        ("\"2\"", "\"none\"", "no number from 1 on"),
        ("\"2\"", "\"0\"", "at least one is needed"),
    ] {
        let (output, _) = bench(&world, &WITNESS.replace(old, new));
        Ran::from(output).fails(2, &["plan.toml", part]);
        fs::remove_file(world.path("results.jsonl")).ok();
    }
}

#[test]
fn targets_are_measured_as_from_functions() {
    if lacks_root() {
        return;
    }
    let world = World::new();
    let file = world.write("data/big", &[7; 1 << 20]);
    let out = world.path("results.jsonl");
    let words = ["-q", "bench", "run", file.to_str().unwrap(), "--workload", "open", "--rounds", "1"];
    let more = ["--function", "256MB", "--out", out.to_str().unwrap()];
    let output = world.command(&[&words[..], &more].concat()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results = Results::parse(&fs::read_to_string(out).unwrap()).unwrap();
    assert_eq!(results.header.cases[0].stand_ins.len(), 2);
    let cold = results.runs.iter().rfind(|run| run.contender == "path, cold").unwrap();
    assert_eq!((cold.basis, cold.outcome), (Basis::Emulated, Outcome::Ok), "{cold:?}");
    assert!(cold.wire_bytes.unwrap() >= 1 << 20);
    assert_eq!(cold.cache.held, Some(true), "{cold:?}");
}

#[test]
fn options_that_exclude_each_other_are_refused() {
    let world = World::new();
    for other in [&["--suite", "s1"][..], &[".", "--cpus", "1"], &[".", "--memory-limit", "1GB"]] {
        let words = [&["bench", "run", "--function", "512MB"], other].concat();
        let output = world.command(&words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains("cannot be used with"), "{said}");
    }
}
