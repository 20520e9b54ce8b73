//! The budget of a probe in seconds and dollars, charged before anything is sent.
//!
//! Invariant: the requests that were sent and those that are reserved never cost more than the
//! budget. The store counts sent requests; a reservation lives as long as its request.

use std::time::{Duration, Instant};

use firstbyte_store::{Prices, RequestCounts, Store, StoreCounts};
use rustix_futex_sync::Mutex;
use serde::Serialize;

/// Limits of a probe.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Wall time.
    pub time: Duration,
    /// US dollars, by `prices`.
    pub usd: f64,
    /// Prices of requests and bytes; all zero for a location without bills.
    pub prices: Prices,
}

/// Resources that a probe has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spent {
    /// Wall time.
    pub seconds: f64,
    /// US dollars by list prices.
    pub usd: f64,
    /// Requests by kind.
    pub requests: RequestCounts,
    /// Bytes received.
    pub bytes: u64,
}

/// The running account of one probe.
pub(crate) struct Ledger<'a> {
    budget: Budget,
    store: &'a Store,
    before: StoreCounts,
    began: Instant,
    /// Dollars of requests whose responses have not ended.
    reserved: Mutex<f64>,
}

/// Reserved dollars of a request, to be dropped when the store has counted the request.
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

    /// Returns the share `part` of the whole time, or the remaining time if that is less.
    pub(crate) fn part(&self, part: f64) -> Duration {
        self.budget.time.mul_f64(part).min(self.left())
    }

    /// Returns the remaining time without the share `part` of the whole time, which later steps
    /// need.
    pub(crate) fn left_before(&self, part: f64) -> Duration {
        self.left().saturating_sub(self.budget.time.mul_f64(part))
    }

    /// Returns the dollars of a request for `bytes` bytes.
    pub(crate) fn read(&self, bytes: f64) -> f64 {
        self.budget.prices.get + self.budget.prices.received * bytes
    }

    /// Returns the dollars of listing one page of names.
    pub(crate) fn page(&self) -> f64 {
        self.budget.prices.put
    }

    /// Reserves `usd` dollars; `None` if time or money does not suffice.
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

    /// Returns the dollars of the requests that the store has counted since the beginning.
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

    /// Returns the resources used so far.
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
