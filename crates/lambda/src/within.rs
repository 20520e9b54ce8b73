//! Ends the wait for a call's work at the deadline, whatever the work waits for.

use firstbyte_store::FailureKind;

use crate::deadline::Deadline;
use crate::error::{InvocationFailure, Result};

/// Runs `work` on a blocking thread, and returns its result. Waits of this crate end before the
/// deadline by themselves. A file system that does not answer may hold a thread indefinitely. That
/// thread is left behind, so that the function can still answer.
///
/// # Errors
/// [`FailureKind::Deadline`] if the work has not ended in time, [`FailureKind::Internal`] if it
/// panicked.
pub async fn within<T: Send + 'static>(
    deadline: Deadline,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let time = deadline.remaining().saturating_sub(deadline.last_moment());
    match tokio::time::timeout(time, tokio::task::spawn_blocking(work)).await {
        Ok(ended) => ended.map_err(|panic| InvocationFailure::panicked(&panic)),
        Err(_) => Err(InvocationFailure::new(
            FailureKind::Deadline,
            "the call did not end before its deadline, as when a mounted file system does not answer; check \
             the function's mount, or give it a longer timeout",
        )),
    }
}
