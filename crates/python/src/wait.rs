//! Waits without the interpreter's lock, so that Ctrl-C ends a call that waits for a server.
//!
//! Python runs signal handlers on its main thread only, between two Python instructions. So a call
//! that waits there must run them itself. A read runs them while it waits ([`read`]). Other work
//! moves to a separate thread ([`interruptible`]). If a handler raises an exception, that thread is
//! asked to stop. If it does not end within [`GRACE`], the call returns without it. The thread
//! never uses Python and ends by its own deadline. Calls on threads other than the main thread wait
//! without checking for signals.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

/// How often signals are looked for: sooner than a user notices, and no load.
pub(crate) const TICK: Duration = Duration::from_millis(50);
/// How long work that was asked to stop is waited for, so that it can clean up.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// Whether this is the thread on which Python runs signal handlers: the process's first one.
fn is_main_thread() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

/// Does `work` and returns its result. Where a signal's handler raises meanwhile, calls `stop` and
/// returns what it raised.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    stop: impl FnOnce(),
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    if !is_main_thread() {
        return Ok(py.detach(work));
    }
    let (done, mut wait) = sync_channel(1);
    let call = move || {
        // Where the result is not waited for any more, it is dropped here.
        let _ = done.send(work());
    };
    let worker = thread::Builder::new().name("firstbyte-call".into()).spawn(call)?;
    loop {
        let waited = &mut wait;
        match py.detach(move || waited.recv_timeout(TICK)) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Disconnected) => match py.detach(|| worker.join()) {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => unreachable!("a call that returns has sent its result"),
            },
            Err(RecvTimeoutError::Timeout) => {
                if let Err(raised) = py.check_signals() {
                    stop();
                    let waited = &mut wait;
                    let _ = py.detach(move || waited.recv_timeout(GRACE));
                    return Err(raised);
                }
            }
        }
    }
}

/// Calls `read`, a read that asks a function every [`TICK`] whether to go on. Where a signal's
/// handler raises meanwhile, returns what it raised; the read has ended then.
pub(crate) fn read<T: Send>(
    py: Python<'_>,
    read: impl FnOnce(Duration, &mut dyn FnMut() -> bool) -> firstbyte::Result<T> + Send,
) -> PyResult<firstbyte::Result<T>> {
    if !is_main_thread() {
        return Ok(py.detach(|| read(Duration::MAX, &mut || true)));
    }
    let mut raised = None;
    let result = py.detach(|| {
        read(TICK, &mut || {
            raised = Python::attach(|py| py.check_signals().err());
            raised.is_none()
        })
    });
    raised.map_or(Ok(result), Err)
}
