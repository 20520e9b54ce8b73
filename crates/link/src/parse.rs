//! The written forms of rates, chances and durations, parsed once into types.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::Error;

/// Bytes a second; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

impl Rate {
    /// A rate of at least one byte a second.
    #[must_use]
    pub const fn bytes_per_second(bytes: u64) -> Self {
        Self(if bytes == 0 { 1 } else { bytes })
    }

    /// Bytes a second.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// How many bytes pass in `time`.
    #[must_use]
    pub(crate) fn bytes_in(self, time: Duration) -> u64 {
        u64::try_from(u128::from(self.0) * time.as_nanos() / 1_000_000_000).unwrap_or(u64::MAX)
    }

    /// How long `bytes` take.
    #[must_use]
    pub(crate) fn time_of(self, bytes: u64) -> Duration {
        Duration::from_nanos(
            u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(self.0)).unwrap_or(u64::MAX),
        )
    }
}

/// Network units first, for they are decimal and counted in bits: `600Mbit`, `1Gbit`; then bytes: `400MB`, `8MiB`, `1000`.
/// A trailing `/s` is allowed.
const RATE_UNITS: [(&str, f64); 14] = [
    ("kbit", 125.0),
    ("mbit", 125e3),
    ("gbit", 125e6),
    ("bit", 0.125),
    ("kib", 1024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("k", 1e3),
    ("m", 1e6),
    ("g", 1e9),
    ("b", 1.0),
];

impl FromStr for Rate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let fail = || setting(text, "no rate; write for example 600Mbit, 400MB or 8MiB (a second)");
        let lower = text.trim().to_ascii_lowercase();
        let lower = lower.strip_suffix("/s").unwrap_or(&lower);
        let rate = number(lower, &RATE_UNITS, Some(1.0)).ok_or_else(fail)?;
        if (1.0..=1e15).contains(&rate) { Ok(Self(rate as u64)) } else { Err(fail()) }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{bytes} B/s"),
            1_000..1_000_000 => write!(f, "{} kB/s", bytes / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{} MB/s", bytes / 1e6),
            _ => write!(f, "{} GB/s", bytes / 1e9),
        }
    }
}

/// How likely something is, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Chance(f64);

impl Chance {
    /// It never happens.
    pub const NEVER: Self = Self(0.0);

    /// A probability, cut to 0..=1.
    #[must_use]
    pub const fn new(probability: f64) -> Self {
        Self(probability.clamp(0.0, 1.0))
    }

    /// From 0 to 1.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl FromStr for Chance {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let chance = number(text.trim(), &[("%", 0.01)], Some(1.0));
        chance
            .filter(|c| (0.0..=1.0).contains(c))
            .map(Self)
            .ok_or_else(|| setting(text, "no probability; write for example 2% or 0.02"))
    }
}

/// Something that holds a request up: how likely, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Hold {
    /// How likely.
    pub chance: Chance,
    /// For how long.
    pub duration: Duration,
}

impl FromStr for Hold {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (chance, duration) = text
            .split_once(':')
            .ok_or_else(|| setting(text, "no pair of probability and duration; write for example 2%:5s"))?;
        Ok(Self { chance: chance.parse()?, duration: parse_duration(duration)? })
    }
}

/// Reads `20ms`, `1.5s`, `800us`, `2m` or `0`.
///
/// # Errors
/// [`Error::Setting`] where it is none, or is longer than a day.
pub fn parse_duration(text: &str) -> Result<Duration, Error> {
    let lower = text.trim().to_ascii_lowercase();
    let zero = (lower == "0").then_some(0.0);
    let seconds =
        zero.or_else(|| number(&lower, &[("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0)], None));
    let seconds = seconds.filter(|s| *s <= 86_400.0);
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| setting(text, "no duration; write for example 20ms or 5s"))
}

/// A number followed by one of `units`; a bare one counts as `bare` says. The first unit that fits wins.
fn number(text: &str, units: &[(&str, f64)], bare: Option<f64>) -> Option<f64> {
    let unit = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (digits, factor) = unit.or_else(|| Some((text, bare?)))?;
    let digits = digits.trim_end();
    // `parse` would also take "inf", "nan", signs and exponents.
    if !digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    Some(digits.parse::<f64>().ok()? * factor)
}

fn setting(value: &str, why: &'static str) -> Error {
    Error::Setting { value: value.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_bits_or_bytes_as_their_unit_says() {
        let bytes = |text: &str| text.parse::<Rate>().unwrap().get();
        assert_eq!(bytes("600Mbit"), 75_000_000);
        assert_eq!(bytes("0.6 Gbit/s"), 75_000_000);
        assert_eq!(bytes("400MB"), 400_000_000);
        assert_eq!(bytes("8MiB"), 8 << 20);
        assert_eq!(bytes("1k"), 1_000);
        assert_eq!(bytes("1234"), 1_234);
    }

    #[test]
    fn what_is_no_rate_is_refused_with_the_text_in_the_error() {
        for text in ["", "fast", "-1MB", "0", "1e9", "inf", "MB", "1.2.3MB", "0.1bit"] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn holds_are_a_chance_and_a_duration() {
        let hold: Hold = "2%:5s".parse().unwrap();
        assert_eq!(hold, Hold { chance: Chance::new(0.02), duration: Duration::from_secs(5) });
        for text in ["2%", "5s", "200%:1s", "2%:", ":5s", "2%:5"] {
            assert!(text.parse::<Hold>().is_err(), "{text}");
        }
    }

    #[test]
    fn durations_carry_a_unit_but_for_zero() {
        assert_eq!(parse_duration("20ms").unwrap(), Duration::from_millis(20));
        assert_eq!(parse_duration("1.5s").unwrap(), Duration::from_millis(1500));
        assert_eq!(parse_duration("0").unwrap(), Duration::ZERO);
        for text in ["20", "ms", "-1s", "9999m"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn time_and_bytes_of_a_rate_are_inverse() {
        let rate = Rate::bytes_per_second(75_000_000);
        assert_eq!(rate.bytes_in(Duration::from_millis(10)), 750_000);
        assert_eq!(rate.time_of(750_000), Duration::from_millis(10));
        assert_eq!(Rate::bytes_per_second(0).get(), 1);
    }
}
