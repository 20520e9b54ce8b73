//! Writes the commented workload file of `advise init`, with example values or with figures from
//! results.

use std::fmt::Write as _;

use crate::result::{Results, Run};
use crate::statistics::summarise;

/// Figures of a workload, taken from results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Bytes of the data set.
    pub bytes: Option<f64>,
    /// Bytes that a job reads.
    pub read: Option<f64>,
    /// Passes over the data.
    pub passes: Option<f64>,
    /// Median of the processor seconds of a job.
    pub cpu_seconds: Option<f64>,
    /// Jobs at once.
    pub jobs: Option<f64>,
    /// Instance type or function memory, if the results have it.
    pub place: Option<String>,
    /// Case and contender that the figures are of.
    pub from: String,
}

impl Measured {
    /// The contender with the most runs that count, of the first case that has any; `None` if
    /// nothing counts.
    #[must_use]
    pub fn of_results(results: &Results) -> Option<Self> {
        let first = results.runs.iter().find(|run| run.counts())?;
        let runs: Vec<&Run> = results.counted(&first.case, &first.contender).collect();
        let median = |metric: &str| {
            let figures: Vec<f64> = runs.iter().filter_map(|run| run.figure(metric)).collect();
            summarise(&figures).map(|summary| summary.median)
        };
        let jobs = runs.iter().map(|run| run.jobs.len().max(1)).max().unwrap_or(1) as f64;
        let bytes = runs.iter().find_map(|run| run.bytes).map(|bytes| bytes as f64 / jobs);
        Some(Self {
            bytes,
            read: bytes,
            passes: median("passes").map(|passes| passes.round().max(1.0)),
            cpu_seconds: median("cpu_seconds").map(|seconds| seconds / jobs),
            jobs: Some(jobs),
            place: results.header.machine.instance_type.clone(),
            from: format!("{} / {}", first.case, first.contender),
        })
    }
}

/// The file with example values.
#[must_use]
pub fn commented() -> String {
    fill(&Measured::default())
}

/// The file with what was measured filled in.
#[must_use]
pub fn commented_from(measured: &Measured) -> String {
    fill(measured)
}

fn fill(measured: &Measured) -> String {
    let size = |bytes: Option<f64>, example: &str| {
        bytes.map_or_else(|| example.to_owned(), |bytes| format!("{} B", bytes.round()))
    };
    let mut text = String::new();
    if !measured.from.is_empty() {
        let _ = writeln!(text, "# Filled in from the runs of {}; check each value.", measured.from);
    }
    let values = [
        ("SIZE", size(measured.bytes, "5 GB")),
        ("READ", size(measured.read, "100 MB")),
        ("PASSES", measured.passes.unwrap_or(1.0).to_string()),
        ("CPU", format!("{} s", measured.cpu_seconds.unwrap_or(0.0))),
        ("ATONCE", measured.jobs.unwrap_or(1.0).to_string()),
        ("PLACE", measured.place.clone().unwrap_or_else(|| "lambda:3008MB".to_owned())),
    ];
    text.push_str(TEMPLATE);
    for (name, value) in values {
        text = text.replace(&format!("@{name}@"), &value);
    }
    text
}

const TEMPLATE: &str = include_str!("template.toml");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Job;
    use crate::workload::{Place, of_text};

    #[test]
    fn the_commented_file_is_a_valid_workload() {
        let workload = of_text(&commented()).unwrap();
        assert_eq!((workload.data.read, workload.goal.deadline), (1e8, Some(29.0)));
    }

    #[test]
    fn what_was_measured_is_filled_in() {
        let mut results = Results::default();
        results.header.machine.instance_type = Some("m5.large".to_owned());
        let run = Run {
            case: "one-big".to_owned(),
            contender: "ours".to_owned(),
            round: 1,
            bytes: Some(2_000_000),
            storage_bytes: Some(4_000_000),
            user_seconds: 3.0,
            jobs: vec![Job::default(); 2],
            ..Run::default()
        };
        results.runs = vec![Run { round: 0, ..run.clone() }, run];
        let text = commented_from(&Measured::of_results(&results).unwrap());
        let workload = of_text(&text).unwrap();
        assert!(text.starts_with("# Filled in from the runs of one-big / ours"));
        assert_eq!((workload.data.bytes, workload.data.passes), (1e6, 2.0));
        assert_eq!((workload.compute.cpu_seconds, workload.jobs.at_once), (1.5, 2.0));
        assert_eq!(workload.compute.place, Place::Machine("m5.large".to_owned()));
        assert_eq!(Measured::of_results(&Results::default()), None);
    }
}
