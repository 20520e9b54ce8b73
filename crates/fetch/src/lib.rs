//! Repeats a request until it succeeds, fails for good or is no longer wanted: tracks the request,
//! cuts it when it is silent, and sends it again after a pause.
//!
//! Transfers and reads differ in the work of an attempt, and in who waits for the result
//! ([`Interest`]). Everything else is decided here for both: which failures are transient, what
//! counts as progress, how often a request is repeated, and how long the pauses are.

mod attempt;
mod request;

pub use attempt::Attempt;
pub use firstbyte_pacing::RETRIES;
pub use request::{AttemptError, Interest, RequestEnd, RequestEvent, TrackerSlot, Tries};
