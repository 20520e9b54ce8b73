//! Waits without the interpreter's lock, so that Ctrl-C and `firstbyte.aio` end a call that waits
//! for a server.
//!
//! Python runs signal handlers on its main thread only, between two Python instructions. So a call
//! that waits on the main thread must run the handlers itself. A call on another thread is watched
//! if it was made by [`Cancellation::run`], and ends when that `Cancellation` is cancelled. While a
//! read waits on a watched thread, it checks for signals and for cancellation
//! ([`read_interruptibly`]). Other work moves to a separate thread ([`interruptible`]). On a signal
//! or a cancellation that thread is asked to stop. If it does not end within [`STOP_TIMEOUT`], the
//! call returns without it. The separate thread never uses Python and ends by its own deadline. All
//! other calls wait without checking.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// Interval between checks for signals: too short for a user to notice, and too long to cost
/// processor time.
pub(crate) const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum wait for work that was asked to stop, in which the work can clean up.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(1);

pyo3::create_exception!(
    firstbyte._native,
    Cancelled,
    PyBaseException,
    "A call was ended by the `Cancellation` that it was made by."
);

/// The flags that may end a call of this thread, one for each `Cancellation` around it.
type Flags = Vec<Arc<AtomicBool>>;

thread_local! {
    static WATCHED: RefCell<Flags> = const { RefCell::new(Vec::new()) };
}

/// Ends calls of other threads. A `Cancellation` that is made during a watched call is cancelled
/// together with the `Cancellation` of that call.
#[pyclass(frozen, module = "firstbyte._native")]
pub(crate) struct Cancellation {
    flag: Arc<AtomicBool>,
    around: Flags,
}

#[pymethods]
impl Cancellation {
    #[new]
    fn new() -> Self {
        Self { flag: Arc::default(), around: WATCHED.with_borrow(Clone::clone) }
    }

    /// Ends the calls made by `run`, both current and later ones.
    fn cancel(&self) {
        self.flag.store(true, Ordering::SeqCst);
    }

    /// Calls a function and returns its result. Raises `Cancelled` if the function waits for a
    /// server when this object is cancelled.
    #[pyo3(signature = (function, /, *arguments, **options))]
    fn run<'py>(
        &self,
        function: &Bound<'py, PyAny>,
        arguments: &Bound<'py, PyTuple>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut flags = self.around.clone();
        flags.push(Arc::clone(&self.flag));
        let _restored = FlagsGuard(WATCHED.replace(flags));
        check(function.py())?;
        function.call(arguments, options)
    }
}

/// Restores the flags of this thread after a call, whatever the call raises.
struct FlagsGuard(Flags);

impl Drop for FlagsGuard {
    fn drop(&mut self) {
        WATCHED.set(std::mem::take(&mut self.0));
    }
}

/// Runs signal handlers on the main thread, and checks whether the call is cancelled.
///
/// # Errors
/// The exception that a handler raised, or `Cancelled`.
pub(crate) fn check(py: Python<'_>) -> PyResult<()> {
    py.check_signals()?;
    if WATCHED.with_borrow(|flags| flags.iter().any(|flag| flag.load(Ordering::SeqCst))) {
        return Err(Cancelled::new_err("cancelled"));
    }
    Ok(())
}

/// Returns whether [`check`] can end a call of this thread: if the thread is watched, or is the
/// process's first thread, on which Python usually runs signal handlers.
fn is_watched() -> bool {
    rustix::thread::gettid() == rustix::process::getpid() || WATCHED.with_borrow(|flags| !flags.is_empty())
}

/// Runs `work` and returns its result. If [`check`] fails before that, calls `stop` and returns the
/// error of `check`.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    stop: impl FnOnce(),
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    if !is_watched() {
        return Ok(py.detach(work));
    }
    let stop = || {
        stop();
        STOP_TIMEOUT
    };
    run_on_thread(py, work, stop, &mut check)
}

/// Runs `work` on another thread and returns its result. Meanwhile calls `look` at every
/// [`SIGNAL_CHECK_INTERVAL`]. If `look` fails, calls `stop`, waits at most for the time that `stop`
/// returns, and returns the error of `look`.
fn run_on_thread<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
    stop: impl FnOnce() -> Duration,
    look: &mut dyn FnMut(Python<'_>) -> PyResult<()>,
) -> PyResult<T> {
    let (done, mut wait) = sync_channel(1);
    let call = move || {
        // If no call waits for the result any more, the result is dropped here.
        let _ = done.send(work());
    };
    let worker = thread::Builder::new().name("firstbyte-call".into()).spawn(call)?;
    loop {
        let waited = &mut wait;
        match py.detach(move || waited.recv_timeout(SIGNAL_CHECK_INTERVAL)) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Disconnected) => match py.detach(|| worker.join()) {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => unreachable!("a call that returns has sent its result"),
            },
            Err(RecvTimeoutError::Timeout) => {
                if let Err(raised) = look(py) {
                    let (grace, waited) = (stop(), &mut wait);
                    let _ = py.detach(move || waited.recv_timeout(grace));
                    return Err(raised);
                }
            }
        }
    }
}

/// Works like [`interruptible`], for work that leaves nothing to clean up: an interrupted call does
/// not wait for the work. `work` gets a flag that is set when the call is interrupted.
pub(crate) fn abandonable<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
) -> PyResult<T> {
    let abandoned = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&abandoned);
    let leave = || {
        flag.store(true, Ordering::SeqCst);
        Duration::ZERO
    };
    if !is_watched() {
        return Ok(py.detach(move || work(&abandoned)));
    }
    run_on_thread(py, move || work(&abandoned), leave, &mut check)
}

/// Works like [`interruptible`], but on any thread, and calls `tick` while `work` runs. An error of
/// `tick` ends the call.
pub(crate) fn interruptible_with_ticks<T: Send + 'static>(
    py: Python<'_>,
    stop: impl FnOnce(),
    tick: &mut dyn FnMut(Python<'_>) -> PyResult<()>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let stop = || {
        stop();
        STOP_TIMEOUT
    };
    run_on_thread(py, work, stop, &mut |py| check(py).and_then(|()| tick(py)))
}

/// Calls `read`, which must call the given function every [`SIGNAL_CHECK_INTERVAL`] to learn
/// whether to continue. If [`check`] fails, the read ends and the error of `check` is returned.
pub(crate) fn read_interruptibly<T: Send>(
    py: Python<'_>,
    read: impl FnOnce(Duration, &mut dyn FnMut() -> bool) -> firstbyte::Result<T> + Send,
) -> PyResult<firstbyte::Result<T>> {
    if !is_watched() {
        return Ok(py.detach(|| read(Duration::MAX, &mut || true)));
    }
    let mut raised = None;
    let result = py.detach(|| {
        read(SIGNAL_CHECK_INTERVAL, &mut || {
            raised = Python::attach(|py| check(py).err());
            raised.is_none()
        })
    });
    raised.map_or(Ok(result), Err)
}
