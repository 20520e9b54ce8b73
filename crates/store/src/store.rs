//! The handle: every operation on a location, sent to the backend that its scheme names.

use std::sync::Arc;

use firstbyte_listing::Order;
use firstbyte_location::{ByteRange, Entry, Location, Version};

use crate::{Body, Cancel, Error, Options, Part, Payload, PutOptions, Result, StaleUpload, Stat, Upload, Written};

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
}

/// What to list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Everything below, or one level with directories (common prefixes).
    pub recursive: bool,
    /// Only names that come after this one, in byte order (S3; other stores filter).
    pub start_after: Option<String>,
    /// Order of local entries: as they come, in constant memory, or as S3's come whatever is asked here.
    pub order: Order,
}

/// Entries as they arrive, in constant memory; S3's in byte order. An error ends it, except those of single local directories.
pub struct Listing {}

impl Iterator for Listing {
    type Item = Result<Entry>;
    fn next(&mut self) -> Option<Self::Item> { None }
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
    _inner: Arc<()>,
}

#[allow(unused_variables)]
impl Store {
    /// A store that reaches places as `options` say. Nothing is contacted yet.
    ///
    /// # Errors
    /// [`Error::Options`].
    pub fn new(options: Options) -> Result<Self> { panic!() }

    /// Describes what is at `location`: one request.
    pub fn stat(&self, location: &Location) -> Result<Stat> { panic!() }

    /// Asks for bytes: one request, returned when the answer's head is here. The length and version of an object nobody has asked about yet come with its first range.
    /// A zero-length object answers any range with an empty body.
    pub fn get(&self, location: &Location, get: &Get) -> Result<Body> { panic!() }

    /// Lists what is under `location`.
    pub fn list(&self, location: &Location, options: &ListOptions) -> Result<Listing> { panic!() }

    /// Writes a whole object: readers see the old one or the new one.
    pub fn put(&self, location: &Location, payload: Payload<'_>, options: &PutOptions) -> Result<Written> { panic!() }

    /// Whether large objects go up in parts there (S3).
    pub fn has_multipart(&self, location: &Location) -> bool { panic!() }

    /// Begins a multipart upload.
    pub fn begin_upload(&self, location: &Location, options: &PutOptions) -> Result<Upload> { panic!() }

    /// Sends part `number` (from 1).
    pub fn put_part(&self, upload: &Upload, number: u32, payload: Payload<'_>, cancel: &Cancel) -> Result<Part> { panic!() }

    /// Copies a range of another object of the same service as part `number`, inside the service.
    pub fn copy_part(&self, upload: &Upload, number: u32, source: &Location, version: &Version, range: ByteRange) -> Result<Part> { panic!() }

    /// The parts of an upload that the store holds.
    pub fn list_parts(&self, upload: &Upload) -> Result<Vec<Part>> { panic!() }

    /// Puts the parts together, in order.
    pub fn complete_upload(&self, upload: &Upload, parts: &[Part], options: &PutOptions) -> Result<Written> { panic!() }

    /// Ends an upload and lets the store forget its parts.
    pub fn abort_upload(&self, upload: &Upload) -> Result<()> { panic!() }

    /// Uploads begun under `location` and not ended.
    pub fn stale_uploads(&self, location: &Location) -> Result<Vec<StaleUpload>> { panic!() }

    /// Copies inside one service, without the bytes coming here. `Unsupported` where source and destination do not share one.
    pub fn copy(&self, source: &Location, version: &Version, destination: &Location, options: &PutOptions) -> Result<Written> { panic!() }

    /// Deletes one object or file; deleting what is not there is no error.
    pub fn delete(&self, location: &Location) -> Result<()> { panic!() }

    /// Deletes many, in as few requests as the store allows; returns those that failed.
    pub fn delete_many(&self, locations: &[Location]) -> Vec<(Location, Error)> { panic!() }

    /// Requests, retries and bytes so far.
    pub fn counters(&self) -> CounterSnapshot { panic!() }
}
