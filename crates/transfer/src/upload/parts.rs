//! Sends the parts of a multipart upload, or a whole object in one request. Uploads, relays,
//! spooled copies and streams share this code.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use firstbyte_location::{Location, Version};
use firstbyte_pacing::Wait;
use firstbyte_store::{
    Cancel, Error as StoreError, ListOptions, Part, Payload, Precondition, PutOptions, ReplaceKind, Stat,
    Store, Upload, Written,
};
use rustix_futex_sync::Mutex;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::job::CopyJob;
use crate::report::{CompletedObject, Verified};
use crate::request::Requester;

/// A multipart upload in progress. The threads that send its parts share it.
pub(crate) struct MultipartUpload {
    pub(crate) upload: Upload,
    pub(crate) options: PutOptions,
    done: Mutex<Vec<Part>>,
    /// The requests in flight, by part number.
    in_flight: Mutex<HashMap<u32, Cancel>>,
    /// Set when a part has failed, so that no other part is sent.
    has_failed: AtomicBool,
}

/// Returns the metadata to write with an object: the metadata of its source, overridden by the
/// settings. An object that is copied onto itself keeps its storage class too.
pub(crate) fn put_options(context: &Context<'_>, job: &CopyJob, stat: &Stat) -> PutOptions {
    let given = context.settings.metadata.clone();
    let mut metadata = stat.metadata.clone();
    let by_name = || context.settings.content_types.of(Some(&job.source), &job.destination);
    metadata.content_type = given.content_type.or(metadata.content_type).or_else(by_name);
    metadata.modified = given.modified.or(stat.modified);
    metadata.headers.extend(given.headers);
    metadata.user.extend(given.user);
    let storage_class = stat.storage_class.clone().filter(|_| job.source == job.destination);
    PutOptions { metadata, storage_class, ..PutOptions::default() }
}

/// Writes a whole object in one request.
pub(crate) fn put(
    requester: &mut Requester<'_>,
    destination: &Location,
    payload: Payload<'_>,
    size: u64,
    options: &PutOptions,
) -> Result<Written> {
    requester.request(Wait::write(size), None, |attempt, _| {
        let options = PutOptions { sending: attempt.sending(), ..options.clone() };
        // A web server accepts any object in one request, and may need time before it responds.
        let is_long = Wait::write(size) == Wait::Write;
        if matches!(destination, Location::Sftp(_)) || (is_long && matches!(destination, Location::Http(_))) {
            // The store itself detects a silent server here, and the request tracker would be
            // wrong: an SFTP write consists of many requests with a reply each, and an HTTP write
            // of a large object takes long.
            attempt.record_pause();
        }
        let written = attempt.context.single.put(destination, payload, &options)?;
        attempt.record_moved(size, size);
        Ok(written)
    })
}

/// Writes a whole object like [`put`], for a job whose destination was in no listing. An SFTP host
/// may treat the name as equal to that of another file, for example in other letter case. That file
/// must not be replaced. So an existing file is replaced only if the listing of its directory has
/// exactly this name.
pub(crate) fn put_over(
    requester: &mut Requester<'_>,
    job: &CopyJob,
    payload: Payload<'_>,
    size: u64,
    options: &PutOptions,
) -> Result<Written> {
    let destination = &job.destination;
    let is_checked = job.over == ReplaceKind::Nothing
        && matches!(destination, Location::Sftp(_))
        && options.precondition == Precondition::None;
    if !is_checked {
        return put(requester, destination, payload, size, options);
    }
    let absent = PutOptions { precondition: Precondition::Absent, ..options.clone() };
    match put(requester, destination, payload, size, &absent) {
        Err(Error::Store(StoreError::Precondition { .. })) => {}
        other => return other,
    }
    if !is_listed(requester.context.store, destination)? {
        let why = "the host takes this name for another that is there already; rename one of the two";
        return Err(Error::invalid(destination, why));
    }
    put(requester, destination, payload, size, options)
}

/// Returns whether the directory of a file lists the file's name in exactly this spelling.
fn is_listed(store: &Store, location: &Location) -> Result<bool> {
    let (Some(directory), Some(name)) = (location.parent(), location.file_name()) else { return Ok(true) };
    for entry in store.list(&directory, &ListOptions::default())? {
        if entry?.name == name.as_bytes() {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(crate) fn verified(written: &Written) -> Verified {
    if written.verified.is_some() { Verified::Full } else { Verified::Length }
}

/// Describes a written object of `bytes` bytes that was copied from the version `source`. The
/// object counts as verified if the store has verified the content.
pub(crate) fn completed_object(bytes: u64, written: Written, source: Option<Version>) -> CompletedObject {
    let source = source.map(Box::new);
    CompletedObject { bytes, verified: verified(&written), version: Some(written.version), source }
}

impl MultipartUpload {
    pub(crate) fn new(upload: Upload, options: PutOptions) -> Self {
        Self::resume(upload, options, Vec::new())
    }

    /// Continues an upload like [`new`](Self::new), with the parts that an earlier run has sent.
    pub(crate) fn resume(upload: Upload, options: PutOptions, sent: Vec<Part>) -> Self {
        Self {
            upload,
            options,
            done: Mutex::new(sent),
            in_flight: Mutex::default(),
            has_failed: AtomicBool::new(false),
        }
    }

    /// Sends part `number`.
    pub(crate) fn send(
        &self,
        requester: &mut Requester<'_>,
        number: u32,
        payload: Payload<'_>,
        size: u64,
    ) -> Result<()> {
        let part = requester.request(Wait::Write, None, |attempt, _| {
            self.in_flight.lock().insert(number, attempt.cancel().clone());
            if self.has_failed.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            let sending = attempt.sending();
            let part = attempt.context.single.put_part(&self.upload, number, payload, &sending)?;
            attempt.record_moved(size, size);
            Ok(part)
        });
        self.in_flight.lock().remove(&number);
        self.add(part?);
        Ok(())
    }

    /// Cancels the requests in flight and prevents others, because the upload has failed.
    pub(super) fn fail(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
        self.in_flight.lock().values().for_each(Cancel::cancel);
    }

    pub(crate) fn add(&self, part: Part) {
        self.done.lock().push(part);
    }

    /// Completes the object from its parts.
    pub(crate) fn complete(&self, store: &Store) -> Result<Written> {
        let mut parts = std::mem::take(&mut *self.done.lock());
        parts.sort_unstable_by_key(|part| part.number);
        Ok(store.complete_upload(&self.upload, &parts, &self.options)?)
    }

    /// Aborts the upload, which discards its parts.
    pub(crate) fn abort(&self, store: &Store) {
        if let Err(error) = store.abort_upload(&self.upload) {
            tracing::warn!(%error, id = self.upload.id, "the upload could not be aborted; cp --abort-stale removes it");
        }
    }
}
