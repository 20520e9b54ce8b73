//! Widths of the ranges of predictions, from the residuals of the graded table (`measured.toml`).
//!
//! A factor holds for one kind of limit: 8 of 10 such measurements lie between the prediction
//! divided by it and multiplied by it. A test recomputes the factors: each covers the worst fitted
//! row of 9 of 10 sources, without rows that gave a model its figure. Test rows do not count.
//! Called by the advice.

use crate::limits::Limit;

/// The factor of a limit whose fitted rows come from fewer than [`SOURCES`] sources. All rows
/// together determine it.
pub const POOLED: f64 = 1.5;

/// Least number of sources for a separate factor.
pub const SOURCES: usize = 5;

/// The smallest factor: no prediction is more certain.
pub const LEAST: f64 = 1.15;

/// Separate factors by limit.
pub const FACTORS: [(Limit, f64); 2] = [(Limit::Connection, 1.62), (Limit::ClientNetwork, 1.22)];

/// Returns how far a prediction with this limit is widened, both ways.
#[must_use]
pub fn factor(limit: Limit) -> f64 {
    FACTORS.iter().find(|(known, _)| *known == limit).map_or(POOLED, |(_, factor)| *factor)
}
