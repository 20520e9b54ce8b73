//! Waits and sizes that this crate shares with the crates above it. None has been tried against
//! real S3.

use std::time::Duration;

use firstbyte_location::to_usize;
use rustix::process::{Resource, getrlimit};

/// The interval between two checks in waits without a socket.
pub const LOOK: Duration = Duration::from_millis(20);
/// The wait for an event that is expected at any moment: a killed process releases a lock, an
/// aborted upload ends, or a failed endpoint responds again.
pub const BRIEFLY: Duration = Duration::from_secs(1);
/// The time for which idle resources are retained: connections, which servers close after 5 s (S3)
/// to 75 s (nginx), the threads that use them, and resolved addresses, which object stores change
/// every few seconds.
pub const KEEP_IDLE: Duration = Duration::from_secs(5);
/// Stack size, in bytes, of a thread that calls a store. TLS and signing need about 100 KiB, and
/// unused pages take no memory.
pub const STACK: usize = 512 << 10;
/// Size of a buffer that content passes through, bytes. It fits the second-level cache.
pub const BUFFER: usize = 128 << 10;
/// Bytes of a payload sent by one call. A socket accepts as many beyond those that it can send.
pub(crate) const SEND_STEP: usize = 4 * BUFFER;
/// Bytes read at once where the head of a response is expected: a TLS record. It suffices for a
/// head and a small object, and is little to copy before a large one. Payloads up to this size are
/// sent with their head.
pub(crate) const RECORD: usize = 16 << 10;
/// Memory of a thread that calls a store, bytes, in addition to its buffer: touched stack, socket
/// and TLS state. With a buffer of 32 KiB the total was 80 to 88 KiB, for 64 to 256 threads with
/// small objects.
pub const THREAD_MEMORY: u64 = 56 << 10;
/// The default ceiling for the memory of a process, bytes.
pub const MEMORY: u64 = 32 << 20;
/// Names on a page of an S3 listing, and in one request that deletes objects. Queues of names hold
/// about the same number.
pub const PAGE: usize = 1_000;
/// The most descriptors of a request: a socket, a pipe, and a partial file with its directory and
/// journal.
const REQUEST_DESCRIPTORS: u64 = 6;
/// Descriptors that no request uses: standard streams, libraries, listings.
const OTHER_DESCRIPTORS: u64 = 24;

/// Returns the number of requests at once for which this process may open descriptors; at least
/// one.
#[must_use]
pub fn most_requests() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    to_usize(descriptors.saturating_sub(OTHER_DESCRIPTORS) / REQUEST_DESCRIPTORS).max(1)
}
