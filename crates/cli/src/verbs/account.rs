//! Money and time of a verb that moves bytes: its budget, the dollars and the prediction of its
//! receipt. `cp`, `sync`, `hydrate` and `mount` share the options.
//!
//! Invariant: dollars are counted only where one price list holds for all requests. The counts of a
//! store do not tell two services apart, so a copy between two of them has no dollars.

use std::path::{Path, PathBuf};

use clap::Args;
use firstbyte::billing::Transfer;
use firstbyte::receipt::Receipt;
use firstbyte_advise::advice::{self, Inputs};
use firstbyte_advise::model::{Catalogue, HERE, Kind, Machine, Service};
use firstbyte_advise::units::{Bytes, Rate};
use firstbyte_advise::workload;
use firstbyte_location::Location;
use firstbyte_store::{Prices, Spending, Store};

use super::advise;
use super::billing::{BillArgs, Billing, parse_money};
use crate::globals::Globals;
use crate::render::error::{Error, Result};

/// A network that is no limit, in bytes per second: the model has the limits.
const UNLIMITED: f64 = 1e15;

/// Budget of a verb, and the model that its prediction comes from.
#[derive(Args, Clone, Debug, Default)]
pub struct AccountArgs {
    /// End before requests and bytes would cost more than MONEY by list prices, such as 1USD. What
    /// has arrived is kept
    #[arg(long, value_name = "MONEY", value_parser = parse_money)]
    budget: Option<f64>,
    #[command(flatten)]
    bill: BillArgs,
    /// Predict the time by this model, for `advise grade` and --replay: a file that `probe` wrote,
    /// or a name from `advise models`
    #[arg(long, value_name = "FILE|NAME")]
    model: Option<PathBuf>,
}

/// The prices and the model of one run.
#[derive(Clone, Debug, Default)]
pub struct Account {
    prices: Option<Prices>,
    budget: Option<f64>,
    model: Option<Service>,
}

impl AccountArgs {
    /// Refuses a budget where the locations are not known before they are asked.
    pub fn refuse_budget(&self, with: &str) -> Result<()> {
        match self.budget {
            Some(_) => {
                Err(Error::usage(format!("--budget with {with}: what bills its objects is not known"))
                    .advise("name the locations themselves"))
            }
            None => Ok(()),
        }
    }

    /// The account of a verb that asks these locations.
    pub fn open(&self, locations: &[Location], globals: &Globals) -> Result<Account> {
        let model = self.model.as_deref().map(model).transpose()?;
        let prices = match self.billing(locations, model.as_ref(), globals)? {
            Billing::Priced(_, prices) => Some(prices),
            Billing::Free if self.budget.is_some() => {
                return Err(Error::usage("--budget: nothing is billed here")
                    .advise("leave it out, or tell with --bill-as what bills it"));
            }
            Billing::Unknown(what) if self.budget.is_some() || self.bill.declared().is_some() => {
                let option = if self.budget.is_some() { "--budget" } else { "--bill-as" };
                return Err(Error::usage(format!("{option}: it is not known {what}")));
            }
            Billing::Free | Billing::Unknown(_) => None,
        };
        if self.budget.is_some() && self.bill.transfer().is_none() {
            return Err(Error::usage("--budget: it is not known what the bytes cost on their way")
                .advise("tell it with --transfer none, zone, region or internet"));
        }
        Ok(Account { prices, budget: self.budget, model })
    }

    /// Billing of the remote ones of `locations`, by one price list.
    fn billing(&self, locations: &[Location], model: Option<&Service>, globals: &Globals) -> Result<Billing> {
        let (store, transfer) = (globals.store()?, self.bill.transfer().unwrap_or(Transfer::None));
        let mut all: Vec<Billing> = Vec::new();
        for location in locations.iter().filter(|location| location.as_local().is_none()) {
            let found = match (model.filter(|model| !model.bills.is_empty()), self.bill.declared()) {
                (Some(model), None) => self.bill.by_model(model, location, &store, globals, transfer)?,
                _ => self.bill.billing(location, &store, globals, transfer)?,
            };
            if !all.contains(&found) {
                all.push(found);
            }
        }
        Ok(match all.len() {
            0 => Billing::Free,
            1 => all.swap_remove(0),
            _ => Billing::Unknown("what two services bill: their requests are counted together".into()),
        })
    }
}

/// The model in a file, or the embedded one of this name.
pub fn model(path: &Path) -> Result<Service> {
    if let Some(known) = path.to_str().and_then(|name| Catalogue::current().service(name).cloned()) {
        return Ok(known);
    }
    let text = std::fs::read_to_string(path).map_err(|error| {
        Error::io(path.display(), &error)
            .advise("name a file that `firstbyte probe` wrote, or one of `firstbyte advise models`")
    })?;
    Service::parse(&text).map_err(|error| Error::usage(format!("{}: {error}", path.display())))
}

impl Account {
    /// The budget, as the store keeps it.
    pub fn spending(&self) -> Option<Spending> {
        Some(Spending { limit: self.budget?, prices: self.prices? })
    }

    /// The prices of requests and bytes, if they are known.
    pub fn prices(&self) -> Option<Prices> {
        self.prices
    }

    /// The predicted time of so many bytes in so many objects, in seconds, by the model given, else
    /// by the embedded one of this name.
    pub fn predict(&self, bytes: u64, objects: u64, embedded: Option<&str>) -> Option<f64> {
        let embedded = || Catalogue::current().service(embedded?).cloned();
        let model = self.model.clone().or_else(embedded).filter(|_| bytes > 0)?;
        predict(&model, bytes, objects.max(1)).map(|(seconds, _)| seconds)
    }

    /// Fills in dollars and prediction.
    pub fn settle(&self, receipt: &mut Receipt, store: &Store) {
        receipt.usd = self.prices.map(|prices| prices.usd(&store.counters()));
        let fetched = receipt.bytes.saturating_sub(receipt.resumed_bytes);
        let Some(model) = self.model.as_ref().filter(|_| fetched > 0) else { return };
        if let Some((seconds, range)) = predict(model, fetched, receipt.objects.max(1)) {
            (receipt.predicted_seconds, receipt.predicted_range) = (Some(seconds), Some(range));
        }
    }
}

/// Seconds in which `objects` with `bytes` together are read by a model, and their range.
fn predict(model: &Service, bytes: u64, objects: u64) -> Option<(f64, [f64; 2])> {
    let mut catalogue = Catalogue::current();
    let model = Service { here: Some(model.here.clone().unwrap_or_else(this_machine)), ..model.clone() };
    let option = match model.kind {
        Kind::Object => format!("{}-download", model.name),
        _ => model.name.clone(),
    };
    catalogue.put(model);
    let text = format!("[data]\nsize = \"{bytes} B\"\nfiles = {objects}\n[compute]\nat = \"{HERE}\"\n");
    let workload = workload::of_text(&text).ok()?;
    let prices = firstbyte_advise::prices::Catalogue::current();
    let inputs = Inputs { catalogue: &catalogue, prices: &prices, day: advise::today().ok()? };
    let row = advice::option(&workload, &option, &inputs).ok()?;
    Some((row.seconds, [row.low, row.high]))
}

/// Machine for a model that describes none: the processors here, all else unlimited.
fn this_machine() -> Machine {
    Machine {
        vcpus: std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64),
        memory: Bytes(UNLIMITED),
        network: Rate(UNLIMITED),
        burst: None,
        bucket: None,
        volumes: None,
        gpus: 0.0,
        store: None,
        cloud: firstbyte_advise::model::Cloud::Any,
        source: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_follows_the_limits_of_the_model() {
        let model = model(Path::new("s3-standard")).unwrap();
        let (large, [low, high]) = predict(&model, 10_000_000_000, 1).unwrap();
        let (small, _) = predict(&model, 1_000, 1).unwrap();
        assert!(low < large && large < high && small < 0.2 && large > 1.0, "{small} {large}");
        assert!(super::model(Path::new("/no/model")).unwrap_err().sentence().contains("probe"));
    }

    #[test]
    fn a_budget_becomes_prices_of_single_requests() {
        let none = Account::default();
        assert!(none.spending().is_none() && none.prices().is_none());
        let prices = firstbyte::billing::list_prices(
            &model(Path::new("s3-standard")).unwrap(),
            Transfer::Internet,
            &firstbyte_advise::prices::Catalogue::current(),
            "us-east-1",
            "2026-11-23".parse().unwrap(),
        )
        .unwrap();
        let account = Account { prices: Some(prices), budget: Some(2.0), model: None };
        let Spending { limit, prices } = account.spending().unwrap();
        assert_eq!((limit, prices.get, prices.put), (2.0, 4e-7, 5e-6));
        assert!((prices.received * 1_073_741_824.0 - 0.09).abs() < 1e-9);
        let mut counters = firstbyte_store::CounterSnapshot { received: 1 << 30, ..Default::default() };
        (counters.requests_by_kind.get, counters.requests_by_kind.list) = (1_000, 10);
        assert!((prices.usd(&counters) - (0.0004 + 0.000_05 + 0.09)).abs() < 1e-9);
    }
}
