//! Writes the workload file of `advise init`, with comments. The values are examples, or figures
//! that `bench` has measured.

use std::fmt::Write as _;

/// Figures of a workload, taken from results of `bench`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Bytes of the data set.
    pub bytes: Option<f64>,
    /// Bytes that a job reads.
    pub read: Option<f64>,
    /// Passes over the data.
    pub passes: Option<f64>,
    /// Median processor seconds of a job.
    pub cpu_seconds: Option<f64>,
    /// Concurrent jobs.
    pub jobs: Option<f64>,
    /// Instance type, or memory of a serverless function; `None` if the results do not state it.
    pub place: Option<String>,
    /// Name of the case and the contender with which the figures were measured.
    pub from: String,
}

/// Writes the file with example values.
#[must_use]
pub fn commented() -> String {
    commented_from(&Measured::default())
}

/// Writes the file with the measured figures; figures that are `None` get example values.
#[must_use]
pub fn commented_from(measured: &Measured) -> String {
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
    use crate::workload::{ComputePlace, ReadInterface, of_text};

    #[test]
    fn the_commented_file_is_a_valid_workload() {
        let workload = of_text(&commented()).unwrap();
        assert_eq!((workload.data.read, workload.goal.deadline), (1e8, Some(29.0)));
        assert_eq!(workload.data.needs, ReadInterface::Files);
    }

    #[test]
    fn measured_figures_are_filled_in() {
        let measured = Measured {
            bytes: Some(1e6),
            read: Some(1e6),
            passes: Some(2.0),
            cpu_seconds: Some(1.5),
            jobs: Some(2.0),
            place: Some("m5.large".to_owned()),
            from: "one-big / ours".to_owned(),
        };
        let text = commented_from(&measured);
        let workload = of_text(&text).unwrap();
        assert!(text.starts_with("# Filled in from the runs of one-big / ours"));
        assert_eq!((workload.data.bytes, workload.data.passes), (1e6, 2.0));
        assert_eq!((workload.compute.cpu_seconds, workload.jobs.at_once), (1.5, 2.0));
        assert_eq!(workload.compute.place, ComputePlace::Machine("m5.large".to_owned()));
    }
}
