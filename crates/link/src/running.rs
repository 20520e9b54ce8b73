//! Starts and stops a link.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, eventfd};

use crate::config::LinkConfig;
use crate::counters::{LinkCounters, LinkCounts};
use crate::error::{Error, Result};
use crate::rate::BurstBucket;
use crate::router::LinkRouter;

/// Name of the thread. With it, tools show the CPU time of the link separately.
const THREAD: &str = "link";

/// Starts links. This is the entry point of the proxy.
#[derive(Debug)]
pub struct Link;

impl Link {
    /// Starts a thread that listens and forwards.
    ///
    /// # Errors
    /// A burst is given without a total rate, or its rate is below the total rate. Or the target
    /// does not resolve, the address is in use, or the operating system refuses a thread. The
    /// target is not contacted yet: if it later refuses a connection, the link closes the client's
    /// connection.
    pub fn start(config: LinkConfig) -> Result<RunningLink> {
        BurstBucket::check(config.burst, config.rate)?;
        let to = resolve(&config.to)?;
        let listen = |source| Error::Listen { address: config.listen.to_string(), source };
        let listener = TcpListener::bind(config.listen).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let run = |source| Error::Run { source };
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(|e| run(e.into()))?;
        let counters = Arc::new(LinkCounters::default());
        let router = LinkRouter::new(listener, &stop, config, to, Arc::clone(&counters)).map_err(run)?;
        let work = move || {
            if let Err(error) = router.run() {
                tracing::error!(%error, "the link broke down");
            }
        };
        let thread = thread::Builder::new().name(THREAD.to_owned()).spawn(work).map_err(run)?;
        Ok(RunningLink { address, counters, stop, thread: Some(thread) })
    }
}

fn resolve(target: &str) -> Result<SocketAddr> {
    let fail = |source| Error::Target { target: target.to_owned(), source };
    let mut addresses = target.to_socket_addrs().map_err(fail)?;
    addresses.next().ok_or_else(|| fail(std::io::Error::from(std::io::ErrorKind::NotFound)))
}

/// A running link. Dropping the value stops the link.
#[derive(Debug)]
pub struct RunningLink {
    address: SocketAddr,
    counters: Arc<LinkCounters>,
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl RunningLink {
    /// Returns the address on which the link listens, with the actual port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the counters so far.
    #[must_use]
    pub fn counters(&self) -> LinkCounts {
        self.counters.snapshot()
    }

    /// Ends every connection and the thread. Returns the final counters.
    #[must_use = "drop it to stop a link whose counters do not matter"]
    pub fn stop(mut self) -> LinkCounts {
        self.end();
        self.counters.snapshot()
    }

    fn end(&mut self) {
        if let Some(thread) = self.thread.take() {
            // Adding 1 to an eventfd fails only if it is full; then it is readable anyway.
            let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
            // The thread has already reported its panic on standard error.
            let _ = thread.join();
        }
    }
}

impl Drop for RunningLink {
    fn drop(&mut self) {
        self.end();
    }
}
