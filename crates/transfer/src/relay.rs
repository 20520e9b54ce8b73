//! Copies an object from one store to another. If one S3 service holds both objects, the service
//! copies the object itself, unless the user has given a checksum to check. Otherwise the bytes go
//! through local memory.

use std::sync::Arc;

use firstbyte_location::{ByteRange, Location, Service, Strength, to_usize};
use firstbyte_pacing::Wait;
use firstbyte_store::{Error as StoreError, Get, Payload, PutOptions, Sink, Stat, StatedLength, Store};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::job::CopyJob;
use crate::pieces::{FinishOutcome, ObjectPieces, Piece, StartOutcome};
use crate::plan::{ChunkPlan, MAX_PART_IN_MEMORY, MAX_PARTS, MIN_PART_SIZE};
use crate::report::{CompletedObject, Verified};
use crate::request::Requester;
use crate::spool;
use crate::upload::parts::{self, MultipartUpload, put_options, put_over};

/// Usual length of a part that a worker keeps in memory, bytes. It is the shortest that S3 allows,
/// so that as many workers as possible fit below the memory ceiling.
const RELAY_PART_SIZE: u64 = MIN_PART_SIZE;
/// Maximum length of an object that S3 copies in one request, bytes.
const SINGLE_COPY: u64 = 5 << 30;
/// Length of a part that the service copies itself, bytes. The part can be long, because its bytes
/// do not pass through this process.
const COPIED_PART_SIZE: u64 = 512 << 20;

/// How a part is copied.
enum RelayMode {
    /// The service copies the part itself.
    ByService,
    /// This process reads the part into memory and sends it.
    ThroughMemory,
}

struct Relay {
    source: Location,
    stat: Stat,
    plan: ChunkPlan,
    parts: MultipartUpload,
    mode: RelayMode,
}

/// Starts to copy an object between stores.
pub(crate) fn start(requester: &mut Requester<'_>, job: &CopyJob) -> Result<StartOutcome> {
    let context = requester.context;
    let stat = requester.stat(&job.source, job.version_id())?;
    job.check_version(&stat.version)?;
    let Some(size) = stat.size().filter(|_| stat.version.strength() > Strength::None) else {
        return spool::copy(requester, job, StatedLength::Checked);
    };
    if job.entry.is_none() {
        context.observer.expected(0, size);
    }
    let options = put_options(context, job, &stat);
    let inside = is_inside(context, job, &stat, &options);
    if inside && size <= SINGLE_COPY {
        match context.store.copy(&job.source, &stat.version, &job.destination, &options) {
            // The service does not support a condition on the version of the source. So this
            // process copies the bytes, and checks the version in each response.
            Err(StoreError::Unsupported { .. } | StoreError::OwnTagRefused { .. }) => {}
            // The service cannot copy objects itself, or cannot copy from this name. So this
            // process copies the bytes. After any other refusal, the service would refuse to write
            // the bytes too.
            Err(StoreError::Server { status: 400 | 501, code, .. })
                if ["InvalidArgument", "InvalidRequest", "NotImplemented"].contains(&code.as_str()) => {}
            Err(error) => return Err(error.into()),
            Ok(written) => {
                context.observer.moved(size);
                // The service copies whole objects and verifies them itself.
                return Ok(StartOutcome::Done(CompletedObject {
                    bytes: size,
                    verified: Verified::Full,
                    version: Some(written.version),
                    source: Some(Box::new(stat.version)),
                }));
            }
        }
    }
    if context.settings.checksum.is_some()
        || (size > RELAY_PART_SIZE && !context.store.has_multipart(&job.destination))
    {
        return spool::copy(requester, job, StatedLength::Checked);
    }
    if size <= RELAY_PART_SIZE {
        let bytes = read(requester, &job.source, &stat, ByteRange::new(0, size))?;
        let written = put_over(requester, job, Payload::Bytes(&bytes), 0, &options)?;
        return Ok(StartOutcome::Done(parts::completed_object(size, written, Some(stat.version))));
    }
    let (mode, part) =
        if inside && size > SINGLE_COPY && context.store.has_copied_parts(&job.source, &job.destination) {
            (RelayMode::ByService, COPIED_PART_SIZE)
        } else {
            (RelayMode::ThroughMemory, RELAY_PART_SIZE)
        };
    let plan = ChunkPlan::with_chunk_size(size, part.max(size.div_ceil(MAX_PARTS)));
    let parts = MultipartUpload::new(context.store.begin_upload(&job.destination, &options)?, options);
    let pending = plan.chunk_indexes().collect();
    let relay = Relay { source: job.source.clone(), stat, plan, parts, mode };
    Ok(StartOutcome::Split { object: Arc::new(relay), pending, first: None })
}

/// Returns whether the service copies the object itself. If the user has given a checksum, it can
/// be checked only if the bytes pass through this process. `Copy Blob` of Azure sets only user
/// metadata. To write other properties than the source's, this process has to write the bytes too
/// (<https://learn.microsoft.com/rest/api/storageservices/copy-blob>, 28 November 2026).
fn is_inside(context: &Context<'_>, job: &CopyJob, stat: &Stat, options: &PutOptions) -> bool {
    let (Location::Object(from), Location::Object(to)) = (&job.source, &job.destination) else {
        return false;
    };
    let keeps_properties = || {
        options.metadata.content_type == stat.metadata.content_type
            && options.metadata.headers == stat.metadata.headers
            && !context.store.describes_writes()
    };
    context.settings.checksum.is_none()
        && context.store.is_one_service(from, to)
        && (to.service != Service::Azure || keeps_properties())
}

/// Reads a range of a pinned version into memory.
fn read(requester: &mut Requester<'_>, source: &Location, stat: &Stat, range: ByteRange) -> Result<Vec<u8>> {
    let mut bytes = vec![0; to_usize(range.len())];
    let mut filled = 0;
    requester.request(Wait::Head, None, |attempt, _| {
        while filled < bytes.len() {
            let rest = range.skip(filled as u64);
            let most = attempt.context.throttles.reading.request().unwrap_or(u64::MAX);
            let requested = ByteRange::at(rest.start, rest.len().min(most));
            let version = Some(stat.version.clone());
            let get = Get { range: Some(requested), version, ..attempt.get() };
            let mut body = attempt.open(source, &get)?;
            let end = filled + to_usize(requested.len());
            while filled < end {
                let read = body.read(&mut bytes[filled..end])?;
                if read == 0 {
                    let missing = (end - filled) as u64;
                    return Err(
                        StoreError::Truncated { location: source.to_string(), missing, trace: None }.into()
                    );
                }
                filled += read;
                attempt.record_moved(read as u64, range.start + filled as u64);
            }
        }
        Ok(())
    })?;
    Ok(bytes)
}

/// Reads a range of a pinned version into a temporary file.
fn read_to_file(
    requester: &mut Requester<'_>,
    source: &Location,
    stat: &Stat,
    range: ByteRange,
) -> Result<Sink> {
    let sink = Sink::new(spool::unnamed_file()?);
    let mut at = 0;
    requester.request(Wait::Body, None, |attempt, buffer| {
        while at < range.len() {
            let rest = range.skip(at);
            let most = attempt.context.throttles.reading.request().unwrap_or(u64::MAX);
            let requested = ByteRange::at(rest.start, rest.len().min(most));
            let get = Get { range: Some(requested), version: Some(stat.version.clone()), ..attempt.get() };
            let mut body = attempt.open(source, &get)?;
            let end = at + requested.len();
            attempt.copy_body(&mut body, &sink, &mut at, end, buffer, None)?;
            if at < end {
                let (location, missing) = (source.to_string(), end - at);
                return Err(StoreError::Truncated { location, missing, trace: None }.into());
            }
        }
        Ok(())
    })?;
    Ok(sink)
}

impl Relay {
    fn move_part(&self, requester: &mut Requester<'_>, index: u32) -> Result<()> {
        let range = self.plan.range(index);
        if let RelayMode::ThroughMemory = self.mode {
            if range.len() > MAX_PART_IN_MEMORY {
                let sink = read_to_file(requester, &self.source, &self.stat, range)?;
                let payload = Payload::File(sink.file(), ByteRange::new(0, range.len()));
                return self.parts.send(requester, index + 1, payload, 0);
            }
            let bytes = read(requester, &self.source, &self.stat, range)?;
            // These bytes were already counted when they were read.
            return self.parts.send(requester, index + 1, Payload::Bytes(&bytes), 0);
        }
        let context = requester.context;
        match context.store.copy_part(&self.parts.upload, index + 1, &self.source, &self.stat.version, range)
        {
            Ok(part) => {
                context.observer.moved(range.len());
                self.parts.add(part);
                Ok(())
            }
            Err(StoreError::Unsupported { .. }) => Err(Error::invalid(
                &self.source,
                "too large to be copied between two services in parts of this length; copy it to a local file first",
            )),
            Err(error) => Err(error.into()),
        }
    }
}

impl ObjectPieces for Relay {
    fn move_piece(&self, requester: &mut Requester<'_>, piece: Piece) -> Result<()> {
        piece.parts().try_for_each(|index| self.move_part(requester, index))
    }

    fn finish(&self, requester: &mut Requester<'_>) -> Result<FinishOutcome> {
        let written = self.parts.complete(requester.context.store)?;
        Ok(FinishOutcome::Done(parts::completed_object(
            self.plan.size(),
            written,
            Some(self.stat.version.clone()),
        )))
    }

    fn abandon(&self, store: &Store, _error: &Error) {
        self.parts.abort(store);
    }
}
