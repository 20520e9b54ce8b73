//! How long a test waits. One definition for every test, so that a slow machine is no failure.
//!
//! Times in tests are stated for an idle machine of 2026 and multiplied by the [`slowness`] of this
//! one, which is measured once a process. Whatever is waited for has an end: a test that hangs
//! fails, and says what it waited for.

use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

/// Iterations of [`spin`]: 50 ms on an idle machine of 2026, one core of an AMD EPYC at 3 GHz.
const ITERATIONS: u64 = 33_000_000;
/// The time of that spin there.
const AT_REST: Duration = Duration::from_millis(50);
/// Bounds of the factor. The spin sees the machine for a moment only: load comes and goes, so waits
/// are never shorter than four times those of an idle machine, and have an end all the same.
const FACTOR: std::ops::RangeInclusive<f64> = 4.0..=40.0;
/// The wait for something that happens at once on an idle machine.
const AT_ONCE: Duration = Duration::from_secs(15);
/// Time between two looks at a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The factor of this machine: how many times longer work may take than on an idle one.
#[must_use]
pub fn slowness() -> f64 {
    static FACTOR_HERE: LazyLock<f64> = LazyLock::new(|| {
        let began = Instant::now();
        std::hint::black_box(spin(std::hint::black_box(ITERATIONS)));
        let measured = began.elapsed().as_secs_f64() / AT_REST.as_secs_f64();
        // A spin sees one thread; tests run beside others, and wait for several processes.
        (measured * FACTOR.start()).clamp(*FACTOR.start(), *FACTOR.end())
    });
    *FACTOR_HERE
}

/// The time that may pass here for what takes `at_rest` on an idle machine.
#[must_use]
pub fn patience(at_rest: Duration) -> Duration {
    at_rest.mul_f64(slowness())
}

/// Waits until a condition holds that holds at once on an idle machine.
///
/// # Panics
/// When it does not hold in time; the message names `what`.
#[track_caller]
pub fn until(what: &str, holds: impl FnMut() -> bool) {
    assert!(holds_within(patience(AT_ONCE), holds), "{what}: not within {:?}", patience(AT_ONCE));
}

/// Waits until a condition holds, at most `most`. True if it did.
pub fn holds_within(most: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    loop {
        if holds() {
            return true;
        }
        if began.elapsed() > most {
            return false;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// A chain of multiplications, each of which needs the one before.
fn spin(iterations: u64) -> u64 {
    (0..iterations).fold(1, |word: u64, _| word.wrapping_mul(0x5851_F42D_4C95_7F2D).rotate_left(17))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_longer_than_on_an_idle_machine_and_have_an_end() {
        let second = Duration::from_secs(1);
        assert!(patience(second) >= 4 * second && patience(second) <= 40 * second);
    }

    #[test]
    fn a_condition_that_never_holds_is_waited_for_once_and_given_up() {
        let mut looks = 0;
        let mut look = || {
            looks += 1;
            false
        };
        assert!(!holds_within(Duration::from_millis(20), &mut look));
        assert!(looks >= 1);
    }
}
