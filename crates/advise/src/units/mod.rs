//! Quantities with units, as types: adding seconds to bytes does not compile.
//!
//! [`Gb`] and [`Gib`] are different types, because AWS writes one and bills the other; both convert
//! to [`Bytes`], and only explicitly to each other. In text a unit is required: see
//! `parse`. Called by workload files, models, the simulator and advice.

mod parse;
mod serial;
mod shown;

use std::ops::{Add, Div, Mul};

pub use parse::{UnitError, bytes, money, money_per_hour, rate, seconds};
pub use shown::{count, shown_bytes, shown_seconds, significant};

/// Bytes of a GiB.
pub(crate) const GIB: f64 = 1_073_741_824.0;

/// Bytes. A fraction is allowed: shares and averages have one.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Bytes(pub f64);

/// 10^9 bytes each.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Gb(pub f64);

/// 2^30 bytes each.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Gib(pub f64);

/// Seconds.
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

impl From<Gb> for Bytes {
    fn from(size: Gb) -> Self {
        Self(size.0 * 1e9)
    }
}

impl From<Gib> for Bytes {
    fn from(size: Gib) -> Self {
        Self(size.0 * GIB)
    }
}

impl From<Bytes> for Gb {
    fn from(size: Bytes) -> Self {
        Self(size.0 / 1e9)
    }
}

impl From<Bytes> for Gib {
    fn from(size: Bytes) -> Self {
        Self(size.0 / GIB)
    }
}

/// Sums within one unit.
macro_rules! sums {
    ($($unit:ident),*) => {$(
        impl Add for $unit {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl Mul<f64> for $unit {
            type Output = Self;
            fn mul(self, factor: f64) -> Self {
                Self(self.0 * factor)
            }
        }
    )*};
}

sums!(Bytes, Gb, Gib, Seconds, Rate, Dollars, DollarsPerHour);

impl Div<Rate> for Bytes {
    type Output = Seconds;
    fn div(self, rate: Rate) -> Seconds {
        Seconds(self.0 / rate.0)
    }
}

impl Div<Seconds> for Bytes {
    type Output = Rate;
    fn div(self, time: Seconds) -> Rate {
        Rate(self.0 / time.0)
    }
}

impl Mul<Seconds> for Rate {
    type Output = Bytes;
    fn mul(self, time: Seconds) -> Bytes {
        Bytes(self.0 * time.0)
    }
}

impl Mul<Seconds> for DollarsPerHour {
    type Output = Dollars;
    fn mul(self, time: Seconds) -> Dollars {
        Dollars(self.0 * time.0 / 3_600.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
    }

    #[test]
    fn decimal_and_binary_differ_by_seven_percent() {
        assert_eq!(Bytes::from(Gib(1.0)).0 / Bytes::from(Gb(1.0)).0, 1.073_741_824);
        assert_eq!(bytes("254 GiB"), Ok(Bytes::from(Gib(254.0))));
        assert_eq!(bytes("254 GB"), Ok(Bytes::from(Gb(254.0))));
    }

    proptest! {
        #[test]
        fn the_units_are_an_algebra(size in 1.0..1e15f64, rate in 1.0..1e12f64, hourly in 0.01..1e4f64) {
            let time = Bytes(size) / Rate(rate);
            prop_assert!(close((Rate(rate) * time).0, size));
            prop_assert!(close((Bytes(size) / time).0, rate));
            prop_assert!(close((DollarsPerHour(hourly) * Seconds(3_600.0)).0, hourly));
            prop_assert!(close(Bytes::from(Gb::from(Bytes(size))).0, size));
            prop_assert!(close(Bytes::from(Gib::from(Bytes(size))).0, size));
            let doubled = Bytes(size) + Bytes(size);
            prop_assert!(close((doubled / Rate(rate)).0, (time + time).0));
            prop_assert!(close((doubled / (Rate(rate) * 2.0)).0, time.0));
        }
    }
}
