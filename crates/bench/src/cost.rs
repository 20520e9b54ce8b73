//! Estimates the cost of a plan's runs at the services that they read, before any run.
//!
//! The service that bills a contender follows from its target or is declared by the user. Reads are
//! estimated from above: each block of 128 KiB counts as one request. Stand-ins, and files on disks
//! of this machine, are free. An unknown service, region, price or network path is listed as
//! missing and never guessed. Called by `bench run` for `--dry-run` and `--budget`.

use std::collections::BTreeMap;
use std::path::Path;

use firstbyte::billing::{
    self, Declared, JobTraffic, Transfer, is_loopback, is_of_the_machine, service_of_bucket, service_of_host,
};
use firstbyte_advise::model;
use firstbyte_advise::prices::{self, Day};
use firstbyte_advise::usage::{OptionUsage, Unit, UsageItem};
use firstbyte_location::units::parse_size;
use serde::Serialize;

use crate::mounts::{self, Mounts};
use crate::plan::{BilledReads, Case, Contender, Invoke, Plan};
use crate::slow_link::LINK_NAME;
use crate::words::Words;

/// Bytes of the smallest data request, one block of the cache.
const BLOCK_BYTES: f64 = 131_072.0;

/// Longest call of a function, in seconds.
const MAX_CALL_SECONDS: f64 = 900.0;

/// Prices, and the user's statements about the services.
pub struct Tariff {
    /// Models of the services, which define what is billed.
    pub services: model::ModelCatalogue,
    /// Prices.
    pub prices: prices::PriceCatalogue,
    /// Day whose prices apply.
    pub day: Day,
    /// Region of the services.
    pub region: Option<String>,
    /// Regions of buckets that were found in another one.
    pub found_regions: BTreeMap<String, String>,
    /// Network path between the services and this machine.
    pub transfer: Option<Transfer>,
    /// Endpoint of S3 targets; `None` for AWS.
    pub endpoint: Option<String>,
    /// Service that bills paths and other endpoints.
    pub declared: Option<Declared>,
}

/// The cost of all runs on one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Line {
    /// The target.
    pub target: String,
    /// Name of the service's model; `None` if it is unknown, or bills nothing.
    pub service: Option<String>,
    /// Number of runs, warm-ups included.
    pub runs: u32,
    /// Number of data requests.
    pub gets: f64,
    /// Number of list requests.
    pub lists: f64,
    /// Bytes read.
    pub bytes: f64,
    /// Dollars of all items that have a price.
    pub usd: f64,
    /// Reason why the runs are free; `None` if they are billed.
    pub free: Option<String>,
    /// Facts that the estimate needs and that are unknown, one sentence each.
    pub missing: Vec<String>,
    /// Age of the oldest price in days.
    pub oldest_days: Option<i64>,
}

/// The costs of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    /// A line for each target and service.
    pub lines: Vec<Line>,
    /// Dollars of one run by case and contender, and whether only the first run costs them.
    runs: BTreeMap<(String, String), (f64, bool)>,
}

impl Costs {
    /// Returns the dollars of all runs.
    #[must_use]
    pub fn usd(&self) -> f64 {
        // The sum of no lines is -0.
        self.lines.iter().map(|line| line.usd).sum::<f64>() + 0.0
    }

    /// Lists the unknown facts, each with its target.
    pub fn missing(&self) -> impl Iterator<Item = String> {
        let of = |line: &'_ Line| {
            let target = line.target.clone();
            line.missing.clone().into_iter().map(move |what| format!("{target}: {what}"))
        };
        self.lines.iter().flat_map(of)
    }

    /// Returns the dollars of one run. `first` is true if the contender has not run before.
    pub(crate) fn of_run(&self, case: &str, contender: &str, first: bool) -> f64 {
        let found = self.runs.get(&(case.to_owned(), contender.to_owned()));
        found.map_or(0.0, |(usd, once)| if first || !once { *usd } else { 0.0 })
    }
}

/// The service that bills a contender.
enum Service<'a> {
    Known(&'a model::ServiceModel),
    Unbilled(String),
    Unknown(String),
}

/// Estimates the cost of the runs of `plan`. `rounds` replaces the plan's own number.
#[must_use]
pub fn estimate(plan: &Plan, rounds: Option<u32>, tariff: &Tariff) -> Costs {
    let mut costs = Costs::default();
    let mounts = Mounts::current().ok();
    for case in &plan.cases {
        let mut words = plan.words_of(case);
        // Values that only a run has. They do not affect the cost, so any path and job number
        // suffice.
        for name in ["firstbyte", "plan", "memory", "disk", "out", "run"] {
            words.set(name, format!("/{name}"));
        }
        words.set("job", 0);
        let runs = case.runs(rounds);
        for contender in case.contenders.iter().filter(|contender| contender.modelled.is_none()) {
            let called =
                contender.invoke.as_ref().map(|invoke| tariff.calls(invoke, contender, &words, runs));
            let (target, service) = match &called {
                Some((line, _)) if line.service.is_none() && tariff.endpoint.is_none() => {
                    ("stand-ins".into(), Service::Unbilled("made here".into()))
                }
                _ => tariff.service(plan, case, contender, &words, mounts.as_ref()),
            };
            let mut line = Line { target, runs, ..Line::default() };
            let cost = match service {
                Service::Unbilled(why) => {
                    line.free = Some(why);
                    (0.0, false)
                }
                Service::Unknown(why) => {
                    line.missing.push(why);
                    (0.0, false)
                }
                Service::Known(model) => tariff.price(&mut line, model, contender, &words),
            };
            let of_calls = called.as_ref().map_or(0.0, |(_, usd)| *usd);
            costs.runs.insert((case.name.clone(), contender.name.clone()), (cost.0 + of_calls, cost.1));
            add(&mut costs.lines, line);
            if let Some((line, _)) = called {
                add(&mut costs.lines, line);
            }
        }
    }
    costs
}

/// Merges `line` into the line of the same target, service and reason for being free. Appends
/// `line` if there is no such line.
fn add(lines: &mut Vec<Line>, line: Line) {
    let same = |known: &&mut Line| {
        (&known.target, &known.service, &known.free) == (&line.target, &line.service, &line.free)
    };
    let Some(known) = lines.iter_mut().find(same) else {
        lines.push(line);
        return;
    };
    known.runs += line.runs;
    known.gets += line.gets;
    known.lists += line.lists;
    known.bytes += line.bytes;
    known.usd += line.usd;
    known.oldest_days = known.oldest_days.max(line.oldest_days);
    for what in line.missing {
        if !known.missing.contains(&what) {
            known.missing.push(what);
        }
    }
}

impl Tariff {
    /// Returns the target that a contender reads, as text, and the service that bills it.
    fn service(
        &self,
        plan: &Plan,
        case: &Case,
        contender: &Contender,
        words: &Words,
        mounts: Option<&Mounts>,
    ) -> (String, Service<'_>) {
        let text = text_of(contender);
        let stand_in = |name: &str| name != LINK_NAME && text.contains(&format!("{{{name}."));
        if plan.services_of(case).any(|service| stand_in(&service.name)) || text.contains("{data.") {
            return ("stand-ins".into(), Service::Unbilled("made here".into()));
        }
        if let Some(directory) = mounted_directory(contender, words) {
            let unknown = || Service::Unknown(format!("no price list for {directory}; give --bill-as"));
            return (directory.clone(), self.declared_service().unwrap_or_else(unknown));
        }
        let target = match target_of(contender, words) {
            Ok(Some(target)) => target,
            Ok(None) => return ("local programs".into(), Service::Unbilled("they name no location".into())),
            Err(why) => return (contender.target.clone(), Service::Unknown(why)),
        };
        let endpoint = self.endpoint.clone().or_else(|| endpoint_of(contender, words));
        let service = match (self.declared_service(), target.split_once("://"), endpoint) {
            (_, Some(("s3", rest)), None) => self.bucket(rest.split('/').next().unwrap_or_default()),
            // Only the user knows the service behind a tunnel, a gateway or a mounted disk.
            (Some(declared), ..) => declared,
            (None, None | Some(("file", _)), _) => self.path(target.trim_start_matches("file://"), mounts),
            (None, Some(("s3", _)), Some(url)) => self.url(&url),
            (None, Some(("gs", _)), _) => self.named("gcs"),
            (None, Some(("az", _)), _) => self.named("azure-blob"),
            (None, Some(_), _) => self.url(&target),
        };
        (target, service)
    }

    /// Estimates the calls of a function, each as long as its timeout. Returns the line of all
    /// runs, and the dollars of one run. If the function is on this machine, the line has no
    /// service.
    fn calls(&self, invoke: &Invoke, contender: &Contender, words: &Words, runs: u32) -> (Line, f64) {
        let filled = |text: &String| words.fill(text);
        let name = filled(&invoke.function).unwrap_or_else(|_| invoke.function.clone());
        let mut line = Line { target: format!("lambda:{name}"), runs, ..Line::default() };
        // An endpoint without an address is a service that the plan itself starts on this machine.
        if filled(&invoke.endpoint).is_err() {
            line.free = Some("on this machine".into());
            return (line, 0.0);
        }
        line.service = Some("lambda".into());
        let memory =
            filled(&invoke.memory).and_then(|text| parse_size(&text).map_err(|error| error.to_string()));
        let timeout = filled(&invoke.timeout).map(|text| text.parse::<f64>().unwrap_or(MAX_CALL_SECONDS));
        let (memory, timeout, jobs) = match (memory, timeout, contender.jobs(words)) {
            (Ok(memory), Ok(timeout), Ok(jobs)) => (memory as f64, timeout, f64::from(jobs)),
            _ => {
                line.missing.push("its memory, timeout or number of calls is not known".into());
                return (line, 0.0);
            }
        };
        // Lambda bills its MB as MiB. The call that changes the configuration is free.
        let gib = memory / 1e6 / 1024.0;
        let items = vec![
            UsageItem::per_job("lambda/x86", gib * timeout * jobs, Unit::GiBSeconds),
            UsageItem::per_job("lambda/requests", jobs, Unit::Requests),
        ];
        let Some(usd) = self.price_usage(&mut line, None, &OptionUsage { items, waiting: None }) else {
            return (line, 0.0);
        };
        line.gets = jobs * f64::from(runs);
        line.usd = usd * f64::from(runs);
        (line, usd)
    }

    /// Estimates `hours` of an instance of the most expensive type. A spot instance costs less.
    #[must_use]
    pub fn of_instance(&self, target: &str, types: &[String], hours: f64) -> Costs {
        let mut line =
            Line { target: target.to_owned(), service: Some("ec2".into()), runs: 1, ..Line::default() };
        for kind in types {
            let items = vec![UsageItem::per_job(&format!("ec2/{kind}"), hours, Unit::Hours)];
            let Some(usd) = self.price_usage(&mut line, None, &OptionUsage { items, waiting: None }) else {
                break;
            };
            line.usd = line.usd.max(usd);
        }
        Costs { lines: vec![line], ..Costs::default() }
    }

    /// Returns the service that bills a bucket of AWS.
    fn bucket(&self, name: &str) -> Service<'_> {
        self.named(service_of_bucket(name))
    }

    /// Returns the service whose model has this name.
    fn named(&self, service: &str) -> Service<'_> {
        let found = self.services.service(service);
        found.map_or_else(|| Service::Unknown(format!("no model is called {service}")), Service::Known)
    }

    fn url(&self, url: &str) -> Service<'_> {
        if is_loopback(url) {
            return Service::Unbilled("on this machine".into());
        }
        match service_of_host(url) {
            Some(service) => self.named(service),
            None => Service::Unknown(format!("no price list for {url}; give --bill-as")),
        }
    }

    fn path(&self, path: &str, mounts: Option<&Mounts>) -> Service<'_> {
        let mount = mounts.and_then(|mounts| mounts.of(&mounts::real(Path::new(path))));
        let kind = mount.map(|mount| mount.kind.as_str());
        match kind {
            Some(kind) if is_of_the_machine(kind) => Service::Unbilled(format!("on {kind}")),
            kind => Service::Unknown(format!(
                "no price list for its file system ({}); give --bill-as",
                kind.unwrap_or("unknown")
            )),
        }
    }

    fn declared_service(&self) -> Option<Service<'_>> {
        Some(match self.declared.as_ref()? {
            Declared::Nothing => Service::Unbilled("declared with --bill-as".into()),
            Declared::Service(name) => self.named(name),
        })
    }

    /// Fills a line with one contender's estimate. Returns the dollars of a run, and true if only
    /// the first run costs them.
    fn price(
        &self,
        line: &mut Line,
        model: &model::ServiceModel,
        contender: &Contender,
        words: &Words,
    ) -> (f64, bool) {
        line.service = Some(model.name.clone());
        let (reads, once) = match reads_of(contender, words) {
            Ok(reads) => reads,
            Err(why) => {
                line.missing.push(why);
                return (0.0, false);
            }
        };
        let all = reads.times(if once { 1.0 } else { f64::from(line.runs) });
        (line.gets, line.lists, line.bytes) = (all.gets, all.lists, all.bytes);
        // A function reads within its own region.
        let transfer = self.transfer.or(contender.invoke.as_ref().map(|_| Transfer::None));
        let usage = billing::usage(model, &reads, transfer);
        if transfer.is_none() && reads.bytes > 0.0 {
            line.missing.push("the network path is not known; give --transfer".into());
        }
        if usage.items.is_empty() {
            return (0.0, once);
        }
        let Some(usd) = self.price_usage(line, model.cloud.only_region(), &usage) else { return (0.0, once) };
        line.usd = usd * if once { 1.0 } else { f64::from(line.runs) };
        (usd, once)
    }

    /// Returns the dollars of a usage, and notes items without a price in the line. `only` is the
    /// region of a service that has one price list. `None` without a region.
    fn price_usage(&self, line: &mut Line, only: Option<&str>, usage: &OptionUsage) -> Option<f64> {
        let bucket = line.target.strip_prefix("s3://").and_then(|rest| rest.split('/').next());
        let found = bucket.and_then(|bucket| self.found_regions.get(bucket)).or(self.region.as_ref());
        let Some(region) = only.or(found.map(String::as_str)) else {
            line.missing.push("its region is not known; give --region".into());
            return None;
        };
        let cost = self.prices.cost(usage, region, self.day);
        let missing = cost.missing.iter();
        line.missing.extend(
            missing.map(|missing| format!("the price {} in {region}: {}", missing.price, missing.reason)),
        );
        line.oldest_days = line.oldest_days.max(cost.oldest_days);
        Some(cost.per_job)
    }
}

/// Returns the mounted directory from which a contender's function reads, if the function's event
/// names a file.
fn mounted_directory(contender: &Contender, words: &Words) -> Option<String> {
    let event = &contender.invoke.as_ref()?.event;
    event.get("file")?;
    words.fill(event.get("directory")?.as_str()?).ok()
}

/// Returns all text in which a contender may name a service.
fn text_of(contender: &Contender) -> String {
    let job = contender.job.as_ref().map(ToString::to_string).unwrap_or_default();
    let env = contender.env.values().map(String::as_str);
    let words = contender.command.iter().map(String::as_str).chain(env);
    words.chain([contender.target.as_str(), &job]).collect::<Vec<_>>().join(" ")
}

/// Returns the location that a contender reads; `None` if it names none.
fn target_of(contender: &Contender, words: &Words) -> Result<Option<String>, String> {
    let billed = contender.billed.as_ref().map(|billed| billed.target.clone());
    let of_job = contender.job.as_ref().and_then(|job| Some(job.get("target")?.as_str()?.to_owned()));
    let named = billed.into_iter().chain(of_job).chain([contender.target.clone()]);
    if let Some(named) = named.into_iter().find(|target| !target.is_empty()) {
        return words.fill(&named).map(Some);
    }
    let filled = contender.command.iter().filter_map(|word| words.fill(word).ok());
    // The command may also contain an endpoint, which is a URL but not the target.
    Ok(filled.filter(|word| word.contains("://")).max_by_key(|word| word.starts_with("s3://")))
}

/// Returns a contender's endpoint, from its command line or its environment.
fn endpoint_of(contender: &Contender, words: &Words) -> Option<String> {
    let all: Vec<&str> =
        contender.job_options().chain(contender.command.iter().map(String::as_str)).collect();
    let after = all.windows(2).find(|pair| pair[0].starts_with("--endpoint")).map(|pair| pair[1]);
    let of_environment = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];
    let named =
        after.or_else(|| of_environment.iter().find_map(|name| Some(contender.env.get(*name)?.as_str())));
    named.and_then(|url| words.fill(url).ok())
}

/// Returns the reads of all jobs of a run, and whether only the first run makes them.
fn reads_of(contender: &Contender, words: &Words) -> Result<(JobTraffic, bool), String> {
    if contender.workload == "upload" {
        return Err("what an upload is billed is not estimated".into());
    }
    let unknown = || "how many bytes a run reads: its plan does not say".to_owned();
    let jobs = f64::from(contender.jobs(words)?);
    let none = BilledReads::default();
    let billed = contender.billed.as_ref().unwrap_or(&none);
    if !billed.class.is_empty() {
        return Err(format!("its storage class is {}, which may bill retrieval", billed.class));
    }
    let bytes = match (&billed.bytes, &contender.bytes) {
        (own, _) if !own.is_empty() => own,
        (_, Some(bytes)) => bytes,
        _ => return Err(unknown()),
    };
    let bytes = parse_size(&words.fill(bytes)?).map_err(|error| error.to_string())? as f64;
    let count = |text: &str, otherwise: f64| match words.fill(text)?.trim() {
        "" => Ok(otherwise),
        number => number.parse::<f64>().map_err(|_| format!("{number:?} is no number of requests")),
    };
    let reads = JobTraffic {
        gets: count(&billed.gets, (bytes / BLOCK_BYTES).ceil().max(1.0))?,
        lists: count(&billed.lists, 1.0)?,
        bytes,
        ..JobTraffic::default()
    };
    Ok((reads.times(jobs), billed.once))
}

#[cfg(test)]
mod tests;
