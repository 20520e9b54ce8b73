//! Enforces the budget of a run: every request is charged to the budget before it is sent.
//!
//! Invariant: the amount charged never exceeds the limit. A request for a range is charged with all
//! bytes of the range. The bytes that the response lacks are refunded. Bytes beyond the range, such
//! as those of a whole object in its place, are charged when they are read. Any other body is
//! charged before its first byte is read if its length is known, otherwise when it is read. The
//! HTTP client calls this module, so no reader, writer or listing bypasses it.

use firstbyte_location::ByteRange;
use rustix_futex_sync::Mutex;

use crate::error::{Error, Result};
use crate::requests::{RequestKind, StoreCounts};

/// The storage classes whose requests are billed by the prices of the bucket, and which bill no
/// retrieval (<https://aws.amazon.com/s3/pricing/>, 2026-11-28). `Hot` is Azure's. The last two are
/// Google's names for its Standard class in older buckets.
const PRICED_CLASSES: [&str; 7] = [
    "STANDARD",
    "INTELLIGENT_TIERING",
    "REDUCED_REDUNDANCY",
    "EXPRESS_ONEZONE",
    "Hot",
    "REGIONAL",
    "MULTI_REGIONAL",
];

/// Returns whether requests for objects of a storage class are billed by the prices of the bucket.
#[must_use]
pub fn is_priced_class(class: &str) -> bool {
    PRICED_CLASSES.contains(&class)
}

/// The prices of requests and traffic, in US dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prices {
    /// Price of a request that reads content or metadata.
    pub get: f64,
    /// Price of a request that writes or lists.
    pub put: f64,
    /// Price of a byte received.
    pub received: f64,
    /// Price of a byte sent.
    pub sent: f64,
}

impl Prices {
    /// Returns the cost, in dollars, of the counted requests and bytes. Deletions cost nothing.
    /// `None` if some of the requests have other prices.
    #[must_use]
    pub fn usd(&self, counters: &StoreCounts) -> Option<f64> {
        let requests = &counters.requests_by_kind;
        let usd = self.get * (requests.get + requests.head + requests.other) as f64
            + self.put * (requests.list + requests.put) as f64
            + self.received * counters.received as f64
            + self.sent * counters.sent as f64;
        (counters.unpriced == 0).then_some(usd)
    }
}

/// The most that all requests of a store may cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spending {
    /// The budget, in US dollars.
    pub limit: f64,
    /// The prices that apply.
    pub prices: Prices,
    /// The region of these prices. A bucket in another region is not read or written any further.
    /// `None` if the prices are those of every region.
    pub region: Option<String>,
}

/// The amount charged so far. All clones of a client share it.
#[derive(Debug, Default)]
pub(crate) struct SpendingAccount {
    spending: Option<Spending>,
    charged: Mutex<f64>,
}

/// How the body of a response is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charge {
    /// This number of bytes was charged in advance. Further bytes are charged when they are read.
    Ahead(u64),
    /// The bytes are charged when they are read.
    AsRead,
}

impl SpendingAccount {
    pub(crate) fn new(spending: Option<Spending>) -> Self {
        Self { spending, charged: Mutex::default() }
    }

    /// Charges a request whose payload has `sent` bytes, and the requested range.
    pub(crate) fn charge_request(
        &self,
        kind: RequestKind,
        range: Option<ByteRange>,
        sent: u64,
        place: &str,
    ) -> Result<Charge> {
        let range = range.filter(|_| kind == RequestKind::Get);
        let charge = range.map_or(Charge::AsRead, |range| Charge::Ahead(range.len()));
        let Some(spending) = &self.spending else { return Ok(charge) };
        let price = match kind {
            RequestKind::Get | RequestKind::Head | RequestKind::Other => spending.prices.get,
            RequestKind::List | RequestKind::Put => spending.prices.put,
            RequestKind::Delete => 0.0,
        };
        let received = range.map_or(0, ByteRange::len) as f64 * spending.prices.received;
        let sent = sent as f64 * spending.prices.sent;
        self.charge(spending, price + received + sent, place)?;
        Ok(charge)
    }

    /// Charges bytes that are about to be returned to the caller. Returns how the bytes after them
    /// are charged.
    pub(crate) fn charge_bytes(&self, charge: Charge, count: usize, place: &str) -> Result<Charge> {
        let count = count as u64;
        let (due, rest) = match charge {
            Charge::Ahead(charged) => {
                (count.saturating_sub(charged), Charge::Ahead(charged.saturating_sub(count)))
            }
            Charge::AsRead => (count, Charge::AsRead),
        };
        if let Some(spending) = self.spending.as_ref().filter(|_| due > 0) {
            self.charge(spending, due as f64 * spending.prices.received, place)?;
        }
        Ok(rest)
    }

    /// Adjusts the charge to a response of `length` bytes. If the range was charged in advance,
    /// refunds the bytes that the response lacks; otherwise charges the whole body.
    pub(crate) fn charge_length(&self, charge: Charge, length: Option<u64>, place: &str) -> Result<Charge> {
        let (Some(spending), Some(length)) = (&self.spending, length) else { return Ok(charge) };
        match charge {
            Charge::Ahead(charged) => {
                *self.charged.lock() -= charged.saturating_sub(length) as f64 * spending.prices.received;
                Ok(Charge::Ahead(charged.min(length)))
            }
            Charge::AsRead => {
                self.charge(spending, length as f64 * spending.prices.received, place)?;
                Ok(Charge::Ahead(length))
            }
        }
    }

    /// Returns an error if the bucket is in another region (`found`) than the one that the prices
    /// are for.
    pub(crate) fn check_region(&self, found: &str, place: &str) -> Result<()> {
        let priced = self.spending.as_ref().and_then(|spending| spending.region.as_deref());
        match priced.filter(|priced| *priced != found) {
            None => Ok(()),
            Some(priced) => Err(Error::PricedElsewhere {
                location: place.to_owned(),
                region: found.to_owned(),
                priced: priced.to_owned(),
            }),
        }
    }

    /// Returns an error, if there is a budget, for an object whose storage class has no known
    /// prices.
    pub(crate) fn refuse_class(&self, class: &str, place: &str) -> Result<()> {
        let refusal = || Error::PricedOtherwise { location: place.to_owned(), class: class.to_owned() };
        if self.spending.is_some() { Err(refusal()) } else { Ok(()) }
    }

    fn charge(&self, spending: &Spending, price: f64, place: &str) -> Result<()> {
        let mut charged = self.charged.lock();
        if *charged + price > spending.limit {
            return Err(Error::Budget { location: place.to_owned(), limit: spending.limit });
        }
        *charged += price;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pay(account: &SpendingAccount, kind: RequestKind, range: Option<ByteRange>) -> Result<Charge> {
        account.charge_request(kind, range, 0, "s3://b/k")
    }

    #[test]
    fn a_request_that_would_pass_the_limit_is_refused_and_one_that_fits_is_paid() {
        let prices = Prices { get: 1.0, put: 4.0, received: 0.01, sent: 0.0 };
        let spending = Spending { limit: 10.0, prices, region: None };
        let account = SpendingAccount::new(Some(spending));
        // The request sends one byte and asks for 500 bytes, of which 300 arrive.
        let charge = pay(&account, RequestKind::Get, Some(ByteRange::new(0, 500))).unwrap();
        assert_eq!(charge, Charge::Ahead(500));
        let charge = account.charge_length(charge, Some(300), "p").unwrap();
        assert!((*account.charged.lock() - 4.0).abs() < 1e-9);
        pay(&account, RequestKind::List, None).unwrap();
        let refused = pay(&account, RequestKind::Put, None).unwrap_err();
        assert_eq!(refused.to_string(), "s3://b/k: the budget of 10 USD is spent");
        assert!(!refused.is_transient() && refused.concerns_store());
        // Deletions cost nothing, so unfinished writes can be removed even if the budget is spent.
        pay(&account, RequestKind::Delete, None).unwrap();
        account.charge_bytes(Charge::AsRead, 200, "p").unwrap();
        account.charge_bytes(Charge::AsRead, 1, "p").unwrap_err();
        account.charge_bytes(charge, 100, "p").unwrap();
    }

    #[test]
    fn bytes_beyond_the_range_are_paid_as_they_are_read() {
        let prices = Prices { received: 0.01, ..Prices::default() };
        let account = SpendingAccount::new(Some(Spending { limit: 10.0, prices, region: None }));
        let charge = pay(&account, RequestKind::Get, Some(ByteRange::new(0, 100))).unwrap();
        let charge = account.charge_length(charge, Some(6_000), "p").unwrap();
        let charge = account.charge_bytes(charge, 60, "p").unwrap();
        assert!((*account.charged.lock() - 1.0).abs() < 1e-9);
        let charge = account.charge_bytes(charge, 640, "p").unwrap();
        assert!((*account.charged.lock() - 7.0).abs() < 1e-9);
        assert!(matches!(account.charge_bytes(charge, 400, "p"), Err(Error::Budget { .. })));
    }

    #[test]
    fn prices_of_another_region_are_not_taken_for_those_of_a_bucket() {
        let spending = Spending { limit: 1.0, region: Some("us-east-1".into()), ..Spending::default() };
        let account = SpendingAccount::new(Some(spending));
        account.check_region("us-east-1", "s3://b").unwrap();
        let refused = account.check_region("ap-northeast-2", "s3://b").unwrap_err();
        assert!(refused.to_string().contains("ap-northeast-2"), "{refused}");
        assert!(!refused.is_transient() && refused.concerns_store());
        SpendingAccount::default().check_region("ap-northeast-2", "s3://b").unwrap();
    }

    #[test]
    fn a_storage_class_without_prices_ends_a_budget_and_has_no_sum() {
        let account = SpendingAccount::new(Some(Spending { limit: 1.0, ..Spending::default() }));
        let refused = account.refuse_class("GLACIER_IR", "s3://b/k").unwrap_err();
        assert!(refused.to_string().contains("GLACIER_IR") && refused.concerns_store(), "{refused}");
        SpendingAccount::default().refuse_class("GLACIER_IR", "s3://b/k").unwrap();
        let prices = Prices { get: 1.0, ..Prices::default() };
        assert_eq!(prices.usd(&StoreCounts::default()), Some(0.0));
        assert_eq!(prices.usd(&StoreCounts { unpriced: 1, ..StoreCounts::default() }), None);
    }

    #[test]
    fn without_a_budget_everything_is_free() {
        let account = SpendingAccount::default();
        assert_eq!(pay(&account, RequestKind::Get, None).unwrap(), Charge::AsRead);
        account.charge_bytes(Charge::AsRead, usize::MAX, "p").unwrap();
    }
}
