//! Sizes and durations as people write them: `64MiB`, `5GB`, `1.5h`. Rates are parsed by the link crate.
//!
//! Units with an `i`, and bare `K`, `M`, `G`, `T`, are powers of 1024, as `dd` and rclone have it; `KB` and `MB` are
//! powers of 1000, as disks are sold.

use std::fmt::Write as _;
use std::time::Duration;

/// A number and the unit behind it.
fn split(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let cut = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(cut);
    let number = number.parse().map_err(|_| format!("`{text}` does not begin with a number"))?;
    Ok((number, unit.trim()))
}

/// Bytes in one of `unit`; `None` for a unit nobody knows.
fn bytes_per_unit(unit: &str) -> Option<f64> {
    let lower = unit.to_ascii_lowercase();
    let (prefix, base) = match lower.as_str() {
        "" | "b" => return Some(1.0),
        _ if lower.ends_with("ib") => (lower.strip_suffix("ib")?, 1024.0_f64),
        _ if lower.ends_with('b') => (lower.strip_suffix('b')?, 1000.0),
        _ => (lower.as_str(), 1024.0),
    };
    let power = ["k", "m", "g", "t", "p"].iter().position(|p| *p == prefix)?;
    Some(base.powi(i32::try_from(power).ok()? + 1))
}

/// The largest whole number of bytes that is not above `value`, which is a size or a rate: not below 0.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "there is no sign to lose, and `as` saturates"
)]
pub fn whole(value: f64) -> u64 {
    value as u64
}

/// Parses a size in bytes: `1048576`, `64MiB`, `5GB`, `1.5G`.
///
/// # Errors
/// What is wrong with it, and how to write one.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let factor = bytes_per_unit(unit)
        .ok_or_else(|| format!("`{unit}` is no unit of size; write for example 64MiB, 5GB or 1048576"))?;
    Ok(whole(number * factor))
}

/// The longest duration taken, a hundred years: a clock's time and any such duration add up without overflow.
const LONGEST: Duration = Duration::from_secs(36_500 * 86_400);

/// A number of seconds as a duration.
///
/// # Errors
/// It is negative, no number, or more than a hundred years.
pub fn duration(seconds: f64) -> Result<Duration, String> {
    let duration = Duration::try_from_secs_f64(seconds).ok().filter(|duration| *duration <= LONGEST);
    duration.ok_or_else(|| format!("{seconds} s is no duration between 0 and 100 years (36500d)"))
}

/// Parses a duration: `500ms`, `30s`, `30` (seconds), `5m`, `2h`, `7d`.
///
/// # Errors
/// What is wrong with it, and how to write one.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text)?;
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(format!("`{unit}` is no unit of time; write for example 500ms, 30s, 5m, 2h or 7d")),
    };
    duration(number * seconds).map_err(|_| format!("`{text}` is too long; the longest duration is 36500d"))
}

/// A size for people: three digits and a binary unit.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub fn human(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64 / 1024.0, 0);
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write!(out, "{value:.digits$} {}", UNITS[unit]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_with_an_i_or_bare_and_decimal_with_a_plain_b() {
        assert_eq!(parse_size("64MiB"), Ok(64 << 20));
        assert_eq!(parse_size("1.5G"), Ok(3 << 29));
        assert_eq!(parse_size("5GB"), Ok(5_000_000_000));
        assert_eq!(parse_size("1048576"), Ok(1 << 20));
        assert_eq!(parse_size("10 kb"), Ok(10_000));
        assert!(parse_size("64 apples").unwrap_err().contains("apples"));
        assert!(parse_size("").is_err());
        assert!(parse_size("-1").is_err());
    }

    #[test]
    fn durations_need_a_known_unit_and_default_to_seconds() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("30"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_duration("7d"), Ok(Duration::from_secs(604_800)));
        assert_eq!(parse_duration("36500d"), Ok(LONGEST));
        assert!(parse_duration("36501d").unwrap_err().contains("36500d"));
        assert!(parse_duration("9999999999999999999").is_err());
        assert!(duration(f64::NAN).is_err() && duration(-1.0).is_err() && duration(f64::INFINITY).is_err());
        assert!(parse_duration("3 moons").is_err());
        assert!(parse_duration("99999999999999999999d").is_err());
    }

    #[test]
    fn people_see_three_digits() {
        assert_eq!(human(512), "512 B");
        assert_eq!(human(1536), "1.50 KiB");
        assert_eq!(human(1 << 30), "1.00 GiB");
        assert_eq!(human(1000 << 20), "0.98 GiB");
    }
}
