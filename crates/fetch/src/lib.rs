//! The request loop. It tracks a request, cuts it when it is silent and repeats it after a pause,
//! until the request succeeds, fails for good or is no longer wanted.
//!
//! Transfers and reads differ in the work of an attempt and in the reader of its result
//! ([`Interest`]). Everything else is decided here, once: which failures are transient, what counts
//! as progress, how often a request is repeated, and how long the pauses are.

mod attempt;
mod request;

pub use attempt::Attempt;
pub use firstbyte_pacing::RETRIES;
pub use request::{AttemptError, Interest, RequestEnd, RequestEvent, TrackerSlot, Tries};
