//! Defines constants that several parts of this crate share. None of them was tested against real
//! S3.

use std::time::Duration;

use firstbyte_pacing::{LONGEST_REQUEST, START_NEAR};

/// Polling interval of a wait for another process or thread that cannot wake this one. It is a
/// fraction of a round trip.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Length of one request for an expected reader, bytes. At 40 MB/s its transfer takes 52 ms, which
/// is about two round trips.
pub(crate) const REQUEST_SIZE: u64 = 2 << 20;
/// Maximum number of attempts at an action that other threads or processes can make fail, for
/// example opening a file that is removed just before.
pub(crate) const ATTEMPTS: u32 = 16;
/// Reciprocal of the share of the memory that the fetching threads get. They get half as much
/// without a cache. Blocks in memory get the rest.
pub(crate) const MEMORY_SHARE: u64 = 2;
/// Reciprocal of the largest share of a small cache that one read-ahead window may take, or that
/// one eviction may free beyond what is needed.
pub(crate) const CACHE_SHARE: u64 = 8;
/// Maximum length of a read-ahead window, bytes. It is long enough for the longest requests to a
/// near server, and for a link of 10 Gbit/s with a round trip of 100 ms.
pub(crate) const MAX_WINDOW_SIZE: u64 = START_NEAR as u64 * LONGEST_REQUEST;
