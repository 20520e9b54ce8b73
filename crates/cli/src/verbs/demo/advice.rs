//! ADVICE, a section of the demo: how much of an object one request can read within a time limit.
//! `firstbyte-advise` predicts this from the demo's measurements.
//!
//! The rate and latency of the demo's lazy opens become the rate and latency of the service in the
//! model. This module computes no prediction of its own.

use firstbyte_advise::advice::{self, Inputs};
use firstbyte_advise::model::{MachineModel, ModelCatalogue, ServiceModel};
use firstbyte_advise::prices::{self, Day};
use firstbyte_advise::units::{Bytes, Rate, shown_bytes, significant};
use firstbyte_advise::workload;
use firstbyte_bench::calibrate::calibrations;
use firstbyte_bench::result::Results;
use serde::Serialize;

use super::figures::LAZY;
use crate::render::error::{Error, Result};

/// Size of the object that the advice is about.
const OBJECT_SIZE: &str = "5 GB";
/// Time limit of a request to an API gateway.
const GATEWAY_LIMIT: &str = "29 s";
/// Name of the machine in the model.
const MACHINE: &str = "this machine";
/// Bytes per second of the loopback interface: 100 Gbit/s, much faster than the link.
const LOOPBACK_RATE: f64 = 12.5e9;

/// The model of the service before calibration. The service has the contender's name, because
/// results are found by that name.
const MODEL: &str = r#"
format = 1
name = "lazy open"
title = "the store of the demo"
kind = "object"
cloud = "any"
shared = true
durable = true
leaves_out = "everything that the link does not emulate: TLS, slow requests, other users"
[sources.ours]
what = "this project: the block of a lazy open, and its largest number of connections"
day = "2026-11-24"
[reading]
block = { value = "128 KiB", source = "ours" }
parallel = { value = 64, source = "ours" }
"#;

/// Number of bytes that a request can read within its time limit.
#[derive(Debug, Serialize)]
pub(crate) struct DemoAdvice {
    data: &'static str,
    limit: &'static str,
    /// Bytes that one request can read of a lazily opened object.
    bytes: f64,
    /// The bytes as a fraction of the object.
    part: f64,
    /// Description of the results with which the model was calibrated.
    measured: String,
}

impl DemoAdvice {
    pub(crate) fn of(results: &Results) -> Result<Self> {
        let failed = |error: String| Error::failed(format!("advice: {error}"));
        let catalogue = calibrated_catalogue(results)?;
        let options = [("data", OBJECT_SIZE), ("deadline", GATEWAY_LIMIT), ("at", MACHINE)];
        let options = options.map(|(name, text)| (name, text.to_owned()));
        let workload = workload::of_options(&options).map_err(|error| failed(error.to_string()))?;
        let day = results.header.started.get(..10).unwrap_or_default();
        let day: Day = day.parse().map_err(|_| failed(format!("{day:?} is no day")))?;
        let inputs = Inputs { catalogue: &catalogue, prices: &prices::PriceCatalogue::current(), day };
        let advice = advice::advise(&workload, &inputs).map_err(|error| failed(error.to_string()))?;
        let lazily = format!("{LAZY}-lazy");
        let reach = advice.reaches.into_iter().find(|reach| reach.option == lazily);
        let row = advice.rows.into_iter().find(|row| row.name == lazily);
        match (reach, row.and_then(|row| row.measured)) {
            (Some(reach), Some(measured)) => Ok(Self {
                data: OBJECT_SIZE,
                limit: GATEWAY_LIMIT,
                bytes: reach.bytes,
                part: reach.part,
                measured,
            }),
            _ => Err(failed("no lazy open was measured".into())),
        }
    }

    /// Formats the section for the terminal.
    pub(crate) fn text(&self) -> String {
        let fits = match self.part {
            part if part >= 1.0 => "lazy open fits even if a request reads all of it".to_owned(),
            part if part * self.bytes <= 0.0 => "lazy open fits nothing, however little is read".to_owned(),
            part => format!(
                "lazy open fits up to {} read a request ({} %)",
                shown_bytes(self.bytes),
                significant(part * 100.0)
            ),
        };
        format!("5 ADVICE  {} object, {} limit: {fits}\n", self.data, self.limit)
    }
}

/// Returns a catalogue with the service as measured, and with the machine that measured it.
fn calibrated_catalogue(results: &Results) -> Result<ModelCatalogue> {
    let model = ServiceModel::parse(MODEL).map_err(|error| Error::failed(format!("advice: {error}")))?;
    let mut catalogue = ModelCatalogue::current();
    catalogue.services = vec![model];
    for calibration in calibrations(&catalogue, results) {
        catalogue.services.iter_mut().for_each(|model| calibration.apply(model));
    }
    let here = &results.header.machine;
    let (vcpus, memory) = (here.processors.max(1) as f64, Bytes(here.memory_bytes as f64));
    let machine = MachineModel::new(vcpus, memory, Rate(LOOPBACK_RATE), "the machine that measured");
    catalogue.machines.insert(MACHINE.to_owned(), machine);
    Ok(catalogue)
}

#[cfg(test)]
mod tests {
    use firstbyte_bench::result::{Case, ContenderLine, Run};

    use super::*;

    /// Returns results of three lazy opens. Each reads 256 MB at one of these rates, after 80 ms.
    fn make_results(rates: [f64; 3]) -> Results {
        let mut results = Results::default();
        results.header.started = "2026-11-24T10:00:00Z".into();
        (results.header.machine.processors, results.header.machine.memory_bytes) = (2, 8_000_000_000);
        let line = |name: &str| ContenderLine { name: name.into(), ..ContenderLine::default() };
        let contenders = vec![line("firstbyte cp"), line(LAZY)];
        results.header.cases = vec![Case { name: "ready".into(), contenders, ..Case::default() }];
        let run = |(round, rate): (usize, f64)| {
            let all = 0.12 + 253.44e6 / rate;
            let stages = [
                ("ready_seconds", 0.002),
                ("first_byte_seconds", 0.08),
                ("part_seconds", 0.12),
                ("all_seconds", all),
                ("part_bytes", 2.56e6),
                ("object_bytes", 256e6),
            ];
            let metrics = stages.map(|(name, value)| (name.to_owned(), value)).into();
            let round = round as u32 + 1;
            Run {
                case: "ready".into(),
                contender: LAZY.into(),
                round,
                seconds: all,
                metrics,
                ..Run::default()
            }
        };
        results.runs = rates.into_iter().enumerate().map(run).collect();
        results
    }

    #[test]
    fn the_limit_is_filled_by_reading_at_the_measured_rate() {
        let advice = DemoAdvice::of(&make_results([75e6; 3])).unwrap();
        assert!((29.0 * 74e6..=29.0 * 75e6).contains(&advice.bytes), "{advice:?}");
        assert_eq!(advice.measured, "ready / lazy open, 3 runs");
        let text = advice.text();
        assert!(text.starts_with("5 ADVICE  5 GB object, 29 s limit: lazy open fits up to 2.1"), "{text}");
        assert!(text.contains(" GB read a request (43."), "{text}");
    }

    #[test]
    fn a_slower_and_a_spread_rate_give_less_and_a_fast_one_all() {
        let bytes = |rates| DemoAdvice::of(&make_results(rates)).unwrap().bytes;
        assert!(bytes([60e6; 3]) < bytes([75e6; 3]));
        assert!(bytes([60e6, 75e6, 80e6]) < bytes([75e6; 3]));
        let all = DemoAdvice::of(&make_results([1e9; 3])).unwrap();
        assert!((all.part - 1.0).abs() < 1e-9 && all.text().contains("reads all of it"), "{all:?}");
    }

    #[test]
    fn without_a_lazy_open_there_is_no_advice() {
        let mut results = make_results([75e6; 3]);
        results.runs.clear();
        assert!(DemoAdvice::of(&results).unwrap_err().message.contains("no lazy open was measured"));
    }
}
