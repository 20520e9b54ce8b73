//! Defines constants that several parts of this crate share. None of them was tested against real
//! S3.

use std::time::Duration;

use firstbyte_pacing::{LONGEST_REQUEST, START_NEAR};

/// Polling interval of a wait for another process or thread that cannot wake this one. It is a
/// fraction of a round trip.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Length of one request for an expected reader, bytes. At 40 MB/s it takes two round trips.
pub(crate) const REQUEST_SIZE: u64 = 2 << 20;
/// Maximum number of attempts at an action that other threads or processes may thwart, for example
/// opening a file that is removed just before.
pub(crate) const ATTEMPTS: u32 = 16;
/// Divisor of the memory. The threads that fetch get this share of the memory, or half of the share
/// if blocks cannot be cached. Blocks get the rest.
pub(crate) const MEMORY_SHARE: u64 = 2;
/// Divisor of the size of a small cache. One read-ahead window takes at most this share of the
/// cache, and so does one eviction.
pub(crate) const CACHE_SHARE: u64 = 8;
/// Length of the widest read-ahead window, bytes. In this window, a near server gets its longest
/// requests. A link of 10 Gbit/s with 100 ms needs such a window.
pub(crate) const MAX_WINDOW_SIZE: u64 = START_NEAR as u64 * LONGEST_REQUEST;
