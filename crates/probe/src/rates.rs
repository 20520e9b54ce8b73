//! Measures rates: of one connection, of each number of connections, and after a burst has ended.
//!
//! A single load runs through all steps, so the bucket of a burst is accounted for from its first
//! byte.

use std::thread;
use std::time::Duration;

use firstbyte_store::Store;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::ledger::Ledger;
use crate::load::{RangeRead, Streams};
use crate::part::PartEnd;
use crate::readable_objects::Samples;
use crate::timeline::{self, BIN_DURATION, Timeline};

/// Share of the time in which a single connection is measured.
const CONNECTION_PART: f64 = 0.05;
/// Share of the time in which each number of connections is measured.
const STEP_PART: f64 = 0.025;
/// Share of the time in which the highest rate is observed.
const WATCH_PART: f64 = 0.15;

/// Share of the time that later parts need: small requests, small files and the disk.
const AFTER_RATES_PART: f64 = 0.35;

/// Shortest duration of a step. It is enough for several ranges per connection.
const SHORTEST_STEP: Duration = Duration::from_millis(300);

/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 64;

/// Factor by which a step must exceed all earlier steps. If it does not, more connections do not
/// help.
const MIN_GAIN: f64 = 1.1;

/// Shortest time of a stream, in seconds, that shows the rate of a connection.
const MIN_STREAM_SECONDS: f64 = 0.1;

/// Share of all processors from which this process may be the limit.
const BUSY_SHARE: f64 = 0.9;

/// The total rate with one number of connections.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RampStep {
    /// Number of connections.
    pub connections: usize,
    /// Bytes per second.
    pub rate: f64,
}

/// A burst that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EndedBurst {
    /// Bytes per second during the burst.
    pub rate: f64,
    /// Number of bytes of the burst above the rate that follows the burst.
    pub bucket: f64,
}

/// The rates of a location, in bytes per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProbedRates {
    /// Rate of one connection, from its first byte on.
    pub connection: f64,
    /// The total rates, by number of connections.
    pub steps: Vec<RampStep>,
    /// Rate of all connections together, after the burst. If no burst ended: the mean rate while
    /// the highest number of connections was observed.
    pub total: f64,
    /// True if more connections did not raise the rate, or if a burst ended.
    pub full: bool,
    /// The burst, if one ended.
    pub burst: Option<EndedBurst>,
    /// Seconds for which the highest number of connections was observed.
    pub watched: f64,
    /// True if the processors of this machine were busy and may be the limit.
    pub busy: bool,
    /// The reason why the measurement ended early, if it did.
    pub ended: Option<String>,
}

impl ProbedRates {
    /// Returns the highest rate that was seen.
    #[must_use]
    pub fn highest(&self) -> f64 {
        let steps = self.steps.iter().map(|step| step.rate);
        let burst = self.burst.map(|burst| burst.rate);
        steps.chain(burst).chain([self.connection, self.total]).fold(0.0, f64::max)
    }

    /// Returns the number of connections that suffices for almost the highest rate.
    #[must_use]
    pub fn enough(&self) -> usize {
        let highest = self.steps.iter().map(|step| step.rate).fold(0.0, f64::max);
        self.steps.iter().find(|step| step.rate * MIN_GAIN >= highest).map_or(1, |step| step.connections)
    }
}

/// Measures the rates. If none was seen, there is only the reason.
pub(crate) fn measure(
    store: &Store,
    samples: &Samples,
    ledger: &Ledger<'_>,
    timeline: &Timeline,
    settle: Duration,
) -> (Option<ProbedRates>, Option<PartEnd>) {
    let streams = Streams::new(store, samples, ledger, timeline);
    let mut rates = ProbedRates::default();
    thread::scope(|scope| {
        let from = timeline.now() + 1;
        streams.raise(1, scope);
        streams.wait(ledger.part(CONNECTION_PART).max(SHORTEST_STEP));
        rates.connection = connection_rate(&streams.streams(), timeline.mean(from, timeline.now()));
        let mut at_once = 1;
        let mut highest: f64 = 0.0;
        let mut without_gain = 0;
        while !streams.has_ended()
            && without_gain < 2
            && at_once <= MAX_CONNECTIONS
            && (at_once == 1 || !ledger.left_before(AFTER_RATES_PART).is_zero())
        {
            streams.raise(at_once, scope);
            // The first connection is already running.
            streams.wait(if at_once == 1 { Duration::ZERO } else { settle });
            let from = timeline.now() + 1;
            streams.wait(ledger.part(STEP_PART).max(SHORTEST_STEP));
            let rate = timeline.mean(from, timeline.now());
            if streams.has_ended() && timeline.now() < from + 5 {
                break;
            }
            rates.steps.push(RampStep { connections: at_once, rate });
            without_gain = if rate < MIN_GAIN * highest { without_gain + 1 } else { 0 };
            highest = highest.max(rate);
            at_once *= 2;
        }
        // A load that was ended early shows no limit of the place.
        rates.full = without_gain > 0 && !streams.has_ended();
        let (from, cpu) = (timeline.now() + 1, cpu_seconds());
        streams.wait(ledger.part(WATCH_PART).min(ledger.left_before(AFTER_RATES_PART)));
        rates.watched = (timeline.now().saturating_sub(from)) as f64 * BIN_DURATION.as_secs_f64();
        let processors = thread::available_parallelism().map_or(1.0, |count| count.get() as f64);
        rates.busy = rates.watched > 0.0 && (cpu_seconds() - cpu) / rates.watched > BUSY_SHARE * processors;
        let last = timeline.now();
        streams.end();
        set_levels(&mut rates, &timeline.rates(0, last), from);
    });
    let end = streams.take_end().or_else(|| ledger.remaining().is_zero().then_some(PartEnd::Time));
    rates.ended = end.as_ref().map(ToString::to_string);
    // The rates measured until the end are still valid.
    ((rates.connection > 0.0).then_some(rates), end)
}

/// Sets the total rate, and the burst before it. `watched` is the first bin in which the highest
/// number of connections was observed.
fn set_levels(rates: &mut ProbedRates, bins: &[f64], watched: usize) {
    let start = timeline::peak(bins);
    let tail = bins.get(watched.max(start)..).filter(|tail| !tail.is_empty());
    let steps = rates.steps.iter().map(|step| step.rate).fold(0.0, f64::max);
    rates.total = tail.map_or(steps, timeline::mean);
    let Some(fall) = timeline::fall(&bins[start..]) else { return };
    rates.total = fall.after;
    rates.full = true;
    let bucket = timeline::drained_bytes(&bins[..start + fall.at], fall.after);
    rates.burst = Some(EndedBurst { rate: fall.before, bucket });
}

/// Returns the rate of one connection: the upper quartile of the rates of long ranges. Some ranges
/// may be slower, because a burst has ended. If the objects are too small for long ranges, returns
/// `mean`, the rate over the whole time.
fn connection_rate(streams: &[RangeRead], mean: f64) -> f64 {
    let mut rates: Vec<f64> =
        streams.iter().filter(|one| one.seconds >= MIN_STREAM_SECONDS).map(|one| one.rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() * 3 / 4).copied().unwrap_or(mean)
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(connections: usize, rate: f64) -> RampStep {
        RampStep { connections, rate }
    }

    #[test]
    fn enough_connections_are_the_fewest_that_reach_the_highest_rate() {
        let steps = vec![step(1, 40e6), step(8, 320e6), step(16, 398e6), step(32, 402e6)];
        assert_eq!(ProbedRates { steps, ..ProbedRates::default() }.enough(), 16);
        assert_eq!(ProbedRates::default().enough(), 1);
    }

    #[test]
    fn short_ranges_give_no_rate_of_a_connection() {
        let stream = |rate, seconds| RangeRead { rate, seconds };
        assert_eq!(connection_rate(&[stream(5e9, 0.001)], 80e6), 80e6);
        assert_eq!(connection_rate(&[stream(5e9, 0.001), stream(40e6, 0.5)], 38e6), 40e6);
    }

    #[test]
    fn a_burst_sets_the_rate_that_follows_and_its_bucket() {
        let mut rates = ProbedRates { steps: vec![step(1, 600e6)], ..ProbedRates::default() };
        let bins: Vec<f64> = [600e6; 100].into_iter().chain([100e6; 400]).collect();
        set_levels(&mut rates, &bins, 150);
        assert!((rates.total - 100e6).abs() < 1.0 && rates.full);
        let burst = rates.burst.unwrap();
        assert!((burst.rate - 600e6).abs() < 1.0 && (burst.bucket - 1e9).abs() < 1e3, "{burst:?}");
    }

    #[test]
    fn without_a_fall_the_watched_rate_is_the_total_rate() {
        let mut rates = ProbedRates { steps: vec![step(1, 40e6), step(2, 80e6)], ..ProbedRates::default() };
        let bins: Vec<f64> = [40e6; 100].into_iter().chain([80e6; 100]).collect();
        set_levels(&mut rates, &bins, 120);
        assert_eq!((rates.total, rates.burst, rates.full), (80e6, None, false));
    }
}
