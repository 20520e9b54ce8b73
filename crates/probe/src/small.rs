//! Measures small requests: their latency, the number of requests per second, and the number of
//! small files per second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use firstbyte_location::ByteRange;
use firstbyte_store::Store;
use serde::Serialize;

use crate::error::Result;
use crate::ledger::Ledger;
use crate::load::{LoadPattern, Operation, Repeated, repeat};
use crate::part::PartEnd;
use crate::quantiles::Quantiles;
use crate::readable_objects::{Sample, Samples};

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

/// Times single requests, one at a time on each of a few connections. Returns the reason of an
/// early end as well.
pub(crate) fn latencies(
    store: &Store,
    samples: &Samples,
    ledger: &Ledger<'_>,
) -> (ProbedLatencies, Option<PartEnd>) {
    let until = Instant::now() + ledger.part(SEQUENTIAL_PART);
    if samples.openable().iter().any(|sample| sample.location.as_local().is_some()) {
        return file_latencies(samples, ledger, until);
    }
    let stop = AtomicBool::new(false);
    let work = || {
        let (times, end) = time_requests(store, samples, ledger, (until, &stop));
        stop.fetch_or(end.is_some(), Ordering::Relaxed);
        (times, end)
    };
    let timed: Vec<_> = thread::scope(|scope| {
        let waiters: Vec<_> = (0..TIMING_CONNECTIONS).map(|_| scope.spawn(work)).collect();
        waiters.into_iter().map(|waiter| waiter.join().expect("no panic")).collect()
    });
    let (times, ends): (Vec<_>, Vec<_>) = timed.into_iter().unzip();
    let first_byte = Quantiles::of(times.concat());
    (ProbedLatencies { first_byte, open: None }, ends.into_iter().flatten().next())
}

/// Times the first blocks of local files, and opening them.
fn file_latencies(
    samples: &Samples,
    ledger: &Ledger<'_>,
    until: Instant,
) -> (ProbedLatencies, Option<PartEnd>) {
    let (mut times, mut opens, mut end) = (Vec::new(), Vec::new(), None);
    for sample in samples.openable().into_iter().take(MAX_TIMED) {
        // At least one file is timed, even at a very slow location.
        if !opens.is_empty() && Instant::now() >= until {
            break;
        }
        if ledger.is_interrupted() {
            end = Some(PartEnd::Interrupted);
            break;
        }
        match sample.judge(sample.first_block().and_then(|first| Ok((first, sample.open_only()?)))) {
            Ok(Some((first, open))) => {
                times.extend(Some(first).filter(|_| sample.size > 0));
                opens.push(open);
            }
            Ok(None) => {}
            Err(reason) => {
                end = Some(reason);
                break;
            }
        }
    }
    (ProbedLatencies { first_byte: Quantiles::of(times), open: Quantiles::of(opens) }, end)
}

/// Times requests one after another on one connection. Returns the seconds of each, except the
/// first, which also connects.
fn time_requests(
    store: &Store,
    samples: &Samples,
    ledger: &Ledger<'_>,
    (until, stop): (Instant, &AtomicBool),
) -> (Vec<f64>, Option<PartEnd>) {
    let mut times = Vec::new();
    let mut connected = false;
    // At least one request is timed, even at a very slow location.
    while times.len() < MAX_TIMED && (times.is_empty() || Instant::now() < until) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        if ledger.remaining().is_zero() {
            return (times, Some(PartEnd::Time));
        }
        let Some(one) = samples.large().first().copied() else {
            return (times, Some(PartEnd::Failed("no object can be read".into())));
        };
        match one.judge(time_read(store, one)) {
            Ok(Some(read)) if connected => times.push(read.seconds),
            Ok(Some(_)) => connected = true,
            Ok(None) => {}
            Err(end) => return (times, Some(end)),
        }
    }
    (times, None)
}

/// A request that was timed to its first byte.
pub(crate) struct TimedRead {
    pub(crate) seconds: f64,
    /// True if the server sent the range, false if it sent the whole object instead.
    pub(crate) in_range: bool,
}

/// Times a request to its first byte.
pub(crate) fn time_read(store: &Store, sample: &Sample) -> Result<TimedRead> {
    let began = Instant::now();
    let mut body = sample.open(store, ByteRange::new(0, TIMED_BYTES.min(sample.size)))?;
    body.read(&mut [0; TIMED_BYTES as usize])?;
    let seconds = began.elapsed().as_secs_f64();
    // The end of the body returns the connection. A server without ranges sends the whole object,
    // which is not read.
    let in_range = body.range().len() <= TIMED_BYTES;
    if in_range {
        body.read(&mut [0; 1])?;
    }
    Ok(TimedRead { seconds, in_range })
}

/// Measures small requests per second; for local files, opens per second.
pub(crate) fn ceiling(store: &Store, samples: &Samples, ledger: &Ledger<'_>, wait: f64) -> ClimbResult {
    let all = samples.openable();
    let operation = |number: usize| {
        let sample = pick(&all, number)?;
        let local = sample.location.as_local().is_some();
        sample.judge(if local { sample.open_only().map(drop) } else { time_read(store, sample).map(drop) })
    };
    climb(ledger, (wait, AFTER_CEILING_PART), &operation)
}

/// Measures small files read whole per second.
pub(crate) fn small_files(store: &Store, samples: &Samples, ledger: &Ledger<'_>, wait: f64) -> ClimbResult {
    let small = samples.small();
    if small.is_empty() {
        return (None, Some(PartEnd::Failed("there are none".into())));
    }
    let operation = |number: usize| {
        let sample = pick(&small, number)?;
        sample.judge(read_whole(store, sample))
    };
    climb(ledger, (wait, AFTER_FILES_PART), &operation)
}

/// Returns the object of a repetition: its own, or the next one that can be read.
fn pick<'s>(all: &[&'s Sample], number: usize) -> std::result::Result<&'s Sample, PartEnd> {
    let start = number % all.len().max(1);
    let mut turn = all.iter().cycle().skip(start).take(all.len());
    turn.find(|sample| !sample.is_lost())
        .copied()
        .ok_or_else(|| PartEnd::Failed("no object can be read".into()))
}

fn read_whole(store: &Store, sample: &Sample) -> Result<()> {
    let mut body = sample.open(store, ByteRange::new(0, sample.size))?;
    let mut buffer = [0; 64 << 10];
    while body.read(&mut buffer)? > 0 {}
    Ok(())
}

/// The highest rate of operations, and the reason of an early end.
pub(crate) type ClimbResult = (Option<Ceiling>, Option<PartEnd>);

/// Doubles the concurrency until the rate stops rising, an operation is refused, or only the time
/// for later steps remains.
fn climb(ledger: &Ledger<'_>, (wait, after): (f64, f64), operation: &Operation<'_>) -> ClimbResult {
    let warm = Duration::from_secs_f64((2.5 * wait).min(2.0));
    let (mut best, mut at_once): (Option<Ceiling>, usize) = (None, 1);
    while at_once <= MAX_AT_ONCE && (at_once == 1 || !ledger.left_before(after).is_zero()) {
        let time = ledger.part(STEP_PART).max(SHORTEST_STEP).max(Duration::from_secs_f64(5.0 * wait));
        let Repeated { per_second, end } = repeat(ledger, LoadPattern { at_once, warm, time }, operation);
        let throttled = end == Some(PartEnd::Throttled);
        let highest = best.map_or(0.0, |best| best.per_second);
        if per_second > highest {
            best = Some(Ceiling { per_second, at_once, reached: false, throttled });
        }
        // A step that was ended early shows no limit, except by a refusal.
        let reached = throttled || end.is_none() && per_second < MIN_GAIN * highest;
        if let Some(best) = best.as_mut().filter(|_| reached) {
            (best.reached, best.throttled) = (true, throttled);
        }
        if reached || end.is_some() {
            return (best, end);
        }
        at_once *= 2;
    }
    (best, None)
}
