//! Summarises the runs of a case for each contender: median figures, the ratio to the case's
//! subject, fairness between parallel jobs, and outliers. Called for reports, and by `goal`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::bootstrap::{Ratio, ratio};
use super::fairness::fairness;
use super::quantile::median;
use super::summary::{Summary, summarise};
use crate::result::{Basis, Case, Outcome, Results, Run};

/// The summary of one contender's runs of a case.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Contender {
    /// Name.
    pub name: String,
    /// Origin of the figures, the least certain one of the runs.
    pub basis: Basis,
    /// Wall time in seconds; `None` if no run is in the summary.
    pub seconds: Option<Summary>,
    /// Median time divided by that of the case's subject; `None` for the subject itself.
    pub ratio: Option<Ratio>,
    /// Median processor time in user mode, in seconds.
    pub user_seconds: Option<f64>,
    /// Median processor time in the kernel, in seconds.
    pub system_seconds: Option<f64>,
    /// Largest resident set of any run in the summary, in bytes.
    pub peak_memory_bytes: Option<f64>,
    /// Median bytes of data.
    pub bytes: Option<f64>,
    /// Median bytes over the network.
    pub wire_bytes: Option<f64>,
    /// Median number of requests.
    pub requests: Option<f64>,
    /// Median number of repeated requests.
    pub retries: Option<f64>,
    /// Median passes over the data: bytes from storage per byte of data.
    pub passes: Option<f64>,
    /// Figures that the contender printed itself.
    pub metrics: BTreeMap<String, Summary>,
    /// Median of Jain's index over runs of parallel jobs.
    pub fairness: Option<f64>,
    /// Median of the smallest share of a job; 1 is an equal share.
    pub least_share: Option<f64>,
    /// Median of the largest share of a job.
    pub most_share: Option<f64>,
    /// Number of measured runs that succeeded but are marked, and therefore kept out.
    pub marked: usize,
    /// Number of measured runs that failed, timed out or delivered wrong content.
    pub failed: usize,
    /// Indices into `Results::runs` of outliers in time.
    pub outliers: Vec<usize>,
}

impl Contender {
    /// Returns the median bytes divided by the median time; `None` if no run reports its bytes.
    #[must_use]
    pub fn bytes_per_second(&self) -> Option<f64> {
        let (bytes, seconds) = self.bytes.zip(self.seconds.as_ref().map(|time| time.median))?;
        (bytes > 0.0 && seconds > 0.0).then(|| bytes / seconds)
    }

    /// Returns the median operations per second, as reported by the runs, or computed from the
    /// number of operations and the time.
    #[must_use]
    pub fn operations_per_second(&self) -> Option<f64> {
        let median = |name: &str| self.metrics.get(name).map(|found| found.median);
        let by_number = || {
            let (count, time) = median("operations").zip(self.seconds.as_ref().map(|time| time.median))?;
            (count > 1.0 && time > 0.0).then(|| count / time)
        };
        median("operations_per_second").or_else(by_number)
    }
}

/// Returns a figure of a run by its name: one of [`Run::figure`], or `fairness`, `least_share` and
/// `most_share` of its parallel jobs. `None` if it is missing or not finite.
#[must_use]
pub fn figure(run: &Run, metric: &str) -> Option<f64> {
    let value = match metric {
        "fairness" => fairness(&run.jobs).map(|found| found.index),
        "least_share" => fairness(&run.jobs).map(|found| found.least_share),
        "most_share" => fairness(&run.jobs).map(|found| found.most_share),
        name => run.figure(name),
    };
    value.filter(|value| value.is_finite())
}

/// Returns a figure of all runs of a contender in the summary, in order, each with the run's index
/// in `results.runs`.
#[must_use]
pub fn samples(results: &Results, case: &str, contender: &str, metric: &str) -> Vec<(usize, f64)> {
    let runs = results.runs.iter().enumerate();
    runs.filter(|(_, run)| run.case == case && run.contender == contender && run.is_in_summary())
        .filter_map(|(index, run)| Some((index, figure(run, metric)?)))
        .collect()
}

/// Summarises all contenders of `case` in the order of the plan, including those without runs.
#[must_use]
pub fn contenders(results: &Results, case: &Case) -> Vec<Contender> {
    let mut runs: BTreeMap<&str, Vec<(usize, &Run)>> = BTreeMap::new();
    for (index, run) in results.runs.iter().enumerate().filter(|(_, run)| run.case == case.name) {
        runs.entry(&run.contender).or_default().push((index, run));
    }
    let mut lines: Vec<Contender> = case
        .contenders
        .iter()
        .map(|line| contender(&line.name, runs.get(line.name.as_str()).map_or(&[][..], Vec::as_slice)))
        .collect();
    let subject = case.subject();
    let seconds = |name: &str| -> Vec<f64> {
        let runs = runs.get(name).into_iter().flatten();
        runs.filter(|(_, run)| run.is_in_summary()).map(|(_, run)| run.seconds).collect()
    };
    let base = seconds(subject);
    for line in lines.iter_mut().filter(|line| line.name != subject) {
        line.ratio = ratio(&seconds(&line.name), &base);
    }
    lines
}

/// Summarises one contender from its runs.
fn contender(name: &str, runs: &[(usize, &Run)]) -> Contender {
    let counted: Vec<(usize, &Run)> = runs.iter().copied().filter(|(_, run)| run.is_in_summary()).collect();
    let values =
        |metric: &str| -> Vec<f64> { counted.iter().filter_map(|(_, run)| figure(run, metric)).collect() };
    let middle = |metric: &str| median(&values(metric));
    let seconds = summarise(&counted.iter().map(|(_, run)| run.seconds).collect::<Vec<f64>>());
    let outliers =
        seconds.iter().flat_map(|summary| &summary.outliers).map(|&place| counted[place].0).collect();
    let measured = runs.iter().filter(|(_, run)| run.round > 0);
    let names: BTreeSet<&String> = counted.iter().flat_map(|(_, run)| run.metrics.keys()).collect();
    Contender {
        name: name.to_owned(),
        basis: runs.iter().map(|(_, run)| run.basis).max().unwrap_or_default(),
        user_seconds: middle("user_seconds"),
        system_seconds: middle("system_seconds"),
        peak_memory_bytes: values("peak_memory_bytes").into_iter().reduce(f64::max),
        bytes: median(&counted.iter().filter_map(|(_, run)| Some(run.bytes? as f64)).collect::<Vec<f64>>()),
        wire_bytes: middle("wire_bytes"),
        requests: middle("requests"),
        retries: middle("retries"),
        passes: middle("passes"),
        metrics: names.into_iter().filter_map(|key| Some((key.clone(), summarise(&values(key))?))).collect(),
        fairness: middle("fairness"),
        least_share: middle("least_share"),
        most_share: middle("most_share"),
        marked: measured
            .clone()
            .filter(|(_, run)| run.outcome == Outcome::Ok && !run.marks.is_empty())
            .count(),
        failed: measured.filter(|(_, run)| run.outcome != Outcome::Ok).count(),
        outliers,
        seconds,
        ratio: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{ContenderLine, JobFigures};

    fn run(contender: &str, round: u32, seconds: f64) -> Run {
        Run { case: "c".into(), contender: contender.into(), round, seconds, ..Run::default() }
    }

    fn case() -> Case {
        let line = |name: &str| ContenderLine { name: name.into(), ..ContenderLine::default() };
        Case {
            name: "c".into(),
            contenders: vec![line("ours"), line("peer"), line("absent")],
            ..Case::default()
        }
    }

    #[test]
    fn marked_and_failed_runs_are_kept_out_and_counted() {
        let mut runs: Vec<Run> = (0..=6).map(|round| run("ours", round, 1.0 + f64::from(round))).collect();
        runs[3].marks.push("the cache was warm".into());
        runs[4].outcome = Outcome::Failed;
        runs[5].peak_memory_bytes = 7;
        runs.push(run("peer", 1, 8.5));
        runs[7].basis = Basis::Emulated;
        let found = contenders(&Results { runs, ..Results::default() }, &case());
        let (ours, peer, absent) = (&found[0], &found[1], &found[2]);
        let seconds = ours.seconds.as_ref().unwrap();
        assert_eq!((seconds.count, seconds.median, ours.marked, ours.failed), (4, 4.5, 1, 1));
        assert_eq!((ours.peak_memory_bytes, ours.ratio), (Some(7.0), None));
        assert!((peer.ratio.unwrap().value - 8.5 / 4.5).abs() < 1e-12);
        assert_eq!(peer.basis, Basis::Emulated);
        assert_eq!(absent, &Contender { name: "absent".into(), ..Contender::default() });
    }

    #[test]
    fn outliers_are_indices_into_the_runs_of_the_file() {
        let mut runs = vec![run("peer", 1, 50.0)];
        runs.extend((0..=8).map(|round| run("ours", round, if round == 4 { 9.0 } else { 1.0 })));
        assert_eq!(contenders(&Results { runs, ..Results::default() }, &case())[0].outliers, [5]);
    }

    #[test]
    fn shares_of_jobs_are_figures_and_figures_are_finite() {
        let job = |seconds| JobFigures { seconds, bytes: Some(10), ..JobFigures::default() };
        let run = Run { jobs: vec![job(1.0), job(3.0)], bytes: Some(1), ..Run::default() };
        assert_eq!((figure(&run, "least_share"), figure(&run, "most_share")), (Some(0.5), Some(1.5)));
        assert_eq!(figure(&run, "bytes_per_second"), None, "a run of 0 s has no rate");
    }
}
