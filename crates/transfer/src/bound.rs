//! What kept a run from being faster, judged from what was measured.
//!
//! In this order: if the rate limit was met, the link; if this process used most of the processors, the processor;
//! if the level was at the cap that memory sets, memory; if both ends are local, the disk; if the workers spent most
//! of their time waiting for answers to begin, the server; else bytes were flowing whenever they could: the link.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::Bound;
use crate::engine::Route;
use crate::processors::{process_time, quota};
use crate::run::Run;

/// Shorter runs are all start-up: nothing to be told from them.
const SHORTEST: Duration = Duration::from_millis(20);
/// From this share on a limit counts as met.
const MET: f64 = 0.85;
/// Share of the workers' time spent waiting for heads above which the server is what is waited for.
const WAITING: f64 = 0.6;

pub(crate) struct Clock {
    wall: Instant,
    processor: Duration,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { wall: Instant::now(), processor: process_time() }
    }

    pub(crate) fn bound(&self, run: &Run<'_>, memory_capped: bool) -> Option<Bound> {
        let wall = self.wall.elapsed();
        let moved = run.meters.moved.load(Ordering::Relaxed) as f64;
        if wall < SHORTEST || moved == 0.0 {
            return None;
        }
        let seconds = wall.as_secs_f64();
        let busy = run.meters.busy.load(Ordering::Relaxed) as f64;
        let share = |part: &std::sync::atomic::AtomicU64| part.load(Ordering::Relaxed) as f64 / busy.max(1.0);
        let used = process_time().saturating_sub(self.processor).as_secs_f64() / seconds;
        Some(if run.settings.limit_rate.is_some_and(|rate| moved / seconds >= MET * rate as f64) {
            Bound::Link
        } else if used >= MET * quota() {
            Bound::Cpu
        } else if memory_capped {
            Bound::Memory
        } else if run.route == Route::Local {
            Bound::Disk
        } else if share(&run.meters.head_wait) > WAITING {
            Bound::Server
        } else {
            Bound::Link
        })
    }
}
