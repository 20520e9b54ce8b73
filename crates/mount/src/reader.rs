//! An open file of a mount, with its last read that timed out.
//!
//! When a read ahead fails, the kernel at once requests the page again that its caller waits for.
//! That second read fails immediately with the error of the first, since a second deadline would
//! double the time of the call.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use firstbyte_hydrate::{Error, Handle};

use crate::inodes::Node;

/// A read this soon after a timeout counts as the kernel's own retry, which comes within
/// microseconds, or a thousand times later on an overloaded machine. A program that tries again by
/// itself waits for longer than this.
const AT_ONCE: Duration = Duration::from_millis(250);

/// An open file.
pub(crate) struct Reader {
    pub(crate) node: Arc<Node>,
    pub(crate) handle: Handle,
    pub(crate) given_up: GivenUp,
}

impl Reader {
    pub(crate) fn new(node: Arc<Node>, handle: Handle) -> Self {
        Self { node, handle, given_up: GivenUp::default() }
    }
}

/// The last read that got no answer within the deadline.
#[derive(Default)]
pub(crate) struct GivenUp(Mutex<Option<(Instant, Error)>>);

impl GivenUp {
    /// Notes how a read failed at `now`. Only reads that timed out count: a refused one is refused
    /// again without waiting.
    pub(crate) fn note(&self, error: &Error, now: Instant) {
        if matches!(error, Error::Deadline { .. }) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, error.clone()));
        }
    }

    /// The error of a read that begins at `now`, if it follows a timeout so closely that it must
    /// not wait; else `None`.
    pub(crate) fn at_once(&self, now: Instant) -> Option<Error> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|(then, _)| now.duration_since(*then) < AT_ONCE).map(|(_, error)| error.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_read_right_after_a_timeout_fails_with_it() {
        let (given_up, now) = (GivenUp::default(), Instant::now());
        assert!(given_up.at_once(now).is_none());
        given_up.note(&Error::Directory { location: "x".into() }, now);
        assert!(given_up.at_once(now).is_none(), "an answer, and no waiting");
        given_up.note(&Error::Deadline { location: "x".into(), seconds: 5 }, now);
        assert!(matches!(given_up.at_once(now), Some(Error::Deadline { .. })));
        assert!(given_up.at_once(now + AT_ONCE).is_none(), "a later attempt");
    }
}
