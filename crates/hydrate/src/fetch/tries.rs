//! What becomes of a request that failed: whether it is tried again, and when.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use firstbyte_store::Error as StoreError;

use super::{Fetch, NAP};
use crate::Error;
use crate::crew::Crew;
use crate::inflight::Class;

/// First pause before a request that failed is tried again; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How often a fetch ahead is tried again. Should a reader come after all, its own tries go on until its deadline.
const TRIES_AHEAD: u32 = 3;
/// How often a background fetch is: with the pauses this rides out some 20 s of a failing server.
const TRIES_BACKGROUND: u32 = 14;
/// An answer that makes no sense is mangled on its way perhaps, but not again and again.
const TRIES_MANGLED: u32 = 3;

/// Why an attempt did not bring all.
pub(super) enum Failed {
    /// It was silent for too long.
    Cut,
    Store(StoreError),
}

/// Why a fetch is not tried again.
pub(super) enum GaveUp {
    /// It would be in vain.
    NoHope(Error),
    /// Nobody waits any longer.
    Nobody(Error),
}

/// What has been tried so far.
#[derive(Default)]
pub(super) struct Tries {
    pub(super) cuts: u32,
    /// Failures in a row.
    failures: u32,
    mangled: u32,
}

impl Tries {
    /// Waits until it is time to try again; gives the error back where there is no hope, or nobody waits any longer.
    pub(super) fn again(
        &mut self,
        crew: &Crew,
        fetch: &Fetch,
        failed: Failed,
        progressed: bool,
    ) -> Result<(), GaveUp> {
        let counters = &fetch.node.shared.counters;
        let over = progressed && fetch.node.is_once();
        let error = match failed {
            Failed::Cut if over => {
                let location = fetch.node.location.to_string();
                return Err(GaveUp::NoHope(Error::Unpinned { location }));
            }
            Failed::Cut => {
                self.cuts += 1;
                counters.cuts.fetch_add(1, Ordering::Relaxed);
                return if self.gave_up(fetch, self.cuts) {
                    let location = fetch.node.location.to_string();
                    let after = fetch.node.shared.settings.deadline;
                    let wanted = fetch.is_wanted();
                    let timed_out = StoreError::TimedOut { location, after };
                    // A job that was cancelled cut the request itself: the server is not to blame.
                    let error = if wanted { timed_out } else { StoreError::Cancelled };
                    Err(GaveUp::Nobody(error.into()))
                } else {
                    Ok(())
                };
            }
            Failed::Store(error) => error,
        };
        self.failures = if progressed { 1 } else { self.failures + 1 };
        let mangled = matches!(error, StoreError::Protocol { .. });
        self.mangled += u32::from(mangled);
        // Readers share one deadline; the background waits until the server answers again.
        let silent = matches!(error, StoreError::Unresponsive { .. });
        if silent && fetch.class != Class::Background {
            return Err(GaveUp::NoHope(error.into()));
        }
        let hope = error.is_transient()
            || matches!(error, StoreError::Unreachable { .. })
            || (mangled && self.mangled < TRIES_MANGLED);
        if !hope || over {
            return Err(GaveUp::NoHope(error.into()));
        }
        if self.gave_up(fetch, self.failures) {
            return Err(GaveUp::Nobody(error.into()));
        }
        counters.retries.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(%error, failures = self.failures, "trying again");
        let (start, pause) = (Instant::now(), self.pause(crew, &error));
        let asked = fetch.node.latest_deadline(fetch.id);
        while start.elapsed() < pause {
            std::thread::sleep(NAP.min(pause));
            if self.gave_up(fetch, self.failures) {
                return Err(GaveUp::Nobody(error.into()));
            }
            // Whoever has come since has a try of its own, and does not wait out what others have failed.
            if start.elapsed() > FIRST_PAUSE && fetch.node.latest_deadline(fetch.id) > asked {
                self.failures = 0;
                break;
            }
        }
        Ok(())
    }

    /// Whether there is nobody left to try for.
    fn gave_up(&self, fetch: &Fetch, tries: u32) -> bool {
        if let Some(deadline) = fetch.node.latest_deadline(fetch.id) {
            return deadline <= Instant::now();
        }
        match fetch.class {
            Class::Demand => true,
            Class::Ahead => tries > TRIES_AHEAD || !fetch.is_wanted(),
            Class::Background => tries > TRIES_BACKGROUND || !fetch.is_wanted(),
        }
    }

    fn pause(&self, crew: &Crew, error: &StoreError) -> Duration {
        let doubled = FIRST_PAUSE.saturating_mul(1 << (self.failures - 1).min(10)).min(LONGEST_PAUSE);
        let mut pause = doubled;
        if let StoreError::SlowDown { retry_after, .. } = error {
            crew.slowdowns.fetch_add(1, Ordering::Relaxed);
            pause = pause.max(retry_after.unwrap_or_default().min(LONGEST_PAUSE * 5));
        }
        if let StoreError::Unresponsive { retry_in, .. } = error {
            pause = pause.max(*retry_in);
        }
        // Those who failed together must not come back together. The clock's low digits are random enough.
        let spread =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
        pause.mul_f64(0.5 + f64::from(spread % 1_000) / 1_000.0)
    }
}
