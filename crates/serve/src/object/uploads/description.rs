//! The description of an upload, stored in its `upload.json`: the file it becomes, and its origin.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::object::metadata::ObjectMetadata;
use crate::object::part_checksums::Agreed;

/// What an upload will be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Description {
    /// Who began it, and for what name.
    pub(crate) origin: Origin,
    /// The metadata to keep with the file, without checksums.
    pub(crate) object: ObjectMetadata,
    /// Length of all parts but the last, where it is agreed on beforehand.
    pub(crate) slots: Option<u64>,
}

/// Who began an upload, and for what name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Origin {
    /// An S3 client, for the object `key` of the bucket.
    S3 {
        /// The key.
        key: String,
        /// The checksum of the object, where the client chose one.
        #[serde(default)]
        checksum: Option<Agreed>,
    },
    /// The page, for a file in `directory`.
    Page {
        /// Its path below the served directory, percent-encoded.
        directory: String,
        /// The file.
        source: Source,
    },
}

/// The browser's description of the file that it uploads. After a reload, a file of the same name,
/// size and time continues the upload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Source {
    /// File name, one path component.
    pub(crate) name: String,
    /// Length in bytes.
    pub(crate) size: u64,
    /// Last modification, milliseconds since 1970, as `File.lastModified` gives it.
    pub(crate) mtime: i64,
    /// Content type, as `File.type` gives it; empty where the browser has no idea.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    pub(crate) content_type: String,
}

/// An upload nothing was added to for this long from the page is removed: long enough to come back
/// after a holiday week.
const PAGE_EXPIRES_AFTER: Duration = Duration::from_secs(14 * 24 * 3600);

impl Description {
    /// Whether an upload is abandoned: nothing was added to it since `touched`, for too long. The
    /// limit is `abandoned` for S3's uploads, and [`PAGE_EXPIRES_AFTER`] for those of the page.
    pub(super) fn has_expired(&self, touched: SystemTime, abandoned: Duration) -> bool {
        let most = match self.origin {
            Origin::S3 { .. } => abandoned,
            Origin::Page { .. } => PAGE_EXPIRES_AFTER,
        };
        touched.elapsed().is_ok_and(|since| since > most)
    }
}
