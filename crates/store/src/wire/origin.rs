//! Where a connection leads: scheme, host and port, and the addresses behind the name.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};

use super::Failed;
use crate::cancel::LOOK;
use crate::{Cancel, Error, Options};

/// Scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub(crate) tls: bool,
    /// Name or address; an IPv6 address without its brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Origin {
    /// From `host`, `host:port` or `[v6]:port`; a `user:password@` in front is cut off.
    pub(crate) fn parse(tls: bool, authority: &str) -> Option<Self> {
        let bare = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let (host, port) = match bare.strip_prefix('[') {
            Some(v6) => {
                let (host, rest) = v6.split_once(']')?;
                (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
            }
            None => bare.split_once(':').map_or((bare, None), |(host, port)| (host, Some(port))),
        };
        let port = match port {
            None | Some("") => {
                if tls {
                    443
                } else {
                    80
                }
            }
            Some(digits) => digits.parse().ok()?,
        };
        let legal = |b: u8| b > b' ' && b != 0x7f && !b"\"<>\\^`{|}".contains(&b);
        (!host.is_empty() && host.bytes().all(legal)).then(|| Self {
            tls,
            host: host.to_ascii_lowercase(),
            port,
        })
    }

    /// `scheme://host[:port]`, as a base URL.
    pub(crate) fn parse_url(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        Self::parse(tls, rest.split(['/', '?', '#']).next()?)
    }

    /// What stands in the `Host` header: the port only where it is not the scheme's own.
    pub(crate) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == if self.tls { 443 } else { 80 } { host } else { format!("{host}:{}", self.port) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        write!(f, "{host}:{}", self.port)
    }
}

/// How long a name's addresses are used before it is resolved again. Object stores change theirs every few seconds;
/// within this time a burst of new connections costs one look-up.
const RESOLVED_FOR: Duration = Duration::from_secs(5);

/// Addresses, and when they were looked up.
type Resolved = (Instant, Vec<SocketAddr>);

/// Resolves names and spreads connections over all their addresses: a store's total rate is that of its many front ends.
#[derive(Default)]
pub(crate) struct Resolver {
    known: Mutex<HashMap<(String, u16), Resolved>>,
    next: AtomicUsize,
}

impl Resolver {
    /// A connected socket with its deadlines set; tries each address once, within one connect deadline and `wait`.
    /// Resolving the name has as long again.
    pub(super) fn connect(
        &self,
        origin: &Origin,
        options: &Options,
        wait: Duration,
        cancel: &Cancel,
    ) -> Result<TcpStream, Failed> {
        let unreachable = |error: &io::Error| match cancel.is_cancelled() {
            true => Error::Cancelled.into(),
            false => Failed::unreachable(origin, "", error),
        };
        let deadline = options.connect_deadline.min(wait);
        let addresses = self.resolve(origin, deadline, cancel).map_err(|error| unreachable(&error))?;
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let until = Instant::now() + deadline;
        let mut failed = io::Error::other("the name has no address");
        for turn in 0..addresses.len() {
            let address = addresses[(first + turn) % addresses.len()];
            // An even share of what is left for each address: one black hole must not use up the others' time.
            let left = until.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(addresses.len() - turn).unwrap_or(1);
            if share.is_zero() {
                break;
            }
            match connect(address, share, cancel).and_then(|socket| prepare(socket, options)) {
                Ok(socket) => return Ok(socket),
                Err(_) if cancel.is_cancelled() => return Err(Error::Cancelled.into()),
                Err(error) => failed = error,
            }
        }
        Err(unreachable(&failed))
    }

    fn resolve(&self, origin: &Origin, deadline: Duration, cancel: &Cancel) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = origin.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, origin.port)]);
        }
        let key = (origin.host.clone(), origin.port);
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, addresses)) = known().get(&key)
            && at.elapsed() < RESOLVED_FOR
        {
            return Ok(addresses.clone());
        }
        let addresses = look_up(origin, deadline, cancel)?;
        known().insert(key, (Instant::now(), addresses.clone()));
        Ok(addresses)
    }
}

/// Asks the system for a name's addresses. That call can neither be cancelled nor given a time, so a thread of its own
/// makes it, and is left behind when the answer is no longer waited for.
fn look_up(origin: &Origin, deadline: Duration, cancel: &Cancel) -> io::Result<Vec<SocketAddr>> {
    let (send, receive) = mpsc::channel();
    let (host, port) = (origin.host.clone(), origin.port);
    let ask = move || {
        // The receiver may have given up.
        let _ = send.send((host.as_str(), port).to_socket_addrs().map(Iterator::collect));
    };
    std::thread::Builder::new().name("resolve".into()).spawn(ask)?;
    let until = Instant::now() + deadline;
    loop {
        match receive.recv_timeout(LOOK) {
            Ok(found) => return found,
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

/// Connects within `time`, unless cancelled first.
fn connect(address: SocketAddr, time: Duration, cancel: &Cancel) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let until = Instant::now() + time;
    let look = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
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

fn prepare(socket: TcpStream, options: &Options) -> std::io::Result<TcpStream> {
    // A request's head and payload go out in separate writes; waiting for acknowledgements between them costs a round trip.
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(options.read_deadline))?;
    socket.set_write_timeout(Some(options.read_deadline))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_parse_with_and_without_ports_brackets_and_users() {
        let parse = |text| Origin::parse(false, text).map(|origin| (origin.host.clone(), origin.port));
        assert_eq!(parse("Host"), Some(("host".into(), 80)));
        assert_eq!(parse("u:p@host:81"), Some(("host".into(), 81)));
        assert_eq!(parse("[::1]:9000"), Some(("::1".into(), 9000)));
        assert_eq!(parse("[::1]"), Some(("::1".into(), 80)));
        assert_eq!(parse("host:99999"), None);
        assert_eq!(parse(":80"), None);
    }

    #[test]
    fn the_host_header_omits_the_port_of_its_scheme_only() {
        assert_eq!(Origin::parse_url("https://h:443/x").unwrap().authority(), "h");
        assert_eq!(Origin::parse_url("http://h:443").unwrap().authority(), "h:443");
        assert_eq!(Origin::parse_url("http://[::1]:9000").unwrap().authority(), "[::1]:9000");
        assert_eq!(Origin::parse_url("ftp://h"), None);
    }
}
