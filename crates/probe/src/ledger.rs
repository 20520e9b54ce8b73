//! Keeps the budget of a probe, in seconds and dollars. Every request is charged before it is sent.
//!
//! Invariant: together, the requests that were sent and the requests that are reserved never cost
//! more than the budget. The store counts requests that were sent; a reservation lives as long as
//! its request.

use std::time::{Duration, Instant};

use firstbyte_store::{Prices, RequestCounts, Store, StoreCounts};
use rustix_futex_sync::Mutex;
use serde::Serialize;

/// The limits of a probe.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Wall-clock time.
    pub time: Duration,
    /// Cost by `prices`, in US dollars.
    pub usd: f64,
    /// Prices of requests and bytes. All are zero for a location that is not billed.
    pub prices: Prices,
}

/// What a probe has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spent {
    /// Wall-clock time, in seconds.
    pub seconds: f64,
    /// Cost by list prices, in US dollars.
    pub usd: f64,
    /// Number of requests, by kind.
    pub requests: RequestCounts,
    /// Number of bytes received.
    pub bytes: u64,
}

/// The running account of a probe.
pub(crate) struct Ledger<'a> {
    budget: Budget,
    store: &'a Store,
    before: StoreCounts,
    began: Instant,
    /// Cost, in dollars, of the requests whose responses have not ended.
    reserved: Mutex<f64>,
}

/// The reserved cost of a request. It is dropped when the store has counted the request.
pub(crate) struct Reserved<'a> {
    ledger: &'a Ledger<'a>,
    usd: f64,
}

impl<'a> Ledger<'a> {
    pub(crate) fn new(budget: Budget, store: &'a Store) -> Self {
        let (before, began) = (store.counters(), Instant::now());
        Self { budget, store, before, began, reserved: Mutex::default() }
    }

    /// Returns the remaining time.
    pub(crate) fn left(&self) -> Duration {
        self.budget.time.saturating_sub(self.began.elapsed())
    }

    /// Returns the time that is the share `part` of the whole time, or the remaining time if that
    /// is shorter.
    pub(crate) fn part(&self, part: f64) -> Duration {
        self.budget.time.mul_f64(part).min(self.left())
    }

    /// Returns the remaining time, less the share `part` of the whole time, which later steps need.
    pub(crate) fn left_before(&self, part: f64) -> Duration {
        self.left().saturating_sub(self.budget.time.mul_f64(part))
    }

    /// Returns the cost, in dollars, of a request for `bytes` bytes.
    pub(crate) fn read(&self, bytes: f64) -> f64 {
        self.budget.prices.get + self.budget.prices.received * bytes
    }

    /// Returns the cost, in dollars, of listing one page of names.
    pub(crate) fn page(&self) -> f64 {
        self.budget.prices.put
    }

    /// Reserves `usd` dollars. Returns `None` if the time or the money does not suffice.
    pub(crate) fn reserve(&'a self, usd: f64) -> Option<Reserved<'a>> {
        if self.left().is_zero() {
            return None;
        }
        let mut reserved = self.reserved.lock();
        if self.usd() + *reserved + usd > self.budget.usd {
            return None;
        }
        *reserved += usd;
        drop(reserved);
        Some(Reserved { ledger: self, usd })
    }

    /// Returns the cost, in dollars, of the requests that the store has counted since the probe
    /// began.
    fn usd(&self) -> f64 {
        let after = self.store.counters();
        self.budget.prices.usd(&StoreCounts {
            requests_by_kind: self.requests(),
            received: after.received - self.before.received,
            sent: after.sent - self.before.sent,
            ..after
        })
    }

    fn requests(&self) -> RequestCounts {
        self.store.counters().requests_by_kind.since(&self.before.requests_by_kind)
    }

    /// Returns what the probe has used so far.
    pub(crate) fn spent(&self) -> Spent {
        Spent {
            seconds: self.began.elapsed().as_secs_f64(),
            usd: self.usd(),
            requests: self.requests(),
            bytes: self.store.counters().received - self.before.received,
        }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut reserved = self.ledger.reserved.lock();
        *reserved -= self.usd;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_is_spent_until_its_request_has_ended() {
        let store = Store::new(firstbyte_store::StoreOptions::default()).unwrap();
        let prices = Prices { put: 5e-6, ..Prices::default() };
        // 1,000 listings cost 0.005 dollars.
        let budget = Budget { time: Duration::from_secs(60), usd: 0.005, prices };
        let ledger = Ledger::new(budget, &store);
        let pages = 600.0 * ledger.page();
        let first = ledger.reserve(pages).unwrap();
        assert!(ledger.reserve(pages).is_none());
        drop(first);
        assert!(ledger.reserve(pages).is_some() && ledger.reserve(pages).is_some());
    }

    #[test]
    fn nothing_is_reserved_after_the_time() {
        let store = Store::new(firstbyte_store::StoreOptions::default()).unwrap();
        let budget = Budget { time: Duration::ZERO, usd: 1.0, prices: Prices::default() };
        assert!(Ledger::new(budget, &store).reserve(0.0).is_none());
    }
}
