//! Formats sizes for people: `1.50 KiB`. Parsing is in `location::units`.

use std::fmt::Write as _;

/// The largest whole number of bytes that is not above `value`, which is a size or a rate: not
/// below 0.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "there is no sign to lose, and `as` saturates"
)]
pub fn whole(value: f64) -> u64 {
    value as u64
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
    fn people_see_three_digits() {
        assert_eq!(human(512), "512 B");
        assert_eq!(human(1536), "1.50 KiB");
        assert_eq!(human(1 << 30), "1.00 GiB");
        assert_eq!(human(1000 << 20), "0.98 GiB");
    }
}
