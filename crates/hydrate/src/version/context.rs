//! Holds the resources that all open versions of one process share: the store, the cache, memory,
//! and the threads that fetch.

use std::sync::{Arc, OnceLock};

use firstbyte_location::{ByteRange, Location, Version};
use firstbyte_pacing::RateLimit;
use firstbyte_store::{Stat, Store};

use super::SharedVersion;
use crate::block_store::{BlockStore, MemoryBlocks};
use crate::block_table::OpenTables;
use crate::cache::Cache;
use crate::counters::HydrationCounters;
use crate::error::{Error, Result};
use crate::fetch_queue::FetchQueue;
use crate::limits::MEMORY_SHARE;
use crate::settings::HydrationSettings;

/// A callback that is called for every read, in order, with the location and the byte range.
pub type ReadObserver = Box<dyn Fn(&Location, ByteRange) + Send + Sync>;

pub(crate) struct HydrationContext {
    pub(crate) store: Store,
    pub(crate) settings: HydrationSettings,
    pub(crate) queue: Arc<FetchQueue>,
    pub(crate) counters: Arc<HydrationCounters>,
    pub(crate) observer: OnceLock<ReadObserver>,
    pub(crate) cache: Option<Cache>,
    /// The limit on the total rate of all background fetches.
    pub(crate) background_limit: Option<Arc<RateLimit>>,
    pub(crate) memory: Arc<MemoryBlocks>,
    tables: Arc<OpenTables>,
}

impl HydrationContext {
    pub(crate) fn new(store: Store, settings: HydrationSettings, cache: Option<Cache>) -> Self {
        // Without a cache, blocks that were read ahead exist only in memory, so blocks get more of
        // it.
        let threads = settings.memory / if cache.is_some() { MEMORY_SHARE } else { 2 * MEMORY_SHARE };
        let counters = Arc::<HydrationCounters>::default();
        let queue = FetchQueue::new(store.clone(), threads, settings.deadline, Arc::clone(&counters));
        Self {
            background_limit: settings.background_rate.map(|rate| Arc::new(RateLimit::new(rate))),
            memory: Arc::new(MemoryBlocks::new(settings.memory - threads)),
            store,
            settings,
            queue: Arc::new(queue),
            counters,
            observer: OnceLock::new(),
            cache,
            tables: Arc::default(),
        }
    }

    /// Opens the current version of an object, which takes one request.
    pub(crate) fn open(self: &Arc<Self>, location: &Location) -> Result<SharedVersion> {
        let stat = self.store.stat(location)?;
        self.open_stat(location, stat)
    }

    /// Opens an object that a stat has described, without a request.
    pub(crate) fn open_stat(self: &Arc<Self>, location: &Location, stat: Stat) -> Result<SharedVersion> {
        if stat.version.size.is_none() {
            return Err(Error::NoLength { location: location.to_string() });
        }
        let version = self.open_version(location, stat.version);
        version.table.blocks.set_checksum(stat.checksum);
        Ok(version)
    }

    /// Opens a known version of an object, without a request.
    pub(crate) fn open_version(self: &Arc<Self>, location: &Location, version: Version) -> SharedVersion {
        let blocks = |id, version: &Version| {
            let cache = self.cache_for(location).map(|cache| (cache, location.clone(), version.clone()));
            BlockStore::new(id, version.size.unwrap_or(0), cache, Arc::clone(&self.memory))
        };
        SharedVersion { context: Arc::clone(self), table: self.tables.open(location, version, blocks) }
    }

    /// Returns a handle of the cache for the objects of the store that has `location`.
    pub(crate) fn cache_for(&self, location: &Location) -> Option<Cache> {
        let endpoint = || self.store.service_of(location);
        let name = self.settings.store_name.clone().unwrap_or_else(endpoint);
        self.cache.as_ref().map(|cache| cache.of_store(&name))
    }
}

impl Drop for HydrationContext {
    fn drop(&mut self) {
        self.queue.close();
    }
}
