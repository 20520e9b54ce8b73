//! The request loop: a request is tracked, cut when it is silent, and repeated after a pause, until
//! it succeeds, fails for good, or is not wanted any more.
//!
//! Transfers and reads differ in the work of an attempt and in the reader of its result
//! ([`Interest`]).
//! Everything else is decided here, once: which failures pass, what counts as progress, how often
//! and after which pause a request is sent again.

mod attempt;
mod request;

pub use attempt::Attempt;
pub use firstbyte_pacing::RETRIES;
pub use request::{Ended, Event, Failure, Interest, Slot, Tries};
