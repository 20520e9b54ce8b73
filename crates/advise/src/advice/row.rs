//! One option of a workload: its time with a range, its limit, its cost, and whether it can be had.
//! Called by [`advise`](super::advise) for the table, and by flips, suggestions and charts.

use serde::Serialize;

use super::Inputs;
use super::choice::{Choice, Method};
use super::cost::{once, usage};
use super::job::{Job, job, loadings};
use super::moved::Moved;
use crate::limits::{Limit, Phase, Predicted, Stage};
use crate::prices::Cost;
use crate::ranges;
use crate::workload::Workload;

/// Days of a month, in which jobs of a day are counted.
pub(super) const DAYS: f64 = 30.0;

/// An option of a workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Unique in the table.
    pub name: String,
    /// For people.
    pub title: String,
    /// Seconds until the program can read its first byte.
    pub ready: f64,
    /// Seconds of a job, from its start.
    pub seconds: f64,
    /// The range of `seconds`: it holds 8 of 10 graded measurements of this kind.
    pub low: f64,
    /// The upper end of the range.
    pub high: f64,
    /// The limit of the longest phase.
    pub limit: Limit,
    /// Each phase, with its own limit.
    pub phases: Vec<Phase>,
    /// Bytes that a job brings from the service.
    pub bytes: f64,
    /// Requests that a job sends to the service.
    pub requests: f64,
    /// Provisioned bytes; 0 where none are.
    pub capacity: f64,
    /// Cost of a job and of a month; lists the items without a price.
    pub cost: Cost,
    /// Dollars of a month with all its jobs; `None` if a price is missing.
    pub month: Option<f64>,
    /// Dollars that bringing the data in costs, once.
    pub once: Option<f64>,
    /// Dollars of the time that people wait in a month.
    pub waiting: Option<f64>,
    /// Ends within the deadline over its whole range; `None` without a deadline.
    pub meets: Option<bool>,
    /// The reason for which the option cannot be had; it is predicted all the same.
    pub refused: Option<String>,
    /// Conditions of the option: a limit of the account that has to be raised.
    pub conditions: Vec<String>,
    /// The measurement that overrides the model's figures; `None` without one.
    pub measured: Option<String>,
    /// Effects that the model does not cover.
    pub leaves_out: String,
    /// Costs that no price here covers.
    pub unbilled: String,
}

impl Row {
    /// Dollars of a month, with waiting people where their time has a value.
    #[must_use]
    pub fn total(&self) -> Option<f64> {
        Some(self.month? + self.waiting.unwrap_or(0.0))
    }
}

/// A predicted option: one way of computing beside reading, or the middle of both.
pub(super) struct Outcome {
    pub(super) seconds: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) ready: f64,
    pub(super) predicted: Predicted,
    pub(super) moved: Moved,
    pub(super) jobs: Vec<Job>,
}

/// Predicts one option.
pub(super) fn outcome(workload: &Workload, choice: &Choice<'_>, inputs: &Inputs<'_>) -> Outcome {
    let jobs: Vec<Job> =
        loadings(workload).iter().map(|beside| job(workload, choice, inputs.catalogue, *beside)).collect();
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
        .filter(|phase| phase.stage != Stage::Compute)
        .map(|phase| phase.seconds)
        .sum();
    let copied = loaded - jobs.last().map_or(0.0, |job| job.page.local);
    let ready = if choice.method == Method::Download { copied } else { predicted.first }.min(least);
    let moved = jobs.first().map_or_else(Moved::default, |job| job.moved);
    Outcome {
        seconds,
        low: widen(least, 1.0 / factor).max(stated),
        high: widen(most, factor).max(stated + 1e-6),
        ready,
        predicted,
        moved,
        jobs,
    }
}

/// Predicts one option and makes its row; `refused` and `conditions` are filled in by the checks.
pub(super) fn row(workload: &Workload, choice: &Choice<'_>, inputs: &Inputs<'_>) -> (Row, Outcome) {
    let outcome = outcome(workload, choice, inputs);
    let usage = usage(workload, choice, inputs.catalogue, &outcome.moved, outcome.seconds);
    let cost = inputs.prices.cost(&usage, &workload.region, inputs.day);
    let jobs = workload.jobs.per_day * DAYS;
    let known = cost.is_complete() && !cost.lines.is_empty();
    let row = Row {
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
        once: once(workload, choice, inputs),
        waiting: cost.waiting.map(|waiting| waiting * jobs),
        cost,
        meets: workload.goal.deadline.map(|deadline| outcome.high <= deadline),
        refused: None,
        conditions: Vec::new(),
        measured: choice.model.measured.clone(),
        leaves_out: choice.model.leaves_out.clone(),
        unbilled: choice.model.unbilled.clone(),
    };
    (row, outcome)
}

/// Dollars of a month with waiting; `None` if a price is missing.
pub(super) fn month(
    workload: &Workload,
    choice: &Choice<'_>,
    inputs: &Inputs<'_>,
    of: &Outcome,
) -> Option<f64> {
    let usage = usage(workload, choice, inputs.catalogue, &of.moved, of.seconds);
    let cost = inputs.prices.cost(&usage, &workload.region, inputs.day);
    let jobs = workload.jobs.per_day * DAYS;
    let known = cost.is_complete() && !cost.lines.is_empty();
    known.then(|| cost.month(jobs) + cost.waiting.unwrap_or(0.0) * jobs)
}
