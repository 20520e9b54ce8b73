//! Defines the description of an upload, stored in its `upload.json`: the resulting file, and the
//! origin.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::object::metadata::ObjectMetadata;
use crate::object::part_checksums::AgreedChecksum;

/// The file that an upload creates, and its origin.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Description {
    /// The client that began the upload, and the name of the file.
    pub(crate) origin: UploadOrigin,
    /// The metadata to store with the file, without checksums.
    pub(crate) object: ObjectMetadata,
    /// Length in bytes of all parts except the last, if it was fixed when the upload began.
    pub(crate) slots: Option<u64>,
}

/// The client that began an upload, and the name of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum UploadOrigin {
    /// An S3 client, for an object of the bucket.
    S3 {
        key: String,
        /// The checksum of the object, if the client chose one.
        #[serde(default)]
        checksum: Option<AgreedChecksum>,
    },
    /// The page, for a file in `directory`.
    Page {
        /// The path of the directory below the served directory, percent-encoded.
        directory: String,
        /// The file in the browser.
        source: BrowserFile,
    },
}

/// The browser's description of a file to upload. After a reload, a file of the same name, size and
/// time continues the upload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BrowserFile {
    /// File name, one path component.
    pub(crate) name: String,
    /// Length in bytes.
    pub(crate) size: u64,
    /// Last modification, milliseconds since 1970, as `File.lastModified` gives it.
    pub(crate) mtime: i64,
    /// Content type, as `File.type` gives it; empty if the browser does not know it.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    pub(crate) content_type: String,
}

/// Time for which an upload from the page is kept without new parts: long enough to return after a
/// week of holidays.
const PAGE_EXPIRES_AFTER: Duration = Duration::from_secs(14 * 24 * 3600);

impl Description {
    /// True if an upload is abandoned because its last part arrived too long ago, at `touched`. The
    /// limit is `abandoned` for S3's uploads, and [`PAGE_EXPIRES_AFTER`] for the page's uploads.
    pub(super) fn has_expired(&self, touched: SystemTime, abandoned: Duration) -> bool {
        let most = match self.origin {
            UploadOrigin::S3 { .. } => abandoned,
            UploadOrigin::Page { .. } => PAGE_EXPIRES_AFTER,
        };
        touched.elapsed().is_ok_and(|since| since > most)
    }
}
