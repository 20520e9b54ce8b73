//! Ctrl-C and SIGTERM: the first ends the work cleanly, its journal kept, so that the next run resumes; the second ends
//! the process at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::{Error, Exit, Result};

type Callback = Box<dyn FnOnce() + Send>;

/// Tells a verb that it should end.
#[derive(Clone, Default)]
pub struct Interrupt {
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    raised: AtomicBool,
    callbacks: Mutex<Vec<Callback>>,
}

impl Interrupt {
    /// Begins to watch for the signals.
    ///
    /// # Errors
    /// The operating system refuses the handlers or the thread.
    pub fn install() -> Result<Self> {
        let interrupt = Self::default();
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|e| Error::io("signal handlers", &e))?;
        let watcher = interrupt.clone();
        // The thread lives as long as the process: there is nothing to join.
        std::thread::Builder::new()
            .name("signals".into())
            .stack_size(64 << 10)
            .spawn(move || {
                for _ in signals.forever() {
                    watcher.raise();
                }
            })
            .map_err(|e| Error::io("signal thread", &e))?;
        Ok(interrupt)
    }

    fn raise(&self) {
        if self.state.raised.swap(true, Ordering::SeqCst) {
            std::process::exit(Exit::Interrupted as i32);
        }
        let callbacks = std::mem::take(&mut *self.callbacks());
        callbacks.into_iter().for_each(|callback| callback());
    }

    /// Runs `callback` when the first signal comes; at once if it has come already.
    pub fn on_raise(&self, callback: impl FnOnce() + Send + 'static) {
        self.callbacks().push(Box::new(callback));
        if self.is_raised() {
            let callbacks = std::mem::take(&mut *self.callbacks());
            callbacks.into_iter().for_each(|callback| callback());
        }
    }

    /// Whether a signal has come.
    pub fn is_raised(&self) -> bool {
        self.state.raised.load(Ordering::SeqCst)
    }

    fn callbacks(&self) -> std::sync::MutexGuard<'_, Vec<Callback>> {
        self.state.callbacks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
