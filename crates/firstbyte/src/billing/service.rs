//! Determines which service bills a location, and its prices. Nothing is guessed: if a fact is not
//! known, the error names the option that gives it. Called by the verbs that count dollars.

use std::fmt;

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

/// Returns true for types of file systems on disks of the machine or in its memory, which cost
/// nothing.
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

/// Returns true for the address of a server on this machine.
#[must_use]
pub fn is_loopback(url: &str) -> bool {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    ["127.", "localhost", "[::1]"].iter().any(|local| host.starts_with(local))
}

/// What the user has said about paths and endpoints whose service is not known.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Declared {
    /// Nothing is billed.
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
pub enum MissingFact {
    /// The service that bills the given place.
    Service(String),
    /// The region of the service.
    Region,
    /// The given price.
    Price(String),
    /// A single price list for all requests that are counted together.
    OneList,
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
            Self::Way => f.write_str("the network path is not known"),
        }
    }
}

/// How a location is billed.
#[derive(Clone, Debug, PartialEq)]
pub enum Billing {
    /// Nothing is billed.
    Free,
    /// Requests and bytes are billed by this service, at these prices.
    Priced(String, Prices),
    /// A fact that is needed is not known.
    Unknown(MissingFact),
}

/// What the user has said about billing.
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
    /// As [`billing`](Self::billing).
    pub fn by_model(
        &self,
        model: &ServiceModel,
        location: &Location,
        store: &Store,
        transfer: Transfer,
        lookup: VariableLookup<'_>,
    ) -> Result<Billing> {
        let configured = match location {
            Location::Object(object) if object.service.is_s3() => store.endpoint_of(object.service)?.region,
            _ => None,
        };
        let region = self.region.clone().or(configured).or_else(|| environment::region(lookup));
        let Some(region) = region else { return Ok(Billing::Unknown(MissingFact::Region)) };
        let prices = price_catalogue(lookup)?;
        prices.check_region(&region).map_err(|error| Error::Bill {
            option: "region",
            why: error.to_string(),
            tell: None,
        })?;
        Ok(match list_prices(model, transfer, &prices, &region, today()?) {
            Ok(prices) => Billing::Priced(model.name.clone(), prices),
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
                Ok(endpoint) if is_loopback(&endpoint.url) => Ok(None),
                Ok(endpoint) => Err(MissingFact::Service(redacted(&endpoint.url).into_owned())),
                Err(error) => Err(MissingFact::Price(error.to_string())),
            },
            Location::Http(url) if is_loopback(&url.authority) => Ok(None),
            other => Err(MissingFact::Service(other.to_string())),
        }
    }
}
