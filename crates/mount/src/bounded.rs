//! Bounds calls on paths that may lie below a mount whose daemon is stopped, where they would wait
//! for ever.
//!
//! Such a call runs in its own thread, which is left behind if it does not return in time. Used by
//! `control` and `mountpoint`.

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The time that a call may take: a working daemon answers from memory, or asks its store.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Runs `call`, at most for [`PATIENCE`].
///
/// # Errors
/// Those of the call, and `TimedOut`.
pub(crate) fn bounded<T: Send + 'static>(
    call: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (sender, receiver) = mpsc::channel();
    let work = move || {
        // After the deadline no thread receives the result.
        let _ = sender.send(call());
    };
    thread::Builder::new().name("bounded".into()).stack_size(firstbyte_store::STACK).spawn(work)?;
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
