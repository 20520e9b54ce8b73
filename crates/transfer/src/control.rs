//! What decides how many requests go out at once, which are given up, and how fast bytes may come.
//!
//! A run is not the only one who fetches: a mount does so by what its readers do next. These parts know nothing of
//! either and are shared, so that both behave alike towards a server.

pub use crate::flight::{Distance, Flight, Flights};
pub use crate::level::{Level, START_NEAR};
pub use crate::patience::Wait;
pub use crate::processors::Room;
pub use crate::window::{Heed, Reading, Window};
