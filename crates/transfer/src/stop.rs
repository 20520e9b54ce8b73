//! Ends a run early: on Ctrl-C, or at a deadline.
//!
//! One handle ends every kind of wait: its [`Cancel`] cancels requests, and loops without a request
//! check [`Stop::error`]. Clones share one state.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use firstbyte_store::{Cancel, STACK};
use rustix_futex_sync::Mutex;

use crate::error::{Error, Result};

/// A handle that ends runs cleanly: requests in flight are cancelled, and journals keep the bytes
/// that have arrived.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    cancel: Cancel,
    why: OnceLock<StopReason>,
    /// Dropping this sender ends the thread that waits for the deadline.
    timer: Mutex<Option<Sender<()>>>,
}

#[derive(Clone, Copy, Debug)]
enum StopReason {
    Requested,
    Deadline(Duration),
}

impl Stop {
    /// Ends every run that uses this handle. Takes locks, so a signal handler must not call it.
    pub fn stop(&self) {
        self.0.end(StopReason::Requested);
    }

    /// Ends every run that uses this handle after `deadline`. A later call replaces an earlier one.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn stop_after(&self, deadline: Duration) -> Result<()> {
        let (timer, ended) = mpsc::channel::<()>();
        let shared = Arc::downgrade(&self.0);
        let wait = move || {
            if ended.recv_timeout(deadline) == Err(RecvTimeoutError::Timeout)
                && let Some(shared) = shared.upgrade()
            {
                shared.end(StopReason::Deadline(deadline));
            }
        };
        let thread = std::thread::Builder::new().name("deadline".into()).stack_size(STACK);
        thread.spawn(wait).map_err(Error::io("starting a thread"))?;
        *self.0.timer.lock() = Some(timer);
        Ok(())
    }

    /// Returns whether the handle was stopped or its deadline has passed.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.why.get().is_some()
    }

    /// Returns the error with which runs end, if the handle was stopped or its deadline has passed.
    #[must_use]
    pub fn error(&self) -> Option<Error> {
        self.0.why.get().map(|why| match why {
            StopReason::Requested => Error::Interrupted,
            StopReason::Deadline(after) => Error::Deadline { after: *after },
        })
    }

    /// Returns a handle that is cancelled when this handle is stopped. If a store is scoped by that
    /// handle, its requests then end.
    #[must_use]
    pub fn cancel(&self) -> &Cancel {
        &self.0.cancel
    }
}

impl Shared {
    fn end(&self, why: StopReason) {
        // If a reason is already set, it stays.
        let _ = self.why.set(why);
        self.cancel.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_stays_and_cancels_scoped_requests() {
        let stop = Stop::default();
        assert!(!stop.is_stopped() && stop.error().is_none());
        stop.stop_after(Duration::from_millis(1)).unwrap();
        while !stop.is_stopped() {
            std::thread::yield_now();
        }
        stop.stop();
        assert!(matches!(stop.error(), Some(Error::Deadline { .. })));
        while !stop.cancel().is_cancelled() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_deadline_ends_with_the_last_handle() {
        let stop = Stop::default();
        stop.stop_after(Duration::from_secs(3600)).unwrap();
        let weak = Arc::downgrade(&stop.0);
        drop(stop);
        assert!(weak.upgrade().is_none());
    }
}
