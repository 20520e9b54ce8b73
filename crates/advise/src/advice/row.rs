//! The row of one option: its time with a range, its limit, its cost, and whether it is feasible.
//! Called by [`advise`](super::advise) for the table, and by the modules that find flips,
//! suggestions and charts.

use serde::Serialize;

use super::Inputs;
use super::choice::{Choice, ReadMethod};
use super::cost::{loading_cost, priced, usage};
use super::job::{AdvisedJob, job, loadings};
use super::moved::MovedAmounts;
use crate::limits::{JobPhase, Limit, PhasePurpose, Predicted};
use crate::prices::Cost;
use crate::ranges;
use crate::workload::Workload;

/// Number of days per month on which jobs run.
pub(super) const DAYS: f64 = 30.0;

/// A predicted option for a workload, as a row of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AdviceRow {
    /// Name, unique in the table.
    pub name: String,
    /// Name for display.
    pub title: String,
    /// Seconds until the program can read its first byte.
    pub ready: f64,
    /// Duration of a job from its start, in seconds.
    pub seconds: f64,
    /// Lower end of the range of `seconds`. The widths of ranges come from [`crate::ranges`],
    /// unless a measurement has given the model its own.
    pub low: f64,
    /// Upper end of the range.
    pub high: f64,
    /// The limit of the longest phase of a job.
    pub limit: Limit,
    /// Each phase, with its own limit.
    pub phases: Vec<JobPhase>,
    /// Bytes that a job fetches from the service.
    pub bytes: f64,
    /// Requests that a job sends to the service.
    pub requests: f64,
    /// Provisioned bytes; 0 if the service is not sold by capacity.
    pub capacity: f64,
    /// Cost per job and per month, and the items that have no price.
    pub cost: Cost,
    /// Dollars per month with all jobs; `None` if a price is missing.
    pub month: Option<f64>,
    /// Dollars for loading the data once; `None` if loading costs nothing or its price is not
    /// known.
    pub once: Option<f64>,
    /// Dollars per month for the waiting time of people; `None` if the workload does not state what
    /// their time is worth.
    pub waiting: Option<f64>,
    /// Whether the whole range of `seconds` is within the deadline; `None` without a deadline.
    pub meets: Option<bool>,
    /// The reason why the option is not feasible; `None` if it is. An infeasible option is
    /// predicted too.
    pub refused: Option<String>,
    /// True if one job could use the option, and only the number or the length of the jobs
    /// refuses it.
    #[serde(skip)]
    pub overloaded: bool,
    /// Conditions of the option, such as a raised account limit.
    pub conditions: Vec<String>,
    /// The measurement that overrides the model's figures; `None` without one.
    pub measured: Option<String>,
    /// Effects that the model does not cover.
    pub leaves_out: String,
    /// Costs that the catalogue's prices do not cover.
    pub unbilled: String,
}

impl AdviceRow {
    /// Returns dollars per month, including the value of people's waiting time if the workload
    /// states one; `None` if a price is missing.
    #[must_use]
    pub fn total(&self) -> Option<f64> {
        Some(self.month? + self.waiting.unwrap_or(0.0))
    }
}

/// The prediction for an option. If the workload leaves open whether reading and computing overlap,
/// the time is the mean of both cases.
pub(super) struct PredictedOutcome {
    pub(super) seconds: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) ready: f64,
    pub(super) predicted: Predicted,
    pub(super) moved: MovedAmounts,
    pub(super) jobs: Vec<AdvisedJob>,
}

/// Predicts the time of one option.
pub(super) fn outcome(workload: &Workload, choice: &Choice<'_>, inputs: &Inputs<'_>) -> PredictedOutcome {
    let jobs: Vec<AdvisedJob> = loadings(workload)
        .iter()
        .map(|computes_while_reading| job(workload, choice, inputs.catalogue, *computes_while_reading))
        .collect();
    let all: Vec<Predicted> = jobs.iter().map(|job| job.page.predict()).collect();
    let times: Vec<f64> = all.iter().map(Predicted::seconds).collect();
    let seconds = times.iter().sum::<f64>() / times.len() as f64;
    let (least, most) =
        times.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), time| (low.min(*time), high.max(*time)));
    let predicted = all.into_iter().next_back().unwrap_or(Predicted { phases: Vec::new(), first: 0.0 });
    let factor = choice.model.spread.unwrap_or_else(|| ranges::factor(predicted.limit()));
    let stated = workload.compute.startup;
    let widen = |time: f64, factor: f64| stated + (time - stated).max(0.0) * factor;
    let loaded: f64 = predicted
        .phases
        .iter()
        .filter(|phase| phase.stage != PhasePurpose::Compute)
        .map(|phase| phase.seconds)
        .sum();
    let copied = loaded - jobs.last().map_or(0.0, |job| job.page.local);
    let ready = if choice.method == ReadMethod::Download { copied } else { predicted.first }.min(least);
    let moved = jobs.first().map_or_else(MovedAmounts::default, |job| job.moved);
    PredictedOutcome {
        seconds,
        low: widen(least, 1.0 / factor).max(stated),
        high: widen(most, factor).max(stated + 1e-6),
        ready,
        predicted,
        moved,
        jobs,
    }
}

/// Predicts one option and makes its row. The later checks set `refused` and `conditions`.
pub(super) fn row(
    workload: &Workload,
    choice: &Choice<'_>,
    inputs: &Inputs<'_>,
) -> (AdviceRow, PredictedOutcome) {
    let outcome = outcome(workload, choice, inputs);
    let usage = usage(workload, choice, inputs.catalogue, &outcome.moved, outcome.seconds);
    let cost = priced(workload, choice, inputs, &usage);
    let jobs = workload.jobs.per_day * DAYS;
    let known = cost.is_complete() && !cost.lines.is_empty();
    let row = AdviceRow {
        name: choice.name(),
        title: choice.title(),
        ready: outcome.ready,
        seconds: outcome.seconds,
        low: outcome.low,
        high: outcome.high,
        limit: outcome.predicted.limit(),
        phases: outcome.predicted.phases.clone(),
        bytes: outcome.moved.bytes,
        requests: outcome.moved.requests,
        capacity: choice.capacity,
        month: known.then(|| cost.month(jobs)),
        once: loading_cost(workload, choice, inputs),
        waiting: cost.waiting.map(|waiting| waiting * jobs),
        cost,
        meets: workload.goal.deadline.map(|deadline| outcome.high <= deadline),
        refused: None,
        overloaded: false,
        conditions: Vec::new(),
        measured: choice.model.measured.clone(),
        leaves_out: choice.model.leaves_out.clone(),
        unbilled: choice.model.unbilled.clone(),
    };
    (row, outcome)
}

/// Returns dollars per month, including the value of waiting time; `None` if a price is missing.
pub(super) fn month_cost(
    workload: &Workload,
    choice: &Choice<'_>,
    inputs: &Inputs<'_>,
    of: &PredictedOutcome,
) -> Option<f64> {
    let usage = usage(workload, choice, inputs.catalogue, &of.moved, of.seconds);
    let cost = priced(workload, choice, inputs, &usage);
    let jobs = workload.jobs.per_day * DAYS;
    let known = cost.is_complete() && !cost.lines.is_empty();
    known.then(|| cost.month(jobs) + cost.waiting.unwrap_or(0.0) * jobs)
}
