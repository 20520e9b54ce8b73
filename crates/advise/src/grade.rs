//! Grades predictions against measured times: the error of each, the median error, and the part of
//! the ranges that hold. Called by `advise grade` for receipts.

use serde::Serialize;

/// A prediction and its measurement, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Graded {
    /// Measured.
    pub seconds: f64,
    /// Predicted.
    pub predicted: f64,
    /// Low and high end of the prediction; without one it holds nothing.
    pub range: Option<[f64; 2]>,
}

impl Graded {
    /// The relative error: above zero if the prediction is too long.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.predicted / self.seconds - 1.0
    }

    /// True if the measurement is within the range.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.range.is_some_and(|[low, high]| (low..=high).contains(&self.seconds))
    }
}

/// All predictions together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Grade {
    /// Number of predictions.
    pub count: usize,
    /// Median of the errors without their signs.
    pub median_error: f64,
    /// Measurements within their ranges.
    pub held: usize,
    /// Median of high by low; `None` without ranges.
    pub width: Option<f64>,
}

/// The grade of `all`; `None` of none.
#[must_use]
pub fn grade(all: &[Graded]) -> Option<Grade> {
    Some(Grade {
        count: all.len(),
        median_error: median(all.iter().map(|one| one.error().abs()).collect())?,
        held: all.iter().filter(|one| one.is_held()).count(),
        width: median(all.iter().filter_map(|one| one.range).map(|[low, high]| high / low).collect()),
    })
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let last = *values.get(middle)?;
    Some(if values.len() % 2 == 1 { last } else { f64::midpoint(values[middle - 1], last) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_relative_and_a_prediction_without_a_range_holds_nothing() {
        let one = |seconds, predicted, range| Graded { seconds, predicted, range };
        let all = [one(2.0, 2.2, Some([1.8, 2.7])), one(2.0, 1.0, Some([0.8, 1.2])), one(4.0, 4.0, None)];
        let found = grade(&all).unwrap();
        assert!((found.median_error - 0.1).abs() < 1e-9 && found.count == 3 && found.held == 1, "{found:?}");
        assert!((found.width.unwrap() - 1.5).abs() < 1e-9);
        assert_eq!(grade(&[]), None);
    }
}
