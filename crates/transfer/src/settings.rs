//! Settings of transfers. The command line and the library fill them in from options. The defaults
//! suit a small machine far from its data.

use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::SystemTime;

use firstbyte_fetch::RETRIES;
use firstbyte_location::{Location, content_type, to_usize};
use firstbyte_pacing::START;
use firstbyte_store::{Checksum, Durability, MEMORY, Metadata, Precondition};

use crate::stop::Stop;

/// The number of requests in flight at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Concurrency {
    /// As many as measurably help.
    #[default]
    Auto,
    /// A fixed number.
    Fixed(usize),
}

/// The rule by which a tree's copy and `sync` decide that an object is unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compare {
    /// By length and times: one listing of each side, and no request for an object.
    #[default]
    SizeMtime,
    /// By length and content. The checksums of the stores are compared; a missing one is computed
    /// from the bytes. Slow and strict.
    Checksum,
    /// By length alone.
    Size,
    /// By age: an object is unchanged if the destination's is as new or newer.
    Newer,
    /// By existence: an object of the destination is never replaced.
    Existence,
    /// Not at all: everything is copied.
    None,
}

/// Limits on the objects of a source that take part, by their listed lengths and times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceLimits {
    /// Least length, bytes.
    pub least_size: Option<u64>,
    /// Greatest length, bytes.
    pub greatest_size: Option<u64>,
    /// Earliest modification time.
    pub modified_since: Option<SystemTime>,
    /// Latest modification time.
    pub modified_until: Option<SystemTime>,
}

impl SourceLimits {
    /// Whether there is any limit.
    #[must_use]
    pub fn is_any(&self) -> bool {
        *self != Self::default()
    }

    /// Whether an object is within the limits. An unknown length or time is not, if it is limited.
    #[must_use]
    pub fn take(&self, size: Option<u64>, modified: Option<SystemTime>) -> bool {
        self.least_size.is_none_or(|least| size.is_some_and(|size| size >= least))
            && self.greatest_size.is_none_or(|greatest| size.is_some_and(|size| size <= greatest))
            && self.modified_since.is_none_or(|since| modified.is_some_and(|time| time >= since))
            && self.modified_until.is_none_or(|until| modified.is_some_and(|time| time <= until))
    }
}

/// The attributes of local files that a copy keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeptAttributes {
    /// The content, permission bits and modification times of files, and the permission bits of
    /// directories. Links are followed.
    #[default]
    Usual,
    /// Between local directories also links themselves, owners where this process may give them,
    /// the bits beyond permissions, and the times of directories.
    All,
}

/// Whether a silent request is replaced by a new one before its deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hedging {
    /// A request is replaced once it is several times slower than the others.
    #[default]
    On,
    /// No request is replaced; only the store's deadlines end it.
    Off,
}

/// The settings of an engine.
#[derive(Clone, Debug)]
pub struct TransferSettings {
    /// Ceiling for the resident memory of the process, bytes; limits concurrency and buffers.
    pub memory: u64,
    /// Requests in flight at once.
    pub concurrency: Concurrency,
    /// The state on stable storage when a copy is reported done.
    pub durability: Durability,
    /// Bytes per second over all requests; `None` is no limit.
    pub limit_rate: Option<u64>,
    /// The checksum that the one copied object must have; not for trees.
    pub checksum: Option<Checksum>,
    /// The rule by which trees' copies and `sync` compare objects.
    pub compare: Compare,
    /// The objects of trees that take part.
    pub limits: SourceLimits,
    /// The attributes that copies between local directories keep.
    pub keep: KeptAttributes,
    /// Whether slow requests are replaced.
    pub hedging: Hedging,
    /// Directory of upload journals, in a cache; without one an upload does not resume.
    pub state_dir: Option<PathBuf>,
    /// The number of times that a piece is tried again after transient errors.
    pub retries: u32,
    /// Metadata of objects written to stores; each value replaces the source's own.
    pub metadata: Metadata,
    /// The content type of uploads that have none from their source.
    pub content_types: ContentTypes,
    /// The condition of a write from a stream.
    pub precondition: Precondition,
    /// Ends the run from another thread, or at a deadline.
    pub stop: Stop,
}

/// Memory of the process without its workers, bytes: program, runtime, credentials, a page of a
/// listing.
const BASE_MEMORY: u64 = 14 << 20;
/// The maximum number of concurrent requests of a listing whose objects are transferred. With their
/// waiting pages they take some 4 MB. More would not help: a transfer consumes entries much more
/// slowly.
const MAX_LISTING_REQUESTS: NonZeroUsize = NonZeroUsize::new(8).unwrap();

impl TransferSettings {
    /// The number of workers that fit below the memory ceiling if each needs `each` bytes, and the
    /// first [`START`] need `more` in addition; at least one.
    pub(crate) fn workers_of(&self, each: u64, more: u64) -> usize {
        let memory = self.memory.saturating_sub(BASE_MEMORY);
        let first = (memory / (each + more)).min(START as u64);
        let others = memory.saturating_sub((each + more) * START as u64) / each;
        to_usize(first + others).max(1)
    }

    /// The maximum number of concurrent requests of a listing whose objects are transferred.
    #[must_use]
    pub fn listing_requests(&self) -> NonZeroUsize {
        match self.concurrency {
            Concurrency::Auto => MAX_LISTING_REQUESTS,
            Concurrency::Fixed(level) => {
                NonZeroUsize::new(level).map_or(NonZeroUsize::MIN, |level| level.min(MAX_LISTING_REQUESTS))
            }
        }
    }
}

/// The content type of an upload whose source has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentTypes {
    /// By the extension of the source's name, else by that of the object.
    #[default]
    ByName,
    /// The store's default.
    FromStore,
}

impl ContentTypes {
    /// Returns the type for an object that is written as `destination`, from `source` or a stream.
    pub(crate) fn of(self, source: Option<&Location>, destination: &Location) -> Option<String> {
        if self == Self::FromStore {
            return None;
        }
        let by_name = |location: &Location| {
            let name = location.last_component().filter(|_| !location.is_directory_like())?;
            content_type(OsStr::from_bytes(&name))
        };
        source.and_then(by_name).or_else(|| by_name(destination)).map(str::to_owned)
    }
}

impl Default for TransferSettings {
    fn default() -> Self {
        Self {
            memory: MEMORY,
            concurrency: Concurrency::Auto,
            durability: Durability::None,
            limit_rate: None,
            checksum: None,
            compare: Compare::SizeMtime,
            limits: SourceLimits::default(),
            keep: KeptAttributes::Usual,
            hedging: Hedging::On,
            state_dir: None,
            retries: RETRIES,
            metadata: Metadata::default(),
            content_types: ContentTypes::ByName,
            precondition: Precondition::None,
            stop: Stop::default(),
        }
    }
}
