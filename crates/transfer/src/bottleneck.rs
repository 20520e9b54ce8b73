//! Judges what limited the speed of a run. [`Summary`](crate::Summary) reports the result.
//!
//! The checks, in this order: if the rate limit was reached, the link; if this process used most of
//! the processors, the CPU; if memory limited the number of requests, memory; if both ends are
//! local, the disk; if workers spent most of their time waiting for responses to begin, the server.
//! If none of these holds, the link.

use std::time::Duration;

use firstbyte_store::LOOK;
use rustix::time::{ClockId, clock_gettime};

use crate::context::{Context, count};
use crate::job::Route;
use crate::report::Bottleneck;

/// Share of a limit from which it counts as reached.
const REACHED: f64 = 0.85;

/// The processor time that this process had used when the run started.
pub(crate) struct Baseline {
    processor: Duration,
}

impl Baseline {
    pub(crate) fn now() -> Self {
        Self { processor: process_time() }
    }

    /// The limit of the run's speed; `None` if it was too short to judge.
    pub(crate) fn judge(&self, context: &Context<'_>, limited_by_memory: bool) -> Option<Bottleneck> {
        let wall = context.started.elapsed();
        let moved = count(&context.meters.moved) as f64;
        // A shorter run is all start-up.
        if wall < LOOK || moved == 0.0 {
            return None;
        }
        let seconds = wall.as_secs_f64();
        let waiting = count(&context.meters.head_wait);
        let used = process_time().saturating_sub(self.processor).as_secs_f64() / seconds;
        let limit = context.settings.limit_rate;
        Some(if limit.is_some_and(|rate| moved / seconds >= REACHED * rate as f64) {
            Bottleneck::Link
        } else if used >= REACHED * quota() {
            Bottleneck::Cpu
        } else if limited_by_memory {
            Bottleneck::Memory
        } else if context.subject.route == Route::Local {
            Bottleneck::Disk
        } else if waiting > count(&context.meters.busy).saturating_sub(waiting) {
            Bottleneck::Server
        } else {
            Bottleneck::Link
        })
    }
}

/// Processors that this process may use: all, or its quota.
fn quota() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64)
}

/// Processor time that this process has used.
fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
