//! Quantities with units, as types, so that a size cannot be used as a time.
//!
//! A quantity in text must contain its unit; see `parse`. Used by models, workloads and advice.

mod parse;
mod serial;
mod shown;

pub use parse::{QuantityError, bytes, money, money_per_hour, rate, seconds};
pub use shown::{count, shown_bytes, shown_seconds, significant};

/// Bytes in a GiB.
pub const GIB: f64 = 1_073_741_824.0;

/// Number of bytes in a TiB.
pub const TIB: f64 = 1_099_511_627_776.0;

/// A number of bytes. Shares and averages may be fractions.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Bytes(pub f64);

/// A number of seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Seconds(pub f64);

/// Bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Rate(pub f64);

/// US dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Dollars(pub f64);

/// US dollars per hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct DollarsPerHour(pub f64);
