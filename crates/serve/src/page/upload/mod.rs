//! Uploads from the page: one file in parts of a fixed length, each checked against the sender's
//! CRC32C.
//!
//! `object::uploads` stores the parts. An upload's id follows from the file's name, size and time,
//! and the directory. So if the user picks the same file again after a reload or a restart, the
//! parts that have arrived are found. A part is not sent again only if its CRC32C is the sender's:
//! another file may have the same name, size and time. Everything here is plain blocking code;
//! [`super::protocol`] does the HTTP.

mod destination;
mod error;

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use firstbyte_location::{Algorithm, to_usize};
use rustix::fs::AtFlags;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::config::Buckets;
use crate::object::checksum::Values;
use crate::object::metadata::ObjectMetadata;
use crate::object::root::Root;
use crate::object::staging;
use crate::object::uploads::{Claim, Claimed, Description, Origin, Part, Resending, Upload, Uploads, Whole};
use crate::path::EntryPath;

pub(crate) use crate::object::uploads::Source;
pub(crate) use destination::Existing;
pub(crate) use error::{Error, Result};

/// Smallest part. Large enough that a request per part costs nothing, small enough that a cut costs
/// little.
const SMALLEST_PART: u64 = 8 << 20;
/// Most parts of one upload; beyond `SMALLEST_PART * MOST_PARTS` (78 GiB) parts grow instead. Keeps
/// the state of an upload, as sent to the page, under 100 KB.
const MOST_PARTS: u64 = 10_000;

/// The directory a request is about, and what is needed to work on its uploads.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    pub(crate) root: Root,
    pub(crate) uploads: Arc<Uploads>,
    pub(crate) buckets: Buckets,
    pub(crate) path: EntryPath,
}

/// The state of an upload, as sent to the page.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    /// Names it in later requests.
    pub(crate) id: String,
    /// What is being uploaded.
    #[serde(flatten)]
    pub(crate) source: Source,
    /// Bytes in every part but the last.
    pub(crate) part_size: u64,
    /// Numbers of the parts held, from 0.
    pub(crate) held: Vec<usize>,
    /// The CRC32C of each, as eight hex digits.
    pub(crate) crc32c: Vec<String>,
    /// Seconds since 1970 when a part last arrived.
    pub(crate) touched: u64,
    /// The file that already has that name, if there is one.
    pub(crate) existing: Option<Occupant>,
}

/// The file that stands where an upload is to go.
#[derive(Debug, Serialize)]
pub(crate) struct Occupant {
    /// Its length in bytes.
    pub(crate) size: u64,
    /// Its modification time, milliseconds since 1970.
    pub(crate) mtime: i64,
}

/// Bytes in every part but the last.
fn part_size(source: &Source) -> u64 {
    source.size.div_ceil(MOST_PARTS).next_multiple_of(1 << 20).max(SMALLEST_PART)
}

/// Number of parts; an empty file has none.
fn part_count(source: &Source) -> usize {
    to_usize(source.size.div_ceil(part_size(source)))
}

/// Bytes in part `number`, from 0.
fn part_length(source: &Source, number: usize) -> u64 {
    let offset = (number as u64).saturating_mul(part_size(source));
    part_size(source).min(source.size.saturating_sub(offset))
}

/// The metadata to keep with the file, in the form that S3 clients and plain answers use.
fn metadata(source: &Source) -> ObjectMetadata {
    let content_type = Some(source.content_type.clone()).filter(|text| !text.is_empty());
    let mtime = u64::try_from(source.mtime).ok();
    let mtime = mtime.map(|ms| ("mtime".to_owned(), format!("{}.{:03}", ms / 1000, ms % 1000)));
    ObjectMetadata { content_type, user: mtime.into_iter().collect(), ..ObjectMetadata::default() }
}

/// The number the engine counts part `number` by, from 1.
fn counted(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX).saturating_add(1)
}

impl Directory {
    /// Begins the upload of `source`, or finds the parts that have arrived. The directory is made
    /// when the upload is complete, except for its first level, which holds unfinished uploads.
    pub(crate) fn begin(&self, source: Source) -> Result<Status> {
        destination::check_name(&source.name)?;
        self.check_reachable().map_err(|e| Error::io(self.path.to_string(), e))?;
        let bucket = self.bucket();
        let begin = || {
            let id = self.id(&source);
            let upload = match self.uploads.find(&bucket, &id) {
                Err(crate::object::uploads::Error::NoUpload(_)) => {
                    self.check_space(&bucket, source.size)?;
                    let (object, slots) = (metadata(&source), Some(part_size(&source)));
                    let origin = Origin::Page { directory: self.encoded(), source: source.clone() };
                    self.uploads.create(&bucket, &id, &Description { origin, object, slots })?
                }
                found => found?,
            };
            self.status(&upload)
        };
        match begin() {
            // One that has ended is still there, as a kill leaves it.
            Err(Error::NoUpload(id)) => {
                self.uploads.sweep(&bucket, Duration::MAX).map_err(|e| Error::io(id, e))?;
                begin()
            }
            done => done,
        }
    }

    /// The upload `id` of this directory.
    pub(crate) fn find(&self, id: &str) -> Result<Arc<Upload>> {
        let upload = self.uploads.find(&self.bucket(), id)?;
        match &upload.description.origin {
            Origin::Page { directory, .. } if *directory == self.encoded() => Ok(upload),
            _ => Err(Error::NoUpload(id.into())),
        }
    }

    /// Everything unfinished in this directory.
    pub(crate) fn list(&self) -> Result<Vec<Status>> {
        let listed = self.uploads.list(&self.bucket()).map_err(|e| Error::io(self.path.to_string(), e))?;
        // One that another process holds, or that ended meanwhile, is not offered.
        let found = listed.iter().filter_map(|listed| self.find(&listed.id).ok());
        Ok(found.filter_map(|upload| self.status(&upload).ok()).collect())
    }

    /// Ends upload `id` and removes what is there of it.
    pub(crate) fn discard(&self, id: &str) -> Result<()> {
        Ok(self.uploads.remove(&*self.find(id)?)?)
    }

    /// Checks that every part has arrived, makes the file durable and puts it in place; gives the
    /// name it got. Parts whose CRC32C is not the one in `expected`, where it is given, count as
    /// missing.
    pub(crate) fn complete(
        &self,
        id: &str,
        existing: Existing,
        expected: Option<&[String]>,
    ) -> Result<String> {
        let upload = self.find(id)?;
        let source = source(&upload)?;
        let choose = |held: &std::collections::BTreeMap<u32, Part>| -> Result<Whole> {
            let is_sent = |number: usize| {
                let expected = expected.map(|sums| sums.get(number).map_or("", String::as_str));
                held.get(&counted(number)).is_some_and(|part| expected.is_none_or(|sum| sum == crc32c(part)))
            };
            let missing: Vec<usize> = (0..part_count(source)).filter(|number| !is_sent(*number)).collect();
            if !missing.is_empty() {
                return Err(Error::Incomplete(missing));
            }
            let parts = held.iter().map(|(number, part)| (*number, part.clone())).collect();
            Ok(Whole { parts, object: upload.description.object.clone() })
        };
        let put = |finished: crate::object::publish::Finished<'_>| {
            // People who upload expect the file to be there after a power cut; it costs them one
            // flush a file.
            finished.file.sync_data()?;
            destination::put_in_place(&self.root, finished, &self.path, &source.name, existing)
        };
        self.uploads.complete(&upload, choose, put).map_err(|error| match error {
            Error::Exists(_) => Error::Exists(source.name.clone()),
            error => error,
        })
    }

    fn status(&self, upload: &Upload) -> Result<Status> {
        let source = source(upload)?;
        let held = upload.parts()?;
        let touched = upload.touched()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        Ok(Status {
            id: upload.id.clone(),
            source: source.clone(),
            part_size: part_size(source),
            held: held.keys().map(|number| *number as usize - 1).collect(),
            crc32c: held.values().map(crc32c).collect(),
            touched,
            existing: self.occupant(&source.name)?,
        })
    }

    /// Refuses a path that leads out or through a file, and makes its first level.
    fn check_reachable(&self) -> io::Result<()> {
        let mut path = self.path.clone();
        while let Err(error) = self.root.open_directory(&path) {
            if error.kind() != io::ErrorKind::NotFound || path.is_root() {
                return Err(error);
            }
            path = path.parent();
        }
        if self.buckets == Buckets::FirstLevel {
            self.root.make_directory(&self.path.first())?;
        }
        Ok(())
    }

    /// Refuses at once what cannot fit, rather than after an hour.
    fn check_space(&self, bucket: &EntryPath, size: u64) -> Result<()> {
        let open = self.root.open_directory(bucket).map_err(|e| Error::io(bucket.to_string(), e))?;
        let free = rustix::fs::fstatvfs(&open).map(|s| s.f_bavail.saturating_mul(s.f_frsize));
        match free {
            Ok(free) if size > free => Err(Error::Space { size, free }),
            _ => Ok(()),
        }
    }

    /// The file called `name`, if there is one. A link is not followed.
    fn occupant(&self, name: &str) -> Result<Option<Occupant>> {
        let open = match self.root.open_directory(&self.path) {
            // Not made yet, or removed by a DELETE that emptied it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            done => done.map_err(|e| Error::io(self.path.to_string(), e))?,
        };
        match rustix::fs::statat(&open, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Occupant {
                size: u64::try_from(stat.st_size).unwrap_or(0),
                mtime: stat
                    .st_mtime
                    .saturating_mul(1000)
                    .saturating_add(i64::try_from(stat.st_mtime_nsec / 1_000_000).unwrap_or(0)),
            })),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(e) => Err(Error::io(name, e)),
        }
    }

    fn bucket(&self) -> EntryPath {
        staging::bucket_of(&self.root, &self.buckets, &self.path)
    }

    fn encoded(&self) -> String {
        percent_encoding::percent_encode(self.path.as_bytes(), percent_encoding::NON_ALPHANUMERIC).to_string()
    }

    /// Names the upload of `source`: the same file, picked again, finds it without an index.
    fn id(&self, source: &Source) -> String {
        let Source { size, mtime, name, .. } = source;
        let digest = Sha256::digest(format!("{}\0{size}\0{mtime}\0{name}", self.encoded()));
        hex::encode(&digest[..16])
    }
}

/// Asks to write part `number`, from 0, of `length` bytes with this CRC32C; none where the very
/// same is held already. A part with another sum is replaced.
pub(crate) fn claim(
    upload: &Arc<Upload>,
    number: usize,
    length: u64,
    sum: u32,
) -> Result<Option<Arc<Claim>>> {
    let source = source(upload)?;
    if number >= part_count(source) {
        return Err(Error::NoPart { number, parts: part_count(source) });
    }
    let expected = part_length(source, number);
    if length != expected {
        return Err(Error::Length { number, expected, got: length });
    }
    let claimed = match upload.claim(counted(number), length, Resending::Refused)? {
        Claimed::Held(part) if crc32c(&part) == hex(sum) => return Ok(None),
        Claimed::Held(_) => upload.claim(counted(number), length, Resending::Replaces)?,
        claimed => claimed,
    };
    match claimed {
        Claimed::Write(claim) => Ok(Some(claim)),
        Claimed::Held(_) => Err(crate::object::uploads::Error::InUse(counted(number)).into()),
    }
}

/// Checks the `length` bytes written of a part against the sender's CRC32C and records them.
pub(crate) fn record(claim: &Claim, number: usize, length: u64, checksums: Values, sum: u32) -> Result<()> {
    if length < claim.length() {
        return Err(Error::Short { number, missing: claim.length() - length });
    }
    if in_hex(&checksums) != hex(sum) {
        return Err(Error::Checksum(number));
    }
    claim.record(length, checksums)?;
    Ok(())
}

/// The CRC32C of a part as eight hex digits.
fn crc32c(part: &Part) -> String {
    in_hex(&part.checksums)
}

fn in_hex(checksums: &Values) -> String {
    let sum = checksums.get(&Algorithm::Crc32c);
    let sum = sum.and_then(|text| firstbyte_location::Checksum::from_base64(Algorithm::Crc32c, text));
    sum.map_or_else(String::new, |sum| sum.to_hex())
}

fn hex(sum: u32) -> String {
    format!("{sum:08x}")
}

fn source(upload: &Upload) -> Result<&Source> {
    match &upload.description.origin {
        Origin::Page { source, .. } => Ok(source),
        Origin::S3 { .. } => Err(Error::NoUpload(upload.id.clone())),
    }
}

#[cfg(test)]
mod tests;
