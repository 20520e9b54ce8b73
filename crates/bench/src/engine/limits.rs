//! Limits of a measurement: the time, and the bytes and dollars of all its runs.
//!
//! Invariant: runs of a continued results file count like those of this process, so a repeated
//! command line stays within its limits. Called by the engine.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use firstbyte_advise::units::significant;
use firstbyte_location::units;

use super::Settings;
use crate::plan::{Case, Contender, Plan};
use crate::result::Run;
use crate::words::Words;

/// The time, bytes and dollars spent, and their limits.
pub(super) struct MeasurementLimits<'a> {
    began: Instant,
    bytes: u64,
    usd: f64,
    /// Names of case and contender whose first run is already counted. Some costs arise only once.
    counted: BTreeSet<(String, String)>,
    settings: &'a Settings<'a>,
}

/// Largest bytes and dollars that a run needs.
#[derive(Clone, Debug, Default)]
pub(super) struct RunNeed {
    /// Names of case and contender.
    name: (String, String),
    /// Bytes of the hydration that precedes the first run.
    hydration_bytes: u64,
    /// Bytes that the run moves or reads.
    bytes: u64,
    usd: f64,
}

impl<'a> MeasurementLimits<'a> {
    /// Counts the runs that the results already have.
    pub(super) fn after_runs(plan: &Plan, settings: &'a Settings<'a>, runs: &[Run]) -> Self {
        let (began, counted) = (Instant::now(), BTreeSet::new());
        let mut budget = Self { began, bytes: 0, usd: 0.0, counted, settings };
        for run in runs {
            let case = plan.cases.iter().find(|case| case.name == run.case);
            let contender = |case: &'_ &Case| {
                case.contenders.iter().find(|contender| contender.name == run.contender).cloned()
            };
            let Some((case, contender)) = case.and_then(|case| Some((case, contender(&case)?))) else {
                continue;
            };
            if contender.modelled.is_some() {
                continue;
            }
            let mut words = plan.words_of(case);
            settings.words.iter().for_each(|(name, value)| words.set(name, value));
            // Addresses of services are known only in a prepared case. Runs through services have
            // their own counts of bytes.
            let need = budget
                .need_of_next(case, &contender, &words)
                .unwrap_or_else(|_| budget.billed_need(case, &contender));
            budget.add(need, run);
        }
        budget
    }

    /// Returns the settings of the measurement.
    pub(super) fn settings(&self) -> &'a Settings<'a> {
        self.settings
    }

    /// Returns the need of the next run of a contender.
    ///
    /// # Errors
    /// The plan's bytes or jobs are malformed.
    pub(super) fn need_of_next(
        &self,
        case: &Case,
        contender: &Contender,
        words: &Words,
    ) -> Result<RunNeed, String> {
        let jobs = u64::from(contender.jobs(words)?);
        let size = |text: &str| {
            let size = units::parse_size(&words.fill(text)?).map_err(|error| format!("bytes: {error}"));
            Ok::<u64, String>(size?.saturating_mul(jobs))
        };
        let read = contender.bytes.as_deref().map_or(Ok(0), size)?;
        let billed = contender.billed.as_ref();
        let fetched = billed.map(|billed| billed.bytes.as_str()).filter(|text| !text.is_empty());
        let fetched = fetched.map_or(Ok(0), size)?;
        let need = self.billed_need(case, contender);
        Ok(match billed.is_some_and(|billed| billed.once) {
            true if self.counted.contains(&need.name) => RunNeed { bytes: read, ..need },
            true => RunNeed { hydration_bytes: fetched, bytes: read, ..need },
            false => RunNeed { bytes: read.max(fetched), ..need },
        })
    }

    fn billed_need(&self, case: &Case, contender: &Contender) -> RunNeed {
        let name = (case.name.clone(), contender.name.clone());
        let usd = self.settings.costs.of_run(&name.0, &name.1, !self.counted.contains(&name));
        RunNeed { name, hydration_bytes: 0, bytes: 0, usd }
    }

    /// Returns the limit that a run would exceed; `None` if it may begin.
    pub(super) fn refuses(&self, next: &RunNeed) -> Option<String> {
        let (bytes, usd) = (next.hydration_bytes.saturating_add(next.bytes), next.usd);
        let spent = self.began.elapsed().as_secs_f64();
        if self.settings.max_seconds.is_some_and(|most| spent >= most) {
            return Some(format!("--max-time: {spent:.0} s are over"));
        }
        if let Some(most) = self.settings.max_usd.filter(|most| self.usd + usd > *most) {
            let [most, spent, next] = [most, self.usd, usd].map(significant);
            return Some(format!(
                "--budget {most} USD: the runs so far cost {spent} by list prices, the next one {next}"
            ));
        }
        let most = self.settings.max_bytes.filter(|most| self.bytes.saturating_add(bytes) > *most)?;
        Some(format!("--max-bytes {most}: {} bytes were moved, the next run needs {bytes}", self.bytes))
    }

    /// Adds a run that has ended. The bytes on the wire are exact if they were counted. Otherwise
    /// the larger of the estimate and of the bytes that the jobs report counts.
    pub(super) fn add(&mut self, need: RunNeed, run: &Run) {
        let moved = run.wire_bytes.unwrap_or_else(|| need.bytes.max(run.bytes.unwrap_or(0)));
        self.bytes = self.bytes.saturating_add(need.hydration_bytes).saturating_add(moved);
        self.usd += need.usd;
        self.counted.insert(need.name);
    }

    /// Returns the timeout of a run: `longest`, or the remaining time of the measurement if that is
    /// less.
    pub(super) fn time_for(&self, longest: f64) -> Duration {
        let left = self.settings.max_seconds.map(|most| most - self.began.elapsed().as_secs_f64());
        Duration::from_secs_f64(left.map_or(longest, |left| left.clamp(0.0, longest)))
    }
}
