//! How long a silent request is waited for before it is cut and asked again on another connection.
//!
//! Of many requests to a large service a few take a hundred times longer than the rest, for reasons of one server or
//! one connection. Asking again elsewhere is then faster than waiting. The request is cut first, so nothing is
//! fetched twice but what lay in the socket's buffer, and no second thread is needed. What this gives up is the first
//! request's answer arriving after all; what bounds the loss is that patience doubles with every cut of the same
//! request, so against a server that is slow throughout it costs less than twice its slowness.

use std::time::Duration;

/// Samples kept: enough for a steady median, few enough to follow a change.
const SAMPLES: usize = 64;
/// Fewer samples than this tell nothing.
const FEWEST: usize = 4;
/// So many times the median is far outside what a healthy service shows.
const FACTOR: u32 = 4;

/// One request in so many may be cut: what a busy machine delays is late by no server's fault. A cut request goes on
/// where it was, so this many cuts fetch far less than a hundredth twice.
const BUDGET: u64 = 10;
/// Cuts allowed before that counts.
const FREE_CUTS: u64 = 16;
/// A cut write is sent again from its start, so it counts as so many cut reads.
const WRITE_COST: u64 = 8;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The head of an answer to a read.
    Head,
    /// The next bytes of a long body.
    Body,
    /// The next bytes of a body short enough to come along with its head.
    ShortBody,
    /// The answer to a write, of a small object or a part: sending included.
    Write,
}

/// Up to this length a body is short: it costs less to ask for again than to wait for.
const SHORT: u64 = 1 << 20;

impl Wait {
    /// The wait for a body of `length` bytes.
    #[must_use]
    pub fn body(length: u64) -> Self {
        if length <= SHORT { Self::ShortBody } else { Self::Body }
    }
}

/// What requests of a run have taken so far, and what may be expected of the next.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    heads: Samples,
    writes: Samples,
    requests: u64,
    cuts: u64,
}

#[derive(Debug, Default)]
struct Samples {
    ring: Vec<Duration>,
    next: usize,
}

impl Samples {
    fn add(&mut self, sample: Duration) {
        if self.ring.len() < SAMPLES {
            self.ring.push(sample);
        } else {
            self.ring[self.next] = sample;
        }
        self.next = (self.next + 1) % SAMPLES;
    }

    fn median(&self) -> Option<Duration> {
        let mut sorted = self.ring.clone();
        sorted.sort_unstable();
        (sorted.len() >= FEWEST).then(|| sorted[sorted.len() / 2])
    }

    fn least(&self) -> Option<Duration> {
        self.ring.iter().min().copied().filter(|_| self.ring.len() >= FEWEST)
    }
}

impl Patience {
    /// Takes what one request needed.
    pub(crate) fn learn(&mut self, wait: Wait, took: Duration) {
        match wait {
            Wait::Head => self.heads.add(took),
            Wait::Write => self.writes.add(took),
            Wait::Body | Wait::ShortBody => {}
        }
    }

    /// How long a request typically takes to show an effect: the head of a read, the whole of a write.
    pub(crate) fn median_wait(&self) -> Option<Duration> {
        self.heads.median().max(self.writes.median())
    }

    /// The shortest time a request took to show an effect: what the path costs, however busy the server is.
    pub(crate) fn least_wait(&self) -> Option<Duration> {
        self.least_head().or(self.writes.least())
    }

    /// The shortest time to the head of a read.
    pub(crate) fn least_head(&self) -> Option<Duration> {
        self.heads.least()
    }

    /// The shortest time to the head of a read, from the first on: no answer comes sooner than its path allows.
    pub(crate) fn fastest_head(&self) -> Option<Duration> {
        self.heads.ring.iter().min().copied()
    }

    /// A request was sent.
    pub(crate) fn asked(&mut self) {
        self.requests += 1;
    }

    /// Takes a cut from the budget; false where it has no room: however slow all is, few requests are asked twice.
    pub(crate) fn cut(&mut self, wait: Wait) -> bool {
        let cost = if wait == Wait::Write { WRITE_COST } else { 1 };
        let allowed = self.cuts + cost <= FREE_CUTS + self.requests / BUDGET;
        self.cuts += if allowed { cost } else { 0 };
        allowed
    }

    /// How long to wait for a request that was cut `cuts` times already. `shared`: others fell silent
    /// together with it, so the fault is hardly this connection's.
    pub(crate) fn limit(&self, wait: Wait, cuts: u32, shared: bool) -> Duration {
        let base = match wait {
            // Below 100 ms an answer is not worth a new connection; half a second while nothing is known: longer
            // than any round trip on earth with a TLS handshake before it.
            Wait::Head | Wait::ShortBody => {
                self.heads.median().map_or(Duration::from_millis(500), |median| {
                    (median * FACTOR).max(Duration::from_millis(100))
                })
            }
            // TCP resends a lost packet 200 ms after a round trip, and a crowded link may pass a connection over for
            // as long: only silence longer than both is a stall.
            Wait::Body => Duration::from_millis(500),
            // A write's time includes its sending, which its neighbours share: only a stark outlier counts, and
            // while nothing is known the store's own deadline is the only one.
            Wait::Write => self
                .writes
                .median()
                .map_or(Duration::from_secs(30), |median| (median * FACTOR).max(Duration::from_millis(500))),
        };
        let base = if shared { base * FACTOR } else { base };
        base.saturating_mul(1 << cuts.min(10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    const MS: Duration = Duration::from_millis(1);

    fn taught(heads: &[u32]) -> Patience {
        let mut patience = Patience::default();
        heads.iter().for_each(|ms| patience.learn(Wait::Head, MS * *ms));
        patience
    }

    #[test]
    fn a_stalled_head_is_given_up_after_a_few_medians() {
        assert_eq!(taught(&[30, 31, 29, 30, 5_000]).limit(Wait::Head, 0, false), MS * 120);
        assert_eq!(taught(&[1; 9]).limit(Wait::Head, 0, false), MS * 100);
    }

    #[test]
    fn patience_doubles_so_a_uniformly_slow_server_is_not_hammered() {
        let patience = taught(&[30; 8]);
        assert_eq!(patience.limit(Wait::Head, 3, false), MS * 960);
        assert!(patience.limit(Wait::Head, u32::MAX, true) > Duration::from_secs(30));
    }

    #[test]
    fn at_most_one_request_in_ten_is_cut_after_the_first_few() {
        let mut patience = Patience::default();
        for _ in 0..10_000 {
            patience.asked();
            patience.cut(Wait::Head);
        }
        assert_eq!(patience.cuts, FREE_CUTS + 10_000 / BUDGET);
    }

    #[test]
    fn writes_are_cut_seldom_for_all_of_them_is_sent_again() {
        let mut patience = Patience::default();
        assert_eq!((0..100).filter(|_| patience.cut(Wait::Write)).count() as u64, FREE_CUTS / WRITE_COST);
    }

    #[test]
    fn the_path_shows_in_the_fastest_answer_once_there_are_a_few() {
        assert_eq!(taught(&[40, 31]).least_wait(), None);
        assert_eq!(taught(&[40, 31, 90, 5_000]).least_wait(), Some(MS * 31));
    }

    #[test]
    fn old_samples_give_way_to_new_ones() {
        let mut patience = taught(&[10; SAMPLES]);
        (0..SAMPLES).for_each(|_| patience.learn(Wait::Head, MS * 200));
        assert_eq!(patience.median_wait(), Some(MS * 200));
    }

    #[test]
    fn silence_everywhere_is_waited_out_longer_than_silence_of_one() {
        let patience = Patience::default();
        assert!(patience.limit(Wait::Body, 0, true) > patience.limit(Wait::Body, 0, false));
    }
}
