//! Checks the directory to mount at for existing mounts, and attaches and detaches mounts.
//!
//! The checks read `/proc/self/mountinfo` and not the directory: if the server of a mount has died,
//! every access to the directory fails or hangs.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::thread::{CapabilitySet, capabilities};

use crate::bounded::bounded;
use crate::error::{Error, Result};
use crate::mount_table::{MOUNT_TABLE, MountTableEntry, Mounts};
use crate::options::{AllowedUsers, OccupiedAction};

/// The type of this program's mounts, as the mount table shows it.
pub(crate) const FS_TYPE: &str = "fuse.firstbyte";
/// The type of the mounts of `firstbyte link`, as the mount table shows it.
const LINK_TYPE: &str = "fuse.firstbyte-link";
/// Maximum number of stacked dead mounts that are removed. A crash leaves one.
const MAX_STALE_MOUNTS: usize = 16;
/// Maximum number of links that are followed to a mount point, as in the kernel
/// (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// How a mount is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmountMode {
    /// Unmounts now, but only if no file below the mount is open.
    Clean,
    /// Detaches the mount now. Open files can still be read until they are closed.
    Lazy,
}

/// Returns the real path of the directory. Works even if a dead mount covers the directory.
pub(crate) fn real_path(directory: &Path) -> Result<PathBuf> {
    match fs::canonicalize(directory) {
        Ok(path) => Ok(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Error::NoDirectory { path: directory.to_owned() })
        }
        Err(error) if is_dead(&error) => {
            let absolute = std::path::absolute(directory)
                .map_err(|error| Error::io(directory, "cannot be found", error))?;
            let parent = absolute.parent().and_then(|parent| fs::canonicalize(parent).ok());
            match (parent, absolute.file_name()) {
                (Some(parent), Some(name)) => Ok(parent.join(name)),
                _ => Err(Error::io(directory, "cannot be found", error)),
            }
        }
        Err(error) => Err(Error::io(directory, "cannot be found", error)),
    }
}

/// Returns the real path of a directory that a mount may cover. Accesses nothing below the mount,
/// because its daemon may be stopped.
///
/// # Errors
/// [`Error::NoDirectory`], [`Error::Io`].
pub fn mounted_directory(directory: &Path) -> Result<PathBuf> {
    let failed = |error| Error::io(directory, "cannot be found", error);
    let mut path = std::path::absolute(directory).map_err(failed)?;
    for _ in 0..MAX_LINKS {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { break };
        let Ok(parent) = fs::canonicalize(parent) else { break };
        path = parent.join(name);
        if mounted_at(&path)?.is_some() {
            return Ok(path);
        }
        // No mount covers this path, so reading the link asks no daemon.
        match fs::read_link(&path) {
            Ok(target) => path = std::path::absolute(parent.join(target)).map_err(failed)?,
            Err(_) => break,
        }
    }
    real_path(directory)
}

/// Fails if a mount at `directory`, given by its real path, would hide something. Before that,
/// removes the mounts that dead daemons have left there.
pub(crate) fn prepare(directory: &Path, occupied: OccupiedAction) -> Result<()> {
    remove_dead(directory)?;
    // The mount table is checked before the directory is accessed, because a mount there may not
    // answer.
    if let (OccupiedAction::Refuse, Some(mounted)) = (occupied, mounted_at(directory)?) {
        let MountTableEntry { kind: fs_type, device: source_name, .. } = mounted;
        return Err(Error::AlreadyMounted { path: directory.to_owned(), fs_type, source_name });
    }
    let metadata =
        fs::metadata(directory).map_err(|error| Error::io(directory, "cannot be looked at", error))?;
    if !metadata.is_dir() {
        return Err(Error::NotADirectory { path: directory.to_owned() });
    }
    if occupied == OccupiedAction::Hide {
        return Ok(());
    }
    let mut names = fs::read_dir(directory).map_err(|error| Error::io(directory, "cannot be read", error))?;
    match names.next() {
        None => Ok(()),
        Some(name) => {
            let found = name.map_or_else(
                |error| error.to_string(),
                |name| name.file_name().to_string_lossy().into_owned(),
            );
            Err(Error::NotEmpty { path: directory.to_owned(), found })
        }
    }
}

/// Removes mounts whose daemons are dead.
fn remove_dead(directory: &Path) -> Result<()> {
    for _ in 0..MAX_STALE_MOUNTS {
        if !is_orphaned(directory)? {
            break;
        }
        detach(directory, UnmountFlags::DETACH)
            .map_err(|error| Error::io(directory, "its daemon is dead, and it cannot be unmounted", error))?;
        tracing::info!("{}: removed a mount whose daemon had died", directory.display());
    }
    Ok(())
}

/// Returns whether the daemon of the mount at `directory` has died. Attributes cannot show this,
/// because the kernel caches the attributes of this program's mounts for ever. So the test is
/// `statfs`, which only a daemon can answer. It is not used on other file systems, where `statfs`
/// may hang.
fn is_orphaned(directory: &Path) -> Result<bool> {
    let ours = mounted_at(directory)?.is_some_and(|mounted| is_ours(&mounted.kind));
    let looked = if ours {
        let directory = directory.to_owned();
        bounded(move || Ok(rustix::fs::statfs(&directory).map(drop)?))
    } else {
        fs::metadata(directory).map(drop)
    };
    Ok(looked.is_err_and(|error| is_dead(&error)))
}

fn is_ours(fs_type: &str) -> bool {
    fs_type == FS_TYPE || fs_type == LINK_TYPE
}

/// Returns whether an error shows that a daemon is dead: "Transport endpoint is not connected", or
/// the access was aborted.
pub(crate) fn is_dead(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    number == Some(Errno::NOTCONN.raw_os_error()) || number == Some(Errno::CONNABORTED.raw_os_error())
}

/// Remaining mounts of a file system after it was unmounted from a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemainingMounts {
    /// No mount remains, so the daemon ends.
    Nothing,
    /// The file system is also mounted at another directory, by a bind mount.
    OtherMount,
}

/// Ends this program's mount at `directory`.
///
/// # Errors
/// [`Error::NotOurs`], [`Error::Busy`], or the error of the unmount.
pub fn unmount(directory: &Path, ending: UnmountMode) -> Result<RemainingMounts> {
    let path = mounted_directory(directory)?;
    let number = match mounted_at(&path)? {
        None => {
            return Err(Error::NotOurs {
                path,
                found: "nothing is mounted there; `findmnt -t fuse.firstbyte` shows what is mounted where"
                    .into(),
            });
        }
        Some(MountTableEntry { kind: fs_type, .. }) if !is_ours(&fs_type) => {
            let found = format!("{fs_type} is mounted there, not firstbyte; use umount");
            return Err(Error::NotOurs { path, found });
        }
        Some(MountTableEntry { number, .. }) => number,
    };
    let failed = |error| Error::io(&path, "cannot be unmounted", error);
    let is_busy = |error: &io::Error| error.raw_os_error() == Some(Errno::BUSY.raw_os_error());
    // The daemon takes no part in this: it may be suspended, or may be this process.
    let flags = if ending == UnmountMode::Lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match detach(&path, flags) {
        // If the daemon is dead, open files below the mount cannot be read any more, so detaching
        // it loses nothing.
        Err(error) if is_busy(&error) && is_orphaned(&path)? => {
            detach(&path, UnmountFlags::DETACH).map_err(failed)?;
        }
        Err(error) if is_busy(&error) => return Err(busy(path.clone())),
        other => other.map_err(failed)?,
    }
    let is_left = mounts()?.iter().any(|mount| mount.number == number);
    Ok(if is_left { RemainingMounts::OtherMount } else { RemainingMounts::Nothing })
}

/// Returns the error for a mount that is in use.
fn busy(path: PathBuf) -> Error {
    let mounts = mounts().unwrap_or_default();
    let below = mounts.iter().find(|mount| mount.at != path && mount.at.starts_with(&path));
    match below.map(|mount| mount.at.clone()) {
        Some(below) => Error::Covered { path, below },
        None => Error::Busy { path },
    }
}

/// Unmounts by the system call if this process may, otherwise by the helper program.
pub(crate) fn detach(directory: &Path, flags: UnmountFlags) -> io::Result<()> {
    match rustix::mount::unmount(directory, flags | UnmountFlags::NOFOLLOW) {
        Err(Errno::PERM) => {}
        other => return Ok(other?),
    }
    let mut command = Command::new(helper().ok_or(io::ErrorKind::PermissionDenied)?);
    command.arg("-u");
    if flags.contains(UnmountFlags::DETACH) {
        command.arg("-z");
    }
    let output = command.arg("--").arg(directory).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if said.contains("busy") { Err(Errno::BUSY.into()) } else { Err(io::Error::other(said)) }
}

/// Finds `fusermount3` or `fusermount`, which mounts for users who may not mount themselves.
pub(crate) fn helper() -> Option<&'static str> {
    let places = std::env::var_os("PATH")?;
    ["fusermount3", "fusermount"]
        .into_iter()
        .find(|name| std::env::split_paths(&places).any(|place| place.join(name).is_file()))
}

/// Fails unless this process may mount, either itself or with the helper program.
///
/// # Errors
/// [`Error::NoPrivilege`].
pub(crate) fn check_may_mount(directory: &Path) -> Result<()> {
    let has_right = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
    if has_right || helper().is_some() {
        return Ok(());
    }
    let detail = "mount: operation not permitted".into();
    Err(Error::NoPrivilege { path: directory.to_owned(), detail })
}

/// Opens the connection to the kernel.
///
/// # Errors
/// [`Error::NoDevice`], [`Error::NoPrivilege`].
pub(crate) fn device(directory: &Path) -> Result<OwnedFd> {
    rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(
        |error| match error {
            Errno::ACCESS | Errno::PERM => {
                Error::NoPrivilege { path: directory.to_owned(), detail: format!("/dev/fuse: {error}") }
            }
            _ => Error::NoDevice { source: Arc::new(error.into()) },
        },
    )
}

/// Mounts by the system call. Returns false if this process is not allowed to.
pub(crate) fn attach(device: &OwnedFd, directory: &Path, source: &str, access: AllowedUsers) -> Result<bool> {
    let others = if access == AllowedUsers::Everyone { ",allow_other" } else { "" };
    let data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions{others}",
        device.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    let data = CString::new(data)
        .map_err(|error| Error::io(directory, "cannot be mounted at", io::Error::other(error)))?;
    let flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::RDONLY | MountFlags::NOATIME;
    match rustix::mount::mount(source, directory, FS_TYPE, flags, Some(data.as_c_str())) {
        Ok(()) => Ok(true),
        Err(Errno::PERM) => Ok(false),
        Err(Errno::NODEV) => Err(Error::NoDevice { source: Arc::new(Errno::NODEV.into()) }),
        Err(error) => Err(Error::io(directory, "cannot be mounted at", error)),
    }
}

/// Returns the mount exactly at `directory`. If there are several, returns the uppermost.
fn mounted_at(directory: &Path) -> Result<Option<MountTableEntry>> {
    Ok(mounts()?.at(directory).cloned())
}

fn mounts() -> Result<Mounts> {
    Mounts::current().map_err(|error| Error::io(Path::new(MOUNT_TABLE), "cannot be read", error))
}

/// Returns whether the file system at `path` is stacked on others. To pass its files through, the
/// kernel needs a greater stacking depth.
pub(crate) fn is_stacked(path: &Path) -> bool {
    /// Magic numbers of overlayfs and eCryptfs (linux/magic.h).
    const STACKED: [u64; 2] = [0x794C_7630, 0xF15F];
    let existing = path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
    rustix::fs::statfs(existing).is_ok_and(|fs| STACKED.contains(&(fs.f_type.cast_unsigned() & 0xFFFF_FFFF)))
}

/// Sets the kernel's read-ahead for the file system that is mounted at `directory` to `kilobytes`
/// KiB, if this process may.
pub(crate) fn set_read_ahead(directory: &Path, kilobytes: u32) {
    // The kernel already knows the root's device number, so this sends no request.
    let flags = AtFlags::STATX_DONT_SYNC;
    let Ok(found) = rustix::fs::statx(CWD, directory, flags, StatxFlags::TYPE) else { return };
    let (major, minor) = (found.stx_dev_major, found.stx_dev_minor);
    let setting = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    // Without the setting, the kernel reads 128 KiB ahead, which is slower but correct.
    if let Err(error) = fs::write(&setting, kilobytes.to_string()) {
        tracing::debug!("{setting}: {error}");
    }
}

/// Returns a location for the mount table, without the control characters that would corrupt the
/// table.
pub(crate) fn shown(source: &str) -> String {
    source.chars().map(|symbol| if symbol.is_ascii_control() { '_' } else { symbol }).collect()
}
