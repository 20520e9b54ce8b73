//! `probe`: measures the limits of a location, within seconds and a few cents, and writes them as a
//! model.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use firstbyte::billing::{Billing, MissingFact, PricedService, Transfer, parse_money, today};
use firstbyte::environment;
use firstbyte_advise::model::{Cloud, ModelCatalogue};
use firstbyte_location::units::PositiveDuration;
use firstbyte_location::{Location, one_line};
use firstbyte_probe::{Budget, ModelIdentity, ProbeOptions, ProbeReport, ProbeRights};
use firstbyte_store::{Cancel, Outages, Spending};
use rustix::system::uname;

use super::billing::BillArgs;
use crate::globals::Globals;
use crate::render::error::{Error, Exit, Result};
use crate::render::output_file::OutputFile;
use crate::render::{console, json};
use crate::signals;

/// Default budget in dollars.
const DEFAULT_BUDGET_USD: f64 = 0.05;

/// Time after which a request without an answer is reported as such.
const SILENCE_LIMIT: Duration = Duration::from_secs(10);

/// Width of the names at the beginning of lines, in columns.
const NAME_COLUMNS: usize = 11;

/// Measure what limits a location, and write it as a model
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte probe s3://bucket/data/
  firstbyte probe /mnt/efs --time 20s --out efs.toml
  firstbyte advise run --data 50GB --at here --models efs.toml
  firstbyte link --to localhost:9000 --model bucket.toml    # the same place, as a stand-in
Reads only, unless --write is given. `firstbyte doctor LOCATION` shows its first line alone.")]
pub struct ProbeArgs {
    /// Directory, prefix, bucket or object to measure
    #[arg(value_name = "LOCATION")]
    location: OsString,
    /// Write the model to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Name of the model [default: the last part of LOCATION]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Longest time, at most an hour
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_time)]
    time: PositiveDuration,
    /// Highest cost by list prices [default: 0.05USD]. Bytes count as sent to the internet, unless
    /// --transfer says otherwise
    #[arg(long, value_name = "MONEY", value_parser = parse_money)]
    budget: Option<f64>,
    #[command(flatten)]
    bill: BillArgs,
    /// Write objects of its own to LOCATION, and delete them: the right to write, the time of a
    /// write
    #[arg(long)]
    write: bool,
    /// Directory on the local disk to measure, where copies would go
    #[arg(long, value_name = "DIR", default_value = ".")]
    disk: PathBuf,
}

/// Longest time of a probe. The record of bytes over time grows with the time.
const MAX_PROBE_TIME: Duration = Duration::from_secs(3_600);

fn parse_time(text: &str) -> std::result::Result<PositiveDuration, String> {
    let time: PositiveDuration = text.parse().map_err(|error| format!("{error}"))?;
    if time.get() > MAX_PROBE_TIME { Err("longer than an hour".into()) } else { Ok(time) }
}

pub fn run(args: &ProbeArgs, globals: &Globals) -> Result<Exit> {
    let location = Location::parse(&args.location)?;
    let mut options = globals.options().store;
    options.read_deadline = options.read_deadline.min(SILENCE_LIMIT);
    options.connect_deadline = options.connect_deadline.min(SILENCE_LIMIT);
    options.outages = Outages::FailFast;
    // A request that is not answered does not last longer than the probe.
    options.read_deadline = options.read_deadline.min(args.time.get());
    options.connect_deadline = options.connect_deadline.min(args.time.get());
    let store = globals.store_of(options)?;
    let transfer = args.bill.transfer().unwrap_or(Transfer::Internet);
    let (service, spending) = limit_spending(args, args.bill.billing(&location, &store, globals, transfer)?)?;
    let name = args.name.clone().unwrap_or_else(|| model_name(&location));
    check_name(&name)?;
    let identity = identity(name, &location, service.as_deref())?;
    let measured: Vec<&Path> = location.as_local().into_iter().collect();
    let out = args.out.as_deref().map(|path| OutputFile::open(path, &measured)).transpose()?;
    let cancel = Cancel::new();
    let flag = cancel.clone();
    signals::on_measurement_signal(move || flag.cancel())?;
    let options = ProbeOptions {
        budget: Budget { time: args.time.get(), spending },
        rights: if args.write { ProbeRights::ReadWrite } else { ProbeRights::ReadOnly },
        disk: args.disk.clone(),
        cancel,
    };
    let report = firstbyte_probe::probe(&store, &location, &options).map_err(|error| probe_error(&error))?;
    show(&report, globals)?;
    if report.interrupted {
        return Err(Error::interrupted());
    }
    if let (Some(out), Some(path)) = (out, &args.out) {
        let model = report.model(&identity);
        out.write(&model.to_toml())?;
        if !globals.quiet {
            say_next(path, model.here.is_some());
        }
    }
    Ok(Exit::Done)
}

/// Says where the model is, and how to use it.
fn say_next(path: &Path, describes_this_machine: bool) {
    let file = path.display();
    console::say(match describes_this_machine {
        true => format!(
            "the model is in {file}; next: firstbyte advise run --at here --models {file} --data SIZE"
        ),
        false => format!("the model is in {file}, without this machine: no rate was seen"),
    });
}

/// Returns the name of the billing service, and the limit on the cost of its requests. There is no
/// limit if the service is not known and no budget is given. A service that bills by unknown prices
/// is refused, because its cost would have no limit.
fn limit_spending(args: &ProbeArgs, billing: Billing) -> Result<(Option<String>, Option<Spending>)> {
    let limit = args.budget.unwrap_or(DEFAULT_BUDGET_USD);
    match billing {
        Billing::Free => Ok((None, Some(Spending { limit, ..Spending::default() }))),
        Billing::Priced(PricedService { name, region, prices }) => {
            Ok((Some(name), Some(Spending { limit, prices, region: Some(region) })))
        }
        Billing::Unknown(MissingFact::Service(_)) if args.budget.is_none() => Ok((None, None)),
        Billing::Unknown(what) => {
            let option = if args.budget.is_some() { "--budget" } else { "the default budget of 0.05 USD" };
            let tell = what.option().map_or_else(String::new, |option| format!("give --{option}, or "));
            let otherwise = match &what {
                MissingFact::Service(_) => "leave --budget out",
                _ => "give --bill-as none",
            };
            Err(Error::usage(format!("{option}: unknown price: {what}"))
                .advise(format!("{tell}{otherwise} to measure without prices")))
        }
    }
}

fn probe_error(error: &firstbyte_probe::Error) -> Error {
    let missing = match error {
        firstbyte_probe::Error::Interrupted => return Error::interrupted(),
        firstbyte_probe::Error::NotListed { location, refusal } if refusal.kind.is_absence() => {
            Some(location.clone())
        }
        _ => None,
    };
    let line = Error { kind: error.kind(), missing, ..Error::failed(error.to_string()) };
    match (error, error.advice()) {
        (firstbyte_probe::Error::Budget { .. }, Some(advice)) => {
            Error { exit: Exit::Usage, ..line }.advise(advice)
        }
        (_, Some(advice)) => line.advise(advice),
        (_, None) => line,
    }
}

/// Makes a model name from the last part of a location.
fn model_name(location: &Location) -> String {
    let last = match location {
        Location::Object(object) if object.key.is_empty() => object.bucket.clone().into_bytes(),
        other => other.last_component().unwrap_or_default(),
    };
    let text = String::from_utf8_lossy(&last).to_ascii_lowercase();
    let word: String =
        text.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    let word = word.trim_matches('-');
    if word.is_empty() { "probed".to_owned() } else { word.to_owned() }
}

fn check_name(name: &str) -> Result<()> {
    let legal = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    if !name.is_empty() && name.chars().all(legal) {
        return Ok(());
    }
    Err(Error::usage(format!("--name {name}: not the name of a model"))
        .advise("write letters, digits and dashes"))
}

fn identity(name: String, location: &Location, service: Option<&str>) -> Result<ModelIdentity> {
    let billed = service.and_then(|service| ModelCatalogue::current().service(service).cloned());
    let remote = billed.as_ref().filter(|_| location.as_local().is_none());
    let kib_limit = environment::memory_limit(&environment::variable).map(|bytes| bytes as f64 / 1024.0);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    Ok(ModelIdentity {
        name,
        cloud: remote.map_or(Cloud::Any, |model| model.cloud),
        bills: billed.map(|model| model.bills).unwrap_or_default(),
        machine: uname().nodename().to_string_lossy().into_owned(),
        day: today()?,
        processors: std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64),
        // A job may use less memory than the machine has: that of its control group.
        memory: kib.into_iter().chain(kib_limit).reduce(f64::min).unwrap_or(1.0) * 1024.0,
    })
}

fn show(report: &ProbeReport, globals: &Globals) -> Result<()> {
    if globals.json {
        return console::print(json::summary("probe", report));
    }
    let lines = report.lines().map(|(name, text)| format!("{name:NAME_COLUMNS$}  {}\n", one_line(&text)));
    console::print_bytes(lines.concat().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_named_by_the_end_of_its_location() {
        let name = |text: &str| model_name(&Location::parse(text.as_ref()).unwrap());
        assert_eq!(name("s3://my.bucket/Data set/"), "data-set");
        assert_eq!(name("s3://bucket"), "bucket");
        assert_eq!(name("/"), "probed");
        assert!(check_name("a b").is_err() && check_name("").is_err() && check_name("a-1").is_ok());
    }
}
