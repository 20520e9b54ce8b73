//! Collects the durations of operations and computes their percentiles. Called by workloads.

use std::time::{Duration, Instant};

use super::watch::Metrics;

/// Number of operations below which percentiles above the median would only repeat the maximum.
const MIN_OPERATIONS_FOR_TAIL: usize = 20;

/// Durations of operations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies(Vec<Duration>);

impl FromIterator<Latencies> for Latencies {
    fn from_iter<I: IntoIterator<Item = Self>>(all: I) -> Self {
        Self(all.into_iter().flat_map(|one| one.0).collect())
    }
}

impl Latencies {
    /// Reserves memory for `operations` durations, so that recording one never allocates.
    pub(crate) fn with_capacity(operations: usize) -> Self {
        Self(Vec::with_capacity(operations))
    }

    /// Runs an operation and records its duration.
    pub(crate) fn time<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = operation();
        self.0.push(began.elapsed());
        result
    }

    /// Adds the durations of another thread.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// Adds the metrics `operations`, `latency_max_seconds`, and percentiles such as
    /// `latency_p50_seconds`.
    pub(crate) fn into_metrics(mut self, metrics: &mut Metrics) {
        self.0.sort_unstable();
        metrics.insert("operations".into(), self.0.len() as f64);
        let Some(greatest) = self.0.last() else { return };
        metrics.insert("latency_max_seconds".into(), greatest.as_secs_f64());
        let few = self.0.len() < MIN_OPERATIONS_FOR_TAIL;
        let shares = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)];
        for (name, share) in shares.into_iter().filter(|(_, share)| *share == 0.5 || !few) {
            // Nearest rank: the smallest value that is at least as great as this share of all
            // values.
            let rank = (self.0.len() as f64 * share).ceil() as usize;
            let value = self.0[rank.clamp(1, self.0.len()) - 1];
            metrics.insert(format!("latency_{name}_seconds"), value.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let mut metrics = Metrics::new();
        Latencies((1..=100).rev().map(Duration::from_secs).collect()).into_metrics(&mut metrics);
        let found = |name: &str| metrics[&format!("latency_{name}_seconds")];
        assert_eq!(
            [found("p50"), found("p95"), found("p99"), found("p999"), found("max")],
            [50.0, 95.0, 99.0, 100.0, 100.0]
        );
        assert_eq!(metrics["operations"], 100.0);
        let mut one = Metrics::new();
        Latencies(vec![Duration::from_secs(3)]).into_metrics(&mut one);
        assert_eq!(one["latency_p50_seconds"], 3.0);
        assert!(!one.contains_key("latency_p95_seconds") && !one.contains_key("latency_p99_seconds"));
    }
}
