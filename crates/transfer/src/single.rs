//! A whole object in one answer: small ones, and those whose source gives no version to put pieces together by.

use std::path::Path;

use firstbyte_location::{Location, Strength};
use firstbyte_store::{Body, Cancel, Checksum, Error as StoreError, Get, Hasher, LocalFile, Metadata, Stat};

use crate::download::{self, Opened, at_file, copy_body};
use crate::patience::Wait;
use crate::pieces::{Begun, Done};
use crate::worker::Worker;
use crate::{Job, Result, Verified, resume};

/// Times an object is fetched until it has the checksum it should have.
const FETCHES: u32 = 4;

/// What travels with an object into a file.
pub(crate) fn metadata(stat: &Stat) -> Metadata {
    Metadata { modified: stat.modified, ..stat.metadata.clone() }
}

/// Completes an object whose opening answer carries all of it.
pub(crate) fn whole(worker: &mut Worker<'_>, job: &Job, path: &Path, opened: Opened) -> Result<Begun> {
    let mut stat = opened.0.stat().clone();
    let asked_by_range = job.entry.as_ref().is_none_or(|entry| entry.size.is_none());
    if stat.checksum.is_none() && asked_by_range && matches!(job.source, Location::S3(_)) {
        // Stores send the checksum of the whole with the whole only, and this was asked for as a range.
        let described = worker.request(Wait::Head, None, |attempt, _| {
            let stat = attempt.run.store.stat(&job.source)?;
            attempt.head_arrived(0);
            Ok(stat)
        })?;
        if described.version.agrees_with(&stat.version) {
            stat.checksum = described.checksum;
        }
    }
    fetch(worker, job, path, Some(opened), stat)
}

/// Copies a source as one stream, started over after every failure.
pub(crate) fn stream(worker: &mut Worker<'_>, job: &Job, path: &Path) -> Result<Begun> {
    let opened = download::open(worker, &job.source, &Get { checksum: true, ..Get::default() })?;
    let stat = opened.0.stat().clone();
    fetch(worker, job, path, Some(opened), stat)
}

fn fetch(
    worker: &mut Worker<'_>,
    job: &Job,
    path: &Path,
    mut opened: Option<Opened>,
    mut stat: Stat,
) -> Result<Begun> {
    let expected = worker.run.settings.checksum.clone().or_else(|| stat.checksum.clone());
    let partial = resume::open_partial(worker.run, job, path)?;
    for fetches in 1.. {
        let moved = move_all(worker, job, path, &partial, opened.take(), &mut stat, expected.as_ref());
        let (bytes, found) = match moved {
            Ok(moved) => moved,
            Err(error) => {
                let discarded = partial.discard();
                tracing::debug!(?discarded, "nothing of it can be resumed");
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
                worker.run.reread(bytes);
            }
            _ => {
                let durability = worker.run.durability_of_small();
                worker.run.commit(partial, job.over, path, &metadata(&stat), durability)?;
                let verified = if checked.is_some() { Verified::Full } else { Verified::Length };
                return Ok(Begun::Done(Done { bytes, verified, version: Some(stat.version) }));
            }
        }
    }
    unreachable!("the loop above ends by returning")
}

/// Moves all bytes of an object into the partial file; returns how many, and their checksum where one is expected.
fn move_all(
    worker: &mut Worker<'_>,
    job: &Job,
    path: &Path,
    partial: &LocalFile,
    opened: Option<Opened>,
    stat: &mut Stat,
    expected: Option<&Checksum>,
) -> Result<(u64, Option<Checksum>)> {
    let (mut body, cancel): (Option<Body>, Option<Cancel>) = opened.unzip();
    let wait = body.as_ref().map_or(Wait::Head, |body| Wait::body(body.range().len()));
    worker.request(wait, cancel, |attempt, scratch| {
        partial.empty()?;
        let mut body = match body.take() {
            Some(body) => body,
            None => {
                // One that changed in between is another object: its new version is an error, not a surprise.
                let version =
                    Some(stat.version.clone()).filter(|version| version.strength() > Strength::None);
                let get = Get { checksum: true, version, ..attempt.get() };
                let body = attempt.run.store.get(&job.source, &get)?;
                attempt.head_arrived(body.range().len());
                *stat = Stat { checksum: stat.checksum.clone(), ..body.stat().clone() };
                body
            }
        };
        let mut hasher = expected.map(|expected| Hasher::new(expected.algorithm));
        let mut at = 0;
        copy_body(attempt, &mut body, partial.sink(), &mut at, u64::MAX, scratch, hasher.as_mut())
            .map_err(|error| at_file(path, &job.source, error))?;
        if let Some(missing) =
            stat.size().and_then(|size| size.checked_sub(at)).filter(|missing| *missing > 0)
        {
            return Err(StoreError::Truncated { location: job.source.to_string(), missing }.into());
        }
        Ok((at, hasher.map(Hasher::finish)))
    })
}
