//! Parses sizes, rates and durations: `64MiB`, `100Mbit`, `1.5h`. All options, variables and
//! arguments share this grammar.
//!
//! A value is a number, with or without a decimal point, and a unit. Letter case does not matter.
//! - **Sizes**: `B`; `KB MB GB TB PB` are powers of 1000; `KiB MiB GiB TiB PiB` and bare `K M G T
//!   P` are powers of 1024, as in `dd`, `curl` and rclone. Without a unit: bytes.
//! - **Rates**: a size per second, with or without `/s`; or `bit kbit Mbit Gbit`, powers of 1000.
//! - **Durations**: `us ms s m min h d`. Without a unit: seconds. The maximum is a hundred years.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Maximum duration: a hundred years. Adding it to the current time does not overflow.
const MAX_DURATION: Duration = Duration::from_secs(36_500 * 86_400);

/// The error for a text that is not a valid size, rate or duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {kind}; write for example {example}")]
pub struct UnitError {
    text: String,
    kind: Kind,
    example: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Size,
    Rate,
    Duration,
    PositiveDuration,
}

impl Kind {
    fn refuse(self, text: &str) -> UnitError {
        let example = match self {
            Self::Size => "64MiB, 5GB or 1048576",
            Self::Rate => "600Mbit, 40MB or 8MiB (per second)",
            Self::Duration | Self::PositiveDuration => "500ms, 30s, 5m, 2h or 7d, at most 36500d",
        };
        UnitError { text: text.trim().to_owned(), kind: self, example }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Size => "size",
            Self::Rate => "rate",
            Self::Duration => "duration",
            Self::PositiveDuration => "duration above zero",
        })
    }
}

/// Parses a size, in bytes: `1048576`, `64MiB`, `5GB`, `1.5G`.
///
/// # Errors
/// [`UnitError`], also for a size above 2^64 - 1.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    let refuse = || Kind::Size.refuse(text);
    let (number, unit) = split(text).ok_or_else(refuse)?;
    let factor = bytes_per_unit(&unit).ok_or_else(refuse)?;
    round_down(number * factor).ok_or_else(refuse)
}

/// Parses a rate, in bytes per second: `100Mbit`, `40MB`, `8MiB/s`.
///
/// # Errors
/// [`UnitError`], also for a rate below 1 or above 2^64 - 1.
pub fn parse_rate(text: &str) -> Result<u64, UnitError> {
    let refuse = || Kind::Rate.refuse(text);
    let lower = text.trim().to_ascii_lowercase();
    let (number, unit) = split(lower.strip_suffix("/s").unwrap_or(&lower)).ok_or_else(refuse)?;
    let factor = match unit.as_str() {
        "bit" => 1.0 / 8.0,
        "kbit" => 1e3 / 8.0,
        "mbit" => 1e6 / 8.0,
        "gbit" => 1e9 / 8.0,
        _ => bytes_per_unit(&unit).ok_or_else(refuse)?,
    };
    round_down(number * factor).filter(|rate| *rate > 0).ok_or_else(refuse)
}

/// Parses a duration: `500ms`, `30s`, `30` (seconds), `5m`, `2h`, `7d`.
///
/// # Errors
/// [`UnitError`].
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let refuse = || Kind::Duration.refuse(text);
    let (number, unit) = split(text).ok_or_else(refuse)?;
    let seconds = match unit.as_str() {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(refuse()),
    };
    duration(number * seconds).map_err(|_| refuse())
}

/// Converts a number of seconds to a duration.
///
/// # Errors
/// The number is negative, NaN, or more than a hundred years.
pub fn duration(seconds: f64) -> Result<Duration, UnitError> {
    let duration = Duration::try_from_secs_f64(seconds).ok().filter(|duration| *duration <= MAX_DURATION);
    duration.ok_or_else(|| Kind::Duration.refuse(&format!("{seconds} s")))
}

/// A duration above zero. Serves as a time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PositiveDuration(Duration);

impl PositiveDuration {
    /// Returns the duration.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.0
    }

    /// Converts a number of seconds.
    ///
    /// # Errors
    /// [`UnitError`]: the errors of [`duration`], and zero.
    pub fn from_seconds(seconds: f64) -> Result<Self, UnitError> {
        Self::new(duration(seconds)?, &format!("{seconds} s"))
    }

    fn new(duration: Duration, text: &str) -> Result<Self, UnitError> {
        if duration.is_zero() { Err(Kind::PositiveDuration.refuse(text)) } else { Ok(Self(duration)) }
    }
}

impl FromStr for PositiveDuration {
    type Err = UnitError;

    /// Parses a duration like [`parse_duration`], but refuses zero.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        Self::new(parse_duration(text)?, text)
    }
}

/// Splits a text into a number and a unit, which is converted to lower case. Refuses signs,
/// exponents and `inf`.
fn split(text: &str) -> Option<(f64, String)> {
    let text = text.trim();
    let cut = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(cut);
    Some((number.parse().ok()?, unit.trim().to_ascii_lowercase()))
}

/// Returns the number of bytes in one `unit`, which must be in lower case.
fn bytes_per_unit(unit: &str) -> Option<f64> {
    let (prefix, base) = match unit {
        "" | "b" => return Some(1.0),
        _ if unit.ends_with("ib") => (unit.strip_suffix("ib")?, 1024.0_f64),
        _ if unit.ends_with('b') => (unit.strip_suffix('b')?, 1000.0),
        _ => (unit, 1024.0),
    };
    let power = ["k", "m", "g", "t", "p"].iter().position(|p| *p == prefix)?;
    Some(base.powi(i32::try_from(power).ok()? + 1))
}

/// Rounds down to an integer. `None` if `value` is negative or too large.
fn round_down(value: f64) -> Option<u64> {
    // The upper bound is 2^64, the first value that does not fit.
    let fits = (0.0..18_446_744_073_709_551_616.0).contains(&value);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was checked")]
    fits.then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024_unless_written_with_a_plain_b() {
        for (text, bytes) in [
            ("64MiB", 64 << 20),
            ("1.5G", 3 << 29),
            ("1k", 1 << 10),
            ("5GB", 5_000_000_000),
            ("1048576", 1 << 20),
            (" 10 kb ", 10_000),
            ("0", 0),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "64 apples", "-1", "1e9", "inf", "MB", "1.2.3MB", "99999999P", "8Mbit", "5MB/s"] {
            let error = parse_size(text).unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("64MiB"), "{error}");
        }
    }

    #[test]
    fn rates_are_sizes_per_second_or_bits() {
        for (text, bytes) in [
            ("600Mbit", 75_000_000),
            ("0.6 Gbit/s", 75_000_000),
            ("400MB", 400_000_000),
            ("8MiB/s", 8 << 20),
            ("1k", 1 << 10),
            ("3M", 3 << 20),
            ("1234", 1_234),
        ] {
            assert_eq!(parse_rate(text), Ok(bytes), "{text}");
        }
        for text in ["", "fast", "-1MB", "0", "inf", "0.1bit", "8Mbits", "1GB/h"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_size_and_a_rate_of_the_same_text_are_the_same_number() {
        for text in ["7", "7b", "7k", "7kb", "7kib", "7m", "7mb", "7mib", "7g", "7gb", "7gib", "7t", "7p"] {
            assert_eq!(parse_size(text).unwrap(), parse_rate(text).unwrap(), "{text}");
        }
    }

    #[test]
    fn a_limit_is_above_zero() {
        assert_eq!("1us".parse().map(PositiveDuration::get), Ok(Duration::from_micros(1)));
        assert_eq!(PositiveDuration::from_seconds(0.5).unwrap().get(), Duration::from_millis(500));
        for text in ["0", "0s", "0.0ms", "0.0001us", "-1s", "never"] {
            let error = text.parse::<PositiveDuration>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}` is not a duration")), "{error}");
        }
        assert!("0".parse::<PositiveDuration>().unwrap_err().to_string().contains("above zero"));
        assert!(
            PositiveDuration::from_seconds(0.0).is_err() && PositiveDuration::from_seconds(-1.0).is_err()
        );
    }

    #[test]
    fn durations_need_a_known_unit_and_default_to_seconds() {
        for (text, milliseconds) in [
            ("500ms", 500),
            ("30", 30_000),
            ("1.5s", 1_500),
            ("5m", 300_000),
            ("1min", 60_000),
            ("7D", 604_800_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        assert_eq!(parse_duration("36500d"), Ok(MAX_DURATION));
        for text in ["", "ms", "-1s", "3 moons", "36501d", "9999999999999999999"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert!(duration(f64::NAN).is_err() && duration(-1.0).is_err() && duration(f64::INFINITY).is_err());
    }
}
