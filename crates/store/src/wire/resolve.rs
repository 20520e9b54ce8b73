//! Resolves host names, and connects to one of their addresses.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use rustix_futex_sync::Mutex;
use socket2::SockRef;

use super::FailedRequest;
use crate::cancel::Cancel;
use crate::error::{Error, UNRESOLVED};
use crate::limits::{KEEP_IDLE, POLL_INTERVAL, SEND_STEP};
use crate::moment::Moment;
use crate::options::StoreOptions;
use crate::origin::Origin;

/// Time without a byte before the first keepalive probe, and between two probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(6);
/// Number of unanswered keepalive probes after which the connection counts as lost, which takes
/// half a minute in total.
const KEEPALIVE_PROBES: u32 = 4;

/// The addresses of a name, and the time at which the name was resolved.
type Resolved = (Moment, Vec<SocketAddr>);

/// Time for which an address that accepted no connection comes after the other ones of its name. A
/// server that starts again is used again soon.
const DEAD_FOR: Duration = Duration::from_secs(60);

/// Resolves names, and spreads connections over all addresses of a name, because the total rate of
/// a store is the sum of the rates of its front ends.
#[derive(Default)]
pub(crate) struct Resolver {
    known: Mutex<HashMap<(String, u16), Resolved>>,
    /// The addresses that accepted no connection, and the time of the last failure. Without this, a
    /// dead server or a broken IPv6 route would delay each second connection
    /// (<https://github.com/scylladb/scylladb/pull/28405>, as of 28 November 2026).
    dead: Mutex<HashMap<SocketAddr, Moment>>,
    next: AtomicUsize,
}

impl Resolver {
    /// Connects a socket, and sets its deadlines. Tries each address once, in a total time limited
    /// by both the connect deadline and `wait`. Resolving the name may take the same time in
    /// addition.
    pub(super) fn connect(
        &self,
        origin: &Origin,
        options: &StoreOptions,
        wait: Duration,
        cancel: &Cancel,
    ) -> Result<TcpStream, FailedRequest> {
        let unreachable = |what: &str, error: &io::Error| match cancel.is_cancelled() {
            true => Error::Cancelled.into(),
            false => FailedRequest::unreachable(origin, what, error),
        };
        let deadline = options.connect_deadline.min(wait);
        let addresses =
            self.resolve(origin, deadline, cancel).map_err(|error| unreachable(UNRESOLVED, &error))?;
        let addresses = self.in_turn(addresses);
        let until = Instant::now() + deadline;
        let mut failed = io::Error::other("the name has no address");
        for (turn, address) in addresses.iter().copied().enumerate() {
            // Each address gets an equal share of the remaining time, so an unreachable address
            // leaves time for the others.
            let left = until.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(addresses.len() - turn).unwrap_or(1);
            if share.is_zero() {
                break;
            }
            match connect(address, share, cancel).and_then(|socket| prepare(socket, options)) {
                Ok(socket) => {
                    self.dead.lock().remove(&address);
                    return Ok(socket);
                }
                Err(_) if cancel.is_cancelled() => return Err(Error::Cancelled.into()),
                Err(error) => {
                    let mut dead = self.dead.lock();
                    // Stores change their addresses, so old entries would pile up.
                    dead.retain(|_, since| since.age() < DEAD_FOR);
                    dead.insert(address, Moment::now());
                    failed = error;
                }
            }
        }
        Err(unreachable("", &failed))
    }

    /// Returns the addresses in the order in which the next connection tries them: each comes first
    /// in turn, and those that failed a short time ago come last.
    fn in_turn(&self, addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let dead = self.dead.lock();
        let is_dead = |address: &SocketAddr| dead.get(address).is_some_and(|since| since.age() < DEAD_FOR);
        let (mut last, mut first): (Vec<_>, Vec<_>) = addresses.into_iter().partition(is_dead);
        for group in [&mut first, &mut last] {
            let count = group.len().max(1);
            group.rotate_left(turn % count);
        }
        first.append(&mut last);
        first
    }

    fn resolve(&self, origin: &Origin, deadline: Duration, cancel: &Cancel) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = origin.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, origin.port)]);
        }
        let key = (origin.host.clone(), origin.port);
        if let Some((at, addresses)) = self.known.lock().get(&key)
            && at.age() < KEEP_IDLE
        {
            return Ok(addresses.clone());
        }
        let addresses = look_up(origin, deadline, cancel)?;
        self.known.lock().insert(key, (Moment::now(), addresses.clone()));
        Ok(addresses)
    }
}

/// Resolves a name on a new thread, because the system call has no deadline and cannot be
/// cancelled. If the wait ends early, the thread is abandoned.
fn look_up(origin: &Origin, deadline: Duration, cancel: &Cancel) -> io::Result<Vec<SocketAddr>> {
    let (send, receive) = mpsc::channel();
    let (host, port) = (origin.host.clone(), origin.port);
    let ask = move || {
        // The send fails if the receiver has given up.
        let _ = send.send((host.as_str(), port).to_socket_addrs().map(Iterator::collect));
    };
    std::thread::Builder::new().name("resolve".into()).spawn(ask)?;
    let until = Instant::now() + deadline;
    loop {
        match receive.recv_timeout(POLL_INTERVAL) {
            Ok(found) => return found.map_err(|error| without_prefix(&error)),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("the name cannot be resolved"));
            }
            Err(mpsc::RecvTimeoutError::Timeout) if cancel.is_cancelled() => {
                return Err(io::ErrorKind::Interrupted.into());
            }
            Err(mpsc::RecvTimeoutError::Timeout) if Instant::now() >= until => {
                let why = format!("no name server answers within {} s", deadline.as_secs_f64());
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Removes the prefix that the standard library adds to the error for a name without an address.
fn without_prefix(error: &io::Error) -> io::Error {
    let text = error.to_string();
    let why = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
    io::Error::new(error.kind(), why)
}

/// Connects within `time`. Fails when cancelled.
fn connect(address: SocketAddr, time: Duration, cancel: &Cancel) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let until = Instant::now() + time;
    let look = Timespec { tv_sec: 0, tv_nsec: i64::from(POLL_INTERVAL.subsec_nanos()) };
    while poll_once(&socket, &look)? == 0 {
        if cancel.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if Instant::now() >= until {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "connection timed out"));
        }
    }
    sockopt::socket_error(&socket)??;
    ioctl_fionbio(&socket, false)?;
    Ok(TcpStream::from(socket))
}

fn poll_once(socket: &std::os::fd::OwnedFd, time: &Timespec) -> io::Result<usize> {
    match poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(time)) {
        Err(Errno::INTR) => Ok(0),
        other => Ok(other?),
    }
}

fn prepare(socket: TcpStream, options: &StoreOptions) -> std::io::Result<TcpStream> {
    // The head and the payload of a request are written separately. Nagle's algorithm would add a
    // round trip between the two.
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(options.read_deadline))?;
    socket.set_write_timeout(Some(options.read_deadline))?;
    // Keepalive detects that a host has disappeared while a response is awaited.
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_PROBES)?;
    // Some kernels lack this option. Bytes then count as sent a little early.
    let limited = SockRef::from(&socket).set_tcp_notsent_lowat(SEND_STEP as u32);
    tracing::trace!(?limited, "unsent bytes");
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_address_that_accepts_no_connection_comes_last_until_it_does() {
        let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [one, other, closed] = listeners.each_ref().map(|it| it.local_addr().unwrap());
        let [_one, _other, listener] = listeners;
        drop(listener);
        let (resolver, origin) = (Resolver::default(), Origin::parse(false, "store.test:80").unwrap());
        let known = (Moment::now(), vec![closed, one, other]);
        resolver.known.lock().insert((origin.host.clone(), origin.port), known);
        let connect = || {
            let (options, cancel) = (StoreOptions::default(), Cancel::new());
            let socket = resolver.connect(&origin, &options, Duration::from_secs(30), &cancel);
            socket.ok().unwrap().peer_addr().unwrap()
        };
        // The first connection tries the closed port, and the others do not.
        assert_eq!(connect(), one);
        for _ in 0..4 {
            let order = resolver.in_turn(vec![closed, one, other]);
            assert_eq!(order[2], closed, "{order:?}");
        }
        assert_ne!(connect(), connect(), "the others still take turns");
        let long_ago = Moment::now().before_suspension(DEAD_FOR * 2);
        resolver.dead.lock().insert(closed, long_ago);
        let first: Vec<_> = (0..3).map(|_| resolver.in_turn(vec![closed, one, other])[0]).collect();
        assert!(first.contains(&closed), "{first:?}");
    }
}
