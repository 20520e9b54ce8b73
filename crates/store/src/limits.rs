//! Defines waits and sizes that this crate shares with the crates above it. None of the values has
//! been tried against real S3.

use std::time::Duration;

use firstbyte_location::to_usize;
use rustix::process::{Resource, getrlimit};

/// Interval between two checks in a wait that has no socket.
pub const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum wait for an event that is expected at any moment: a killed process releases a lock, an
/// aborted upload ends, or a failed endpoint responds again.
pub const SHORT_WAIT: Duration = Duration::from_secs(1);
/// Time for which idle resources are kept: connections, which servers close after 5 s (S3) to 75 s
/// (nginx); the threads that use them; and resolved addresses, which object stores change every few
/// seconds.
pub const KEEP_IDLE: Duration = Duration::from_secs(5);
/// Stack size, in bytes, of a thread that calls a store. TLS and signing need about 100 KiB. Unused
/// pages of a stack take no memory.
pub const STACK: usize = 512 << 10;
/// Size, in bytes, of a buffer through which content passes. A buffer of this size fits the
/// second-level cache.
pub const BUFFER: usize = 128 << 10;
/// Maximum bytes of a payload passed to one call that sends. The same number limits the unsent
/// bytes that a socket accepts (`TCP_NOTSENT_LOWAT`). Larger numbers would hide the rate of a slow
/// connection: at 4 MB/s, 512 KiB are the bytes of 130 ms.
pub(crate) const SEND_STEP: usize = BUFFER;
/// Bytes read at once while the head of a response is expected: one TLS record. That suffices for a
/// head and a small object, and is little to copy if a large object follows. A payload up to this
/// size is sent together with its head.
pub(crate) const RECORD: usize = 16 << 10;
/// Memory, in bytes, of a thread that calls a store: touched stack, socket and TLS state. The
/// thread's buffer is extra. Measured with a buffer of 32 KiB, 64 to 256 threads reading small
/// objects took 80 to 88 KiB each, including the buffer.
pub const THREAD_MEMORY: u64 = 56 << 10;
/// Default limit on the memory of a process, in bytes.
pub const MEMORY: u64 = 32 << 20;
/// Number of names on a page of an S3 listing, and in one request that deletes objects. Queues of
/// names have about the same length.
pub const PAGE: usize = 1_000;
/// Maximum number of descriptors that a request needs: a socket, a pipe, and a partial file with
/// its directory and its journal.
const REQUEST_DESCRIPTORS: u64 = 6;
/// Descriptors that belong to no request: standard streams, libraries, listings.
const OTHER_DESCRIPTORS: u64 = 24;

/// Returns the number of concurrent requests for which this process may open descriptors; at least
/// one.
#[must_use]
pub fn most_requests() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    to_usize(descriptors.saturating_sub(OTHER_DESCRIPTORS) / REQUEST_DESCRIPTORS).max(1)
}
