//! Checks the directories of a slow file system before anything is mounted, and unmounts mount
//! points.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::error::{Error, Result};

/// The kernel's read-ahead for a mount, in KiB. The default of 128 KiB takes only 1 ms at 100 MB/s,
/// so a single client would wait for each of its requests and not reach the rate. NFS clients use
/// larger values too.
const READ_AHEAD_KIB: u32 = 1024;

/// Returns the real path of the directory to mirror.
pub(super) fn source(path: &Path) -> Result<PathBuf> {
    let real =
        fs::canonicalize(path).map_err(|error| Error::place(path, format!("cannot be shown: {error}")))?;
    // Fails if the path is not a directory, or is a directory that this user may not read.
    fs::read_dir(&real)
        .map_err(|error| Error::place(path, format!("cannot be shown: {error}; give a directory")))?;
    Ok(real)
}

/// Returns the real path of a mount point. The mount point must be an empty directory outside the
/// mirrored one. `others` are the mount points that were checked before.
pub(super) fn target(path: &Path, source: &Path, others: &[PathBuf]) -> Result<PathBuf> {
    let real = fs::canonicalize(path).map_err(|error| unusable(path, &error))?;
    if real.starts_with(source) {
        return Err(Error::place(path, "lies in the directory that it would show; use one outside"));
    }
    if others.contains(&real) {
        return Err(Error::place(path, "was given twice; each mount needs a directory of its own"));
    }
    let mut names = fs::read_dir(&real).map_err(|error| unusable(path, &error))?;
    match names.next() {
        None => Ok(real),
        Some(_) => {
            Err(Error::place(path, "not empty: a mount would hide what is in it; use an empty directory"))
        }
    }
}

/// Returns the error for a directory that cannot be a mount point.
fn unusable(path: &Path, error: &io::Error) -> Error {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOTCONN | Errno::CONNABORTED) => Error::place(
            path,
            "the process of what is mounted there has died; unmount it first: firstbyte unmount, or fusermount3 -u",
        ),
        Some(Errno::NOENT) => Error::place(path, "no such directory; create it first: mkdir -p"),
        _ => Error::place(path, format!("cannot be mounted at: {error}; use an empty directory")),
    }
}

/// Checks that this machine has FUSE, and that this process may use it.
pub(super) fn check_device() -> Result<()> {
    let opened = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    opened.map(drop).map_err(|error| Error::NoDevice { source: error.into() })
}

/// Sets the kernel's read-ahead for the mount at `directory` to [`READ_AHEAD_KIB`], if that is
/// permitted.
pub(super) fn set_read_ahead(directory: &Path) {
    // The kernel already knows the device of the mount's root, so this sends no request.
    let found = rustix::fs::statx(CWD, directory, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE);
    let Ok(found) = found else { return };
    let setting = format!("/sys/class/bdi/{}:{}/read_ahead_kb", found.stx_dev_major, found.stx_dev_minor);
    if let Err(error) = fs::write(&setting, READ_AHEAD_KIB.to_string()) {
        tracing::debug!("{setting}: {error}");
    }
}

/// Unmounts immediately; open files stay readable until they are closed. Uses the system call if
/// that is permitted, otherwise the helper program.
pub(super) fn detach(directory: &Path) -> io::Result<()> {
    match rustix::mount::unmount(directory, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Err(Errno::PERM) => {}
        other => return Ok(other?),
    }
    let mut helper = Command::new("fusermount3");
    helper.args(["-u", "-z", "--"]).arg(directory).stdin(Stdio::null());
    let output = helper.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}
