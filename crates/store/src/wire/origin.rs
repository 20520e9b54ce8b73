//! Where a connection leads: scheme, host and port, and the addresses behind the name.

use std::collections::HashMap;
use std::fmt;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::{Error, Options, Result};

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
        (!host.is_empty()).then(|| Self { tls, host: host.to_ascii_lowercase(), port })
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
    /// A connected socket with its deadlines set; tries each address once, within one connect deadline.
    pub(crate) fn connect(&self, origin: &Origin, options: &Options) -> Result<TcpStream> {
        let unreachable = |detail: String| Error::Unreachable { endpoint: origin.to_string(), detail };
        let addresses = self.resolve(origin).map_err(|error| unreachable(error.to_string()))?;
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let until = Instant::now() + options.connect_deadline;
        let mut detail = "the name has no address".to_owned();
        for turn in 0..addresses.len() {
            let address = addresses[(first + turn) % addresses.len()];
            // An even share of what is left for each address: one black hole must not use up the others' time.
            let left = until.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(addresses.len() - turn).unwrap_or(1);
            if share.is_zero() {
                break;
            }
            match TcpStream::connect_timeout(&address, share).and_then(|socket| prepare(socket, options)) {
                Ok(socket) => return Ok(socket),
                Err(error) => detail = error.to_string(),
            }
        }
        Err(unreachable(detail))
    }

    fn resolve(&self, origin: &Origin) -> std::io::Result<Vec<SocketAddr>> {
        let key = (origin.host.clone(), origin.port);
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, addresses)) = known().get(&key)
            && at.elapsed() < RESOLVED_FOR
        {
            return Ok(addresses.clone());
        }
        let addresses: Vec<SocketAddr> = (origin.host.as_str(), origin.port).to_socket_addrs()?.collect();
        known().insert(key, (Instant::now(), addresses.clone()));
        Ok(addresses)
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
