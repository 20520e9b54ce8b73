//! `advise run`: reads a workload, or makes one from options, and prints the advice for it.

use std::path::{Path, PathBuf};

use clap::Args;
use firstbyte::billing::{price_catalogue, today};
use firstbyte::environment;
use firstbyte_advise::advice::{self, Advice, Inputs};
use firstbyte_advise::file_error::FileError;
use firstbyte_advise::prices::Day;
use firstbyte_advise::workload::{self, Workload};
use firstbyte_bench::report::{AdviceQuestion, advised};

use super::known::{self, KnownArgs};
use crate::globals::Globals;
use crate::render::error::{Error, Exit, Result};
use crate::render::output_file::OutputFile;
use crate::render::{console, json};
use crate::title;

/// Recommend storage for a workload: time, limit and cost of each option
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte advise run --data 5GB --read 100MB --deadline 29s --at lambda:3008MB
  firstbyte advise run workload.toml                       # written by `firstbyte advise init`
  firstbyte advise run workload.toml --results mine.jsonl  # measured by `firstbyte bench run`
  firstbyte advise run workload.toml --page advice.html    # with charts, to show
Every size and time has a unit: GB is 10^9 bytes, GiB is 2^30.")]
pub struct AdviseRunArgs {
    /// The workload, a TOML file
    #[arg(value_name = "FILE", required_unless_present = "data", conflicts_with = "workload")]
    file: Option<PathBuf>,
    #[command(flatten)]
    small: WorkloadArgs,
    #[command(flatten)]
    known: KnownArgs,
    /// Show all options, all points at which the answer changes, and the options that are refused
    #[arg(long)]
    all: bool,
    /// Write the advice to this HTML page, with charts of time and cost
    #[arg(long, value_name = "PAGE")]
    page: Option<PathBuf>,
    /// Day of the prices [default: today]
    #[arg(long, value_name = "YYYY-MM-DD")]
    day: Option<Day>,
}

/// A workload without a file. Values are texts here, and are parsed as those of a file are, so that
/// both have the same errors.
#[derive(Args)]
#[group(id = "workload", multiple = true)]
struct WorkloadArgs {
    /// Size of all data together
    #[arg(long, value_name = "SIZE", requires = "at")]
    data: Option<String>,
    /// Number of files that hold the data
    #[arg(long, value_name = "N")]
    files: Option<String>,
    /// Bytes that a job or request reads in one pass [default: all data]
    #[arg(long, value_name = "SIZE")]
    read: Option<String>,
    /// Number of passes over these bytes
    #[arg(long, value_name = "N")]
    passes: Option<String>,
    /// Interface that the program reads through: files, or any (requests or files)
    #[arg(long, value_name = "INTERFACE")]
    needs: Option<String>,
    /// Bytes of one read call
    #[arg(long, value_name = "SIZE")]
    request: Option<String>,
    /// Order of the reads: sequential, random or mapped
    #[arg(long, value_name = "ORDER")]
    access: Option<String>,
    /// Number of requests that a job keeps in flight
    #[arg(long, value_name = "N")]
    in_flight: Option<String>,
    /// Machine that runs the jobs: lambda:MEMORY, or an instance type
    #[arg(long, value_name = "PLACE")]
    at: Option<String>,
    /// Processor time of a job with all data in memory
    #[arg(long, value_name = "TIME")]
    cpu: Option<String>,
    /// Number of threads that read and compute
    #[arg(long, value_name = "N")]
    threads: Option<String>,
    /// Order of reading and computing: before (read everything first), beside (overlap them), or
    /// either
    #[arg(long, value_name = "ORDER")]
    loading: Option<String>,
    /// Time before the job's own work, such as loading its image and runtime
    #[arg(long, value_name = "TIME")]
    startup: Option<String>,
    /// The program that reads from the object store: firstbyte, python-boto3, go-sdk, aws-crt
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    /// Number of jobs that run at once
    #[arg(long, value_name = "N")]
    at_once: Option<String>,
    /// Number of jobs per day
    #[arg(long, value_name = "N")]
    per_day: Option<String>,
    /// Longest time that a job may take
    #[arg(long, value_name = "TIME")]
    deadline: Option<String>,
    /// Value of an hour of waiting, for example "50 USD/h"
    #[arg(long, value_name = "MONEY")]
    waiting: Option<String>,
}

impl WorkloadArgs {
    fn options(&self) -> Vec<(&'static str, String)> {
        let all = [
            ("data", &self.data),
            ("files", &self.files),
            ("read", &self.read),
            ("passes", &self.passes),
            ("needs", &self.needs),
            ("request", &self.request),
            ("access", &self.access),
            ("in-flight", &self.in_flight),
            ("at", &self.at),
            ("cpu", &self.cpu),
            ("threads", &self.threads),
            ("loading", &self.loading),
            ("startup", &self.startup),
            ("client", &self.client),
            ("at-once", &self.at_once),
            ("per-day", &self.per_day),
            ("deadline", &self.deadline),
            ("waiting", &self.waiting),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }
}

pub fn run(args: &AdviseRunArgs, globals: &Globals) -> Result<Exit> {
    let inputs: Vec<&Path> = args.file.as_deref().into_iter().chain(args.known.files()).collect();
    let page_file = args.page.as_deref().map(|path| OutputFile::open(path, &inputs)).transpose()?;
    let (workload, text) = workload(args, globals)?;
    let (catalogue, prices) = (args.known.catalogue()?, price_catalogue(&environment::variable)?);
    let day = args.day.map_or_else(today, Ok)?;
    let inputs = Inputs { catalogue: &catalogue, prices: &prices, day };
    let advice = advice::advise(&workload, &inputs)
        .map_err(|error| error_at_field(&error, args, text.as_deref(), globals))?;
    if let Some(file) = page_file {
        file.write(&page(&advice, &workload, &inputs))?;
    }
    if globals.json {
        console::print(json::summary("advise", &advice))?;
    } else {
        let text = if args.all { advice::full_text(&advice) } else { advice::text(&advice) };
        console::print(text.trim_end())?;
    }
    Ok(Exit::Done)
}

/// Makes an error that states where the wrong value is: in the file or on the command line.
fn error_at_field(
    error: &advice::Error,
    args: &AdviseRunArgs,
    text: Option<&str>,
    globals: &Globals,
) -> Error {
    let Some((field, option)) = error.field() else { return Error::usage(error.to_string()) };
    let of_option = text.is_none() || (option == "--region" && globals.region.is_some());
    match (text.filter(|_| !of_option), &args.file) {
        (Some(text), Some(path)) => {
            let at = FileError::at(text, field, error.to_string());
            Error::usage(format!("{}: {at}", path.display()))
        }
        _ => Error::usage(format!("{option}: {error}")),
    }
}

/// Renders the advice as an HTML page.
fn page(advice: &Advice, workload: &Workload, inputs: &Inputs<'_>) -> String {
    let charts = advice::charts(workload, advice, inputs);
    let quote = |word: String| if word.contains(' ') { format!("'{word}'") } else { word };
    let command: Vec<String> = title::words().map(quote).collect();
    let asked = AdviceQuestion {
        command: format!("firstbyte {}", command.join(" ")),
        prices: format!("{}, as of {}", workload.region, inputs.day),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    advised(advice, &charts, &asked)
}

/// Reads the workload from the file, or makes it from the options. `--region` sets the region of
/// the prices.
fn workload(args: &AdviseRunArgs, globals: &Globals) -> Result<(Workload, Option<String>)> {
    let text = args.file.as_deref().map(known::text).transpose()?;
    let mut workload = match (&text, &args.file) {
        (Some(text), Some(path)) => {
            workload::of_text(text).map_err(|error| Error::usage(format!("{}: {error}", path.display())))?
        }
        _ => workload::of_options(&args.small.options()).map_err(|error| Error::usage(error.to_string()))?,
    };
    if let Some(region) = &globals.region {
        workload.set_region(region);
    }
    Ok((workload, text))
}
