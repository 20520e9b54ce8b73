//! Downloads an object with one request: a small object, an object without a version to pin, or an
//! object whose stated length is false.

use std::path::Path;

use firstbyte_location::{ByteRange, Location, Strength};
use firstbyte_pacing::Wait;
use firstbyte_store::{
    Body, Cancel, Checksum, Error as StoreError, Get, Hasher, LocalFile, PartialPermissions, Stat,
    StatedLength,
};

use crate::error::{Error, Result};
use crate::job::CopyJob;
use crate::pieces::StartOutcome;
use crate::report::{CompletedObject, Verified};
use crate::request::{OpenedBody, Requester, TransferAttempt};
use crate::verify::MAX_FETCHES;

/// Completes an object whose first response contains all of its bytes.
pub(super) fn complete_opened(
    requester: &mut Requester<'_>,
    job: &CopyJob,
    path: &Path,
    opened: OpenedBody,
) -> Result<StartOutcome> {
    let mut stat = opened.0.stat().clone();
    let asked_by_range = job.listed_size().is_none();
    if stat.checksum.is_none() && asked_by_range && matches!(job.source, Location::Object(_)) {
        // Stores send the checksum only with the whole object, and this object was requested as a
        // range. So the checksum is requested here.
        let described = requester.try_stat(&job.source, stat.version.version_id.as_deref());
        stat.checksum = described
            .filter(|described| described.version.agrees_with(&stat.version))
            .and_then(|described| described.checksum);
    }
    fetch(requester, job, path, Some(opened), stat, StatedLength::Checked)
}

/// Copies a source as one stream. After a failure, continues at the byte where the stream ended if
/// the server supports ranges and the source has a version. Otherwise starts over.
pub(super) fn stream(
    requester: &mut Requester<'_>,
    job: &CopyJob,
    path: &Path,
    length: StatedLength,
) -> Result<StartOutcome> {
    let wanted = Get { checksum: true, version: job.wanted_version(), length, ..Get::default() };
    let opened = requester.open(&job.source, &wanted)?;
    let stat = opened.0.stat().clone();
    job.check_version(&stat.version)?;
    fetch(requester, job, path, Some(opened), stat, length)
}

fn fetch(
    requester: &mut Requester<'_>,
    job: &CopyJob,
    path: &Path,
    mut opened: Option<OpenedBody>,
    mut stat: Stat,
    length: StatedLength,
) -> Result<StartOutcome> {
    let context = requester.context;
    let is_open_ended = opened.as_ref().is_some_and(|(body, _)| body.is_open_ended());
    if is_open_ended {
        stat.version.size = requester.stated_length(&job.source, &stat.version);
    }
    let expected = context.settings.checksum.clone().or_else(|| stat.checksum.clone());
    let partial = context.open_partial(job, path, PartialPermissions::of(&stat.metadata))?;
    for fetches in 1.. {
        let mut arriving = ArrivingObject {
            job,
            partial: &partial,
            stat: &mut stat,
            length,
            expected: expected.as_ref(),
            offset: 0,
            hasher: None,
            has_ranges: length == StatedLength::Checked,
        };
        let (bytes, found) = match arriving.receive(requester, path, opened.take()) {
            Ok(moved) => moved,
            Err(error) => {
                let discarded = partial.discard();
                tracing::debug!(?discarded, "the partial file cannot be resumed");
                return Err(error);
            }
        };
        let checked = expected
            .as_ref()
            .zip(found.as_ref())
            .map(|(expected, found)| expected.verify(found, &job.source));
        match checked {
            Some(Err(error)) if fetches >= MAX_FETCHES => {
                partial.discard()?;
                return Err(error.into());
            }
            Some(Err(error)) => {
                tracing::debug!(%error, "fetching it again");
                context.count_reread(bytes);
            }
            _ => {
                context.commit(partial, job.over, path, &stat, context.durability_of_small())?;
                let verified = match checked {
                    Some(_) => Verified::Full,
                    None if is_open_ended && stat.size() != Some(bytes) => Verified::Nothing,
                    None => Verified::Length,
                };
                return Ok(StartOutcome::Done(CompletedObject {
                    bytes,
                    verified,
                    version: Some(stat.version),
                    source: None,
                }));
            }
        }
    }
    unreachable!("the loop above ends by returning")
}

/// An object that is being written to its partial file. One request is made for it, and another
/// after each failure.
struct ArrivingObject<'a> {
    job: &'a CopyJob,
    partial: &'a LocalFile,
    /// The description of the object in the latest response that started at the first byte.
    stat: &'a mut Stat,
    length: StatedLength,
    expected: Option<&'a Checksum>,
    /// The offset of the next byte, in the object.
    offset: u64,
    hasher: Option<Hasher>,
    /// True if ranges may be requested. False once the server has ignored a range.
    has_ranges: bool,
}

impl ArrivingObject<'_> {
    fn start_over(&mut self) -> Result<()> {
        self.offset = 0;
        self.hasher = self.expected.map(|expected| Hasher::new(expected.algorithm));
        Ok(self.partial.truncate()?)
    }

    /// Requests the missing bytes. Requests all bytes if the server does not support ranges, or if
    /// there is no version to pin.
    fn open(&mut self, attempt: &mut TransferAttempt<'_, '_>) -> Result<Body> {
        // Pins the version of the first response, so that another version is an error.
        let version = Some(self.stat.version.clone()).filter(|version| version.strength() > Strength::None);
        let is_begun = self.offset > 0 && self.stat.size().is_some_and(|size| self.offset < size);
        if is_begun && self.has_ranges && version.is_some() {
            let range = Some(ByteRange::new(self.offset, u64::MAX));
            let get = Get { range, version: version.clone(), ..attempt.get() };
            match attempt.open(&self.job.source, &get) {
                Err(Error::Store(StoreError::RangeIgnored { .. })) => self.has_ranges = false,
                other => return other,
            }
        }
        self.start_over()?;
        let get = Get { checksum: true, version, length: self.length, ..attempt.get() };
        let body = attempt.open(&self.job.source, &get)?;
        *self.stat = Stat { checksum: self.stat.checksum.clone(), ..body.stat().clone() };
        Ok(body)
    }

    /// Receives all bytes. Returns their number, and their checksum if one is expected.
    fn receive(
        &mut self,
        requester: &mut Requester<'_>,
        path: &Path,
        opened: Option<OpenedBody>,
    ) -> Result<(u64, Option<Checksum>)> {
        let (mut body, cancel): (Option<Body>, Option<Cancel>) = opened.unzip();
        let wait = body.as_ref().map_or(Wait::Head, |body| Wait::body(body.range().len()));
        self.start_over()?;
        requester.request(wait, cancel, |attempt, buffer| {
            let mut body = body.take().map_or_else(|| self.open(attempt), Ok)?;
            let (sink, hasher) = (self.partial.sink(), self.hasher.as_mut());
            attempt
                .copy_body(&mut body, sink, &mut self.offset, u64::MAX, buffer, hasher)
                .map_err(|error| error.at_file(path, &self.job.source))?;
            let missing = self.stat.size().and_then(|size| size.checked_sub(self.offset));
            if let Some(missing) = missing.filter(|missing| *missing > 0) {
                return Err(StoreError::Truncated {
                    location: self.job.source.to_string(),
                    missing,
                    trace: None,
                }
                .into());
            }
            Ok((self.offset, self.hasher.take().map(Hasher::finish)))
        })
    }
}
