//! Opens locations as files, and starts hydration jobs. This is the public entry point of the
//! crate.

use std::sync::Arc;

use firstbyte_location::{Location, Version};
use firstbyte_store::{Stat, Store};

use crate::background::HydrationJob;
use crate::cache::{Cache, CacheLimits, Pin};
use crate::counters::HydrationCounts;
use crate::error::Result;
use crate::handle::File;
use crate::job_state::FetchPace;
use crate::settings::HydrationSettings;
use crate::version::{HydrationContext, ReadObserver};
use crate::wanted::{HydrationFailure, HydrationItem, HydrationList};

/// The hydration engine of one process. Clones share the engine.
#[derive(Clone)]
pub struct Hydrator {
    context: Arc<HydrationContext>,
}

impl Hydrator {
    /// Creates an engine that reads through `store`.
    ///
    /// # Errors
    /// The cache directory cannot be used.
    pub fn new(store: Store, settings: HydrationSettings) -> Result<Self> {
        let limits = CacheLimits::of(&settings);
        let cache = settings
            .cache
            .as_ref()
            .map(|dir| Cache::open_shared(dir, settings.sharing, limits))
            .transpose()?;
        Ok(Self { context: Arc::new(HydrationContext::new(store, settings, cache)) })
    }

    /// Creates an engine that reads through `store`. If the cache's disk is full, the engine works
    /// without a cache.
    ///
    /// # Errors
    /// The cache directory cannot be used.
    pub fn reading(store: Store, settings: HydrationSettings) -> Result<Self> {
        match Self::new(store.clone(), settings.clone()) {
            Err(error) if error.is_full_disk() => {
                tracing::warn!("reading without a cache: {error}");
                Self::new(store, HydrationSettings { cache: None, ..settings })
            }
            made => made,
        }
    }

    /// Calls `observer` for every read from now on. Only one observer can be set; returns false if
    /// there already is one.
    pub fn observe(&self, observer: ReadObserver) -> bool {
        self.context.observer.set(observer).is_ok()
    }

    /// Returns the store through which the engine reads.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.context.store
    }

    /// Opens the current version of an object, which takes one request.
    ///
    /// # Errors
    /// The errors of the store, and [`Error::NoLength`](crate::Error::NoLength).
    pub fn open(&self, location: &Location) -> Result<File> {
        Ok(File { version: self.context.open(location)? })
    }

    /// Opens an object that a stat has described, without a request.
    ///
    /// # Errors
    /// [`Error::NoLength`](crate::Error::NoLength).
    pub fn described(&self, location: &Location, stat: Stat) -> Result<File> {
        Ok(File { version: self.context.open_stat(location, stat)? })
    }

    /// Opens a version that is known from a listing or a stat, without a request. The version must
    /// contain its length.
    #[must_use]
    pub fn file(&self, location: &Location, version: Version) -> File {
        File { version: self.context.open_version(location, version) }
    }

    /// Fetches the `wanted` objects into the cache in the background, in order. Readers take
    /// precedence. The job receives at most `rate` bytes per second, and all jobs together at most
    /// the `background_rate` of the settings.
    ///
    /// # Errors
    /// No thread can be started. The job itself reports objects that cannot be fetched.
    pub fn hydrate(&self, wanted: HydrationList, rate: Option<u64>) -> Result<HydrationJob> {
        HydrationJob::start(&self.context, wanted, rate, FetchPace::Yielding)
    }

    /// Fetches bytes that readers are expected to want soon, such as the ranges of a start file.
    /// Unlike [`hydrate`](Self::hydrate), this job does not slow down while readers fetch, and
    /// readers wait for blocks that the job brings soon.
    ///
    /// # Errors
    /// The errors of [`hydrate`](Self::hydrate).
    pub fn replay(&self, wanted: HydrationList) -> Result<HydrationJob> {
        HydrationJob::start(&self.context, wanted, None, FetchPace::Steady)
    }

    /// Returns the cache, if there is one.
    #[must_use]
    pub fn cache(&self) -> Option<&Cache> {
        self.context.cache.as_ref()
    }

    /// Returns a handle of the cache for the objects of the store that has `location`.
    #[must_use]
    pub fn cache_for(&self, location: &Location) -> Option<Cache> {
        self.context.cache_for(location)
    }

    /// Returns the same list, but pins each object before its first block is fetched. So an object
    /// is not evicted while the others are fetched.
    #[must_use]
    #[expect(clippy::result_large_err, reason = "an item of a list, made once an object")]
    pub fn pinned(&self, list: HydrationList) -> HydrationList {
        let hydrator = self.clone();
        Box::new(list.map(move |wanted| {
            let wanted = wanted?;
            let Some(cache) = hydrator.cache_for(&wanted.location) else { return Ok(wanted) };
            let failed = |error| HydrationFailure { location: wanted.location.clone(), error };
            let version = match &wanted.version {
                Some(version) => version.clone(),
                None => {
                    hydrator.store().stat(&wanted.location).map_err(|error| failed(error.into()))?.version
                }
            };
            match cache.packed(&wanted.location, &version) {
                Some(packed) => packed.pin(Pin::Pinned),
                None => cache.version(&wanted.location, &version, None).map_err(failed)?.pin(Pin::Pinned),
            }
            Ok(HydrationItem { version: Some(version), ..wanted })
        }))
    }

    /// Returns counts of the engine's work so far.
    #[must_use]
    pub fn counters(&self) -> HydrationCounts {
        self.context.counters.snapshot()
    }
}
