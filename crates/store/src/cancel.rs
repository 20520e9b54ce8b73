//! Ends a request from another thread.
//!
//! A blocking read cannot be asked to stop, but its socket can be shut down under it: the read returns at once. A
//! hedged duplicate, a deadline and Ctrl-C all end a request that way.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// A handle that a request registers its socket with. Cloned handles share one state.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    cancelled: bool,
    socket: Option<Arc<TcpStream>>,
}

impl Cancel {
    /// A handle that nobody has cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the request under way and every later one made with this handle: they fail with
    /// [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn cancel(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.cancelled = true;
        if let Some(socket) = state.socket.take() {
            // The peer may have closed it first: there is nothing left to end then.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Whether [`cancel`](Self::cancel) was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).cancelled
    }

    /// Registers the socket a request runs on; false where the handle is cancelled already.
    pub(crate) fn register(&self, socket: &Arc<TcpStream>) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.cancelled {
            state.socket = Some(Arc::clone(socket));
        }
        !state.cancelled
    }

    /// Forgets the socket: its request is over, and it may serve another one.
    pub(crate) fn release(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).socket = None;
    }
}
