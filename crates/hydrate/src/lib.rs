//! Answers reads of a remote object from cached blocks, or fetches and caches them.
//!
//! A [`Hydrator`] is the engine of one process: a store, a cache directory, and threads that
//! fetch. It opens locations as [`File`]s, each of one version. A [`Handle`] is one open of a
//! file; from its reads it decides what to fetch ahead. Each block of [`BLOCK`] bytes is fetched
//! once for all readers, and cached blocks survive the process.

mod background;
mod block;
mod block_store;
pub mod cache;
mod columns;
mod counters;
mod error;
mod fetch;
mod handle;
mod hydrator;
mod inflight;
mod limits;
mod part;
mod pending_read;
mod read_ahead;
mod settings;
mod version;
pub mod wanted;
mod workers;

pub use background::{Job, Progress};
pub use block::BLOCK;
pub use cache::{Backing, PinnedBlocks};
pub use counters::CounterSnapshot;
pub use error::{Error, Result};
pub use handle::{File, Handle, MOST_HINTED};
pub use hydrator::Hydrator;
pub use pending_read::Done;
pub use settings::Settings;
pub use version::Observer;
pub use wanted::{Failure, Wanted, WantedList};
