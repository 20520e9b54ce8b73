//! Servers that answer 412 to `If-Match` with the very tag that they send.
//!
//! They break RFC 9110, 13.1.1. Reads from them state no condition: the version of each response
//! is compared with the pinned one in any case, so nothing is mixed.

use std::collections::HashSet;

use firstbyte_location::Version;
use rustix_futex_sync::Mutex;

use crate::error::{Error, Result};

/// The buckets and hosts that are known to refuse their own tags.
#[derive(Debug, Default)]
pub(crate) struct OwnTags(Mutex<HashSet<String>>);

impl OwnTags {
    /// Whether a server takes conditions, as far as is known.
    pub(crate) fn are_taken_by(&self, server: &str) -> bool {
        !self.0.lock().contains(server)
    }

    /// Notes that a server refuses them.
    pub(crate) fn are_refused_by(&self, server: &str) {
        if self.0.lock().insert(server.to_owned()) {
            tracing::info!(server, "refuses If-Match with its own ETag: reading without");
        }
    }
}

/// The error for a 412 to the version `expected`, where a question without a condition was answered
/// with `found`.
pub(crate) fn refused(place: &str, expected: Option<&Version>, found: Result<Version>) -> Error {
    let (location, expected) = (place.to_owned(), expected.cloned().unwrap_or_default());
    match found {
        Err(error @ Error::NotFound { .. }) => error,
        Ok(found) if expected.if_match().is_some() && found.if_match() == expected.if_match() => {
            Error::OwnTagRefused { location, etag: found.etag.unwrap_or_default(), trace: None }
        }
        found => Error::Changed {
            location,
            expected: Box::new(expected),
            found: Box::new(found.unwrap_or_default()),
            trace: None,
        },
    }
}
