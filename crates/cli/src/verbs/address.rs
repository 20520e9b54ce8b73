//! Resolves addresses to listen on. Called by the verbs that listen.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use crate::render::error::{Error, Result};

/// Resolves `text`, the value of `option`, to one of its addresses. Prefers an address that other
/// machines can reach, because `/etc/hosts` often also maps a machine's own name to loopback.
///
/// # Errors
/// The text is not `HOST:PORT`, or the host has no address.
pub fn resolve(option: &str, text: &str) -> Result<SocketAddr> {
    let wrong = |why: String| Error::usage(format!("{option} {text}: {why}")).advise("write HOST:PORT");
    let addresses = text.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    preferred(addresses).ok_or_else(|| wrong("no such host".into()))
}

/// Resolves the address of a server for other machines.
///
/// # Errors
/// The errors of [`resolve`], and a name other than `localhost` that means loopback on this
/// machine, as Debian writes it to `/etc/hosts` (127.0.1.1): other machines could not connect.
pub fn resolve_for_others(option: &str, text: &str) -> Result<SocketAddr> {
    let address = resolve(option, text)?;
    if is_misleading(text, address) {
        let line = format!(
            "{option} {text}: on this machine, the name means {}, which no other reaches",
            address.ip()
        );
        return Err(Error::usage(line).advise("write an address of this machine instead, or 0.0.0.0:PORT"));
    }
    Ok(address)
}

fn preferred(addresses: impl Iterator<Item = SocketAddr>) -> Option<SocketAddr> {
    let (near, far): (Vec<_>, Vec<_>) = addresses.partition(|address| address.ip().is_loopback());
    far.into_iter().chain(near).next()
}

/// Returns whether `text` has a host name, other than `localhost`, that means loopback (`address`).
fn is_misleading(text: &str, address: SocketAddr) -> bool {
    let host = text.rsplit_once(':').map_or(text, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let says_so = host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok();
    address.ip().is_loopback() && !says_so
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_others_reach_is_preferred() {
        let of = |list: &[&str]| preferred(list.iter().map(|text| text.parse().unwrap()));
        assert_eq!(of(&["127.0.1.1:1", "10.0.0.1:1"]), "10.0.0.1:1".parse().ok());
        assert_eq!(of(&["[::1]:1", "127.0.0.1:1"]), "[::1]:1".parse().ok());
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn a_name_that_means_loopback_is_misleading_unless_it_says_so() {
        let loopback = "127.0.1.1:8090".parse().unwrap();
        assert!(is_misleading("node1:8090", loopback));
        for text in ["localhost:8090", "127.0.1.1:8090", "[::1]:8090"] {
            assert!(!is_misleading(text, loopback), "{text}");
        }
        assert!(!is_misleading("node1:8090", "10.0.0.1:8090".parse().unwrap()));
    }
}
