//! Errors of control groups. Each message names the failed action, the group, the reason and a
//! remedy.

use std::io;
use std::path::{Path, PathBuf};

/// The reason for which a control group could not be made or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel has no cgroups, or `/proc` is not mounted.
    #[error("the control groups of this process cannot be read: {source}; limits need a kernel with cgroups")]
    Unreadable {
        /// The system's error.
        source: io::Error,
    },
    /// A controller is not mounted.
    #[error(
        "no control group limits `{controller}` here: neither a mounted cgroup of version 1 nor \
         cgroup.controllers of version 2 has it; mount it, or run without that limit"
    )]
    NoController {
        /// `memory`, `cpu`, or `any`.
        controller: String,
    },
    /// This process may not write there.
    #[error(
        "cannot {action} {}: {source}; run as root, or inside `systemd-run --user --scope -p Delegate=yes`, or \
         without --memory-limit, --cpus and --function", path.display()
    )]
    Forbidden {
        /// The action that failed, for example `make a group in`.
        action: &'static str,
        /// The directory or file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Version 2 lets a group with processes have no children with limits.
    #[error(
        "{}: this group holds {processes} processes, and no group above it can be used ({above}), so version 2 \
         allows no limited group below it; run inside `systemd-run --scope -p Delegate=yes`", path.display()
    )]
    Crowded {
        /// The group of this process.
        path: PathBuf,
        /// The processes in it.
        processes: usize,
        /// Attempts in the groups above, and their errors.
        above: String,
    },
    /// The kernel refused a limit.
    #[error("{}: the kernel refuses {value}: {source}; a limit above that of the parent group is one reason",
        path.display())]
    Limit {
        /// The file.
        path: PathBuf,
        /// The value that was written.
        value: String,
        /// The system's error.
        source: io::Error,
    },
    /// A share of processors is out of range.
    #[error("{cpus} processors cannot be shared out: the least is {least}")]
    Share {
        /// The requested number of processors.
        cpus: f64,
        /// The least.
        least: f64,
    },
    /// Processes in the group do not end.
    #[error("{}: processes in this group do not end: {source}; cgroup.procs names them", path.display())]
    Occupied {
        /// The group.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl Error {
    pub(super) fn no_controller(name: &str) -> Self {
        Self::NoController { controller: name.to_owned() }
    }

    pub(super) fn forbidden(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Forbidden { action, path: path.to_owned(), source }
    }
}
