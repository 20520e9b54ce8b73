//! A local file to a store: one request, or parts in parallel sent straight from the file.
//!
//! Parts that a killed run has sent are not sent again: the upload's id is kept in the state directory (see
//! [`begun`](crate::begun)), and the store itself tells which parts it holds.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use firstbyte_location::{ByteRange, Kind, Location};
use firstbyte_store::{
    Cancel, Error as StoreError, Part, Payload, PutOptions, Stat, Upload, Written, open_regular,
};

use crate::begun::UploadJournal;
use crate::patience::Wait;
use crate::pieces::{Begun, Done, Finish, Pieces};
use crate::plan::{Plan, SINGLE_PUT};
use crate::worker::Worker;
use crate::{Error, Job, Result, Verified, verify};

/// A multipart upload from a file.
struct FileUpload {
    source: Location,
    file: File,
    stat: Stat,
    plan: Plan,
    /// The upload, aborted by a failure.
    parts: Parts,
    journal: Option<UploadJournal>,
}

/// The parts of a multipart upload as they are finished: shared by all that send some.
pub(crate) struct Parts {
    pub(crate) upload: Upload,
    pub(crate) options: PutOptions,
    done: Mutex<Vec<Part>>,
    /// Requests under way, by part.
    under_way: Mutex<HashMap<u32, Cancel>>,
    /// One part cannot be sent: the others need not be.
    failed: AtomicBool,
}

/// Begins an upload.
pub(crate) fn begin(worker: &mut Worker<'_>, job: &Job, path: &Path) -> Result<Begun> {
    let run = worker.run;
    let stat = run.store.stat(&job.source)?;
    let size = stat.size().unwrap_or_default();
    if stat.kind == Kind::Directory {
        return Err(Error::invalid(&job.source, "is a directory; copy it with -r"));
    }
    let (file, _) = open_regular(path)?;
    if job.entry.is_none() {
        run.observer.expected(0, size);
    }
    let user = check_source(worker, job, &file, size)?;
    let options = put_options(worker, &stat);
    if size <= SINGLE_PUT || !run.store.has_multipart(&job.destination) {
        let payload = Payload::File(&file, ByteRange::new(0, size));
        let written = put(worker, &job.destination, payload, size, &options)
            .map_err(|error| blame(worker, &job.source, &stat, error))?;
        unchanged(worker, &job.source, &stat)?;
        let verified = verified(&written).max(user);
        return Ok(Begun::Done(Done { bytes: size, verified, version: Some(written.version) }));
    }
    let plan = Plan::upload(size);
    let journal = run
        .settings
        .state_dir
        .as_deref()
        .and_then(|dir| UploadJournal::open(dir, &job.source, &job.destination));
    let (upload, there) = match journal
        .as_ref()
        .and_then(|journal| journal.resume(run.store, &job.destination, &stat, &plan))
    {
        Some(resumed) => resumed,
        None => {
            let upload = run.store.begin_upload(&job.destination, &options)?;
            if let Some(journal) = &journal {
                journal.write(&upload, &stat, &plan)?;
            }
            (upload, Vec::new())
        }
    };
    tracing::debug!(
        destination = %job.destination, parts = plan.count(), part_bytes = plan.chunk(), there = there.len(), "upload"
    );
    run.resumed(there.iter().map(|part| part.size).sum());
    let pending =
        (0..plan.count()).filter(|index| there.iter().all(|part| part.number != index + 1)).collect();
    let parts = Parts { done: Mutex::new(there), ..Parts::new(upload, options) };
    let object = FileUpload { source: job.source.clone(), file, stat, plan, parts, journal };
    Ok(Begun::Split { object: Arc::new(object), pending, own: None })
}

/// Compares the file with the checksum the user gave, before anything is sent.
fn check_source(worker: &Worker<'_>, job: &Job, file: &File, size: u64) -> Result<Verified> {
    let Some(expected) = &worker.run.settings.checksum else { return Ok(Verified::Length) };
    let found = verify::of_range(file, ByteRange::new(0, size), expected.algorithm)?;
    expected.verify(&found, &job.source)?;
    Ok(Verified::Full)
}

/// Fails if the source is not what it was when it was opened.
fn unchanged(worker: &Worker<'_>, source: &Location, stat: &Stat) -> Result<()> {
    let now = worker.run.store.stat(source)?;
    if now.version == stat.version {
        return Ok(());
    }
    let (expected, found) = (Box::new(stat.version.clone()), Box::new(now.version));
    Err(StoreError::Changed { location: source.to_string(), expected, found }.into())
}

/// What ended an upload. A file that was changed while it was sent makes it fail in many ways: it cannot be read to its
/// end, or the store finds other bytes than were announced.
fn blame(worker: &Worker<'_>, source: &Location, stat: &Stat, error: Error) -> Error {
    match &error {
        Error::Store(StoreError::Payload { source: cause, .. }) => {
            let cause = std::io::Error::new(cause.kind(), cause.to_string());
            unchanged(worker, source, stat)
                .err()
                .unwrap_or_else(|| StoreError::Io { location: source.to_string(), source: cause }.into())
        }
        Error::Store(StoreError::Checksum(_) | StoreError::Server { .. }) => {
            unchanged(worker, source, stat).err().unwrap_or(error)
        }
        _ => error,
    }
}

/// What travels with an object into a store.
pub(crate) fn put_options(worker: &Worker<'_>, stat: &Stat) -> PutOptions {
    let given = worker.run.settings.metadata.clone();
    let mut metadata = stat.metadata.clone();
    metadata.content_type = given.content_type.or(metadata.content_type);
    metadata.modified = given.modified.or(stat.modified);
    metadata.headers.extend(given.headers);
    metadata.user.extend(given.user);
    PutOptions { metadata, ..PutOptions::default() }
}

/// Writes a whole object in one request.
pub(crate) fn put(
    worker: &mut Worker<'_>,
    destination: &Location,
    payload: Payload<'_>,
    size: u64,
    options: &PutOptions,
) -> Result<Written> {
    worker.request(Wait::Write, None, |attempt, _| {
        let options = PutOptions { sending: attempt.sending(), ..options.clone() };
        let written = attempt.run.store.put(destination, payload, &options)?;
        attempt.moved(size);
        Ok(written)
    })
}

pub(crate) fn verified(written: &Written) -> Verified {
    if written.verified.is_some() { Verified::Full } else { Verified::Length }
}

impl Parts {
    pub(crate) fn new(upload: Upload, options: PutOptions) -> Self {
        Self {
            upload,
            options,
            done: Mutex::default(),
            under_way: Mutex::default(),
            failed: AtomicBool::new(false),
        }
    }

    /// Sends part `number`.
    pub(crate) fn send(
        &self,
        worker: &mut Worker<'_>,
        number: u32,
        payload: Payload<'_>,
        size: u64,
    ) -> Result<()> {
        let part = worker.request(Wait::Write, None, |attempt, _| {
            self.under_way().insert(number, attempt.cancel.clone());
            if self.failed.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            let part = attempt.run.store.put_part(&self.upload, number, payload, &attempt.sending())?;
            attempt.moved(size);
            Ok(part)
        });
        self.under_way().remove(&number);
        self.add(part?);
        Ok(())
    }

    /// Ends the requests under way and lets no other begin: the upload has failed.
    fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
        self.under_way().values().for_each(Cancel::cancel);
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<u32, Cancel>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, part: Part) {
        self.lock().push(part);
    }

    /// Puts the parts together.
    pub(crate) fn complete(&self, worker: &mut Worker<'_>) -> Result<Written> {
        let mut parts = std::mem::take(&mut *self.lock());
        parts.sort_unstable_by_key(|part| part.number);
        Ok(worker.run.store.complete_upload(&self.upload, &parts, &self.options)?)
    }

    /// Lets the store forget what was sent.
    pub(crate) fn abort(&self, worker_store: &firstbyte_store::Store) {
        if let Err(error) = worker_store.abort_upload(&self.upload) {
            tracing::warn!(%error, id = self.upload.id, "the upload could not be aborted; cp --abort-stale removes it");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Part>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pieces for FileUpload {
    fn move_pieces(&self, worker: &mut Worker<'_>, mut pieces: Range<u32>) -> Result<()> {
        pieces.try_for_each(|index| {
            let (range, began) = (self.plan.range(index), Instant::now());
            self.parts
                .send(worker, index + 1, Payload::File(&self.file, range), range.len())
                .map_err(|error| blame(worker, &self.source, &self.stat, error))
                .inspect_err(|_| self.parts.fail())?;
            worker.run.part_sent(began.elapsed());
            Ok(())
        })
    }

    fn is_upload(&self) -> bool {
        true
    }

    fn finish(&self, worker: &mut Worker<'_>) -> Result<Finish> {
        unchanged(worker, &self.source, &self.stat)?;
        let written = self.parts.complete(worker)?;
        if let Some(journal) = &self.journal {
            journal.remove()?;
        }
        let verified =
            if worker.run.settings.checksum.is_some() { Verified::Full } else { verified(&written) };
        Ok(Finish::Done(Done { bytes: self.plan.size(), verified, version: Some(written.version) }))
    }

    fn abandon(&self, store: &firstbyte_store::Store, error: &Error) {
        // An interrupted upload with a journal goes on later; any other would only be billed.
        if self.journal.is_some() && error.ends_run() {
            return;
        }
        self.parts.abort(store);
        if let Some(journal) = &self.journal {
            let removed = journal.remove();
            tracing::debug!(?removed, "upload journal");
        }
    }
}

/// Pieces nobody has moved yet.
pub(crate) fn all(plan: &Plan) -> VecDeque<u32> {
    (0..plan.count()).collect()
}
