//! Makes the plan of `bench run TARGET...` from its targets.
//!
//! Each target is examined once ([`probe`]): its kind and its size. Each workload that fits becomes
//! a case, whose contenders are the ways to reach the data. Targets are only read, unless writing
//! is allowed. The plan is a value, so `--dry-run` can show it.

mod called;
mod cases;
mod function;
mod probe;
mod programs;

use std::path::PathBuf;

pub use called::Called;
pub use probe::{Found, Shape, Target, probe};

use crate::error::{Error, Result};
use crate::plan::Plan;

/// The request: targets, workloads and options.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The workloads, by name; empty: those that fit.
    pub workloads: Vec<String>,
    /// Most bytes of one object that a run reads.
    pub size: Option<u64>,
    /// Most files that a run reads.
    pub files: Option<u64>,
    /// Bytes of a read in `seq-read` and `rand-read`.
    pub block: Option<u64>,
    /// The part of an object that `open` reads before all of it: `1%` or a size.
    pub read: String,
    /// Threads or requests of a job at once.
    pub concurrency: Option<usize>,
    /// Jobs at once, one contender for each number.
    pub parallel_jobs: Vec<u32>,
    /// Permission to write to the targets.
    pub write: bool,
    /// Global options of firstbyte, which jobs use too.
    pub options: Vec<String>,
    /// Other programs, by name: words with `{target}` and `{out}`.
    pub peers: Vec<(String, Vec<String>)>,
    /// Memory of each contender, as a size.
    pub memory_limit: Option<String>,
    /// Processors of each contender.
    pub cpus: Option<f64>,
    /// Memory of the serverless function that each job runs in, as a size.
    pub function: Option<String>,
    /// The function that does the work, with the memory that `function` says.
    pub called: Option<Called>,
    /// Functions that the machine does not hold at once run one after another.
    pub waves: bool,
    /// The endpoint of the S3 targets, if it is not that of AWS.
    pub endpoint: Option<String>,
    /// Directories of programs, as `PATH` has them: s5cmd, aws, rclone and mount-s3 contend where
    /// they are installed.
    pub path: String,
    /// A command for the workload `command`, words with `{target}`.
    pub command: Vec<String>,
    /// The local file or directory that `upload` copies.
    pub source: Option<PathBuf>,
}

/// The plan for targets that were probed.
///
/// # Errors
/// No workload fits, or one that was asked for does not.
pub fn plan(targets: &[Target], request: &Request) -> Result<Plan> {
    let wrong = |what: String| Error::Plan { plan: "bench run".into(), what };
    let jobs = if request.parallel_jobs.is_empty() { &[1][..] } else { &request.parallel_jobs };
    if jobs.contains(&0) {
        return Err(wrong("--parallel-jobs: at least one job is needed".into()));
    }
    let mut cases = Vec::new();
    for target in targets {
        let fitting = match request.called {
            Some(_) => called::fitting(target),
            None => cases::fitting(target),
        };
        let asked = request.workloads.iter().map(String::as_str);
        let fitting = fitting.iter().copied().filter(|_| request.workloads.is_empty());
        for workload in asked.chain(fitting) {
            let case = match &request.called {
                Some(called) => called::case(target, workload, called, request, jobs),
                None => cases::case(target, workload, request, jobs),
            };
            cases.push(case.map_err(wrong)?);
        }
    }
    if cases.is_empty() {
        return Err(wrong("nothing to measure: the targets are empty".into()));
    }
    Ok(Plan { name: "bench run".into(), cases, ..Plan::default() })
}
