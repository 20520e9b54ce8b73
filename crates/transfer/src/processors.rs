//! Whether this machine's processors have anything left to give.
//!
//! More requests at once help while something far away is waited for. Where the processors are the limit - a server on
//! the same machine, TLS on a small one - they only take time from each other. The kernel tells for the whole
//! machine (`/proc/stat`), which sees a server beside us too; in a container with a processor quota that says little,
//! so this process' own use is held against the quota.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Idle share below which nothing is left. The kernel counts in hundredths of a second: of the shortest window on two
/// processors, 60 ms, this is one tick.
const LEFT: f64 = 0.08;

/// What the processors can still take on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Some of their time is unused, or nobody knows.
    Some,
    /// They are busy all the time.
    None,
}

/// Processor time as it stood at one moment.
pub(crate) struct Processors {
    at: Instant,
    own: Duration,
    machine: Option<Ticks>,
}

/// Time of all processors together, in the kernel's ticks since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    idle: u64,
    all: u64,
}

impl Processors {
    /// As it stands now.
    #[must_use]
    pub(crate) fn now() -> Self {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        Self { at: Instant::now(), own: process_time(), machine: Ticks::parse(&text) }
    }

    /// What was left of them since then.
    #[must_use]
    pub(crate) fn room(&self) -> Room {
        let now = Self::now();
        let own = now.own.saturating_sub(self.own).as_secs_f64();
        let wall = now.at.duration_since(self.at).as_secs_f64();
        let machine_full = match (self.machine, now.machine) {
            (Some(then), Some(now)) => now.idle_since(then).is_some_and(|idle| idle < LEFT),
            _ => false,
        };
        if machine_full || own > (1.0 - LEFT) * quota() * wall { Room::None } else { Room::Some }
    }
}

impl Ticks {
    /// The first line of `/proc/stat`: user, nice, system, idle, waiting for disks, interrupts, soft interrupts, stolen
    /// (proc_stat(5)); what follows is counted in the first two already.
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let fields: Vec<u64> =
            line.split_whitespace().take(8).map_while(|field| field.parse().ok()).collect();
        let idle = fields.get(3)? + fields.get(4)?;
        Some(Self { idle, all: fields.iter().sum() })
    }

    /// The idle share of the time since; `None` where no tick has passed.
    fn idle_since(self, then: Self) -> Option<f64> {
        let all = self.all.saturating_sub(then.all);
        (all > 0).then(|| self.idle.saturating_sub(then.idle) as f64 / all as f64)
    }
}

/// Processors this process may use: all, or its quota.
pub(crate) fn quota() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64)
}

/// Processor time this process has used.
pub(crate) fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_idle_share_is_idle_and_disk_waits_over_everything() {
        let then = Ticks::parse("cpu  100 0 50 800 50 0 0 0 7 9\ncpu0 1").unwrap();
        assert_eq!(then, Ticks { idle: 850, all: 1000 });
        let now = Ticks::parse("cpu  170 0 70 804 56 0 0 0 7 9\n").unwrap();
        assert_eq!(now.idle_since(then), Some(0.1));
        assert_eq!(now.idle_since(now), None);
    }

    #[test]
    fn a_file_of_another_shape_tells_nothing() {
        assert_eq!(Ticks::parse(""), None);
        assert_eq!(Ticks::parse("intr 1 2 3"), None);
        assert_eq!(Ticks::parse("cpu  1 2"), None);
    }
}
