//! What S3 keeps of an object beside its bytes: content type, user metadata, checksums, in one extended attribute.
//!
//! The attribute is bound to size and modification time: who edits the file by hand voids it, and nobody is told a checksum
//! of other bytes. Where the file system has no extended attributes objects are kept without; the log says so once.

use std::fs::File;
use std::io;
use std::sync::Once;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue};
use rustix::fs::XattrFlags;
use serde::{Deserialize, Serialize};

use crate::etag::{self, Identity};
use crate::s3::checksum::{Values, header};

const ATTRIBUTE: &str = "user.firstbyte.object";

/// The most an attribute may hold: ext4 with default settings takes 4 KiB, S3 allows 2 KiB of user metadata.
const LONGEST: usize = 64 << 10;

/// What S3 keeps of an object beside its bytes.
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) user: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Values::is_empty")]
    pub(crate) checksums: Values,
    /// The request that completed the upload it was made by, for when it is repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) completed: Option<Completed>,
}

/// Which request completed an upload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Completed {
    /// Id of the upload.
    pub(crate) upload: String,
    /// Digest of the parts it listed.
    pub(crate) parts: String,
}

#[derive(Serialize, Deserialize)]
struct Bound {
    size: u64,
    modified: i128,
    object: ObjectMetadata,
}

impl ObjectMetadata {
    /// What is kept with `file`; nothing when it was changed since.
    pub(crate) fn read(file: &File) -> Self {
        let mut value = vec![0; 4096];
        let mut read = rustix::fs::fgetxattr(file, ATTRIBUTE, &mut value[..]);
        if read == Err(rustix::io::Errno::RANGE) {
            value.resize(LONGEST, 0);
            read = rustix::fs::fgetxattr(file, ATTRIBUTE, &mut value[..]);
        }
        // Most files have none: nothing else is asked of them.
        let Ok(length) = read else { return Self::default() };
        let Ok(metadata) = file.metadata() else { return Self::default() };
        let identity = Identity::from(&metadata);
        match serde_json::from_slice::<Bound>(&value[..length]) {
            Ok(bound) if bound.size == identity.size && bound.modified == identity.modified => bound.object,
            _ => Self::default(),
        }
    }

    /// It as the headers S3 answers with, beside the content type. Checksums are of the whole object, whatever part of it
    /// the answer holds.
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut set = |name: &str, value: &str| {
            // What no header can carry came in by none.
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
                headers.insert(name, value);
            }
        };
        let standard = [
            ("cache-control", &self.cache_control),
            ("content-disposition", &self.content_disposition),
            ("content-encoding", &self.content_encoding),
            ("content-language", &self.content_language),
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

    /// Keeps it with `file`, whose bytes are complete; sets the modification time a client sent along.
    pub(crate) fn write(&self, file: &File) -> io::Result<()> {
        match self.sent_modification_time() {
            Some(modified) => file.set_modified(modified)?,
            None => etag::stamp(file)?,
        }
        let identity = Identity::from(&file.metadata()?);
        let bound = Bound { size: identity.size, modified: identity.modified, object: self.clone() };
        let value = serde_json::to_vec(&bound).map_err(io::Error::from)?;
        if let Err(error) = rustix::fs::fsetxattr(file, ATTRIBUTE, &value, XattrFlags::empty()) {
            static TOLD: Once = Once::new();
            TOLD.call_once(|| {
                tracing::warn!(%error, "extended attributes cannot be written: content types, user metadata and \
                    checksums of objects are not kept");
            });
        }
        Ok(())
    }

    /// The modification time rclone and others send as `x-amz-meta-mtime`: seconds since 1970, with a fraction.
    fn sent_modification_time(&self) -> Option<SystemTime> {
        let (_, text) = self.user.iter().find(|(name, _)| name == "mtime")?;
        let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits: String = fraction.chars().chain(std::iter::repeat('0')).take(9).collect();
        let since = Duration::new(seconds.parse().ok()?, digits.parse().ok()?);
        SystemTime::UNIX_EPOCH.checked_add(since)
    }
}

/// Gives the copy `to` of the file `from` its modification time and what is kept with it.
pub(crate) fn carry_over(from: &File, to: &File) -> io::Result<()> {
    to.set_modified(from.metadata()?.modified()?)?;
    let mut value = vec![0; LONGEST];
    if let Ok(length) = rustix::fs::fgetxattr(from, ATTRIBUTE, &mut value[..]) {
        // Where the file system has no extended attributes nothing is kept, as everywhere.
        let _ = rustix::fs::fsetxattr(to, ATTRIBUTE, &value[..length], XattrFlags::empty());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_by_hand_voids_what_was_kept() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = directory.path().join("object");
        std::fs::write(&path, "content").unwrap();
        let kept = ObjectMetadata {
            content_type: Some("text/x".into()),
            user: vec![("mtime".into(), "1700000000.25".into())],
            ..ObjectMetadata::default()
        };
        let file = File::options().read(true).write(true).open(&path).unwrap();
        kept.write(&file).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        assert_eq!(modified, SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 250_000_000));
        assert_eq!(ObjectMetadata::read(&file), kept);
        std::fs::write(&path, "CONTENT").unwrap();
        assert_eq!(ObjectMetadata::read(&file), ObjectMetadata::default());
    }
}
