//! Errors of this crate.

use std::io;

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a link: its address, its target, or a setting that does not parse.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The link cannot listen on its address.
    #[error("{address}: cannot listen: {source}")]
    Listen {
        /// The address to listen on.
        address: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// The target's name does not resolve, or has no port.
    #[error("{target}: cannot resolve: {source}; write HOST:PORT")]
    Target {
        /// The target of the link.
        target: String,
        /// The resolver's error.
        source: io::Error,
    },
    /// The operating system refused a thread or an epoll set.
    #[error("cannot run a link: {source}")]
    Run {
        /// The operating system's error.
        source: io::Error,
    },
    /// A rate or a duration that does not parse.
    #[error(transparent)]
    Unit(#[from] firstbyte_location::units::UnitError),
    /// A setting that does not parse.
    #[error("{value:?}: {why}")]
    Setting {
        /// The text.
        value: String,
        /// What is wrong with it and what to write instead.
        why: &'static str,
    },
}
