//! Resolves addresses to listen on. Called by the verbs that listen.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::render::error::{Error, Result};

/// Resolves `text`, the value of `option`, to its first address.
///
/// # Errors
/// The text is not `HOST:PORT`, or the host has no address.
pub fn resolve(option: &str, text: &str) -> Result<SocketAddr> {
    let wrong = |why: String| Error::usage(format!("{option} {text}: {why}")).advise("write HOST:PORT");
    let mut addresses = text.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    addresses.next().ok_or_else(|| wrong("no such host".into()))
}
