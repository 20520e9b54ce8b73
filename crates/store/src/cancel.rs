//! Ends requests from another thread.
//!
//! A blocking read ends when another thread shuts down its socket. Hedged requests, deadlines and
//! Ctrl-C end requests this way. Waits that have no socket (name resolution, connecting, back-off,
//! credential providers) check the handle every [`POLL_INTERVAL`].
//!
//! Handles nest: a handle made by [`within`](Cancel::within) is cancelled if either of the two
//! handles that it is made of is cancelled.

use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;

use crate::error::{Error, Result};
use crate::limits::{POLL_INTERVAL, STACK};

/// A handle that ends the requests registered with it. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    state: Arc<CancelState>,
    /// The outer handle. Cancelling it cancels this handle too.
    outer: Option<Arc<Cancel>>,
}

#[derive(Debug, Default)]
struct CancelState {
    cancelled: AtomicBool,
    /// Sockets of current requests. The references are weak, so that a dropped connection is
    /// closed.
    sockets: Mutex<Vec<Weak<TcpStream>>>,
}

impl firstbyte_pacing::Abort for Cancel {
    fn abort(&self) {
        self.cancel();
    }
}

impl Cancel {
    /// Returns a handle that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns this handle nested in `outer`: its requests end when this handle or `outer` is
    /// cancelled. Cancelling this handle does not cancel `outer`.
    #[must_use]
    pub fn within(&self, outer: &Self) -> Self {
        let around = match &self.outer {
            Some(nearer) => nearer.within(outer),
            None => outer.clone(),
        };
        Self { state: Arc::clone(&self.state), outer: Some(Arc::new(around)) }
    }

    /// Returns a handle that cancels itself after `time`. Requests that are sent after the end of a
    /// run, such as clean-up, use such a handle.
    #[must_use]
    pub fn after(time: Duration) -> Self {
        let cancel = Self::new();
        let state = Arc::downgrade(&cancel.state);
        let expire = move || {
            std::thread::sleep(time);
            if let Some(state) = state.upgrade() {
                Self { state, outer: None }.cancel();
            }
        };
        let thread = std::thread::Builder::new().name("cancel".into()).stack_size(STACK);
        if thread.spawn(expire).is_err() {
            // No thread could be started that cancels the handle later. So the handle is cancelled
            // now, and not used without a limit.
            cancel.cancel();
        }
        cancel
    }

    /// Ends the current requests with this handle, and refuses later ones. All fail with
    /// [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn cancel(&self) {
        self.state.cancelled.store(true, Ordering::SeqCst);
        for socket in self.state.sockets.lock().drain(..).filter_map(|socket| socket.upgrade()) {
            // The shutdown fails if the server has already closed the connection.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Returns true after [`cancel`](Self::cancel) on this handle or on a handle around it.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.levels().any(|level| level.state.cancelled.load(Ordering::SeqCst))
    }

    /// Sleeps until `wait` has passed or the handle is cancelled.
    pub(crate) fn sleep(&self, wait: Duration) -> Result<()> {
        let until = Instant::now() + wait;
        loop {
            if self.is_cancelled() {
                return Err(Error::Cancelled);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(POLL_INTERVAL));
        }
    }

    /// Registers the socket of a request. Returns false if the handle is already cancelled.
    pub(crate) fn register(&self, socket: &Arc<TcpStream>) -> bool {
        for level in self.levels() {
            let mut sockets = level.state.sockets.lock();
            sockets.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&Arc::downgrade(socket)));
            sockets.push(Arc::downgrade(socket));
        }
        // The flag is checked after the socket was added. So a cancellation after this check finds
        // the socket.
        let live = !self.is_cancelled();
        if !live {
            self.release(&Arc::downgrade(socket));
        }
        live
    }

    /// Removes the socket of a finished request.
    pub(crate) fn release(&self, socket: &Weak<TcpStream>) {
        for level in self.levels() {
            level.state.sockets.lock().retain(|known| !known.ptr_eq(socket));
        }
    }

    fn levels(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |level| level.outer.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::*;

    fn connected() -> (Arc<TcpStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Arc::new(client), listener.accept().unwrap().0)
    }

    #[test]
    fn an_outer_handle_cancels_all_inner_ones() {
        let outer = Cancel::new();
        let (first, second) = (Cancel::new().within(&outer), Cancel::new().within(&outer));
        let ((a, _peer_a), (b, _peer_b)) = (connected(), connected());
        assert!(first.register(&a) && second.register(&b));
        outer.cancel();
        assert_eq!((&*a).read(&mut [0]).unwrap() + (&*b).read(&mut [0]).unwrap(), 0);
        assert!(first.is_cancelled() && second.is_cancelled() && !first.register(&a));
    }

    #[test]
    fn an_inner_handle_does_not_cancel_the_outer_one() {
        let outer = Cancel::new();
        let middle = Cancel::new().within(&outer);
        let inner = Cancel::new().within(&middle);
        inner.cancel();
        assert!(inner.is_cancelled() && !middle.is_cancelled() && !outer.is_cancelled());
        middle.cancel();
        assert!(!outer.is_cancelled());
    }

    #[test]
    fn cancelling_leaves_a_released_socket_open() {
        let (socket, mut peer) = connected();
        let cancel = Cancel::new().within(&Cancel::new());
        assert!(cancel.register(&socket));
        cancel.release(&Arc::downgrade(&socket));
        cancel.cancel();
        std::io::Write::write_all(&mut &*socket, b"x").unwrap();
        assert_eq!(peer.read(&mut [0]).unwrap(), 1);
    }
}
