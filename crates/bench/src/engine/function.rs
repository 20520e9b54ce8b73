//! Limits the jobs of a run by control groups: one group for all jobs, or one for each emulated
//! function.
//!
//! Each emulated function gets its own memory, and the share of a processor that belongs to that
//! memory. If the machine is too small for all functions of a run, the run is refused, or split
//! into waves of as many jobs as fit ([`RunGroups::at_once`]).

use crate::result::CacheState;
use firstbyte_location::units;

use crate::cgroup::{Group, Limits};
use crate::error::Error;
use crate::functions::{FunctionSize, MachineCapacity};
use crate::plan::Contender;
use crate::words::Words;

/// The control groups of a run.
#[derive(Debug, Default)]
pub(super) struct RunGroups {
    /// One group for all jobs, or one for each function. Empty without limits.
    pub(super) groups: Vec<Group>,
    /// Number of functions that run at once; `None` for all jobs.
    pub(super) at_once: Option<u32>,
    function: Option<FunctionSize>,
}

/// Returns the size of a contender's emulated function; `None` if it has none.
pub(super) fn size_of(contender: &Contender, words: &Words) -> Result<Option<FunctionSize>, String> {
    let Some(text) = &contender.function else { return Ok(None) };
    FunctionSize::parse(&words.fill(text)?).map(Some).map_err(|what| format!("function: {what}"))
}

impl RunGroups {
    /// Makes the groups for a run of `jobs` jobs. `wrong` makes an error from a mistake in the
    /// plan.
    pub(super) fn create(
        contender: &Contender,
        jobs: u32,
        words: &Words,
        wrong: &dyn Fn(String) -> Error,
    ) -> Result<Self, Error> {
        let Some(function) = size_of(contender, words).map_err(wrong)? else {
            return Self::one_for_all(contender, words, wrong);
        };
        let at_once = at_once(function, jobs, contender.waves, MachineCapacity::current()).map_err(wrong)?;
        let limits = Limits { memory_bytes: Some(function.memory_bytes), cpus: Some(function.processors()) };
        // The host of an invoked function already limits its environments.
        let limited = if contender.invoke.is_some() { 0 } else { jobs };
        let groups = (0..limited).map(|job| Group::create(&format!("function-{job}"), &limits));
        Ok(Self {
            groups: groups.collect::<Result<_, _>>()?,
            at_once: Some(at_once),
            function: Some(function),
        })
    }

    /// Makes one group that limits all jobs together. Without limits, makes a group only for a run
    /// that lists names in a controlled cache state: only bytes read from devices prove that state.
    fn one_for_all(
        contender: &Contender,
        words: &Words,
        wrong: &dyn Fn(String) -> Error,
    ) -> Result<Self, Error> {
        let size = |text: &String| {
            units::parse_size(&words.fill(text)?).map_err(|error| format!("memory_limit: {error}"))
        };
        let memory_bytes = contender.memory_limit.as_ref().map(size).transpose().map_err(wrong)?;
        if memory_bytes.is_none() && contender.cpus.is_none() {
            let counts = !contender.cache.names.is_empty() && contender.cache.state != CacheState::Any;
            let group = if counts { Group::create("run", &Limits::default()).ok() } else { None };
            return Ok(Self { groups: group.into_iter().collect(), ..Self::default() });
        }
        let limits = Limits { memory_bytes, cpus: contender.cpus };
        Ok(Self { groups: vec![Group::create("run", &limits)?], ..Self::default() })
    }

    /// Returns the group of a job.
    pub(super) fn group(&self, job: u32) -> Option<&Group> {
        self.groups.get(job as usize).or(self.groups.first())
    }

    /// Sums the bytes that all groups read from block devices.
    pub(super) fn read_bytes(&self) -> Option<u64> {
        if self.groups.is_empty() {
            return None;
        }
        self.groups.iter().map(|group| group.read_bytes()).sum()
    }

    /// Returns a message if a failed run exhausted its memory.
    pub(super) fn memory_error(&self) -> Option<String> {
        let limit = self.function.map_or("its memory limit".to_owned(), |function| function.to_string());
        self.groups
            .iter()
            .any(Group::is_exhausted)
            .then(|| format!("killed, its memory was used up ({limit})"))
    }
}

/// Checks that this machine has room for a contender's functions, so that a measurement is refused
/// before its first run.
pub(super) fn check(contender: &Contender, words: &Words) -> Result<(), String> {
    match size_of(contender, words)? {
        None => Ok(()),
        Some(function) => {
            at_once(function, contender.jobs(words)?, contender.waves, MachineCapacity::current()).map(drop)
        }
    }
}

/// Returns the number of these functions that run at once. Error if the run is refused.
fn at_once(function: FunctionSize, jobs: u32, waves: bool, machine: MachineCapacity) -> Result<u32, String> {
    let fitting = function.count_fitting(machine).min(jobs);
    if fitting == jobs || (waves && fitting > 0) {
        return Ok(fitting);
    }
    let gigabytes = |bytes: f64| format!("{:.1} GB", bytes / 1e9);
    let need = gigabytes(function.memory_bytes as f64 * f64::from(jobs));
    let have = gigabytes(machine.memory_bytes as f64);
    let advice = match fitting {
        0 => "take a smaller function".to_owned(),
        fitting => format!("{fitting} fit: ask for waves, fewer jobs or a smaller function"),
    };
    Err(format!(
        "{jobs} jobs in a {function} need {need} and {:.1} processors, this machine has {have} (80 % are for \
         functions) and {}: {advice}",
        function.processors() * f64::from(jobs),
        machine.processors,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: MachineCapacity = MachineCapacity { memory_bytes: 24_000_000_000, processors: 8 };

    const fn function(megabytes: u64) -> FunctionSize {
        FunctionSize { memory_bytes: megabytes * 1_000_000 }
    }

    #[test]
    fn memory_and_processors_limit_the_jobs_at_once() {
        assert_eq!(at_once(function(128), 20, false, MACHINE), Ok(20));
        // 19.2 GB have room for six functions, eight processors for four.
        assert_eq!(at_once(function(3008), 20, true, MACHINE), Ok(4));
        let roomy = MachineCapacity { processors: 64, ..MACHINE };
        assert_eq!(at_once(function(3008), 20, true, roomy), Ok(6));
        // A single function may have more processors than the machine.
        assert_eq!(at_once(function(3008), 1, false, MachineCapacity { processors: 1, ..MACHINE }), Ok(1));
    }

    #[test]
    fn functions_that_do_not_fit_are_refused_with_advice() {
        let error = at_once(function(3008), 20, false, MACHINE).unwrap_err();
        assert!(error.contains("need 60.2 GB and 34.0 processors"), "{error}");
        assert!(error.contains("4 fit: ask for waves"), "{error}");
        let error = at_once(function(20_000), 1, true, MACHINE).unwrap_err();
        assert!(error.contains("take a smaller function"), "{error}");
    }
}
