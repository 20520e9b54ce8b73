//! Answers a read of a remote object from cached blocks, else fetches and fills.
//!
//! A [`Hydrator`] is one process' engine: a store, a cache directory, and the threads that fetch. It opens locations as
//! [`File`]s, each pinned to one version; a [`Handle`] is one open of a file and remembers where its readers go on, which
//! decides what is fetched ahead. Blocks are [`BLOCK`] bytes, a block is fetched once however many read it, and what is
//! here survives the process.

pub mod cache;
mod counters;
mod crew;
mod error;
mod fetch;
mod file;
mod gate;
mod handle;
mod here;
mod hydrator;
mod inflight;
mod job;
mod node;
mod pending;
mod pool;
mod requests;
mod settings;
mod streams;
pub mod wanted;

pub use cache::{Backing, Lent};
pub use counters::CounterSnapshot;
pub use error::{Error, Result};
pub use file::File;
pub use handle::Handle;
pub use hydrator::{Done, Hydrator, Observer};
pub use job::{Failure, Job, Progress};
pub use settings::Settings;
pub use wanted::{Wanted, WantedList};

/// Bytes of a block, the unit of the cache: what the kernel reads ahead at once, so a page fault costs one request, and
/// little enough that a random read behind 40 MB/s waits 3 ms for it.
pub const BLOCK: u64 = 128 << 10;
