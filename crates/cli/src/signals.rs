//! Ctrl-C and SIGTERM: the first ends the work cleanly, its journal kept, so that the next run resumes; the second ends
//! the process at once.

use std::sync::mpsc;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::{Error, Exit, Result};

/// Calls `first` when the first signal comes, from a thread of its own; a second signal ends the process.
///
/// # Errors
/// The operating system refuses the handlers or the thread.
pub fn on_interrupt(first: impl FnOnce() + Send + 'static) -> Result<()> {
    on_signals(&[SIGINT, SIGTERM], first)
}

/// The same for what runs without a terminal, also when that goes away (SIGHUP).
///
/// # Errors
/// As [`on_interrupt`].
pub fn on_end(first: impl FnOnce() + Send + 'static) -> Result<()> {
    on_signals(&[SIGINT, SIGTERM, SIGHUP], first)
}

fn on_signals(signals: &[i32], first: impl FnOnce() + Send + 'static) -> Result<()> {
    let mut signals = Signals::new(signals).map_err(|e| Error::io("signal handlers", &e))?;
    let watch = move || {
        let mut arrivals = signals.forever();
        if arrivals.next().is_some() {
            first();
        }
        if arrivals.next().is_some() {
            std::process::exit(Exit::Interrupted as i32);
        }
    };
    // The thread lives as long as the process: there is nothing to join. It calls two functions, hence the small stack.
    let thread = std::thread::Builder::new().name("signals".into()).stack_size(64 << 10);
    thread.spawn(watch).map(drop).map_err(|e| Error::io("signal thread", &e))
}

/// Watches for the signals and gives what to wait on: something arrives with the first one.
///
/// # Errors
/// As [`on_interrupt`].
pub fn interruption() -> Result<mpsc::Receiver<()>> {
    let (send, receive) = mpsc::channel();
    let first = move || {
        // Nobody waits any more: then the work is over already.
        let _ = send.send(());
    };
    on_interrupt(first).map(|()| receive)
}
