//! The written forms of chances and holds, parsed once into types; rates and durations are `location::units`'.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use firstbyte_location::units;

use crate::Error;

/// Longest duration of a link's settings.
const LONGEST: Duration = Duration::from_secs(86_400);

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

impl FromStr for Rate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Ok(Self::bytes_per_second(units::parse_rate(text)?))
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

/// Reads a duration of at most a day.
///
/// # Errors
/// [`Error::Unit`] where it is none, [`Error::Setting`] where it is longer.
pub fn parse_duration(text: &str) -> Result<Duration, Error> {
    let duration = units::parse_duration(text)?;
    if duration > LONGEST { Err(setting(text, "longer than a day")) } else { Ok(duration) }
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
    fn holds_are_a_chance_and_a_duration() {
        let hold: Hold = "2%:5s".parse().unwrap();
        assert_eq!(hold, Hold { chance: Chance::new(0.02), duration: Duration::from_secs(5) });
        for text in ["2%", "5s", "200%:1s", "2%:", ":5s", "2%:5 moons"] {
            assert!(text.parse::<Hold>().is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_of_the_one_grammar_and_at_most_a_day() {
        assert_eq!(parse_duration("20ms").unwrap(), Duration::from_millis(20));
        assert_eq!(parse_duration("20").unwrap(), Duration::from_secs(20));
        for text in ["ms", "-1s", "9999m"] {
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
