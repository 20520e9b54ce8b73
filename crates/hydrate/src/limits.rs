//! Constants that several parts of this crate share. None was ever tried against real S3.

use std::time::Duration;

use firstbyte_pacing::{LONGEST_REQUEST, START_NEAR};

/// The polling interval of a wait for another process or thread that cannot wake this one: a
/// fraction of a round trip.
pub(crate) const POLL: Duration = Duration::from_millis(5);
/// Bytes of one request for an expected reader: at 40 MB/s it takes two round trips.
pub(crate) const REQUEST: u64 = 2 << 20;
/// The most attempts at an action that other threads or processes may forestall, such as opening a
/// file before it is removed.
pub(crate) const ATTEMPTS: u32 = 16;
/// Divisor of the memory: this share is for the threads that fetch, or half of it if blocks cannot
/// be cached; the rest is for blocks.
pub(crate) const MEMORY_SHARE: u64 = 2;
/// Divisor of a small cache: one read-ahead window, and one eviction, take at most this share of
/// it.
pub(crate) const CACHE_SHARE: u64 = 8;
/// Bytes of the widest read-ahead window, in which a near server gets its longest requests: a link
/// of 10 Gbit/s with 100 ms needs it.
pub(crate) const MOST_WINDOW: u64 = START_NEAR as u64 * LONGEST_REQUEST;
