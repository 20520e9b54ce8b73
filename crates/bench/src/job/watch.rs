//! The clock of a job: records how long after the job's start it reached each stage. Workloads call
//! it; the results become metrics.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Figures by name; units are in the names.
pub type Metrics = BTreeMap<String, f64>;

/// The start of a job.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    began: Instant,
}

impl Watch {
    /// Begins now.
    #[must_use]
    pub fn now() -> Self {
        Self { began: Instant::now() }
    }

    /// Began when this process did. Loading a program and reading its arguments only computes, so
    /// the processor time so far is the time since the start.
    #[must_use]
    pub fn of_process() -> Self {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let used = Duration::try_from(used).unwrap_or_default();
        let now = Instant::now();
        Self { began: now.checked_sub(used).unwrap_or(now) }
    }

    /// Seconds since the start.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Notes the seconds since the start under a name.
    pub fn note(&self, metrics: &mut Metrics, name: &str) {
        metrics.insert(name.to_owned(), self.seconds());
    }
}
