//! Parses quantities from text: a number and a unit, with or without a space, such as `254 GiB`,
//! `30 min`, `50 USD/h`, `0.6 Gbit/s`. A number without a unit is an error.
//!
//! The sizes `K`, `M` and `G` alone are refused, unlike in the options of other verbs
//! (`location::units`), because a bill depends on whether they mean powers of 1000 or of 1024.

use super::{Bytes, Dollars, DollarsPerHour, Rate, Seconds};

/// The error for a text that is not a quantity of the expected kind. It states the mistake and a
/// valid example.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct QuantityError(String);

/// A kind of quantity: its name, an example, and the factor of each unit.
struct QuantityKind {
    name: &'static str,
    example: &'static str,
    factor: fn(&str) -> Option<f64>,
}

/// Parses a size: `B`; `kB MB GB TB PB` are powers of 1000, `KiB MiB GiB TiB PiB` of 1024.
///
/// # Errors
/// [`QuantityError`].
pub fn bytes(text: &str) -> Result<Bytes, QuantityError> {
    read(text, &QuantityKind { name: "size", example: "254 GiB", factor: size_factor }).map(Bytes)
}

/// Parses a rate: a size per second, or `Gbit/s`, `Mbit/s`, `kbit/s`.
///
/// # Errors
/// [`QuantityError`].
pub fn rate(text: &str) -> Result<Rate, QuantityError> {
    read(text, &QuantityKind { name: "rate", example: "0.6 Gbit/s", factor: rate_factor }).map(Rate)
}

/// Parses a duration: `us ms s min h d`.
///
/// # Errors
/// [`QuantityError`].
pub fn seconds(text: &str) -> Result<Seconds, QuantityError> {
    read(text, &QuantityKind { name: "duration", example: "30 min", factor: time_factor }).map(Seconds)
}

/// Parses an amount of money: `5 USD`.
///
/// # Errors
/// [`QuantityError`].
pub fn money(text: &str) -> Result<Dollars, QuantityError> {
    let factor = |unit: &str| (unit == "usd").then_some(1.0);
    read(text, &QuantityKind { name: "sum of money", example: "5 USD", factor }).map(Dollars)
}

/// Parses money per hour: `50 USD/h`.
///
/// # Errors
/// [`QuantityError`].
pub fn money_per_hour(text: &str) -> Result<DollarsPerHour, QuantityError> {
    let factor = |unit: &str| (unit == "usd/h").then_some(1.0);
    read(text, &QuantityKind { name: "price of an hour", example: "50 USD/h", factor }).map(DollarsPerHour)
}

fn read(text: &str, kind: &QuantityKind) -> Result<f64, QuantityError> {
    let text = text.trim();
    let QuantityKind { name, example, factor } = kind;
    let unknown = || QuantityError(format!("`{text}` is not a {name}; write for example \"{example}\""));
    if let Some(rest) = text.strip_prefix('-') {
        let negative = rest.starts_with(|first: char| first.is_ascii_digit());
        return Err(if negative { QuantityError(format!("`{text}` is negative")) } else { unknown() });
    }
    let cut = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '_')));
    let (number, unit) = text.split_at(cut.unwrap_or(text.len()));
    // Commas and underscores may group digits by three: "1,200 GiB".
    let number: f64 = without_grouping(number).and_then(|number| number.parse().ok()).ok_or_else(unknown)?;
    let unit = unit.trim();
    if unit.is_empty() {
        return Err(QuantityError(format!("`{text}` has no unit; write for example \"{example}\"")));
    }
    let upper = unit.to_ascii_uppercase();
    if *name == "size" && upper.len() == 1 && "KMGTP".contains(&upper) {
        return Err(QuantityError(format!("`{upper}` may mean {upper}B or {upper}iB: write one of them")));
    }
    let factor = factor(&unit.to_ascii_lowercase()).ok_or_else(unknown)?;
    Some(number * factor).filter(|value| value.is_finite()).ok_or_else(unknown)
}

/// Removes the separators between groups of digits; `None` if a group after the first does not have
/// three digits.
fn without_grouping(number: &str) -> Option<String> {
    let (whole, rest) = number.split_once('.').unwrap_or((number, ""));
    let mut groups = whole.split([',', '_']);
    groups.next()?;
    groups.all(|group| group.len() == 3).then(|| {
        let digits = whole.replace([',', '_'], "");
        if rest.is_empty() { digits } else { format!("{digits}.{rest}") }
    })
}

fn size_factor(unit: &str) -> Option<f64> {
    if unit == "b" {
        return Some(1.0);
    }
    let (prefix, base) = unit
        .strip_suffix("ib")
        .map(|prefix| (prefix, 1_024.0))
        .or_else(|| unit.strip_suffix('b').map(|prefix| (prefix, 1_000.0_f64)))?;
    let power = ["k", "m", "g", "t", "p"].iter().position(|known| *known == prefix)?;
    Some(base.powi(i32::try_from(power).ok()? + 1))
}

fn rate_factor(unit: &str) -> Option<f64> {
    match unit {
        "gbit/s" => Some(1e9 / 8.0),
        "mbit/s" => Some(1e6 / 8.0),
        "kbit/s" => Some(1e3 / 8.0),
        _ => size_factor(unit.strip_suffix("/s")?),
    }
}

fn time_factor(unit: &str) -> Option<f64> {
    Some(match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_required_and_must_be_clear() {
        assert_eq!(bytes("254").unwrap_err().to_string(), "`254` has no unit; write for example \"254 GiB\"");
        assert_eq!(bytes("5G").unwrap_err().to_string(), "`G` may mean GB or GiB: write one of them");
        assert_eq!(seconds("-3 s").unwrap_err().to_string(), "`-3 s` is negative");
        let unknown = "`3 GB` is not a duration; write for example \"30 min\"";
        assert_eq!(seconds("3 GB").unwrap_err().to_string(), unknown);
        assert!(["inf GB", "1,2 GB"].iter().all(|text| bytes(text).is_err()));
        assert!(bytes(&format!("1{} PiB", "0".repeat(400))).is_err());
    }

    #[test]
    fn each_kind_reads_its_units() {
        assert_eq!(bytes("1,200 GiB").unwrap().0, 1_200.0 * 1_073_741_824.0);
        assert_eq!(bytes("1.5kB").unwrap().0, 1_500.0);
        assert_eq!(rate("0.6 Gbit/s").unwrap().0, 75e6);
        assert_eq!(rate("1,500 MiB/s").unwrap().0, 1_500.0 * 1_048_576.0);
        assert_eq!(seconds("30 min").unwrap().0, 1_800.0);
        assert_eq!(money_per_hour("50 USD/h").unwrap().0, 50.0);
        assert_eq!(money("5USD").unwrap().0, 5.0);
    }
}
