//! Decides how many bytes one request asks for.
//!
//! A request costs a near server about as much as sending 4 MiB (MinIO), and a far one a round
//! trip. But a reader of a byte in its middle waits for all bytes before it, and the last request
//! of an object should not run alone for long.

use std::time::Duration;

use crate::Proximity;

/// Bytes of the longest request to a near server: at 1 Gbit/s it lasts 0.3 s. Longer ones gain
/// nothing.
pub const LONGEST_REQUEST: u64 = 32 << 20;
/// The same for a far server: a second of a connection of 1 Gbit/s.
const LONGEST_FAR: u64 = 128 << 20;
/// Bytes of the shortest request that is part of something longer: a connection of 40 MB/s needs
/// 0.1 s for them.
pub const SHORTEST_REQUEST: u64 = 4 << 20;
/// Bytes that a connection of 40 MB/s moves in a round trip of 26 ms. A body or a write of up to
/// this length costs less to repeat than to wait for.
pub const ROUND_TRIP_BYTES: u64 = 1 << 20;

/// Times that the body of a request of a long transfer takes: a round trip of 30 ms is little
/// beside the shortest, and the last requests of an object end soon even if they are the longest.
const BODY: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3);
/// The same, in round trips.
const BODY_ROUND_TRIPS: u32 = 16;
/// Before the rate of a connection is known, a round trip of so many milliseconds is taken for
/// reason to ask for another [`SHORTEST_REQUEST`].
const ROUND_TRIP: u64 = 30;

/// The least time that the body of a request of a long read should take: a request costs a server
/// nearby 2 ms of processor time (MinIO).
const LEAST_BODY: Duration = Duration::from_millis(20);
/// Bytes of the shortest request that a long read is cut into.
const SHORTEST_PIECE: u64 = ROUND_TRIP_BYTES / 2;
/// Two ranges are fetched by one request if the bytes between them take at most this part of the
/// time of a request.
const GAP_SHARE: u64 = 4;

/// Sizes by which a read that is known in advance is cut into requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSizes {
    /// Bytes of the longest request.
    pub request: u64,
    /// Bytes between two ranges up to which one request for both is better than two.
    pub gap: u64,
}

impl ReadSizes {
    /// From the time of a round trip and the bytes a second of one connection, as far as they are
    /// known. A request transfers for as long as it waits, so that more of them gain less than a
    /// round trip.
    #[must_use]
    pub fn of(round_trip: Option<Duration>, rate: Option<u64>) -> Self {
        let request = match (round_trip, rate) {
            (Some(round_trip), Some(rate)) => {
                let micros = round_trip.max(LEAST_BODY).as_micros();
                u64::try_from(micros * u128::from(rate) / 1_000_000).unwrap_or(u64::MAX)
            }
            _ => ROUND_TRIP_BYTES,
        };
        let request = request.clamp(SHORTEST_PIECE, SHORTEST_REQUEST);
        Self { request, gap: request / GAP_SHARE }
    }
}

/// Bytes of the longest request to a server, where a connection brings `rate` bytes a second.
///
/// From a far server a request takes about a second, so that round trips do not count and no last
/// request is waited for long. Little is asked for before the rate is known. To a near server each
/// request costs processor time.
#[must_use]
pub fn longest_request(server: Proximity, round_trip: Duration, rate: Option<u64>) -> u64 {
    match (server, rate) {
        (Proximity::Near, _) => LONGEST_REQUEST,
        (Proximity::Unknown, _) => SHORTEST_REQUEST,
        (Proximity::Far, None) => {
            let round_trips = u64::try_from(round_trip.as_millis()).unwrap_or(u64::MAX) / ROUND_TRIP;
            SHORTEST_REQUEST.saturating_mul(round_trips.max(1)).min(LONGEST_REQUEST)
        }
        (Proximity::Far, Some(rate)) => {
            let seconds = (round_trip * BODY_ROUND_TRIPS).clamp(*BODY.start(), *BODY.end()).as_secs_f64();
            // A float beyond the integers becomes the largest.
            ((rate as f64 * seconds) as u64).clamp(SHORTEST_PIECE, LONGEST_FAR)
        }
    }
}

/// Bytes of one request where `rest` bytes are left for `concurrency` requests at once: a share, so
/// that requests become shorter and all end together. At most `longest`.
#[must_use]
pub fn request_share(rest: u64, concurrency: usize, longest: u64) -> u64 {
    (rest / concurrency.max(1) as u64).max(SHORTEST_REQUEST).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The requests for an object of so many bytes.
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
    fn a_request_of_a_far_server_takes_a_second_or_many_round_trips() {
        let longest = |rate, ms| longest_request(Proximity::Far, Duration::from_millis(ms), Some(rate));
        assert_eq!(longest(4_000_000, 20), 4_000_000);
        assert_eq!(longest(4_000_000, 150), 9_600_000);
        assert_eq!(longest(4_000_000, 500), 12_000_000);
        assert_eq!(longest(40_000_000, 30), 40_000_000);
        assert_eq!(longest(1000, 30), SHORTEST_PIECE);
        assert_eq!(longest(u64::MAX, 30), LONGEST_FAR);
    }
}
