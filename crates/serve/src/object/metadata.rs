//! Stores the S3 metadata of an object (content type, user metadata, checksums) in one extended
//! attribute of its file.
//!
//! The attribute contains the file's size and modification time. If these differ from the file's
//! own, another program has changed the file and the attribute is ignored. If only the change time
//! is later, checksums are ignored ([`change_time`]). So a checksum is never reported for other
//! bytes. A directory has the attribute if its key, which ends in `/`, was put ([`is_object`]); the
//! attribute stays valid when the directory's entries change. Metadata from a client is stored or
//! refused ([`MetadataRefusal`]), never dropped. The exception: if the file system has no extended
//! attributes, content types, checksums and part boundaries are not stored, and the log reports
//! this once.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::sync::Once;
use std::time::{Duration, SystemTime};

use firstbyte_location::{Algorithm, ByteRange};
use http::{HeaderMap, HeaderName, HeaderValue};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::http::etag::{self, EtagIdentity};
use crate::object::change_time;
use crate::object::checksum::{ChecksumValues, header};
use crate::object::part_checksums::{ChecksumKind, PartChecksums, shown};

const ATTRIBUTE: &str = "user.firstbyte.object";

/// The kernel's limit for an attribute, in bytes. ext4 allows about 4,000 bytes for all attributes
/// of one file.
const MAX_ATTRIBUTE_BYTES: usize = 64 << 10;

/// Size in bytes up to which every file system with attributes can store an attribute. If storing
/// one of this size fails, the disk is full.
const SMALL_ATTRIBUTE_BYTES: usize = 1024;

/// Name of the user metadata with which clients send a file's modification time.
const MTIME: &str = "mtime";

/// S3's limit in bytes, both for user metadata (names and values together) and for the other
/// headers kept with an object.
const MAX_METADATA_BYTES: usize = 2048;

/// S3's limit on the number of parts of an object.
const MAX_PARTS: usize = 10_000;

/// The metadata that S3 keeps with an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ObjectMetadata {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) content_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cache_control: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) content_disposition: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) content_encoding: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) content_language: Option<String>,
    /// An HTTP date, unparsed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) user: Vec<(String, String)>,
    /// Checksums of the full object.
    #[serde(default, skip_serializing_if = "ChecksumValues::is_empty")]
    pub(crate) checksums: ChecksumValues,
    /// The checksum of the parts' checksums, if the upload was begun with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) composite: Option<(Algorithm, String)>,
    /// The request that completed the object's upload. A repetition of the request gets the same
    /// answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) completed: Option<CompletionId>,
    /// The boundaries of the parts of a multipart upload; empty for an object that was sent whole.
    #[serde(default, skip_serializing_if = "PartLengths::is_empty")]
    pub(crate) parts: PartLengths,
    /// The checksum of each part, if the upload was begun with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) part_checksums: Option<PartChecksums>,
}

/// Identifies the request that completed an upload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CompletionId {
    /// Id of the upload.
    pub(crate) upload: String,
    /// Digest of the parts that the request listed.
    pub(crate) parts: String,
}

/// The reason for which the metadata of an object is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MetadataRefusal {
    /// The metadata is larger than S3 allows, or than the file system can store.
    #[error(
        "the metadata is too large: 2,048 bytes of user metadata and 2,048 bytes of other headers at most, and \
         the file system may allow less"
    )]
    TooLarge,
    /// The file system has no extended attributes.
    #[error(
        "the file system of the served directory has no extended attributes, so user metadata, Cache-Control, \
         Content-Disposition, Content-Encoding, Content-Language and Expires cannot be kept"
    )]
    NoAttributes,
    /// A response could not contain the metadata.
    #[error(
        "a value of the metadata has a line break or another control character, or is not UTF-8, or a name has \
         characters that a header's name cannot have"
    )]
    NoHeader,
}

impl From<MetadataRefusal> for io::Error {
    fn from(reason: MetadataRefusal) -> Self {
        Self::other(reason)
    }
}

impl MetadataRefusal {
    /// Returns the [`MetadataRefusal`] in an error of [`ObjectMetadata::write`]. `None` for other
    /// errors.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

/// The content of the attribute: metadata, and the version of the file to which the metadata
/// belongs.
#[derive(Serialize, Deserialize)]
struct StoredAttribute {
    size: u64,
    modified: i128,
    /// Upper bound on the file's change time, in nanoseconds since 1970: a later change time means
    /// that another program changed the file ([`change_time`]). `None` for a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changed_by: Option<i128>,
    object: ObjectMetadata,
}

impl StoredAttribute {
    /// Reads the attribute of `file`. `None` if the file has no attribute.
    fn read(file: &File) -> Option<Self> {
        let mut value = vec![0; 4096];
        let mut read = rustix::fs::fgetxattr(file, ATTRIBUTE, &mut value[..]);
        if read == Err(Errno::RANGE) {
            value.resize(MAX_ATTRIBUTE_BYTES, 0);
            read = rustix::fs::fgetxattr(file, ATTRIBUTE, &mut value[..]);
        }
        serde_json::from_slice(&value[..read.ok()?]).ok()
    }
}

impl ObjectMetadata {
    /// Returns the metadata in the headers of a write.
    ///
    /// # Errors
    /// A value is not UTF-8, so it cannot be stored.
    pub(crate) fn of_headers(headers: &HeaderMap) -> Result<Self, MetadataRefusal> {
        let mut user: Vec<(String, String)> = Vec::new();
        for name in headers.keys() {
            let key = name.as_str().strip_prefix("x-amz-meta-").filter(|key| !key.is_empty());
            if let (Some(key), Some(value)) = (key, joined_header(headers, name.as_str())?) {
                user.push((key.to_owned(), value));
            }
        }
        Ok(Self {
            content_type: joined_header(headers, "content-type")?,
            cache_control: joined_header(headers, "cache-control")?,
            content_disposition: joined_header(headers, "content-disposition")?,
            content_encoding: joined_header(headers, "content-encoding")?,
            content_language: joined_header(headers, "content-language")?,
            expires: joined_header(headers, "expires")?,
            user,
            ..Self::default()
        })
    }

    /// Reads the metadata stored with `file`; empty if the file has changed since.
    pub(crate) fn read(file: &File) -> Self {
        // Most files have no attribute, and need no further system call.
        let Some(bound) = StoredAttribute::read(file) else { return Self::default() };
        let Ok(metadata) = file.metadata() else { return Self::default() };
        match bound {
            bound if (bound.size, bound.modified) == size_and_time(&metadata) => {
                let mut object = bound.object;
                let identity = EtagIdentity::from(&metadata);
                if bound.changed_by.is_some_and(|bound| !change_time::is_as_published(&identity, bound)) {
                    object.forget_checksums();
                }
                if !object.parts.are_of(bound.size) {
                    object.parts = PartLengths::default();
                }
                object
            }
            _ => Self::default(),
        }
    }

    /// Removes the checksums. Keeps the id of the request that completed the upload, so that a
    /// repetition of the request is answered even if a restart has made the checksums doubtful.
    fn forget_checksums(&mut self) {
        self.checksums = ChecksumValues::default();
        (self.composite, self.part_checksums) = (None, None);
    }

    /// Formats the metadata as S3's headers, except the content type. The checksums are of the full
    /// object, even in a response with only a part of the object.
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut set = |name: &str, value: &str| {
            // A value that is not valid in a header is omitted.
            if let (Ok(name), Ok(value)) =
                (HeaderName::try_from(name), HeaderValue::from_bytes(value.as_bytes()))
            {
                headers.insert(name, value);
            }
        };
        let standard = [
            ("cache-control", &self.cache_control),
            ("content-disposition", &self.content_disposition),
            ("content-encoding", &self.content_encoding),
            ("content-language", &self.content_language),
            ("expires", &self.expires),
        ];
        for (name, value) in standard {
            value.iter().for_each(|value| set(name, value));
        }
        for (name, value) in &self.user {
            set(&format!("x-amz-meta-{name}"), value);
        }
        for (algorithm, value) in &self.checksums {
            set(header(*algorithm), value);
            set("x-amz-checksum-type", "FULL_OBJECT");
        }
        headers
    }

    /// Returns the headers that a cache takes from a response without content (RFC 9110, 15.4.5):
    /// `Cache-Control` and `Expires`.
    pub(crate) fn cache_headers(&self) -> HeaderMap {
        let Self { cache_control, expires, .. } = self.clone();
        Self { cache_control, expires, ..Self::default() }.headers()
    }

    /// Returns the checksums that S3 reports, and their kind.
    pub(crate) fn shown_checksums(&self) -> (ChecksumValues, ChecksumKind) {
        shown(&self.checksums, self.composite.as_ref())
    }

    /// Returns the checksums of the part with this number, from 1; empty if the upload stored no
    /// checksums of parts.
    pub(crate) fn checksums_of_part(&self, number: i32) -> ChecksumValues {
        let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        index.zip(self.part_checksums.as_ref()).and_then(|(index, sums)| sums.get(index)).unwrap_or_default()
    }

    /// Refuses metadata above S3's limits, and values that are not valid in a header.
    pub(crate) fn check(&self) -> Result<(), MetadataRefusal> {
        self.check_values()?;
        let headers = self.headers_beside_user_metadata();
        let others =
            self.content_type.iter().chain(headers.into_iter().flatten()).map(String::len).sum::<usize>();
        let user = self.user.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        if user <= MAX_METADATA_BYTES && others <= MAX_METADATA_BYTES {
            Ok(())
        } else {
            Err(MetadataRefusal::TooLarge)
        }
    }

    /// Refuses values that are not valid in a header. Every response would omit such values.
    fn check_values(&self) -> Result<(), MetadataRefusal> {
        let is_value = |text: &String| HeaderValue::from_bytes(text.as_bytes()).is_ok();
        let headers = self.headers_beside_user_metadata();
        let fits = self.content_type.iter().chain(headers.into_iter().flatten()).all(is_value)
            && self.user.iter().all(|(name, value)| {
                is_value(value) && HeaderName::try_from(format!("x-amz-meta-{name}")).is_ok()
            });
        if fits { Ok(()) } else { Err(MetadataRefusal::NoHeader) }
    }

    fn headers_beside_user_metadata(&self) -> [&Option<String>; 5] {
        let Self { cache_control, content_disposition, content_encoding, content_language, expires, .. } =
            self;
        [cache_control, content_disposition, content_encoding, content_language, expires]
    }

    /// True if there is metadata that the client explicitly asked to store. A modification time
    /// does not count, because the file itself has it.
    fn is_essential(&self) -> bool {
        self.user.iter().any(|(name, _)| name != MTIME)
            || self.headers_beside_user_metadata().into_iter().any(Option::is_some)
    }

    /// Stores the metadata with `file`, whose bytes are complete. Sets the modification time that
    /// the client sent.
    ///
    /// # Errors
    /// A system call fails, or the file system cannot store all of it ([`MetadataRefusal`]).
    pub(crate) fn write(&self, file: &File) -> io::Result<()> {
        self.check_values()?;
        match self.sent_modification_time() {
            Some(modified) => firstbyte_store::set_modified(file, modified)?,
            None => etag::stamp(file)?,
        }
        self.store_attribute(file)
    }

    /// Replaces the metadata of `directory`, which becomes an object: see [`is_object`]. Keeps the
    /// directory's modification time, at which its entries last changed.
    ///
    /// # Errors
    /// The same as for [`Self::write`].
    pub(crate) fn write_directory(&self, directory: &File) -> io::Result<()> {
        self.check_values()?;
        match self.store_attribute(directory) {
            // The file system has no attributes, so the user metadata was not stored. Without an
            // attribute a directory also loses a sent modification time, because it keeps its own.
            Ok(()) if !self.user.is_empty() && Self::read(directory) == Self::default() => {
                Err(MetadataRefusal::NoAttributes.into())
            }
            // The directory belongs to another user, so it cannot be marked as an object. Nothing
            // is lost, because the request has no metadata.
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied && are_both_empty(self, directory) =>
            {
                Ok(())
            }
            done => done,
        }
    }

    /// Stores the metadata with `file`, whose times are already set.
    fn store_attribute(&self, file: &File) -> io::Result<()> {
        // If the attribute is too large, it is stored without the checksums of parts. If it is
        // still too large, it is stored without the boundaries of parts too. All other metadata is
        // required.
        let without = Self { part_checksums: None, ..self.clone() };
        let bare = Self { parts: PartLengths::default(), ..without.clone() };
        let mut done = self.set_attribute(file);
        for less in [without, bare].iter().filter(|less| *less != self) {
            if done.as_ref().is_err_and(|error| MetadataRefusal::of(error) == Some(MetadataRefusal::TooLarge))
            {
                done = less.set_attribute(file);
            }
        }
        done
    }

    fn set_attribute(&self, file: &File) -> io::Result<()> {
        let metadata = file.metadata()?;
        let (size, modified) = size_and_time(&metadata);
        let changed_by = metadata.is_file().then(|| change_time::bound(&EtagIdentity::from(&metadata)));
        let bound = StoredAttribute { size, modified, changed_by, object: self.clone() };
        let value = serde_json::to_vec(&bound).map_err(io::Error::from)?;
        let set = rustix::fs::fsetxattr(file, ATTRIBUTE, &value, XattrFlags::empty());
        set.or_else(|error| self.without_attribute(error, value.len()))
    }

    /// Decides whether a write succeeds although its attribute of `length` bytes was refused with
    /// `error`.
    fn without_attribute(&self, error: Errno, length: usize) -> io::Result<()> {
        match error {
            Errno::NOTSUP | Errno::NOSYS if self.is_essential() => Err(MetadataRefusal::NoAttributes.into()),
            Errno::NOTSUP | Errno::NOSYS => {
                static LOGGED: Once = Once::new();
                LOGGED.call_once(|| {
                    tracing::warn!(%error, "the file system has no extended attributes: content types and \
                        checksums of objects are not kept");
                });
                Ok(())
            }
            Errno::TOOBIG | Errno::RANGE => Err(MetadataRefusal::TooLarge.into()),
            Errno::NOSPC | Errno::DQUOT if length > SMALL_ATTRIBUTE_BYTES => {
                Err(MetadataRefusal::TooLarge.into())
            }
            error => Err(error.into()),
        }
    }

    /// Returns the modification time that rclone and others send as `x-amz-meta-mtime`: seconds
    /// since 1970, with a fraction.
    fn sent_modification_time(&self) -> Option<SystemTime> {
        let (_, text) = self.user.iter().find(|(name, _)| name == MTIME)?;
        let (is_before, text) = text.strip_prefix('-').map_or((false, text.as_str()), |text| (true, text));
        let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits: String = fraction.chars().chain(std::iter::repeat('0')).take(9).collect();
        let distance = Duration::new(seconds.parse().ok()?, digits.parse().ok()?);
        let epoch = SystemTime::UNIX_EPOCH;
        if is_before { epoch.checked_sub(distance) } else { epoch.checked_add(distance) }
    }
}

/// Returns the value of a header. Several values are joined to one list, as in S3.
fn joined_header(headers: &HeaderMap, name: &str) -> Result<Option<String>, MetadataRefusal> {
    let line = |value: &HeaderValue| std::str::from_utf8(value.as_bytes()).map(str::to_owned);
    let lines: Result<Vec<String>, _> = headers.get_all(name).iter().map(line).collect();
    let lines = lines.map_err(|_| MetadataRefusal::NoHeader)?;
    Ok((!lines.is_empty()).then(|| lines.join(",")))
}

/// Returns the size and modification time that an attribute is bound to. For a directory, both are
/// 0, because its size and time change with its entries.
fn size_and_time(metadata: &Metadata) -> (u64, i128) {
    if metadata.is_dir() {
        return (0, 0);
    }
    let identity = EtagIdentity::from(metadata);
    (identity.size, identity.modified)
}

/// Records that `file`, in the version `identity`, has its final name.
pub(crate) fn record_published(file: &File, identity: &EtagIdentity) {
    if let Some(StoredAttribute { changed_by: Some(bound), .. }) = StoredAttribute::read(file) {
        change_time::record_published(identity, bound);
    }
}

/// True if `written` and the stored metadata of `directory` are both empty.
fn are_both_empty(written: &ObjectMetadata, directory: &File) -> bool {
    *written == ObjectMetadata::default() && ObjectMetadata::read(directory) == *written
}

/// True if `directory` is an object of its own, because its key was put. Such a key is listed
/// whatever entries the directory has, and stays when the last of them is deleted. Other
/// directories only lead to keys. On a file system without extended attributes, none is an object.
pub(crate) fn is_object(directory: impl AsFd) -> bool {
    let mut none: [u8; 0] = [];
    rustix::fs::fgetxattr(directory, ATTRIBUTE, &mut none[..]).is_ok()
}

/// Removes the object that `directory` is, with its metadata. Keeps the directory.
///
/// # Errors
/// A system call fails.
pub(crate) fn remove_object(directory: impl AsFd) -> io::Result<()> {
    if is_object(&directory) { Ok(rustix::fs::fremovexattr(directory, ATTRIBUTE)?) } else { Ok(()) }
}

/// Copies the modification time and the metadata of `from` to its copy `to`.
///
/// # Errors
/// A system call fails, or the file system of `to` cannot store all of it ([`MetadataRefusal`]).
pub(crate) fn carry_over(from: &File, to: &File) -> io::Result<()> {
    firstbyte_store::set_modified(to, from.metadata()?.modified()?)?;
    let kept = ObjectMetadata::read(from);
    if kept == ObjectMetadata::default() { Ok(()) } else { kept.store_attribute(to) }
}

/// Lengths of an object's parts, in order, as runs of equal lengths, so that 10,000 equal parts
/// take a few bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartLengths(Vec<(u32, u64)>);

impl PartLengths {
    /// Stores these lengths.
    pub(crate) fn new(lengths: impl IntoIterator<Item = u64>) -> Self {
        let mut runs: Vec<(u32, u64)> = Vec::new();
        for length in lengths {
            match runs.last_mut() {
                Some((count, same)) if *same == length => *count += 1,
                _ => runs.push((1, length)),
            }
        }
        Self(runs)
    }

    /// True if the lengths add up to `size` bytes. They may not, because other programs can write
    /// the attribute.
    fn are_of(&self, size: u64) -> bool {
        let add = |(parts, bytes): (u64, u64), (count, length): &(u32, u64)| {
            Some((parts + u64::from(*count), bytes.checked_add(u64::from(*count).checked_mul(*length)?)?))
        };
        let total = self.0.iter().take(MAX_PARTS + 1).try_fold((0, 0), add);
        self.0.is_empty() || total.is_some_and(|(parts, bytes)| parts <= MAX_PARTS as u64 && bytes == size)
    }

    /// True if there are no part boundaries, or if they are unknown.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of parts.
    pub(crate) fn count(&self) -> u32 {
        self.0.iter().map(|(count, _)| count).sum()
    }

    /// Returns the bytes of each part, in order.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = ByteRange> {
        let lengths = self.0.iter().flat_map(|(count, length)| std::iter::repeat_n(*length, *count as usize));
        lengths.scan(0, |start: &mut u64, length| {
            let range = ByteRange::new(*start, start.saturating_add(length));
            *start = range.end;
            Some(range)
        })
    }
}

#[cfg(test)]
mod tests;
