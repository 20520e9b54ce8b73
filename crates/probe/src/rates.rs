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

/// Smallest share of the time of all ranges that must be left without the waits for first bytes.
/// With less, the waits decide, and there is no rate to see.
const MIN_TRANSFER_SHARE: f64 = 0.25;

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
    wait: f64,
) -> (Option<ProbedRates>, Option<PartEnd>) {
    let streams = Streams::new(store, samples, ledger, timeline);
    let settle = Duration::from_secs_f64((3.0 * wait + 0.1).min(2.0));
    let mut rates = ProbedRates::default();
    let (mut first, mut mean) = (Vec::new(), 0.0);
    thread::scope(|scope| {
        let from = timeline.now() + 1;
        streams.raise(1, scope);
        streams.wait(ledger.part(CONNECTION_PART).max(SHORTEST_STEP));
        (first, mean) = (streams.streams(), timeline.mean(from, timeline.now()));
        if is_mostly_waiting(&first) {
            streams.end();
            return;
        }
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
    if is_mostly_waiting(&first) {
        let too_small = "no object is large enough, the waits for first bytes decide; name a larger one";
        return (None, end.or_else(|| Some(PartEnd::Failed(too_small.to_owned()))));
    }
    // At a very slow location not even the first range has ended.
    let seen = || connection_rate(&first, rates.burst.is_some());
    rates.connection = if first.is_empty() { mean } else { seen() };
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

/// Returns true if `ranges`, read one after another, took their time for the first bytes.
fn is_mostly_waiting(ranges: &[RangeRead]) -> bool {
    let sum = |seconds: fn(&RangeRead) -> f64| ranges.iter().map(seconds).sum::<f64>();
    sum(|range| range.transfer) < MIN_TRANSFER_SHARE * sum(|range| range.whole)
}

/// Returns the rate of one connection: all bytes by all seconds of the long ranges, whose content
/// did not arrive with their first bytes. If most bytes came in short ranges, the long ones are
/// those that were held up, so all ranges count. If a burst ended meanwhile, returns the upper
/// quartile of the long ranges: the rate before its end.
fn connection_rate(ranges: &[RangeRead], burst_ended: bool) -> f64 {
    let bytes = |ranges: &[RangeRead]| ranges.iter().map(RangeRead::bytes).sum::<f64>();
    let long: Vec<RangeRead> =
        ranges.iter().filter(|range| range.seconds >= MIN_STREAM_SECONDS).copied().collect();
    if 2.0 * bytes(&long) < bytes(ranges) {
        let seconds: f64 = ranges.iter().map(|range| range.seconds).sum();
        return bytes(ranges) / seconds;
    }
    if burst_ended {
        let mut rates: Vec<f64> = long.iter().map(|range| range.rate).collect();
        rates.sort_by(f64::total_cmp);
        return rates.get(rates.len() * 3 / 4).copied().unwrap_or(0.0);
    }
    let seconds: f64 = long.iter().map(|range| range.seconds).sum();
    if seconds > 0.0 { bytes(&long) / seconds } else { 0.0 }
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

    /// Returns a range of `seconds` after a wait of 0.03 s.
    fn range(rate: f64, seconds: f64) -> RangeRead {
        RangeRead { rate, seconds, transfer: seconds, whole: seconds + 0.03 }
    }

    #[test]
    fn short_ranges_do_not_count_beside_long_ones() {
        let ranges = [range(5e9, 0.001), range(40e6, 0.5), range(20e6, 0.5)];
        assert_eq!(connection_rate(&ranges, false).round(), 30e6);
        assert_eq!(connection_rate(&ranges, true), 40e6);
        assert_eq!(connection_rate(&[], false), 0.0);
    }

    #[test]
    fn one_range_that_was_held_up_is_not_the_rate_of_a_connection() {
        // 20 MB come in 17 ms, and once in a quarter of a second.
        let mut ranges = vec![range(1.2e9, 0.017); 50];
        ranges.push(range(80e6, 0.25));
        let rate = connection_rate(&ranges, false);
        assert!((0.8e9..1.2e9).contains(&rate), "{rate}");
    }

    #[test]
    fn small_objects_show_waits_and_no_rate() {
        let small = vec![RangeRead { rate: 0.3e6, seconds: 0.034, transfer: 0.0, whole: 0.034 }; 40];
        assert!(is_mostly_waiting(&small) && !is_mostly_waiting(&[]));
        assert!(!is_mostly_waiting(&[range(90e6, 0.011)]));
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
