//! Runs one contender once: makes a new destination, runs the jobs, checks the delivered content,
//! and collects the figures into a [`Run`]. Called by the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::result::{Basis, CacheState, JobFigures, Noise, Outcome, Run};
use crate::statistics::median;
use firstbyte_location::units;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::Settings;
use super::function::RunGroups;
use super::prepare::{self, run_command, run_commands};
use crate::cache::{self, CachedObject, PreparedCache, Spec, Tools, Traffic};
use crate::cgroup::Group;
use crate::check;
use crate::error::{Error, Result};
use crate::launch::{self, EndedCommand, Figures, Launch};
use crate::noise::Meter;
use crate::plan::{Case, Contender, Prints};
use crate::process::last_line;
use crate::resident;
use crate::services::{Counters, RunningService};
use crate::stage::MediumStages;
use crate::throughput::Sampler;
use crate::words::Words;

/// Longest error text of a run, in characters.
const MAX_ERROR_CHARACTERS: usize = 300;
/// Longest wait for a link to count delivered bytes. Its thread needs one turn on a processor.
const COUNTERS_TIMEOUT: Duration = Duration::from_secs(1);

/// A case that is prepared to run.
pub(super) struct CaseRun<'a> {
    /// Name of the plan, for messages.
    pub(super) plan: &'a str,
    pub(super) case: &'a Case,
    pub(super) prepared: &'a prepare::PreparedCase,
    pub(super) settings: &'a Settings<'a>,
}

/// Returns the present time, RFC 3339 in UTC.
pub(super) fn now() -> String {
    OffsetDateTime::now_utc().format(&Rfc3339).unwrap_or_default()
}

impl CaseRun<'_> {
    /// Returns the bytes that all jobs of a run move or read. `None` if the plan does not state
    /// them.
    pub(super) fn bytes_of(&self, contender: &Contender) -> Result<Option<u64>> {
        let Some(text) = &contender.bytes else { return Ok(None) };
        let text = self.prepared.words.fill(text).map_err(|what| self.wrong(contender, what))?;
        let bytes =
            units::parse_size(&text).map_err(|error| self.wrong(contender, format!("bytes: {error}")))?;
        Ok(Some(bytes * u64::from(self.jobs(contender)?)))
    }

    /// Returns the number of jobs of a run.
    fn jobs(&self, contender: &Contender) -> Result<u32> {
        contender.jobs(&self.prepared.words).map_err(|what| self.in_case(what))
    }

    /// Runs a contender once. A failure of the contender is the outcome of the run. An error means
    /// that the measurement cannot continue.
    pub(super) fn run(
        &self,
        contender: &Contender,
        stage: &mut MediumStages,
        longest: Duration,
    ) -> Result<Run> {
        let destination = stage.destination(self.case.destination)?;
        let ran = self.run_into(contender, &destination, longest);
        if !self.case.keep {
            let _ = std::fs::remove_dir_all(&destination);
        }
        ran
    }

    fn run_into(&self, contender: &Contender, destination: &Path, longest: Duration) -> Result<Run> {
        let mut run = Run {
            case: self.case.name.clone(),
            contender: contender.name.clone(),
            basis: basis(contender, &self.prepared.words),
            bytes: self.bytes_of(contender)?,
            ..Run::default()
        };
        let words = &self.words(destination, &self.prepared.words);
        let jobs = self.words_of_jobs(contender, destination)?;
        self.run_commands(&self.case.before, words)?;
        let wrong = |what| self.wrong(contender, what);
        let limited = RunGroups::create(contender, jobs.len() as u32, words, &wrong)?;
        let launches = self.launches(contender, destination, &jobs, &limited)?;
        let scratch = self.scratch(destination)?;
        let mut state = self.prepare_cache(contender, &jobs, run.bytes)?;
        state.observe_before();
        let services = self.prepared.services.iter().map(RunningService::pid).collect();
        let (counted, began, noise) = (self.counters(contender), Instant::now(), Meter::start(services));
        let moved = Sampler::of_destination(destination.to_owned());
        let server = contender.server.as_ref().and_then(|name| self.services(name).next());
        let watched = server.map(|service| resident::peak_of(service.pid()));
        run.at = now();
        let clock = OffsetDateTime::now_utc().unix_timestamp_nanos() as f64 / 1e9;
        let at_once = limited.at_once.unwrap_or(jobs.len() as u32) as usize;
        let before = || self.refresh(contender, words);
        let ended = launch::run_in_waves(&launches, at_once, &scratch, longest, self.settings.stop, &before)?;
        let _ = std::fs::remove_dir_all(&scratch);
        run.throughput = moved.finish();
        if (self.settings.stop)() {
            return Err(Error::Interrupted);
        }
        if let Some(crossed) = counted.and_then(|before| self.traffic(contender, before, run.bytes)) {
            run.wire_bytes = Some(crossed.bytes);
            run.requests = Some(crossed.requests);
        }
        run.storage_bytes = limited.read_bytes();
        record(&mut run, contender, &ended);
        if let Some(watched) = watched {
            let peak = watched.finish().last().map_or(0, |(_, bytes)| *bytes);
            run.metrics.insert("server_peak_bytes".into(), peak as f64);
        }
        if limited.at_once.is_some() {
            run.metrics.insert("jobs_at_once".into(), at_once as f64);
        }
        if run.outcome == Outcome::Failed
            && let Some(what) = limited.memory_error()
        {
            run.error = Some(what);
        }
        run.noise = scaled_to_run(
            noise.finish(run.user_seconds + run.system_seconds),
            run.seconds / began.elapsed().as_secs_f64(),
        );
        let traffic =
            Traffic { wire_bytes: run.wire_bytes, requests: run.requests, storage_bytes: run.storage_bytes };
        (run.cache, run.marks) = match &contender.invoke {
            Some(_) => cache::judge_environments(contender.cache.state, clock, &run),
            None => cache::conclude(state, &traffic),
        };
        if run.outcome == Outcome::Ok
            && let Err(what) =
                self.check_read(contender, &run).and_then(|()| self.check_all(contender, destination, &jobs))
        {
            (run.outcome, run.error) = (Outcome::Wrong, Some(what));
        }
        self.run_commands(&self.case.after, words)?;
        Ok(run)
    }

    /// Returns the placeholders of a run: `words` of its case or job, with the destination added.
    fn words(&self, destination: &Path, words: &Words) -> Words {
        let mut words = words.clone();
        words.set("out", destination.display());
        words.set("run", destination.file_name().unwrap_or_default().to_string_lossy());
        words
    }

    /// Returns the placeholders of each job: `{job}`, and the job's own services.
    fn words_of_jobs(&self, contender: &Contender, destination: &Path) -> Result<Vec<Words>> {
        let of_job = |job: u32| {
            let case = self.prepared.jobs.get(job as usize).unwrap_or(&self.prepared.words);
            let mut words = self.words(destination, case);
            words.set("job", job);
            words
        };
        Ok((0..self.jobs(contender)?).map(of_job).collect())
    }

    /// Makes a directory for outputs beside the destination. The destination itself belongs to the
    /// contender.
    fn scratch(&self, destination: &Path) -> Result<PathBuf> {
        let scratch = destination.with_extension("scratch");
        std::fs::create_dir_all(&scratch).map_err(Error::file(&scratch))?;
        Ok(scratch)
    }

    /// Establishes the cache state of a contender, for all of its jobs.
    fn prepare_cache(
        &self,
        contender: &Contender,
        jobs: &[Words],
        bytes: Option<u64>,
    ) -> Result<PreparedCache> {
        let plan = &contender.cache;
        let (mut files, mut names, mut objects) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        for words in jobs {
            let filled = |text: &String| words.fill(text).map_err(|what| self.wrong(contender, what));
            for (paths, found) in [(&plan.files, &mut files), (&plan.names, &mut names)] {
                for path in paths {
                    found.insert(PathBuf::from(filled(path)?));
                }
            }
            if let (Some(location), Some(dir)) = (&plan.object, &plan.dir) {
                let object = CachedObject { location: filled(location)?, cache: filled(dir)?.into() };
                if !objects.contains(&object) {
                    objects.push(object);
                }
            }
        }
        let spec = Spec {
            // The caches of a function are in its environments, not on this machine.
            state: if contender.invoke.is_some() { CacheState::Any } else { plan.state },
            files: files.into_iter().collect(),
            names: names.into_iter().collect(),
            objects,
            expected_bytes: bytes,
        };
        let Some(words) = jobs.first() else { return Err(self.wrong(contender, "no jobs".into())) };
        let filled = |text: &str| words.fill(text).map_err(|what| self.wrong(contender, what));
        let own = contender.env.iter().map(|(name, value)| Ok((name.clone(), filled(value)?)));
        let text = |text: &std::ffi::OsString| text.to_string_lossy().into_owned();
        let case = self.prepared.env.iter().map(|(name, value)| Ok((text(name), text(value))));
        let env = case.chain(own).collect::<Result<_>>()?;
        let options = contender.job_options().map(filled).collect::<Result<_>>()?;
        let tools = Tools { firstbyte: self.settings.firstbyte.clone(), options, env };
        let prepared = cache::prepare(&spec, &tools)?;
        if plan.state == CacheState::Cold {
            self.run_commands(std::slice::from_ref(&plan.start), words)?;
        }
        Ok(prepared)
    }

    fn launches(
        &self,
        contender: &Contender,
        destination: &Path,
        jobs: &[Words],
        limited: &RunGroups,
    ) -> Result<Vec<Launch>> {
        let wrong = |what| self.wrong(contender, what);
        let launch = |(job, words): (usize, &Words)| {
            let mut env = self.prepared.env.clone();
            for (name, value) in &contender.env {
                env.insert(name.into(), words.fill(value).map_err(wrong)?.into());
            }
            let command = contender.words(words).map_err(wrong)?;
            let cgroup_files = limited.group(job as u32).map(Group::procs).unwrap_or_default();
            let remote = (!contender.through.is_empty()).then(|| {
                (contender.through.clone(), destination.with_extension(format!("job-{job}.figures")))
            });
            Ok(Launch { command, env, working_directory: destination.to_owned(), cgroup_files, remote })
        };
        jobs.iter().enumerate().map(launch).collect()
    }

    /// Makes the next calls of the function start new environments if the calls must be cold.
    fn refresh(&self, contender: &Contender, words: &Words) -> Result<()> {
        if contender.invoke.is_none() || contender.cache.state != CacheState::Cold {
            return Ok(());
        }
        let mut command = contender.words(words).map_err(|what| self.wrong(contender, what))?;
        command.push("--refresh".into());
        run_command(&command, &self.prepared.env, self.settings.stop)
    }

    /// Returns the counters of the contender's link, or their sum if each job has its own link.
    fn counters(&self, contender: &Contender) -> Option<Counters> {
        let mut links = self.services(contender.link.as_ref()?);
        let first = links.next()?.counters()?;
        links.try_fold(first, |sum, link| {
            let own = link.counters()?;
            Some(Counters { bytes: sum.bytes + own.bytes, requests: sum.requests + own.requests })
        })
    }

    /// Returns the traffic on the contender's link since `before`. The last receiver may end before
    /// the link has counted its bytes, so a cold run waits up to [`COUNTERS_TIMEOUT`] for the
    /// `expected` bytes.
    fn traffic(&self, contender: &Contender, before: Counters, expected: Option<u64>) -> Option<Counters> {
        let until = Instant::now() + COUNTERS_TIMEOUT;
        let expected = expected.filter(|_| contender.cache.state == CacheState::Cold).unwrap_or(0);
        loop {
            let after = self.counters(contender)?;
            let crossed = Counters {
                bytes: after.bytes.saturating_sub(before.bytes),
                requests: after.requests.saturating_sub(before.requests),
            };
            if crossed.bytes >= expected || Instant::now() > until || (self.settings.stop)() {
                return Some(crossed);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Lists the services of this name: one, or one for each job.
    fn services<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a RunningService> {
        self.prepared.services.iter().filter(move |service| service.name() == name)
    }

    /// Checks that functions read as many bytes as the plan says.
    fn check_read(&self, contender: &Contender, run: &Run) -> std::result::Result<(), String> {
        let expected = self.bytes_of(contender).map_err(|error| error.to_string())?;
        match (contender.invoke.is_some(), run.bytes, expected) {
            (true, Some(bytes), Some(expected)) if bytes != expected => {
                Err(format!("the functions read {bytes} bytes of {expected}"))
            }
            _ => Ok(()),
        }
    }

    /// Checks the content that each job delivered. One check is enough if all jobs deliver to one
    /// place.
    fn check_all(
        &self,
        contender: &Contender,
        destination: &Path,
        jobs: &[Words],
    ) -> std::result::Result<(), String> {
        let texts = [&contender.check.same, &contender.check.at].into_iter().flatten();
        let for_each = texts.chain(&contender.check.command).any(|text| text.contains("{job}"));
        let jobs = if for_each { jobs } else { &jobs[..1] };
        jobs.iter().try_for_each(|words| self.check(contender, destination, words))
    }

    fn check(
        &self,
        contender: &Contender,
        destination: &Path,
        words: &Words,
    ) -> std::result::Result<(), String> {
        let check = &contender.check;
        if let Some(original) = &check.same {
            let found = check
                .at
                .as_deref()
                .map_or(Ok(destination.display().to_string()), |found| words.fill(found))?;
            check::check_same(Path::new(&words.fill(original)?), Path::new(&found))?;
        }
        run_command(&words.fill_all(&check.command)?, &self.prepared.env, self.settings.stop)
            .map_err(|error| error.to_string())
    }

    fn run_commands(&self, commands: &[Vec<String>], words: &Words) -> Result<()> {
        let wrong = |what| self.in_case(what);
        run_commands(commands, words, &self.prepared.env, self.settings, &wrong)
    }

    fn wrong(&self, contender: &Contender, what: String) -> Error {
        self.in_case(format!("contender {}: {what}", contender.name))
    }

    fn in_case(&self, what: String) -> Error {
        Error::in_case(self.plan, &self.case.name, what)
    }
}

/// Scales the noise to the run itself, because the meter also covers the start and end of
/// launchers.
fn scaled_to_run(noise: Noise, share: f64) -> Noise {
    let of = |seconds: Option<f64>| seconds.map(|seconds| seconds * share.min(1.0));
    Noise { other_cpu_seconds: of(noise.other_cpu_seconds), steal_seconds: of(noise.steal_seconds) }
}

/// Returns the origin of a contender's figures. Figures of a function on this machine are emulated.
fn basis(contender: &Contender, words: &Words) -> Basis {
    match contender.basis {
        Basis::Measured if contender.function.is_some() || is_on_local_host(contender, words) => {
            Basis::Emulated
        }
        basis => basis,
    }
}

/// True for calls of a function on this machine, whose host stands in for Lambda.
fn is_on_local_host(contender: &Contender, words: &Words) -> bool {
    let Some(invoke) = &contender.invoke else { return false };
    let endpoint = words.fill(&invoke.endpoint).unwrap_or_default();
    ["http://127.", "http://localhost", "http://[::1]"].iter().any(|start| endpoint.starts_with(start))
}

/// Adds the jobs' figures and outcomes to the record of their run.
fn record(run: &mut Run, contender: &Contender, ended: &[EndedCommand]) {
    for one in ended {
        let figures = &one.figures;
        run.seconds = run.seconds.max(figures.seconds);
        run.user_seconds += figures.user_seconds;
        run.system_seconds += figures.system_seconds;
        run.peak_memory_bytes = run.peak_memory_bytes.max(figures.peak_memory_bytes);
        if run.outcome == Outcome::Ok
            && let Some((outcome, what)) = failure(one)
        {
            (run.outcome, run.error) = (outcome, Some(what.chars().take(MAX_ERROR_CHARACTERS).collect()));
        }
    }
    if run.outcome != Outcome::Ok || contender.prints() == Prints::Nothing {
        run.jobs = jobs_of(ended, &[]);
        return;
    }
    let printed =
        ended.iter().map(|one| parse_printed(&one.output)).collect::<std::result::Result<Vec<_>, _>>();
    match printed {
        Ok(mut printed) => {
            if contender.invoke.is_some() {
                use_function_figures(run, &printed);
            }
            if contender.prints() == Prints::Receipt {
                printed.iter_mut().for_each(|one| one.metrics.retain(|name, _| name != "seconds"));
                run.limit = printed.iter_mut().find_map(|one| one.bound_by.take());
            }
            let metrics: Vec<_> = printed.into_iter().map(|one| one.metrics).collect();
            adopt_printed(run, ended, &metrics);
        }
        Err(what) => (run.outcome, run.error) = (Outcome::Failed, Some(what)),
    }
}

/// Replaces the callers' processor time and memory by those of the functions.
fn use_function_figures(run: &mut Run, printed: &[PrintedFigures]) {
    let of =
        |name: &str| printed.iter().filter_map(|one| one.metrics.get(name).copied()).collect::<Vec<f64>>();
    (run.user_seconds, run.system_seconds) = (of("cpu_seconds").iter().sum(), 0.0);
    run.peak_memory_bytes = of("peak_memory_bytes").into_iter().fold(0.0, f64::max) as u64;
}

/// Replaces figures measured from outside by those that the jobs printed.
fn adopt_printed(run: &mut Run, ended: &[EndedCommand], printed: &[BTreeMap<String, f64>]) {
    let mut values: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
    for (name, value) in printed.iter().flatten() {
        values.entry(name).or_default().push(*value);
    }
    let of = |name: &str| values.get(&name.to_owned());
    if let Some(seconds) = of("seconds") {
        run.seconds = seconds.iter().copied().fold(f64::MIN, f64::max);
    }
    let counts = [
        ("bytes", &mut run.bytes),
        ("wire_bytes", &mut run.wire_bytes),
        ("requests", &mut run.requests),
        ("retries", &mut run.retries),
        ("storage_bytes", &mut run.storage_bytes),
    ];
    for (name, place) in counts {
        if let Some(values) = of(name) {
            *place = Some(values.iter().sum::<f64>() as u64);
        }
    }
    let medians = values.iter().filter_map(|(name, values)| Some(((*name).clone(), median(values)?)));
    run.metrics = medians.collect();
    run.jobs = jobs_of(ended, printed);
}

/// Returns the jobs of a run; empty for a single job.
fn jobs_of(ended: &[EndedCommand], printed: &[BTreeMap<String, f64>]) -> Vec<JobFigures> {
    if ended.len() < 2 {
        return Vec::new();
    }
    let job = |(index, one): (usize, &EndedCommand)| {
        let Figures { seconds, user_seconds, system_seconds, peak_memory_bytes, .. } = one.figures;
        let metrics = printed.get(index).cloned().unwrap_or_default();
        let of = |name: &str| metrics.get(name).copied();
        JobFigures {
            seconds: of("seconds").unwrap_or(seconds),
            cpu_seconds: of("cpu_seconds").unwrap_or(user_seconds + system_seconds),
            peak_memory_bytes: of("peak_memory_bytes").map_or(peak_memory_bytes, |bytes| bytes as u64),
            bytes: metrics.get("bytes").map(|bytes| *bytes as u64),
            metrics,
        }
    };
    ended.iter().enumerate().map(job).collect()
}

/// Returns the outcome and message of a failed job; `None` for success.
fn failure(ended: &EndedCommand) -> Option<(Outcome, String)> {
    let figures = &ended.figures;
    let last = last_line(&ended.errors).unwrap_or("no message");
    if ended.killed {
        return Some((Outcome::TimedOut, format!("ended by the engine; its last line: {last}")));
    }
    if let Some(error) = &figures.error {
        return Some((Outcome::Failed, error.clone()));
    }
    match (figures.code, figures.signal) {
        (Some(0), _) => None,
        (Some(code), _) => Some((Outcome::Failed, format!("exit code {code}: {last}"))),
        (None, signal) => Some((Outcome::Failed, format!("ended by signal {}: {last}", signal.unwrap_or(0)))),
    }
}

/// Figures that a contender printed.
struct PrintedFigures {
    metrics: BTreeMap<String, f64>,
    /// Limiting resource, named by a receipt.
    bound_by: Option<String>,
}

/// Parses the JSON object on the last line of an output.
fn parse_printed(output: &str) -> std::result::Result<PrintedFigures, String> {
    let last = last_line(output).unwrap_or_default();
    let shown: String = last.chars().take(80).collect();
    match serde_json::from_str(last) {
        Ok(Value::Object(object)) => Ok(PrintedFigures {
            bound_by: object.get("bound_by").and_then(Value::as_str).map(str::to_owned),
            metrics: object.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?))).collect(),
        }),
        _ => Err(format!("its last line is no JSON object of metrics: {shown:?}")),
    }
}
