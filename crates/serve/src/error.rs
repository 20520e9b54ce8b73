//! Defines the reasons why a server cannot start. An error of a single request is reported in its
//! response instead.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use firstbyte_location::shown;

/// A result with this crate's [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// The reason for which a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory to serve cannot be opened.
    #[error("cannot serve {}: {source}", shown(path))]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Listening on the address fails.
    #[error("cannot listen on {address}: {source}; try another port, or port 0 for a free one")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Listening beyond loopback without keys would give access to all clients.
    #[error(
        "refusing to listen on {address} without keys: every client that can reach it could {may} {}; give --auth FILE (lines of: KEY SECRET read|write), listen on 127.0.0.1, or say --public-unauthenticated as well",
        source_name
    )]
    Exposed {
        /// The address.
        address: SocketAddr,
        /// The served location.
        source_name: String,
        /// The rights that every client would have there.
        may: &'static str,
    },
    /// The key file cannot be used.
    #[error("cannot use the key file {}: {reason}", shown(path))]
    Keys {
        /// The file.
        path: PathBuf,
        /// The reason, with the number of the line.
        reason: String,
    },
    /// The certificate or its key cannot be used.
    #[error("cannot use {} for TLS: {reason}", shown(path))]
    Tls {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The names of a manifest cannot be read, or none of them is served.
    #[error("--names: {0}")]
    Names(String),
    /// A setting is invalid.
    #[error("{0}")]
    Setting(String),
    /// The runtime or its threads cannot be created.
    #[error("cannot start the server's threads: {0}")]
    Runtime(#[source] io::Error),
}
