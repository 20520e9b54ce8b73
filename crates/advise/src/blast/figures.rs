//! Formats numbers for the text of the worked example: commas between thousands, and ranges.

/// `value` with `digits` decimals, and commas between thousands.
pub(super) fn grouped(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, part) = text.split_once('.').map_or((text.as_str(), ""), |(whole, part)| (whole, part));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |whole| ("-", whole));
    let mut out = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if !part.is_empty() {
        out.push('.');
        out.push_str(part);
    }
    out
}

/// Whole numbers of a range, from the smaller: `1,138 to 1,165`.
pub(super) fn range(values: [f64; 2]) -> String {
    let [least, most] = sorted(values);
    format!("{} to {}", grouped(least, 0), grouped(most, 0))
}

/// The smaller one first.
pub(super) fn sorted([a, b]: [f64; 2]) -> [f64; 2] {
    [a.min(b), a.max(b)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_have_commas() {
        for (value, digits, text) in [
            (0.346, 2, "0.35"),
            (999.4, 0, "999"),
            (1_000.0, 0, "1,000"),
            (-1_234_567.891, 1, "-1,234,567.9"),
        ] {
            assert_eq!(grouped(value, digits), text);
        }
        assert_eq!(range([1_165.02, 1_137.7]), "1,138 to 1,165");
    }
}
