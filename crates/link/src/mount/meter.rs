//! Divides one total rate among clients. This module is pure: the caller passes the current time.
//! `wire` calls it.
//!
//! The meter simulates a wire that all clients share, and a wire for each client. Replies are sent
//! in pieces, and the client that was sent the fewest bytes gets the next piece. So clients share
//! evenly, and a share that one client leaves unused goes to the others. All times are computed
//! from the times at which replies were ready, so the result does not depend on when the caller
//! asks.

use std::collections::VecDeque;
use std::time::Instant;

use crate::pace::{CATCH_UP, WirePace};
use crate::rate::{BurstBucket, LinkRate};

/// The rates of a meter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MeterRates {
    /// The rate of all clients together.
    pub(super) total: Option<LinkRate>,
    /// Rate and size of a burst above the total rate.
    pub(super) burst: Option<BurstBucket>,
    /// The rate of each client.
    pub(super) client: Option<LinkRate>,
}

impl MeterRates {
    /// Returns true if any rate is limited.
    pub(super) fn is_limited(&self) -> bool {
        self.total.is_some() || self.client.is_some()
    }
}

/// Replies, of type `T`, on their way to the clients.
#[derive(Debug)]
pub(super) struct ReplyMeter<T> {
    wire: WirePace,
    clients: Vec<Client<T>>,
    /// [`Client::sent_bytes`] of the client whose turn was last, before that turn. A client whose
    /// queue was empty rejoins at this number, so it does not catch up on missed turns.
    rejoin_bytes: u64,
}

#[derive(Debug)]
struct Client<T> {
    wire: WirePace,
    queue: VecDeque<Reply<T>>,
    /// Number of bytes sent, raised at the client's turn to [`ReplyMeter::rejoin_bytes`]. The
    /// waiting client with the smallest number is next.
    sent_bytes: u64,
}

#[derive(Debug)]
struct Reply<T> {
    ready_at: Instant,
    left: u64,
    what: T,
}

impl<T> Client<T> {
    /// Returns the time from which the queue and the rate of the client allow its next piece.
    /// `None` if its queue is empty.
    fn starts_at(&self) -> Option<Instant> {
        self.queue.front().map(|reply| reply.ready_at.max(self.wire.free_at()))
    }
}

impl<T> ReplyMeter<T> {
    /// Returns a meter for `clients` clients. No client has anything to send yet.
    pub(super) fn new(rates: MeterRates, clients: usize, now: Instant) -> Self {
        let client =
            || Client { wire: WirePace::new(rates.client, now), queue: VecDeque::new(), sent_bytes: 0 };
        let wire = WirePace::new(rates.total, now).with_burst(rates.burst);
        Self { wire, clients: std::iter::repeat_with(client).take(clients).collect(), rejoin_bytes: 0 }
    }

    /// Adds a reply of `bytes` bytes that may be sent from `ready_at` on. The replies to a client
    /// are sent in the order in which they were added.
    pub(super) fn add(&mut self, client: usize, ready_at: Instant, bytes: u64, what: T) {
        self.clients[client].queue.push_back(Reply { ready_at, left: bytes, what });
    }

    /// Returns the time at which the next piece is due. Until then, [`send`](Self::send) sends
    /// nothing.
    pub(super) fn next(&self) -> Option<Instant> {
        let first = self.clients.iter().filter_map(Client::starts_at).min()?;
        Some(first.max(self.wire.free_at()))
    }

    /// Sends all pieces that are due at `now`. Calls `done` with each reply whose last piece was
    /// sent, and with the time of its arrival, which may be later than `now`.
    pub(super) fn send(&mut self, now: Instant, mut done: impl FnMut(Instant, T)) {
        while let Some(start) = self.next().filter(|start| *start <= now) {
            let waiting = |client: &&mut Client<T>| client.starts_at().is_some_and(|at| at <= start);
            let next = self
                .clients
                .iter_mut()
                .filter(waiting)
                .min_by_key(|client| client.sent_bytes.max(self.rejoin_bytes));
            let Some(client) = next else { return };
            let Some(reply) = client.queue.front_mut() else { return };
            let piece = reply.left.min(self.wire.piece()).min(client.wire.piece());
            let sent = self.wire.occupy(piece, start);
            // The client's own wire was free while the client waited for its turn.
            let waited_from = start.checked_sub(CATCH_UP).unwrap_or(start).max(reply.ready_at);
            let arrived = client.wire.occupy(piece, waited_from).max(sent);
            reply.left -= piece;
            client.sent_bytes = client.sent_bytes.max(self.rejoin_bytes);
            self.rejoin_bytes = client.sent_bytes;
            client.sent_bytes += piece;
            if reply.left == 0
                && let Some(reply) = client.queue.pop_front()
            {
                done(arrived, reply.what);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const MEGABYTE: u64 = 1_000_000;

    fn megabytes(per_second: u64) -> Option<LinkRate> {
        Some(LinkRate::bytes_per_second(per_second * MEGABYTE))
    }

    /// Simulates clients until `end`. A client `(depth, size)` keeps `depth` replies of `size`
    /// bytes in flight. The clock advances by `step`. Each reply is requested `delay` before it is
    /// ready. Returns the number of bytes that arrived at each client.
    fn run(
        rates: MeterRates,
        clients: &[(usize, u64)],
        delay: Duration,
        end: Duration,
        step: Duration,
    ) -> Vec<u64> {
        let start = Instant::now();
        let mut meter = ReplyMeter::new(rates, clients.len(), start);
        let mut arrived = vec![0; clients.len()];
        let mut arriving: Vec<(Instant, usize)> = Vec::new();
        for (number, (depth, size)) in clients.iter().enumerate() {
            (0..*depth).for_each(|_| meter.add(number, start + delay, *size, number));
        }
        let mut now = start;
        while now < start + end {
            now += step;
            meter.send(now, |at, number| arriving.push((at, number)));
            let (due, later) = arriving.into_iter().partition(|(at, _)| *at <= now);
            arriving = later;
            for (_, number) in Vec::<(Instant, usize)>::into_iter(due) {
                arrived[number] += clients[number].1;
                meter.add(number, now + delay, clients[number].1, number);
            }
        }
        arrived
    }

    fn is_near(value: u64, expected: u64) -> bool {
        value.abs_diff(expected) * 100 <= expected
    }

    const SECOND: Duration = Duration::from_secs(1);
    const TICK: Duration = Duration::from_micros(100);

    #[test]
    fn a_reply_takes_its_time_from_when_it_is_ready() {
        let start = Instant::now();
        let mut meter =
            ReplyMeter::new(MeterRates { total: megabytes(1), ..MeterRates::default() }, 1, start);
        meter.add(0, start + 2 * MS, 5_000, "first");
        meter.add(0, start + 3 * MS, 1_000, "second");
        meter.add(0, start + 100 * MS, 1_000, "third");
        let mut done = Vec::new();
        // The times are the same, whether the caller asks late, in time or several times.
        meter.send(start + 99 * MS, |at, what| done.push((at, what)));
        assert_eq!(done, [(start + 7 * MS, "first"), (start + 8 * MS, "second")]);
        assert_eq!(meter.next(), Some(start + 100 * MS));
        meter.send(start + 200 * MS, |at, what| done.push((at, what)));
        assert_eq!(done[2], (start + 101 * MS, "third"));
        assert_eq!(meter.next(), None);
    }

    #[test]
    fn one_client_has_all_and_four_a_quarter_each() {
        let rates = MeterRates { total: megabytes(100), ..MeterRates::default() };
        let alone = run(rates, &[(2, 131_072)], MS, SECOND, TICK);
        assert!(is_near(alone[0], 100 * MEGABYTE), "{alone:?}");
        // Clients also share evenly if some of them keep more requests in flight, or request larger
        // pieces.
        for clients in [[(2, 131_072); 4], [(2, 131_072), (16, 131_072), (32, 16_384), (2, 1_048_576)]] {
            for share in run(rates, &clients, MS, 4 * SECOND, TICK) {
                assert!(is_near(share, 100 * MEGABYTE), "{clients:?}: {share}");
            }
        }
    }

    #[test]
    fn what_one_client_leaves_the_others_have() {
        let rates = MeterRates { total: megabytes(100), ..MeterRates::default() };
        // 8 KiB every 8 ms are about 1 MB/s.
        let got = run(rates, &[(1, 8_192), (4, 131_072), (4, 131_072)], 8 * MS, 4 * SECOND, TICK);
        let rest = (400 * MEGABYTE - got[0]) / 2;
        assert!(got[0] < 5 * MEGABYTE && is_near(got[1], rest) && is_near(got[2], rest), "{got:?}");
    }

    #[test]
    fn a_client_that_comes_later_neither_starves_the_first_nor_is_starved() {
        let start = Instant::now();
        let mut meter =
            ReplyMeter::new(MeterRates { total: megabytes(10), ..MeterRates::default() }, 2, start);
        let mut done = [0; 2];
        (0..2_000).for_each(|_| meter.add(0, start, 10_000, 0));
        meter.send(start + 1_000 * MS, |_, number: usize| done[number] += 1);
        assert!(is_near(done[0], 1_000), "{done:?}");
        (0..2_000).for_each(|_| meter.add(1, start + 1_000 * MS, 10_000, 1));
        let mut done = [0; 2];
        meter.send(start + 1_200 * MS, |_, number: usize| done[number] += 1);
        assert!(done.iter().all(|count| is_near(*count, 100)), "{done:?}");
    }

    #[test]
    fn a_client_is_limited_and_the_total_as_well() {
        let rates = MeterRates { total: megabytes(100), client: megabytes(40), ..MeterRates::default() };
        for (clients, share) in [(1, 40), (2, 40), (4, 25)] {
            for got in run(rates, &vec![(4, 131_072); clients], MS, 2 * SECOND, TICK) {
                assert!(is_near(got, 2 * share * MEGABYTE), "{clients} clients: {got}");
            }
        }
        let rates = MeterRates { client: megabytes(40), ..MeterRates::default() };
        for got in run(rates, &[(4, 131_072); 4], MS, 2 * SECOND, TICK) {
            assert!(is_near(got, 80 * MEGABYTE), "{got}");
        }
    }

    #[test]
    fn a_burst_is_shared_as_well_and_ends() {
        // 30 MB above 100 MB/s, sent at 400 MB/s, last 0.1 s. In this time, 40 MB are sent.
        let burst =
            Some(BurstBucket { bytes: 30 * MEGABYTE, rate: LinkRate::bytes_per_second(400 * MEGABYTE) });
        let rates = MeterRates { total: megabytes(100), burst, ..MeterRates::default() };
        let got = run(rates, &[(4, 131_072); 4], MS, 100 * MS, TICK);
        assert!(is_near(got.iter().sum(), 39_600_000), "{got:?}");
        let got = run(rates, &[(4, 131_072); 4], MS, SECOND, TICK);
        assert!(got.iter().all(|share| is_near(*share, 130 * MEGABYTE / 4)), "{got:?}");
    }

    #[test]
    fn a_caller_that_wakes_late_changes_no_rate() {
        let rates = MeterRates { total: megabytes(50), ..MeterRates::default() };
        // Two replies of 128 KiB last 5 ms. So each wake-up, every 2 ms, is late, but there is
        // always a reply to send.
        let got = run(rates, &[(2, 131_072)], Duration::ZERO, 4 * SECOND, 2 * MS);
        assert!(is_near(got[0], 200 * MEGABYTE), "{got:?}");
    }
}
