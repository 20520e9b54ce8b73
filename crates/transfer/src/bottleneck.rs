//! Judges what limited the speed of a run. [`Summary`](crate::Summary) reports the result.
//!
//! The first of these checks that applies decides:
//!
//! - The allowed rate was reached: the rate limit.
//! - This process used most of its processors, or all processes used most of the machine's: the
//!   CPU. A server on the same machine counts too.
//! - Memory limited the number of requests: memory.
//! - Both ends are local: the disk.
//! - Workers spent most of their time waiting for responses to begin: the server.
//! - Otherwise: the link.

use std::time::Duration;

use firstbyte_store::POLL_INTERVAL;
use rustix::time::{ClockId, clock_gettime};

use crate::context::{Context, load_relaxed};
use crate::job::TransferRoute;
use crate::report::Bottleneck;

/// Share of a limit at which the limit counts as reached.
const REACHED_SHARE: f64 = 0.85;

/// The processor times before the run started, of this process and of the machine.
pub(crate) struct Baseline {
    process: Duration,
    machine: Option<MachineTime>,
}

/// Time of all processors of this machine since it started, in clock ticks.
#[derive(Clone, Copy)]
struct MachineTime {
    all: u64,
    idle: u64,
}

impl Baseline {
    pub(crate) fn now() -> Self {
        Self { process: process_time(), machine: machine_time() }
    }

    /// Returns what limited the run's speed, or `None` if the run was too short to judge.
    pub(crate) fn judge(&self, context: &Context<'_>, limited_by_memory: bool) -> Option<Bottleneck> {
        let wall = context.started.elapsed();
        let moved = load_relaxed(&context.meters.moved) as f64;
        // A shorter run spends all of its time on starting up.
        if wall < POLL_INTERVAL || moved == 0.0 {
            return None;
        }
        let seconds = wall.as_secs_f64();
        let waiting = load_relaxed(&context.meters.head_wait);
        // The time to the first byte is subtracted, because the rate limit does not apply to it.
        let moving = seconds - load_relaxed(&context.meters.first_byte) as f64 / 1e6;
        let limit = context.settings.limit_rate;
        Some(if limit.is_some_and(|rate| moved >= REACHED_SHARE * rate as f64 * moving) {
            Bottleneck::Limit
        } else if self.is_busy(seconds) {
            Bottleneck::Cpu
        } else if limited_by_memory {
            Bottleneck::Memory
        } else if context.run_kind.route == TransferRoute::Local {
            Bottleneck::Disk
        } else if waiting > load_relaxed(&context.meters.busy).saturating_sub(waiting) {
            Bottleneck::Server
        } else {
            Bottleneck::Link
        })
    }

    /// Returns whether processors were the limit during the `seconds` since the baseline.
    fn is_busy(&self, seconds: f64) -> bool {
        let used = process_time().saturating_sub(self.process).as_secs_f64() / seconds;
        let machine = self.machine.zip(machine_time()).and_then(|(then, now)| then.busy_until(now));
        used >= REACHED_SHARE * quota() || machine.is_some_and(|share| share >= REACHED_SHARE)
    }
}

impl MachineTime {
    /// Returns the share of the time until `now` in which the processors worked. `None` if no time
    /// has passed.
    fn busy_until(self, now: Self) -> Option<f64> {
        let passed = now.all.checked_sub(self.all).filter(|passed| *passed > 0)?;
        let idle = now.idle.saturating_sub(self.idle).min(passed);
        Some((passed - idle) as f64 / passed as f64)
    }

    /// Parses the first line of `/proc/stat` (proc_stat(5)): user, nice, system, idle, iowait, irq,
    /// softirq, steal. The fields after these count the time of guests, which user time already
    /// includes. Waiting for a disk counts as idle.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> =
            line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        let [_, _, _, idle, iowait, ..] = ticks[..] else { return None };
        Some(Self { all: ticks.iter().sum(), idle: idle + iowait })
    }
}

/// Reads the machine's processor times. Returns `None` if `/proc` does not show them.
fn machine_time() -> Option<MachineTime> {
    MachineTime::parse(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// Returns how many processors this process may use: all of the machine's, or its quota.
fn quota() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64)
}

/// Returns the processor time that this process has used.
fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_busy_by_the_share_that_was_not_idle() {
        let then = MachineTime::parse("cpu  100 0 50 800 50 0 0 0 7 0\ncpu0 1 2 3 4\n").unwrap();
        let now = MachineTime::parse("cpu  180 0 60 805 55 0 0 0 99 0\n").unwrap();
        let share = then.busy_until(now).unwrap();
        assert!((share - 0.9).abs() < 1e-9, "{share}");
        assert!(then.busy_until(then).is_none());
        assert!(MachineTime::parse("cpu  1 2\n").is_none());
        assert!(MachineTime::parse("").is_none());
        assert!(machine_time().is_some_and(|time| time.idle <= time.all));
    }
}
