//! Defines the errors of this crate.

use std::io;
use std::path::{Path, PathBuf};

use firstbyte_location::shown;

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a link: of its address, its target, its mount or its settings.
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
    /// The operating system refuses to create a thread or an epoll set.
    #[error("cannot run a link: {source}")]
    Run {
        /// The operating system's error.
        source: io::Error,
    },
    /// A rate or a duration cannot be parsed.
    #[error(transparent)]
    Unit(#[from] firstbyte_location::units::UnitError),
    /// A setting cannot be parsed.
    #[error("{value:?}: {why}")]
    Setting {
        /// The text of the setting.
        value: String,
        /// The fault of the text, and what to write instead.
        why: &'static str,
    },
    /// The model has none of the values that a link replays.
    #[error(
        "{model}: the model has nothing that a link replays; give it latency.first_byte, rates.connection or rates.total"
    )]
    Model {
        /// The name of the model.
        model: String,
    },
    /// A figure of a model that no link can have.
    #[error("{model}: {figure}: {why}")]
    Figure {
        /// Name of the model.
        model: String,
        /// Name of the figure.
        figure: &'static str,
        /// The fault of the figure.
        why: &'static str,
    },
    /// A burst that contradicts the total rate.
    #[error("burst of {burst}: {why}")]
    Burst {
        /// The burst, as text.
        burst: String,
        /// The fault of the burst, and what to do about it.
        why: String,
    },
    /// A directory cannot be the source or the mount point of a slow file system.
    #[error("{}: {why}", shown(path))]
    Place {
        /// The directory.
        path: PathBuf,
        /// The fault of the directory, and what to do about it.
        why: String,
    },
    /// The kernel has no FUSE, or the container hides it.
    #[error(
        "/dev/fuse: {source}: mounting needs FUSE; load the module (modprobe fuse), or in a container give --device /dev/fuse --cap-add SYS_ADMIN"
    )]
    NoDevice {
        /// The reason why `/dev/fuse` cannot be opened.
        source: io::Error,
    },
    /// A directory cannot be mounted at or unmounted.
    #[error(
        "{}: {what}: {source}; run as root, install fuse3 (fusermount3), or in a container give --cap-add SYS_ADMIN",
        shown(path)
    )]
    Mount {
        /// The directory.
        path: PathBuf,
        /// The operation that failed.
        what: &'static str,
        /// The reason of the failure.
        source: io::Error,
    },
}

impl Error {
    /// Returns an [`Error::Place`].
    pub(crate) fn place(path: &Path, why: impl Into<String>) -> Self {
        Self::Place { path: path.to_owned(), why: why.into() }
    }
}
