//! The clock of a job: records the time from the job's start to each stage. Called by workloads;
//! the times become metrics.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Figures by name. Each name contains the unit.
pub type Metrics = BTreeMap<String, f64>;

/// The start time of a job.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    began: Instant,
}

impl Watch {
    /// Starts the clock now.
    #[must_use]
    pub fn start() -> Self {
        Self { began: Instant::now() }
    }

    /// Starts the clock at the start of this process. So far, the process has only loaded its
    /// program and parsed arguments, without waiting, so its processor time equals the time since
    /// its start.
    #[must_use]
    pub fn start_with_process() -> Self {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let used = Duration::try_from(used).unwrap_or_default();
        let now = Instant::now();
        Self { began: now.checked_sub(used).unwrap_or(now) }
    }

    /// Returns the seconds since the start.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Records the seconds since the start under `name`.
    pub fn note(&self, metrics: &mut Metrics, name: &str) {
        metrics.insert(name.to_owned(), self.seconds());
    }
}
