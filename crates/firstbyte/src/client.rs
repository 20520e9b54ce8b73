//! `Client`: opens, lists and copies locations that are given as text.

use std::ffi::OsStr;
use std::sync::Arc;

use firstbyte_hydrate::{Hydrator, Settings, StartFile};
use firstbyte_location::{Kind, Location, Version};
use firstbyte_store::{ListOptions, Listing, Outages, Store};
use firstbyte_transfer::Engine;
use rustix_futex_sync::Mutex;

use crate::error::{Error, Result};
use crate::file::LazyFile;
use crate::options::Options;

/// A start file, by its location.
pub(crate) type KeptStart = (Location, Arc<StartFile>);

/// Reaches locations. Clones share connections, cache and threads; a process needs one.
#[derive(Clone)]
pub struct Client {
    pub(crate) hydrator: Hydrator,
    pub(crate) copies: firstbyte_transfer::Settings,
    /// The start file that was used last, by its location.
    pub(crate) start: Arc<Mutex<Option<KeptStart>>>,
}

impl Client {
    /// A client that works as `options` say. Nothing is contacted yet. If an endpoint has stopped
    /// answering, calls fail at once, except for an occasional probe, until it answers again. So
    /// callers share one deadline, however many wait.
    ///
    /// # Errors
    /// Options that cannot be used, a cache directory that cannot.
    pub fn new(options: Options) -> Result<Self> {
        let store = Store::new(firstbyte_store::Options { outages: Outages::FailFast, ..options.store })?;
        Ok(Self { copies: options.copies, ..Self::over(store, options.reads)? })
    }

    /// A client of a program that ends with its work, such as the command line: it waits for an
    /// endpoint that has stopped answering, as the options of the store say, and has no cache.
    ///
    /// # Errors
    /// Options that cannot be used.
    pub fn waiting(options: Options) -> Result<Self> {
        let reads = Settings { cache: None, ..options.reads };
        Ok(Self { copies: options.copies, ..Self::over(Store::new(options.store)?, reads)? })
    }

    /// A client over a store that is open already.
    ///
    /// # Errors
    /// A cache directory that cannot be used.
    pub fn over(store: Store, reads: Settings) -> Result<Self> {
        let (hydrator, copies) = (Hydrator::new(store, reads)?, firstbyte_transfer::Settings::default());
        Ok(Self { hydrator, copies, start: Arc::default() })
    }

    /// A client that reads over an open store, without the cache if the cache's disk is full.
    ///
    /// # Errors
    /// A cache directory that cannot be used.
    pub fn reading(store: Store, reads: Settings) -> Result<Self> {
        let (hydrator, copies) = (Hydrator::reading(store, reads)?, firstbyte_transfer::Settings::default());
        Ok(Self { hydrator, copies, start: Arc::default() })
    }

    /// Opens the object at `location` in the version that is there now, at the cost of one request.
    /// Bytes are fetched when they are read.
    ///
    /// ```no_run
    /// # fn main() -> firstbyte::Result<()> {
    /// # let client = firstbyte::Client::new(firstbyte::Options::default())?;
    /// let file = client.open("https://host/database.sqlite")?;
    /// assert!(file.size() > 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Directory`], a length that the server does not tell, and what keeps the store from
    /// describing it.
    pub fn open(&self, location: impl AsRef<OsStr>) -> Result<LazyFile> {
        self.open_location(&Location::parse(location.as_ref())?)
    }

    /// As [`open`](Self::open), of a location that has been parsed.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_location(&self, location: &Location) -> Result<LazyFile> {
        let stat = self.store().stat(location)?;
        if stat.kind == Kind::Directory {
            return Err(Error::Directory { location: location.to_string() });
        }
        Ok(LazyFile::new(self.hydrator.described(location, stat)?.handle()))
    }

    /// Opens an object in a version already known, as from another process: no request. Where that
    /// version is gone, what is not cached of it cannot be read.
    #[must_use]
    pub fn open_version(&self, location: &Location, version: Version) -> LazyFile {
        LazyFile::new(self.hydrator.file(location, version).handle())
    }

    /// Lists what is under `location`, as it arrives.
    ///
    /// # Errors
    /// What keeps the first names from coming; later failures are items of the listing.
    pub fn list(&self, location: impl AsRef<OsStr>, options: &ListOptions) -> Result<Listing> {
        Ok(self.store().list(&Location::parse(location.as_ref())?, options)?)
    }

    /// How copies are done, unless one says otherwise.
    #[must_use]
    pub fn copies(&self) -> &firstbyte_transfer::Settings {
        &self.copies
    }

    /// Transfers over the store, with settings of their own.
    #[must_use]
    pub fn transfers(&self, settings: firstbyte_transfer::Settings) -> Engine {
        Engine::new(self.store().clone(), settings)
    }

    /// The reads beneath.
    #[must_use]
    pub fn hydrator(&self) -> &Hydrator {
        &self.hydrator
    }

    /// The store beneath.
    #[must_use]
    pub fn store(&self) -> &Store {
        self.hydrator.store()
    }
}
