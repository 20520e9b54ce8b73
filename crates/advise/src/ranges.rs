//! Widths of predictions, from the residuals of the graded table (`measured.toml`).
//!
//! A factor holds for one kind of limit: measurements of that kind lie between the prediction
//! divided by it and multiplied by it, 8 of 10 times. A test recomputes the factors: each holds the
//! worst fitted row of 9 of 10 sources, without rows that gave a model its figure. Test rows decide
//! none. Called by the advice.

use crate::limits::Limit;

/// The factor of a limit with fitted rows from fewer sources than [`SOURCES`]: that of all rows
/// together.
pub const POOLED: f64 = 1.5;

/// Sources that a factor of its own takes.
pub const SOURCES: usize = 5;

/// The smallest factor: no prediction is that sure.
pub const LEAST: f64 = 1.15;

/// Factors by limit.
pub const FACTORS: [(Limit, f64); 2] = [(Limit::Connection, 1.62), (Limit::ClientNetwork, 1.22)];

/// The factor by which a prediction with this limit is widened, both ways.
#[must_use]
pub fn factor(limit: Limit) -> f64 {
    FACTORS.iter().find(|(known, _)| *known == limit).map_or(POOLED, |(_, factor)| *factor)
}
