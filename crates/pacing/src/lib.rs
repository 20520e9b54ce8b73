//! How fast bytes may pass. Pure policies: callers pass the clock, and do the waiting.
//!
//! [`RateLimit`] is one rate, shared by everything that keeps to it; a [`Throttle`] is the limits that one transfer keeps
//! to. Copies, hydration and the server ask before they move bytes, in pieces of the size they are granted.

mod rate_limit;
mod throttle;

pub use rate_limit::{Grant, RateLimit};
pub use throttle::Throttle;
