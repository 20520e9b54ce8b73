//! Defines the settings of transfers. The command line and the library fill them in. The defaults
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

/// Number of requests in flight at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Concurrency {
    /// The number grows as long as the transfer becomes measurably faster.
    #[default]
    Auto,
    /// The given number of requests.
    Fixed(usize),
}

/// Method by which a copy of a tree and `sync` decide that an object is unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compare {
    /// By length and times. This needs one listing of each side, and a request for an object only
    /// if the listings cannot decide.
    #[default]
    SizeMtime,
    /// By length and content. The checksums of the stores are compared; a missing checksum is
    /// computed from the bytes. This is slow and strict.
    Checksum,
    /// By length alone.
    Size,
    /// By age. An object is unchanged if the one at the destination is as new or newer.
    Newer,
    /// By existence. An object at the destination is never replaced.
    Existence,
    /// By nothing. Everything is copied.
    None,
}

/// Limits on the lengths and times of the source's objects. Objects outside the limits are skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceLimits {
    /// Minimum length, bytes.
    pub least_size: Option<u64>,
    /// Maximum length, bytes.
    pub greatest_size: Option<u64>,
    /// Earliest modification time.
    pub modified_since: Option<SystemTime>,
    /// Latest modification time.
    pub modified_until: Option<SystemTime>,
}

impl SourceLimits {
    /// Returns whether there is any limit.
    #[must_use]
    pub fn is_any(&self) -> bool {
        *self != Self::default()
    }

    /// Returns whether an object is within the limits. If a length or time is limited but unknown,
    /// the object is not within the limits.
    #[must_use]
    pub fn take(&self, size: Option<u64>, modified: Option<SystemTime>) -> bool {
        self.least_size.is_none_or(|least| size.is_some_and(|size| size >= least))
            && self.greatest_size.is_none_or(|greatest| size.is_some_and(|size| size <= greatest))
            && self.modified_since.is_none_or(|since| modified.is_some_and(|time| time >= since))
            && self.modified_until.is_none_or(|until| modified.is_some_and(|time| time <= until))
    }
}

/// Attributes of local files that a copy keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeptAttributes {
    /// Content, permission bits and modification times of files, and permission bits of
    /// directories. Links are followed.
    #[default]
    Usual,
    /// Between local directories, also links, owners where this process may set them, mode bits
    /// beyond permissions, and times of directories.
    All,
}

/// Treatment of a request that is silent, but has not reached its deadline yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hedging {
    /// A request is replaced when it is several times slower than the others.
    #[default]
    On,
    /// No request is replaced. Only the store's deadlines end a request.
    Off,
}

/// The settings of an engine.
#[derive(Clone, Debug)]
pub struct TransferSettings {
    /// Ceiling for the resident memory of the process, bytes. It limits concurrency and buffers.
    pub memory: u64,
    /// Number of requests in flight at once.
    pub concurrency: Concurrency,
    /// Data that must be on stable storage before a copy is reported as complete.
    pub durability: Durability,
    /// Maximum bytes per second over all requests. `None` means no limit.
    pub limit_rate: Option<u64>,
    /// The checksum that the object must have, for copies of one object. Not for trees.
    pub checksum: Option<Checksum>,
    /// Method by which copies of trees and `sync` compare objects.
    pub compare: Compare,
    /// Limits on the objects of trees.
    pub limits: SourceLimits,
    /// Attributes that copies between local directories keep.
    pub keep: KeptAttributes,
    /// Treatment of slow requests.
    pub hedging: Hedging,
    /// Directory in which journals of uploads are kept. Without it, an upload cannot be resumed.
    pub state_dir: Option<PathBuf>,
    /// Maximum number of times that a piece is tried again after transient errors.
    pub retries: u32,
    /// Metadata of objects that are written to stores. Each value replaces the value of the source.
    pub metadata: Metadata,
    /// How the content type of an upload is chosen if the source has none.
    pub content_types: ContentTypes,
    /// The condition on the destination under which a stream is written.
    pub precondition: Precondition,
    /// Ends the run, from another thread or at a deadline.
    pub stop: Stop,
}

/// Memory of the process without its workers, bytes: program, runtime, credentials, and a page of a
/// listing.
const BASE_MEMORY: u64 = 14 << 20;
/// Maximum number of concurrent requests of a listing whose objects are transferred. Together with
/// the pages that wait, they use some 4 MB. More requests would not help, because a transfer takes
/// longer for each entry than a listing does.
const MAX_LISTING_REQUESTS: NonZeroUsize = NonZeroUsize::new(8).unwrap();

impl TransferSettings {
    /// Returns how many workers fit below the memory ceiling, at least one. Each worker needs
    /// `each` bytes, and each of the first [`START`] workers needs `more` additional bytes.
    pub(crate) fn workers_of(&self, each: u64, more: u64) -> usize {
        let memory = self.memory.saturating_sub(BASE_MEMORY);
        let first = (memory / (each + more)).min(START as u64);
        let others = memory.saturating_sub((each + more) * START as u64) / each;
        to_usize(first + others).max(1)
    }

    /// Returns the maximum number of concurrent requests of a listing whose objects are
    /// transferred.
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

/// How the content type of an upload is chosen if its source has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentTypes {
    /// By the file name extension of the source, or else of the destination.
    #[default]
    ByName,
    /// The store chooses its default.
    FromStore,
}

impl ContentTypes {
    /// Returns the content type for an object that is written as `destination`. `source` is `None`
    /// for a stream.
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
