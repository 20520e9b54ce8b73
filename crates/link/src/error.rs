//! Errors of this crate.

use std::io;
use std::path::{Path, PathBuf};

use firstbyte_location::shown;

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a link: its address, its target, its mount, or an invalid setting.
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
    /// A model that has none of the figures that a link replays.
    #[error(
        "{model}: the model has nothing that a link replays; give it latency.first_byte, rates.connection or rates.total"
    )]
    Model {
        /// Name of the model.
        model: String,
    },
    /// A figure of a model that no link can have.
    #[error("{model}: {figure}: {why}")]
    Figure {
        /// Name of the model.
        model: String,
        /// Name of the figure.
        figure: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A burst that contradicts the total rate.
    #[error("burst of {burst}: {why}")]
    Burst {
        /// The burst as text.
        burst: String,
        /// What is wrong with it and what to do instead.
        why: String,
    },
    /// A directory that cannot be the source or the mount point of a slow file system.
    #[error("{}: {why}", shown(path))]
    Place {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it and what to do instead.
        why: String,
    },
    /// The kernel has no FUSE, or the container hides it.
    #[error(
        "/dev/fuse: {source}: mounting needs FUSE; load the module (modprobe fuse), or in a container give --device /dev/fuse --cap-add SYS_ADMIN"
    )]
    NoDevice {
        /// Why it cannot be opened.
        source: io::Error,
    },
    /// Mounting at a directory failed, or unmounting it.
    #[error(
        "{}: {what}: {source}; run as root, install fuse3 (fusermount3), or in a container give --cap-add SYS_ADMIN",
        shown(path)
    )]
    Mount {
        /// The directory.
        path: PathBuf,
        /// The operation that failed.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl Error {
    /// Makes an [`Error::Place`].
    pub(crate) fn place(path: &Path, why: impl Into<String>) -> Self {
        Self::Place { path: path.to_owned(), why: why.into() }
    }
}
