//! Background hydration: fetches files, or parts of them, into the cache, in order.
//!
//! `job` is the thread of a job, which opens versions and submits fetches. `files` and `throttle`
//! are the values that its fetches use. Blocks already cached are not fetched, so a cancelled job
//! continues when it is started again.

mod files;
mod job;
mod throttle;

pub(crate) use files::JobFile;
pub use files::Progress;
pub use job::Job;
pub(crate) use throttle::BackgroundThrottle;
