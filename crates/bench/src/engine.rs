//! Executes a plan: prepares each case, runs its contenders in turns, and writes each run to the
//! results when it ends.
//!
//! Absolute times drift, because of other tenants, processor frequency and caches. Contenders
//! therefore take turns, in another order each round, and only runs of one case are compared. Round
//! 0 warms page cache, connections and code for all contenders, and is kept out of summaries. A
//! case may have no round 0. A contender that fails twice in a row is skipped for the rest of its
//! case. Apart from the time limit of a case, measured times do not affect which runs are made, so
//! a measurement that is continued after an interruption ends with the same set of runs.

mod function;
mod limits;
mod one_run;
mod outlook;
mod prepare;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::result::{self, ContenderLine, Header, Outcome, Results, Run, SCHEMA};
use crate::statistics::summarise;
use sha2::{Digest, Sha256};

use crate::cost::Costs;
use crate::error::{Error, Result};
use crate::plan::{Case, Contender, Invoke, Plan};
use crate::results::Writer;
use crate::services;
use crate::stage::MediumStages;
use limits::MeasurementLimits;
use one_run::CaseRun;
use outlook::Outlook;

/// Failures in a row after which a contender is skipped for the rest of its case.
const MAX_FAILURES: usize = 2;
/// Smallest number of measured rounds of a case, even if its time is over.
const MIN_ROUNDS: u32 = 3;
/// Interval at which a wait checks whether the user has stopped the measurement.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Settings that the caller supplies.
pub struct Settings<'a> {
    /// The binary that replaces `{firstbyte}`.
    pub firstbyte: PathBuf,
    /// Environment of all processes, without variables that would redirect a tool.
    pub env: BTreeMap<OsString, OsString>,
    /// Directory on a disk for data and destinations whose place is `disk`.
    pub disk: PathBuf,
    /// Additional placeholders.
    pub words: BTreeMap<String, String>,
    /// Number of rounds; `None` for the plan's.
    pub rounds: Option<u32>,
    /// Limit on the bytes that all runs together read or move.
    pub max_bytes: Option<u64>,
    /// Limit on the dollars of all runs together, as estimated by `costs`.
    pub max_usd: Option<f64>,
    /// Estimated costs of the runs.
    pub costs: Costs,
    /// Limit on the time of the measurement, in seconds.
    pub max_seconds: Option<f64>,
    /// True if data on the disk stays when the measurement is complete. Destinations of runs are
    /// still removed, unless their case keeps them.
    pub keep: bool,
    /// Returns true once the user has stopped the measurement.
    pub stop: &'a dyn Fn() -> bool,
}

impl Settings<'_> {
    /// True if this program is on the `PATH` of the environment.
    fn has_program(&self, name: &str) -> bool {
        let path = self.env.get(std::ffi::OsStr::new("PATH")).cloned().unwrap_or_default();
        services::find_program(name, &path.to_string_lossy()).is_some()
    }
}

/// Progress of a measurement.
#[derive(Debug)]
pub enum Event<'a> {
    /// A case begins.
    Case(&'a Case),
    /// A run ended.
    Run(&'a Run),
    /// A case is complete. Carries all results so far.
    Complete(&'a Case, &'a Results),
    /// A round ended. Carries the estimated seconds until the end.
    Left(f64),
    /// A note for the user.
    Note(&'a str),
    /// Data stays on the disk, at this path.
    Kept(&'a Path),
}

/// Reason for the end of a measurement.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ending {
    /// All cases are complete.
    Complete,
    /// The next run would exceed this limit, or the time is over.
    Limit(String),
    /// The user stopped the measurement. Completed runs are written.
    Interrupted,
}

/// Makes the header of the results of a plan.
#[must_use]
pub fn header(
    plan: &Plan,
    settings: &Settings<'_>,
    command: Vec<String>,
    machine: result::Machine,
) -> Header {
    let cases = plan.cases.iter().map(|case| case_header(case, plan, settings)).collect();
    let mut digest = Sha256::new();
    digest.update(serde_json::to_vec(plan).unwrap_or_default());
    digest.update(format!("{:?}", settings.rounds));
    Header {
        schema: SCHEMA,
        firstbyte: env!("CARGO_PKG_VERSION").to_owned(),
        command,
        plan_digest: hex::encode(digest.finalize()),
        started: one_run::now(),
        machine,
        cases,
        tables: plan.tables.clone(),
    }
}

fn case_header(case: &Case, plan: &Plan, settings: &Settings<'_>) -> result::Case {
    let line = |contender: &Contender| ContenderLine {
        name: contender.name.clone(),
        command: repeatable_command(contender),
        workload: contender.workload.clone(),
        target: contender.target.clone(),
        parameters: contender.parameters.clone(),
        found: contender.found,
    };
    result::Case {
        name: case.name.clone(),
        title: case.title.clone(),
        notes: case.notes.clone(),
        subject: case.subject().to_owned(),
        contenders: case.contenders.iter().map(line).collect(),
        goals: case.goals.clone(),
        rounds: settings.rounds.unwrap_or(case.rounds),
        stand_ins: stand_ins(case, plan),
    }
}

/// Lists the stand-ins of a case with their numbers: services, and emulated functions.
fn stand_ins(case: &Case, plan: &Plan) -> Vec<String> {
    let words = plan.words_of(case);
    let services = plan.services_of(case).filter_map(|service| {
        let text = service.stand_in.as_ref()?;
        Some(words.fill(text).unwrap_or_else(|_| text.clone()))
    });
    let functions = case
        .contenders
        .iter()
        .filter_map(|contender| Some(function::size_of(contender, &words).ok()??.to_string()));
    let mut all: Vec<String> = Vec::new();
    for stand_in in services.chain(functions) {
        if !all.contains(&stand_in) {
            all.push(stand_in);
        }
    }
    all
}

/// Checks that the machine has room for the functions of every case.
fn check_functions(plan: &Plan) -> Result<()> {
    for case in &plan.cases {
        let words = plan.words_of(case);
        for contender in &case.contenders {
            function::check(contender, &words).map_err(contender_error(plan, case, contender))?;
        }
    }
    Ok(())
}

/// Returns a function that makes an error for a wrong definition of a contender.
fn contender_error(plan: &Plan, case: &Case, contender: &Contender) -> impl Fn(String) -> Error {
    move |what| Error::in_case(&plan.name, &case.name, format!("contender {}: {what}", contender.name))
}

/// Formats the command line of a contender so that a reader can repeat it.
fn repeatable_command(contender: &Contender) -> String {
    let quoted = |word: &String| match word.contains([' ', '*', '"', '\'']) {
        true => format!("'{}'", word.replace('\'', "'\\''")),
        false => word.clone(),
    };
    let job = contender.job.as_ref().map(|job| format!("firstbyte bench job '{job}'"));
    let call = |invoke: &Invoke| format!("a call of lambda:{} with '{}'", invoke.function, invoke.event);
    let job = job.or_else(|| contender.invoke.as_ref().map(call));
    let model = contender.modelled.as_ref().map(|modelled| format!("the model of {}", modelled.option));
    let words =
        job.or(model).unwrap_or_else(|| contender.command.iter().map(quoted).collect::<Vec<_>>().join(" "));
    words.replace("{firstbyte}", "firstbyte").replace("{out}", "$OUT")
}

/// Executes a plan. Runs that `writer` already has are not repeated.
///
/// # Errors
/// The measurement cannot continue: see [`Error`]. A case that cannot be prepared is an error too.
pub fn execute(
    plan: &Plan,
    settings: &Settings<'_>,
    writer: &mut Writer,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Ending> {
    check_functions(plan)?;
    let mut budget = MeasurementLimits::after_runs(plan, settings, &writer.results().runs);
    let mut stage = MediumStages::new(&settings.disk)?;
    let mut outlook = Outlook::new();
    let cases: Vec<Case> = plan.cases.iter().map(|case| rounds_of(case, settings)).collect();
    let mut cases: VecDeque<Case> = cases.into_iter().filter(|case| !is_complete(case, writer)).collect();
    while let Some(case) = cases.pop_front() {
        let case = &case;
        let later: &[Case] = cases.make_contiguous();
        watch(Event::Case(case));
        match run_case(plan, (case, later), &mut stage, (&mut budget, &mut outlook), writer, watch) {
            Ok(None) => watch(Event::Complete(case, writer.results())),
            Ok(Some(ending)) => return Ok(ending),
            Err(Error::Interrupted) => return Ok(Ending::Interrupted),
            Err(error) => return Err(error),
        }
    }
    if settings.keep {
        watch(Event::Kept(stage.keep()));
    }
    Ok(Ending::Complete)
}

fn rounds_of(case: &Case, settings: &Settings<'_>) -> Case {
    Case { rounds: settings.rounds.unwrap_or(case.rounds), ..case.clone() }
}

/// True if every contender has its last round, or is skipped after its failures.
fn is_complete(case: &Case, writer: &Writer) -> bool {
    case.contenders.iter().all(|contender| {
        let rounds = writer.rounds_of(&case.name, &contender.name);
        let computed = contender.modelled.is_some() && !rounds.is_empty();
        computed || rounds.contains(&case.rounds) || is_skipped(writer, case, contender)
    })
}

/// True if the last [`MAX_FAILURES`] runs of a contender failed. One failure is enough for a
/// program that is a contender only because it was found on the `PATH`.
fn is_skipped(writer: &Writer, case: &Case, contender: &Contender) -> bool {
    let failures = if contender.found { 1 } else { MAX_FAILURES };
    let of = |run: &&Run| run.case == case.name && run.contender == contender.name;
    let last: Vec<&Run> = writer.results().runs.iter().rev().filter(of).take(failures).collect();
    last.len() == failures && last.iter().all(|run| run.outcome != Outcome::Ok)
}

fn run_case(
    plan: &Plan,
    (case, later): (&Case, &[Case]),
    stage: &mut MediumStages,
    (budget, outlook): (&mut MeasurementLimits<'_>, &mut Outlook),
    writer: &mut Writer,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Option<Ending>> {
    let settings = budget.settings();
    compute_modelled(plan, case, settings, writer, watch)?;
    let prepared = prepare::prepare(plan, case, stage, settings)?;
    let case_run = CaseRun { plan: &plan.name, case, prepared: &prepared, settings };
    let missing = missing_programs(case, &prepared, settings);
    for contender in &case.contenders {
        if let Some(program) = missing.get(&contender.name) {
            let package = contender.needed_program().map(|(_, package)| format!("the package {package}"));
            let install = Some(contender.install.clone()).filter(|install| !install.is_empty());
            let advice = install.or(package).map_or(String::new(), |what| format!("; install it: {what}"));
            watch(Event::Note(&format!("{}: left out, {program} is not installed{advice}", contender.name)));
        }
    }
    sync_disks(settings)?;
    let began = Instant::now();
    let mut positions = BTreeMap::new();
    for round in u32::from(!case.warm_up)..=case.rounds {
        if round > MIN_ROUNDS && began.elapsed().as_secs_f64() > case.seconds {
            watch(Event::Note(&format!("ended after {} rounds: {} s are over", round - 1, case.seconds)));
            break;
        }
        for contender in order_of_round(&case.contenders, round) {
            if contender.modelled.is_some() {
                continue;
            }
            let position = positions.entry(round).or_insert(0_u32);
            let done: BTreeSet<u32> = writer.rounds_of(&case.name, &contender.name);
            if missing.contains_key(&contender.name)
                || done.contains(&round)
                || is_skipped(writer, case, contender)
            {
                *position += u32::from(done.contains(&round));
                continue;
            }
            let words = &prepared.words;
            let next = budget
                .need_of_next(case, contender, words)
                .map_err(contender_error(plan, case, contender))?;
            if let Some(why) = budget.refuses(&next) {
                return Ok(Some(Ending::Limit(why)));
            }
            let mut run = case_run.run(contender, stage, budget.time_for(case.timeout))?;
            (run.round, run.position) = (round, *position);
            *position += 1;
            budget.add(next, &run);
            outlook.count_run();
            watch(Event::Run(&run));
            if contender.found && run.outcome != Outcome::Ok {
                watch(Event::Note(&format!("{}: left out, as it fails here", contender.name)));
            }
            writer.write(run)?;
        }
        watch(Event::Left(outlook.remaining_seconds(case, round + 1, began.elapsed().as_secs_f64(), later)));
    }
    Ok(None)
}

/// Writes prepared data to the disks, so that the kernel does not write it during the first runs. A
/// sync cannot be interrupted, so another thread makes it.
fn sync_disks(settings: &Settings<'_>) -> Result<()> {
    let (done, written) = mpsc::channel();
    std::thread::spawn(move || {
        rustix::fs::sync();
        let _ = done.send(());
    });
    while written.recv_timeout(STOP_CHECK_INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout) {
        if (settings.stop)() {
            return Err(Error::Interrupted);
        }
    }
    Ok(())
}

/// Computes the modelled contenders of a case, before the case is measured.
fn compute_modelled(
    plan: &Plan,
    case: &Case,
    settings: &Settings<'_>,
    writer: &mut Writer,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<()> {
    let mut words = plan.words_of(case);
    settings.words.iter().for_each(|(name, value)| words.set(name, value));
    for contender in &case.contenders {
        let Some(modelled) = &contender.modelled else { continue };
        if !writer.rounds_of(&case.name, &contender.name).is_empty() {
            continue;
        }
        let wrong = contender_error(plan, case, contender);
        let mut words = words.clone();
        for (name, of) in &modelled.measured {
            let of = words.fill(of).map_err(&wrong)?;
            words.set(name, measured_median(&of, writer).map_err(&wrong)?);
        }
        let run = modelled.run(&words, &one_run::now()).map_err(&wrong)?;
        let run = Run { case: case.name.clone(), contender: contender.name.clone(), ..run };
        watch(Event::Run(&run));
        writer.write(run)?;
    }
    Ok(())
}

/// Returns the median seconds of an earlier measurement, named as `CASE / CONTENDER`.
fn measured_median(of: &str, writer: &Writer) -> std::result::Result<f64, String> {
    let (case, contender) = of.split_once(" / ").ok_or_else(|| format!("{of:?} is not CASE / CONTENDER"))?;
    let seconds: Vec<f64> = writer.results().counted(case, contender).map(|run| run.seconds).collect();
    let summary = summarise(&seconds);
    summary.map(|summary| summary.median).ok_or_else(|| {
        format!("it needs what {contender:?} of the case {case:?} measures: run that case too, before it")
    })
}

/// Returns the contenders in the order of a round. Each round has another order, the same in every
/// measurement. The order affects times: the host of a virtual machine may take back idle memory.
fn order_of_round(contenders: &[Contender], round: u32) -> Vec<&Contender> {
    let mut order: Vec<&Contender> = contenders.iter().collect();
    fastrand::Rng::with_seed(u64::from(round)).shuffle(&mut order);
    order
}

/// Returns the optional contenders that lack a program, each with the program's name.
fn missing_programs(
    case: &Case,
    prepared: &prepare::PreparedCase,
    settings: &Settings<'_>,
) -> BTreeMap<String, String> {
    let missing = |contender: &Contender| {
        let own = contender.command.first().map(|program| prepared.words.fill(program).unwrap_or_default());
        let of_job = contender.needed_program().map(|(program, _)| program.to_owned());
        let mut programs = own.into_iter().chain(of_job).chain(contender.requires.iter().cloned());
        programs.find(|program| !settings.has_program(program))
    };
    let optional = case.contenders.iter().filter(|contender| contender.optional);
    let named = |contender: &Contender| Some((contender.name.clone(), missing(contender)?));
    optional.filter_map(named).collect()
}
