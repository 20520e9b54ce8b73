//! Puts load on a location with several workers: streams of large ranges, and many small
//! operations.
//!
//! Workers complete their current request before they stop, so server and ledger count the same
//! bytes. A throttled request ends the load and is reported, because a probe must not add to the
//! load of a busy server. An object that cannot be read is skipped.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use firstbyte_store::Store;
use rustix_futex_sync::Mutex;

use crate::error::Result;
use crate::ledger::Ledger;
use crate::part::PartEnd;
use crate::readable_objects::{READ_BYTES, SampleRange, Samples};
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
    /// Bytes per second after the first read of the range. If that read brings the whole range:
    /// bytes per second from the request on.
    pub(crate) rate: f64,
    /// The seconds of this rate.
    pub(crate) seconds: f64,
    /// The seconds from the first read to the last byte; 0 if the first read brought everything.
    pub(crate) transfer: f64,
    /// The seconds from the request to the last byte.
    pub(crate) whole: f64,
}

impl RangeRead {
    /// Returns the bytes of this rate.
    pub(crate) fn bytes(&self) -> f64 {
        self.rate * self.seconds
    }
}

/// Workers that read ranges. Each worker reads one range after another.
pub(crate) struct Streams<'a> {
    pub(crate) store: &'a Store,
    pub(crate) samples: &'a Samples,
    pub(crate) ledger: &'a Ledger<'a>,
    pub(crate) timeline: &'a Timeline,
    /// Number of workers that may begin a request.
    active: AtomicUsize,
    started: AtomicUsize,
    length: AtomicU64,
    ended: AtomicBool,
    found: Mutex<StreamResults>,
}

#[derive(Default)]
struct StreamResults {
    streams: Vec<RangeRead>,
    end: Option<PartEnd>,
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

    /// Takes the reason that ended the load early.
    pub(crate) fn take_end(&self) -> Option<PartEnd> {
        self.found.lock().end.take()
    }

    fn work(&self, number: usize) {
        let mut buffer = vec![0; READ_BYTES];
        while !self.has_ended() {
            if number >= self.active.load(Ordering::Relaxed) {
                thread::sleep(POLL_INTERVAL);
                continue;
            }
            if let Err(end) = self.read_next(&mut buffer) {
                self.found.lock().end.get_or_insert(end);
                self.end();
            }
        }
    }

    /// Reads the next range. An object that cannot be read is left out from then on.
    fn read_next(&self, buffer: &mut [u8]) -> std::result::Result<(), PartEnd> {
        if self.ledger.remaining().is_zero() {
            return Err(PartEnd::Time);
        }
        let length = self.length.load(Ordering::Relaxed);
        let next = self.samples.next(length);
        let Some(range) = next else {
            let why = if self.samples.is_empty() { "no object has content" } else { "no object can be read" };
            return Err(PartEnd::Failed(why.into()));
        };
        range.sample.judge(self.read(&range, length, buffer)).map(drop)
    }

    fn read(
        &self,
        SampleRange { sample, range }: &SampleRange<'_>,
        length: u64,
        buffer: &mut [u8],
    ) -> Result<()> {
        let began = Instant::now();
        let mut body = sample.open(self.store, *range)?;
        // The first bytes are read separately, so that there is a rest to time even at a very fast
        // location.
        let most = usize::try_from(range.len()).unwrap_or(usize::MAX);
        let head = body.read(&mut buffer[..FIRST_READ_BYTES.min(most)])?;
        let first = Instant::now();
        self.timeline.add(head);
        let mut rest = 0;
        // A server without ranges sends more than was requested.
        while head + rest < most {
            let left = buffer.len().min(most - head - rest);
            let read = body.read(&mut buffer[..left])?;
            if read == 0 {
                break;
            }
            self.timeline.add(read);
            rest += read;
        }
        let (bytes, since) = if rest > 0 { (rest, first) } else { (head, began) };
        let seconds = since.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
        let whole = began.elapsed().as_secs_f64();
        let transfer = if rest > 0 { seconds } else { 0.0 };
        let stream = RangeRead { rate: bytes as f64 / seconds, seconds, transfer, whole };
        self.found.lock().streams.push(stream);
        let fitting = (stream.rate * RANGE_SECONDS) as u64;
        self.length.store(fitting.clamp(FIRST_RANGE, (2 * length).min(MAX_RANGE)), Ordering::Relaxed);
        Ok(())
    }
}

/// The result of repeating a small operation concurrently.
pub(crate) struct Repeated {
    /// Operations per second after the warm-up.
    pub(crate) per_second: f64,
    /// The reason that ended the operations early.
    pub(crate) end: Option<PartEnd>,
}

/// Concurrency and duration of repeated operations.
#[derive(Clone, Copy)]
pub(crate) struct LoadPattern {
    pub(crate) at_once: usize,
    /// Duration of the warm-up, in which connections are opened and nothing is counted.
    pub(crate) warm: Duration,
    pub(crate) time: Duration,
}

/// An operation, which receives the number of the repetition. It returns `None` if its object
/// cannot be read.
pub(crate) type Operation<'a> = dyn Fn(usize) -> std::result::Result<Option<()>, PartEnd> + Sync + 'a;

/// Repeats `operation` until the time of `pattern` is over or a repetition ends the part.
pub(crate) fn repeat(ledger: &Ledger<'_>, pattern: LoadPattern, operation: &Operation<'_>) -> Repeated {
    let (began, next, ended) = (Instant::now(), AtomicUsize::new(0), AtomicBool::new(false));
    let end: Mutex<Option<PartEnd>> = Mutex::default();
    let until = began + pattern.warm + pattern.time;
    let work = || {
        let mut done = Vec::new();
        while Instant::now() < until && !ended.load(Ordering::Relaxed) {
            let result = match ledger.remaining().is_zero() {
                true => Err(PartEnd::Time),
                false => operation(next.fetch_add(1, Ordering::Relaxed)),
            };
            match result {
                Ok(Some(())) => done.push(began.elapsed().as_secs_f64()),
                Ok(None) => {}
                Err(reason) => {
                    end.lock().get_or_insert(reason);
                    ended.store(true, Ordering::Relaxed);
                }
            }
        }
        done
    };
    let all = thread::scope(|scope| {
        let workers: Vec<_> = (0..pattern.at_once).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("workers do not panic")).collect::<Vec<_>>()
    });
    let warm = pattern.warm.as_secs_f64();
    let counted: Vec<f64> = all.into_iter().flatten().filter(|ended| *ended >= warm).collect();
    let last = counted.iter().copied().fold(warm, f64::max);
    Repeated {
        per_second: if last > warm { counted.len() as f64 / (last - warm) } else { 0.0 },
        end: end.into_inner(),
    }
}
