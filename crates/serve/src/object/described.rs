//! Describes the version of an object in HTTP's terms, for directories and gateways. Conditions are
//! evaluated against this version, and responses state it.

use std::time::SystemTime;

use crate::http::condition::CurrentVersion;
use crate::http::etag::EtagIdentity;

/// The version of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Described {
    /// Length in bytes. `None` if the origin does not state it.
    pub(crate) size: Option<u64>,
    /// True if the object can only be sent whole, from its first byte to its last, because its
    /// length is unknown or nothing identifies its content.
    pub(crate) is_whole_only: bool,
    /// The tag in quotes, as in a header.
    pub(crate) etag: Option<String>,
    /// The time of the last change, to the second.
    pub(crate) modified: Option<SystemTime>,
    /// The id of the version, if the store keeps several versions.
    pub(crate) version_id: Option<String>,
    /// S3 storage class, if it is not the standard one.
    pub(crate) storage_class: Option<String>,
    /// The number of tags that the origin keeps with the object, if it states it.
    pub(crate) tag_count: Option<u32>,
}

impl From<&EtagIdentity> for Described {
    fn from(identity: &EtagIdentity) -> Self {
        Self {
            size: Some(identity.size),
            etag: Some(identity.quoted_etag()),
            modified: Some(identity.last_modified()),
            ..Self::default()
        }
    }
}

impl Described {
    /// Returns the length of an object of which ranges can be sent.
    pub(crate) fn ranged_size(&self) -> Option<u64> {
        self.size.filter(|_| !self.is_whole_only)
    }

    /// Returns the value of `Accept-Ranges`.
    pub(crate) fn accepted_ranges(&self) -> &'static str {
        if self.is_whole_only { "none" } else { "bytes" }
    }

    /// Returns the version, to evaluate conditions against.
    pub(crate) fn current(&self) -> CurrentVersion<'_> {
        let etag = self.etag.as_deref().map(etag_value).unwrap_or_default();
        CurrentVersion { etag, modified: self.modified }
    }
}

/// Returns the text of a tag, without its quotes and the mark of a weak tag.
pub(crate) fn etag_value(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"')
}
