//! Decides how many requests to send, how large they are, how long to wait for them, and at which
//! rate bytes may pass.
//!
//! The policies are pure: callers pass the current time and do the waiting. So a simulator can run
//! the policies (`tests/`). Transfers, hydration, listings and the server use this crate, which
//! imports none of them.

mod backoff;
mod concurrency_limit;
mod controller;
mod hedge;
mod part_limit;
mod proximity;
mod rate_limit;
mod request_size;
mod throttle;
mod tracker;

pub use backoff::{DEADLINE, RETRIES, backoff, backoff_at};
pub use concurrency_limit::ConcurrencyLimit;
pub use controller::{Controller, Observation, START, START_NEAR, Work};
pub use hedge::{HedgePolicy, SILENCE, Wait};
pub use part_limit::{PartLimit, PartsInFlight};
pub use proximity::{FAR, Proximity};
pub use rate_limit::{Grant, RateLimit};
pub use request_size::{
    LONGEST_REQUEST, ROUND_TRIP_BYTES, ReadSizes, SHORTEST_REQUEST, longest_request, request_share,
};
pub use throttle::Throttle;
pub use tracker::{Abort, InFlightRequest, RequestTracker};
