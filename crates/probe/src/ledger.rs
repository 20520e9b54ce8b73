//! The budget of a probe: seconds and dollars, counted before anything is sent.
//!
//! Invariant: what was sent, and what is reserved, never costs more than the budget. The store
//! counts what was sent; a reservation lives as long as its request.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use firstbyte_advise::billing::{Traffic, UnitPrices};
use firstbyte_store::{CounterSnapshot, RequestCounts, Store};
use serde::Serialize;

/// Limits of a probe.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Wall time.
    pub time: Duration,
    /// Dollars by `prices`.
    pub usd: f64,
    /// Prices of requests and bytes; all zero for a place that bills nothing.
    pub prices: UnitPrices,
}

/// Resources that a probe has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spent {
    /// Wall time.
    pub seconds: f64,
    /// By list prices.
    pub usd: f64,
    /// Requests.
    pub requests: RequestCounts,
    /// Bytes received.
    pub bytes: u64,
}

/// The account of one probe.
pub(crate) struct Ledger<'a> {
    budget: Budget,
    store: &'a Store,
    before: CounterSnapshot,
    began: Instant,
    reserved: Mutex<Traffic>,
}

/// Traffic that a request may cause. Dropped when the store has counted it.
pub(crate) struct Reserved<'a> {
    ledger: &'a Ledger<'a>,
    traffic: Traffic,
}

impl<'a> Ledger<'a> {
    pub(crate) fn new(budget: Budget, store: &'a Store) -> Self {
        let (before, began) = (store.counters(), Instant::now());
        Self { budget, store, before, began, reserved: Mutex::default() }
    }

    /// Time left.
    pub(crate) fn left(&self) -> Duration {
        self.budget.time.saturating_sub(self.began.elapsed())
    }

    /// A part of the whole time, or the rest of the time if that is less.
    pub(crate) fn part(&self, part: f64) -> Duration {
        self.budget.time.mul_f64(part).min(self.left())
    }

    /// Time left before the last `part` of the whole time, which belongs to what follows.
    pub(crate) fn left_before(&self, part: f64) -> Duration {
        self.left().saturating_sub(self.budget.time.mul_f64(part))
    }

    /// Reserves `traffic`; `None` if time or money does not suffice.
    pub(crate) fn reserve(&'a self, traffic: Traffic) -> Option<Reserved<'a>> {
        if self.left().is_zero() {
            return None;
        }
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.sent().plus(*reserved).plus(traffic);
        if self.budget.prices.usd(&all) > self.budget.usd {
            return None;
        }
        *reserved = reserved.plus(traffic);
        drop(reserved);
        Some(Reserved { ledger: self, traffic })
    }

    /// Counts of the store since the beginning.
    fn sent(&self) -> Traffic {
        let (counts, after) = (self.requests(), self.store.counters());
        Traffic {
            gets: (counts.get + counts.head + counts.other) as f64,
            lists: counts.list as f64,
            puts: counts.put as f64,
            bytes: (after.received - self.before.received) as f64,
            sent: (after.sent - self.before.sent) as f64,
        }
    }

    fn requests(&self) -> RequestCounts {
        self.store.counters().requests_by_kind.since(&self.before.requests_by_kind)
    }

    /// Resources used so far.
    pub(crate) fn spent(&self) -> Spent {
        Spent {
            seconds: self.began.elapsed().as_secs_f64(),
            usd: self.budget.prices.usd(&self.sent()),
            requests: self.requests(),
            bytes: self.store.counters().received - self.before.received,
        }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut reserved = self.ledger.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        *reserved = reserved.plus(self.traffic.times(-1.0));
    }
}

#[cfg(test)]
mod tests {
    use firstbyte_advise::billing::Transfer;
    use firstbyte_advise::{model, prices};

    use super::*;

    #[test]
    fn what_is_reserved_is_spent_until_its_request_has_ended() {
        let store = Store::new(firstbyte_store::Options::default()).unwrap();
        let all = model::Catalogue::current();
        let day = "2026-11-23".parse().unwrap();
        let prices = UnitPrices::new(
            all.service("s3-standard").unwrap(),
            Transfer::None,
            &prices::Catalogue::current(),
            "us-east-1",
            day,
        );
        // 1,000 listings cost 0.005 dollars.
        let budget = Budget { time: Duration::from_secs(60), usd: 0.005, prices: prices.unwrap() };
        let ledger = Ledger::new(budget, &store);
        let traffic = Traffic { lists: 600.0, ..Traffic::default() };
        let first = ledger.reserve(traffic).unwrap();
        assert!(ledger.reserve(traffic).is_none());
        drop(first);
        assert!(ledger.reserve(traffic).is_some() && ledger.reserve(traffic).is_some());
    }

    #[test]
    fn nothing_is_reserved_after_the_time() {
        let store = Store::new(firstbyte_store::Options::default()).unwrap();
        let budget = Budget { time: Duration::ZERO, usd: 1.0, prices: UnitPrices::default() };
        assert!(Ledger::new(budget, &store).reserve(Traffic::default()).is_none());
    }
}
