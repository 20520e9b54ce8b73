//! Ends requests from another thread.
//!
//! A blocking read cannot be asked to stop, but its socket can be shut down under it: the read returns at once. A
//! hedged duplicate, a deadline and Ctrl-C all end requests that way. What waits without a socket (name resolution,
//! connecting, a pause between two tries, a credential provider) looks at the handle every [`LOOK`].
//!
//! Handles nest: a request that runs [`within`](Cancel::within) another handle is ended by either.

use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// How often a wait without a socket looks whether it was cancelled.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// A handle that requests register their sockets with. Cloned handles share one state.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    state: Arc<State>,
    /// The handle around this one, whose end is this one's too.
    outer: Option<Arc<Cancel>>,
}

#[derive(Debug, Default)]
struct State {
    cancelled: AtomicBool,
    /// Of the requests under way. Weak, so that a connection that is given up closes.
    sockets: Mutex<Vec<Weak<TcpStream>>>,
}

impl Cancel {
    /// A handle that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same handle inside `outer`: what is asked for with it ends when either is cancelled. Cancelling it leaves
    /// `outer` alone.
    #[must_use]
    pub fn within(&self, outer: &Self) -> Self {
        let around = match &self.outer {
            Some(nearer) => nearer.within(outer),
            None => outer.clone(),
        };
        Self { state: Arc::clone(&self.state), outer: Some(Arc::new(around)) }
    }

    /// A handle that is cancelled by itself after `time`: for what is still tried once a run has ended.
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
        let thread = std::thread::Builder::new().name("cancel".into()).stack_size(64 << 10);
        if thread.spawn(expire).is_err() {
            // Without a thread to end it later it must not begin.
            cancel.cancel();
        }
        cancel
    }

    /// Ends the requests under way and every later one made with this handle: they fail with
    /// [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn cancel(&self) {
        self.state.cancelled.store(true, Ordering::SeqCst);
        for socket in self.state.sockets().drain(..).filter_map(|socket| socket.upgrade()) {
            // The peer may have closed it first: there is nothing left to end then.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Whether [`cancel`](Self::cancel) was called, on this handle or on one around it.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.levels().any(|level| level.state.cancelled.load(Ordering::SeqCst))
    }

    /// Sleeps, but not past a call of [`cancel`](Self::cancel).
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
            std::thread::sleep(left.min(LOOK));
        }
    }

    /// Registers the socket a request runs on; false where the handle is cancelled already.
    pub(crate) fn register(&self, socket: &Arc<TcpStream>) -> bool {
        for level in self.levels() {
            let mut sockets = level.state.sockets();
            sockets.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&Arc::downgrade(socket)));
            sockets.push(Arc::downgrade(socket));
        }
        // Looked at last: a cancellation from here on finds the socket.
        let live = !self.is_cancelled();
        if !live {
            self.release(&Arc::downgrade(socket));
        }
        live
    }

    /// Forgets a socket: its request is over, and it may serve another one.
    pub(crate) fn release(&self, socket: &Weak<TcpStream>) {
        for level in self.levels() {
            level.state.sockets().retain(|known| !known.ptr_eq(socket));
        }
    }

    fn levels(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |level| level.outer.as_deref())
    }
}

impl State {
    fn sockets(&self) -> MutexGuard<'_, Vec<Weak<TcpStream>>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn an_outer_handle_ends_the_requests_of_all_inner_ones() {
        let outer = Cancel::new();
        let (first, second) = (Cancel::new().within(&outer), Cancel::new().within(&outer));
        let ((a, _peer_a), (b, _peer_b)) = (connected(), connected());
        assert!(first.register(&a) && second.register(&b));
        outer.cancel();
        assert_eq!((&*a).read(&mut [0]).unwrap() + (&*b).read(&mut [0]).unwrap(), 0);
        assert!(first.is_cancelled() && second.is_cancelled() && !first.register(&a));
    }

    #[test]
    fn an_inner_handle_leaves_the_outer_one_and_its_other_requests_alone() {
        let outer = Cancel::new();
        let middle = Cancel::new().within(&outer);
        let inner = Cancel::new().within(&middle);
        inner.cancel();
        assert!(inner.is_cancelled() && !middle.is_cancelled() && !outer.is_cancelled());
        middle.cancel();
        assert!(!outer.is_cancelled());
    }

    #[test]
    fn a_released_socket_is_left_open() {
        let (socket, mut peer) = connected();
        let cancel = Cancel::new().within(&Cancel::new());
        assert!(cancel.register(&socket));
        cancel.release(&Arc::downgrade(&socket));
        cancel.cancel();
        std::io::Write::write_all(&mut &*socket, b"x").unwrap();
        assert_eq!(peer.read(&mut [0]).unwrap(), 1);
    }
}
