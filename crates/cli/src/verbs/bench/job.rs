//! `bench job`: does one workload in this process, and prints its figures in the last line. The
//! engine of `bench` runs this verb as a separate process.

use clap::Args;
use firstbyte_bench::job::{self, Job, Watch};

use crate::render::console;
use crate::render::error::{Error, Exit, Result};

/// Do one workload once and print its figures as JSON
#[derive(Args)]
pub struct JobArgs {
    /// The job as a JSON object
    #[arg(value_name = "JSON")]
    job: String,
}

pub fn run(args: &JobArgs) -> Result<Exit> {
    let wrong = |error: job::Error| Error::failed(error.to_string());
    let job = Job::parse(&args.job).map_err(|error| Error::usage(error.to_string()))?;
    let metrics = firstbyte_bench::run_job(&job, &Watch::start_with_process()).map_err(wrong)?;
    console::print(serde_json::to_string(&metrics).map_err(|error| Error::failed(error.to_string()))?)?;
    Ok(Exit::Done)
}
