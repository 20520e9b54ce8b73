//! Counts requests by kind, as the price lists of object stores distinguish kinds.
//!
//! Every request sent is counted, including retries and hedged requests.
//! [`Store::counters`](crate::Store::counters) returns the counts.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// The kind of a request, as it is counted and priced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Get,
    Head,
    List,
    Put,
    Delete,
    Other,
}

/// Numbers of requests by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct RequestCounts {
    /// Reads of content.
    pub get: u64,
    /// Reads of metadata.
    pub head: u64,
    /// Reads of pages of names: objects, versions, parts, buckets.
    pub list: u64,
    /// Writes: objects, parts, copies within the service, and the start and end of uploads.
    pub put: u64,
    /// Deletions and aborted uploads.
    pub delete: u64,
    /// All other requests: sessions, and calls to other services.
    pub other: u64,
}

impl RequestCounts {
    /// Returns the number of all requests.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.get + self.head + self.list + self.put + self.delete + self.other
    }

    /// Returns the number of requests since `before`, by kind.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        self.zip(before, u64::saturating_sub)
    }

    /// Returns the sum of both counts, by kind.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.zip(other, u64::saturating_add)
    }

    fn zip(&self, other: &Self, by: fn(u64, u64) -> u64) -> Self {
        Self {
            get: by(self.get, other.get),
            head: by(self.head, other.head),
            list: by(self.list, other.list),
            put: by(self.put, other.put),
            delete: by(self.delete, other.delete),
            other: by(self.other, other.other),
        }
    }
}

/// Counters of a store, since the store was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Requests sent.
    pub requests: u64,
    /// The same requests, by kind.
    pub requests_by_kind: RequestCounts,
    /// The requests among them that were retries.
    pub retries: u64,
    /// Bytes of bodies received over the network.
    pub received: u64,
    /// Bytes of bodies sent over the network.
    pub sent: u64,
    /// Requests about objects in storage classes whose prices are not known.
    pub unpriced: u64,
}

/// The counts that all clones of a store share.
#[derive(Debug, Default)]
pub(crate) struct RequestCounters([AtomicU64; 6]);

impl RequestCounters {
    pub(crate) fn add(&self, kind: RequestKind) {
        self.0[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> RequestCounts {
        let of = |kind: RequestKind| self.0[kind as usize].load(Ordering::Relaxed);
        RequestCounts {
            get: of(RequestKind::Get),
            head: of(RequestKind::Head),
            list: of(RequestKind::List),
            put: of(RequestKind::Put),
            delete: of(RequestKind::Delete),
            other: of(RequestKind::Other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_counted_in_its_own_field() {
        let counters = RequestCounters::default();
        let kinds = [RequestKind::Get, RequestKind::Head, RequestKind::List, RequestKind::Put];
        for (times, kind) in kinds.into_iter().chain([RequestKind::Delete, RequestKind::Other]).enumerate() {
            (0..=times).for_each(|_| counters.add(kind));
        }
        let counts = counters.snapshot();
        assert_eq!(counts, RequestCounts { get: 1, head: 2, list: 3, put: 4, delete: 5, other: 6 });
        assert_eq!(counts.total(), 21);
        assert_eq!(counts.plus(&counts).since(&counts), counts);
    }
}
