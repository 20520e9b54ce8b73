//! The handle: every operation on a location, sent to the backend that its scheme names.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use firstbyte_listing::Order;
use firstbyte_location::{ByteRange, Entry, Location, S3Object, Version};
use firstbyte_pacing::Throttle;

use crate::http::Http;
use crate::s3::S3;
use crate::wire::Client;
use crate::{
    Body, Cancel, Error, Options, Part, Payload, PutOptions, Result, Sending, StaleUpload, Stat, Upload,
    Written, local,
};

/// How long a cancelled run still tries to abort its upload: a round trip or a few, and less than the two seconds in
/// which a run has to end.
const ABORT_TIME: Duration = Duration::from_secs(1);

/// What to read of an object, and of which version.
#[derive(Clone, Debug, Default)]
pub struct Get {
    /// Bytes wanted; the whole where none is given. An end past the object's is cut to it.
    pub range: Option<ByteRange>,
    /// The version it has to be; checked against every answer.
    pub version: Option<Version>,
    /// Ends the request from another thread.
    pub cancel: Cancel,
    /// Whether to ask for the full-object checksum along with the bytes (`x-amz-checksum-mode`).
    pub checksum: bool,
    /// What limits the rate at which the body is read. Waiting for it is the body's business.
    pub throttle: Throttle,
}

/// What symbolic links below a local directory are listed as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// What they lead to.
    #[default]
    Follow,
    /// Links, which are not followed.
    Report,
}

/// Whether a recursive listing shows directories. Those of a store are never shown: it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Directories {
    /// No: names of files tell of them.
    #[default]
    Implied,
    /// Those of a local tree are.
    Listed,
}

/// What to list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Everything below, or one level with directories (common prefixes).
    pub recursive: bool,
    /// Only names that begin with this (S3; other stores filter).
    pub beginning: String,
    /// Only names that come after this one, in byte order (S3; other stores filter).
    pub start_after: Option<String>,
    /// Order of the entries: as they come, which is fastest, or by the bytes of whole names, a directory counting as `NAME/`.
    pub order: Order,
    /// What links below a local directory are listed as.
    pub links: Links,
    /// Whether a recursive listing shows the directories of a local tree.
    pub directories: Directories,
    /// Most requests at once, for listings that are found to need many (S3); where none is given, as many as help.
    pub requests: Option<NonZeroUsize>,
}

impl ListOptions {
    /// Whether a name is to be listed, for stores that do not ask for these names alone.
    pub(crate) fn takes(&self, name: &[u8]) -> bool {
        name.starts_with(self.beginning.as_bytes())
            && self.start_after.as_deref().is_none_or(|after| name > after.as_bytes())
    }
}

/// Entries as they arrive, in bounded memory. An error ends it, except those of single local directories.
pub struct Listing {
    entries: Box<dyn Iterator<Item = Result<Entry>> + Send>,
}

impl Iterator for Listing {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.entries.next()
    }
}

/// What a store has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterSnapshot {
    /// Requests sent.
    pub requests: u64,
    /// Of those, sent again after a failure.
    pub retries: u64,
    /// Body bytes received over the network.
    pub received: u64,
    /// Body bytes sent over the network.
    pub sent: u64,
}

/// Opens locations. Cheap to clone; clones share connections, credentials and counters. All methods block.
#[derive(Clone)]
pub struct Store {
    client: Arc<Client>,
    s3: Arc<S3>,
    http: Arc<Http>,
}

impl Store {
    /// A store that reaches places as `options` say. Nothing is contacted yet.
    ///
    /// # Errors
    /// [`Error::Options`].
    pub fn new(options: Options) -> Result<Self> {
        options.check()?;
        let client = Arc::new(Client::new(Arc::new(options))?);
        Ok(Self {
            s3: Arc::new(S3::new(Arc::clone(&client))),
            http: Arc::new(Http::new(Arc::clone(&client))),
            client,
        })
    }

    /// The same store, whose every request from here on ends when `cancel` is cancelled, whatever else ends it; a
    /// listing begun with it ends too. It shares connections, credentials and counters with this one.
    #[must_use]
    pub fn scoped(&self, cancel: &Cancel) -> Self {
        let client = Arc::new(self.client.scoped(cancel));
        Self {
            s3: Arc::new(self.s3.by(Arc::clone(&client))),
            http: Arc::new(Http::new(Arc::clone(&client))),
            client,
        }
    }

    /// Describes what is at `location`: one request, two where an S3 key turns out to be a prefix.
    ///
    /// # Errors
    /// [`Error::NotFound`], and what keeps the store from answering.
    pub fn stat(&self, location: &Location) -> Result<Stat> {
        match location {
            Location::Local(path) => local::stat(path),
            Location::S3(object) => self.s3.stat(object),
            Location::Http(url) => self.http.stat(url),
        }
    }

    /// Describes the object at `location` and never what lies below it: one request.
    ///
    /// # Errors
    /// [`Error::NotFound`], also where an S3 key is no more than a prefix, and what keeps the store from answering.
    pub fn stat_object(&self, location: &Location) -> Result<Stat> {
        match location {
            Location::S3(object) if !object.key.is_empty() => self.s3.head(object, None),
            _ => self.stat(location),
        }
    }

    /// Whether any S3 key begins with that of `location` and a `/`: one request. Elsewhere a name is either a file or a
    /// directory, and nothing is.
    ///
    /// # Errors
    /// What keeps the store from answering.
    pub fn has_below(&self, location: &Location) -> Result<bool> {
        match location {
            Location::S3(object) => self.s3.has_below(object),
            _ => Ok(false),
        }
    }

    /// Asks for bytes: one request, returned when the answer's head is here. The length and version of an object nobody
    /// has asked about yet come with its first range.
    /// A zero-length object answers any range with an empty body.
    ///
    /// # Errors
    /// [`Error::Changed`], [`Error::RangeIgnored`], [`Error::Archived`], and what keeps the store from answering.
    pub fn get(&self, location: &Location, get: &Get) -> Result<Body> {
        let cancel = self.client.scoped_cancel(&get.cancel);
        let body = match location {
            Location::Local(path) => local::get(path, get, cancel.clone()),
            Location::S3(object) => self.s3.get(object, get),
            Location::Http(url) => self.http.get(url, get),
        }?;
        Ok(body.kept_to(&get.throttle, &cancel))
    }

    /// Lists what is under `location`.
    ///
    /// # Errors
    /// What keeps the first names from coming; later failures are items of the listing.
    pub fn list(&self, location: &Location, options: &ListOptions) -> Result<Listing> {
        let entries: Box<dyn Iterator<Item = Result<Entry>> + Send> = match location {
            Location::Local(path) => {
                Box::new(local::list(path, options, self.client.scoped_cancel(&Cancel::new()))?)
            }
            Location::S3(object) => self.s3.list(object, options)?,
            Location::Http(url) => self.http.list(url, options)?,
        };
        Ok(Listing { entries })
    }

    /// Writes a whole object: readers see the old one or the new one.
    ///
    /// # Errors
    /// [`Error::Precondition`], [`Error::Checksum`] where the store got other bytes, and what keeps it from taking them.
    pub fn put(&self, location: &Location, payload: Payload<'_>, options: &PutOptions) -> Result<Written> {
        match location {
            Location::Local(path) => local::put(path, payload, options),
            Location::S3(object) => self.s3.put(object, payload, options),
            Location::Http(url) => self.http.put(url, payload, options),
        }
    }

    /// Whether large objects go up in parts there (S3).
    #[must_use]
    pub fn has_multipart(&self, location: &Location) -> bool {
        matches!(location, Location::S3(_))
    }

    /// Begins a multipart upload.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where there is no such thing, and what keeps the store from answering.
    pub fn begin_upload(&self, location: &Location, options: &PutOptions) -> Result<Upload> {
        self.s3.begin_upload(object_of(location)?, options)
    }

    /// Sends part `number` (from 1).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_part(
        &self,
        upload: &Upload,
        number: u32,
        payload: Payload<'_>,
        sending: &Sending,
    ) -> Result<Part> {
        self.s3.put_part(object_of(&upload.location)?, &upload.id, number, payload, sending)
    }

    /// Copies a range of another object of the same service as part `number`, inside the service.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where they do not share a service, [`Error::Changed`] where the source has changed.
    pub fn copy_part(
        &self,
        upload: &Upload,
        number: u32,
        source: &Location,
        version: &Version,
        range: ByteRange,
    ) -> Result<Part> {
        self.s3.copy_part(
            object_of(&upload.location)?,
            &upload.id,
            number,
            object_of(source)?,
            version,
            range,
        )
    }

    /// The parts of an upload that the store holds.
    ///
    /// # Errors
    /// What keeps the store from answering.
    pub fn list_parts(&self, upload: &Upload) -> Result<Vec<Part>> {
        self.s3.list_parts(object_of(&upload.location)?, &upload.id)
    }

    /// Puts the parts together, in order.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn complete_upload(&self, upload: &Upload, parts: &[Part], options: &PutOptions) -> Result<Written> {
        self.s3.complete_upload(object_of(&upload.location)?, &upload.id, parts, options)
    }

    /// Ends an upload and lets the store forget its parts. Where the run it belongs to has been cancelled, this is still
    /// tried, for a second at most.
    ///
    /// # Errors
    /// What keeps the store from answering.
    pub fn abort_upload(&self, upload: &Upload) -> Result<()> {
        let object = object_of(&upload.location)?;
        if !self.client.scoped_cancel(&Cancel::new()).is_cancelled() {
            return self.s3.abort_upload(object, &upload.id);
        }
        let client = Arc::new(self.client.with_scope(Cancel::after(ABORT_TIME)));
        self.s3.by(client).abort_upload(object, &upload.id)
    }

    /// Uploads begun under `location` and not ended.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where there is no such thing, and what keeps the store from answering.
    pub fn stale_uploads(&self, location: &Location) -> Result<Vec<StaleUpload>> {
        self.s3.stale_uploads(object_of(location)?)
    }

    /// Copies inside one service, without the bytes coming here.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where source and destination do not share one; else as [`put`](Self::put).
    pub fn copy(
        &self,
        source: &Location,
        version: &Version,
        destination: &Location,
        options: &PutOptions,
    ) -> Result<Written> {
        self.s3.copy(object_of(source)?, version, object_of(destination)?, options)
    }

    /// Deletes one object or file; deleting what is not there is no error.
    ///
    /// # Errors
    /// What keeps the store from doing it.
    pub fn delete(&self, location: &Location) -> Result<()> {
        match location {
            Location::Local(path) => local::delete(path),
            Location::S3(object) => self.s3.delete(object),
            Location::Http(url) => self.http.delete(url),
        }
    }

    /// Deletes many, in as few requests as the store allows; returns those that failed.
    #[must_use]
    pub fn delete_many(&self, locations: &[Location]) -> Vec<(Location, Error)> {
        let mut objects = Vec::new();
        let mut failed = Vec::new();
        for location in locations {
            match location {
                Location::S3(object) => objects.push(object.clone()),
                other => failed.extend(self.delete(other).err().map(|error| (other.clone(), error))),
            }
        }
        failed.extend(self.s3.delete_many(&objects));
        failed
    }

    /// Requests, retries and bytes so far.
    #[must_use]
    pub fn counters(&self) -> CounterSnapshot {
        let counters = &self.client.counters;
        CounterSnapshot {
            requests: counters.requests.load(Ordering::Relaxed),
            retries: counters.retries.load(Ordering::Relaxed),
            received: self.client.received(),
            sent: counters.sent.load(Ordering::Relaxed),
        }
    }
}

/// The S3 object at a location; only S3 has multipart uploads and copies inside the service.
fn object_of(location: &Location) -> Result<&S3Object> {
    match location {
        Location::S3(object) => Ok(object),
        other => {
            Err(Error::Unsupported { location: other.to_string(), what: "an operation inside the service" })
        }
    }
}
