//! Implements uploads from the page: one file in parts of a fixed length, each checked against the
//! sender's CRC32C.
//!
//! `object::uploads` stores the parts. The id of an upload is derived from the directory and the
//! file's name, size and time. So if the user picks the same file again after a reload or a
//! restart, its complete parts are found. Because another file may have the same name, size and
//! time, a part is reused only if its CRC32C equals the sender's. The code is blocking;
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
use crate::object::checksum::ChecksumValues;
use crate::object::metadata::ObjectMetadata;
use crate::object::root::ServedRoot;
use crate::object::staging;
use crate::object::uploads::{
    ArrivedPart, Claim, ClaimResult, Description, ResendRule, ServedUpload, UploadOrigin, Uploads,
    WholeUpload,
};
use crate::path::EntryPath;

pub(crate) use crate::object::uploads::BrowserFile;
pub(crate) use destination::ExistingFilePolicy;
pub(crate) use error::{Error, Result};

/// Minimum part length in bytes: so large that the cost of one request per part is small, and so
/// small that a broken connection loses little.
const MIN_PART_BYTES: u64 = 8 << 20;
/// Maximum number of parts of one upload. Files above `MIN_PART_BYTES * MAX_PARTS` (78 GiB) get
/// larger parts. The maximum keeps the state of an upload, as sent to the page, under 200 KB.
const MAX_PARTS: u64 = 10_000;

/// The directory of a request, with the state to work on its uploads.
#[derive(Clone, Debug)]
pub(crate) struct UploadDirectory {
    pub(crate) root: ServedRoot,
    pub(crate) uploads: Arc<Uploads>,
    pub(crate) buckets: Buckets,
    pub(crate) path: EntryPath,
}

/// The state of an upload, as sent to the page.
#[derive(Debug, Serialize)]
pub(crate) struct UploadStatus {
    /// The id of the upload in later requests.
    pub(crate) id: String,
    /// The file in the browser.
    #[serde(flatten)]
    pub(crate) source: BrowserFile,
    /// Length in bytes of every part except the last.
    pub(crate) part_size: u64,
    /// The numbers of the complete parts, from 0.
    pub(crate) held: Vec<usize>,
    /// The CRC32C of each complete part, as eight hex digits.
    pub(crate) crc32c: Vec<String>,
    /// The time when a part last arrived, in seconds since 1970.
    pub(crate) touched: u64,
    /// The file that already has the name, if there is one.
    pub(crate) existing: Option<Occupant>,
}

/// The existing file at the destination of an upload.
#[derive(Debug, Serialize)]
pub(crate) struct Occupant {
    /// Length in bytes.
    pub(crate) size: u64,
    /// Modification time, milliseconds since 1970.
    pub(crate) mtime: i64,
}

/// Returns the length in bytes of every part except the last.
fn part_size(source: &BrowserFile) -> u64 {
    source.size.div_ceil(MAX_PARTS).next_multiple_of(1 << 20).max(MIN_PART_BYTES)
}

/// Returns the number of parts; 0 for an empty file.
fn part_count(source: &BrowserFile) -> usize {
    to_usize(source.size.div_ceil(part_size(source)))
}

/// Returns the length in bytes of part `number`, from 0.
fn part_length(source: &BrowserFile, number: usize) -> u64 {
    let offset = (number as u64).saturating_mul(part_size(source));
    part_size(source).min(source.size.saturating_sub(offset))
}

/// Returns the metadata to store with the file, as S3 clients and plain responses use it.
fn metadata(source: &BrowserFile) -> ObjectMetadata {
    let content_type = Some(source.content_type.clone()).filter(|text| !text.is_empty());
    let mtime = u64::try_from(source.mtime).ok();
    let mtime = mtime.map(|ms| ("mtime".to_owned(), format!("{}.{:03}", ms / 1000, ms % 1000)));
    ObjectMetadata { content_type, user: mtime.into_iter().collect(), ..ObjectMetadata::default() }
}

/// Converts part `number` to the number in `object::uploads`, which counts from 1.
fn number_from_one(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX).saturating_add(1)
}

impl UploadDirectory {
    /// Begins the upload of `source`, or finds its complete parts. The directory is made when the
    /// upload is complete, except for its first level: that is the bucket, which holds unfinished
    /// uploads.
    pub(crate) fn begin(&self, source: BrowserFile) -> Result<UploadStatus> {
        destination::check_name(&source.name)?;
        self.check_reachable().map_err(|e| Error::io(self.path.to_string(), e))?;
        let bucket = self.bucket();
        let begin = || {
            let id = self.id(&source);
            let upload = match self.uploads.find(&bucket, &id) {
                Err(crate::object::uploads::Error::NoUpload(_)) => {
                    self.check_space(&bucket, source.size)?;
                    let (object, slots) = (metadata(&source), Some(part_size(&source)));
                    let directory = self.encoded_directory();
                    let origin = UploadOrigin::Page { directory, source: source.clone() };
                    self.uploads.create(&bucket, &id, &Description { origin, object, slots })?
                }
                found => found?,
            };
            self.status(&upload)
        };
        match begin() {
            // After a kill, the directory of an ended upload may still exist. The sweep removes it.
            Err(Error::NoUpload(id)) => {
                self.uploads.sweep(&bucket, Duration::MAX).map_err(|e| Error::io(id, e))?;
                begin()
            }
            done => done,
        }
    }

    /// Finds the upload `id` of this directory.
    pub(crate) fn find(&self, id: &str) -> Result<Arc<ServedUpload>> {
        let upload = self.uploads.find(&self.bucket(), id)?;
        match &upload.description.origin {
            UploadOrigin::Page { directory, .. } if *directory == self.encoded_directory() => Ok(upload),
            _ => Err(Error::NoUpload(id.into())),
        }
    }

    /// Lists the unfinished uploads of this directory.
    pub(crate) fn list(&self) -> Result<Vec<UploadStatus>> {
        let listed = self.uploads.list(&self.bucket()).map_err(|e| Error::io(self.path.to_string(), e))?;
        // Uploads that another process holds, or that ended meanwhile, are skipped.
        let found = listed.iter().filter_map(|listed| self.find(&listed.id).ok());
        Ok(found.filter_map(|upload| self.status(&upload).ok()).collect())
    }

    /// Ends upload `id` and removes its files.
    pub(crate) fn discard(&self, id: &str) -> Result<()> {
        Ok(self.uploads.remove(&*self.find(id)?)?)
    }

    /// Checks that every part is complete, makes the file durable and publishes it. Returns the
    /// file's final name. If `expected` has CRC32C values, parts whose CRC32C differs count as
    /// missing.
    pub(crate) fn complete(
        &self,
        id: &str,
        existing: ExistingFilePolicy,
        expected: Option<&[String]>,
    ) -> Result<String> {
        let upload = self.find(id)?;
        let source = source(&upload)?;
        let choose = |held: &std::collections::BTreeMap<u32, ArrivedPart>| -> Result<WholeUpload> {
            let is_sent = |number: usize| {
                let expected = expected.map(|sums| sums.get(number).map_or("", String::as_str));
                held.get(&number_from_one(number))
                    .is_some_and(|part| expected.is_none_or(|sum| sum == crc32c(part)))
            };
            let missing: Vec<usize> = (0..part_count(source)).filter(|number| !is_sent(*number)).collect();
            if !missing.is_empty() {
                return Err(Error::Incomplete(missing));
            }
            let parts = held.iter().map(|(number, part)| (*number, part.clone())).collect();
            Ok(WholeUpload { parts, object: upload.description.object.clone() })
        };
        let put = |finished: crate::object::publish::FinishedFile<'_>| {
            // Users of the page expect the file to survive a power cut. This costs one flush per
            // file.
            finished.file.sync_data()?;
            destination::put_in_place(&self.root, finished, &self.path, &source.name, existing)
        };
        self.uploads.complete(&upload, choose, put).map_err(|error| match error {
            Error::Exists(_) => Error::Exists(source.name.clone()),
            error => error,
        })
    }

    fn status(&self, upload: &ServedUpload) -> Result<UploadStatus> {
        let source = source(upload)?;
        let held = upload.parts()?;
        let touched = upload.touched()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        Ok(UploadStatus {
            id: upload.id.clone(),
            source: source.clone(),
            part_size: part_size(source),
            held: held.keys().map(|number| *number as usize - 1).collect(),
            crc32c: held.values().map(crc32c).collect(),
            touched,
            existing: self.occupant(&source.name)?,
        })
    }

    /// Refuses a path that leads out of the served directory or through a file, and makes the
    /// path's first level.
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

    /// Refuses a file that does not fit on the disk, before any part is sent.
    fn check_space(&self, bucket: &EntryPath, size: u64) -> Result<()> {
        let open = self.root.open_directory(bucket).map_err(|e| Error::io(bucket.to_string(), e))?;
        let free = rustix::fs::fstatvfs(&open).map(|s| s.f_bavail.saturating_mul(s.f_frsize));
        match free {
            Ok(free) if size > free => Err(Error::Space { size, free }),
            _ => Ok(()),
        }
    }

    /// Returns the file `name` of the directory; `None` if it does not exist. Links are not
    /// followed.
    fn occupant(&self, name: &str) -> Result<Option<Occupant>> {
        let open = match self.root.open_directory(&self.path) {
            // The directory does not exist yet, or a DELETE that emptied it removed it too.
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

    fn encoded_directory(&self) -> String {
        percent_encoding::percent_encode(self.path.as_bytes(), percent_encoding::NON_ALPHANUMERIC).to_string()
    }

    /// Returns the id for the upload of `source`. The same file, picked again, has the same id.
    fn id(&self, source: &BrowserFile) -> String {
        let BrowserFile { size, mtime, name, .. } = source;
        let digest = Sha256::digest(format!("{}\0{size}\0{mtime}\0{name}", self.encoded_directory()));
        hex::encode(&digest[..16])
    }
}

/// Claims part `number`, from 0, of `length` bytes with this CRC32C. `None` if the same part is
/// already complete. A part with another CRC32C is replaced.
pub(crate) fn claim(
    upload: &Arc<ServedUpload>,
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
    let claimed = match upload.claim(number_from_one(number), length, ResendRule::Refused)? {
        ClaimResult::Held(part) if crc32c(&part) == hex(sum) => return Ok(None),
        ClaimResult::Held(_) => upload.claim(number_from_one(number), length, ResendRule::Replaces)?,
        claimed => claimed,
    };
    match claimed {
        ClaimResult::Write(claim) => Ok(Some(claim)),
        ClaimResult::Held(_) => Err(crate::object::uploads::Error::InUse(number_from_one(number)).into()),
    }
}

/// Checks the written bytes of a part against the sender's CRC32C, and records the part.
pub(crate) fn record(
    claim: &Claim,
    number: usize,
    length: u64,
    checksums: ChecksumValues,
    sum: u32,
) -> Result<()> {
    if length < claim.length() {
        return Err(Error::Short { number, missing: claim.length() - length });
    }
    if crc32c_hex(&checksums) != hex(sum) {
        return Err(Error::Checksum(number));
    }
    claim.record(length, checksums)?;
    Ok(())
}

/// Formats the CRC32C of a part as eight hex digits.
fn crc32c(part: &ArrivedPart) -> String {
    crc32c_hex(&part.checksums)
}

fn crc32c_hex(checksums: &ChecksumValues) -> String {
    let sum = checksums.get(&Algorithm::Crc32c);
    let sum = sum.and_then(|text| firstbyte_location::Checksum::from_base64(Algorithm::Crc32c, text));
    sum.map_or_else(String::new, |sum| sum.to_hex())
}

fn hex(sum: u32) -> String {
    format!("{sum:08x}")
}

fn source(upload: &ServedUpload) -> Result<&BrowserFile> {
    match &upload.description.origin {
        UploadOrigin::Page { source, .. } => Ok(source),
        UploadOrigin::S3 { .. } => Err(Error::NoUpload(upload.id.clone())),
    }
}

#[cfg(test)]
mod tests;
