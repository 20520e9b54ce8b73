//! Formats sizes, rates and counts for people, such as `1.50 KiB`. `location::units` parses sizes.

/// Rounds a size or a rate down to a whole number. `value` must not be negative.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "there is no sign to lose, and `as` saturates"
)]
pub fn whole(value: f64) -> u64 {
    value as u64
}

/// Formats a size for people: three digits and a binary unit.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub fn human(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        _ => scaled(bytes as f64, 1024.0, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]),
    }
}

/// Formats a rate in bytes per second for people: three digits and a binary unit.
#[must_use]
pub fn human_rate(bytes_per_second: f64) -> String {
    scaled(bytes_per_second, 1024.0, ["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s", "PiB/s"])
}

/// Formats a count for people, with a comma between thousands.
#[must_use]
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// Formats a value with three digits and the largest unit that leaves a digit before the point.
fn scaled(mut value: f64, step: f64, units: [&str; 6]) -> String {
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {}", units[unit])
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
        assert_eq!(human_rate(1.014e9), "967 MiB/s");
        assert_eq!(human_rate(28_500_000.0), "27.2 MiB/s");
        assert_eq!(human_rate(1_048_000.0), "1.00 MiB/s");
    }

    #[test]
    fn thousands_are_separated() {
        let all = [0, 7, 999, 1000, 1_234_567].map(grouped);
        assert_eq!(all, ["0", "7", "999", "1,000", "1,234,567"]);
    }
}
