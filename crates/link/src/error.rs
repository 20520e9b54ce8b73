//! What can go wrong with a link: its address, its target, or a setting that does not parse.

use std::io;

/// This crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, where.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The link cannot listen there.
    #[error("{address}: cannot listen: {source}")]
    Listen {
        /// Where it should listen.
        address: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// The target's name does not resolve, or has no port.
    #[error("{target}: cannot resolve: {source}; write HOST:PORT")]
    Target {
        /// What the link should lead to.
        target: String,
        /// The resolver's error.
        source: io::Error,
    },
    /// The operating system refuses a thread or an epoll set.
    #[error("cannot run a link: {source}")]
    Run {
        /// Its error.
        source: io::Error,
    },
    /// A rate or a duration that does not parse.
    #[error(transparent)]
    Unit(#[from] firstbyte_location::units::UnitError),
    /// A setting that does not parse.
    #[error("{value:?}: {why}")]
    Setting {
        /// As given.
        value: String,
        /// What is wrong and what to write instead.
        why: &'static str,
    },
}
