//! Hydrates in the background: fetches files, or parts of them, into the cache, in order.
//!
//! `job` is the thread of a job, which opens versions and submits fetches; `disk_writer` starts
//! writing the blocks to the disk. Blocks already cached are not fetched, so a cancelled job
//! continues when it is started again.

mod disk_writer;
mod job;

pub use job::HydrationJob;
