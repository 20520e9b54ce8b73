//! Decides for how many bytes one request asks.
//!
//! A request costs a near server about as much processor time as sending 4 MiB (measured with
//! MinIO). A request to a far server costs a round trip. Long requests are therefore cheaper. But a
//! reader that needs a byte in the middle of a request waits for all bytes before it, and the last
//! request of an object should not run alone for long.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::proximity::Proximity;

/// Longest request to a near server, in bytes: 0.3 s at 1 Gbit/s. Longer requests gain nothing.
pub const LONGEST_REQUEST: u64 = 32 << 20;
/// Longest request to a far server, in bytes: one second of a connection at 1 Gbit/s.
const LONGEST_FAR_REQUEST: u64 = 128 << 20;
/// Shortest request that is part of a longer read, in bytes: 0.1 s at 40 MB/s per connection.
pub const SHORTEST_REQUEST: u64 = 4 << 20;
/// Number of bytes that a connection at 40 MB/s moves in a round trip of 26 ms. A body of up to
/// this length arrives with its head, and has the time limit of a head. The response to a write of
/// up to this length is timed like a round trip.
pub const ROUND_TRIP_BYTES: u64 = 1 << 20;

/// Shortest and longest time that the body of one request in a long transfer should take. A round
/// trip is short compared with the shortest time. With the longest time, even the last requests of
/// an object end soon.
const BODY_TIME: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3);
/// Number of round trips that the body of one request in a long transfer should take.
const BODY_ROUND_TRIPS: u32 = 16;
/// Round trip for which [`SHORTEST_REQUEST`] is long enough while the rate is unknown. For longer
/// round trips, requests grow in proportion.
const SHORT_ROUND_TRIP: Duration = Duration::from_millis(30);
/// Shortest time that the body of one request in a long read should take. Each request costs a near
/// server 2 ms of processor time (measured with MinIO).
const MIN_BODY_TIME: Duration = Duration::from_millis(20);
/// Shortest request into which a planned read is cut, in bytes.
const SHORTEST_PIECE: u64 = ROUND_TRIP_BYTES / 2;
/// Two ranges share a request if the gap between them is not longer than the length of a request
/// divided by this number.
const GAP_DIVISOR: u64 = 4;

/// The sizes by which a read that is known in advance is cut into requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSizes {
    /// Maximum length of a request, in bytes.
    pub request: u64,
    /// Maximum gap between two ranges that share a request, in bytes.
    pub gap: u64,
}

impl ReadSizes {
    /// Derives the sizes from the round trip and from the bytes per second of one connection, if
    /// both are known. The body of a request then takes about as long as the round trip. Shorter
    /// requests would save a reader less than a round trip.
    #[must_use]
    pub fn of(round_trip: Option<Duration>, rate: Option<u64>) -> Self {
        let request = match (round_trip, rate) {
            (Some(round_trip), Some(rate)) => {
                let micros = round_trip.max(MIN_BODY_TIME).as_micros();
                u64::try_from(micros * u128::from(rate) / 1_000_000).unwrap_or(u64::MAX)
            }
            _ => ROUND_TRIP_BYTES,
        };
        let request = request.clamp(SHORTEST_PIECE, SHORTEST_REQUEST);
        Self { request, gap: request / GAP_DIVISOR }
    }
}

/// Returns the length, in bytes, of the longest request to a server whose connections have `rate`
/// bytes per second each.
///
/// A request to a far server takes one to three seconds: round trips then cost little, and the last
/// request of an object does not run alone for long. While the rate is unknown, requests are
/// shorter. A near server spends processor time on each request, so requests to it are long.
#[must_use]
pub fn longest_request(server: Proximity, round_trip: Duration, rate: Option<u64>) -> u64 {
    match (server, rate) {
        (Proximity::Near, _) => LONGEST_REQUEST,
        (Proximity::Unknown, _) => SHORTEST_REQUEST,
        (Proximity::Far, None) => {
            let round_trips = round_trip.as_millis() / SHORT_ROUND_TRIP.as_millis();
            let round_trips = u64::try_from(round_trips).unwrap_or(u64::MAX).max(1);
            SHORTEST_REQUEST.saturating_mul(round_trips).min(LONGEST_REQUEST)
        }
        (Proximity::Far, Some(rate)) => {
            let time = (round_trip * BODY_ROUND_TRIPS).clamp(*BODY_TIME.start(), *BODY_TIME.end());
            // A float out of range becomes `u64::MAX`.
            ((rate as f64 * time.as_secs_f64()) as u64).clamp(SHORTEST_PIECE, LONGEST_FAR_REQUEST)
        }
    }
}

/// Returns the length, in bytes, of the next request when `rest` bytes remain for `concurrency`
/// concurrent requests. The length is a share of the rest, so requests become shorter and all end
/// together. The length is at least [`SHORTEST_REQUEST`], even if less remains, and at most
/// `longest`.
#[must_use]
pub fn request_share(rest: u64, concurrency: usize, longest: u64) -> u64 {
    (rest / concurrency.max(1) as u64).max(SHORTEST_REQUEST).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lengths of the requests for an object of `rest` bytes.
    fn requests(mut rest: u64, concurrency: usize, longest: u64) -> Vec<u64> {
        let mut sizes = Vec::new();
        while rest > 0 {
            sizes.push(request_share(rest, concurrency, longest).min(rest));
            rest -= sizes[sizes.len() - 1];
        }
        sizes
    }

    #[test]
    fn a_long_object_takes_few_requests_and_the_last_ones_are_short() {
        let sizes = requests(1 << 30, 4, LONGEST_REQUEST);
        assert!(sizes.len() <= 48, "{sizes:?}");
        assert_eq!(sizes[0], LONGEST_REQUEST);
        assert!(sizes.is_sorted_by(|one, next| one >= next));
        assert!(sizes[sizes.len() - 4..].iter().all(|size| *size <= SHORTEST_REQUEST));
    }

    #[test]
    fn a_request_of_a_read_transfers_as_long_as_it_waits() {
        let (ms, mb) = (Duration::from_millis, 1_000_000);
        let request = |round_trip, rate| ReadSizes::of(Some(round_trip), Some(rate)).request;
        assert_eq!(request(ms(30), 40 * mb), 1_200_000);
        assert_eq!(request(ms(1), 2000 * mb), SHORTEST_REQUEST);
        assert_eq!(request(ms(1), mb), SHORTEST_PIECE);
        assert_eq!(ReadSizes::of(None, None).request, ROUND_TRIP_BYTES);
        assert_eq!(ReadSizes::of(Some(ms(30)), Some(40 * mb)).gap, 300_000);
    }

    #[test]
    fn no_request_is_long_before_its_rate_is_known_unless_the_server_is_near() {
        let longest = |server| longest_request(server, Duration::ZERO, None);
        assert_eq!(longest(Proximity::Unknown), SHORTEST_REQUEST);
        assert_eq!(longest(Proximity::Far), SHORTEST_REQUEST);
        assert_eq!(longest(Proximity::Near), LONGEST_REQUEST);
        assert_eq!(requests(5 << 20, 0, SHORTEST_REQUEST), [4 << 20, 1 << 20]);
        assert_eq!(requests(0, 4, SHORTEST_REQUEST), [0; 0]);
    }

    #[test]
    fn a_request_to_a_far_server_takes_a_second_or_many_round_trips() {
        let longest = |rate, ms| longest_request(Proximity::Far, Duration::from_millis(ms), Some(rate));
        assert_eq!(longest(4_000_000, 20), 4_000_000);
        assert_eq!(longest(4_000_000, 150), 9_600_000);
        assert_eq!(longest(4_000_000, 500), 12_000_000);
        assert_eq!(longest(40_000_000, 30), 40_000_000);
        assert_eq!(longest(1000, 30), SHORTEST_PIECE);
        assert_eq!(longest(u64::MAX, 30), LONGEST_FAR_REQUEST);
    }
}
