//! Copies to a store through an unnamed temporary file. This is needed if the source has no length,
//! a false length or no version, if the destination accepts only whole objects, or if the user's
//! checksum must be checked before anything is sent.

use std::fs::File;

use firstbyte_location::ByteRange;
use firstbyte_pacing::Wait;
use firstbyte_store::{Error as StoreError, Get, Hasher, Payload, Sink, StatedLength};

use crate::error::{Error, Result};
use crate::job::CopyJob;
use crate::pieces::StartOutcome;
use crate::report::{CompletedObject, Verified};
use crate::request::Requester;
use crate::upload::parts::{completed_object, put_options, put_over, verified};

/// Creates an unnamed temporary file. If the file system cannot do that, creates a named file and
/// removes its name.
pub(crate) fn unnamed_file() -> Result<File> {
    let named = |_| Ok(tempfile::NamedTempFile::new()?.into_file());
    tempfile::tempfile().or_else(named).map_err(Error::temporary)
}

/// Copies an object to a store.
pub(crate) fn copy(
    requester: &mut Requester<'_>,
    job: &CopyJob,
    length: StatedLength,
) -> Result<StartOutcome> {
    let context = requester.context;
    let sink = Sink::new(unnamed_file()?);
    let wanted = Get { checksum: true, version: job.wanted_version(), length, ..Get::default() };
    let (body, cancel) = requester.open(&job.source, &wanted)?;
    let stat = body.stat().clone();
    job.check_version(&stat.version)?;
    let is_open_ended = body.is_open_ended();
    let stated = is_open_ended.then(|| requester.stated_length(&job.source, &stat.version)).flatten();
    let expected = context.settings.checksum.clone().or_else(|| stat.checksum.clone());
    let mut body = Some(body);
    let (size, found) = requester.request(Wait::Body, Some(cancel), |attempt, buffer| {
        let mut body = match body.take() {
            Some(body) => body,
            None => {
                let get = Get { version: job.wanted_version(), length, ..attempt.get() };
                attempt.open(&job.source, &get)?
            }
        };
        let mut hasher = expected.as_ref().map(|expected| Hasher::new(expected.algorithm));
        let mut at = 0;
        attempt.copy_body(&mut body, &sink, &mut at, u64::MAX, buffer, hasher.as_mut())?;
        if let Some(missing) = stated.and_then(|size| size.checked_sub(at)).filter(|missing| *missing > 0) {
            let location = job.source.to_string();
            return Err(StoreError::Truncated { location, missing, trace: None }.into());
        }
        Ok((at, hasher.map(Hasher::finish)))
    })?;
    if let (Some(expected), Some(found)) = (&expected, &found) {
        expected.verify(found, &job.source)?;
    }
    let payload = Payload::File(sink.file(), ByteRange::new(0, size));
    let written = put_over(requester, job, payload, 0, &put_options(context, job, &stat))?;
    let verified = match expected {
        Some(_) => verified(&written),
        None if is_open_ended && stated != Some(size) => Verified::Nothing,
        None => Verified::Length,
    };
    Ok(StartOutcome::Done(CompletedObject {
        verified,
        ..completed_object(size, written, Some(stat.version))
    }))
}
