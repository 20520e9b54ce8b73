//! Defines the settings of a link (round trip, rates, faults) and their text form.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use firstbyte_location::units;

use crate::error::Error;
use crate::rate::{BurstBucket, LinkRate};
use crate::replay::{Preset, Replay};
use crate::wait::WaitDistribution;

/// Maximum duration that a setting of a link accepts: one day.
const MAX_DURATION: Duration = Duration::from_secs(86_400);

/// The settings of a link. [`LinkConfig::new`] sets no faults and no limits.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// The address to listen on. Port 0 stands for any free port.
    pub listen: SocketAddr,
    /// The target, `HOST:PORT`. It is resolved once, at the start.
    pub to: String,
    /// Name of the emulated network, for display. Empty if it has no name.
    pub title: String,
    /// Round-trip time. Bytes arrive after half a round trip, and a connection opens after a whole
    /// one.
    pub rtt: Duration,
    /// Distribution of the time until a response begins. This time includes the round trip.
    pub wait: Option<WaitDistribution>,
    /// Rate of all connections together, in each direction.
    pub rate: Option<LinkRate>,
    /// Total rate and size of a burst above `rate`, in each direction.
    pub burst: Option<BurstBucket>,
    /// Rate of one connection, in each direction.
    pub per_connection: Option<LinkRate>,
    /// The faults and their probabilities.
    pub faults: Faults,
    /// Seed of the faults: the n-th request on the m-th connection has the same fault in every run.
    pub seed: u64,
}

/// The faults that a request may have, each with its own probability.
///
/// Each fault but a delay has a position in the response. The position is uniform over the length
/// of the response if the HTTP head states it. Otherwise a stall is at the start, and the position
/// of the other faults is log-uniform from 1 KiB to 64 MiB. A fault whose position the response
/// never reaches does not happen. Corruption and duplication spare the first 1 KiB, so the head
/// arrives intact.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// The response begins late by this duration.
    pub delay: RandomDelay,
    /// The response pauses for this duration: at the fault's position, or at the start if the
    /// length of the response is not known.
    pub stall: RandomDelay,
    /// The connection ends during the response, by a reset or a clean close with equal probability.
    pub cut: Chance,
    /// One bit of one byte is flipped.
    pub corrupt: Chance,
    /// A segment of the response is sent twice.
    pub duplicate: Chance,
}

impl LinkConfig {
    /// Returns settings without faults, delays and limits.
    #[must_use]
    pub fn new(listen: SocketAddr, to: impl Into<String>) -> Self {
        Self {
            listen,
            to: to.into(),
            title: String::new(),
            rtt: Duration::ZERO,
            wait: None,
            rate: None,
            burst: None,
            per_connection: None,
            faults: Faults::default(),
            seed: 0,
        }
    }

    /// Returns these settings with the delay and the rates of `preset`.
    #[must_use]
    pub fn with_preset(self, preset: Preset) -> Self {
        self.with_model(preset.replay())
    }

    /// Returns these settings with the delay and the rates of `replay`, a model.
    #[must_use]
    pub fn with_model(self, replay: Replay) -> Self {
        let Replay { title, rtt, wait, rate, burst, per_connection, .. } = replay;
        Self { title, rtt, wait, rate, burst, per_connection, ..self }
    }
}

impl fmt::Display for LinkConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = if self.title.is_empty() { "a network" } else { &self.title };
        write!(f, "stand-in for {title}: ")?;
        describe(f, self.rtt, self.rate, self.burst, self.per_connection, "a connection")
    }
}

/// Writes the settings that both forms of a link have. `one` is what the rate `each` applies to: "a
/// connection" or "a client".
pub(crate) fn describe(
    f: &mut fmt::Formatter<'_>,
    rtt: Duration,
    rate: Option<LinkRate>,
    burst: Option<BurstBucket>,
    each: Option<LinkRate>,
    one: &str,
) -> fmt::Result {
    write!(f, "round trip {rtt:?}")?;
    match rate {
        None => write!(f, ", no total rate")?,
        Some(rate) => write!(f, ", {rate} in all")?,
    }
    burst.map_or(Ok(()), |burst| write!(f, " after a burst of {burst}"))?;
    each.map_or(Ok(()), |rate| write!(f, ", {rate} {one}"))
}

/// A probability from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Chance(f64);

impl Chance {
    /// Returns a probability, clamped to 0..=1.
    #[must_use]
    pub const fn new(probability: f64) -> Self {
        Self(probability.clamp(0.0, 1.0))
    }

    /// Returns the value, from 0 to 1.
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
            .ok_or_else(|| setting(text, "not a probability; write for example 2% or 0.02"))
    }
}

/// A delay that each request has with some probability.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RandomDelay {
    /// The probability of the delay.
    pub chance: Chance,
    /// The duration of the delay.
    pub duration: Duration,
}

impl FromStr for RandomDelay {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (chance, duration) = text
            .split_once(':')
            .ok_or_else(|| setting(text, "not a probability and a duration; write for example 2%:5s"))?;
        Ok(Self { chance: chance.parse()?, duration: parse_duration(duration)? })
    }
}

/// Parses a duration of up to one day.
///
/// # Errors
/// [`Error::Unit`] if the text is malformed, [`Error::Setting`] if the duration is longer than a
/// day.
pub fn parse_duration(text: &str) -> Result<Duration, Error> {
    let duration = units::parse_duration(text)?;
    if duration > MAX_DURATION { Err(setting(text, "longer than a day")) } else { Ok(duration) }
}

/// Parses a number followed by a unit. Of `units`, the first that matches counts. `bare` is the
/// factor of a number without a unit.
fn number(text: &str, units: &[(&str, f64)], bare: Option<f64>) -> Option<f64> {
    let unit = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (digits, factor) = unit.or_else(|| Some((text, bare?)))?;
    let digits = digits.trim_end();
    // `parse` would also accept "inf", "nan", signs and exponents.
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
    fn a_random_delay_is_written_as_probability_and_duration() {
        let hold: RandomDelay = "2%:5s".parse().unwrap();
        assert_eq!(hold, RandomDelay { chance: Chance::new(0.02), duration: Duration::from_secs(5) });
        for text in ["2%", "5s", "200%:1s", "2%:", ":5s", "2%:5 moons"] {
            assert!(text.parse::<RandomDelay>().is_err(), "{text}");
        }
    }

    #[test]
    fn durations_have_units_and_are_at_most_a_day() {
        assert_eq!(parse_duration("20ms").unwrap(), Duration::from_millis(20));
        assert_eq!(parse_duration("20").unwrap(), Duration::from_secs(20));
        for text in ["ms", "-1s", "9999m"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
