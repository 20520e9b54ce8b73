//! Defines the limits for waits in tests in one place, so that tests do not fail on a slow machine.
//!
//! Times in tests are stated for an idle machine of 2026 and multiplied by the [`slowness`] of this
//! machine, which is measured once per process. Every wait has a limit: a test that hangs fails and
//! names the condition for which it waited. tests/waiting.py does the same for Python.

use std::ops::RangeInclusive;
use std::process::{Child, ExitStatus};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

/// Number of rounds of the [`spin`].
const SPIN_ROUNDS: u32 = 560;
/// Duration of the [`spin`] on an idle machine of 2026: one core of an AMD EPYC at 3 GHz.
const SPIN_TIME_AT_REST: Duration = Duration::from_millis(20);
/// Bounds of the slowness. The spin measures one thread at one moment, while load varies and tests
/// wait for several processes. So the limits are at least four times the duration on an idle
/// machine.
const SLOWNESS_BOUNDS: RangeInclusive<f64> = 4.0..=40.0;
/// Limit for events that happen at once on an idle machine, such as the start of a server or the
/// reading of a message.
const PROMPT_EVENT_LIMIT: Duration = Duration::from_secs(15);
/// Time between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Returns the factor by which limits of waits are longer here than on an idle machine: at least 4,
/// at most 40.
#[must_use]
pub fn slowness() -> f64 {
    static MEASURED: LazyLock<f64> = LazyLock::new(|| factor(spin()));
    *MEASURED
}

/// Returns the slowness of a machine whose [`spin`] takes `measured`.
fn factor(measured: Duration) -> f64 {
    let times = measured.as_secs_f64() / SPIN_TIME_AT_REST.as_secs_f64();
    (times * SLOWNESS_BOUNDS.start()).clamp(*SLOWNESS_BOUNDS.start(), *SLOWNESS_BOUNDS.end())
}

/// Returns the limit on this machine for a wait that takes `at_rest` on an idle machine.
#[must_use]
pub fn patience(at_rest: Duration) -> Duration {
    at_rest.mul_f64(slowness())
}

/// Returns the limit of waits for events that happen at once on an idle machine: a minute, or more
/// on a slow machine. Used for the timeouts of channels, sockets and processes.
#[must_use]
pub fn wait_limit() -> Duration {
    patience(PROMPT_EVENT_LIMIT)
}

/// Waits until a condition holds, at most for [`wait_limit`].
///
/// # Panics
/// The condition does not hold in time. The message contains `what`.
#[track_caller]
pub fn until(what: &str, holds: impl FnMut() -> bool) {
    assert!(holds_within(PROMPT_EVENT_LIMIT, holds), "not within {:?}: {what}", wait_limit());
}

/// Waits for a condition that holds after `at_rest` on an idle machine. True if it holds in time.
pub fn holds_within(at_rest: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !holds() {
        // The slowness is measured only if the wait is long. Most tests never need it.
        if began.elapsed() > at_rest && began.elapsed() > patience(at_rest) {
            // This thread may not have run since its last check, so it checks once more.
            return holds();
        }
        thread::sleep(POLL_INTERVAL);
    }
    true
}

/// Waits for the end of a process that ends after `at_rest` on an idle machine. If the process does
/// not end in time, kills it and returns `None`.
///
/// # Panics
/// The process is not a child of this one.
pub fn ends_within(at_rest: Duration, child: &mut Child) -> Option<ExitStatus> {
    let mut status = None;
    holds_within(at_rest, || {
        status = child.try_wait().expect("a child");
        status.is_some()
    });
    if status.is_none() {
        child.kill().expect("a child to kill");
        child.wait().expect("a killed child");
    }
    status
}

/// Measures the duration of a fixed piece of work: validating a string that is in the processor's
/// cache. The validating function is part of the compiled standard library, so its speed does not
/// depend on the profile of this crate.
fn spin() -> Duration {
    let text = "\u{e4}".repeat(32 << 10);
    let began = Instant::now();
    for _ in 0..SPIN_ROUNDS {
        assert!(std::str::from_utf8(std::hint::black_box(text.as_bytes())).is_ok());
    }
    began.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_longer_than_on_an_idle_machine_and_have_an_end() {
        assert_eq!(factor(SPIN_TIME_AT_REST / 4), 4.0);
        assert_eq!(factor(SPIN_TIME_AT_REST * 3), 12.0);
        assert_eq!(factor(SPIN_TIME_AT_REST * 3_000), 40.0);
        let second = Duration::from_secs(1);
        assert!(patience(second) >= 4 * second && patience(second) <= 40 * second);
    }

    #[test]
    fn a_wait_ends_with_its_condition_and_gives_up_one_that_never_holds() {
        let mut looks = 0;
        assert!(holds_within(Duration::from_secs(1), || {
            looks += 1;
            looks == 3
        }));
        assert_eq!(looks, 3);
        assert!(!holds_within(Duration::from_millis(5), || {
            looks += 1;
            false
        }));
        assert!(looks > 4);
    }

    #[test]
    fn a_process_that_does_not_end_in_time_is_killed() {
        let run = |seconds: &str| std::process::Command::new("sleep").arg(seconds).spawn().unwrap();
        assert!(ends_within(PROMPT_EVENT_LIMIT, &mut run("0")).is_some_and(|status| status.success()));
        let mut long = run("3600");
        assert!(ends_within(Duration::from_millis(10), &mut long).is_none());
        assert!(long.try_wait().unwrap().is_some());
    }
}
