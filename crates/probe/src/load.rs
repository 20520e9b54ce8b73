//! Puts load on a location with several workers: streams of large ranges, and many small
//! operations.
//!
//! Workers complete their current request before they stop, so the server and the ledger count the
//! same bytes. If an operation is throttled, the load ends and reports that, because a probe must
//! not insist.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use firstbyte_store::{FailureKind, Store};
use rustix_futex_sync::Mutex;

use crate::error::{Error, Result};
use crate::ledger::Ledger;
use crate::place::{BUFFER, Sample, SampleRange, Samples};
use crate::timeline::Timeline;

/// Interval at which idle workers and waiting threads check for changes.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Length of the first range of a stream, in bytes: one second at 1 MB/s.
const FIRST_RANGE: u64 = 1 << 20;

/// Length of the first read of a range, in bytes.
const FIRST_READ_BYTES: usize = 4 << 10;

/// Maximum length of a range, in bytes.
const MAX_RANGE: u64 = 64 << 20;

/// Time that a range should take, in seconds: much longer than the wait for its first byte, and
/// much shorter than a step of the measurement.
const RANGE_SECONDS: f64 = 0.5;

/// A range that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RangeRead {
    /// Bytes per second, from the first byte of the range to the last.
    pub(crate) rate: f64,
    /// Seconds from the first byte of the range to the last.
    pub(crate) seconds: f64,
}

/// Workers that read ranges. Each worker reads one range after another.
pub(crate) struct Streams<'a> {
    pub(crate) store: &'a Store,
    pub(crate) samples: &'a Samples,
    pub(crate) large: Vec<&'a Sample>,
    pub(crate) ledger: &'a Ledger<'a>,
    pub(crate) timeline: &'a Timeline,
    /// Number of workers that may begin a request.
    active: AtomicUsize,
    started: AtomicUsize,
    length: AtomicU64,
    ended: AtomicBool,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    streams: Vec<RangeRead>,
    error: Option<Error>,
}

impl<'a> Streams<'a> {
    pub(crate) fn new(
        store: &'a Store,
        samples: &'a Samples,
        ledger: &'a Ledger<'a>,
        timeline: &'a Timeline,
    ) -> Self {
        Self {
            store,
            samples,
            large: samples.large(),
            ledger,
            timeline,
            active: AtomicUsize::new(0),
            started: AtomicUsize::new(0),
            length: AtomicU64::new(FIRST_RANGE),
            ended: AtomicBool::new(false),
            found: Mutex::default(),
        }
    }

    /// Lets `workers` workers read. Starts those that do not run yet.
    pub(crate) fn raise<'s>(&'s self, workers: usize, scope: &'s Scope<'s, '_>) {
        self.active.store(workers, Ordering::Relaxed);
        for number in self.started.fetch_max(workers, Ordering::Relaxed)..workers {
            scope.spawn(move || self.work(number));
        }
    }

    /// Stops the workers after their current ranges.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Returns true if the load has ended, because of the budget or a failure.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Waits for `time`, or less if the load ends sooner.
    pub(crate) fn wait(&self, time: Duration) {
        let until = Instant::now() + time;
        while !self.has_ended() && Instant::now() < until {
            thread::sleep(POLL_INTERVAL.min(until.saturating_duration_since(Instant::now())));
        }
    }

    /// Returns all ranges that were read so far.
    pub(crate) fn streams(&self) -> Vec<RangeRead> {
        self.found.lock().streams.clone()
    }

    /// Takes the failure that ended the load, if there was one.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.found.lock().error.take()
    }

    fn work(&self, number: usize) {
        let mut buffer = vec![0; BUFFER];
        while !self.has_ended() {
            if number >= self.active.load(Ordering::Relaxed) {
                thread::sleep(POLL_INTERVAL);
                continue;
            }
            match self.read_one(&mut buffer) {
                Ok(true) => {}
                Ok(false) => self.end(),
                Err(error) => {
                    self.found.lock().error.get_or_insert(error);
                    self.end();
                }
            }
        }
    }

    /// Reads one range. Returns false if the budget does not allow it.
    fn read_one(&self, buffer: &mut [u8]) -> Result<bool> {
        let length = self.length.load(Ordering::Relaxed);
        let Some(SampleRange { sample, range }) = self.samples.next(&self.large, length) else {
            return Ok(false);
        };
        let usd = self.ledger.read(range.len() as f64);
        let Some(_reserved) = self.ledger.reserve(usd) else { return Ok(false) };
        let began = Instant::now();
        let mut body = sample.open(self.store, range)?;
        // The first bytes are read separately. So even at a very fast location, some bytes remain
        // to be timed.
        let head = body.read(&mut buffer[..FIRST_READ_BYTES])?;
        let first = Instant::now();
        self.timeline.add(head);
        let mut rest = 0;
        loop {
            let read = body.read(buffer)?;
            if read == 0 {
                break;
            }
            self.timeline.add(read);
            rest += read;
        }
        let (bytes, since) = if rest > 0 { (rest, first) } else { (head, began) };
        let seconds = since.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
        let stream = RangeRead { rate: bytes as f64 / seconds, seconds };
        self.found.lock().streams.push(stream);
        let fitting = (stream.rate * RANGE_SECONDS) as u64;
        self.length.store(fitting.clamp(FIRST_RANGE, (2 * length).min(MAX_RANGE)), Ordering::Relaxed);
        Ok(true)
    }
}

/// The result of repeating a small operation concurrently.
pub(crate) struct Repeated {
    /// Operations per second after the warm-up.
    pub(crate) per_second: f64,
    /// True if the server refused an operation because of the rate.
    pub(crate) throttled: bool,
    /// True if the budget ended the operations.
    pub(crate) spent: bool,
}

/// The concurrency, the duration and the price of repeated operations.
#[derive(Clone, Copy)]
pub(crate) struct LoadPattern {
    pub(crate) at_once: usize,
    /// Duration of the warm-up, in which connections are opened and nothing is counted.
    pub(crate) warm: Duration,
    pub(crate) time: Duration,
    /// Price of an operation, in dollars.
    pub(crate) usd: f64,
}

/// Repeats `operation`. The argument of `operation` is the number of the repetition.
///
/// # Errors
/// Any failure other than throttling.
pub(crate) fn repeat(
    ledger: &Ledger<'_>,
    pattern: LoadPattern,
    operation: &(dyn Fn(usize) -> Result<()> + Sync),
) -> Result<Repeated> {
    let (began, next) = (Instant::now(), AtomicUsize::new(0));
    let (throttled, spent) = (AtomicBool::new(false), AtomicBool::new(false));
    let until = began + pattern.warm + pattern.time;
    let work = || -> Result<Vec<f64>> {
        let mut done = Vec::new();
        while Instant::now() < until && !throttled.load(Ordering::Relaxed) {
            let Some(_reserved) = ledger.reserve(pattern.usd) else {
                spent.store(true, Ordering::Relaxed);
                break;
            };
            match operation(next.fetch_add(1, Ordering::Relaxed)) {
                Ok(()) => done.push(began.elapsed().as_secs_f64()),
                Err(error) if error.kind() == FailureKind::Throttled => {
                    throttled.store(true, Ordering::Relaxed);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    };
    let all = thread::scope(|scope| {
        let workers: Vec<_> = (0..pattern.at_once).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("workers do not panic"))
            .collect::<Result<Vec<_>>>()
    })?;
    let warm = pattern.warm.as_secs_f64();
    let counted: Vec<f64> = all.into_iter().flatten().filter(|ended| *ended >= warm).collect();
    let last = counted.iter().copied().fold(warm, f64::max);
    Ok(Repeated {
        per_second: if last > warm { counted.len() as f64 / (last - warm) } else { 0.0 },
        throttled: throttled.into_inner(),
        spent: spent.into_inner(),
    })
}
