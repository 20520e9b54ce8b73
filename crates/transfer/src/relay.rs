//! From one store to another: inside the service where both are in one, else through this machine's memory.

use std::ops::Range;
use std::sync::Arc;

use firstbyte_location::{ByteRange, Location, Strength};
use firstbyte_store::{Body, Error as StoreError, Get, Payload, Stat};

use crate::patience::Wait;
use crate::pieces::{Begun, Done, Finish, Pieces};
use crate::plan::Plan;
use crate::upload::{self, Parts, all};
use crate::worker::{Attempt, Worker};
use crate::{Error, Job, Result, Verified, spool};

/// What passes through memory at once, per worker. The least a part may have, so that as many workers as possible fit
/// below the memory ceiling.
pub(crate) const PART: u64 = 5 << 20;
/// S3 copies objects up to this length in one request.
const SINGLE_COPY: u64 = 5 << 30;
/// A part copied inside the service: large, for no byte passes here, and still dozens in parallel.
const COPY_PART: u64 = 512 << 20;
const MOST_PARTS: u64 = 10_000;

/// How the bytes of a part get to the destination.
enum Way {
    /// The service copies.
    Inside,
    /// They are read into memory and sent.
    Through,
}

struct Relay {
    source: Location,
    stat: Stat,
    plan: Plan,
    parts: Parts,
    way: Way,
}

/// Begins a copy between stores.
pub(crate) fn begin(worker: &mut Worker<'_>, job: &Job) -> Result<Begun> {
    let run = worker.run;
    let stat = worker.request(Wait::Head, None, |attempt, _| {
        let stat = attempt.run.store.stat(&job.source)?;
        attempt.head_arrived(0);
        Ok(stat)
    })?;
    let Some(size) = stat.size().filter(|_| stat.version.strength() > Strength::None) else {
        return spool::begin(worker, job);
    };
    if job.entry.is_none() {
        run.observer.expected(0, size);
    }
    // A checksum the user gives has to be seen to be believed: those bytes pass here.
    let both_s3 = matches!((&job.source, &job.destination), (Location::S3(_), Location::S3(_)));
    let inside = both_s3 && run.settings.checksum.is_none();
    let options = upload::put_options(worker, &stat);
    if inside && size <= SINGLE_COPY {
        match run.store.copy(&job.source, &stat.version, &job.destination, &options) {
            Err(StoreError::Unsupported { .. }) => {}
            Err(error) => return Err(error.into()),
            Ok(written) => {
                run.observer.moved(size);
                // The service copies objects whole and vouches for them.
                return Ok(Begun::Done(Done {
                    bytes: size,
                    verified: Verified::Full,
                    version: Some(written.version),
                }));
            }
        }
    }
    if run.settings.checksum.is_some() || (size > PART && !run.store.has_multipart(&job.destination)) {
        return spool::begin(worker, job);
    }
    if size <= PART {
        let bytes = read(worker, &job.source, &stat, ByteRange::new(0, size))?;
        let written = upload::put(worker, &job.destination, Payload::Bytes(&bytes), 0, &options)?;
        return Ok(Begun::Done(Done {
            bytes: size,
            verified: upload::verified(&written),
            version: Some(written.version),
        }));
    }
    let (way, part) =
        if inside && size > SINGLE_COPY { (Way::Inside, COPY_PART) } else { (Way::Through, PART) };
    let plan = Plan::even(size, part.max(size.div_ceil(MOST_PARTS)));
    let parts = Parts::new(run.store.begin_upload(&job.destination, &options)?, options);
    let pending = all(&plan);
    let relay = Relay { source: job.source.clone(), stat, plan, parts, way };
    Ok(Begun::Split { object: Arc::new(relay), pending, own: None })
}

/// Reads a range of a pinned version into memory.
fn read(worker: &mut Worker<'_>, source: &Location, stat: &Stat, range: ByteRange) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(range.len()).unwrap_or(usize::MAX)];
    let mut filled = 0;
    worker.request(Wait::Head, None, |attempt, _| {
        while filled < bytes.len() {
            let rest = range.skip(filled as u64);
            let most = attempt.run.throttles.reading.request().unwrap_or(u64::MAX);
            let asked = ByteRange::at(rest.start, rest.len().min(most));
            let mut body = ask(attempt, source, stat, asked)?;
            let end = filled + usize::try_from(asked.len()).unwrap_or(0);
            while filled < end {
                let read = body.read(&mut bytes[filled..end])?;
                if read == 0 {
                    let missing = (end - filled) as u64;
                    return Err(StoreError::Truncated { location: source.to_string(), missing }.into());
                }
                filled += read;
                attempt.moved(read as u64);
            }
        }
        Ok(())
    })?;
    Ok(bytes)
}

fn ask(attempt: &Attempt<'_>, source: &Location, stat: &Stat, range: ByteRange) -> Result<Body> {
    let version = Some(stat.version.clone());
    let get = Get { range: Some(range), version, ..attempt.get() };
    let body = attempt.run.store.get(source, &get)?;
    attempt.head_arrived(body.range().len());
    Ok(body)
}

impl Relay {
    fn move_part(&self, worker: &mut Worker<'_>, index: u32) -> Result<()> {
        let range = self.plan.range(index);
        if let Way::Through = self.way {
            let bytes = read(worker, &self.source, &self.stat, range)?;
            // Counted when they were read.
            return self.parts.send(worker, index + 1, Payload::Bytes(&bytes), 0);
        }
        let store = worker.run.store;
        match store.copy_part(&self.parts.upload, index + 1, &self.source, &self.stat.version, range) {
            Ok(part) => {
                worker.run.observer.moved(range.len());
                self.parts.add(part);
                Ok(())
            }
            Err(StoreError::Unsupported { .. }) => Err(Error::invalid(
                &self.source,
                "too large to pass between two services in parts of this length; copy it to a local file first",
            )),
            Err(error) => Err(error.into()),
        }
    }
}

impl Pieces for Relay {
    fn move_pieces(&self, worker: &mut Worker<'_>, mut pieces: Range<u32>) -> Result<()> {
        pieces.try_for_each(|index| self.move_part(worker, index))
    }

    fn finish(&self, worker: &mut Worker<'_>) -> Result<Finish> {
        let written = self.parts.complete(worker)?;
        let verified = upload::verified(&written);
        Ok(Finish::Done(Done { bytes: self.plan.size(), verified, version: Some(written.version) }))
    }

    fn abandon(&self, store: &firstbyte_store::Store, _error: &Error) {
        self.parts.abort(store);
    }
}
