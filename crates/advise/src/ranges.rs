//! Widths of the ranges of predictions, derived from the errors in the table of graded measurements
//! (`measured.toml`).
//!
//! Each factor is for one kind of limit: 8 of 10 measurements with that limit lie between the
//! prediction divided by the factor and the prediction multiplied by it. A test recomputes the
//! factors from the fitted rows. A factor covers the worst row of each of 9 of 10 sources, without
//! the rows from which a figure of a model was taken. Rows that are reserved for testing do not
//! count. Called by the advice.

use crate::limits::Limit;

/// The factor of a limit whose fitted rows come from fewer than [`SOURCES`] sources. Determined by
/// all fitted rows together.
pub const POOLED: f64 = 1.5;

/// Minimum number of sources with which a limit has a factor of its own.
pub const SOURCES: usize = 5;

/// The smallest factor. No prediction is claimed to be more accurate.
pub const LEAST: f64 = 1.15;

/// The limits that have a factor of their own.
pub const FACTORS: [(Limit, f64); 2] = [(Limit::Connection, 1.62), (Limit::ClientNetwork, 1.22)];

/// Returns the factor by which a prediction is divided and multiplied to get its range, if this
/// limit determines the prediction.
#[must_use]
pub fn factor(limit: Limit) -> f64 {
    FACTORS.iter().find(|(known, _)| *known == limit).map_or(POOLED, |(_, factor)| *factor)
}
