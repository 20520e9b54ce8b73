//! Waits and sizes that this crate shares with those above it, so that each is chosen once. None
//! was ever tried against real S3.

use std::time::Duration;

/// Time between two checks in waits without a socket.
pub const LOOK: Duration = Duration::from_millis(20);
/// How long something is waited for that is expected at any moment: a lock that a killed process
/// holds for a moment longer, the end of an upload that is aborted, an endpoint that may be back.
pub const BRIEFLY: Duration = Duration::from_secs(1);
/// How long what is idle is kept: connections, which servers close after 5 s (S3) to 75 s (nginx),
/// the threads that use them, and resolved addresses, which object stores change every few seconds.
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
