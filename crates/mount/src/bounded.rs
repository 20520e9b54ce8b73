//! Bounds the time of calls on paths that may be below a mount whose daemon is suspended. Without
//! the bound, such a call would wait for ever.
//!
//! Such a call runs in a thread of its own, which is abandoned if the call does not return in time.
//! Used by `control` and `mountpoint`.

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Maximum time of a call. A working daemon answers from memory, or asks its store.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs `call`, but waits no longer than [`CALL_TIMEOUT`].
///
/// # Errors
/// The errors of the call, and `TimedOut`.
pub(crate) fn bounded<T: Send + 'static>(
    call: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (sender, receiver) = mpsc::channel();
    let work = move || {
        // After the timeout, the result has no receiver.
        let _ = sender.send(call());
    };
    thread::Builder::new().name("bounded".into()).stack_size(firstbyte_store::STACK).spawn(work)?;
    receiver.recv_timeout(CALL_TIMEOUT).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
