//! Uploads a local file to a store: in one request, or in parallel parts that are sent directly
//! from the file.
//!
//! Parts that a killed run has sent are not sent again: [`upload_journal`] keeps the id of the
//! upload, and the store lists the parts it has.

pub(crate) mod parts;
mod upload_journal;

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use firstbyte_location::{ByteRange, EntryKind, Location};
use firstbyte_store::{Error as StoreError, Payload, PinnedFile, Stat, StatedLength, Store, open_regular};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::job::CopyJob;
use crate::pieces::{FinishOutcome, ObjectPieces, Piece, StartOutcome};
use crate::plan::{ChunkPlan, LARGE_OBJECT};
use crate::report::{CompletedObject, Verified};
use crate::request::Requester;
use crate::{spool, verify};

use parts::{MultipartUpload, completed_object, put_options, put_over, verified};
use upload_journal::UploadJournal;

/// A multipart upload from a file.
struct FileUpload {
    source: Location,
    file: File,
    stat: Stat,
    plan: ChunkPlan,
    parts: MultipartUpload,
    journal: Option<UploadJournal>,
}

pub(crate) fn start(requester: &mut Requester<'_>, job: &CopyJob, path: &Path) -> Result<StartOutcome> {
    let context = requester.context;
    let stat = context.store.stat(&job.source)?;
    if stat.kind == EntryKind::Directory {
        return Err(Error::invalid(&job.source, "is a directory; copy it with -r"));
    }
    job.check_version(&stat.version)?;
    let Some(size) = stat.size() else { return spool::copy(requester, job, StatedLength::Checked) };
    let (file, _) = open_regular(path)?;
    if job.entry.is_none() {
        context.observer.expected(0, size);
    }
    let user = check_source(context, job, &file, size)?;
    let options = put_options(context, job, &stat);
    if size <= LARGE_OBJECT || !context.store.has_multipart(&job.destination) {
        let pinned = PinnedFile::new(stat.version.clone(), &context.meters.sent);
        let payload = Payload::Source(&file, ByteRange::new(0, size), &pinned);
        let written = put_over(requester, job, payload, size, &options)
            .map_err(|error| find_cause(context, &job.source, &stat, error))?;
        let verified = verified(&written).max(user);
        return Ok(StartOutcome::Done(CompletedObject {
            verified,
            ..completed_object(size, written, Some(stat.version))
        }));
    }
    let plan = ChunkPlan::upload(size);
    let directory = context.settings.state_dir.as_deref();
    let service = context.store.service_of(&job.destination);
    let digest = context.store.digest_of_writes(&options);
    let journal = directory
        .and_then(|directory| UploadJournal::open(directory, &job.source, &job.destination, &service));
    let resumed = journal
        .as_ref()
        .and_then(|journal| journal.resume(context.store, &job.destination, &stat, &plan, &digest));
    let (upload, sent) = match resumed {
        Some(resumed) => resumed,
        None => {
            let sent_at = Instant::now();
            let upload = context.store.begin_upload(&job.destination, &options)?;
            context.tracker.learn_answer(sent_at.elapsed());
            if let Some(journal) = &journal {
                journal.write(&upload, &stat, &plan, &digest)?;
            }
            (upload, Vec::new())
        }
    };
    tracing::debug!(
        destination = %job.destination, parts = plan.count(), part_bytes = plan.chunk_size(), sent = sent.len(), "upload"
    );
    context.count_resumed(sent.iter().map(|part| part.size).sum());
    let pending =
        plan.chunk_indexes().filter(|index| sent.iter().all(|part| part.number != index + 1)).collect();
    let parts = MultipartUpload::resume(upload, options, sent);
    let object = FileUpload { source: job.source.clone(), file, stat, plan, parts, journal };
    Ok(StartOutcome::Split { object: Arc::new(object), pending, first: None })
}

/// Compares the file with the checksum that the user has given, before anything is sent.
fn check_source(context: &Context<'_>, job: &CopyJob, file: &File, size: u64) -> Result<Verified> {
    let Some(expected) = &context.settings.checksum else { return Ok(Verified::Length) };
    let found = verify::of_range(file, ByteRange::new(0, size), expected.algorithm)?;
    expected.verify(&found, &job.source)?;
    Ok(Verified::Full)
}

/// Fails if the source has changed since it was opened.
fn check_unchanged(context: &Context<'_>, source: &Location, stat: &Stat) -> Result<()> {
    let now = context.store.stat(source)?;
    if now.version == stat.version {
        return Ok(());
    }
    let (expected, found) = (Box::new(stat.version.clone()), Box::new(now.version));
    Err(StoreError::Changed { location: source.to_string(), expected, found, trace: None }.into())
}

/// Finds the cause of a failed upload. If a file changes while it is sent, the upload can fail in
/// many ways: the file ends early or late, or the store receives other bytes than were announced.
/// If the file has not changed and still ends early or late, its stated length was false.
fn find_cause(context: &Context<'_>, source: &Location, stat: &Stat, error: Error) -> Error {
    let changed = || check_unchanged(context, source, stat).err();
    match &error {
        Error::Store(StoreError::Payload { source: cause, .. }) => changed().unwrap_or_else(|| {
            if matches!(cause.kind(), ErrorKind::UnexpectedEof | ErrorKind::Other) {
                let stated = stat.size().unwrap_or_default();
                return StoreError::FalseLength { location: source.to_string(), stated }.into();
            }
            let cause = std::io::Error::new(cause.kind(), cause.to_string());
            StoreError::Io { location: source.to_string(), source: cause }.into()
        }),
        Error::Store(StoreError::Checksum(_) | StoreError::Server { .. }) => changed().unwrap_or(error),
        _ => error,
    }
}

impl ObjectPieces for FileUpload {
    fn move_piece(&self, requester: &mut Requester<'_>, piece: Piece) -> Result<()> {
        piece.parts().try_for_each(|index| {
            let range = self.plan.range(index);
            self.parts
                .send(
                    requester,
                    index + 1,
                    Payload::Source(
                        &self.file,
                        range,
                        &PinnedFile::new(self.stat.version.clone(), &requester.context.meters.sent),
                    ),
                    range.len(),
                )
                .map_err(|error| find_cause(requester.context, &self.source, &self.stat, error))
                .inspect_err(|_| self.parts.fail())
        })
    }

    fn part_length(&self) -> Option<u64> {
        Some(self.plan.range(0).len())
    }

    fn finish(&self, requester: &mut Requester<'_>) -> Result<FinishOutcome> {
        let context = requester.context;
        check_unchanged(context, &self.source, &self.stat)?;
        let written = self.parts.complete(context.store)?;
        if let Some(journal) = &self.journal {
            journal.remove()?;
        }
        let verified = if context.settings.checksum.is_some() { Verified::Full } else { verified(&written) };
        Ok(FinishOutcome::Done(CompletedObject {
            verified,
            ..completed_object(self.plan.size(), written, Some(self.stat.version.clone()))
        }))
    }

    fn abandon(&self, store: &Store, error: &Error) {
        // The upload can resume from its journal if it was interrupted, or if the store's failure
        // is transient. Without a journal, its parts would only cost money, so the upload is
        // aborted.
        if self.journal.is_some() && (error.ends_run() || error.is_transient()) {
            return;
        }
        self.parts.abort(store);
        if let Some(journal) = &self.journal {
            let removed = journal.remove();
            tracing::debug!(?removed, "upload journal");
        }
    }
}
