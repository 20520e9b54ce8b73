//! Makes the plan of `bench run TARGET...` from its targets.
//!
//! [`probe`] examines the kind and the size of each target once. Each workload that fits becomes a
//! case, whose contenders are the accesses to the data. Targets are only read, unless writing is
//! allowed. The plan is a value, so `--dry-run` can show it.

mod called;
mod cases;
mod function;
mod probe;
mod programs;

use std::path::PathBuf;

pub use called::Called;
pub use probe::{Found, Shape, Target, probe};

use crate::error::{Error, Result};
use crate::functions::FunctionSize;
use crate::job::Workload;
use crate::plan::Plan;

/// A request of `bench run TARGET...`: workloads and options.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Names of workloads; empty for all that fit.
    pub workloads: Vec<String>,
    /// Largest number of bytes of one object to read in a run.
    pub size: Option<u64>,
    /// Largest number of files to read in a run.
    pub files: Option<u64>,
    /// Bytes per read in `seq-read` and `rand-read`.
    pub block: Option<u64>,
    /// Part of an object that `open` reads before the whole: `1%` or a size.
    pub read: String,
    /// Threads or requests at once in a job.
    pub concurrency: Option<usize>,
    /// Numbers of parallel jobs, one contender for each.
    pub parallel_jobs: Vec<u32>,
    /// True if targets may be written to.
    pub write: bool,
    /// Global options of firstbyte, also for jobs.
    pub options: Vec<String>,
    /// Other programs, by name: their commands, with `{target}` and `{out}`.
    pub peers: Vec<(String, Vec<String>)>,
    /// Memory limit of each contender, as a size.
    pub memory_limit: Option<String>,
    /// Processor limit of each contender.
    pub cpus: Option<f64>,
    /// Memory of the serverless function in which each job runs, as a size.
    pub function: Option<String>,
    /// Function that does the work, with the memory given in `function`.
    pub called: Option<Called>,
    /// True if functions that do not fit on the machine at once run in waves.
    pub waves: bool,
    /// Endpoint of the S3 targets; `None` for AWS.
    pub endpoint: Option<String>,
    /// Directories of programs, in the form of `PATH`. If s5cmd, aws, rclone and mount-s3 are in
    /// them, they become contenders.
    pub path: String,
    /// Command for the workload `command`, with `{target}`.
    pub command: Vec<String>,
    /// Local file or directory that `upload` copies.
    pub source: Option<PathBuf>,
}

/// Makes the plan for targets that were examined.
///
/// # Errors
/// No workload fits, or a requested workload does not fit.
pub fn plan(targets: &[Target], request: &Request) -> Result<Plan> {
    let wrong = |what: String| Error::Plan { plan: "bench run".into(), what };
    let jobs = if request.parallel_jobs.is_empty() { &[1][..] } else { &request.parallel_jobs };
    if jobs.contains(&0) {
        return Err(wrong("--parallel-jobs: at least one job is needed".into()));
    }
    for (option, given) in [("--size", request.size), ("--block", request.block), ("--files", request.files)]
    {
        if given == Some(0) {
            return Err(wrong(format!("{option} 0: nothing would be read; give a number above 0")));
        }
    }
    if let Some(memory) = &request.function {
        FunctionSize::parse(memory).map_err(|what| wrong(format!("--function: {what}")))?;
    }
    for workload in &request.workloads {
        serde_json::from_value::<Workload>(workload.as_str().into())
            .map_err(|error| wrong(format!("--workload: {error}")))?;
    }
    let mut cases = Vec::new();
    for target in targets {
        let fitting = match request.called {
            Some(_) => called::fitting(target),
            None => cases::fitting(target, request),
        };
        let asked = request.workloads.iter().map(String::as_str);
        let fitting = fitting.iter().copied().filter(|_| request.workloads.is_empty());
        for workload in asked.chain(fitting) {
            let case = match &request.called {
                Some(called) => called::case(target, workload, called, request, jobs),
                None => cases::case(target, workload, request, jobs),
            };
            let mut case = case.map_err(wrong)?;
            for contender in case.contenders.iter_mut().filter(|_| target.class.is_some()) {
                contender.billed.get_or_insert_default().class = target.class.clone().unwrap_or_default();
            }
            cases.push(case);
        }
    }
    if cases.is_empty() {
        return Err(wrong("nothing to measure: the targets are empty".into()));
    }
    let plan = Plan { name: "bench run".into(), cases, ..Plan::default() };
    plan.validate().map_err(wrong)?;
    Ok(plan)
}
