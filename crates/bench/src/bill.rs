//! The bill of reading from a service, without that of storing: the cost of a measurement.
//!
//! The caller counts the reads of a run. Here they become a [`Usage`] by the bills of the service's
//! model, so an unknown price is missing, and never free. Called by `cost`.

use firstbyte_advise::model::{Billed, Kind, Service};
use firstbyte_advise::units::GIB;
use firstbyte_advise::usage::{Item, Unit, Usage};

/// Reads of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reads {
    /// Requests for data.
    pub gets: f64,
    /// Requests for names.
    pub lists: f64,
    /// Bytes.
    pub bytes: f64,
}

impl Reads {
    /// All of `times` as many.
    #[must_use]
    pub fn times(self, times: f64) -> Self {
        Self { gets: self.gets * times, lists: self.lists * times, bytes: self.bytes * times }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            gets: self.gets + other.gets,
            lists: self.lists + other.lists,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// Where the reader is, seen from the service: what its bytes cost on their way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transfer {
    /// In the same region, where the way costs nothing.
    None,
    /// In another availability zone.
    Zone,
    /// In another region.
    Region,
    /// Outside of AWS.
    Internet,
}

impl Transfer {
    /// Key of its price; `None` where it costs nothing.
    fn price(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Zone => Some("transfer/zone"),
            Self::Region => Some("transfer/region"),
            Self::Internet => Some("transfer/internet"),
        }
    }
}

/// What reading so much from `service` uses that is billed. An unknown way of the bytes (`None`)
/// is left out: the caller has to say so.
#[must_use]
pub fn usage(service: &Service, reads: &Reads, transfer: Option<Transfer>) -> Usage {
    let gib = reads.bytes / GIB;
    let mut items = Vec::new();
    for bill in &service.bills {
        match bill.of {
            Billed::Read | Billed::ReadSmall => items.push(Item::per_job(&bill.price, gib, Unit::GiB)),
            Billed::Requests | Billed::DirectRequests => {
                items.push(Item::per_job(&bill.price, reads.gets, Unit::Requests));
                // Names are listed at the price of a PUT.
                if let (Kind::Object, Some(name)) = (service.kind, bill.price.strip_suffix("/get")) {
                    items.push(Item::per_job(&format!("{name}/put"), reads.lists, Unit::Requests));
                }
            }
            // Billed whether or not anything is read.
            Billed::Stored
            | Billed::StoredPerClient
            | Billed::StoredDuringJob
            | Billed::StoredSmall
            | Billed::HydrationRequests
            | Billed::Capacity
            | Billed::ProvisionedRate
            | Billed::VolumeRate
            | Billed::VolumeOperations
            | Billed::Loaded => {}
        }
    }
    if let Some(price) = transfer.and_then(Transfer::price) {
        items.push(Item::per_job(price, gib, Unit::GiB));
    }
    items.retain(|item| item.quantity > 0.0);
    Usage { items, waiting: None }
}

#[cfg(test)]
mod tests {
    use firstbyte_advise::model::Catalogue;
    use firstbyte_advise::prices;

    use super::*;

    fn cost(service: &str, reads: &Reads, transfer: Option<Transfer>) -> prices::Cost {
        let all = Catalogue::current();
        let usage = usage(all.service(service).unwrap(), reads, transfer);
        prices::Catalogue::current().cost(&usage, "us-east-1", "2026-11-23".parse().unwrap())
    }

    const READS: Reads = Reads { gets: 1e6, lists: 1e3, bytes: 100.0 * GIB };

    #[test]
    fn requests_reads_and_the_way_are_billed_and_storing_is_not() {
        let close = |cost: &prices::Cost, usd: f64| {
            assert!((cost.per_job - usd).abs() < 1e-9 && cost.per_month == 0.0, "{cost:?} is not {usd}");
            assert!(cost.is_complete(), "{cost:?}");
        };
        close(&cost("s3-standard", &READS, None), 0.4 + 0.005);
        close(&cost("s3-standard", &READS, Some(Transfer::None)), 0.4 + 0.005);
        close(&cost("s3-standard", &READS, Some(Transfer::Internet)), 0.4 + 0.005 + 9.0);
        close(&cost("s3-express", &READS, None), 0.03 + 0.001_13 + 0.06);
        close(&cost("efs-elastic", &READS, Some(Transfer::Zone)), 3.0 + 1.0);
        close(&cost("fsx-scratch-2", &READS, None), 0.0);
        close(&cost("s3-standard", &Reads::default(), Some(Transfer::Internet)), 0.0);
    }

    #[test]
    fn a_price_that_is_not_known_is_missing() {
        let usage = usage(Catalogue::current().service("s3-standard").unwrap(), &READS, None);
        let seoul =
            prices::Catalogue::current().cost(&usage, "ap-northeast-2", "2026-11-23".parse().unwrap());
        assert_eq!(seoul.missing.len(), 2);
    }

    #[test]
    fn twice_as_much_costs_twice_as_much() {
        let one = cost("s3-express", &READS, Some(Transfer::Region)).per_job;
        let two = cost("s3-express", &READS.plus(READS), Some(Transfer::Region)).per_job;
        assert!((two - 2.0 * one).abs() < 1e-9);
        assert_eq!(READS.plus(READS), READS.times(2.0));
    }
}
