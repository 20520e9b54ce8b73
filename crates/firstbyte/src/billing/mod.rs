//! Computes the cost of the traffic with a service: of a measurement, a copy, or a mount. The cost
//! of storage is not included.
//!
//! The bills of the service's model turn estimated requests and bytes into an [`OptionUsage`]. An
//! unknown price is reported as missing, and never counted as free. Called by `bench` for its
//! estimates, and by [`account`](crate::account) for the prices that a store counts with.

mod own_prices;
mod service;

use firstbyte_advise::model::{BilledQuantity, Cloud, ServiceKind, ServiceModel};
use firstbyte_advise::prices::{self, Cost, Day};
use firstbyte_advise::units::{self, GIB};
use firstbyte_advise::usage::{OptionUsage, Unit, UsageItem};
use firstbyte_store::Prices;

pub use own_prices::{price_catalogue, read_prices, today};
pub use service::{
    Billing, BillingFacts, Declared, MissingFact, PricedService, is_loopback, is_of_the_machine,
    service_of_bucket, service_of_host,
};

/// The requests and bytes of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JobTraffic {
    /// Number of requests for data and metadata.
    pub gets: f64,
    /// Number of requests for pages of names.
    pub lists: f64,
    /// Number of requests that write.
    pub puts: f64,
    /// Number of bytes received.
    pub bytes: f64,
    /// Number of bytes sent.
    pub sent: f64,
}

impl JobTraffic {
    /// Multiplies all counts by `times`.
    #[must_use]
    pub fn times(self, times: f64) -> Self {
        Self {
            gets: self.gets * times,
            lists: self.lists * times,
            puts: self.puts * times,
            bytes: self.bytes * times,
            sent: self.sent * times,
        }
    }

    /// Adds the counts of two jobs.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            gets: self.gets + other.gets,
            lists: self.lists + other.lists,
            puts: self.puts + other.puts,
            bytes: self.bytes + other.bytes,
            sent: self.sent + other.sent,
        }
    }
}

/// The network path from the service to the reader, which determines what the bytes cost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Transfer {
    /// The bytes stay in one region, and cost nothing.
    None,
    /// The bytes go to another availability zone.
    Zone,
    /// The bytes go to another region.
    Region,
    /// The bytes leave AWS.
    Internet,
}

/// Parses an amount of money in dollars, such as `5USD`.
///
/// # Errors
/// The reason why the text is not an amount of money, as a sentence.
pub fn parse_money(text: &str) -> Result<f64, String> {
    units::money(text).map(|dollars| dollars.0).map_err(|error| error.to_string())
}

impl Transfer {
    /// Parses the name of a network path.
    ///
    /// # Errors
    /// The name is unknown. The error lists the known names in a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "zone" => Ok(Self::Zone),
            "region" => Ok(Self::Region),
            "internet" => Ok(Self::Internet),
            _ => Err("write none, zone, region or internet".into()),
        }
    }

    /// Returns the keys of the path's prices, of bytes received and of bytes sent; `None` for bytes
    /// that cost nothing.
    ///
    /// A bucket of S3 Standard is in no zone: "There is no Data Transfer charge for data
    /// transferred between Amazon EC2 and Amazon S3 within the same Region" (<https://aws.amazon.com/s3/faqs/>,
    /// 2026-11-28). Bytes between zones cost as much in each direction
    /// (<https://aws.amazon.com/ec2/pricing/on-demand/>, 2026-11-28). Bytes sent to another region
    /// are billed by the region that they leave
    /// (<https://www.repost.aws/articles/ARjzluyMS8RbeOOK4MGXRG6Q>, 2026-11-28). That region is not
    /// known here, so the price of the service's region stands for it.
    ///
    /// Google and Azure bill no bytes between zones of a region, and none that they receive
    /// (<https://cloud.google.com/storage/pricing>,
    /// <https://azure.microsoft.com/en-us/pricing/details/bandwidth/>, 2026-11-28). R2 bills no
    /// bytes at all (<https://developers.cloudflare.com/r2/pricing/>, 2026-11-28).
    fn prices(self, service: &ServiceModel) -> [Option<&'static str>; 2] {
        match (self, service.cloud) {
            (Self::None | Self::Zone, Cloud::Google | Cloud::Azure) | (_, Cloud::Cloudflare) => {
                return [None, None];
            }
            (Self::Region, Cloud::Google) => return [Some("gcs/region"), None],
            (Self::Internet, Cloud::Google) => return [Some("gcs/internet"), None],
            (Self::Region, Cloud::Azure) => return [Some("azure-blob/region"), None],
            (Self::Internet, Cloud::Azure) => return [Some("azure-blob/internet"), None],
            (_, Cloud::Aws | Cloud::Any) => {}
        }
        match self {
            Self::None => [None, None],
            Self::Zone if service.name == STANDARD => [None, None],
            Self::Zone => [Some("transfer/zone"); 2],
            Self::Region => [Some("transfer/region"); 2],
            Self::Internet => [Some("transfer/internet"), None],
        }
    }
}

/// The service of the buckets that are in no zone.
const STANDARD: &str = "s3-standard";

/// Returns the list prices of `service` in `region` on `day`, for a reader at `transfer`. A store
/// adds them up while requests are sent.
///
/// # Errors
/// The first price that is not known, as a sentence.
pub fn list_prices(
    service: &ServiceModel,
    transfer: Transfer,
    prices: &prices::PriceCatalogue,
    region: &str,
    day: Day,
) -> Result<Prices, String> {
    let one = |traffic: JobTraffic| {
        let Cost { per_job, missing, .. } =
            prices.cost(&usage(service, &traffic, Some(transfer)), region, day);
        match missing.first() {
            Some(missing) => Err(format!("the price {} in {region}: {}", missing.price, missing.reason)),
            None => Ok(per_job),
        }
    };
    let none = JobTraffic::default();
    Ok(Prices {
        get: one(JobTraffic { gets: 1.0, ..none })?,
        // A listing costs as much as a write, so its price needs no field.
        put: one(JobTraffic { puts: 1.0, ..none })?,
        received: one(JobTraffic { bytes: GIB, ..none })? / GIB,
        sent: one(JobTraffic { sent: GIB, ..none })? / GIB,
    })
}

/// Computes the billed part of `traffic` with `service`. If `transfer` is `None`, the cost of the
/// network path is left out, and the caller has to say so.
#[must_use]
pub fn usage(service: &ServiceModel, traffic: &JobTraffic, transfer: Option<Transfer>) -> OptionUsage {
    let (gib, sent) = (traffic.bytes / GIB, traffic.sent / GIB);
    let mut items = Vec::new();
    for bill in &service.bills {
        match bill.of {
            BilledQuantity::Read | BilledQuantity::ReadSmall => {
                items.push(UsageItem::per_job(&bill.price, gib, Unit::GiB))
            }
            BilledQuantity::Loaded => items.push(UsageItem::per_job(&bill.price, sent, Unit::GiB)),
            BilledQuantity::Requests | BilledQuantity::DirectRequests => {
                items.push(UsageItem::per_job(&bill.price, traffic.gets, Unit::Requests));
                // A listing has the price of a PUT.
                if let (ServiceKind::Object, Some(name)) = (service.kind, bill.price.strip_suffix("/get")) {
                    let puts = traffic.lists + traffic.puts;
                    items.push(UsageItem::per_job(&format!("{name}/put"), puts, Unit::Requests));
                }
            }
            // Quantities that are billed even if no byte is read.
            BilledQuantity::Stored
            | BilledQuantity::StoredPerClient
            | BilledQuantity::StoredDuringJob
            | BilledQuantity::StoredSmall
            | BilledQuantity::HydrationRequests
            | BilledQuantity::Capacity
            | BilledQuantity::Hours
            | BilledQuantity::ProvisionedRate
            | BilledQuantity::VolumeRate
            | BilledQuantity::VolumeOperations => {}
        }
    }
    let ways = transfer.map_or([None, None], |transfer| transfer.prices(service));
    for (price, quantity) in ways.into_iter().zip([gib, sent]) {
        items.extend(price.map(|price| UsageItem::per_job(price, quantity, Unit::GiB)));
    }
    items.retain(|item| item.quantity > 0.0);
    OptionUsage { items, waiting: None }
}

#[cfg(test)]
mod tests {
    use firstbyte_advise::model::ModelCatalogue;

    use super::*;

    fn cost(service: &str, reads: &JobTraffic, transfer: Option<Transfer>) -> prices::Cost {
        let all = ModelCatalogue::current();
        let usage = usage(all.service(service).unwrap(), reads, transfer);
        prices::PriceCatalogue::current().cost(&usage, "us-east-1", "2026-11-23".parse().unwrap())
    }

    const READS: JobTraffic = JobTraffic { gets: 1e6, lists: 1e3, puts: 0.0, bytes: 100.0 * GIB, sent: 0.0 };

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
        // A bucket of S3 Standard is in no zone.
        close(&cost("s3-standard", &READS, Some(Transfer::Zone)), 0.4 + 0.005);
        // Bytes sent to another region or another zone cost as well.
        let sent = JobTraffic { sent: 100.0 * GIB, ..JobTraffic::default() };
        close(&cost("s3-standard", &sent, Some(Transfer::Region)), 2.0);
        close(&cost("s3-standard", &sent, Some(Transfer::Internet)), 0.0);
        close(&cost("fsx-scratch-2", &sent, Some(Transfer::Zone)), 1.0);
        close(&cost("fsx-scratch-2", &READS, None), 0.0);
        close(&cost("s3-standard", &JobTraffic::default(), Some(Transfer::Internet)), 0.0);
    }

    #[test]
    fn a_price_that_is_not_known_is_missing() {
        let usage = usage(ModelCatalogue::current().service("s3-standard").unwrap(), &READS, None);
        let seoul =
            prices::PriceCatalogue::current().cost(&usage, "ap-northeast-2", "2026-11-23".parse().unwrap());
        assert_eq!(seoul.missing.len(), 2);
    }

    #[test]
    fn each_provider_has_prices_in_its_own_regions() {
        let prices = prices::PriceCatalogue::current();
        for model in ModelCatalogue::current().services {
            assert!(Declared::parse(&model.name).is_ok(), "{}", model.name);
            let listed = |transfer, region: &str| {
                list_prices(&model, transfer, &prices, region, "2026-11-28".parse().unwrap())
            };
            let (own, other) = match model.cloud {
                Cloud::Google => ("us-central1", "us-east-1"),
                Cloud::Azure => ("westus", "us-east-1"),
                Cloud::Cloudflare => ("auto", "us-east-1"),
                Cloud::Aws | Cloud::Any => ("us-east-1", "westus"),
            };
            let internet = listed(Transfer::Internet, own).unwrap();
            assert_eq!(internet.received > 0.0, model.cloud != Cloud::Cloudflare, "{}", model.name);
            let is_billed = internet.get > 0.0 || internet.received > 0.0;
            assert!(!is_billed || listed(Transfer::Internet, other).is_err(), "{}", model.name);
        }
        let error = Declared::parse("gcp").unwrap_err();
        assert!(error.contains("gcs"), "{error}");
    }

    #[test]
    fn the_bills_of_google_azure_and_cloudflare_are_those_of_their_price_lists() {
        let prices = prices::PriceCatalogue::current();
        let listed = |name: &str, region: &str| {
            let all = ModelCatalogue::current();
            let day = "2026-11-28".parse().unwrap();
            list_prices(all.service(name).unwrap(), Transfer::Internet, &prices, region, day).unwrap()
        };
        let close = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9, "{found}");
        let google = listed("gcs", "us-central1");
        close(google.get, 0.0004 / 1e3);
        close(google.put, 0.005 / 1e3);
        close(google.received * GIB, 0.12);
        let azure = listed("azure-blob", "westus");
        close(azure.get, 0.0044 / 1e4);
        close(azure.put, 0.055 / 1e4);
        close(azure.received, 0.087 / 1e9);
        let cloudflare = listed("r2", "auto");
        close(cloudflare.get, 0.36 / 1e6);
        close(cloudflare.put, 4.5 / 1e6);
        assert_eq!((cloudflare.received, cloudflare.sent), (0.0, 0.0));
    }

    #[test]
    fn list_prices_add_up_to_the_bill_of_the_same_traffic() {
        let (all, prices) = (ModelCatalogue::current(), prices::PriceCatalogue::current());
        let traffic = JobTraffic { puts: 7e3, sent: 3.0 * GIB, ..READS };
        let listed = |service: &str, transfer, region: &str| {
            let service = all.service(service).unwrap();
            list_prices(service, transfer, &prices, region, "2026-11-23".parse().unwrap())
        };
        for service in ["s3-standard", "s3-express"] {
            let Prices { get, put, received, sent } =
                listed(service, Transfer::Internet, "us-east-1").unwrap();
            let usd = get * traffic.gets
                + put * (traffic.lists + traffic.puts)
                + received * traffic.bytes
                + sent * traffic.sent;
            let bill = cost(service, &traffic, Some(Transfer::Internet)).per_job;
            assert!((usd / bill - 1.0).abs() < 1e-9, "{service}");
        }
        let seoul = listed("s3-standard", Transfer::None, "ap-northeast-2").unwrap_err();
        assert!(seoul.contains("s3-standard/get"), "{seoul}");
    }

    #[test]
    fn twice_as_much_costs_twice_as_much() {
        let one = cost("s3-express", &READS, Some(Transfer::Region)).per_job;
        let two = cost("s3-express", &READS.plus(READS), Some(Transfer::Region)).per_job;
        assert!((two - 2.0 * one).abs() < 1e-9);
        assert_eq!(READS.plus(READS), READS.times(2.0));
    }
}
