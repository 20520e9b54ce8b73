//! How disturbed the machine was during a run: what `/proc/stat` counted that the run did not use.
//!
//! The engine starts a [`Meter`] before each run and writes the [`Noise`] into its result, so that
//! a report can warn.

use std::path::PathBuf;

use firstbyte_advise::result::Noise;

/// Processor time of the whole machine since it started, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Total {
    busy: f64,
    steal: f64,
}

/// Reads the machine's processor time at both ends of a run.
#[derive(Debug)]
pub struct Meter {
    place: PathBuf,
    before: Option<Total>,
}

impl Meter {
    /// Begins. A machine without `/proc/stat` gives a [`Noise`] without figures.
    #[must_use]
    pub fn start() -> Self {
        Self::reading("/proc/stat".into())
    }

    fn reading(place: PathBuf) -> Self {
        let before = Total::read(&place);
        Self { place, before }
    }

    /// Ends. `own_cpu_seconds` is the processor time of the run, the engine and its services
    /// meanwhile.
    ///
    /// The kernel counts in ticks of 10 ms per processor, so less than some ticks says nothing.
    #[must_use]
    pub fn finish(self, own_cpu_seconds: f64) -> Noise {
        let (Some(before), Some(after)) = (self.before, Total::read(&self.place)) else {
            return Noise::default();
        };
        Noise {
            other_cpu_seconds: Some((after.busy - before.busy - own_cpu_seconds).max(0.0)),
            steal_seconds: Some((after.steal - before.steal).max(0.0)),
        }
    }
}

impl Total {
    fn read(place: &std::path::Path) -> Option<Self> {
        let ticks = rustix::param::clock_ticks_per_second();
        Self::parse(&std::fs::read_to_string(place).ok()?, ticks)
    }

    /// Reads `cpu  user nice system idle iowait irq softirq steal guest guest_nice`. The time of
    /// guests is part of `user` and `nice`.
    fn parse(text: &str, ticks_per_second: u64) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let fields: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let [user, nice, system, _idle, _iowait, irq, softirq, ref rest @ ..] = fields[..] else {
            return None;
        };
        let seconds = |ticks: u64| ticks as f64 / ticks_per_second as f64;
        Some(Self {
            busy: seconds(user + nice + system + irq + softirq),
            steal: seconds(rest.first().copied().unwrap_or(0)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_neither_run_nor_idle_time_explains_is_noise() {
        let place = tempfile::NamedTempFile::new().unwrap();
        let ticks = rustix::param::clock_ticks_per_second();
        let write = |user: u64, steal: u64| {
            let text = format!(
                "cpu  {} {t} {t} 900 70 {t} {t} {} 0 0\ncpu0 1 1 1 1\n",
                user * ticks,
                steal * ticks,
                t = ticks
            );
            std::fs::write(place.path(), text).unwrap();
        };
        write(10, 1);
        let meter = Meter::reading(place.path().into());
        write(16, 3);
        let noise = meter.finish(4.0);
        assert_eq!((noise.other_cpu_seconds, noise.steal_seconds), (Some(2.0), Some(2.0)));
    }

    #[test]
    fn rounding_never_makes_noise_negative_and_no_table_makes_none() {
        let noise = Meter::start().finish(1e9);
        assert_eq!(noise.other_cpu_seconds, Some(0.0));
        assert_eq!(Meter::reading("/proc/no such file".into()).finish(0.0), Noise::default());
        assert_eq!(Total::parse("intr 5\n", 100), None);
    }
}
