//! Downloads an object with one request: a small one, or one whose source has no version to pin.

use std::path::Path;

use firstbyte_location::{Location, Strength};
use firstbyte_pacing::Wait;
use firstbyte_store::{
    Body, Cancel, Checksum, Error as StoreError, Get, Hasher, LocalFile, Privacy, Stat, StatedLength,
};

use crate::pieces::Started;
use crate::report::{Done, Verified};
use crate::request::{Opened, Requester};
use crate::verify::FETCHES;
use crate::{Job, Result};

/// Completes an object whose opening answer carries all of it.
pub(super) fn whole(
    requester: &mut Requester<'_>,
    job: &Job,
    path: &Path,
    opened: Opened,
) -> Result<Started> {
    let mut stat = opened.0.stat().clone();
    let asked_by_range = job.listed_size().is_none();
    if stat.checksum.is_none() && asked_by_range && matches!(job.source, Location::Object(_)) {
        // Stores send a checksum with whole objects only, and this was asked for as a range.
        let described = requester.stat(&job.source, stat.version.version_id.as_deref())?;
        if described.version.agrees_with(&stat.version) {
            stat.checksum = described.checksum;
        }
    }
    fetch(requester, job, path, Some(opened), stat, StatedLength::Checked)
}

/// Copies a source as one stream, started over after every failure.
pub(super) fn stream(
    requester: &mut Requester<'_>,
    job: &Job,
    path: &Path,
    length: StatedLength,
) -> Result<Started> {
    let wanted = Get { checksum: true, version: job.wanted_version(), length, ..Get::default() };
    let opened = requester.open(&job.source, &wanted)?;
    let stat = opened.0.stat().clone();
    job.check_version(&stat.version)?;
    fetch(requester, job, path, Some(opened), stat, length)
}

fn fetch(
    requester: &mut Requester<'_>,
    job: &Job,
    path: &Path,
    mut opened: Option<Opened>,
    mut stat: Stat,
    length: StatedLength,
) -> Result<Started> {
    let context = requester.context;
    let expected = context.settings.checksum.clone().or_else(|| stat.checksum.clone());
    let partial = context.open_partial(job, path, Privacy::of(&stat.metadata))?;
    for fetches in 1.. {
        let moved =
            move_all(requester, job, path, &partial, opened.take(), (&mut stat, length), expected.as_ref());
        let (bytes, found) = match moved {
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
            Some(Err(error)) if fetches >= FETCHES => {
                partial.discard()?;
                return Err(error.into());
            }
            Some(Err(error)) => {
                tracing::debug!(%error, "fetching it again");
                context.reread(bytes);
            }
            _ => {
                context.commit(partial, job.over, path, &stat, context.durability_of_small())?;
                let verified = if checked.is_some() { Verified::Full } else { Verified::Length };
                return Ok(Started::Done(Done {
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

/// Moves all bytes of an object into the partial file. Returns how many, and their checksum if one
/// is expected.
fn move_all(
    requester: &mut Requester<'_>,
    job: &Job,
    path: &Path,
    partial: &LocalFile,
    opened: Option<Opened>,
    (stat, length): (&mut Stat, StatedLength),
    expected: Option<&Checksum>,
) -> Result<(u64, Option<Checksum>)> {
    let (mut body, cancel): (Option<Body>, Option<Cancel>) = opened.unzip();
    let wait = body.as_ref().map_or(Wait::Head, |body| Wait::body(body.range().len()));
    requester.request(wait, cancel, |attempt, buffer| {
        attempt.starts_over();
        partial.empty()?;
        let mut body = match body.take() {
            Some(body) => body,
            None => {
                // A version other than the first answer's is an error.
                let version =
                    Some(stat.version.clone()).filter(|version| version.strength() > Strength::None);
                let get = Get { checksum: true, version, length, ..attempt.get() };
                let body = attempt.open(&job.source, &get)?;
                *stat = Stat { checksum: stat.checksum.clone(), ..body.stat().clone() };
                body
            }
        };
        let mut hasher = expected.map(|expected| Hasher::new(expected.algorithm));
        let mut at = 0;
        attempt
            .copy_body(&mut body, partial.sink(), &mut at, u64::MAX, buffer, hasher.as_mut())
            .map_err(|error| error.at_file(path, &job.source))?;
        if let Some(missing) =
            stat.size().and_then(|size| size.checked_sub(at)).filter(|missing| *missing > 0)
        {
            return Err(StoreError::Truncated { location: job.source.to_string(), missing }.into());
        }
        Ok((at, hasher.map(Hasher::finish)))
    })
}
