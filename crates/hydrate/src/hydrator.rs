//! The engine's outside: opens locations as files.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use firstbyte_location::{ByteRange, Location, Strength, Version};
use firstbyte_pacing::RateLimit;
use firstbyte_store::{Stat, Store};

use crate::cache::{Cache, Limits};
use crate::counters::Counters;
use crate::crew::Crew;
use crate::here::Here;
use crate::inflight::Id;
use crate::node::Node;
use crate::pending::Hold;
use crate::pool::Pool;
use crate::{CounterSnapshot, Error, File, Job, Result, Settings, WantedList};

/// Called once with what a read gave.
pub type Done = Box<dyn FnOnce(Result<&[u8]>) + Send>;

/// Told of every read, in the order they are asked for: what was read where.
pub type Observer = Box<dyn Fn(&Location, ByteRange) + Send + Sync>;

/// The widest window ahead of a reader: a link of 10 Gbit/s with 100 ms needs it.
const MOST_WINDOW: u64 = 128 << 20;
/// Of a small cache, one window takes no more than this share: others read too.
const CACHE_SHARE: u64 = 8;
/// Of the memory, what blocks that cannot be cached may take; the rest is for buffers.
const POOL_SHARE: u64 = 2;
/// Of that, what one reader's window may take.
const STREAM_SHARE: u64 = 2;

/// One process' engine. Clones share it.
#[derive(Clone)]
pub struct Hydrator {
    shared: Arc<Shared>,
}

/// What all files of an engine share.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) settings: Settings,
    pub(crate) crew: Arc<Crew>,
    pub(crate) counters: Counters,
    pub(crate) observer: OnceLock<Observer>,
    cache: Option<Cache>,
    background_limit: Option<Arc<RateLimit>>,
    pool: Arc<Pool>,
    ids: AtomicU64,
    /// Files open in this process: handles on the same version share one.
    files: Mutex<HashMap<Location, Vec<Weak<Node>>>>,
}

impl Hydrator {
    /// An engine that reads through `store`.
    ///
    /// # Errors
    /// What keeps the cache directory from being used.
    pub fn new(store: Store, settings: Settings) -> Result<Self> {
        let limits = Limits { size: settings.cache_size, reserve: settings.reserve };
        let cache = settings.cache.as_ref().map(|dir| Cache::open(dir, limits)).transpose()?;
        let background_limit = settings.background_rate.map(|rate| Arc::new(RateLimit::new(rate)));
        let pool = Arc::new(Pool::new(settings.memory / POOL_SHARE));
        let crew = Arc::new(Crew::new(settings.memory / POOL_SHARE, settings.deadline));
        let shared = Shared {
            store,
            settings,
            crew,
            counters: Counters::default(),
            observer: OnceLock::new(),
            cache,
            background_limit,
            pool,
            ids: AtomicU64::new(0),
            files: Mutex::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Has every read told to `observer` from now on, as for `--record`. There can be one; returns whether it is this one.
    pub fn observe(&self, observer: Observer) -> bool {
        self.shared.observer.set(observer).is_ok()
    }

    /// The store it reads through.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// The object at `location` in the version that is there now (one request).
    ///
    /// # Errors
    /// What keeps the store from describing it, and [`Error::NoLength`].
    pub fn open(&self, location: &Location) -> Result<File> {
        let stat = self.shared.store.stat(location)?;
        self.described(location, stat)
    }

    /// The object at `location` as a stat has described it: no request.
    ///
    /// # Errors
    /// [`Error::NoLength`].
    pub fn described(&self, location: &Location, stat: Stat) -> Result<File> {
        if stat.version.size.is_none() {
            return Err(Error::NoLength { location: location.to_string() });
        }
        let file = self.file(location, stat.version);
        file.node.here.expect(stat.checksum);
        Ok(file)
    }

    /// The object at `location` in a version already known from a listing or a stat, its length included: no request.
    #[must_use]
    pub fn file(&self, location: &Location, version: Version) -> File {
        let mut files = self.shared.files();
        let nodes = files.entry(location.clone()).or_default();
        // Kept until the lock is released: one of them may have no other owner by now, and its end takes the lock.
        let known: Vec<Arc<Node>> = nodes.iter().filter_map(Weak::upgrade).collect();
        // Two that nothing pins may be of different content, however equal their versions.
        let same = |node: &&Arc<Node>| node.version == version && version.strength() != Strength::None;
        let node = known.iter().find(same).cloned().unwrap_or_else(|| {
            let node = Arc::new(Node::new(Arc::clone(&self.shared), location.clone(), version));
            nodes.push(Arc::downgrade(&node));
            node
        });
        drop(files);
        File { node }
    }

    /// Brings here what is `wanted`, in order, in the background: readers come before it. At `rate` bytes a second at most,
    /// and all jobs together within the settings' `background_rate`.
    ///
    /// # Errors
    /// No thread can be started. What cannot be brought here is told by the job.
    pub fn hydrate(&self, wanted: WantedList, rate: Option<u64>) -> Result<Job> {
        Job::start(self, wanted, rate)
    }

    /// The cache, where there is one.
    #[must_use]
    pub fn cache(&self) -> Option<&Cache> {
        self.shared.cache.as_ref()
    }

    pub(crate) fn background_limit(&self) -> Option<Arc<RateLimit>> {
        self.shared.background_limit.clone()
    }

    /// Bytes that one request should ask for where `rest` are wanted.
    pub(crate) fn background_request(&self, rest: u64) -> u64 {
        self.shared.crew.background_request(rest)
    }

    pub(crate) fn has_room_in_background(&self) -> bool {
        self.shared.crew.has_room_in_background()
    }

    /// What has been done so far.
    #[must_use]
    pub fn counters(&self) -> CounterSnapshot {
        self.shared.counters.snapshot()
    }
}

impl Shared {
    /// A number nobody else in this process has.
    pub(crate) fn next_id(&self) -> Id {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Where the blocks of a version are.
    pub(crate) fn here(&self, location: &Location, version: &Version) -> Here {
        let cache = self.cache.clone().map(|cache| (cache, location.clone(), version.clone()));
        Here::new(self.next_id(), version.size.unwrap_or(0), cache, Arc::clone(&self.pool))
    }

    /// How far ahead of one reader to fetch.
    pub(crate) fn most_window(&self, hold: Hold) -> u64 {
        match hold {
            Hold::Kept => MOST_WINDOW.min(self.cache.as_ref().map_or(0, Cache::capacity) / CACHE_SHARE),
            Hold::Copied => self.pool.capacity() / STREAM_SHARE,
        }
    }

    /// A file at `location` is open no longer.
    pub(crate) fn forget(&self, location: &Location) {
        let mut files = self.files();
        if let Some(nodes) = files.get_mut(location) {
            nodes.retain(|node| node.strong_count() > 0);
            if nodes.is_empty() {
                files.remove(location);
            }
        }
    }

    fn files(&self) -> MutexGuard<'_, HashMap<Location, Vec<Weak<Node>>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.crew.close();
    }
}
