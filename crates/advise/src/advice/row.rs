//! Simulates one option and makes its row of the table: time, cost, limiting resource, and whether
//! it meets the deadline. Times and costs come from 32 draws of the uncertain numbers. Called by
//! [`advise`](super::advise) for the table, and by other parts of the advice to compare variants.

use serde::Serialize;

use super::Inputs;
use super::choice::Choice;
use super::scene::{Scene, beside, scene};
use super::usage::usage;
use crate::models::Draw;
use crate::prices::Cost;
use crate::simulator::{Limit, Span, Stage};
use crate::workload::Workload;

/// Draws of the uncertain numbers for each option.
const DRAWS: u64 = 32;

/// Days of a month, in which jobs of a day are counted.
pub(super) const DAYS: f64 = 30.0;

/// An option, simulated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Unique in the table.
    pub name: String,
    /// For people.
    pub title: String,
    /// Seconds until the program can read its first byte, median.
    pub ready: f64,
    /// Seconds of a job, from its start: of 100 jobs 5 take at most this.
    pub p5: f64,
    /// The median.
    pub p50: f64,
    /// Of 100 jobs 95 take at most this.
    pub p95: f64,
    /// The resource that holds back the longest phase of the median job.
    pub limit: Limit,
    /// Each phase of a median job, with its own limit.
    pub phases: Vec<Span>,
    /// Bytes that a job brings from the service.
    pub bytes: f64,
    /// Cost of the median job and of a month; lists the items without a price.
    pub cost: Cost,
    /// Dollars of a month with all its jobs; `None` if a price is missing.
    pub month: Option<f64>,
    /// Dollars of a month at `p5` and at `p95`.
    pub month_range: Option<(f64, f64)>,
    /// Dollars of the time that people wait in a month.
    pub waiting: Option<f64>,
    /// Meets the deadline in 95 of 100 jobs; `None` without a deadline.
    pub meets: Option<bool>,
    /// The reason for which the option cannot be had; it is simulated all the same.
    pub refused: Option<String>,
    /// The measurement that overrides the model's numbers; `None` without one.
    pub measured: Option<String>,
    /// Effects that the model does not cover.
    pub leaves_out: String,
}

/// Simulates one option.
pub(super) fn row(workload: &Workload, choice: &Choice<'_>, inputs: &Inputs<'_>) -> Row {
    let mut runs: Vec<Run> = (0..DRAWS).map(|index| run(workload, choice, inputs, index)).collect();
    runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let at = |part: f64| &runs[((runs.len() - 1) as f64 * part).round() as usize];
    let (fast, middle, slow) = (at(0.05), at(0.5), at(0.95));
    let cost_of = |run: &Run| {
        let usage = usage(workload, choice, inputs.catalogue, &run.scene.moved, run.seconds);
        inputs.prices.cost(&usage, &workload.region, inputs.day)
    };
    let cost = cost_of(middle);
    let jobs = workload.jobs.per_day * DAYS;
    let complete = cost.is_complete();
    let longest = middle.spans.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
    Row {
        name: choice.name(),
        title: choice.title(),
        ready: middle.ready,
        p5: fast.seconds,
        p50: middle.seconds,
        p95: slow.seconds,
        limit: longest.map_or(Limit::Start, |span| span.limit),
        phases: middle.spans.clone(),
        bytes: middle.scene.moved.bytes,
        month: complete.then(|| cost.month(jobs)),
        month_range: complete.then(|| (cost_of(fast).month(jobs), cost_of(slow).month(jobs))),
        waiting: cost.waiting.map(|waiting| waiting * jobs),
        cost,
        meets: workload.goal.deadline.map(|deadline| slow.seconds <= deadline),
        refused: choice.refused.clone(),
        measured: choice.model.measured.clone(),
        leaves_out: choice.model.leaves_out.clone(),
    }
}

/// One simulated job.
pub(super) struct Run {
    pub(super) scene: Scene,
    pub(super) spans: Vec<Span>,
    pub(super) seconds: f64,
    pub(super) ready: f64,
}

/// Simulates one draw of an option.
pub(super) fn run(workload: &Workload, choice: &Choice<'_>, inputs: &Inputs<'_>, index: u64) -> Run {
    let beside = beside(workload, index);
    let scene = scene(workload, choice, inputs.catalogue, &mut Draw::new(index), beside);
    let spans = scene.system.run().into_iter().next().unwrap_or_default();
    let seconds = spans.iter().map(|span| span.seconds).sum();
    let loaded: f64 = spans.iter().filter(|span| span.stage != Stage::Run).map(|span| span.seconds).sum();
    let ready = match choice.method {
        super::choice::Method::Download => loaded,
        _ => scene.open,
    };
    Run { scene, spans, seconds, ready }
}

/// Seconds that 95 of 100 jobs take at most.
pub(super) fn slow_seconds(workload: &Workload, choice: &Choice<'_>, inputs: &Inputs<'_>) -> f64 {
    let mut seconds: Vec<f64> =
        (0..DRAWS).map(|index| run(workload, choice, inputs, index).seconds).collect();
    seconds.sort_by(f64::total_cmp);
    seconds[((seconds.len() - 1) as f64 * 0.95).round() as usize]
}

impl Row {
    /// Dollars of a month, with waiting people where their time has a value.
    #[must_use]
    pub fn total(&self) -> Option<f64> {
        Some(self.month? + self.waiting.unwrap_or(0.0))
    }

    /// The range of [`Row::total`].
    #[must_use]
    pub fn total_range(&self) -> Option<(f64, f64)> {
        let (low, high) = self.month_range?;
        let waiting = self.waiting.unwrap_or(0.0) / self.p50.max(1e-12);
        Some((low + waiting * self.p5, high + waiting * self.p95))
    }
}
