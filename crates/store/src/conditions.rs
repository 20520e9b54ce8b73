//! Remembers servers that refuse `If-Match` (412) although it has their own current `ETag`.
//!
//! Such servers break RFC 9110, 13.1.1. Reads from these servers send no condition. Versions are
//! still never mixed, because the version of each response is compared with the pinned version
//! anyway.

use std::collections::HashSet;

use firstbyte_location::Version;
use rustix_futex_sync::Mutex;

use crate::error::{Error, Result};

/// The buckets and hosts known to refuse their own ETags.
#[derive(Debug, Default)]
pub(crate) struct OwnTags(Mutex<HashSet<String>>);

impl OwnTags {
    /// Returns true unless this server is known to refuse its own ETags.
    pub(crate) fn are_accepted_by(&self, server: &str) -> bool {
        !self.0.lock().contains(server)
    }

    /// Notes that a server refuses its own ETags.
    pub(crate) fn record_refusal_by(&self, server: &str) {
        if self.0.lock().insert(server.to_owned()) {
            tracing::info!(server, "refuses If-Match with its own ETag: reading without");
        }
    }
}

/// Returns the error for a 412 to a read of the version `expected`. `found` is the version that the
/// server returned when the same request was sent without a condition.
pub(crate) fn precondition_error(place: &str, expected: Option<&Version>, found: Result<Version>) -> Error {
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
