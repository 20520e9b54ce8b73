//! Measures, within a budget, how fast a location is: the objects of a store, or the files below a
//! path.
//!
//! [`access()`] checks whether the location works for this user. [`probe`] measures latencies,
//! rates, the end of a burst, limits on requests per second, the speed of listing, and the local
//! disk. A [`ProbeReport`] prints ten lines. It also becomes a model of `firstbyte-advise`, which
//! `link` replays and from which `advise` predicts.
//!
//! Invariants: requests never exceed the budget, and the probe writes to a location only with
//! [`ProbeRights::ReadWrite`]. The verbs `probe` and `doctor` call this crate.

mod access;
mod disk;
mod error;
mod ledger;
mod load;
mod model;
mod names;
mod place;
mod quantiles;
mod rates;
mod report;
mod small;
mod timeline;

use std::path::PathBuf;
use std::time::Duration;

use firstbyte_location::Location;
use firstbyte_store::Store;

pub use access::{AccessReport, ProbeRights, Right, check as access};
pub use disk::DiskRates;
pub use error::{Error, Result};
pub use ledger::{Budget, Spent};
pub use model::ModelIdentity;
pub use names::ListingSpeed;
pub use quantiles::Quantiles;
pub use rates::{EndedBurst, ProbedRates, RampStep};
pub use report::ProbeReport;
pub use small::{Ceiling, ProbedLatencies};

use access::WrittenObject;
use ledger::Ledger;
use place::Samples;
use timeline::Timeline;

/// Share of the time in which objects to read are searched.
const FIND_PART: f64 = 0.05;
/// Share of the time in which the disk is measured.
const DISK_PART: f64 = 0.03;

/// Time after the budget in which the last requests may end.
const LAST_REQUESTS_GRACE: Duration = Duration::from_secs(5);

/// The parameters of a probe.
#[derive(Clone, Debug)]
pub struct ProbeOptions {
    /// The limits.
    pub budget: Budget,
    /// Whether the probe may write to the location.
    pub rights: ProbeRights,
    /// A directory on the local disk. The disk is measured there.
    pub disk: PathBuf,
}

/// Measures `location`. Requests are not repeated, because a refusal is a result.
///
/// # Errors
/// No object can be read, or the budget does not suffice for the first request. A later failure
/// ends only its part of the probe, and the report says so.
pub fn probe(store: &Store, location: &Location, options: &ProbeOptions) -> Result<ProbeReport> {
    let store = &store.without_retries();
    let ledger = Ledger::new(options.budget, store);
    let timeline = Timeline::new(options.budget.time + LAST_REQUESTS_GRACE);
    let access = access::check(store, location, options.rights);
    let written = match access.obstacle() {
        Some(Error::Empty { .. }) if options.rights == ProbeRights::ReadWrite => {
            Some(WrittenObject::put(store, location)?)
        }
        Some(error) => return Err(error),
        None => None,
    };
    let samples = match (&written, access::single(store, location)) {
        (Some(written), _) => Samples::one(written.location.clone(), written.size),
        (None, Some(size)) => Samples::one(location.clone(), size),
        (None, None) => Samples::below(store, location, ledger.part(FIND_PART))?,
    };
    let latencies = small::latencies(store, &samples, &ledger)?;
    let Some(first_byte) = latencies.first_byte else {
        return Err(Error::Budget { location: location.to_string() });
    };
    let wait = first_byte.p50;
    let names = if access.single { None } else { names::measure(store, location, &ledger)? };
    let settle = Duration::from_secs_f64((3.0 * wait + 0.1).min(2.0));
    let mut report = ProbeReport::new(access, latencies, names);
    report.rates = rates::measure(store, &samples, &ledger, &timeline, settle)?;
    report.ceiling = small::ceiling(store, &samples, &ledger, wait)?;
    report.small_files = small::small_files(store, &samples, &ledger, wait)?;
    let time = ledger.part(DISK_PART).max(Duration::from_millis(200));
    match disk::measure(&options.disk, time) {
        Ok(disk) => report.disk = Some(disk),
        Err(error) => report.disk_failed = Some(format!("{}: {error}", options.disk.display())),
    }
    report.spent = ledger.spent();
    report.spent.bytes = report.spent.bytes.max(timeline.total());
    Ok(report)
}
