//! Formats quantities for display, in a suitable unit and mostly with three significant digits. A
//! number of 1000 or more keeps all digits before the point, and bytes below 1 kB are whole.

/// Formats a size in decimal units: `2.20 GB`.
#[must_use]
pub fn shown_bytes(bytes: f64) -> String {
    const UNITS: [(f64, &str); 5] = [(1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let fitting = UNITS.iter().find(|(size, _)| bytes >= *size * 0.9995);
    fitting.map_or_else(
        || format!("{} B", bytes.round()),
        |(size, name)| format!("{} {name}", significant(bytes / size)),
    )
}

/// Formats a duration: `48 ms`, `69.2 s`, `19.0 min`, `10.5 h`.
#[must_use]
pub fn shown_seconds(seconds: f64) -> String {
    match seconds {
        s if s < 0.9995 => format!("{} ms", significant(s * 1e3)),
        s if s < 600.0 => format!("{} s", significant(s)),
        s if s < 7_200.0 => format!("{} min", significant(s / 60.0)),
        s if s < 172_800.0 => format!("{} h", significant(s / 3_600.0)),
        s => format!("{} d", significant(s / 86_400.0)),
    }
}

/// Formats a number with three significant digits, without an exponent. A larger number keeps all
/// digits before the point.
#[must_use]
pub fn significant(value: f64) -> String {
    let size = value.abs();
    // A number that is rounded up to a power of ten gets the number of decimals of that power.
    let decimals = if size == 0.0 { 0.0 } else { (2.0 - (size * 1.000_51).log10().floor()).clamp(0.0, 12.0) };
    format!("{value:.0$}", decimals as usize)
}

/// Formats a count, without decimals if it is a whole number.
#[must_use]
pub fn count(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 { format!("{value}") } else { significant(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_fitting_unit() {
        assert_eq!(shown_bytes(2.2e9), "2.20 GB");
        assert_eq!(shown_bytes(999.6e6), "1.00 GB");
        assert_eq!(shown_bytes(12.0), "12 B");
        assert_eq!(shown_seconds(0.048), "48.0 ms");
        assert_eq!(shown_seconds(69.21), "69.2 s");
        assert_eq!(shown_seconds(1_140.0), "19.0 min");
        assert_eq!(shown_seconds(37_935.0), "10.5 h");
        assert_eq!([3.0, 0.5].map(count), ["3", "0.500"]);
        let values = [0.0, 0.000_011_44, 0.0996, 0.099_96, 0.9996, 9.996, 99.96, 1234.5];
        let shown = ["0", "0.0000114", "0.0996", "0.100", "1.00", "10.0", "100", "1234"];
        assert_eq!(values.map(significant), shown);
    }
}
