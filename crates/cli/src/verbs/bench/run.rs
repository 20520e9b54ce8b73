//! `bench run`: makes or reads a plan, executes it, and writes the measured runs to a results file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use firstbyte::{Client, environment};
use firstbyte_advise::units::shown_seconds;
use firstbyte_bench::cost::{Costs, estimate};
use firstbyte_bench::engine::{self, Ending, Event, Settings};
use firstbyte_bench::machine;
use firstbyte_bench::on::JobPlace;
use firstbyte_bench::plan::Plan;
use firstbyte_bench::result::{Outcome, Results, Run};
use firstbyte_bench::results::Writer;
use firstbyte_bench::suites::{SUITES, Suite};
use firstbyte_bench::targets::{self, Request, Target};
use firstbyte_location::units::{PositiveDuration, parse_size};
use firstbyte_location::{Location, Service};
use firstbyte_store::EndpointSource;
use firstbyte_transfer::Concurrency;
use serde_json::json;

use super::cost::{self, CostArgs};
use super::on;
use super::report::on_terminal;
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::signals;
use crate::title;

/// Measure targets, and write each run as soon as it ends
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte bench run s3://bucket/data/ /mnt/data --out results.jsonl
  firstbyte bench run s3://bucket/big.bam --workload rand-read --parallel-jobs 1,2,4
  firstbyte bench run /mnt/nfs/data --expect-fs nfs4 --dry-run
  firstbyte bench run s3://bucket/data/ --budget 5USD --transfer internet --region us-east-1
  firstbyte bench run --plan peers/transfer.toml --case minio-big --out results.jsonl
  firstbyte bench run --suite s5 s3://bucket/test/ --out s5.jsonl
  firstbyte bench run --suite s1 --on lambda:firstbyte-{memory} s3://bucket/big --budget 2USD --out s1.jsonl
  firstbyte bench run /mnt/efs --on batch:queue:definition --results s3://bucket/results/ --out efs.jsonl
Targets are only read unless --write is given. Ctrl-C keeps what was measured; the same command line continues it.")]
pub struct BenchRunArgs {
    /// Targets to measure: directories, files, objects, prefixes, buckets
    #[arg(value_name = "TARGET", required_unless_present_any = ["plan", "suite"])]
    targets: Vec<String>,
    /// Run this workload instead of all that fit the targets: open, one-big, many-small, seq-read,
    /// rand-read, list, copy-tree, hydrate, upload, mapped, fio, mixed, probe, command; may be
    /// repeated
    #[arg(long = "workload", value_name = "NAME")]
    workloads: Vec<String>,
    /// Largest number of bytes that a run reads of one object [default: 256 MiB; all for one-big]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    size: Option<u64>,
    /// Largest number of files that a run reads
    #[arg(long, value_name = "N")]
    files: Option<u64>,
    /// Bytes of one read in seq-read and rand-read
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    block: Option<u64>,
    /// Part of an object that `open` reads first, before all of it: a size or a percentage
    #[arg(long, value_name = "PART", default_value = "1%")]
    read: String,
    /// Number of jobs that run at once; several numbers are compared
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    parallel_jobs: Vec<u32>,
    /// Add another program as a contender: NAME=COMMAND with {target} and {out}; may be repeated
    #[arg(long = "with", value_name = "NAME=COMMAND", value_parser = parse_peer)]
    peers: Vec<(String, Vec<String>)>,
    /// Command that the workload `command` runs, with {target}
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// The local file or directory that `upload` copies
    #[arg(long, value_name = "PATH")]
    pub source: Option<PathBuf>,
    /// Let workloads write to the targets
    #[arg(long)]
    write: bool,
    /// Limit on the memory of each contender, page cache included
    #[arg(long, value_name = "SIZE")]
    pub memory_limit: Option<String>,
    /// Processors that each contender may use
    #[arg(long, value_name = "N")]
    pub cpus: Option<f64>,
    /// Run each job as in a serverless function of this memory: with its share of a processor, and
    /// behind a network of its own (0.6 Gbit/s sustained, 20 ms). With --on, the memory that the
    /// function gets
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["memory_limit", "cpus", "plan", "suite"])]
    function: Option<String>,
    /// Run the functions in groups, one group after another, if the machine cannot hold all at once
    #[arg(long, requires = "function")]
    waves: bool,
    /// Fail unless the local targets are on this type of file system
    #[arg(long, value_name = "TYPE")]
    expect_fs: Option<String>,
    /// Measure a plan, a TOML file, instead of targets
    #[arg(long, value_name = "FILE", conflicts_with_all = ["targets", "workloads", "suite"])]
    pub plan: Option<PathBuf>,
    /// Repeat published measurements on the targets, or without targets on stand-ins
    #[arg(long, value_name = "NAME", value_parser = parse_suite, conflicts_with = "workloads")]
    suite: Option<&'static Suite>,
    /// Where the jobs run: `local` or `local:CODE` (functions on this machine), `lambda:NAME` or
    /// `lambda:NAME@ENDPOINT` (with {memory} in NAME for the memory in MB), `slurm` (by srun),
    /// `batch:QUEUE:DEFINITION` (all of it as one job of AWS Batch; targets are what the job sees)
    #[arg(long, value_name = "WHERE", value_parser = JobPlace::parse)]
    pub on: Option<JobPlace>,
    /// Where a job of --on batch leaves its results: an S3 prefix
    #[arg(long, value_name = "LOCATION", requires = "on")]
    pub results: Option<String>,
    /// A line for the shell that a job of --on batch runs first, such as the installation of
    /// contenders
    #[arg(long, value_name = "LINE", requires = "on")]
    pub job_setup: Option<String>,
    /// Run only this case of the plan or the suite; may be repeated
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// Set a variable of the plan or the suite; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_pair)]
    vars: Vec<(String, String)>,
    /// Write the runs to this file; continue it if it exists
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Number of measured rounds, instead of the plan's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Stop before the runs have read or moved more than SIZE bytes
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_bytes: Option<u64>,
    /// Stop after this time
    #[arg(long, value_name = "TIME")]
    pub max_time: Option<PositiveDuration>,
    #[command(flatten)]
    pub cost: CostArgs,
    /// Show the cases, their contenders and what they cost, without running them
    #[arg(long)]
    pub dry_run: bool,
}

fn parse_peer(text: &str) -> std::result::Result<(String, Vec<String>), String> {
    let (name, command) = parse_pair(text)?;
    let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    if words.is_empty() { Err("the command is empty".into()) } else { Ok((name, words)) }
}

fn parse_suite(text: &str) -> std::result::Result<&'static Suite, String> {
    let known = SUITES.iter().map(|suite| suite.name).collect::<Vec<_>>().join(", ");
    Suite::named(text).ok_or_else(|| format!("the suites are {known}"))
}

/// Parses `NAME=VALUE`.
pub fn parse_pair(text: &str) -> std::result::Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub fn run(args: &BenchRunArgs, globals: &Globals) -> Result<Exit> {
    if args.results.is_some() || args.job_setup.is_some() {
        return Err(Error::usage("--results and --job-setup are of --on batch"));
    }
    let client = Client::new(globals.options())?;
    let programs = tempfile::tempdir().map_err(|error| Error::io("the temporary directory", &error))?;
    let plan = match (&args.plan, args.suite) {
        (Some(path), _) => load(path, args)?,
        (None, Some(suite)) => of_suite(suite, args, &client)?,
        (None, None) => of_targets(args, globals, &client)?,
    };
    let plan = on::place(plan, args.on.as_ref())?;
    let costs = costs_of(&plan, args, globals, &client)?;
    if args.dry_run {
        show(&plan, args, globals)?;
        cost::show(&costs, globals)?;
        return Ok(Exit::Done);
    }
    if let Some(suite) = args.suite {
        suite.unpack(programs.path())?;
    }
    let stopped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stopped);
    signals::on_measurement_signal(move || flag.store(true, Ordering::Relaxed))?;
    let stop = || stopped.load(Ordering::Relaxed);
    let settings = Settings {
        firstbyte: std::env::current_exe().map_err(|error| Error::io("this program's own path", &error))?,
        // The contenders of a plan get the same environment on every machine. Targets are the
        // user's own, and are reached with the user's environment.
        env: if is_of_user(args) { std::env::vars_os().collect() } else { clean_environment() },
        disk: std::env::temp_dir(),
        words: placeholder_values(args.plan.as_deref().and_then(Path::parent), programs.path()),
        rounds: args.rounds,
        max_bytes: args.max_bytes,
        max_usd: args.cost.budget,
        costs,
        max_seconds: args.max_time.map(|time| time.get().as_secs_f64()),
        keep: false,
        stop: &stop,
    };
    let command = title::words().collect();
    let local: Vec<PathBuf> = local_targets(args).map(PathBuf::from).collect();
    let machine = machine::describe(&[local, vec![std::env::temp_dir()]].concat(), &environment::variable);
    let header = engine::header(&plan, &settings, command, machine);
    let mut writer = match &args.out {
        Some(path) => Writer::open(path, header)?,
        None => Writer::in_memory(header),
    };
    let ending = engine::execute(&plan, &settings, &mut writer, &mut |event| watch(&event, globals));
    on::cancel_queued_jobs(args.on.as_ref());
    let ending = ending?;
    finish(ending, &writer, globals)
}

/// Returns whether the measured storage is the user's own, so that jobs need the user's
/// environment.
fn is_of_user(args: &BenchRunArgs) -> bool {
    !args.targets.is_empty() || matches!(args.on, Some(JobPlace::Lambda { .. }))
}

/// Estimates the cost of the runs if a budget or a dry run needs it.
fn costs_of(plan: &Plan, args: &BenchRunArgs, globals: &Globals, client: &Client) -> Result<Costs> {
    if !args.dry_run && args.cost.budget.is_none() {
        return Ok(Costs::default());
    }
    // A plan names the endpoints of its contenders; targets use the user's endpoint.
    let (endpoint, region) = match args.targets.is_empty() {
        true => (None, None),
        false => (endpoint_of_user(client), client.store().endpoint_of(Service::S3)?.region),
    };
    // The inspection of a target has found the bucket's region if that is another than the
    // configured one.
    let found = |target: &String| match Location::parse(target.as_ref()).ok()? {
        Location::Object(object) => Some((object.bucket.clone(), client.store().found_region(&object)?)),
        _ => None,
    };
    let found = args.targets.iter().filter_map(found).collect();
    let costs = estimate(plan, args.rounds, &args.cost.tariff(globals, endpoint, region, found)?);
    args.cost.check(&costs)?;
    Ok(costs)
}

/// Makes the plan for the targets.
fn of_targets(args: &BenchRunArgs, globals: &Globals, client: &Client) -> Result<Plan> {
    let targets = probe(args, client)?;
    let request = Request {
        workloads: args.workloads.clone(),
        size: args.size,
        files: args.files,
        block: args.block,
        read: args.read.clone(),
        concurrency: match globals.concurrency {
            Concurrency::Auto => None,
            Concurrency::Fixed(count) => Some(count),
        },
        parallel_jobs: args.parallel_jobs.clone(),
        write: args.write,
        options: options_of(globals),
        peers: args.peers.clone(),
        memory_limit: args.memory_limit.clone(),
        cpus: args.cpus,
        function: args.function.clone(),
        called: on::called_function(args.on.as_ref())?,
        waves: args.waves,
        endpoint: endpoint_of_user(client),
        path: environment::variable("PATH").unwrap_or_default(),
        command: args.command.clone(),
        // Jobs run in directories of their own, so the path must be absolute.
        source: args
            .source
            .as_deref()
            .map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned())),
    };
    Ok(targets::plan(&targets, &request)?)
}

/// Returns the S3 endpoint of the options, the environment or the profile; `None` for AWS. If the
/// settings are unusable, every request reports it.
fn endpoint_of_user(client: &Client) -> Option<String> {
    let endpoint = client.store().endpoint_of(Service::S3).ok()?;
    (endpoint.source != EndpointSource::Aws).then_some(endpoint.url)
}

/// Returns the targets that are local paths.
fn local_targets(args: &BenchRunArgs) -> impl Iterator<Item = &str> {
    args.targets.iter().map(String::as_str).filter(|target| !target.contains("://"))
}

/// Returns the global options that decide how jobs access targets.
fn options_of(globals: &Globals) -> Vec<String> {
    let named = [
        ("--endpoint-url", globals.endpoint_url.clone()),
        ("--profile", globals.profile.clone()),
        ("--region", globals.region.clone()),
        ("--ca-bundle", globals.ca_bundle.as_ref().map(|path| path.display().to_string())),
        ("--memory", globals.memory.map(|bytes| bytes.to_string())),
    ];
    let flags = [("--no-sign-request", globals.no_sign_request), ("--request-payer", globals.request_payer)];
    let named = named.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?])).flatten();
    let flags = flags.into_iter().filter(|(_, given)| *given).map(|(name, _)| name.to_owned());
    named.chain(flags).collect()
}

/// Loads the plan in a file, reduced to the chosen cases.
fn load(path: &Path, args: &BenchRunArgs) -> Result<Plan> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::io(path.display(), &error))?;
    let vars: BTreeMap<String, String> = args.vars.iter().cloned().collect();
    choose_cases(Plan::parse(&path.display().to_string(), &text, &vars)?, args)
}

/// Makes the plan of a suite, with the chosen cases.
fn of_suite(suite: &Suite, args: &BenchRunArgs, client: &Client) -> Result<Plan> {
    // A missing or empty target is an error before any run starts.
    let targets = probe(args, client)?;
    let vars: BTreeMap<String, String> = args.vars.iter().cloned().collect();
    let locations = targets.iter().map(|target| target.location.trim_end_matches('/').to_owned());
    let locations: Vec<String> = locations.collect();
    let plan = match args.on.as_ref().filter(|on| **on != JobPlace::Slurm) {
        Some(on) => on::in_functions(suite, on, &targets, &locations, endpoint_of_user(client), vars)?,
        None => suite.plan(&locations, &vars)?,
    };
    choose_cases(plan, args)
}

/// Inspects the targets.
fn probe(args: &BenchRunArgs, client: &Client) -> Result<Vec<Target>> {
    if let Some(expected) = &args.expect_fs {
        for path in local_targets(args) {
            machine::expect_file_system(Path::new(path), expected).map_err(Error::failed)?;
        }
    }
    let looked = args.targets.iter().map(|target| targets::probe(client, target));
    Ok(looked.collect::<std::result::Result<_, _>>()?)
}

/// Reduces the plan to the chosen cases.
fn choose_cases(mut plan: Plan, args: &BenchRunArgs) -> Result<Plan> {
    if args.cases.is_empty() {
        return Ok(plan);
    }
    let known: Vec<&str> = plan.cases.iter().map(|case| case.name.as_str()).collect();
    if let Some(unknown) = args.cases.iter().find(|name| !known.contains(&name.as_str())) {
        let advice = format!("its cases are {}", known.join(", "));
        return Err(Error::usage(format!("{}: no case {unknown}", plan.name)).advise(advice));
    }
    plan.cases.retain(|case| args.cases.contains(&case.name));
    Ok(plan)
}

/// Returns the environment for the contenders of a plan. Variables that change where a tool
/// connects or which certificates it trusts are removed.
pub fn clean_environment() -> BTreeMap<OsString, OsString> {
    let foreign = |name: &str| {
        ["AWS_", "RCLONE_", "S3_", "FIRSTBYTE_", "SSL_CERT"].iter().any(|prefix| name.starts_with(prefix))
            || name.to_ascii_lowercase().ends_with("_proxy")
    };
    std::env::vars_os().filter(|(name, _)| !foreign(&name.to_string_lossy())).collect()
}

/// Returns the placeholder `{plan}`: the directory of the plan's file, or the directory to which
/// the programs of a suite were written.
fn placeholder_values(plan: Option<&Path>, programs: &Path) -> BTreeMap<String, String> {
    let directory = match plan {
        Some(path) if path.as_os_str().is_empty() => Path::new("."),
        Some(path) => path,
        None => programs,
    };
    let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    BTreeMap::from([("plan".to_owned(), directory.display().to_string())])
}

fn show(plan: &Plan, args: &BenchRunArgs, globals: &Globals) -> Result<()> {
    for case in &plan.cases {
        if globals.json {
            let rounds = args.rounds.unwrap_or(case.rounds);
            console::print(
                json!({"case": case.name, "contenders": case.contenders.len(), "rounds": rounds}),
            )?;
            continue;
        }
        console::print(format_args!("{}  {}", case.name, case.title))?;
        for contender in &case.contenders {
            let runs = format!("{} runs", case.runs(args.rounds));
            let what = if contender.modelled.is_some() { "computed" } else { &runs };
            console::print(format_args!("  {}: {what}", contender.name))?;
        }
    }
    Ok(())
}

/// Remaining seconds below which no remaining time is displayed.
const MIN_SHOWN_SECONDS: f64 = 2.0;

/// Prints the progress of the measurement on standard error.
fn watch(event: &Event<'_>, globals: &Globals) {
    if globals.quiet {
        return;
    }
    match event {
        Event::Case(case) => console::say(format_args!("== {}: {}", case.name, case.title)),
        Event::Run(run) => console::say(line_of(run)),
        Event::Note(note) => console::say(format_args!("   {note}")),
        Event::Left(seconds) if *seconds >= MIN_SHOWN_SECONDS && std::io::stderr().is_terminal() => {
            console::say(format_args!("   about {} left", shown_seconds(seconds.round())));
        }
        Event::Complete(..) | Event::Kept(_) | Event::Left(_) => {}
    }
}

fn line_of(run: &Run) -> String {
    let round = if run.round == 0 { "warm-up".to_owned() } else { format!("round {}", run.round) };
    let figures = match run.outcome {
        Outcome::Ok => format!("{:.3} s  {:.2} s CPU", run.seconds, run.user_seconds + run.system_seconds),
        _ => run.error.clone().unwrap_or_default(),
    };
    let marks = run.marks.iter().map(|mark| format!("; left out: {mark}")).collect::<String>();
    format!("   {round:8} {:24} {figures}{marks}", run.contender)
}

fn finish(ending: Ending, writer: &Writer, globals: &Globals) -> Result<Exit> {
    match ending {
        Ending::Complete => print_report(writer.results(), globals),
        Ending::Interrupted => print_report(writer.results(), globals).and(Err(Error::interrupted())),
        Ending::Limit(why) => {
            print_report(writer.results(), globals)?;
            Err(Error::failed(why).advise("the same command line with a higher limit continues"))
        }
    }
}

/// Prints the report, or with `--json` the number of runs and of failed runs.
pub fn print_report(results: &Results, globals: &Globals) -> Result<Exit> {
    let failed = results.failed().count();
    if globals.json {
        console::print(json!({"verb": "bench", "runs": results.runs.len(), "failed": failed}))?;
    } else if !results.runs.is_empty() {
        console::print(on_terminal(slice::from_ref(results)).trim_end())?;
    }
    Ok(if failed > 0 { Exit::Partial } else { Exit::Done })
}
