//! Represents an object at the origin as clients see it: its version, its metadata, and the age of
//! the look-up.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use firstbyte_location::{Location, Strength};
use firstbyte_store::Stat;

use crate::object::checksum::ChecksumValues;
use crate::object::described::Described;
use crate::object::metadata::ObjectMetadata;

/// Key of a look-up: the object, and the version id if the request names one.
pub(super) type LookUpId = (Location, Option<String>);

#[derive(Clone, Debug)]
pub(crate) struct RemoteObject {
    /// The object, and the version id if the request names one.
    pub(super) id: LookUpId,
    pub(super) stat: Arc<Stat>,
    /// The age of the look-up if it is outdated and the origin could not be asked again.
    pub(crate) stale: Option<Duration>,
}

impl RemoteObject {
    /// Returns the location at the origin.
    pub(super) fn location(&self) -> &Location {
        &self.id.0
    }

    /// Returns the version of the object, in HTTP's terms.
    pub(crate) fn described(&self) -> Described {
        let version = &self.stat.version;
        Described {
            size: version.size,
            is_whole_only: self.ranged_size().is_none(),
            etag: version.etag.clone(),
            modified: self.stat.written(),
            version_id: version.version_id.clone(),
            storage_class: self.stat.storage_class.clone(),
            tag_count: self.stat.tag_count,
        }
    }

    /// Returns the length of an object of which ranges can be cached and sent. `None`: the object
    /// can only be sent whole, as a stream, because its length is unknown or nothing identifies its
    /// content.
    pub(super) fn ranged_size(&self) -> Option<u64> {
        let version = &self.stat.version;
        version.size.filter(|_| version.strength() != Strength::None)
    }

    /// Returns the metadata that the origin keeps with the object.
    pub(crate) fn metadata(&self) -> ObjectMetadata {
        let metadata = &self.stat.metadata;
        let header = |name: &str| metadata.headers.get(name).cloned();
        let mut user: Vec<(String, String)> =
            metadata.user.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        user.extend(metadata.modified.map(|time| ("mtime".to_owned(), seconds(time))));
        let checksums: ChecksumValues =
            self.stat.checksum.iter().map(|sum| (sum.algorithm, sum.to_base64())).collect();
        ObjectMetadata {
            content_type: metadata.content_type.clone(),
            cache_control: header("cache-control"),
            content_disposition: header("content-disposition"),
            content_encoding: header("content-encoding"),
            content_language: header("content-language"),
            expires: header("expires"),
            user,
            checksums,
            ..ObjectMetadata::default()
        }
    }
}

/// Formats seconds since 1970 with a fraction, as rclone writes a time into metadata.
fn seconds(time: SystemTime) -> String {
    let text = |since: Duration, sign: &str| {
        let text = format!("{sign}{}.{:09}", since.as_secs(), since.subsec_nanos());
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => text(since, ""),
        Err(before) => text(before.duration(), "-"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_rclone_writes_them() {
        let at = |nanos| SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos);
        assert_eq!(seconds(at(1_700_000_000_123_000_000)), "1700000000.123");
        assert_eq!(seconds(at(1_700_000_000_000_000_000)), "1700000000");
        assert_eq!(seconds(SystemTime::UNIX_EPOCH - Duration::from_millis(1500)), "-1.5");
        assert_eq!(seconds(at(0)), "0");
    }
}
