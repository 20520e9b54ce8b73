//! `Client`: opens, lists and copies locations that are given as text.

use std::ffi::OsStr;
use std::sync::Arc;

use firstbyte_hydrate::{HydrationSettings, Hydrator, StartFile};
use firstbyte_location::{EntryKind, Location, Version};
use firstbyte_store::{ListOptions, Listing, Outages, Store};
use firstbyte_transfer::Engine;
use rustix_futex_sync::Mutex;

use crate::error::{Error, Result};
use crate::file::LazyFile;
use crate::options::ClientOptions;

/// A start file with its location.
pub(crate) type KeptStart = (Location, Arc<StartFile>);

/// Reaches locations. Clones share connections, cache and threads; a process needs one.
#[derive(Clone)]
pub struct Client {
    pub(crate) hydrator: Hydrator,
    pub(crate) copies: firstbyte_transfer::TransferSettings,
    /// The start file that was used last, with its location.
    pub(crate) start: Arc<Mutex<Option<KeptStart>>>,
}

impl Client {
    /// Makes a client with these options. Nothing is contacted yet. If an endpoint has stopped
    /// answering, calls fail at once, except for an occasional probe, until it answers again. So
    /// callers share one deadline, however many wait.
    ///
    /// # Errors
    /// The options or the cache directory cannot be used.
    pub fn new(options: ClientOptions) -> Result<Self> {
        let store =
            Store::new(firstbyte_store::StoreOptions { outages: Outages::FailFast, ..options.store })?;
        Ok(Self { copies: options.copies, ..Self::over(store, options.reads)? })
    }

    /// Makes a client for a program that ends with its work, such as the command line. The client
    /// waits for an endpoint that has stopped answering, as the options of the store say, and has
    /// no cache.
    ///
    /// # Errors
    /// The options cannot be used.
    pub fn waiting(options: ClientOptions) -> Result<Self> {
        let reads = HydrationSettings { cache: None, ..options.reads };
        Ok(Self { copies: options.copies, ..Self::over(Store::new(options.store)?, reads)? })
    }

    /// Makes a client over an open store.
    ///
    /// # Errors
    /// The cache directory cannot be used.
    pub fn over(store: Store, reads: HydrationSettings) -> Result<Self> {
        let (hydrator, copies) =
            (Hydrator::new(store, reads)?, firstbyte_transfer::TransferSettings::default());
        Ok(Self { hydrator, copies, start: Arc::default() })
    }

    /// Makes a client that reads over an open store, without the cache if the cache's disk is full.
    ///
    /// # Errors
    /// The cache directory cannot be used.
    pub fn reading(store: Store, reads: HydrationSettings) -> Result<Self> {
        let (hydrator, copies) =
            (Hydrator::reading(store, reads)?, firstbyte_transfer::TransferSettings::default());
        Ok(Self { hydrator, copies, start: Arc::default() })
    }

    /// Opens the object at `location` in the version that is there now, at the cost of one request.
    /// Bytes are fetched when they are read.
    ///
    /// ```no_run
    /// # fn main() -> firstbyte::Result<()> {
    /// # let client = firstbyte::Client::new(firstbyte::ClientOptions::default())?;
    /// let file = client.open("https://host/database.sqlite")?;
    /// assert!(file.size() > 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Directory`]; a length that the server does not tell; an error of the store.
    pub fn open(&self, location: impl AsRef<OsStr>) -> Result<LazyFile> {
        self.open_location(&Location::parse(location.as_ref())?)
    }

    /// Opens a parsed location as [`open`](Self::open) does.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_location(&self, location: &Location) -> Result<LazyFile> {
        let stat = self.store().stat(location)?;
        if stat.kind == EntryKind::Directory {
            return Err(Error::Directory { location: location.to_string() });
        }
        Ok(LazyFile::new(self.hydrator.described(location, stat)?.handle()))
    }

    /// Opens an object in a known version, such as one of another process, without a request. If
    /// that version is gone, only its cached bytes can be read.
    #[must_use]
    pub fn open_version(&self, location: &Location, version: Version) -> LazyFile {
        LazyFile::new(self.hydrator.file(location, version).handle())
    }

    /// Lists the entries under `location` as they arrive.
    ///
    /// # Errors
    /// An error before the first names. Later failures are items of the listing.
    pub fn list(&self, location: impl AsRef<OsStr>, options: &ListOptions) -> Result<Listing> {
        Ok(self.store().list(&Location::parse(location.as_ref())?, options)?)
    }

    /// Default settings of copies.
    #[must_use]
    pub fn copies(&self) -> &firstbyte_transfer::TransferSettings {
        &self.copies
    }

    /// Makes an engine for transfers over the store, with these settings.
    #[must_use]
    pub fn transfers(&self, settings: firstbyte_transfer::TransferSettings) -> Engine {
        Engine::new(self.store().clone(), settings)
    }

    /// The hydrator that reads.
    #[must_use]
    pub fn hydrator(&self) -> &Hydrator {
        &self.hydrator
    }

    /// The store that sends the requests.
    #[must_use]
    pub fn store(&self) -> &Store {
        self.hydrator.store()
    }
}
