//! Represents an open file of a mount, and remembers its last read that failed after a wait.
//!
//! When a read ahead fails, the kernel immediately requests again the page for which its caller
//! waits. That second read fails at once with the error of the first, because waiting for another
//! deadline, or for more retries, would double the time of the call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use firstbyte_hydrate::{Error, Handle};
use rustix_futex_sync::Mutex;

use crate::inodes::Node;

/// Time after a failure within which a read counts as the kernel's own repetition. The kernel
/// repeats within microseconds, or up to a thousand times later on an overloaded machine. A program
/// that tries again by itself waits longer than this. A read that failed in less than this time
/// counts as one that did not wait.
const KERNEL_RETRY_TIME: Duration = Duration::from_millis(250);

/// An open file.
pub(crate) struct OpenFile {
    pub(crate) node: Arc<Node>,
    pub(crate) handle: Handle,
    pub(crate) last_failure: LastFailedRead,
}

impl OpenFile {
    pub(crate) fn new(node: Arc<Node>, handle: Handle) -> Self {
        Self { node, handle, last_failure: LastFailedRead::default() }
    }
}

/// The last read that failed after a wait.
#[derive(Default)]
pub(crate) struct LastFailedRead(Mutex<Option<(Instant, Error)>>);

impl LastFailedRead {
    /// Records that a read that began at `begun` failed at `now`. A read that failed without a wait
    /// is not recorded, because it would fail without a wait again. A change of the object is not
    /// recorded either, because the kernel then opens the object again.
    pub(crate) fn record_failure(&self, error: &Error, begun: Instant, now: Instant) {
        let is_changed = matches!(error, Error::Changed { .. });
        if !is_changed && now.duration_since(begun) >= KERNEL_RETRY_TIME {
            *self.0.lock() = Some((now, error.clone()));
        }
    }

    /// Returns the error with which a read that begins at `now` has to fail, if it follows a
    /// failure so closely that it must not wait.
    pub(crate) fn error_to_repeat(&self, now: Instant) -> Option<Error> {
        let last = self.0.lock();
        last.as_ref()
            .filter(|(then, _)| now.duration_since(*then) < KERNEL_RETRY_TIME)
            .map(|(_, error)| error.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_read_right_after_one_that_waited_fails_with_its_error() {
        let (last_failure, begun) = (LastFailedRead::default(), Instant::now());
        let error = Error::Directory { location: "x".into() };
        assert!(last_failure.error_to_repeat(begun).is_none());
        last_failure.record_failure(&error, begun, begun);
        assert!(last_failure.error_to_repeat(begun).is_none(), "an answer, and no waiting");
        let now = begun + Duration::from_secs(16);
        last_failure.record_failure(&error, begun, now);
        assert!(matches!(last_failure.error_to_repeat(now), Some(Error::Directory { .. })));
        assert!(last_failure.error_to_repeat(now + KERNEL_RETRY_TIME).is_none(), "a later attempt");
    }
}
