//! The resources that all versions open in one process share: the store, the cache, memory, and the
//! threads that fetch. It also has the table of open versions, by which all files on a version find
//! the same state.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use firstbyte_location::{ByteRange, Location, Strength, Version};
use firstbyte_pacing::RateLimit;
use firstbyte_store::{Stat, Store};

use super::{Fetcher, VersionState};
use crate::block_store::{BlockStore, MemoryBlocks};
use crate::cache::Cache;
use crate::counters::Counters;
use crate::inflight::FetchId;
use crate::limits::CACHE_SHARE;
use crate::pending_read::Delivery;
use crate::read_ahead::MOST_WINDOW;
use crate::{Error, Result, Settings};

/// Called for every read, in the order of the calls, with the location and range.
pub type Observer = Box<dyn Fn(&Location, ByteRange) + Send + Sync>;

pub(crate) struct Engine {
    pub(crate) store: Store,
    pub(crate) settings: Settings,
    pub(crate) fetcher: Box<dyn Fetcher>,
    pub(crate) counters: Counters,
    pub(crate) observer: OnceLock<Observer>,
    pub(crate) cache: Option<Cache>,
    /// The limit on the rate of all background fetches.
    pub(crate) background_limit: Option<Arc<RateLimit>>,
    memory: Arc<MemoryBlocks>,
    /// Open handles that read ahead. They share the memory.
    pub(crate) sequential: AtomicU64,
    ids: AtomicU64,
    /// The open versions, to be shared by all handles on them.
    versions: Mutex<HashMap<Location, Vec<Weak<VersionState>>>>,
}

impl Engine {
    /// `memory`: bytes of blocks that cannot be cached.
    pub(crate) fn new(
        store: Store,
        settings: Settings,
        fetcher: Box<dyn Fetcher>,
        cache: Option<Cache>,
        memory: u64,
    ) -> Self {
        Self {
            background_limit: settings.background_rate.map(|rate| Arc::new(RateLimit::new(rate))),
            store,
            settings,
            fetcher,
            counters: Counters::default(),
            observer: OnceLock::new(),
            cache,
            memory: Arc::new(MemoryBlocks::new(memory)),
            sequential: AtomicU64::new(0),
            ids: AtomicU64::new(0),
            versions: Mutex::default(),
        }
    }

    /// Opens the current version of an object (one request).
    pub(crate) fn open(self: &Arc<Self>, location: &Location) -> Result<Arc<VersionState>> {
        let stat = self.store.stat(location)?;
        self.open_stat(location, stat)
    }

    /// Opens an object as a stat described it, without a request.
    pub(crate) fn open_stat(self: &Arc<Self>, location: &Location, stat: Stat) -> Result<Arc<VersionState>> {
        if stat.version.size.is_none() {
            return Err(Error::NoLength { location: location.to_string() });
        }
        let version = self.open_version(location, stat.version);
        version.blocks.set_checksum(stat.checksum);
        Ok(version)
    }

    /// Opens a known version of an object, without a request.
    pub(crate) fn open_version(self: &Arc<Self>, location: &Location, version: Version) -> Arc<VersionState> {
        let mut versions = self.lock();
        let weak = versions.entry(location.clone()).or_default();
        // Held until the lock is released: dropping the last reference to one takes the lock.
        let open: Vec<Arc<VersionState>> = weak.iter().filter_map(Weak::upgrade).collect();
        // Two equal versions that identify nothing may have different content.
        let same =
            |state: &&Arc<VersionState>| state.version == version && version.strength() != Strength::None;
        let state = open.iter().find(same).cloned().unwrap_or_else(|| {
            let state = Arc::new(VersionState::new(Arc::clone(self), location.clone(), version));
            weak.push(Arc::downgrade(&state));
            state
        });
        drop(versions);
        state
    }

    /// A version at `location` was dropped.
    pub(super) fn close(&self, location: &Location) {
        let mut versions = self.lock();
        if let Some(open) = versions.get_mut(location) {
            open.retain(|version| version.strong_count() > 0);
            if open.is_empty() {
                versions.remove(location);
            }
        }
    }

    /// An id unique in this process.
    pub(super) fn next_id(&self) -> FetchId {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn block_store(&self, location: &Location, version: &Version) -> BlockStore {
        let cache = self.cache_for(location).map(|cache| (cache, location.clone(), version.clone()));
        BlockStore::new(self.next_id(), version.size.unwrap_or(0), cache, Arc::clone(&self.memory))
    }

    /// The cache, of the objects of the store that has `location`.
    pub(crate) fn cache_for(&self, location: &Location) -> Option<Cache> {
        let endpoint = || self.store.service_of(location);
        let name = self.settings.store_name.clone().unwrap_or_else(endpoint);
        self.cache.as_ref().map(|cache| cache.of_store(&name))
    }

    /// The widest read-ahead window of one reader, in bytes.
    pub(super) fn most_window(&self, delivery: Delivery) -> u64 {
        match delivery {
            Delivery::FromCache => {
                MOST_WINDOW.min(self.cache.as_ref().map_or(0, Cache::capacity) / CACHE_SHARE)
            }
            Delivery::Copied => {
                let readers = self.sequential.load(Ordering::Relaxed).max(1);
                self.memory.capacity() / 4 * 3 / readers
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Location, Vec<Weak<VersionState>>>> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.fetcher.close();
    }
}
