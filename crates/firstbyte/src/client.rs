//! Defines the client, which opens, lists and copies locations that are given as text.

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

/// A start file, which lists the ranges that an earlier job has read, and the location from which
/// it was read.
pub(crate) type KeptStart = (Location, Arc<StartFile>);

/// The client, with which a program reaches locations. Clones share connections, cache and threads;
/// a process needs only one client.
#[derive(Clone)]
pub struct Client {
    pub(crate) hydrator: Hydrator,
    pub(crate) copies: firstbyte_transfer::TransferSettings,
    /// The start file that was used last.
    pub(crate) start: Arc<Mutex<Option<KeptStart>>>,
}

impl Client {
    /// Creates a client with these options. Sends no request yet. If an endpoint has stopped
    /// answering, calls fail at once until it answers again, apart from an occasional probe. So
    /// callers share one deadline, however many of them wait.
    ///
    /// # Errors
    /// The options or the cache directory cannot be used.
    pub fn new(options: ClientOptions) -> Result<Self> {
        let store =
            Store::new(firstbyte_store::StoreOptions { outages: Outages::FailFast, ..options.store })?;
        Ok(Self { copies: options.copies, ..Self::over(store, options.reads)? })
    }

    /// Creates a client for a program that ends when its work is done, such as the command line. If
    /// an endpoint has stopped answering, the client waits for it as the options of the store say.
    /// The client has no cache.
    ///
    /// # Errors
    /// The options cannot be used.
    pub fn waiting(options: ClientOptions) -> Result<Self> {
        let reads = HydrationSettings { cache: None, ..options.reads };
        Ok(Self { copies: options.copies, ..Self::over(Store::new(options.store)?, reads)? })
    }

    /// Creates a client that uses an open store.
    ///
    /// # Errors
    /// The cache directory cannot be used.
    pub fn over(store: Store, reads: HydrationSettings) -> Result<Self> {
        let (hydrator, copies) =
            (Hydrator::new(store, reads)?, firstbyte_transfer::TransferSettings::default());
        Ok(Self { hydrator, copies, start: Arc::default() })
    }

    /// Creates a client that uses an open store, like [`over`](Self::over). If the cache's disk is
    /// full, this client works without a cache, where `over` returns an error.
    ///
    /// # Errors
    /// The cache directory cannot be used.
    pub fn reading(store: Store, reads: HydrationSettings) -> Result<Self> {
        let (hydrator, copies) =
            (Hydrator::reading(store, reads)?, firstbyte_transfer::TransferSettings::default());
        Ok(Self { hydrator, copies, start: Arc::default() })
    }

    /// Opens the current version of the object at `location`, which takes one request. Bytes are
    /// fetched when they are read.
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
    /// [`Error::Directory`], a length that the server does not report, or an error of the store.
    pub fn open(&self, location: impl AsRef<OsStr>) -> Result<LazyFile> {
        self.open_location(&Location::parse(location.as_ref())?)
    }

    /// Opens an object like [`open`](Self::open), by a location that has been parsed.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub fn open_location(&self, location: &Location) -> Result<LazyFile> {
        let stat = self.store().stat(location)?;
        if stat.kind == EntryKind::Directory {
            return Err(Error::Directory { location: location.to_string() });
        }
        Ok(LazyFile::new(self.hydrator.described(location, stat)?.handle()))
    }

    /// Opens a known version of an object without a request, for example a version that another
    /// process has reported. If the store no longer has that version, only its cached bytes can be
    /// read.
    #[must_use]
    pub fn open_version(&self, location: &Location, version: Version) -> LazyFile {
        LazyFile::new(self.hydrator.file(location, version).handle())
    }

    /// Lists the entries under `location` as they arrive.
    ///
    /// # Errors
    /// A failure before the first names. Later failures are items of the listing.
    pub fn list(&self, location: impl AsRef<OsStr>, options: &ListOptions) -> Result<Listing> {
        Ok(self.store().list(&Location::parse(location.as_ref())?, options)?)
    }

    /// Returns the default settings of copies.
    #[must_use]
    pub fn copies(&self) -> &firstbyte_transfer::TransferSettings {
        &self.copies
    }

    /// Creates an engine for transfers that uses the client's store, with these settings.
    #[must_use]
    pub fn transfers(&self, settings: firstbyte_transfer::TransferSettings) -> Engine {
        Engine::new(self.store().clone(), settings)
    }

    /// Returns the hydrator through which the client reads.
    #[must_use]
    pub fn hydrator(&self) -> &Hydrator {
        &self.hydrator
    }

    /// Returns the store that sends the client's requests.
    #[must_use]
    pub fn store(&self) -> &Store {
        self.hydrator.store()
    }
}
