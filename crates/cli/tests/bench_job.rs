//! Workloads that read through a mount made by the real binary. When the job ends, for whatever
//! reason, the mount is removed.

use crate::support;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use firstbyte_bench::data::{self, FileSizes, Spread};
use firstbyte_bench::job::{Error, Job, Metrics, Watch};
use firstbyte_bench::run_job as run;
use firstbyte_testkit::{BUCKET, scratch, set_credentials, until};
use serde_json::{Value, json};
use support::servers::S3;

const SIZE: u64 = (2 << 20) + 99;
const FILES: u64 = 12;
const SIZES: FileSizes = FileSizes { min: 1, max: 9_000, spread: Spread::Uniform };
const SEED: u64 = 3;
/// Environment variable that holds the job which [`a_job_of_its_own_process`] runs.
const JOB: &str = "FIRSTBYTE_TEST_JOB";

/// A server with `big` and `small/`, and a mount point.
struct World {
    s3: S3,
    scratch: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        set_credentials();
        let s3 = S3::ours();
        let bucket = s3.root.join(BUCKET);
        data::file(&bucket.join("big"), SIZE, SEED).unwrap();
        data::files(&bucket.join("small"), FILES, &SIZES, SEED).unwrap();
        Self { s3, scratch: scratch() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn job(&self, target: &str, parameters: &Value) -> String {
        let mut job = parameters.as_object().unwrap().clone();
        job.insert("target".into(), json!(format!("s3://{BUCKET}/{target}")));
        job.insert("access".into(), json!("mount"));
        job.insert("mount".into(), json!(self.path("mnt")));
        job.insert("firstbyte".into(), json!(env!("CARGO_BIN_EXE_firstbyte")));
        job.insert("options".into(), json!(["--endpoint-url", self.s3.url]));
        Value::from(job).to_string()
    }

    #[track_caller]
    fn run(&self, target: &str, parameters: &Value) -> Metrics {
        let result = run(&Job::parse(&self.job(target, parameters)).unwrap(), &Watch::start());
        assert!(!is_mounted(&self.path("mnt")), "{parameters}");
        result.unwrap_or_else(|error| panic!("{parameters}: {error}"))
    }

    #[track_caller]
    fn refused(&self, target: &str, parameters: &Value) -> Error {
        let result = run(&Job::parse(&self.job(target, parameters)).unwrap(), &Watch::start());
        assert!(!is_mounted(&self.path("mnt")), "{parameters}");
        result.unwrap_err()
    }
}

fn is_mounted(at: &Path) -> bool {
    fs::read_to_string("/proc/self/mountinfo").unwrap().contains(at.to_str().unwrap())
}

#[test]
fn one_object_is_read_through_a_mount_of_itself_or_of_its_bucket() {
    let world = World::new();
    let expect = json!({"seed": SEED, "compare": "all"});
    let open = world.run("big", &json!({"workload": "open", "expect": expect}));
    let stages =
        ["ready", "opened", "first_byte", "part", "all"].map(|stage| open[&format!("{stage}_seconds")]);
    assert!(stages.is_sorted() && stages[0] > 0.0, "{stages:?}");
    assert_eq!(open["seconds"], open["all_seconds"]);
    let inside = json!({"workload": "one-big", "object": "big", "expect": expect});
    let whole = world.run("", &inside);
    assert_eq!(whole["bytes"], SIZE as f64);
    assert!(whole["wire_bytes"] >= SIZE as f64 && whole["requests"] >= 1.0, "{whole:?}");
    assert!(whole["seconds"] < whole["all_seconds"], "a mount serves many reads: its time is apart");
    let random = json!({"workload": "rand-read", "count": 40, "concurrency": 2, "expect": expect});
    assert_eq!(world.run("big", &random)["operations"], 40.0);
    let mapped = json!({"workload": "mapped", "expect": expect});
    assert_eq!(world.run("big", &mapped)["bytes"], SIZE as f64);
    let command = json!({"workload": "command", "command": ["cmp", "{target}", world.s3.root.join(BUCKET).join("big")]});
    world.run("big", &command);
    let fio = json!({"workload": "fio", "size": "1MiB"});
    assert_eq!(world.run("big", &fio)["operations"], 1.0);
}

#[test]
fn a_kept_cache_is_used_by_the_next_mount() {
    let world = World::new();
    let read = json!({"workload": "one-big", "cache": world.path("cache"), "expect": {"seed": SEED}});
    assert!(world.run("big", &read)["wire_bytes"] >= SIZE as f64);
    assert!(world.run("big", &read)["wire_bytes"] < 10_000.0);
}

#[test]
fn all_files_are_read_listed_and_copied_through_a_mount() {
    let world = World::new();
    let expect = json!({"seed": SEED, "compare": "all"});
    let small = json!({"workload": "many-small", "count": FILES, "expect": expect});
    assert_eq!(world.run("small", &small)["files"], FILES as f64);
    let list = json!({"workload": "list", "details": true, "count": FILES});
    assert_eq!(world.run("small/", &list)["operations"], FILES as f64);
    let to = world.path("copy");
    world.run("small", &json!({"workload": "copy-tree", "destination": to, "expect": expect}));
    data::check_files(&to, FILES, &SIZES, SEED).unwrap();
    let shares = json!({"many-small": 1, "list": 1, "rand-read": 1});
    let mixed =
        json!({"workload": "mixed", "shares": shares, "object": data::name_of(0), "block": 1, "count": 30});
    assert_eq!(world.run("small", &mixed)["operations"], 30.0);
}

#[test]
fn a_job_that_fails_leaves_no_mount() {
    let world = World::new();
    let expect = json!({"seed": SEED + 1, "compare": "all"});
    assert!(world.refused("big", &json!({"workload": "one-big", "expect": expect})).is_wrong_content());
    let error = world.refused("none", &json!({"workload": "one-big"})).to_string();
    assert!(error.contains("none") && error.contains("not found"), "{error}");
    let error = world.refused("big", &json!({"workload": "command", "command": ["false"]})).to_string();
    assert!(error.starts_with("false: "), "{error}");
    let option = json!({"workload": "open", "mount_options": ["--no-such-option"]});
    let error = world.refused("big", &option).to_string();
    assert!(error.contains("firstbyte mount"), "{error}");
    fs::write(world.path("mnt").join("occupied"), "x").unwrap();
    let error = world.refused("big", &json!({"workload": "open"})).to_string();
    assert!(error.contains("not empty"), "{error}");
}

/// Runs the job in this process, which the tests that end a job start and signal.
#[test]
fn a_job_of_its_own_process() {
    let Ok(job) = std::env::var(JOB) else { return };
    run(&Job::parse(&job).unwrap(), &Watch::start_with_process()).unwrap();
}

/// Starts this test binary as a process that runs the job, in a process group of its own, as the
/// engine does.
fn spawn(job: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "bench_job::a_job_of_its_own_process"]).env(JOB, job).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_job_that_is_killed_leaves_no_mount() {
    use rustix::process::{Pid, Signal, kill_process_group};
    let world = World::new();
    let (mount, started) = (world.path("mnt"), world.path("started"));
    let script = format!("touch {} && sleep 60", started.display());
    let job = world.job("big", &json!({"workload": "command", "command": ["sh", "-c", script]}));
    for signal in [Signal::TERM, Signal::KILL] {
        let mut child = spawn(&job);
        until("the work begins", || started.exists());
        assert!(is_mounted(&mount));
        kill_process_group(Pid::from_child(&child), signal).unwrap();
        child.wait().unwrap();
        until("it is unmounted", || !is_mounted(&mount));
        fs::remove_file(&started).unwrap();
    }
}
