//! The factors that turn a prediction into a range: from the prediction divided by the factor to
//! the prediction multiplied by it. Two limits have a factor of their own; all others share a
//! factor.
//!
//! A factor is the smallest that covers the worst fitted row of 9 of 10 sources in the table of
//! graded measurements (`measured.toml`). Rows from which a figure of a model was taken, and rows
//! that are reserved for testing, do not count. A test (`tests/graded.rs`) recomputes the factors,
//! and checks that 8 of 10 reserved rows lie within their range. Called by the advice.

use crate::limits::Limit;

/// The factor of a limit whose fitted rows come from fewer than [`MIN_SOURCES`] sources. Determined
/// by all fitted rows together.
pub const POOLED_FACTOR: f64 = 1.5;

/// Minimum number of sources with which a limit has a factor of its own.
pub const MIN_SOURCES: usize = 5;

/// The smallest factor. No prediction is claimed to be more accurate.
pub const MIN_FACTOR: f64 = 1.15;

/// The limits that have a factor of their own.
pub const LIMIT_FACTORS: [(Limit, f64); 2] = [(Limit::Connection, 1.62), (Limit::ClientNetwork, 1.22)];

/// Returns the factor by which a prediction is divided and multiplied to get its range, if this
/// limit determines the prediction.
#[must_use]
pub fn factor(limit: Limit) -> f64 {
    LIMIT_FACTORS.iter().find(|(known, _)| *known == limit).map_or(POOLED_FACTOR, |(_, factor)| *factor)
}
