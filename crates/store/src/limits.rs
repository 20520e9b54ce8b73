//! Waits and sizes that this crate shares with the crates above it. None was ever tried against
//! real S3.

use std::time::Duration;

use firstbyte_location::to_usize;
use rustix::process::{Resource, getrlimit};

/// Time between two checks in waits without a socket.
pub const LOOK: Duration = Duration::from_millis(20);
/// The wait for an event that is expected at any moment: the release of a lock that a killed
/// process still holds, the end of an upload that is aborted, a response of an endpoint that may
/// work again.
pub const BRIEFLY: Duration = Duration::from_secs(1);
/// The time for which idle resources are kept: connections, which servers close after 5 s (S3) to
/// 75 s (nginx), the threads that use them, and resolved addresses, which object stores change
/// every few seconds.
pub const KEEP_IDLE: Duration = Duration::from_secs(5);
/// Stack of a thread that calls a store: TLS and signing need about 100 KiB; unused pages take no
/// memory.
pub const STACK: usize = 512 << 10;
/// Size of a buffer through which bytes pass, in bytes: it fits the second-level cache.
pub const BUFFER: usize = 128 << 10;
/// Bytes read at once where a head is expected: a TLS record, enough for a head and a small object,
/// and little to copy if a large object follows. Payloads up to this size are sent with their head.
pub(crate) const RECORD: usize = 16 << 10;
/// Memory of a thread that calls a store beside its buffer, bytes: touched stack, socket and TLS
/// state. With a buffer of 32 KiB it was 80 to 88 KiB, for 64 to 256 threads with small objects.
pub const THREAD_MEMORY: u64 = 56 << 10;
/// The default ceiling for the memory of a process, bytes.
pub const MEMORY: u64 = 32 << 20;
/// Names on a page of an S3 listing, and in one request that deletes objects. Queues of names hold
/// about as many.
pub const PAGE: usize = 1_000;
/// Descriptors of a request at most: a socket, a pipe, and a partial file with its directory and
/// journal.
const DESCRIPTORS_EACH: u64 = 6;
/// Descriptors beside those of requests: standard streams, libraries, listings.
const OTHER_DESCRIPTORS: u64 = 24;

/// Requests at once that this process has descriptors for; at least one.
#[must_use]
pub fn most_requests() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    to_usize(descriptors.saturating_sub(OTHER_DESCRIPTORS) / DESCRIPTORS_EACH).max(1)
}
