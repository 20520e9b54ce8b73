//! Derives the version of a file in HTTP's terms: a strong entity tag, and the time of its last
//! change.
//!
//! The tag contains device, inode, size, modification time and change time. So it is the same in
//! the responses to PUT, HEAD and list, and differs after every change. It never has the form of 32
//! hex digits, which clients would take for an MD5 digest.

use std::fmt::Write as _;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use firstbyte_store::LAST_HTTP_SECOND;
use rustix::fs::Stat;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// First instant of the year 1, in nanoseconds since 1970.
const YEAR_ONE: i128 = -62_135_596_800_000_000_000;

/// Identifies one version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EtagIdentity {
    device: u64,
    pub(crate) inode: u64,
    /// Length in bytes.
    pub(crate) size: u64,
    /// Time of the last modification, nanoseconds since 1970.
    pub(crate) modified: i128,
    /// Time of the last change of content, name or attributes, nanoseconds since 1970.
    pub(crate) changed: i128,
}

impl From<&Metadata> for EtagIdentity {
    fn from(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl From<&Stat> for EtagIdentity {
    #[allow(clippy::unnecessary_cast, reason = "the fields' types differ between architectures")]
    fn from(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: stat.st_size as u64,
            modified: nanoseconds(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: nanoseconds(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }
}

impl EtagIdentity {
    /// Identifies a directory, as an object without bytes.
    pub(crate) fn of_directory(metadata: impl Into<Self>) -> Self {
        Self { size: 0, ..metadata.into() }
    }

    /// True if the two versions are equal except for the change time.
    pub(crate) fn equals_but_for_change(&self, other: &Self) -> bool {
        Self { changed: 0, ..*self } == Self { changed: 0, ..*other }
    }

    /// Returns the strong tag, without quotes.
    #[must_use]
    pub(crate) fn etag(&self) -> String {
        self.tag_between("")
    }

    /// Returns the strong tag in quotes, as in a header.
    #[must_use]
    pub(crate) fn quoted_etag(&self) -> String {
        self.tag_between("\"")
    }

    fn tag_between(&self, quote: &str) -> String {
        let Self { device, inode, size, modified, changed } = self;
        let lead = changed.wrapping_sub(*modified) as u64;
        // 64 bytes are enough for most tags. A list makes one tag for each key, so growing would
        // cost time.
        let mut tag = String::with_capacity(64);
        let _ = write!(tag, "{quote}{device:x}-{inode:x}-{size:x}-{modified:x}-{lead:x}{quote}");
        tag
    }

    /// Returns the time of the last modification.
    pub(crate) fn modified_at(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(self.modified).unwrap_or(0))
    }

    /// Returns the time of the last modification, to the second, clamped to 1970 to 9999 for HTTP
    /// dates and S3's XML.
    #[must_use]
    pub(crate) fn last_modified(&self) -> SystemTime {
        let seconds = u64::try_from(self.modified.div_euclid(1_000_000_000)).unwrap_or(0);
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.min(LAST_HTTP_SECOND))
    }

    /// Returns the time of the last modification in RFC 3339, with its fraction, clamped to the
    /// years 1 to 9999.
    pub(crate) fn rfc3339(&self) -> String {
        let last = i128::from(LAST_HTTP_SECOND) * 1_000_000_000 + 999_999_999;
        let time = OffsetDateTime::from_unix_timestamp_nanos(self.modified.clamp(YEAR_ONE, last));
        time.ok().and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
    }
}

/// Sets a modification time that this process has given to no other file. So the tag never equals
/// that of an earlier version, although the kernel's clock may stand still for milliseconds and
/// inode numbers are reused.
pub(crate) fn stamp(file: &File) -> io::Result<()> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(now.as_nanos()).unwrap_or(0);
    let last = LAST.fetch_update(Relaxed, Relaxed, |last| Some(now.max(last + 1))).unwrap_or(0);
    firstbyte_store::set_modified(file, SystemTime::UNIX_EPOCH + Duration::from_nanos(now.max(last + 1)))
}

fn nanoseconds(seconds: i64, nanoseconds: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)
}

#[cfg(test)]
mod tests {
    use firstbyte_store::format_http_date;

    use super::*;

    #[test]
    fn a_time_that_no_date_can_name_becomes_the_nearest_date() {
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(300_000_000_000);
        assert_eq!(format_http_date(far), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(
            format_http_date(SystemTime::UNIX_EPOCH - Duration::from_secs(5)),
            "Thu, 01 Jan 1970 00:00:00 GMT"
        );
        let identity = |modified| EtagIdentity { device: 0, inode: 0, size: 0, modified, changed: 0 };
        let extremes = [i128::from(i64::MIN), -1, 0, i128::from(i64::MAX)];
        for modified in extremes.map(|seconds| seconds * 1_000_000_000) {
            assert_eq!(format_http_date(identity(modified).last_modified()).len(), 29, "{modified}");
            assert!(identity(modified).rfc3339().ends_with('Z'), "{modified}");
        }
        assert_eq!(identity(-1_000_000_000).rfc3339(), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn a_tag_changes_with_the_content_and_is_no_md5() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let tag = || EtagIdentity::from(&file.as_file().metadata().unwrap()).etag();
        let before = tag();
        std::fs::write(file.path(), b"longer").unwrap();
        let after = tag();
        assert_ne!(before, after);
        assert!(before.contains('-'));
    }
}
