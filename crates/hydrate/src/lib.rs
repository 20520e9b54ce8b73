//! Answers reads of a remote object from cached blocks, and fetches and caches the blocks that are
//! absent.
//!
//! A [`Hydrator`] is the engine of one process: a store, a cache directory, and threads that fetch.
//! It opens locations as [`File`]s, each of one version. A [`Handle`] is one open of a file, and
//! uses its reads to decide what to fetch ahead. Each block of [`BLOCK`] bytes is fetched once for
//! all readers, and cached blocks survive the process.

mod background;
mod block;
mod block_store;
mod block_table;
pub mod cache;
mod counters;
mod error;
mod fetch_queue;
mod handle;
mod hydrator;
mod job_state;
mod limits;
mod parquet_readahead;
mod read_ahead;
mod settings;
pub mod start_file;
mod version;
pub mod wanted;

pub use background::HydrationJob;
pub use block::BLOCK;
pub use block_table::ReadCallback;
pub use cache::{Backing, PinnedBlocks};
pub use counters::HydrationCounts;
pub use error::{Error, Result};
pub use handle::{File, Handle, MOST_HINTED};
pub use hydrator::Hydrator;
pub use job_state::HydrationProgress;
pub use settings::HydrationSettings;
pub use start_file::{StartFile, StartTotals};
pub use version::ReadObserver;
pub use wanted::{HydrationFailure, HydrationItem, HydrationList};
