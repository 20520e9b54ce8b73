//! Measures how much other processes disturbed the machine during a run: the processor time in
//! `/proc/stat` that the run did not use.
//!
//! The engine starts a [`Meter`] before each run and writes the [`Noise`] into its result, so that
//! a report can warn. The services of the plan belong to the measurement and do not count as noise.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::result::Noise;

/// Processor time of the whole machine since its start, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct MachineTime {
    busy: f64,
    steal: f64,
}

/// The machine's processor time at the start of a run.
#[derive(Debug)]
pub(crate) struct Meter {
    place: PathBuf,
    before: Option<MachineTime>,
    services: Vec<u32>,
    services_before: f64,
}

impl Meter {
    /// Starts a measurement. `services` are the process ids of the plan's services. On a machine
    /// without `/proc/stat` the result has no figures.
    pub(crate) fn start(services: Vec<u32>) -> Self {
        Self::with_source("/proc/stat".into(), services)
    }

    fn with_source(place: PathBuf, services: Vec<u32>) -> Self {
        let before = MachineTime::read(&place);
        let services_before = cpu_seconds_below(&services);
        Self { place, before, services, services_before }
    }

    /// Ends the measurement. `own_cpu_seconds` is the processor time of the run.
    ///
    /// The kernel counts in ticks of 10 ms per processor, so noise of a few ticks is rounding.
    pub(crate) fn finish(self, own_cpu_seconds: f64) -> Noise {
        let (Some(before), Some(after)) = (self.before, MachineTime::read(&self.place)) else {
            return Noise::default();
        };
        let services = (cpu_seconds_below(&self.services) - self.services_before).max(0.0);
        Noise {
            other_cpu_seconds: Some((after.busy - before.busy - own_cpu_seconds - services).max(0.0)),
            steal_seconds: Some((after.steal - before.steal).max(0.0)),
        }
    }
}

/// Sums the processor seconds of processes and all their descendants, ended ones included.
fn cpu_seconds_below(roots: &[u32]) -> f64 {
    let Ok(processes) = std::fs::read_dir("/proc") else { return 0.0 };
    if roots.is_empty() {
        return 0.0;
    }
    let stats: BTreeMap<u32, (u32, u64)> = processes
        .filter_map(|process| {
            let process = process.ok()?;
            let pid = process.file_name().to_str()?.parse().ok()?;
            Some((pid, parent_and_ticks(&std::fs::read_to_string(process.path().join("stat")).ok()?)?))
        })
        .collect();
    let is_below = |mut pid: u32| loop {
        if roots.contains(&pid) {
            return true;
        }
        match stats.get(&pid) {
            Some((parent, _)) => pid = *parent,
            None => return false,
        }
    };
    let ticks: u64 = stats.iter().filter(|(pid, _)| is_below(**pid)).map(|(_, (_, ticks))| ticks).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// Returns the parent of a process, and the ticks used by the process and its ended children
/// (proc(5)).
fn parent_and_ticks(stat: &str) -> Option<(u32, u64)> {
    // The name is in brackets and may contain any character.
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let used = fields.get(11..15)?.iter().map(|ticks| ticks.parse::<u64>());
    Some((fields.get(1)?.parse().ok()?, used.sum::<Result<u64, _>>().ok()?))
}

impl MachineTime {
    fn read(place: &std::path::Path) -> Option<Self> {
        let ticks = rustix::param::clock_ticks_per_second();
        Self::parse(&std::fs::read_to_string(place).ok()?, ticks)
    }

    /// Parses `cpu  user nice system idle iowait irq softirq steal guest guest_nice`. Guest time is
    /// already included in `user` and `nice`.
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
    fn busy_time_that_the_run_did_not_use_is_noise() {
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
        let meter = Meter::with_source(place.path().into(), Vec::new());
        write(16, 3);
        let noise = meter.finish(4.0);
        assert_eq!((noise.other_cpu_seconds, noise.steal_seconds), (Some(2.0), Some(2.0)));
    }

    #[test]
    fn noise_is_never_negative_and_absent_without_a_table() {
        let noise = Meter::start(Vec::new()).finish(1e9);
        assert_eq!(noise.other_cpu_seconds, Some(0.0));
        assert_eq!(Meter::with_source("/proc/no such file".into(), Vec::new()).finish(0.0), Noise::default());
        assert_eq!(MachineTime::parse("intr 5\n", 100), None);
    }

    #[test]
    fn processor_time_of_a_service_includes_its_children() {
        let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let mut service = std::process::Command::new("sh")
            .args(["-c", &format!("sh -c '{busy}'; sh -c 'sleep 60 & wait'; :")])
            .spawn()
            .unwrap();
        let second = std::time::Duration::from_secs(1);
        let seen = firstbyte_testkit::holds_within(second, || cpu_seconds_below(&[service.id()]) > 0.05);
        service.kill().unwrap();
        service.wait().unwrap();
        assert!(seen, "no time of the service is seen");
    }

    #[test]
    fn a_process_name_may_contain_brackets() {
        let line = "7 (a) b ) S 3 7 7 0 -1 0 0 0 0 0 10 20 30 40 20 0 1 0 5";
        assert_eq!(parent_and_ticks(line), Some((3, 100)));
        assert_eq!(parent_and_ticks("7 (a) S 3"), None);
    }
}
