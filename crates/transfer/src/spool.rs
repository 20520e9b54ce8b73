//! Between stores by way of an unnamed temporary file: for sources of unknown length or no version, for destinations
//! that take an object only whole, and for content that must be checked before it is passed on.

use firstbyte_location::ByteRange;
use firstbyte_store::{Get, Hasher, Payload, Sink, Stat};

use crate::download::{self, copy_body};
use crate::patience::Wait;
use crate::pieces::{Begun, Done};
use crate::worker::Worker;
use crate::{Error, Job, Result, Verified, upload};

pub(crate) fn begin(worker: &mut Worker<'_>, job: &Job) -> Result<Begun> {
    let expected = worker.run.settings.checksum.clone();
    let sink = Sink::new(tempfile::tempfile().map_err(Error::io("a temporary file"))?);
    let opened = download::open(worker, &job.source, &Get { checksum: true, ..Get::default() })?;
    let stat: Stat = opened.0.stat().clone();
    let expected = expected.or_else(|| stat.checksum.clone());
    let (body, cancel) = opened;
    let mut body = Some(body);
    let (size, found) = worker.request(Wait::Body, Some(cancel), |attempt, scratch| {
        let mut body = match body.take() {
            Some(body) => body,
            None => {
                let body = attempt.run.store.get(&job.source, &attempt.get())?;
                attempt.head_arrived(body.range().len());
                body
            }
        };
        let mut hasher = expected.as_ref().map(|expected| Hasher::new(expected.algorithm));
        let mut at = 0;
        copy_body(attempt, &mut body, &sink, &mut at, u64::MAX, scratch, hasher.as_mut())?;
        Ok((at, hasher.map(Hasher::finish)))
    })?;
    if let (Some(expected), Some(found)) = (&expected, &found) {
        expected.verify(found, &job.source)?;
    }
    let options = upload::put_options(worker, &stat);
    let payload = Payload::File(sink.file(), ByteRange::new(0, size));
    let written = upload::put(worker, &job.destination, payload, 0, &options)?;
    let verified = if expected.is_some() { upload::verified(&written) } else { Verified::Length };
    Ok(Begun::Done(Done { bytes: size, verified, version: Some(written.version) }))
}
