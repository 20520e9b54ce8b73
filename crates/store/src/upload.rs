//! Defines the parameters and results of writes: payloads, preconditions, uploads and their parts.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use firstbyte_location::{Algorithm, ByteRange, Checksum, Hasher, Location, Version, to_usize};
use firstbyte_pacing::Throttle;
use rustix_futex_sync::Mutex;

use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::limits::BUFFER;
use crate::local::stat;
use crate::object::Metadata;

/// The bytes of a write.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Bytes in memory.
    Bytes(&'a [u8]),
    /// A range of a file. On TCP without TLS, it is sent by sendfile.
    File(&'a File, ByteRange),
    /// A range of a file that must not have changed when its last bytes are sent. If it has
    /// changed, the last bytes are not sent, so the request stays incomplete and replaces nothing.
    Source(&'a File, ByteRange, &'a PinnedFile<'a>),
}

/// The version of a file to send, and the checksum announced for the file.
#[derive(Debug)]
pub struct PinnedFile<'a> {
    version: Version,
    /// Counts bytes when they are sent. The rate of this counter determines how many requests run
    /// at the same time.
    sent: &'a AtomicU64,
    /// The range and the checksum in the head of a request. If the file grows during the request,
    /// the range is hashed again: if the checksum is the same, the announced bytes were sent.
    announced: Mutex<Option<(ByteRange, Checksum)>>,
}

impl<'a> PinnedFile<'a> {
    /// Returns a pin of this version. Bytes are added to `sent` while they are being sent. The
    /// bytes of a repeated request are added again. The last bytes of each request, up to 16 KiB,
    /// are not added.
    #[must_use]
    pub fn new(version: Version, sent: &'a AtomicU64) -> Self {
        Self { version, sent, announced: Mutex::default() }
    }
}

impl Payload<'_> {
    /// Returns the length in bytes.
    pub(crate) fn length(self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(_, range) | Self::Source(_, range, _) => range.len(),
        }
    }

    /// Counts bytes that have been sent.
    pub(crate) fn count_sent(self, bytes: u64) {
        if let Self::Source(_, _, pinned) = self {
            pinned.sent.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Checks that the file has not changed since its bytes were read, and that it ends at the
    /// length that the file system reports.
    pub(crate) fn check_unchanged(self) -> io::Result<()> {
        let Self::Source(file, range, pinned) = self else { return Ok(()) };
        let version = &pinned.version;
        let found = stat::version(&file.metadata()?);
        if !found.agrees_with(version) {
            let has_grown =
                found.size > version.size && range == ByteRange::new(0, version.size.unwrap_or(0));
            let announced = pinned.announced.lock().clone().filter(|(of, _)| has_grown && *of == range);
            return match announced {
                Some((_, sum)) if hash(file, range, sum.algorithm)? == sum => Ok(()),
                _ => Err(io::Error::other("the file changed while it was sent")),
            };
        }
        if version.size == Some(range.end) && stat::has_byte_at(file, range.end) {
            return Err(io::Error::other("the file is longer than it states"));
        }
        Ok(())
    }

    /// Appends the bytes to a buffer.
    pub(crate) fn append_to(self, buffer: &mut Vec<u8>, place: &str) -> Result<()> {
        match self {
            Self::Bytes(bytes) => buffer.extend_from_slice(bytes),
            Self::File(file, range) | Self::Source(file, range, _) => {
                let start = buffer.len();
                buffer.resize(start + to_usize(range.len()), 0);
                file.read_exact_at(&mut buffer[start..], range.start)
                    .and_then(|()| self.check_unchanged())
                    .map_err(|source| Error::Payload { location: place.to_owned(), source })?;
            }
        }
        Ok(())
    }

    /// Returns the checksum, for stores that expect it before the bytes. Hashing leaves the bytes
    /// of a file in the page cache, from which sendfile sends them. Hashing and then sending by
    /// sendfile takes less time than sending the bytes through this process.
    pub(crate) fn checksum(self, algorithm: Algorithm, place: &str) -> Result<Checksum> {
        let (file, range) = match self {
            Self::Bytes(bytes) => return Ok(Hasher::of(algorithm, bytes)),
            Self::File(file, range) | Self::Source(file, range, _) => (file, range),
        };
        let sum = hash(file, range, algorithm)
            .map_err(|source| Error::Payload { location: place.to_owned(), source })?;
        if let Self::Source(_, _, pinned) = self {
            *pinned.announced.lock() = Some((range, sum.clone()));
        }
        Ok(sum)
    }
}

fn hash(file: &File, range: ByteRange, algorithm: Algorithm) -> io::Result<Checksum> {
    let mut hasher = Hasher::new(algorithm);
    let mut step = vec![0; BUFFER.min(to_usize(range.len()))];
    let mut offset = range.start;
    while offset < range.end {
        let want = step.len().min(to_usize(range.end - offset));
        file.read_exact_at(&mut step[..want], offset)?;
        hasher.update(&step[..want]);
        offset += want as u64;
    }
    Ok(hasher.finish())
}

/// The precondition of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Precondition {
    /// None: the destination is replaced.
    #[default]
    None,
    /// The destination must not exist (`If-None-Match: *`).
    Absent,
    /// The destination must have this version (`If-Match`).
    Matches(Version),
}

impl Precondition {
    /// Returns the name and value of the header for the condition. `None` without a condition, or
    /// for a version that no header can state.
    pub(crate) fn header(&self) -> Option<(String, String)> {
        let (name, value) = match self {
            Self::None => return None,
            Self::Absent => ("if-none-match", "*"),
            Self::Matches(version) => ("if-match", version.if_match()?),
        };
        Some((name.to_owned(), value.to_owned()))
    }
}

/// Options of a write.
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// The metadata.
    pub metadata: Metadata,
    /// The storage class that the object gets if the options of the store name none.
    pub storage_class: Option<String>,
    /// The precondition.
    pub precondition: Precondition,
    /// The parameters for sending the bytes.
    pub sending: Sending,
}

/// Parameters for sending the bytes of a request.
#[derive(Clone, Debug, Default)]
pub struct Sending {
    /// Handle by which another thread can end the request.
    pub cancel: Cancel,
    /// The rate limit. Each piece is sent only after the limit has allowed it.
    pub throttle: Throttle,
}

impl From<Cancel> for Sending {
    fn from(cancel: Cancel) -> Self {
        Self { cancel, throttle: Throttle::default() }
    }
}

/// The result of a write.
#[derive(Clone, Debug)]
pub struct Written {
    /// The new version.
    pub version: Version,
    /// The checksum of the whole object that the store verified. `None` if the store verified only
    /// the length.
    pub verified: Option<Checksum>,
}

/// An unfinished multipart upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// The destination.
    pub location: Location,
    /// The store's upload id.
    pub id: String,
}

/// A finished part of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of the part, from 1 to 10,000.
    pub number: u32,
    /// Length in bytes.
    pub size: u64,
    /// The store's `ETag` of the part, with quotes.
    pub etag: String,
    /// CRC-64/NVME of the part, if it was sent and the store keeps it.
    pub checksum: Option<Checksum>,
}

/// An upload, as listed by the store, that was neither completed nor aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleUpload {
    /// The upload.
    pub upload: Upload,
    /// The time at which the upload began.
    pub initiated: Option<SystemTime>,
}
