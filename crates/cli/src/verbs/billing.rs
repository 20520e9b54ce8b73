//! Finds who bills a location, and the prices of its requests and bytes: the options of the verbs
//! that count dollars. Nothing is guessed: what is not known is said, with the option that gives
//! it.

use std::path::Path;

use clap::{Args, ValueEnum};
use firstbyte::billing::{Transfer, list_prices};
use firstbyte::environment;
use firstbyte_advise::model::{Catalogue, Service};
use firstbyte_advise::units;
use firstbyte_bench::cost::{Declared, is_of_the_machine, service_of_bucket};
use firstbyte_location::{Location, redacted};
use firstbyte_mount::mount_table::Mounts;
use firstbyte_store::{EndpointSource, Prices, Store};

use crate::globals::Globals;
use crate::render::error::{Error, Result};
use crate::verbs::advise;

/// Options about bills.
#[derive(Args, Clone, Debug, Default)]
pub struct BillArgs {
    /// Location of this machine relative to the data's region. It decides the price of transferred
    /// bytes
    #[arg(long, value_name = "WAY", value_enum)]
    transfer: Option<Way>,
    /// Service that bills network paths and endpoints outside AWS: a name from `advise models`, or
    /// `none`
    #[arg(long, value_name = "SERVICE", value_parser = parse_declared)]
    bill_as: Option<Declared>,
}

/// A way of the bytes.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Way {
    /// In the same region and zone
    None,
    /// In another availability zone of the region
    Zone,
    /// In another region
    Region,
    /// Outside of AWS
    Internet,
}

/// A sum of money: `5USD`.
pub fn parse_money(text: &str) -> std::result::Result<f64, String> {
    units::money(text).map(|dollars| dollars.0).map_err(|error| error.to_string())
}

fn parse_declared(text: &str) -> std::result::Result<Declared, String> {
    let services = Catalogue::current().services;
    if text == "none" {
        return Ok(Declared::Nothing);
    }
    if services.iter().any(|model| model.name == text) {
        return Ok(Declared::Service(text.to_owned()));
    }
    let known: Vec<&str> = services.iter().map(|model| model.name.as_str()).collect();
    Err(format!("write none, or one of {}", known.join(", ")))
}

/// Billing of a location.
#[derive(Clone, Debug, PartialEq)]
pub enum Billing {
    /// Nothing.
    Free,
    /// Requests and bytes of this service, by these prices.
    Priced(String, Prices),
    /// Not known; the text says what is missing.
    Unknown(String),
}

impl BillArgs {
    /// The way of the bytes, if it is given.
    pub fn transfer(&self) -> Option<Transfer> {
        self.transfer.map(|way| match way {
            Way::None => Transfer::None,
            Way::Zone => Transfer::Zone,
            Way::Region => Transfer::Region,
            Way::Internet => Transfer::Internet,
        })
    }

    /// Billing of locations that are not AWS's, if it is given.
    pub fn declared(&self) -> Option<&Declared> {
        self.bill_as.as_ref()
    }

    /// Billing of `location`. Bytes take the way `transfer`.
    pub fn billing(
        &self,
        location: &Location,
        store: &Store,
        globals: &Globals,
        transfer: Transfer,
    ) -> Result<Billing> {
        let service = match self.service(location, store) {
            Ok(Some(service)) => service,
            Ok(None) => return Ok(Billing::Free),
            Err(unknown) => return Ok(Billing::Unknown(unknown)),
        };
        match Catalogue::current().service(&service) {
            Some(model) => self.by_model(model, location, store, globals, transfer),
            None => Ok(Billing::Unknown(format!("no model is called {service}"))),
        }
    }

    /// Bills of a model in the region of `location`.
    pub fn by_model(
        &self,
        model: &Service,
        location: &Location,
        store: &Store,
        globals: &Globals,
        transfer: Transfer,
    ) -> Result<Billing> {
        let configured = match location {
            Location::Object(object) if object.service.is_s3() => store.endpoint_of(object.service)?.region,
            _ => None,
        };
        let region = globals.region.clone().or(configured);
        let Some(region) = region.or_else(|| environment::region(&environment::variable)) else {
            return Ok(Billing::Unknown("in which region it is billed; tell it with --region".into()));
        };
        let prices = advise::price_catalogue()?;
        prices.check_region(&region).map_err(|error| Error::usage(format!("--region: {error}")))?;
        Ok(match list_prices(model, transfer, &prices, &region, advise::today()?) {
            Ok(prices) => Billing::Priced(model.name.clone(), prices),
            Err(missing) => Billing::Unknown(format!("what it bills: {missing}")),
        })
    }

    /// The service that bills a location; `None` where nothing is billed. The error says what is
    /// not known.
    fn service(&self, location: &Location, store: &Store) -> std::result::Result<Option<String>, String> {
        match self.declared() {
            Some(Declared::Nothing) => return Ok(None),
            Some(Declared::Service(name)) => return Ok(Some(name.clone())),
            None => {}
        }
        let unknown = |what: &str| Err(format!("what {what} bills; tell it with --bill-as"));
        match location {
            Location::Local(path) => match file_system(path) {
                Some(kind) if is_of_the_machine(&kind) => Ok(None),
                kind => unknown(&format!("its file system ({})", kind.as_deref().unwrap_or("unknown"))),
            },
            Location::Object(object) if object.service.is_s3() => match store.endpoint_of(object.service) {
                Ok(endpoint) if endpoint.source == EndpointSource::Aws => {
                    Ok(Some(service_of_bucket(&object.bucket).to_owned()))
                }
                Ok(endpoint) if is_loopback(&endpoint.url) => Ok(None),
                Ok(endpoint) => unknown(&redacted(&endpoint.url)),
                Err(error) => Err(error.to_string()),
            },
            Location::Http(url) if is_loopback(&url.authority) => Ok(None),
            other => unknown(&other.to_string()),
        }
    }
}

fn is_loopback(url: &str) -> bool {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    ["127.", "localhost", "[::1]"].iter().any(|local| host.starts_with(local))
}

/// The type of the file system at `path`, or at what exists of it.
fn file_system(path: &Path) -> Option<String> {
    let existing = path.ancestors().find(|ancestor| ancestor.exists())?;
    let mounts = Mounts::current().ok()?;
    let real = std::fs::canonicalize(existing).ok()?;
    mounts.of(&real).map(|mount| mount.kind.clone())
}
