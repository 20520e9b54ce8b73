//! How a transfer is to be done. The edges fill this in from flags; the defaults are for a small machine far from its data.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use firstbyte_store::{Checksum, Durability, Metadata};

use crate::Stop;

/// How many requests are under way at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Concurrency {
    /// As many as measurably help, 64 at the most.
    #[default]
    Auto,
    /// That many.
    Fixed(usize),
}

/// What makes a tree's copy and `sync` take an object for unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compare {
    /// Length, and times as [`sync`](crate::Engine::sync) documents it. One listing of each side, no request an object.
    #[default]
    SizeMtime,
    /// Length and content: by checksums the stores hold, else by reading. Slow and strict.
    Checksum,
    /// Nothing: everything is copied.
    None,
}

/// Whether a request that stays silent is given up for a new one before its deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hedging {
    /// Yes, once it is several times slower than the others.
    #[default]
    On,
    /// Never; only the store's own deadlines end it.
    Off,
}

/// How transfers are done.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Ceiling for the resident memory of the process, bytes. Concurrency and buffers are chosen to stay below.
    pub memory: u64,
    /// Requests at once.
    pub concurrency: Concurrency,
    /// What is on stable storage when a copy is reported done.
    pub durability: Durability,
    /// Bytes a second over all requests; unlimited where none is given.
    pub limit_rate: Option<u64>,
    /// What the content of the one object copied must have; refused for trees.
    pub checksum: Option<Checksum>,
    /// What trees' copies and `sync` compare.
    pub compare: Compare,
    /// Whether slow requests are replaced.
    pub hedging: Hedging,
    /// Where upload journals are kept (a cache directory); without one an upload does not resume.
    pub state_dir: Option<PathBuf>,
    /// How often a piece is tried again after transient errors.
    pub retries: u32,
    /// What travels with objects written to stores: each thing given here takes the place of the source's own.
    pub metadata: Metadata,
    /// Ends the run from another thread, or at a deadline.
    pub stop: Stop,
}

/// Requests of a listing beside a transfer's own. They and the pages that wait for it take some 4 MB; a transfer works
/// off what they bring much more slowly.
const LISTING: NonZeroUsize = NonZeroUsize::new(8).unwrap();

impl Settings {
    /// Most requests at once for a listing whose objects are transferred.
    #[must_use]
    pub fn listing_requests(&self) -> NonZeroUsize {
        match self.concurrency {
            Concurrency::Auto => LISTING,
            Concurrency::Fixed(level) => {
                NonZeroUsize::new(level).map_or(NonZeroUsize::MIN, |level| level.min(LISTING))
            }
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // The promise: 32 MiB until told otherwise.
            memory: 32 << 20,
            concurrency: Concurrency::Auto,
            durability: Durability::None,
            limit_rate: None,
            checksum: None,
            compare: Compare::SizeMtime,
            hedging: Hedging::On,
            state_dir: None,
            // With back-off doubling from 50 ms to 5 s this rides out some 20 s of a failing server.
            retries: 9,
            metadata: Metadata::default(),
            stop: Stop::default(),
        }
    }
}
