//! Measures the received bytes of a run: the time of the first byte, and the latest rate.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Minimum time over which a rate is measured.
const MIN_WINDOW: Duration = Duration::from_millis(500);

/// Bytes per second, greater than 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceiveRate(f64);

impl ReceiveRate {
    /// Returns the rate of `bytes` in `time`. Assumes at least one byte and at least one
    /// microsecond.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub fn new(bytes: u64, time: Duration) -> Self {
        Self(bytes.max(1) as f64 / time.max(Duration::from_micros(1)).as_secs_f64())
    }

    /// Returns the rate in bytes per second.
    #[must_use]
    pub fn per_second(self) -> f64 {
        self.0
    }

    /// Returns the time that `bytes` take at this rate, at most a day.
    #[must_use]
    pub fn time_of(self, bytes: f64) -> Duration {
        Duration::from_secs_f64((bytes / self.0).clamp(0.0, 86_400.0))
    }
}

/// Counts the bytes that worker threads receive.
#[derive(Debug, Default)]
pub(crate) struct ByteMeter {
    bytes: AtomicU64,
    first: OnceLock<Instant>,
}

impl ByteMeter {
    pub(crate) fn add(&self, bytes: u64) {
        self.first.get_or_init(Instant::now);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the time of the first byte.
    pub(crate) fn first_byte(&self) -> Option<Instant> {
        self.first.get().copied()
    }
}

/// Computes the latest rate of a meter. Polled by one thread.
#[derive(Debug)]
pub(crate) struct Window<'a> {
    meter: &'a ByteMeter,
    since: Instant,
    bytes: u64,
    rate: Option<ReceiveRate>,
}

impl<'a> Window<'a> {
    pub(crate) fn of(meter: &'a ByteMeter) -> Self {
        Self { meter, since: Instant::now(), bytes: 0, rate: None }
    }

    /// Returns the rate of the last complete window. `None` before the first window with a byte.
    pub(crate) fn rate(&mut self) -> Option<ReceiveRate> {
        let bytes = self.meter.bytes.load(Ordering::Relaxed);
        let elapsed = self.since.elapsed();
        if elapsed >= MIN_WINDOW && bytes > 0 {
            self.rate = Some(ReceiveRate::new(bytes - self.bytes, elapsed));
            (self.since, self.bytes) = (Instant::now(), bytes);
        }
        self.rate
    }
}
