//! How long a test waits: one definition for every test, so that a slow machine is no failure.
//!
//! Times in tests are stated for an idle machine of 2026 and multiplied by the [`slowness`] of this
//! one, which is measured once a process. Every wait has an end: a test that hangs fails, and says
//! what it waited for. tests/waiting.py is the same for Python.

use std::ops::RangeInclusive;
use std::process::{Child, ExitStatus};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

/// Rounds of the [`spin`].
const ROUNDS: u32 = 560;
/// Its time on an idle machine of 2026: one core of an AMD EPYC at 3 GHz.
const AT_REST: Duration = Duration::from_millis(20);
/// Bounds of the factor. The spin sees one thread at one moment, while load comes and goes and
/// tests wait for several processes: waits are never shorter than four times those at rest.
const FACTOR: RangeInclusive<f64> = 4.0..=40.0;
/// Time for what happens at once on an idle machine: a server starts, a thread reads a message.
const AT_ONCE: Duration = Duration::from_secs(15);
/// Time between two looks at a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How many times longer than on an idle machine a wait may last here: at least 4, at most 40.
#[must_use]
pub fn slowness() -> f64 {
    static MEASURED: LazyLock<f64> = LazyLock::new(|| factor(spin()));
    *MEASURED
}

/// The factor of a machine that spins for `measured`.
fn factor(measured: Duration) -> f64 {
    let times = measured.as_secs_f64() / AT_REST.as_secs_f64();
    (times * FACTOR.start()).clamp(*FACTOR.start(), *FACTOR.end())
}

/// The longest that may last here what takes `at_rest` on an idle machine.
#[must_use]
pub fn patience(at_rest: Duration) -> Duration {
    at_rest.mul_f64(slowness())
}

/// The limit of waits for what happens at once on an idle machine: a minute, or longer on a slow
/// machine. For the timeouts of channels, sockets and processes.
#[must_use]
pub fn wait_limit() -> Duration {
    patience(AT_ONCE)
}

/// Waits until a condition holds, for [`wait_limit`] at most.
///
/// # Panics
/// When it does not hold in time; the message names `what`.
#[track_caller]
pub fn until(what: &str, holds: impl FnMut() -> bool) {
    assert!(holds_within(AT_ONCE, holds), "not within {:?}: {what}", wait_limit());
}

/// Waits until a condition holds that holds after `at_rest` on an idle machine. True if it did.
pub fn holds_within(at_rest: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !holds() {
        // The machine is measured only if the wait is long already: most tests never need it.
        if began.elapsed() > at_rest && began.elapsed() > patience(at_rest) {
            // This thread itself may have been kept from running since it looked.
            return holds();
        }
        thread::sleep(POLL_INTERVAL);
    }
    true
}

/// Waits for the end of a process that ends after `at_rest` on an idle machine. A process that does
/// not is killed, and there is no status.
///
/// # Panics
/// When the process is not a child that can be waited for.
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

/// The time of a fixed piece of work: the check of a text in a cache. The function is compiled with
/// the standard library, so its speed does not depend on the profile of this crate.
fn spin() -> Duration {
    let text = "\u{e4}".repeat(32 << 10);
    let began = Instant::now();
    for _ in 0..ROUNDS {
        assert!(std::str::from_utf8(std::hint::black_box(text.as_bytes())).is_ok());
    }
    began.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_longer_than_on_an_idle_machine_and_have_an_end() {
        assert_eq!(factor(AT_REST / 4), 4.0);
        assert_eq!(factor(AT_REST * 3), 12.0);
        assert_eq!(factor(AT_REST * 3_000), 40.0);
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
        assert!(ends_within(AT_ONCE, &mut run("0")).is_some_and(|status| status.success()));
        let mut long = run("3600");
        assert!(ends_within(Duration::from_millis(10), &mut long).is_none());
        assert!(long.try_wait().unwrap().is_some());
    }
}
