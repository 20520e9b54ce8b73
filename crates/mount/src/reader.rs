//! An open file of a mount, with its last read that failed after a wait.
//!
//! When a read ahead fails, the kernel at once requests again the page that its caller waits for.
//! That second read fails immediately with the error of the first, because a second deadline, or
//! another row of retries, would double the time of the call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use firstbyte_hydrate::{Error, Handle};
use rustix_futex_sync::Mutex;

use crate::inodes::Node;

/// The time after a failure within which a read counts as the kernel's own retry. That comes within
/// microseconds, or a thousand times later on an overloaded machine. A program that tries again by
/// itself waits for longer. A read that failed sooner than this cost no wait.
const AT_ONCE: Duration = Duration::from_millis(250);

/// An open file.
pub(crate) struct OpenFile {
    pub(crate) node: Arc<Node>,
    pub(crate) handle: Handle,
    pub(crate) given_up: GivenUp,
}

impl OpenFile {
    pub(crate) fn new(node: Arc<Node>, handle: Handle) -> Self {
        Self { node, handle, given_up: GivenUp::default() }
    }
}

/// The last read that failed after a wait.
#[derive(Default)]
pub(crate) struct GivenUp(Mutex<Option<(Instant, Error)>>);

impl GivenUp {
    /// Records how a read that began at `begun` failed at `now`. A read that failed without a wait
    /// is not recorded: it fails without one again. After a change of the object the kernel opens
    /// it anew.
    pub(crate) fn note(&self, error: &Error, begun: Instant, now: Instant) {
        let is_changed = matches!(error, Error::Changed { .. });
        if !is_changed && now.duration_since(begun) >= AT_ONCE {
            *self.0.lock() = Some((now, error.clone()));
        }
    }

    /// Returns the error of a read that begins at `now`, if it follows a failure so closely that it
    /// must not wait.
    pub(crate) fn at_once(&self, now: Instant) -> Option<Error> {
        let last = self.0.lock();
        last.as_ref().filter(|(then, _)| now.duration_since(*then) < AT_ONCE).map(|(_, error)| error.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_read_right_after_one_that_waited_fails_with_its_error() {
        let (given_up, begun) = (GivenUp::default(), Instant::now());
        let error = Error::Directory { location: "x".into() };
        assert!(given_up.at_once(begun).is_none());
        given_up.note(&error, begun, begun);
        assert!(given_up.at_once(begun).is_none(), "an answer, and no waiting");
        let now = begun + Duration::from_secs(16);
        given_up.note(&error, begun, now);
        assert!(matches!(given_up.at_once(now), Some(Error::Directory { .. })));
        assert!(given_up.at_once(now + AT_ONCE).is_none(), "a later attempt");
    }
}
