//! Hydration in the background: fetches files, or parts of them, into the cache, in order.
//!
//! `job` is the thread of a job, above the versions that it fetches. `files` and `throttle` are
//! values that fetches use. Blocks already cached are not fetched, so a job that was cancelled
//! continues when it is started again.

mod files;
mod job;
mod throttle;

pub(crate) use files::JobFile;
pub use files::Progress;
pub use job::Job;
pub(crate) use throttle::BackgroundThrottle;
