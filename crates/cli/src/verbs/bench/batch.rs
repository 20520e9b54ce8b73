//! `bench run --on batch:QUEUE:DEFINITION`: runs the whole measurement as a job of AWS Batch, and
//! fetches its results from S3.
//!
//! The job runs the same command line, without the options for this machine. So targets are paths
//! that the job's instance has mounted, and caches are dropped and observed on that instance. If
//! waiting for the job ends early, the job is ended too. Called by `bench`.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use firstbyte::{Client, Copy, environment};
use firstbyte_bench::batch::{BatchClient, BatchJob, BatchOutcome};
use firstbyte_bench::results;
use firstbyte_location::shown;
use firstbyte_location::units::{PositiveDuration, parse_size};

use super::super::quote;
use super::cost;
use super::run::{self, BenchRunArgs};
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::signals::{self, ForcedEnd};

/// Options that apply to this machine or become settings of the job. Each has a value.
const LOCAL_OPTIONS: [&str; 8] =
    ["--on", "--results", "--job-setup", "--out", "--memory-limit", "--cpus", "--budget", "--profile"];
/// Time that a job has besides its measuring time, to make data and to deliver results.
const JOB_OVERHEAD: Duration = Duration::from_secs(300);
/// Maximum time for ending the job after Ctrl-C. The job must be ended, because a running job costs
/// money.
const MAX_END_TIME: Duration = Duration::from_secs(15);

/// Queue, job definition and endpoint of AWS Batch.
pub struct BatchQueue<'a> {
    pub queue: &'a str,
    pub definition: &'a str,
    pub endpoint: Option<&'a str>,
}

pub fn run(args: &BenchRunArgs, globals: &Globals, place: &BatchQueue<'_>) -> Result<Exit> {
    let results = check(args)?;
    let of_environment =
        ["AWS_ENDPOINT_URL_BATCH", "AWS_ENDPOINT_URL"].into_iter().find_map(environment::variable);
    let endpoint = place.endpoint.or(of_environment.as_deref());
    let batch = BatchClient::new(globals.options().store, place.queue, place.definition, endpoint)?;
    let mut words = words_of_job(text_arguments()?.into_iter());
    if let Some(rest) = read_budget(args, globals, &batch, place)? {
        insert_options(&mut words, &["--budget".to_owned(), format!("{rest:.2}USD")]);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let name = format!("firstbyte-bench-{:x}", now.as_nanos());
    let results_location = format!("{}/{name}", results.trim_end_matches('/'));
    let job = job(args, globals, name, line(args.job_setup.as_deref(), &words, &results_location))?;
    if args.dry_run {
        return console::print(&job.line).map(|()| Exit::Done);
    }
    let ended = submit_and_wait(&batch, &job, &results_location, args, globals)?;
    fetch_results(args, globals, &ended, &results_location)
}

/// Refuses options that no job supports. Returns the location for the results.
fn check(args: &BenchRunArgs) -> Result<&str> {
    if args.plan.is_some() || args.source.is_some() {
        let what = "--on batch: a job does not have the files of this machine";
        return Err(Error::usage(what).advise("measure targets or a suite"));
    }
    if let Some(path) = args.out.as_ref().filter(|path| path.exists()) {
        let what = format!("{}: exists; a job begins anew", path.display());
        return Err(Error::usage(what).advise("name another file with --out, or remove it"));
    }
    if args.cost.budget.is_some() && args.max_time.is_none() {
        let what = "--budget: a job on an instance costs by its time";
        return Err(Error::usage(what).advise("give --max-time too"));
    }
    match args.results.as_deref() {
        Some(results) if results.starts_with("s3://") => Ok(results),
        _ => Err(Error::usage("--on batch: the job has no place for its results")
            .advise("give --results s3://BUCKET/PREFIX/, where it may write and you may read")),
    }
}

/// Returns the arguments of this process, which become text in the job's command line.
fn text_arguments() -> Result<Vec<String>> {
    let text = |word: OsString| {
        word.into_string().map_err(|word| {
            let what = format!("{}: not UTF-8; the command line of a job is text", shown(&word));
            Error::usage(what).advise("give it another name")
        })
    };
    std::env::args_os().skip(1).map(text).collect()
}

/// Returns the command line of the job: the `given` one without the options for this machine.
fn words_of_job(given: impl Iterator<Item = String>) -> Vec<String> {
    let (mut words, mut given) = (Vec::new(), given);
    while let Some(word) = given.next() {
        if word == "--" {
            words.push(word);
            words.extend(given);
            return words;
        }
        let name = word.split('=').next().unwrap_or_default();
        if name == "--dry-run" {
            continue;
        }
        if !LOCAL_OPTIONS.contains(&name) {
            words.push(word);
        } else if name == word {
            given.next();
        }
    }
    words
}

/// Returns the budget for the job's reads: what is left after paying for the instance for the job's
/// maximum time. `None` without a budget.
fn read_budget(
    args: &BenchRunArgs,
    globals: &Globals,
    batch: &BatchClient,
    place: &BatchQueue<'_>,
) -> Result<Option<f64>> {
    let (Some(budget), Some(most)) = (args.cost.budget, args.max_time) else { return Ok(None) };
    let hours = (most.get() + JOB_OVERHEAD).as_secs_f64() / 3600.0;
    let tariff = args.cost.tariff(globals, None, None, Default::default())?;
    let costs = tariff.of_instance(&format!("batch:{}", place.queue), &batch.instances()?, hours);
    args.cost.check(&costs)?;
    if args.dry_run {
        cost::show(&costs, globals)?;
    }
    let rest = ((budget - costs.usd()) * 100.0).floor() / 100.0;
    if rest < 0.0 {
        let what =
            format!("--budget {budget} USD: the instance alone may cost {:.2} by list prices", costs.usd());
        return Err(Error::failed(what).advise("give a shorter --max-time, or a higher budget"));
    }
    Ok(Some(rest))
}

fn job(args: &BenchRunArgs, globals: &Globals, name: String, line: String) -> Result<BatchJob> {
    let memory = args.memory_limit.as_deref().map(parse_size).transpose();
    let memory = memory.map_err(|error| Error::usage(format!("--memory-limit: {error}")))?;
    let region = globals.region.clone().or_else(|| environment::region(&environment::variable));
    Ok(BatchJob {
        name,
        line,
        cpus: args.cpus.map(|cpus| cpus.ceil() as u32),
        memory_mib: memory.map(|bytes| bytes.div_ceil(1 << 20)),
        limit: args.max_time.map(|most| most.get() + JOB_OVERHEAD),
        once: args.cost.budget.is_some(),
        env: region.into_iter().map(|region| ("AWS_REGION".to_owned(), region)).collect(),
    })
}

/// Makes the job's shell script, which measures, and delivers results and messages even after a
/// failure. AWS kills a terminated job after 30 seconds, and sends the signal before that only to
/// the shell.
fn line(setup: Option<&str>, words: &[String], results_location: &str) -> String {
    let setup = setup.map(|line| format!("{line}\n")).unwrap_or_default();
    let mut words: Vec<String> = words.iter().map(|word| quote(word)).collect();
    insert_options(&mut words, &["--out".to_owned(), "$d/results.jsonl".to_owned()]);
    format!(
        "{setup}d=$(mktemp -d); trap 'kill -TERM $p || :' TERM\n\
         firstbyte {} 2>$d/said & p=$!\n\
         while :; do code=0; wait $p || code=$?; kill -0 $p 2>/dev/null || break; done\n\
         cat $d/said >&2\n\
         firstbyte -q cp -r $d/ {}\n\
         [ $code = 3 ] || exit $code\n",
        words.join(" "),
        quote(&format!("{results_location}/")),
    )
}

/// Inserts options before the `--` that separates the command of the workload `command`.
fn insert_options(words: &mut Vec<String>, options: &[String]) {
    let at = words.iter().position(|word| word == "--").unwrap_or(words.len());
    words.splice(at..at, options.iter().cloned());
}

/// Submits the job and waits until it ends. If the wait is interrupted, ends the job.
fn submit_and_wait(
    batch: &BatchClient,
    job: &BatchJob,
    results_location: &str,
    args: &BenchRunArgs,
    globals: &Globals,
) -> Result<BatchOutcome> {
    let stopped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stopped);
    let ending = ForcedEnd { interrupted: MAX_END_TIME, terminated: MAX_END_TIME, exit: Exit::Interrupted };
    signals::on_signal_but_hangup(ending, move || flag.store(true, Ordering::Relaxed))?;
    let id = batch.submit(job)?;
    let say = |text: String| {
        if !globals.quiet {
            console::say(text);
        }
    };
    say(format!("job {id} is submitted"));
    let stop = || stopped.load(Ordering::Relaxed);
    let ended = batch.wait(&id, args.max_time.map(PositiveDuration::get), &stop, &mut |state| {
        say(format!("job {id}: {state}"))
    });
    if ended.is_err()
        && let Err(error) = batch.terminate(&id, "bench run was ended")
    {
        console::print_error(&Error::failed(format!("job {id} could not be ended: {error}")));
    }
    ended.map_err(|error| {
        let what =
            format!("what the job has measured comes to {results_location}/results.jsonl within a minute");
        Error::from(error).advise(what)
    })
}

/// Fetches the job's results, and reports how it ended.
fn fetch_results(
    args: &BenchRunArgs,
    globals: &Globals,
    ended: &BatchOutcome,
    results_location: &str,
) -> Result<Exit> {
    let directory = tempfile::tempdir().map_err(|error| Error::io("the temporary directory", &error))?;
    let client = Client::new(globals.options())?;
    let fetched = |name: &str, to: PathBuf| -> Result<Option<PathBuf>> {
        match client.cp(format!("{results_location}/{name}"), &to, &Copy::default()) {
            Ok(_) => Ok(Some(to)),
            Err(error) if error.io_kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    };
    let to = args.out.clone().unwrap_or_else(|| directory.path().join("results.jsonl"));
    let found = fetched("results.jsonl", to)?;
    let failed = match (&ended.failed, &found) {
        (None, Some(path)) => return run::print_report(&results::read(path)?, globals),
        (None, None) => format!("the job succeeded, but left no results at {results_location}/"),
        (Some(why), _) => format!("the job failed: {why}"),
    };
    let said = fetched("said", directory.path().join("said"))?.and_then(|path| last_line(&path));
    let said = said.map(|line| format!("; its last line: {line}")).unwrap_or_default();
    let error = Error::failed(format!("{failed}{said}"));
    Err(match (&found, &ended.log) {
        (Some(_), _) => match &args.out {
            Some(path) => error.advise(format!("what it has measured is in {}", path.display())),
            None => error,
        },
        (None, Some(log)) => error.advise(format!("its log stream {log} has more")),
        (None, None) => error,
    })
}

fn last_line(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_job_gets_the_command_line_without_what_concerns_this_machine() {
        let given = "-q bench run /mnt/efs --on batch:q:d --results=s3://b/ --case a --out o --dry-run --cpus 2 --budget=1USD \
                     --workload command -- prog --out x";
        let expected = "-q bench run /mnt/efs --case a --workload command -- prog --out x";
        assert_eq!(words_of_job(words(given).into_iter()), words(expected));
    }

    #[test]
    fn a_line_has_the_file_of_results_before_the_command_and_quotes_words() {
        let given = [words("bench run /mnt/efs --"), vec!["prog".into(), "it's $x".into()]].concat();
        let line = line(Some("dnf -y install fio"), &given, "s3://b/p/n");
        assert!(line.starts_with("dnf -y install fio\nd=$(mktemp -d)"), "{line}");
        let run =
            "\nfirstbyte bench run /mnt/efs --out $d/results.jsonl -- prog 'it'\\''s $x' 2>$d/said & p=$!\n";
        assert!(line.contains(run), "{line}");
        assert!(line.contains("\nfirstbyte -q cp -r $d/ s3://b/p/n/\n"), "{line}");
    }
}
