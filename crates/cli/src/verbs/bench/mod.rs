//! `bench`: measures storage with the engine of `firstbyte-bench`, and renders the results.
//!
//! `run` makes or reads a plan and executes it. `report` renders results, `compare` prints the
//! changes between two results files, and `functions` hosts serverless functions. The engine runs
//! `job`, `invoke` and `survive` as separate processes.

mod batch;
mod compare;
mod cost;
mod functions;
mod invoke;
mod job;
mod on;
mod report;
mod run;
mod survive;

use clap::{Args, Subcommand};
use firstbyte_bench::on::JobPlace;
use firstbyte_location::shown;

use crate::globals::Globals;
use crate::render::error::{Error, Exit, Result};

use batch::BatchQueue;
pub use run::clean_environment;

/// Measure storage: contenders run in turn, cache states are verified, content is checked
#[derive(Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Run(Box<run::BenchRunArgs>),
    Report(report::ReportArgs),
    Compare(compare::CompareArgs),
    Functions(Box<functions::FunctionsArgs>),
    #[command(hide = true)]
    Invoke(invoke::InvokeArgs),
    #[command(hide = true)]
    Job(job::JobArgs),
    #[command(hide = true)]
    Survive(survive::SurviveArgs),
}

pub fn run(args: &BenchArgs, globals: &Globals) -> Result<Exit> {
    match &args.action {
        Action::Run(args) => match &args.on {
            Some(JobPlace::Batch { queue, definition, endpoint }) => {
                batch::run(args, globals, &BatchQueue { queue, definition, endpoint: endpoint.as_deref() })
            }
            _ => run::run(args, globals),
        },
        Action::Report(args) => report::run(args),
        Action::Compare(args) => compare::run(args, globals),
        Action::Functions(args) => functions::run(args, globals),
        Action::Invoke(args) => invoke::run(args, globals),
        Action::Job(args) => job::run(args),
        Action::Survive(args) => survive::run(args, globals),
    }
}

impl From<firstbyte_bench::Error> for Error {
    fn from(error: firstbyte_bench::Error) -> Self {
        use firstbyte_bench::Error as Bench;
        match error {
            Bench::Interrupted => Self::interrupted(),
            Bench::Plan { .. } => Self::usage(error.to_string()),
            Bench::File { path, cause } => Self::io(shown(&path), &cause),
            _ => Self::failed(error.to_string()),
        }
    }
}
