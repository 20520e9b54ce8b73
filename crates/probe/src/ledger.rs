//! The time and the cost of a probe.
//!
//! The store counts the cost of each request before it sends the request, and refuses a request
//! that would exceed the budget ([`Store::with_spending`]), so no part of a probe bypasses the
//! budget. This module keeps the time, which every part of a probe checks before a request, and
//! sums up what was used.

use std::time::{Duration, Instant};

use firstbyte_store::{Cancel, Prices, RequestCounts, Spending, Store, StoreCounts};
use serde::Serialize;

/// Limits of a probe.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Wall-clock time.
    pub time: Duration,
    /// The cost, with the prices of requests and bytes. `None` if the cost is not known and has no
    /// limit.
    pub spending: Option<Spending>,
}

/// Resources that a probe has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spent {
    /// Wall-clock time, in seconds.
    pub seconds: f64,
    /// US dollars by list prices; `None` if they are not known.
    pub usd: Option<f64>,
    /// Requests by kind.
    pub requests: RequestCounts,
    /// Number of bytes received.
    pub bytes: u64,
}

/// The running account of a probe.
pub(crate) struct Ledger<'a> {
    time: Duration,
    prices: Option<Prices>,
    store: &'a Store,
    before: StoreCounts,
    began: Instant,
    cancel: Cancel,
}

impl<'a> Ledger<'a> {
    pub(crate) fn new(budget: &Budget, store: &'a Store, cancel: &Cancel) -> Self {
        Self {
            time: budget.time,
            prices: budget.spending.as_ref().map(|spending| spending.prices),
            store,
            before: store.counters(),
            began: Instant::now(),
            cancel: cancel.clone(),
        }
    }

    /// Returns the remaining time; none after an interruption.
    pub(crate) fn remaining(&self) -> Duration {
        if self.cancel.is_cancelled() {
            return Duration::ZERO;
        }
        self.time.saturating_sub(self.began.elapsed())
    }

    /// Returns true if the user has ended the probe.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Returns the time that is the share `part` of the whole time, or the remaining time if that
    /// is shorter.
    pub(crate) fn part(&self, part: f64) -> Duration {
        self.time.mul_f64(part).min(self.remaining())
    }

    /// Returns the remaining time, less the share `part` of the whole time, which later steps need.
    pub(crate) fn left_before(&self, part: f64) -> Duration {
        self.remaining().saturating_sub(self.time.mul_f64(part))
    }

    /// Returns what the probe has used so far.
    pub(crate) fn spent(&self) -> Spent {
        let after = self.store.counters();
        let requests = after.requests_by_kind.since(&self.before.requests_by_kind);
        let (received, sent) = (after.received - self.before.received, after.sent - self.before.sent);
        let counted = StoreCounts { requests_by_kind: requests, received, sent, ..after };
        Spent {
            seconds: self.began.elapsed().as_secs_f64(),
            usd: self.prices.and_then(|prices| prices.usd(&counted)),
            requests,
            bytes: received,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interruption_leaves_no_time() {
        let store = Store::new(firstbyte_store::StoreOptions::default()).unwrap();
        let (budget, cancel) = (Budget { time: Duration::from_secs(60), spending: None }, Cancel::new());
        let ledger = Ledger::new(&budget, &store, &cancel);
        assert!(!ledger.remaining().is_zero() && !ledger.is_interrupted());
        cancel.cancel();
        assert!(ledger.remaining().is_zero() && ledger.part(0.5).is_zero() && ledger.is_interrupted());
        assert_eq!(ledger.spent().usd, None);
    }
}
