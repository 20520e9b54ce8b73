//! The version of an object in HTTP's terms, wherever its bytes are: conditions are judged by it,
//! and answers state it.

use std::time::SystemTime;

use crate::http::condition::Current;
use crate::http::etag::Identity;

/// The version of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Described {
    /// Length in bytes.
    pub(crate) size: u64,
    /// The tag as a header has it, with its quotes.
    pub(crate) etag: Option<String>,
    /// When it last changed, to the second.
    pub(crate) modified: Option<SystemTime>,
    /// The id of the version, where several are kept.
    pub(crate) version_id: Option<String>,
    /// S3 storage class, if it is not the standard one.
    pub(crate) storage_class: Option<String>,
}

impl From<&Identity> for Described {
    fn from(identity: &Identity) -> Self {
        Self {
            size: identity.size,
            etag: Some(identity.quoted_etag()),
            modified: Some(identity.last_modified()),
            ..Self::default()
        }
    }
}

impl Described {
    /// The version, to judge conditions by.
    pub(crate) fn current(&self) -> Current<'_> {
        let etag = self.etag.as_deref().unwrap_or_default();
        Current { etag: etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"'), modified: self.modified }
    }
}
