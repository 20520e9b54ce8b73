//! Takes from a model the values that a link replays, and defines the presets, which are models
//! too.
//!
//! A link replays the time to the first byte, the rate of one connection, and the total rate with
//! its burst. [`Replay::left_out`] names the model's other fields. The command `link` takes the
//! values for both forms of a link.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use firstbyte_advise::model::{Each, Flow, ServiceModel};

use crate::error::Error;
use crate::rate::{BurstBucket, LinkRate};
use crate::wait::WaitDistribution;

/// The values of a model that a link replays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replay {
    /// Name of the emulated network, for display.
    pub title: String,
    /// Round-trip time. Nearly every response takes at least this long.
    pub rtt: Duration,
    /// Distribution of the time until a response begins. `None` if that time is constant.
    pub wait: Option<WaitDistribution>,
    /// The rate of all connections together.
    pub rate: Option<LinkRate>,
    /// Rate and size of a burst above the total rate.
    pub burst: Option<BurstBucket>,
    /// The rate of one connection.
    pub per_connection: Option<LinkRate>,
    /// The names of the model's fields that no link replays.
    pub left_out: Vec<String>,
}

impl Replay {
    /// Takes the values of `model` that a link replays.
    ///
    /// # Errors
    /// [`Error::Model`] if the model has no value that a link replays, [`Error::Figure`] if a value
    /// is out of a link's range.
    pub fn of(model: &ServiceModel) -> Result<Self, Error> {
        check(model)?;
        let (latency, rates) = (&model.latency, &model.rates);
        let wait = latency.first_byte.as_ref().and_then(WaitDistribution::of);
        let median = latency.first_byte.as_ref().map_or(0.0, |first| first.p50.0);
        let rtt = wait.map_or(Duration::from_secs_f64(median), |wait| wait.floor());
        let mut left_out = unreplayed_figures(model);
        let mut fixed = |name: &str, flow: &Option<Flow>| {
            let flow = flow.as_ref()?;
            if flow.each == Each::Service {
                return Some(flow.clone());
            }
            left_out.push(format!("{name} (it grows with the capacity)"));
            None
        };
        let connection = fixed("rates.connection", &rates.connection);
        let (total, client) = (fixed("rates.total", &rates.total), fixed("rates.client", &rates.client));
        if let (Some(_), Some(client)) = (&total, &client) {
            left_out.push(format!("rates.client ({} B/s)", client.rate.0));
        }
        let (rate, burst) = total.or(client).as_ref().map_or((None, None), limits);
        let per_connection = connection.map(|flow| rate_of(flow.rate.0));
        if rtt.is_zero() && rate.is_none() && per_connection.is_none() {
            return Err(Error::Model { model: model.name.clone() });
        }
        Ok(Self { title: model.title.clone(), rtt, wait, rate, burst, per_connection, left_out })
    }
}

/// Longest wait in seconds: a day, as for the options of a link.
const MAX_WAIT_SECONDS: f64 = 86_400.0;

/// Checks the figures that a link replays: a link moves at least one byte per second, and waits at
/// most a day.
fn check(model: &ServiceModel) -> Result<(), Error> {
    let refused = |figure, why| Err(Error::Figure { model: model.name.clone(), figure, why });
    if let Some(first) = &model.latency.first_byte {
        let times = [Some(first.p50), first.p95, first.p99];
        if times.into_iter().flatten().any(|time| !(0.0..=MAX_WAIT_SECONDS).contains(&time.0)) {
            return refused("latency.first_byte", "longer than a day");
        }
    }
    let rates = &model.rates;
    let flows = [
        ("rates.connection", &rates.connection),
        ("rates.total", &rates.total),
        ("rates.client", &rates.client),
    ];
    for (figure, flow) in flows.into_iter().filter_map(|(name, flow)| Some((name, flow.as_ref()?))) {
        let least = [Some(flow.rate.0), flow.burst.map(|burst| burst.0), flow.bucket.map(|bucket| bucket.0)];
        if least.into_iter().flatten().any(|number| number.round() < 1.0) {
            return refused(figure, "less than one byte");
        }
    }
    Ok(())
}

fn rate_of(bytes_per_second: f64) -> LinkRate {
    LinkRate::bytes_per_second(bytes_per_second.round() as u64)
}

/// Returns the rate of a flow, and its burst. A burst without a bucket never ends, so its rate is
/// the rate of the flow.
fn limits(flow: &Flow) -> (Option<LinkRate>, Option<BurstBucket>) {
    match (flow.burst.filter(|burst| *burst > flow.rate), flow.bucket) {
        (Some(burst), Some(bucket)) => {
            let burst = BurstBucket { bytes: bucket.0.round() as u64, rate: rate_of(burst.0) };
            (Some(rate_of(flow.rate.0)), Some(burst))
        }
        (Some(burst), None) => (Some(rate_of(burst.0)), None),
        (None, _) => (Some(rate_of(flow.rate.0)), None),
    }
}

/// Returns the names of the model's fields that a link does not replay.
fn unreplayed_figures(model: &ServiceModel) -> Vec<String> {
    let (latency, rates, operations) = (&model.latency, &model.rates, &model.operations);
    let known = [
        ("latency.ready", latency.ready.is_some()),
        ("latency.direct", latency.direct.is_some()),
        ("latency.open", latency.open.is_some()),
        ("latency.list", latency.list.is_some()),
        ("latency.stat", latency.stat.is_some()),
        ("latency.create", latency.create.is_some()),
        ("rates.disk", rates.disk.is_some()),
        ("rates.hydration", rates.hydration.is_some()),
        ("rates.hydration_file", rates.hydration_file.is_some()),
        ("operations.client", operations.client.is_some()),
        ("operations.total", operations.total.is_some()),
    ];
    known.into_iter().filter(|(_, given)| *given).map(|(name, _)| name.to_owned()).collect()
}

/// Links that emulate typical environments. The values are those of the models in `models/`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// No delay and no limit: as fast as this machine.
    None,
    /// The network of a serverless function in sustained use: 0.6 Gbit/s in total, 20 ms.
    #[default]
    Function,
    /// The network of a serverless function that has just started: a burst of about 300 MB, and
    /// then nearly the same rate as `Function`.
    FunctionBurst,
    /// An object store in the same region: 30 ms to the first byte, 40 MB/s per connection, 400
    /// MB/s in total. Unlike at a real store, connecting takes the whole 30 ms too, because they
    /// are the round-trip time.
    Region,
}

impl Preset {
    const NAMES: [(&'static str, Self); 4] = [
        ("none", Self::None),
        ("function", Self::Function),
        ("function-burst", Self::FunctionBurst),
        ("region", Self::Region),
    ];

    /// Returns the values of the preset.
    ///
    /// # Panics
    /// Never: a test parses the embedded models.
    #[must_use]
    pub fn replay(self) -> Replay {
        let text = match self {
            Self::None => return Replay::default(),
            Self::Function => include_str!("../models/function.toml"),
            Self::FunctionBurst => include_str!("../models/function-burst.toml"),
            Self::Region => include_str!("../models/region.toml"),
        };
        let model = ServiceModel::parse(text).expect("embedded models are valid");
        Replay::of(&model).expect("embedded models can be replayed")
    }
}

impl FromStr for Preset {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, preset)| *preset).ok_or_else(|| Error::Setting {
            value: text.to_owned(),
            why: "not a preset; the presets are function, function-burst, region and none",
        })
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Self::NAMES.iter().find(|(_, preset)| preset == self);
        f.write_str(found.map_or("none", |(name, _)| name))
    }
}

#[cfg(test)]
mod tests {
    use firstbyte_advise::model::ModelCatalogue;

    use super::*;

    #[test]
    fn presets_keep_their_numbers() {
        let function = Preset::Function.replay();
        assert_eq!(function.rtt, Duration::from_millis(20));
        assert_eq!((function.rate, function.burst), (Some(LinkRate::bytes_per_second(75_000_000)), None));
        assert!(function.title.contains("sustained"));
        let region = Preset::Region.replay();
        assert_eq!(region.rtt, Duration::from_millis(30));
        assert_eq!(region.rate, Some(LinkRate::bytes_per_second(400_000_000)));
        assert_eq!(region.per_connection, Some(LinkRate::bytes_per_second(40_000_000)));
        assert_eq!(Preset::None.replay(), Replay::default());
        for (name, preset) in Preset::NAMES {
            assert_eq!((name.parse::<Preset>().unwrap(), preset.to_string().as_str()), (preset, name));
        }
        assert!("lambda".parse::<Preset>().is_err());
    }

    /// Published measurements: 369 MB in the first second, 1,065 MB in ten seconds.
    #[test]
    fn a_fresh_function_sends_the_published_bytes() {
        let Replay { rate: Some(rate), burst: Some(burst), .. } = Preset::FunctionBurst.replay() else {
            panic!("no burst")
        };
        let sent = |seconds: f64| burst.bytes as f64 + rate.get() as f64 * seconds;
        assert!((sent(1.0) / 369e6 - 1.0).abs() < 0.01, "{}", sent(1.0));
        assert!((sent(10.0) / 1_065e6 - 1.0).abs() < 0.01, "{}", sent(10.0));
    }

    #[test]
    fn what_a_link_does_not_know_is_named_and_nothing_at_all_is_an_error() {
        let all = ModelCatalogue::current();
        let standard = Replay::of(all.service("s3-standard").unwrap()).unwrap();
        assert!(standard.wait.is_some() && standard.rate.is_none() && standard.per_connection.is_some());
        assert!(standard.left_out.contains(&"operations.total".to_owned()), "{:?}", standard.left_out);
        let lustre = Replay::of(all.service("fsx-scratch-2").unwrap()).unwrap();
        assert!(lustre.left_out.iter().any(|what| what.contains("capacity")), "{:?}", lustre.left_out);
        let mut slow = all.service("s3-standard").unwrap().clone();
        slow.latency.first_byte.as_mut().unwrap().p50.0 = 9e18 * 86_400.0;
        let error = Replay::of(&slow).unwrap_err().to_string();
        assert!(error.contains("latency.first_byte: longer than a day"), "{error}");
        let mut slow = all.service("s3-standard").unwrap().clone();
        slow.rates.connection.as_mut().unwrap().rate.0 = 0.4;
        let error = Replay::of(&slow).unwrap_err().to_string();
        assert!(error.contains("rates.connection: less than one byte"), "{error}");
        let mut empty = all.service("s3-standard").unwrap().clone();
        (empty.latency, empty.rates) = Default::default();
        let error = Replay::of(&empty).unwrap_err().to_string();
        assert!(error.contains("s3-standard") && error.contains("latency.first_byte"), "{error}");
    }
}
