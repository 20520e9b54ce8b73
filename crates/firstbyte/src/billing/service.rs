//! Determines which service bills a location, and its prices. Nothing is guessed: if a fact is not
//! known, the error names the option that gives it. Called by the verbs that count dollars.

use std::fmt;
use std::net::IpAddr;

use firstbyte_advise::model::{ModelCatalogue, ServiceModel};
use firstbyte_location::{Location, redacted};
use firstbyte_store::{EndpointSource, Prices, Store};

use super::own_prices::{price_catalogue, today};
use super::{Transfer, list_prices};
use crate::environment::{self, VariableLookup};
use crate::error::{Error, Result};

/// Types of file systems on disks of the machine or in its memory.
const OF_THE_MACHINE: [&str; 15] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "ramfs", "overlay", "zfs", "f2fs", "bcachefs",
    "squashfs", "vfat", "exfat", "iso9660",
];

/// Returns true for types of file systems on disks of the machine or in its memory. Reading them is
/// not billed.
#[must_use]
pub fn is_of_the_machine(file_system: &str) -> bool {
    OF_THE_MACHINE.contains(&file_system)
}

/// Returns the service that bills an AWS bucket. The names of buckets in S3 Express One Zone end in
/// `--x-s3`.
#[must_use]
pub fn service_of_bucket(name: &str) -> &'static str {
    if name.ends_with("--x-s3") { "s3-express" } else { "s3-standard" }
}

/// Hosts of other services than AWS's, or the ends of their names, and the models that bill them.
const BILLING_HOSTS: [(&str, &str); 3] = [
    ("storage.googleapis.com", "gcs"),
    ("blob.core.windows.net", "azure-blob"),
    ("r2.cloudflarestorage.com", "r2"),
];

/// Returns the service that bills requests to `url`, an address outside AWS. `None` if the service
/// is not known.
#[must_use]
pub fn service_of_host(url: &str) -> Option<&'static str> {
    let host = host_of(url).trim_end_matches('.').to_ascii_lowercase();
    let is_of = |end: &str| host.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    BILLING_HOSTS.iter().find(|(end, _)| is_of(end)).map(|(_, service)| *service)
}

/// Returns the host of a URL, or of `HOST:PORT`.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(host, _)| host),
    }
}

/// Returns true for the address of a server on this machine.
#[must_use]
pub fn is_loopback(url: &str) -> bool {
    let host = host_of(url);
    match host.parse::<IpAddr>() {
        // To connect to the unspecified address is to connect to this machine (RFC 1122, 3.2.1.3).
        Ok(address) => address.to_canonical().is_loopback() || address.to_canonical().is_unspecified(),
        Err(_) => host.trim_end_matches('.').eq_ignore_ascii_case("localhost"),
    }
}

/// The user's statement about paths and endpoints whose service is not known.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Declared {
    /// The service bills nothing.
    Nothing,
    /// The service with this model name bills them.
    Service(String),
}

impl Declared {
    /// Parses `none` or the name of a model.
    ///
    /// # Errors
    /// The name is unknown. The error lists the known names in a sentence.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        if text == "none" {
            return Ok(Self::Nothing);
        }
        let services = ModelCatalogue::current().services;
        if services.iter().any(|model| model.name == text) {
            return Ok(Self::Service(text.to_owned()));
        }
        let known: Vec<&str> = services.iter().map(|model| model.name.as_str()).collect();
        Err(format!("write none, or one of {}", known.join(", ")))
    }
}

/// A fact that is needed for prices, and that is not known.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum MissingFact {
    /// The service that bills the given place.
    Service(String),
    /// The region of the service.
    Region,
    /// The given price.
    Price(String),
    /// A single price list for all requests that are counted together.
    OneList,
    /// The network path of bytes that a service copies between two buckets: within a region, or out
    /// of it.
    CopyWay,
    /// The network path of the bytes.
    Way,
}

impl MissingFact {
    /// Returns the option with which the user can give the fact.
    #[must_use]
    pub fn option(&self) -> Option<&'static str> {
        match self {
            Self::Service(_) => Some("bill-as"),
            Self::Region => Some("region"),
            Self::Way => Some("transfer"),
            Self::CopyWay => Some("transfer none"),
            Self::Price(_) | Self::OneList => None,
        }
    }
}

impl fmt::Display for MissingFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(place) => write!(f, "no price list for {place}"),
            Self::Region => f.write_str("its region is not known"),
            Self::Price(missing) => write!(f, "{missing}"),
            Self::OneList => {
                f.write_str("two services, whose requests are counted together; copy in two steps")
            }
            Self::CopyWay => f.write_str(
                "the service itself copies between the buckets, and whether they are in one region is not known",
            ),
            Self::Way => f.write_str("the network path is not known"),
        }
    }
}

/// A service that bills, and its prices.
#[derive(Clone, Debug, PartialEq)]
pub struct PricedService {
    /// Name of its model.
    pub name: String,
    /// The region whose prices these are.
    pub region: String,
    /// List prices.
    pub prices: Prices,
}

/// Billing of a location.
#[derive(Clone, Debug, PartialEq)]
pub enum Billing {
    /// The service bills nothing.
    Free,
    /// Requests and bytes of a service are billed by its list prices.
    Priced(PricedService),
    /// A fact is not known.
    Unknown(MissingFact),
}

/// The user's statements about billing.
#[derive(Clone, Debug, Default)]
pub struct BillingFacts {
    /// The network path between the services and this machine.
    pub transfer: Option<Transfer>,
    /// The service of paths and endpoints outside AWS.
    pub declared: Option<Declared>,
    /// The region of the services.
    pub region: Option<String>,
}

impl BillingFacts {
    /// Determines how `location` is billed, with the network path `transfer`.
    ///
    /// # Errors
    /// The user's price catalogue cannot be used, or the region does not exist.
    pub fn billing(
        &self,
        location: &Location,
        store: &Store,
        transfer: Transfer,
        lookup: VariableLookup<'_>,
    ) -> Result<Billing> {
        let service = match self.service(location, store) {
            Ok(Some(service)) => service,
            Ok(None) => return Ok(Billing::Free),
            Err(unknown) => return Ok(Billing::Unknown(unknown)),
        };
        match ModelCatalogue::current().service(&service) {
            Some(model) => self.by_model(model, location, store, transfer, lookup),
            None => Ok(Billing::Unknown(MissingFact::Price(format!("no model is called {service}")))),
        }
    }

    /// Determines how `location` is billed in its region, by a given model.
    ///
    /// # Errors
    /// The errors of [`billing`](Self::billing).
    pub fn by_model(
        &self,
        model: &ServiceModel,
        location: &Location,
        store: &Store,
        transfer: Transfer,
        lookup: VariableLookup<'_>,
    ) -> Result<Billing> {
        // The regions of AWS are not those of other providers.
        let configured = match location {
            Location::Object(object) if object.service.is_s3() => store.endpoint_of(object.service)?.region,
            _ => None,
        };
        let of_aws = || configured.or_else(|| environment::region(lookup));
        let stated = || self.region.clone().or_else(|| of_aws().filter(|_| model.cloud.has_aws_regions()));
        let region = model.cloud.only_region().map(str::to_owned).or_else(stated);
        let Some(region) = region else { return Ok(Billing::Unknown(MissingFact::Region)) };
        let prices = price_catalogue(lookup)?;
        prices.check_region(&region).map_err(|error| Error::Bill {
            option: "region",
            why: error.to_string(),
            tell: None,
        })?;
        Ok(match list_prices(model, transfer, &prices, &region, today()?) {
            Ok(prices) => Billing::Priced(PricedService { name: model.name.clone(), region, prices }),
            Err(missing) => Billing::Unknown(MissingFact::Price(missing)),
        })
    }

    /// Returns the service that bills a location, or `None` if nothing is billed.
    fn service(
        &self,
        location: &Location,
        store: &Store,
    ) -> std::result::Result<Option<String>, MissingFact> {
        match &self.declared {
            Some(Declared::Nothing) => return Ok(None),
            Some(Declared::Service(name)) => return Ok(Some(name.clone())),
            None => {}
        }
        match location {
            Location::Object(object) if object.service.is_s3() => match store.endpoint_of(object.service) {
                Ok(endpoint) if endpoint.source == EndpointSource::Aws => {
                    Ok(Some(service_of_bucket(&object.bucket).to_owned()))
                }
                Ok(endpoint) => service_at(&endpoint.url),
                Err(error) => Err(MissingFact::Price(error.to_string())),
            },
            Location::Object(object) => match store.address_of(object.service) {
                Some(address) => service_at(&address),
                None => Err(MissingFact::Service(location.to_string())),
            },
            Location::Http(url) if is_loopback(&url.authority) => Ok(None),
            other => Err(MissingFact::Service(other.to_string())),
        }
    }
}

/// Returns the service that bills requests to `url`, or `None` if nothing is billed.
fn service_at(url: &str) -> std::result::Result<Option<String>, MissingFact> {
    match service_of_host(url) {
        _ if is_loopback(url) => Ok(None),
        Some(service) => Ok(Some(service.to_owned())),
        None => Err(MissingFact::Service(redacted(url).into_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_names_the_service_that_bills() {
        for (url, service) in [
            ("https://0a1b.r2.cloudflarestorage.com", Some("r2")),
            ("https://0a1b.eu.r2.cloudflarestorage.com/bucket", Some("r2")),
            ("storage.googleapis.com:443", Some("gcs")),
            ("account.blob.core.windows.net:443", Some("azure-blob")),
            ("https://r2.cloudflarestorage.com.evil.example", None),
            ("https://myr2.cloudflarestorage.com", None),
            ("https://s3.example.org", None),
        ] {
            assert_eq!(service_of_host(url), service, "{url}");
        }
    }

    #[test]
    fn an_address_is_of_this_machine_by_its_host_and_not_by_its_first_letters() {
        for local in [
            "http://127.0.0.1:9000",
            "127.8.9.1",
            "https://localhost/x",
            "LOCALHOST.:80",
            "http://[::1]:9000",
            "http://[::ffff:127.0.0.1]:9000",
            "http://0.0.0.0:9000",
            "http://user@localhost:1",
        ] {
            assert!(is_loopback(local), "{local}");
        }
        for remote in [
            "http://127.example.com",
            "http://localhost.corp.example",
            "http://10.0.0.1",
            "http://localhost@store.example",
            "http://[2001:db8::1]:80",
            "",
        ] {
            assert!(!is_loopback(remote), "{remote}");
        }
    }
}
