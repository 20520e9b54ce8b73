//! Constants that several parts of this crate share. None was ever tried against real S3.

use std::time::Duration;

use firstbyte_pacing::{LONGEST_REQUEST, START_NEAR};

/// Polling interval where another process or thread is waited for that cannot wake this one: a
/// fraction of a round trip.
pub(crate) const POLL: Duration = Duration::from_millis(5);
/// Bytes of one request for a reader that is expected: at 40 MB/s it takes two round trips.
pub(crate) const REQUEST: u64 = 2 << 20;
/// Attempts at what other threads or processes may get ahead of each time, such as to open a file
/// before it is removed.
pub(crate) const ATTEMPTS: u32 = 16;
/// Divisor of the memory: the threads that fetch take this share of it, or half as much if blocks
/// cannot be cached; the rest is for blocks.
pub(crate) const MEMORY_SHARE: u64 = 2;
/// Divisor of a small cache: one read-ahead window, and what is evicted at once, take at most this
/// share of it.
pub(crate) const CACHE_SHARE: u64 = 8;
/// The widest read-ahead window, in which a near server gets its longest requests: a link of 10
/// Gbit/s with 100 ms needs it.
pub(crate) const MOST_WINDOW: u64 = START_NEAR as u64 * LONGEST_REQUEST;
