//! Replaces figures of a model by results of `bench` on the user's own system, and fills a workload
//! file from them.
//!
//! A contender belongs to a model if its name, or the name of its case, contains the model's name.
//! Its runs give the rate of a client. Runs that print `ready_seconds` or `first_byte_seconds` also
//! give the start and the latency. If a run reads a part of the object and then the whole object,
//! only the bytes and the time after the part give the rate. Called by `advise` and by the demo.

use firstbyte_advise::model::{FigureSource, Flow, Latency, ModelCatalogue, ServiceModel, ServiceRates};
use firstbyte_advise::prices::Day;
use firstbyte_advise::units::{Rate, Seconds};
use firstbyte_advise::workload::Measured;

use crate::result::{Results, Run};
use crate::statistics::{Summary, summarise};

/// Name of the source of measured figures.
const SOURCE: &str = "measured";

/// Measured figures of one model.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// Name of the model.
    pub model: String,
    rate: Option<Summary>,
    ready: Option<Summary>,
    first_byte: Option<Summary>,
    /// Case, contender and number of runs.
    pub from: String,
    source: FigureSource,
}

/// Returns a calibration for each model of `catalogue` that `results` measure.
#[must_use]
pub fn calibrations(catalogue: &ModelCatalogue, results: &Results) -> Vec<Calibration> {
    let mut found = Vec::new();
    for case in &results.header.cases {
        for contender in &case.contenders {
            let runs: Vec<&Run> = results.counted(&case.name, &contender.name).collect();
            let named = |model: &&ServiceModel| {
                contender.name.contains(&model.name) || case.name.contains(&model.name)
            };
            // The longest matching name wins: `ebs-gp3-snapshot` rather than `ebs-gp3`.
            let model = catalogue.services.iter().filter(named).max_by_key(|model| model.name.len());
            let Some(model) = model.filter(|_| !runs.is_empty()) else { continue };
            let from = format!("{} / {}, {} runs", case.name, contender.name, runs.len());
            found.push(Calibration {
                model: model.name.clone(),
                rate: summary(&runs, |run| reading_rate(run).or_else(|| run.figure("bytes_per_second"))),
                ready: summary(&runs, |run| run.figure("ready_seconds")),
                first_byte: summary(&runs, |run| run.figure("first_byte_seconds")),
                source: FigureSource {
                    what: format!("bench: {from}"),
                    place: String::new(),
                    day: day(results),
                },
                from,
            });
        }
    }
    found
}

/// Returns the day of the results, or 1970-01-01 if they have none.
fn day(results: &Results) -> Day {
    let day = results.header.started.get(..10).and_then(|day| day.parse().ok());
    day.unwrap_or_else(|| Day::from_unix(0).expect("1970-01-01 is a day"))
}

fn summary(runs: &[&Run], figure: impl Fn(&Run) -> Option<f64>) -> Option<Summary> {
    let figures: Vec<f64> = runs.iter().filter_map(|run| figure(run)).collect();
    summarise(&figures).filter(|summary| summary.min > 0.0)
}

/// Returns the bytes per second of a run that opened an object, read a part and then the whole.
/// Counts only the time after the part. A mount or a cache already has the part, so its bytes are
/// not counted again.
fn reading_rate(run: &Run) -> Option<f64> {
    let at = |name: &str| run.metrics.get(name).copied();
    // After a copy, the local copy is read, not the service.
    if at("copy_seconds").is_some() {
        return None;
    }
    let seconds = at("all_seconds")? - at("part_seconds")?;
    let bytes = at("object_bytes")? - at("part_bytes")?;
    (seconds > 0.0 && bytes > 0.0).then(|| bytes / seconds)
}

impl Calibration {
    /// Replaces figures of a model by measured ones.
    pub fn apply(&self, model: &mut ServiceModel) {
        model.sources.insert(SOURCE.to_owned(), self.source.clone());
        let latency = |summary: &Summary| Latency {
            p50: Seconds(summary.median),
            p95: None,
            p99: None,
            source: SOURCE.to_owned(),
        };
        // The spread is the slowest or the fastest run, as a factor of the median.
        let mut spread = 1.0_f64;
        if let Some(rate) = &self.rate {
            spread = spread.max(rate.median / rate.min).max(rate.max / rate.median);
            let client = Flow::steady(Rate(rate.median), SOURCE);
            // The measured rate covers the whole path, so no other rate of the service limits it.
            let connection = model.rates.connection.take();
            model.rates = ServiceRates { connection, client: Some(client), ..ServiceRates::default() };
        }
        if let Some(ready) = &self.ready {
            model.latency.ready = Some(latency(ready));
        }
        if let Some(first_byte) = &self.first_byte {
            model.latency.first_byte = Some(latency(first_byte));
        }
        model.measured = Some(self.from.clone());
        model.spread = Some(spread);
    }
}

/// Returns the figures of the contender whose run is the first in the summary; `None` if no run is
/// in the summary.
#[must_use]
pub fn measured(results: &Results) -> Option<Measured> {
    let first = results.runs.iter().find(|run| run.is_in_summary())?;
    let runs: Vec<&Run> = results.counted(&first.case, &first.contender).collect();
    let median = |metric: &str| {
        let figures: Vec<f64> = runs.iter().filter_map(|run| run.figure(metric)).collect();
        summarise(&figures).map(|summary| summary.median)
    };
    let jobs = runs.iter().map(|run| run.jobs.len().max(1)).max().unwrap_or(1) as f64;
    let bytes = runs.iter().find_map(|run| run.bytes).map(|bytes| bytes as f64 / jobs);
    Some(Measured {
        bytes,
        read: bytes,
        passes: median("passes").map(|passes| passes.round().max(1.0)),
        cpu_seconds: median("cpu_seconds").map(|seconds| seconds / jobs),
        jobs: Some(jobs),
        place: results.header.machine.instance_type.clone(),
        from: format!("{} / {}", first.case, first.contender),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Case, ContenderLine, JobFigures};

    fn results(name: &str, runs: Vec<Run>) -> Results {
        let mut results = Results::default();
        results.header.started = "2026-11-24T10:00:00Z".to_owned();
        results.header.machine.instance_type = Some("m5.large".to_owned());
        let line = ContenderLine { name: name.to_owned(), ..ContenderLine::default() };
        let case = Case { name: "one-big".to_owned(), contenders: vec![line], ..Case::default() };
        results.header.cases = vec![case];
        results.runs = runs;
        results
    }

    fn run(name: &str, round: u32, seconds: f64) -> Run {
        Run {
            case: "one-big".to_owned(),
            contender: name.to_owned(),
            round,
            seconds,
            bytes: Some(2_000_000),
            storage_bytes: Some(4_000_000),
            user_seconds: 3.0,
            jobs: vec![JobFigures::default(); 2],
            ..Run::default()
        }
    }

    #[test]
    fn runs_replace_the_rates_of_the_model_that_they_name() {
        let name = "ebs-gp3-snapshot, mine";
        let runs = [0.9, 1.0, 1.1].into_iter().zip(1..).map(|(seconds, round)| run(name, round, seconds));
        let mut all = ModelCatalogue::current();
        let found = calibrations(&all, &results(name, runs.collect()));
        assert_eq!(found.len(), 1);
        let model = all.services.iter_mut().find(|model| model.name == found[0].model).unwrap();
        found[0].apply(model);
        assert_eq!(model.name, "ebs-gp3-snapshot");
        assert_eq!(model.measured.as_deref(), Some("one-big / ebs-gp3-snapshot, mine, 3 runs"));
        assert!(model.rates.total.is_none() && model.rates.client.is_some());
        assert!(model.spread.is_some_and(|spread| (1.09..1.13).contains(&spread)), "{:?}", model.spread);
    }

    #[test]
    fn measured_figures_make_a_workload() {
        let found = measured(&results("ours", vec![run("ours", 0, 1.0), run("ours", 1, 1.0)])).unwrap();
        assert_eq!((found.bytes, found.passes, found.cpu_seconds), (Some(1e6), Some(2.0), Some(1.5)));
        assert_eq!((found.jobs, found.place.as_deref()), (Some(2.0), Some("m5.large")));
        assert_eq!(found.from, "one-big / ours");
        assert_eq!(measured(&Results::default()), None);
    }
}
