//! The engine: every kind of transfer, as verbs.

use std::io::{Read, Write};
use std::time::Duration;

use firstbyte_location::{ByteRange, Entry, Location};
use firstbyte_store::{Metadata, StaleUpload, Store};

use crate::{Extras, Failure, Observer, Result, Settings, Summary, Tree};

/// One object to copy.
#[derive(Clone, Debug)]
pub struct Job {
    /// From.
    pub source: Location,
    /// To; the full name, never a directory.
    pub destination: Location,
    /// What a listing told about the source: saves a request.
    pub entry: Option<Entry>,
}

/// Moves objects between locations. Cheap to make; each call is one run with its own workers.
pub struct Engine {
    store: Store,
    settings: Settings,
}

#[allow(unused_variables)]
impl Engine {
    /// An engine over `store`.
    #[must_use]
    pub fn new(store: Store, settings: Settings) -> Self {
        Self { store, settings }
    }

    /// The store it works on.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Copies one object, in any direction. The destination is the old one or the whole new one.
    ///
    /// # Errors
    /// What ended it; the destination is as it was, and what arrived is kept for the next run.
    pub fn copy(
        &self,
        source: &Location,
        destination: &Location,
        observer: &dyn Observer,
    ) -> Result<Summary> {
        panic!()
    }

    /// Copies many objects, in constant memory. An `Err` among the jobs (a name that cannot be listed or written) is
    /// counted and reported like any failure. Failures do not stop the others.
    pub fn copy_many(
        &self,
        jobs: &mut (dyn Iterator<Item = std::result::Result<Job, Failure>> + Send),
        observer: &dyn Observer,
    ) -> Summary {
        panic!()
    }

    /// Copies everything below a location, listing, reading and writing at once.
    ///
    /// # Errors
    /// The listing cannot be begun. Failures of single objects are in the summary.
    pub fn copy_tree(&self, tree: &Tree<'_>, observer: &dyn Observer) -> Result<Summary> {
        panic!()
    }

    /// Brings a tree up to date: copies what is missing or changed, and deletes what `extras` says.
    ///
    /// # Errors
    /// A listing cannot be begun. Failures of single objects are in the summary.
    pub fn sync(&self, tree: &Tree<'_>, extras: Extras, observer: &dyn Observer) -> Result<Summary> {
        panic!()
    }

    /// Writes an object, or a range of it, to `out`, in order.
    ///
    /// # Errors
    /// What ended it; what was written before stays written.
    pub fn cat(
        &self,
        source: &Location,
        range: Option<ByteRange>,
        out: &mut dyn Write,
        observer: &dyn Observer,
    ) -> Result<Summary> {
        panic!()
    }

    /// Writes a stream of unknown length to `destination`.
    ///
    /// # Errors
    /// What ended it; the destination is as it was.
    pub fn put_stream(
        &self,
        reader: &mut dyn Read,
        destination: &Location,
        metadata: &Metadata,
        observer: &dyn Observer,
    ) -> Result<Summary> {
        panic!()
    }

    /// Aborts the multipart uploads below `location` that began longer than `older_than` ago, and returns them.
    ///
    /// # Errors
    /// The uploads cannot be listed, or one cannot be aborted.
    pub fn abort_stale(&self, location: &Location, older_than: Duration) -> Result<Vec<StaleUpload>> {
        panic!()
    }
}
