//! Ends a run on Ctrl-C, on SIGTERM or SIGHUP, or at its `--deadline`.
//!
//! The first signal asks the work to end cleanly and to keep its journal, so that the next run can
//! resume. Work that has not ended after a grace period is abandoned, because some waits cannot be
//! interrupted: a file system that does not answer, or a pipe that is not read. Abandoning work is
//! safe, because every verb tolerates being killed at any instant. A second signal ends the process
//! at once. Before this module ends the process, it undoes effects that must not outlive the
//! process, such as a mount point or the directories of a measurement. Called by `main` and the
//! verbs.

use std::ffi::OsStr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use firstbyte_location::shown;
use firstbyte_transfer::{Error as Transfer, Stop};
use rustix_futex_sync::Mutex;
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::render::console;
use crate::render::error::{Error, Exit, Result};

/// Time that work has to end cleanly. The program promises to end within two seconds; the rest is
/// for undoing ([`UNDO_TIME_LIMIT`]) and for the exit.
pub const GRACE: Duration = Duration::from_millis(1_500);
/// Time that a measurement has to end its child processes and remove its files.
const MEASUREMENT_GRACE: Duration = Duration::from_secs(15);
/// Maximum time for undoing effects that must not outlive the process. The time is limited, because
/// a file system may not answer.
const UNDO_TIME_LIMIT: Duration = Duration::from_millis(400);
/// Polling interval for further signals after the first.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// When and how a process ends if its work does not end by itself after the first signal.
#[derive(Clone, Copy, Debug)]
pub struct ForcedEnd {
    /// Time that work has after SIGINT.
    pub interrupted: Duration,
    /// Time that work has after SIGTERM or SIGHUP, the signals that end services.
    pub terminated: Duration,
    /// Exit code of the process if its time has run out.
    pub exit: Exit,
}

impl ForcedEnd {
    /// The limits of verbs that do a task, unlike services. A task that is cut off counts as
    /// interrupted.
    const RUN: Self = Self { interrupted: GRACE, terminated: GRACE, exit: Exit::Interrupted };
    /// The limits of a measurement, which has child processes to end and files to remove. On a busy
    /// machine this takes longer than [`GRACE`], although a stop interrupts all waits of a
    /// measurement.
    const MEASUREMENT: Self =
        Self { interrupted: MEASUREMENT_GRACE, terminated: MEASUREMENT_GRACE, exit: Exit::Interrupted };
}

/// Calls `ask_to_end` on the first signal, from a separate thread. Work that has not ended
/// [`GRACE`] later is abandoned.
///
/// # Errors
/// The operating system refuses the signal handlers or the thread.
pub fn on_run_signal(ask_to_end: impl FnOnce() + Send + 'static) -> Result<()> {
    on_signals(&[SIGINT, SIGTERM, SIGHUP], ForcedEnd::RUN, ask_to_end, (|| {}, UNDO_TIME_LIMIT))
}

/// Like [`on_run_signal`], for measurements. A measurement has more time to end
/// ([`MEASUREMENT_GRACE`]). If this module ends the process, it removes the measurement's
/// directories before that.
///
/// # Errors
/// The errors of [`on_run_signal`].
pub fn on_measurement_signal(ask_to_end: impl FnOnce() + Send + 'static) -> Result<()> {
    let undo = (firstbyte_bench::remove_stages, MEASUREMENT_GRACE);
    on_signals(&[SIGINT, SIGTERM, SIGHUP], ForcedEnd::MEASUREMENT, ask_to_end, undo)
}

/// Like [`on_run_signal`], for services. Work that has not ended within the time that `ending`
/// allows is abandoned. If this module ends the process, it calls `undo` before that, even if
/// `ask_to_end` has not returned.
///
/// # Errors
/// The errors of [`on_run_signal`].
pub fn on_service_signal(
    ending: ForcedEnd,
    ask_to_end: impl FnOnce() + Send + 'static,
    undo: impl FnOnce() + Send + 'static,
) -> Result<()> {
    on_signals(&[SIGINT, SIGTERM, SIGHUP], ending, ask_to_end, (undo, UNDO_TIME_LIMIT))
}

/// Calls `report` on each SIGUSR1, from a separate thread that runs until the process ends.
///
/// # Errors
/// The errors of [`on_run_signal`].
pub fn on_report(report: impl Fn() + Send + 'static) -> Result<()> {
    let mut signals = Signals::new([SIGUSR1]).map_err(|e| Error::io("signal handlers", &e))?;
    change_mask(libc::SIG_BLOCK, &[SIGUSR1]);
    start_thread("reports", move || {
        change_mask(libc::SIG_UNBLOCK, &[SIGUSR1]);
        signals.forever().for_each(|_| report());
    })
}

/// Makes a write beyond the limit on file sizes (`ulimit -f`) fail with EFBIG. By default, SIGXFSZ
/// ends the process without a message. Programs that this process starts get the default back.
pub fn survive_file_size_limit() {
    // If the handler is refused, the process ends as before.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Handlers of [`end_as_first_process`], each with its signal.
static FIRST_PROCESS_HANDLERS: Mutex<Vec<(i32, SigId)>> = Mutex::new(Vec::new());

/// Makes SIGINT, SIGTERM and SIGHUP end the first process of a container. The kernel sends such a
/// process no signal that it does not handle (pid_namespaces(7)), so Ctrl-C and `docker stop` would
/// have no effect on verbs that only read. Verbs that handle a signal replace these handlers.
pub fn end_as_first_process() {
    if std::process::id() != 1 {
        return;
    }
    let mut handlers = FIRST_PROCESS_HANDLERS.lock();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Shells report a process that a signal has ended with the same number.
        let ends = Arc::new(AtomicBool::new(true));
        let registered = signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, ends);
        handlers.extend(registered.ok().map(|id| (signal, id)));
    }
}

fn on_signals(
    signals: &[i32],
    ending: ForcedEnd,
    ask_to_end: impl FnOnce() + Send + 'static,
    (undo, within): (impl FnOnce() + Send + 'static, Duration),
) -> Result<()> {
    let handled = |signal: &i32| *signal != SIGHUP || !is_hangup_ignored();
    let numbers: Vec<i32> = signals.iter().copied().filter(handled).collect();
    let mut signals = Signals::new(&numbers).map_err(|e| Error::io("signal handlers", &e))?;
    FIRST_PROCESS_HANDLERS
        .lock()
        .retain(|(signal, id)| !(numbers.contains(signal) && signal_hook::low_level::unregister(*id)));
    change_mask(libc::SIG_BLOCK, &numbers);
    let watch = move || {
        change_mask(libc::SIG_UNBLOCK, &numbers);
        let Some(signal) = signals.forever().next() else { return };
        // `ask_to_end` runs on a thread of its own, because it may block and a second signal must
        // not wait for it.
        let asked = start_thread("stopping", ask_to_end);
        let grace = if signal == SIGINT { ending.interrupted } else { ending.terminated };
        let until = Instant::now() + grace;
        while asked.is_ok() && Instant::now() < until {
            if signals.pending().next().is_some() {
                break;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        run_within(undo, within);
        if ending.exit == Exit::Interrupted {
            console::print_error(&Error::interrupted());
        }
        std::process::exit(ending.exit as i32);
    };
    // The thread runs until the process ends, so it is never joined.
    start_thread("signals", watch)
}

/// Returns whether SIGHUP is ignored, as in a process that `nohup` started. SIGHUP then stays
/// ignored.
fn is_hangup_ignored() -> bool {
    // SAFETY: the call only writes the present action to the local value.
    unsafe {
        let mut action = std::mem::zeroed::<libc::sigaction>();
        libc::sigaction(SIGHUP, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Calls `undo` on a separate thread, and waits at most `within` until it returns.
fn run_within(undo: impl FnOnce() + Send + 'static, within: Duration) {
    let (done, ended) = mpsc::channel::<()>();
    let undoing = start_thread("undoing", move || {
        undo();
        drop(done);
    });
    if undoing.is_ok() {
        let _ = ended.recv_timeout(within);
    }
}

/// Blocks or unblocks signals for this thread and the threads that it starts later.
///
/// The kernel delivers a signal to any thread that does not block it. A thread that waits for a
/// file system could not handle the signal, so only the thread that watches for signals leaves them
/// unblocked. Programs that this process starts do not inherit the blocked signals.
fn change_mask(how: i32, signals: &[i32]) {
    // SAFETY: `sigemptyset` initialises the local set before it is used, and no pointer to the set
    // outlives the calls.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        // The call fails only if `how` is invalid.
        libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut());
    }
}

/// The time limit of a run, and the source that the error message names.
#[derive(Clone, Copy, Debug)]
pub struct RunDeadline<'a> {
    pub after: Duration,
    pub source: &'a OsStr,
}

/// Returns a handle that is stopped by Ctrl-C, SIGTERM, SIGHUP or the deadline. Work that has not
/// ended after a grace period is abandoned.
pub fn stop_on_signal(deadline: Option<RunDeadline<'_>>) -> Result<Stop> {
    let stop = Stop::default();
    let raised = stop.clone();
    on_run_signal(move || raised.stop())?;
    if let Some(RunDeadline { after, source }) = deadline {
        stop.stop_after(after)?;
        end_after(after, shown(source).to_string())?;
    }
    Ok(stop)
}

/// Ends the process [`GRACE`] after the deadline if the run has not ended by then.
///
/// # Errors
/// No thread can be started.
pub fn end_after(deadline: Duration, source: String) -> Result<()> {
    start_thread("last-deadline", move || {
        std::thread::sleep(deadline.saturating_add(GRACE));
        let error = Error::from(Transfer::Deadline { after: deadline }).about(&source);
        console::print_error(&error);
        std::process::exit(error.exit as i32);
    })
}

/// Starts a thread with a small stack, which is enough for the few functions that it calls.
fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = std::thread::Builder::new().name(name.into()).stack_size(128 << 10);
    thread.spawn(work).map(drop).map_err(|e| Error::io("starting a thread", &e))
}

/// Calls `ask_to_end` on the first SIGINT or SIGTERM; SIGHUP keeps its default action. Work that
/// has not ended within the time that `ending` allows is abandoned.
///
/// # Errors
/// The errors of [`on_run_signal`].
pub fn on_signal_but_hangup(ending: ForcedEnd, ask_to_end: impl FnOnce() + Send + 'static) -> Result<()> {
    on_signals(&[SIGINT, SIGTERM], ending, ask_to_end, (|| {}, UNDO_TIME_LIMIT))
}

/// Watches for SIGINT and SIGTERM; SIGHUP keeps its default action. Returns a channel that receives
/// a message on the first of these signals.
///
/// # Errors
/// The errors of [`on_run_signal`].
pub fn first_signal_but_hangup(ending: ForcedEnd) -> Result<mpsc::Receiver<()>> {
    let (send, receive) = mpsc::channel();
    let report = move || {
        // Sending fails only if the work is over and the receiver has been dropped.
        let _ = send.send(());
    };
    on_signal_but_hangup(ending, report).map(|()| receive)
}
