//! Limits bytes to one rate, from the first byte on. The clock `free_at` is the time at which all
//! bytes granted so far will have passed.
//!
//! Bytes are granted before they are moved, and in small pieces. So at most one piece and one burst
//! exceed the rate, whatever the number of threads. Together, these are the bytes of a tenth of a
//! second.

use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;

use crate::request_size::SHORTEST_REQUEST;

/// Time by which the clock may lag behind, so that a transfer can catch up after a late wake-up or
/// an idle period. A piece takes the same time. So waiting for pieces does not slow a transfer
/// down, and the rate is smooth.
const MAX_LAG: Duration = Duration::from_millis(50);
/// All requests together ask for the bytes of one second divided by this number. Servers send
/// everything that is requested, so requests for more bytes would fill the buffers on the way. A
/// socket buffer has room for the bytes of one request divided by the same number, because bytes in
/// a socket have already passed the network.
const SECOND_DIVISOR: u64 = 2;
/// Smallest request and smallest socket buffer, in bytes. With less, a connection stalls.
const MIN_BUFFER_BYTES: u64 = 16 << 10;

/// A limit on the bytes per second of all users that share it.
#[derive(Debug)]
pub struct RateLimit {
    rate: u64,
    /// Time at which all granted bytes will have passed; `None` before the first grant.
    free_at: Mutex<Option<Instant>>,
}

/// Permission to move bytes after a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Maximum number of bytes to move.
    pub bytes: u64,
    /// Time to wait before moving the bytes.
    pub wait: Duration,
}

impl RateLimit {
    /// Returns a limit of `rate` bytes per second. A `rate` of 0 counts as 1.
    #[must_use]
    pub fn new(rate: u64) -> Self {
        Self { rate: rate.max(1), free_at: Mutex::new(None) }
    }

    /// Grants up to `want` bytes, but no more than a [`piece`](Self::piece). Bytes that are not
    /// moved must be returned with [`refund`](Self::refund).
    pub fn grant(&self, want: u64, now: Instant) -> Grant {
        let bytes = want.min(self.piece());
        let mut free_at = self.free_at.lock();
        let earliest = now.checked_sub(MAX_LAG).unwrap_or(now);
        let start = free_at.map_or(now, |free_at| free_at.max(earliest));
        *free_at = Some(start + self.time_of(bytes));
        Grant { bytes, wait: start.saturating_duration_since(now) }
    }

    /// Takes back bytes that were granted but not moved.
    pub fn refund(&self, bytes: u64) {
        let mut free_at = self.free_at.lock();
        *free_at = free_at.map(|free_at| free_at.checked_sub(self.time_of(bytes)).unwrap_or(free_at));
    }

    /// Returns the maximum number of bytes granted at once.
    #[must_use]
    pub fn piece(&self) -> u64 {
        let bytes = u128::from(self.rate) * MAX_LAG.as_nanos() / Duration::from_secs(1).as_nanos();
        u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
    }

    /// Returns the number of connections that suffice for the rate: each gets the bytes of one
    /// [`SHORTEST_REQUEST`] per second.
    #[must_use]
    pub fn connections(&self) -> usize {
        usize::try_from(self.rate / SHORTEST_REQUEST).unwrap_or(usize::MAX).max(1)
    }

    /// Returns the number of bytes that the socket of each connection may buffer.
    #[must_use]
    pub fn socket_buffer(&self) -> u64 {
        (self.request() / SECOND_DIVISOR).max(MIN_BUFFER_BYTES)
    }

    /// Returns the maximum number of bytes for which one request should ask.
    #[must_use]
    pub fn request(&self) -> u64 {
        (self.rate / SECOND_DIVISOR / self.connections() as u64).max(MIN_BUFFER_BYTES)
    }

    fn time_of(&self, bytes: u64) -> Duration {
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn at_most_the_rate_and_a_tenth_of_a_second_of_it_are_granted(
            wants in proptest::collection::vec((1_u64..300_000, 0_u64..50), 1..200),
            rate in 100_000_u64..10_000_000,
            threads in 1_usize..20,
        ) {
            let (limit, start) = (RateLimit::new(rate), Instant::now());
            // Threads take turns, and each thread waits for its own grant.
            let mut ready = vec![start; threads];
            let mut moved: Vec<(Instant, u64)> = Vec::new();
            for (index, (want, idle)) in wants.into_iter().enumerate() {
                let thread = &mut ready[index % threads];
                let grant = limit.grant(want, *thread);
                prop_assert!(grant.bytes > 0 && grant.bytes <= want);
                *thread += grant.wait;
                moved.push((*thread, grant.bytes));
                *thread += Duration::from_millis(idle);
            }
            moved.sort_unstable_by_key(|(at, _)| *at);
            let mut all = 0;
            for (at, bytes) in moved {
                all += bytes;
                let allowed = rate as f64 * ((at - start).as_secs_f64() + 0.1) + 1.0;
                // Threads whose clocks differ by their idle times may each catch up by one burst.
                prop_assert!(all as f64 <= allowed + rate as f64 * 0.05 * threads as f64, "{} of {}", all, allowed);
            }
        }
    }

    #[test]
    fn one_caller_gets_the_rate_and_no_more_from_the_first_second() {
        let (limit, start) = (RateLimit::new(3_000_000), Instant::now());
        let (mut now, mut moved) = (start, 0);
        while now < start + Duration::from_secs(5) {
            let grant = limit.grant(u64::MAX, now);
            now += grant.wait;
            moved += grant.bytes;
            assert!(
                moved as f64 <= 3e6 * ((now - start).as_secs_f64() + 0.1),
                "{moved} in {:?}",
                now - start
            );
        }
        assert!(moved >= 15_000_000, "{moved}");
    }

    #[test]
    fn bytes_that_were_not_moved_are_granted_again() {
        let (limit, now) = (RateLimit::new(1_000_000), Instant::now());
        let first = limit.grant(50_000, now);
        limit.refund(first.bytes);
        assert_eq!(limit.grant(50_000, now).wait, Duration::ZERO);
        assert!(limit.grant(50_000, now).wait >= Duration::from_millis(49));
    }

    #[test]
    fn pieces_connections_and_buffers_fit_within_a_second_at_any_rate() {
        for rate in [1, 10, 1_000, 100_000, 3_000_000, 100_000_000, 10_000_000_000, u64::MAX] {
            let limit = RateLimit::new(rate);
            assert!((1..=rate).contains(&limit.piece()), "{rate}");
            let buffered = (limit.socket_buffer() as u128) * limit.connections() as u128;
            assert!(buffered <= u128::from(rate.max(MIN_BUFFER_BYTES)), "{rate}: {buffered}");
        }
    }
}
