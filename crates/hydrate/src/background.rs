//! Hydrates in the background: fetches files, or parts of files, into the cache, in order.
//!
//! `job` is the thread of a job, which opens versions and submits fetches. `disk_writer` makes the
//! kernel write the fetched blocks to the disk. Blocks that are cached already are not fetched, so
//! a cancelled job continues where it stopped when it is started again.

mod disk_writer;
mod job;

pub use job::HydrationJob;
