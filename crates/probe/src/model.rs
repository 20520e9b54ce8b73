//! Converts a report to a model. This machine becomes the model's entry `here`.
//!
//! Only what was observed becomes a value of the model: a total rate if more connections did not
//! raise it, a ceiling if it was reached. `leaves_out` names what was not observed.

use std::collections::BTreeMap;

use firstbyte_advise::model::{
    Cloud, DiskModel, FORMAT, Figure, FigureSource, Flow, Latency, MachineModel, OperationRates,
    ReadProperties, ServiceBill, ServiceKind, ServiceLatencies, ServiceModel, ServiceRates,
};
use firstbyte_advise::prices::Day;
use firstbyte_advise::units::{Bytes, Rate, Seconds, shown_seconds};

use crate::quantiles::Quantiles;
use crate::rates::ProbedRates;
use crate::report::{ProbeReport, rate};

/// Name of the source of all values.
const FIGURE_SOURCE: &str = "probe";

/// Number of concurrent requests that the model of an object store assumes for our client.
const CONCURRENT_REQUESTS: f64 = 64.0;

/// Factor from the highest measured rate of content to the network rate of this machine. The advice
/// counts only a fraction of a network's rate as content (`CommonMachineFigures::payload`).
const NETWORK_HEADROOM: f64 = 1.25;

/// Number of bytes that a file stream reads ahead. The measured rate already includes its waits.
const READ_AHEAD_BYTES: f64 = 64.0 * 1_048_576.0;

/// The names and properties of a model that were not measured.
#[derive(Clone, Debug)]
pub struct ModelIdentity {
    /// Name of the model.
    pub name: String,
    /// The provider.
    pub cloud: Cloud,
    /// The billed items of the service.
    pub bills: Vec<ServiceBill>,
    /// Name of this machine.
    pub machine: String,
    /// The day of the measurement.
    pub day: Day,
    /// Number of processors of this machine.
    pub processors: f64,
    /// Memory of this machine, in bytes.
    pub memory: f64,
}

fn figure<T>(value: T) -> Figure<T> {
    Figure { value, source: FIGURE_SOURCE.to_owned() }
}

fn latency_of(times: Option<Quantiles>) -> Option<Latency> {
    let Quantiles { p50, p95, p99, .. } = times.filter(|times| times.p50 > 0.0)?;
    Some(Latency {
        p50: Seconds(p50),
        p95: p95.map(Seconds),
        p99: p99.map(Seconds),
        source: FIGURE_SOURCE.to_owned(),
    })
}

fn flow(bytes_per_second: f64) -> Flow {
    Flow::steady(Rate(bytes_per_second), FIGURE_SOURCE)
}

impl ProbeReport {
    /// Returns the model of the location, with this machine as `here`.
    #[must_use]
    pub fn model(&self, identity: &ModelIdentity) -> ServiceModel {
        let remote = self.latencies.open.is_none();
        let place = &self.access.location;
        ServiceModel {
            format: FORMAT,
            name: identity.name.clone(),
            title: place.clone(),
            kind: if remote { ServiceKind::Object } else { ServiceKind::FileSystem },
            cloud: identity.cloud,
            shared: remote,
            durable: true,
            functions: remote,
            leaves_out: self.leaves_out(),
            unbilled: String::new(),
            sources: BTreeMap::from([(FIGURE_SOURCE.to_owned(), self.source(identity))]),
            latency: self.model_latencies(),
            rates: self.model_rates(remote),
            operations: self.model_operations(),
            reading: self.reading(remote),
            capacity: Default::default(),
            bills: identity.bills.clone(),
            measured: None,
            spread: None,
            here: self.here(identity),
        }
    }

    fn source(&self, identity: &ModelIdentity) -> FigureSource {
        let spent = &self.spent;
        FigureSource {
            what: format!(
                "firstbyte probe {}: {} requests in {}",
                self.access.location,
                spent.requests.total(),
                shown_seconds(spent.seconds)
            ),
            place: identity.machine.clone(),
            day: identity.day,
        }
    }

    fn model_latencies(&self) -> ServiceLatencies {
        let names = self.names.filter(|names| names.per_second().is_some());
        let name =
            names.map(|names| Quantiles { count: 1, p50: names.seconds / names.names, p95: None, p99: None });
        ServiceLatencies {
            first_byte: latency_of(self.latencies.first_byte),
            open: latency_of(self.latencies.open),
            list: latency_of(name),
            create: latency_of(self.access.create),
            ..ServiceLatencies::default()
        }
    }

    fn model_rates(&self, remote: bool) -> ServiceRates {
        let Some(seen) = &self.rates else { return ServiceRates::default() };
        let total = seen.full.then(|| Flow {
            burst: seen.burst.map(|burst| Rate(burst.rate)),
            bucket: seen.burst.map(|burst| Bytes(burst.bucket)),
            ..flow(seen.total)
        });
        let connection = Some(flow(seen.connection)).filter(|_| seen.connection > 0.0);
        // For a mounted file system, the limit may be the client's own: a client cannot distinguish
        // the two.
        let (client, total) = if remote { (None, total) } else { (total, None) };
        ServiceRates { connection, client, total, ..ServiceRates::default() }
    }

    fn model_operations(&self) -> OperationRates {
        let ceiling = self.ceiling.filter(|ceiling| ceiling.reached && ceiling.per_second > 0.0);
        let (refused, own) = match ceiling {
            Some(ceiling) if ceiling.throttled => (Some(figure(ceiling.per_second)), None),
            Some(ceiling) => (None, Some(figure(ceiling.per_second))),
            None => (None, None),
        };
        OperationRates { client: own, total: refused, largest: None }
    }

    fn reading(&self, remote: bool) -> ReadProperties {
        let (parallel, read_ahead) = match remote {
            true => (Some(figure(CONCURRENT_REQUESTS)), None),
            false => (None, Some(figure(Bytes(READ_AHEAD_BYTES)))),
        };
        ReadProperties { parallel, read_ahead, ..ReadProperties::default() }
    }

    /// Returns the effects that were not observed, as phrases for display.
    fn leaves_out(&self) -> String {
        let mut parts = Vec::new();
        match &self.rates {
            None => parts.push("all rates: none was seen".to_owned()),
            Some(rates) => {
                if rates.burst.is_none() {
                    let watched = shown_seconds(rates.watched);
                    parts.push(format!("the end of a burst that lasts longer than {watched}"));
                }
                if let Some(why) = rates.ended.as_ref().filter(|_| !rates.full) {
                    parts.push(format!(
                        "a rate in all above {}, where this ended it: {why}",
                        rate(rates.highest())
                    ));
                } else if !rates.full {
                    parts.push(format!("a rate in all above {}", rate(rates.highest())));
                }
            }
        }
        if self.ceiling.is_none_or(|ceiling| !ceiling.reached) {
            parts.push("the end of the request rate".to_owned());
        }
        parts.join("; ")
    }

    /// Makes the entry of this machine. Its network carries at least the highest observed rate. If
    /// no rate was observed, the model does not describe this machine.
    fn here(&self, identity: &ModelIdentity) -> Option<MachineModel> {
        let network = self.rates.as_ref().map(ProbedRates::highest).filter(|rate| *rate > 0.0)?;
        let (memory, network) = (Bytes(identity.memory), Rate(network * NETWORK_HEADROOM));
        Some(MachineModel {
            store: self.disk.as_ref().map(|disk| DiskModel {
                size: Bytes(disk.free as f64),
                read: Rate(disk.read),
                source: FIGURE_SOURCE.to_owned(),
            }),
            cloud: identity.cloud,
            ..MachineModel::new(identity.processors, memory, network, FIGURE_SOURCE)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rates::{EndedBurst, RampStep};
    use crate::small::Ceiling;

    fn report() -> ProbeReport {
        let first_byte = Quantiles::of((1..=100).map(|ms| f64::from(ms) / 1e3).collect());
        let latencies = crate::ProbedLatencies { first_byte, open: None };
        let mut report = ProbeReport { latencies, ..ProbeReport::default() };
        report.rates = Some(crate::ProbedRates {
            connection: 40e6,
            steps: vec![RampStep { connections: 1, rate: 40e6 }],
            total: 75e6,
            full: true,
            burst: Some(EndedBurst { rate: 600e6, bucket: 300e6 }),
            watched: 9.0,
            ..crate::ProbedRates::default()
        });
        report
    }

    fn identity() -> ModelIdentity {
        ModelIdentity {
            name: "mine".into(),
            cloud: Cloud::Any,
            bills: Vec::new(),
            machine: "here".into(),
            day: "2026-11-27".parse().unwrap(),
            processors: 4.0,
            memory: 8e9,
        }
    }

    #[test]
    fn a_model_is_read_as_it_is_written() {
        let model = report().model(&identity());
        assert_eq!(ServiceModel::parse(&model.to_toml()).unwrap(), model);
        let total = model.rates.total.unwrap();
        assert_eq!((total.rate.0, total.burst.unwrap().0, total.bucket.unwrap().0), (75e6, 600e6, 300e6));
        assert_eq!(model.latency.first_byte.unwrap().p50.0, 0.05);
        assert_eq!(model.leaves_out, "the end of the request rate");
    }

    #[test]
    fn an_unmeasured_property_is_no_figure() {
        let mut report = report();
        report.rates.as_mut().unwrap().full = false;
        report.rates.as_mut().unwrap().burst = None;
        report.ceiling = Some(Ceiling { per_second: 100.0, at_once: 64, reached: false, throttled: false });
        let model = report.model(&identity());
        assert!(model.rates.total.is_none() && model.operations == OperationRates::default());
        assert!(model.leaves_out.contains("a rate in all above 75.0 MB/s"), "{}", model.leaves_out);
        // The network's rate is computed from that of one connection. Without any rate, the model
        // does not describe this machine.
        report.rates = Some(crate::ProbedRates { connection: 40e6, ..crate::ProbedRates::default() });
        assert_eq!(report.model(&identity()).here.unwrap().network.0, 50e6);
        report.rates = None;
        assert!(report.model(&identity()).here.is_none());
    }
}
