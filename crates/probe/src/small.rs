//! Measures small requests: their latency, the number of requests per second, and the number of
//! small files per second.

use std::thread;
use std::time::{Duration, Instant};

use firstbyte_location::ByteRange;
use firstbyte_store::Store;
use serde::Serialize;

use crate::error::Result;
use crate::ledger::Ledger;
use crate::load::{LoadPattern, Repeated, repeat};
use crate::place::{Sample, Samples};
use crate::quantiles::Quantiles;

/// Length of a timed request, in bytes. A byte arrives together with the head of the response.
const TIMED_BYTES: u64 = 1;

/// Share of the time in which requests are sent one after another.
const SEQUENTIAL_PART: f64 = 0.08;
/// Share of the time in which each number of concurrent requests is measured.
const STEP_PART: f64 = 0.01;

/// Number of connections on which requests are timed. Each connection sends one request after
/// another. There are so few connections that no request waits for another. A few connections are
/// enough for a steady median within a minute.
const TIMING_CONNECTIONS: usize = 8;

/// Maximum number of timed requests per connection; for local files, of timed files.
const MAX_TIMED: usize = 200;

/// Maximum number of concurrent requests: the usual number of a client's connections.
const MAX_AT_ONCE: usize = 64;

/// Share of the time that small files and the disk need after the ceiling.
const AFTER_CEILING_PART: f64 = 0.18;
/// Share of the time that the disk needs after the small files.
const AFTER_FILES_PART: f64 = 0.05;

/// Shortest duration of a step.
const SHORTEST_STEP: Duration = Duration::from_millis(250);

/// Factor by which a step must exceed all earlier steps. If it does not, the ceiling is reached.
const MIN_GAIN: f64 = 1.1;

/// The highest number of operations per second, and the concurrency that reached it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ceiling {
    /// Operations per second.
    pub per_second: f64,
    /// Number of operations in flight.
    pub at_once: usize,
    /// True if more operations in flight gave no higher rate, or were refused.
    pub reached: bool,
    /// True if the location refused some operations because of the rate.
    pub throttled: bool,
}

/// The latencies of single operations, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ProbedLatencies {
    /// Time from a request to its first byte. For a file: time to read its first block.
    pub first_byte: Option<Quantiles>,
    /// Time to open and close a file.
    pub open: Option<Quantiles>,
}

/// Times single requests. Each of a few connections sends one request at a time.
pub(crate) fn latencies(store: &Store, samples: &Samples, ledger: &Ledger<'_>) -> Result<ProbedLatencies> {
    let Some(one) = samples.large().first().copied() else { return Ok(ProbedLatencies::default()) };
    let (until, mut times) = (Instant::now() + ledger.part(SEQUENTIAL_PART), Vec::new());
    if one.location.as_local().is_some() {
        let all = samples.all.iter().filter(|sample| sample.size > 0).take(MAX_TIMED);
        let mut opens = Vec::new();
        for sample in all.take_while(|_| Instant::now() < until) {
            times.push(sample.first_block()?);
            opens.push(sample.open_only()?);
        }
        return Ok(ProbedLatencies { first_byte: Quantiles::of(times), open: Quantiles::of(opens) });
    }
    let timed = thread::scope(|scope| {
        let waiters: Vec<_> = (0..TIMING_CONNECTIONS)
            .map(|_| scope.spawn(|| sequential_times(store, one, ledger, until)))
            .collect();
        waiters.into_iter().map(|waiter| waiter.join().expect("no panic")).collect::<Result<Vec<_>>>()
    })?;
    Ok(ProbedLatencies { first_byte: Quantiles::of(timed.concat()), open: None })
}

/// Times requests one after another on one connection. Returns the time of each, in seconds.
fn sequential_times(store: &Store, one: &Sample, ledger: &Ledger<'_>, until: Instant) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    let mut connected = false;
    // At least one request is timed, even at a very slow location.
    while times.len() < MAX_TIMED && (times.is_empty() || Instant::now() < until) {
        let Some(_reserved) = ledger.reserve(ledger.read(TIMED_BYTES as f64)) else { break };
        let seconds = time_first_byte(store, one)?;
        if connected {
            times.push(seconds);
        }
        connected = true;
    }
    Ok(times)
}

/// Returns the time from a request to its first byte, in seconds.
fn time_first_byte(store: &Store, sample: &Sample) -> Result<f64> {
    let began = Instant::now();
    let mut body = sample.open(store, ByteRange::new(0, TIMED_BYTES.min(sample.size)))?;
    let mut byte = [0; 1];
    while body.read(&mut byte)? > 0 {}
    Ok(began.elapsed().as_secs_f64())
}

/// Measures the number of small requests per second; for local files, of opens per second.
pub(crate) fn ceiling(
    store: &Store,
    samples: &Samples,
    ledger: &Ledger<'_>,
    wait: f64,
) -> Result<Option<Ceiling>> {
    let all: Vec<&Sample> = samples.all.iter().filter(|sample| sample.size > 0).collect();
    if all.is_empty() {
        return Ok(None);
    }
    let usd = ledger.read(TIMED_BYTES as f64);
    let operation = |number: usize| {
        let sample = all[number % all.len()];
        if sample.location.as_local().is_some() { sample.open_only() } else { time_first_byte(store, sample) }
            .map(drop)
    };
    climb(ledger, (wait, AFTER_CEILING_PART), usd, &operation)
}

/// Measures the number of small files read per second.
pub(crate) fn small_files(
    store: &Store,
    samples: &Samples,
    ledger: &Ledger<'_>,
    wait: f64,
) -> Result<Option<Ceiling>> {
    let small = samples.small();
    if small.is_empty() {
        return Ok(None);
    }
    let bytes = small.iter().map(|sample| sample.size).max().unwrap_or(0) as f64;
    let usd = ledger.read(bytes);
    let operation = |number: usize| {
        let sample = small[number % small.len()];
        let mut body = sample.open(store, ByteRange::new(0, sample.size))?;
        let mut buffer = [0; 64 << 10];
        while body.read(&mut buffer)? > 0 {}
        Ok(())
    };
    climb(ledger, (wait, AFTER_FILES_PART), usd, &operation)
}

/// Doubles the concurrency until the rate stops rising, an operation is refused, or only the time
/// for later steps remains.
fn climb(
    ledger: &Ledger<'_>,
    (wait, after): (f64, f64),
    usd: f64,
    operation: &(dyn Fn(usize) -> Result<()> + Sync),
) -> Result<Option<Ceiling>> {
    let warm = Duration::from_secs_f64((2.5 * wait).min(2.0));
    let (mut best, mut at_once): (Option<Ceiling>, usize) = (None, 1);
    while at_once <= MAX_AT_ONCE && (at_once == 1 || !ledger.left_before(after).is_zero()) {
        let time = ledger.part(STEP_PART).max(SHORTEST_STEP).max(Duration::from_secs_f64(5.0 * wait));
        let found = repeat(ledger, LoadPattern { at_once, warm, time, usd }, operation)?;
        let Repeated { per_second, throttled, spent, .. } = found;
        let highest = best.map_or(0.0, |best| best.per_second);
        if per_second > highest {
            best = Some(Ceiling { per_second, at_once, reached: false, throttled });
        }
        let reached = throttled || per_second < MIN_GAIN * highest;
        if let Some(best) = best.as_mut().filter(|_| reached) {
            (best.reached, best.throttled) = (true, throttled);
        }
        if reached || spent {
            break;
        }
        at_once *= 2;
    }
    Ok(best)
}
