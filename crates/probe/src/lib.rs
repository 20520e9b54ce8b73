//! Measures within a budget what a location can do: objects of a store, or files below a path.
//!
//! [`access()`] checks whether the location works for this user at all. [`probe`] measures
//! latencies, rates, the end of a burst, request ceilings, names and the local disk. A [`Report`]
//! prints ten lines and becomes a model of `firstbyte-advise`, which `link` replays and the advice
//! predicts with.
//!
//! Invariant: nothing is sent that the budget does not hold, and nothing is written to the location
//! unless [`Rights`] say so. Called by the verbs `probe` and `doctor`.

mod access;
mod disk;
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
use firstbyte_store::{FailureKind, Store};

pub use access::{Access, Right, Rights, check as access};
pub use disk::Disk;
pub use ledger::{Budget, Spent};
pub use model::Identity;
pub use names::Names;
pub use quantiles::Quantiles;
pub use rates::{Burst, Rates, Step};
pub use report::Report;
pub use small::{Ceiling, Latencies};

use access::Written;
use ledger::Ledger;
use place::Samples;
use timeline::Timeline;

/// Part of the time for finding objects to read, and for the disk.
const FIND_PART: f64 = 0.05;
const DISK_PART: f64 = 0.03;

/// Time beyond the budget in which the last requests end.
const GRACE: Duration = Duration::from_secs(5);

/// An error of a probe.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] firstbyte_store::Error),
    /// A local directory cannot be listed.
    #[error(transparent)]
    Listing(firstbyte_listing::Error),
    /// A local file failed.
    #[error("{location}: {source}")]
    Io {
        /// The file.
        location: String,
        /// The cause.
        source: std::io::Error,
    },
    /// Names cannot be listed, so nothing to read is known.
    #[error("{location}: nothing to measure, its names cannot be listed: {why}")]
    NotListed {
        /// The location.
        location: String,
        /// The reason.
        why: String,
        /// Kind of the error.
        kind: FailureKind,
    },
    /// Content cannot be read.
    #[error("{location}: nothing to measure, its content cannot be read: {why}")]
    NotRead {
        /// The location.
        location: String,
        /// The reason.
        why: String,
    },
    /// There is no content.
    #[error("{location}: nothing to measure, no object with content is there")]
    Empty {
        /// The location.
        location: String,
    },
    /// The budget does not hold the first requests.
    #[error("{location}: the budget ended before anything was measured")]
    Budget {
        /// The location.
        location: String,
    },
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    fn io(location: &Location, source: std::io::Error) -> Self {
        Self::Io { location: location.to_string(), source }
    }

    /// The kind of the failure, as receipts name it.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Store(error) => error.kind(),
            Self::Listing(_) => FailureKind::Io,
            Self::Io { source, .. } => FailureKind::of_io(source),
            Self::NotListed { kind, .. } => *kind,
            Self::NotRead { .. } => FailureKind::Denied,
            Self::Empty { .. } => FailureKind::NotFound,
            Self::Budget { .. } => FailureKind::BadInput,
        }
    }

    /// The remedy, as one clause.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::NotListed { kind: FailureKind::NotFound | FailureKind::NoSuchBucket, .. } => {
                Some("check the spelling")
            }
            Self::NotListed { .. } => Some("name one large object of it instead"),
            Self::NotRead { .. } => Some("check the rights of this user or role"),
            Self::Empty { .. } => Some("name a place with data, or let the probe write with --write"),
            Self::Budget { .. } => Some("raise --budget or --time"),
            _ => None,
        }
    }
}

/// Parameters of a probe.
#[derive(Clone, Debug)]
pub struct Options {
    /// Limits.
    pub budget: Budget,
    /// Whether it may write.
    pub rights: Rights,
    /// Directory of the local disk that is measured.
    pub disk: PathBuf,
}

/// Measures `location`. Requests are not repeated: a refusal is a finding.
///
/// # Errors
/// Nothing can be read, or the budget holds nothing. What fails later ends its part, and the report
/// says so.
pub fn probe(store: &Store, location: &Location, options: &Options) -> Result<Report> {
    let store = &store.without_retries();
    let ledger = Ledger::new(options.budget, store);
    let timeline = Timeline::new(options.budget.time + GRACE);
    let access = access::check(store, location, options.rights);
    let written = match access.obstacle() {
        Some(Error::Empty { .. }) if options.rights == Rights::ReadWrite => {
            Some(Written::put(store, location)?)
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
    let mut report = Report::new(access, latencies, names);
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
