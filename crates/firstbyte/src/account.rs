//! Accounts for the money and time of a run: its budget, and the dollars and the predicted time in
//! its receipt. The command line and Python share this code.
//!
//! Invariant: dollars are counted only if the same price list applies to all requests. A store
//! counts the requests to all services together, so a copy between two services has no dollars.

use std::path::Path;

use firstbyte_advise::advice::{self, Inputs};
use firstbyte_advise::model::{HERE, MachineModel, ModelCatalogue, ServiceKind, ServiceModel};
use firstbyte_advise::units::{Bytes, Rate};
use firstbyte_advise::{prices, workload};
use firstbyte_location::{Location, shown};
use firstbyte_store::{Error as StoreError, Prices, Spending, Store};

use crate::billing::{Billing, BillingFacts, MissingFact, PricedService, Transfer, today};
use crate::environment::VariableLookup;
use crate::error::{Error, Result};
use crate::receipt::Receipt;

/// Memory in bytes, and network rate in bytes per second, of a machine without limits. The model of
/// the service has limits of its own.
const UNLIMITED: f64 = 1e15;

/// The user's statements about money and time: the budget of a run, the facts for its prices, and
/// the model for its prediction.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// The budget in dollars.
    pub budget: Option<f64>,
    /// The facts on which the prices depend.
    pub bill: BillingFacts,
    /// The model that predicts the time.
    pub model: Option<ServiceModel>,
}

/// The prices, the budget and the model of one run.
#[derive(Clone, Debug, Default)]
pub struct Account {
    priced: Option<PricedService>,
    budget: Option<f64>,
    model: Option<ServiceModel>,
    /// Places that requests go to.
    locations: Vec<Location>,
}

/// Returns the embedded model whose name is `path`, or else reads the model in the file `path`.
///
/// # Errors
/// The file cannot be read, or is not a model.
pub fn model(path: &Path) -> Result<ServiceModel> {
    if let Some(known) = path.to_str().and_then(|name| ModelCatalogue::current().service(name).cloned()) {
        return Ok(known);
    }
    let text = std::fs::read_to_string(path)
        .map_err(|source| StoreError::Io { location: shown(path).to_string(), source })?;
    let why = |why: String| Error::Operand { operand: shown(path).to_string(), why };
    ServiceModel::parse(&text).map_err(|error| why(error.to_string()))
}

impl Terms {
    /// Opens the account of a run that sends requests to `locations`.
    ///
    /// # Errors
    /// [`Error::Bill`] if the prices for a budget or a stated service are not known. Also an error
    /// if the user's price catalogue cannot be used.
    pub fn open(&self, locations: &[Location], store: &Store, lookup: VariableLookup<'_>) -> Result<Account> {
        let option = if self.budget.is_some() { "budget" } else { "bill-as" };
        let unknown = |unknown: &MissingFact| Error::Bill {
            option,
            why: format!("unknown price: {unknown}"),
            tell: unknown.option(),
        };
        let is_needed = self.budget.is_some() || self.bill.declared.is_some();
        let priced = match self.billing(locations, store, lookup)? {
            Billing::Priced(priced) => Some(priced),
            Billing::Free if self.budget.is_some() => {
                let why = "nothing is billed here".into();
                return Err(Error::Bill { option, why, tell: Some("bill-as") });
            }
            Billing::Unknown(what) if is_needed => return Err(unknown(&what)),
            Billing::Free | Billing::Unknown(_) => None,
        };
        if self.budget.is_some() && self.bill.transfer.is_none() {
            return Err(unknown(&MissingFact::Way));
        }
        let (locations, model) = (locations.to_owned(), self.model.clone());
        Ok(Account { priced, budget: self.budget, model, locations })
    }

    /// Returns how the remote locations are billed. If they are not all billed in the same way, the
    /// result is [`Billing::Unknown`].
    fn billing(&self, locations: &[Location], store: &Store, lookup: VariableLookup<'_>) -> Result<Billing> {
        let transfer = self.bill.transfer.unwrap_or(Transfer::None);
        let billing_model = self.model.as_ref().filter(|model| !model.bills.is_empty());
        let mut all: Vec<Billing> = Vec::new();
        for location in locations.iter().filter(|location| location.as_local().is_none()) {
            let found = match (billing_model, &self.bill.declared) {
                (Some(model), None) => self.bill.by_model(model, location, store, transfer, lookup)?,
                _ => self.bill.billing(location, store, transfer, lookup)?,
            };
            if !all.contains(&found) {
                all.push(found);
            }
        }
        Ok(match all.len() {
            0 => Billing::Free,
            1 if self.copies_between_regions(locations, store) && matches!(all[0], Billing::Priced(_)) => {
                Billing::Unknown(MissingFact::CopyWay)
            }
            1 => all.swap_remove(0),
            _ => Billing::Unknown(MissingFact::OneList),
        })
    }

    /// Returns true if a service may copy between two of these buckets by itself, and the buckets
    /// may be in two regions. AWS bills the bytes of such a copy ("Data transferred via a COPY
    /// request between Regions is charged", <https://aws.amazon.com/s3/faqs/>, 2026-11-28). No
    /// store counts them, because they do not pass through this machine.
    fn copies_between_regions(&self, locations: &[Location], store: &Store) -> bool {
        let objects = |location: &'_ Location| match location {
            Location::Object(object) => Some(object.clone()),
            _ => None,
        };
        let objects: Vec<_> = locations.iter().filter_map(objects).collect();
        let two = objects.iter().any(|one| {
            objects.iter().any(|other| one.bucket != other.bucket && store.is_one_service(one, other))
        });
        two && matches!(self.bill.transfer, Some(Transfer::Region | Transfer::Internet))
    }
}

impl Account {
    /// Returns the budget and the prices for the store. `None` if there is no budget, or the prices
    /// are not known.
    #[must_use]
    pub fn spending(&self) -> Option<Spending> {
        let PricedService { region, prices, .. } = self.priced.clone()?;
        Some(Spending { limit: self.budget?, prices, region: Some(region) })
    }

    /// Returns the prices of requests and bytes, if they are known.
    #[must_use]
    pub fn prices(&self) -> Option<Prices> {
        self.priced.as_ref().map(|priced| priced.prices)
    }

    /// Returns the dollars of the requests that `store` has counted. `None` without prices, or if a
    /// bucket turned out to be in another region than that of the prices, or an object in a storage
    /// class with other prices.
    #[must_use]
    pub fn usd(&self, store: &Store) -> Option<f64> {
        let PricedService { region, prices, .. } = self.priced.as_ref()?;
        let is_elsewhere = |location: &Location| match location {
            Location::Object(object) => store.found_region(object).is_some_and(|found| found != *region),
            _ => false,
        };
        if self.locations.iter().any(is_elsewhere) { None } else { prices.usd(&store.counters()) }
    }

    /// Predicts the time for `bytes` in `objects` objects or ranges, in seconds. Uses the model of
    /// the terms, or else the embedded model named `embedded`. Returns `None` if there is no model,
    /// or no byte.
    #[must_use]
    pub fn predict(&self, bytes: u64, objects: u64, embedded: Option<&str>) -> Option<f64> {
        let embedded = || ModelCatalogue::current().service(embedded?).cloned();
        let model = self.model.clone().or_else(embedded).filter(|_| bytes > 0)?;
        predict(&model, bytes, objects.max(1)).map(|(seconds, _)| seconds)
    }

    /// Returns true if a run brings bytes of the model's service here: from objects, or from a
    /// mounted file system. The prediction does not apply to uploads and to copies by the service
    /// itself.
    fn reads_from(&self, model: &ServiceModel, receipt: &Receipt) -> bool {
        let is_remote = |location: &Location| location.as_local().is_none();
        let to = receipt.destination.as_deref().filter(|text| *text != "-");
        let to = to.and_then(|text| Location::parse(text.as_ref()).ok());
        let from_objects = self.locations.iter().any(is_remote);
        !to.as_ref().is_some_and(is_remote) && from_objects == (model.kind == ServiceKind::Object)
    }

    /// Adds the dollars to a receipt, and the prediction if the run read from the model's service.
    pub fn settle(&self, receipt: &mut Receipt, store: &Store) {
        receipt.usd = self.usd(store);
        let fetched = receipt.bytes.saturating_sub(receipt.resumed_bytes);
        let predicts = |model: &&ServiceModel| fetched > 0 && self.reads_from(model, receipt);
        let Some(model) = self.model.as_ref().filter(predicts) else { return };
        if let Some((seconds, range)) = predict(model, fetched, receipt.objects.max(1)) {
            (receipt.predicted_seconds, receipt.predicted_range) = (Some(seconds), Some(range));
        }
    }
}
/// Number of waits, each as long as the wait for a first byte, before all connections transfer
/// bytes: for the first connection, for its response, and for the other connections. Connecting
/// takes a round trip, and a first byte takes at least as long.
const FIRST_WAITS: f64 = 3.0;

/// Predicts the seconds for reading `objects` objects with `bytes` in total. Also returns the range
/// of the prediction.
fn predict(model: &ServiceModel, bytes: u64, objects: u64) -> Option<(f64, [f64; 2])> {
    let mut catalogue = ModelCatalogue::current();
    let start = FIRST_WAITS * model.latency.first_byte.as_ref().map_or(0.0, |latency| latency.p50.0);
    let model = ServiceModel { here: Some(model.here.clone().unwrap_or_else(this_machine)), ..model.clone() };
    let option = match model.kind {
        ServiceKind::Object => format!("{}-download", model.name),
        _ => model.name.clone(),
    };
    catalogue.put(model);
    let text = format!("[data]\nsize = \"{bytes} B\"\nfiles = {objects}\n[compute]\nat = \"{HERE}\"\n");
    let workload = workload::of_text(&text).ok()?;
    let prices = prices::PriceCatalogue::current();
    let inputs = Inputs { catalogue: &catalogue, prices: &prices, day: today().ok()? };
    let row = advice::option(&workload, &option, &inputs).ok()?;
    Some((row.seconds + start, [row.low + start, row.high + start]))
}

/// Returns a machine for a model that describes none. It has the processors of this machine, and no
/// other limits.
fn this_machine() -> MachineModel {
    let vcpus = std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64);
    MachineModel::new(vcpus, Bytes(UNLIMITED), Rate(UNLIMITED), "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::billing::{Declared, list_prices};

    #[test]
    fn a_prediction_follows_the_limits_of_the_model() {
        let model = model(Path::new("s3-standard")).unwrap();
        let (large, [low, high]) = predict(&model, 10_000_000_000, 1).unwrap();
        let (small, _) = predict(&model, 1_000, 1).unwrap();
        assert!(low < large && large < high && small < 0.3 && large > 1.0, "{small} {large}");
        // The time includes waiting for connections and responses.
        let first = model.latency.first_byte.as_ref().unwrap().p50.0;
        assert!(small > FIRST_WAITS * first, "{small} {first}");
        assert!(super::model(Path::new("/no/model")).unwrap_err().to_string().contains("/no/model"));
    }

    #[test]
    fn a_budget_becomes_prices_of_single_requests() {
        let none = Account::default();
        assert!(none.spending().is_none() && none.prices().is_none());
        let prices = list_prices(
            &model(Path::new("s3-standard")).unwrap(),
            Transfer::Internet,
            &prices::PriceCatalogue::current(),
            "us-east-1",
            "2026-11-23".parse().unwrap(),
        )
        .unwrap();
        let priced = PricedService { name: "s3-standard".into(), region: "us-east-1".into(), prices };
        let account = Account { priced: Some(priced), budget: Some(2.0), ..Account::default() };
        let Spending { limit, prices, region } = account.spending().unwrap();
        assert_eq!(region.as_deref(), Some("us-east-1"));
        assert_eq!((limit, prices.get, prices.put), (2.0, 4e-7, 5e-6));
        assert!((prices.received * 1_073_741_824.0 - 0.09).abs() < 1e-9);
        let mut counters = firstbyte_store::StoreCounts { received: 1 << 30, ..Default::default() };
        (counters.requests_by_kind.get, counters.requests_by_kind.list) = (1_000, 10);
        assert!((prices.usd(&counters).unwrap() - (0.0004 + 0.000_05 + 0.09)).abs() < 1e-9);
    }

    #[test]
    fn only_what_is_read_from_the_service_is_predicted() {
        let predicted = |name: &str, from: &str, to: Option<&str>| {
            let parse = |text: &str| Location::parse(text.as_ref()).unwrap();
            let locations = [Some(from), to].into_iter().flatten().map(parse).collect();
            let model = Some(model(Path::new(name)).unwrap());
            let account = Account { model, locations, ..Account::default() };
            let store = Store::new(firstbyte_store::StoreOptions::default()).unwrap();
            let destination = to.map(str::to_owned);
            let mut receipt = Receipt { bytes: 1_000, objects: 1, destination, ..Receipt::default() };
            account.settle(&mut receipt, &store);
            receipt.predicted_seconds.is_some()
        };
        assert!(
            predicted("s3-standard", "s3://b/k", Some("/tmp/x"))
                && predicted("s3-standard", "s3://b/k", None)
        );
        assert!(!predicted("s3-standard", "/tmp/x", Some("s3://b/k")));
        assert!(!predicted("s3-standard", "s3://a/k", Some("s3://b/k")));
        assert!(!predicted("s3-standard", "/tmp/x", Some("/tmp/y")));
        assert!(predicted("efs-elastic", "/mnt/efs/x", Some("/tmp/y")));
    }

    #[test]
    fn a_budget_without_a_fact_names_the_option_that_gives_it() {
        let store = Store::new(firstbyte_store::StoreOptions::default()).unwrap();
        let refused = |bill: BillingFacts, text: &str| {
            let terms = Terms { budget: Some(1.0), bill, model: None };
            let locations = [Location::parse(text.as_ref()).unwrap()];
            match terms.open(&locations, &store, &|_| None).unwrap_err() {
                Error::Bill { tell, .. } => tell,
                other => panic!("{other}"),
            }
        };
        let standard = Some(Declared::Service("s3-standard".into()));
        assert_eq!(refused(BillingFacts::default(), "http://store.example/x"), Some("bill-as"));
        assert_eq!(refused(BillingFacts::default(), "/tmp"), Some("bill-as"));
        let bill = BillingFacts { declared: standard.clone(), ..BillingFacts::default() };
        assert_eq!(refused(bill, "http://store.example/x"), Some("region"));
        let bill = BillingFacts { declared: standard, region: Some("us-east-1".into()), transfer: None };
        assert_eq!(refused(bill.clone(), "http://store.example/x"), Some("transfer"));
        let seoul = BillingFacts { region: Some("ap-northeast-2".into()), ..bill };
        assert_eq!(refused(seoul, "http://store.example/x"), None);
    }
}
