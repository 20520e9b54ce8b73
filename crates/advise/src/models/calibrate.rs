//! Overrides a model's numbers by results of `bench` on the user's own system.
//!
//! A contender belongs to a model if its name, or the name of its case, contains the model's name.
//! Its runs give the rate of a client. Runs that print `ready_seconds` or `first_byte_seconds` also
//! give the mount time and the latency. If a run prints the times of a part and of the whole
//! object, only the reading after the part counts for the rate.

use super::{Catalogue, Model, Number, Source};
use crate::result::{Results, Run};
use crate::statistics::summarise;

/// Numbers of one model, measured by results.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// Name of the model.
    pub model: String,
    /// Numbers by name.
    pub numbers: Vec<(&'static str, Number)>,
    /// Case, contender and number of runs.
    pub from: String,
    /// The day of the results.
    pub day: String,
}

/// The calibrations that `results` give for the models of `catalogue`.
#[must_use]
pub fn calibrations(catalogue: &Catalogue, results: &Results) -> Vec<Calibration> {
    let mut found = Vec::new();
    for case in &results.header.cases {
        for contender in &case.contenders {
            let runs: Vec<&Run> = results.counted(&case.name, &contender.name).collect();
            let named =
                |model: &&Model| contender.name.contains(&model.name) || case.name.contains(&model.name);
            // The longest name: `ebs-gp3-snapshot` rather than `ebs-gp3`.
            let model = catalogue.services.iter().filter(named).max_by_key(|model| model.name.len());
            let Some(model) = model.filter(|_| !runs.is_empty()) else { continue };
            found.push(Calibration {
                model: model.name.clone(),
                numbers: numbers(&runs),
                from: format!("{} / {}, {} runs", case.name, contender.name, runs.len()),
                day: results.header.started.get(..10).unwrap_or("1970-01-01").to_owned(),
            });
        }
    }
    found
}

fn numbers(runs: &[&Run]) -> Vec<(&'static str, Number)> {
    const FIGURES: [(&str, &str); 3] = [
        ("client_rate", "bytes_per_second"),
        ("mount", "ready_seconds"),
        ("first_byte", "first_byte_seconds"),
    ];
    let number = |(name, metric): (&'static str, &str)| {
        let rate = |run: &Run| reading_rate(run).filter(|_| name == "client_rate");
        let figures: Vec<f64> =
            runs.iter().filter_map(|run| rate(run).or_else(|| run.figure(metric))).collect();
        let summary = summarise(&figures).filter(|summary| summary.min > 0.0)?;
        let (value, low, high) = (summary.median, summary.min, summary.max);
        Some((name, Number { value, low, high, source: "measured".to_owned() }))
    };
    FIGURES.into_iter().filter_map(number).collect()
}

/// Bytes per second of a run that opened an object, read a part and then all: what it read after
/// the part. A mount or a cache has the part already, so that is not counted as read again.
fn reading_rate(run: &Run) -> Option<f64> {
    let at = |name: &str| run.metrics.get(name).copied();
    // What was copied is read from here.
    if at("copy_seconds").is_some() {
        return None;
    }
    let seconds = at("all_seconds")? - at("part_seconds")?;
    let bytes = at("object_bytes")? - at("part_bytes")?;
    (seconds > 0.0 && bytes > 0.0).then(|| bytes / seconds)
}

impl Model {
    /// Overrides numbers by measured ones.
    pub fn calibrate(&mut self, calibration: &Calibration) {
        let source = Source { what: format!("bench: {}", calibration.from), read: calibration.day.clone() };
        self.sources.insert("measured".to_owned(), source);
        for (name, number) in &calibration.numbers {
            self.numbers.insert((*name).to_owned(), number.clone());
        }
        // A measured rate is that of the whole way: no other rate of the service adds to it.
        if calibration.numbers.iter().any(|(name, _)| *name == "client_rate") {
            for name in
                ["total_rate", "disk_per_tib", "network_per_tib", "network_burst_per_tib", "hydration_rate"]
            {
                self.numbers.remove(name);
            }
        }
        self.measured = Some(calibration.from.clone());
    }
}
