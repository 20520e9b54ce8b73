//! `bench`: measures storage by the engine of `firstbyte-bench`, and shows what was measured.
//!
//! `run` makes or reads a plan and executes it, `report` renders results, `compare` says what
//! changed between two of them. `job` is one workload as a process of its own; the engine runs it.

mod compare;
mod cost;
mod job;
mod report;
mod run;

use clap::{Args, Subcommand};

use crate::globals::Globals;
use crate::render::error::{Error, Exit, Result};

/// Measure storage: runs by turns, caches proved, content checked
#[derive(Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Run(Box<run::RunArgs>),
    Report(report::ReportArgs),
    Compare(compare::CompareArgs),
    #[command(hide = true)]
    Job(job::JobArgs),
}

/// Runs it.
pub fn run(args: &BenchArgs, globals: &Globals) -> Result<Exit> {
    match &args.action {
        Action::Run(args) => run::run(args, globals),
        Action::Report(args) => report::run(args),
        Action::Compare(args) => compare::run(args, globals),
        Action::Job(args) => job::run(args),
    }
}

impl From<firstbyte_bench::Error> for Error {
    fn from(error: firstbyte_bench::Error) -> Self {
        use firstbyte_bench::Error as Bench;
        match error {
            Bench::Interrupted => Self::interrupted(),
            Bench::Plan { .. } => Self::usage(error.to_string()),
            _ => Self::failed(error.to_string()),
        }
    }
}
