//! Computes max-min fair shares: all rates rise together until a resource is full. Jobs that need a
//! full resource keep their rate, and the other rates rise further.
//!
//! Fairness is measured in the bytes that each job gets. A phase that moves no bytes counts a
//! processor second as [`SECOND`] bytes, which matters only where such a phase and a reading one
//! share processors. Called by the simulator between two events.

use super::{Limit, Phase, Resource};

/// Bytes that a processor second counts for where a phase moves no bytes.
const SECOND: f64 = 2e8;

/// The rate of a group, and its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share {
    /// Phases per second.
    pub(super) rate: f64,
    /// The limit that determines the rate.
    pub(super) limit: Limit,
}

/// The shares of all groups; those without a phase get nothing.
pub(super) fn fair(phases: &[Option<&Phase>], resources: &[Resource], capacity: &[f64]) -> Vec<Share> {
    let mut shares = vec![Share { rate: 0.0, limit: Limit::Start }; phases.len()];
    let mut rising: Vec<usize> = (0..phases.len()).filter(|index| phases[*index].is_some()).collect();
    let mut left = capacity.to_vec();
    while !rising.is_empty() {
        let full = (0..resources.len()).map(|resource| {
            let need: f64 = rising.iter().map(|group| need(phases[*group], resource)).sum();
            if need > 0.0 { left[resource] / need } else { f64::INFINITY }
        });
        let (resource, level) = least(full);
        let (slowest, own) = least(rising.iter().map(|group| own_level(phases[*group])));
        let stopped = if own <= level {
            vec![rising[slowest]]
        } else {
            rising.iter().copied().filter(|group| need(phases[*group], resource) > 0.0).collect()
        };
        for group in stopped {
            let Some(phase) = phases[group] else { continue };
            let limit = if own <= level { phase.least.1 } else { resources[resource].limit };
            let rate = (own.min(level) / pace(phase)).max(f64::MIN_POSITIVE);
            shares[group] = Share { rate, limit };
            for (resource, amount) in &phase.needs {
                left[*resource] = (left[*resource] - amount * rate).max(0.0);
            }
            rising.retain(|other| *other != group);
        }
    }
    shares
}

/// Units of each resource that all groups together use in a second.
pub(super) fn used(phases: &[Option<&Phase>], shares: &[Share], resources: usize) -> Vec<f64> {
    let mut used = vec![0.0; resources];
    for (phase, share) in phases.iter().zip(shares) {
        for (resource, amount) in phase.iter().flat_map(|phase| &phase.needs) {
            used[*resource] += amount * share.rate;
        }
    }
    used
}

/// Bytes that a job moves in a whole phase.
fn pace(phase: &Phase) -> f64 {
    if phase.bytes > 0.0 { phase.bytes } else { SECOND * phase.least.0.max(1e-9) }
}

/// Units of a resource that a group needs at a level of one byte per second and job.
fn need(phase: Option<&Phase>, resource: usize) -> f64 {
    let Some(phase) = phase else { return 0.0 };
    let amount: f64 =
        phase.needs.iter().filter(|(index, _)| *index == resource).map(|(_, amount)| amount).sum();
    amount / pace(phase)
}

/// The level that a group's least time allows.
fn own_level(phase: Option<&Phase>) -> f64 {
    // A phase that needs neither time nor resources ends within a nanosecond.
    phase.map_or(f64::INFINITY, |phase| pace(phase) / phase.least.0.max(1e-9))
}

/// Index and value of the least.
fn least(values: impl Iterator<Item = f64>) -> (usize, f64) {
    let start = (0, f64::INFINITY);
    values.enumerate().fold(start, |best, next| if next.1 < best.1 { next } else { best })
}
