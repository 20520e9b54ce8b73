//! Measures, within a budget, how fast a location is: the objects of a store, or the files below a
//! path.
//!
//! [`access()`] checks whether the location works for this user. [`probe`] measures latencies,
//! rates, the end of a burst, limits on requests per second, the speed of listing, and the local
//! disk. A [`ProbeReport`] prints ten lines. It also becomes a model of `firstbyte-advise`, which
//! `link` replays and from which `advise` predicts.
//!
//! Invariants: requests never exceed the budget, what a part has measured survives its end, and a
//! location is written to only with [`ProbeRights::ReadWrite`]. Called by the verbs `probe` and
//! `doctor`, and by a workload of `bench`.

mod access;
mod disk;
mod error;
mod ledger;
mod load;
mod model;
mod names;
mod part;
mod quantiles;
mod rates;
mod readable_objects;
mod report;
mod small;
mod timeline;

use std::path::PathBuf;
use std::time::Duration;

use firstbyte_location::Location;
use firstbyte_store::{Cancel, Store};

pub use access::{AccessReport, ProbeRights, Right, check as access};
pub use disk::DiskRates;
pub use error::{Error, Refusal, Result};
pub use ledger::{Budget, Spent};
pub use model::ModelIdentity;
pub use names::ListingSpeed;
pub use quantiles::Quantiles;
pub use rates::{EndedBurst, ProbedRates, RampStep};
pub use report::{ProbeReport, Unreadable};
pub use small::{Ceiling, ProbedLatencies};

use access::WrittenObject;
use ledger::Ledger;
use part::PartEnd;
use readable_objects::{MAX_SAMPLES, Samples};
use timeline::Timeline;

/// Share of the time in which objects to read are searched for.
const FIND_PART: f64 = 0.05;
/// Share of the time in which the disk is written, and share in which it is read.
const DISK_PART: f64 = 0.03;

/// Time after the budget in which the bytes of the last requests are still recorded.
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
    /// Ends the probe early. The report then has what was measured until then.
    pub cancel: Cancel,
}

/// Measures `location`. Requests are not repeated, because a refusal is a result.
///
/// # Errors
///
/// No object can be read, the object to read cannot be written, or the budget does not suffice for
/// the first request. A later failure ends only its part of the probe, and the report says so.
pub fn probe(store: &Store, location: &Location, options: &ProbeOptions) -> Result<ProbeReport> {
    let mut store = store.without_retries().scoped(&options.cancel);
    if let Some(spending) = &options.budget.spending {
        store = store.with_spending(spending.clone());
    }
    let store = &store;
    let ledger = Ledger::new(&options.budget, store, &options.cancel);
    let timeline = Timeline::new(options.budget.time + LAST_REQUESTS_GRACE);
    let find = (MAX_SAMPLES, ledger.part(FIND_PART));
    let (access, samples) = access::examine(store, location, options.rights, find);
    let lacks_content = access.empty && options.rights == ProbeRights::ReadWrite;
    let written = match access.obstacle() {
        None | Some(Error::Empty { .. }) if lacks_content => Some(WrittenObject::put(store, location)?),
        Some(error) => return Err(error),
        None => None,
    };
    let samples = match &written {
        Some(written) => Samples::one(written.location.clone(), written.size),
        None => samples,
    };
    let mut report = ProbeReport { access, ..ProbeReport::default() };
    report.measure(store, location, &samples, (&ledger, &timeline));
    let disk = ledger.part(DISK_PART).max(Duration::from_millis(200));
    match disk::measure(&options.disk, disk, &options.cancel) {
        Ok(disk) => report.disk = Some(disk),
        Err(error) => report.disk_failed = Some(format!("{}: {error}", options.disk.display())),
    }
    report.unreadable = samples.lost().map(|(count, first)| Unreadable { count, first });
    report.interrupted = ledger.is_interrupted();
    report.spent = ledger.spent();
    report.spent.bytes = report.spent.bytes.max(timeline.total());
    Ok(report)
}

impl ProbeReport {
    /// Measures the parts that send requests. A part that ends early keeps what it has measured.
    fn measure(
        &mut self,
        store: &Store,
        location: &Location,
        samples: &Samples,
        (ledger, timeline): (&Ledger<'_>, &Timeline),
    ) {
        let mut ended = |name: &str, end: Option<PartEnd>| {
            if let Some(end) = end {
                self.ended.insert(name.to_owned(), end.to_string());
            }
        };
        let (mut latencies, end) = small::latencies(store, samples, ledger);
        ended("first_byte", end);
        // The check has timed a request already, which is all that a very short probe knows.
        let checked = || self.access.read_seconds.and_then(|seconds| Quantiles::of(vec![seconds]));
        latencies.first_byte = latencies.first_byte.or_else(checked);
        let wait = latencies.first_byte.map_or(0.0, |times| times.p50);
        self.latencies = latencies;
        if !self.access.single {
            let (names, end) = names::measure(store, location, ledger);
            self.names = names;
            ended("names", end);
        }
        let (rates, end) = rates::measure(store, samples, ledger, timeline, wait);
        self.rates = rates;
        ended("rates", end);
        let (ceiling, end) = small::ceiling(store, samples, ledger, wait);
        self.ceiling = ceiling;
        ended("ceiling", end);
        let (small_files, end) = small::small_files(store, samples, ledger, wait);
        self.small_files = small_files;
        ended("small_files", end);
    }
}
