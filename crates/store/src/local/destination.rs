//! Finds what exists under the name of a destination, and renames the complete partial file to that
//! name. `partial` calls this module.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firstbyte_location::{directory_of, shown};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix_futex_sync::Mutex;

use super::beneath::{Beneath, MissingDirectories};
use super::resolve::stat_at;
use super::spelling::{
    is_often_changed, is_refused_name, other_part, other_spelling, refused_name, similar_name,
    spelled_otherwise, stored_otherwise,
};
use super::stat::stat;
use super::{directory_error, io_error};
use crate::error::{Error, Result};
use crate::syscall_refusal::is_refusal;
use crate::upload::Precondition;

/// Serializes renames that first look up their name, for file systems that cannot refuse to replace
/// a file.
static RENAME_LOCK: Mutex<()> = Mutex::new(());

/// The kinds of entries that a file may replace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplaceKind {
    /// None: the name was free when it was looked up. If the name is taken when the file is
    /// complete, another process has created it since. Then only a file with exactly the same name
    /// is replaced.
    Nothing,
    /// A file or a link may be replaced.
    #[default]
    File,
    /// A directory may be replaced too. It is removed when the file is complete.
    Directory,
}

/// The destination: an open directory and a name in it.
#[derive(Debug)]
pub(super) struct PartialDestination {
    pub(super) directory: Arc<OwnedFd>,
    pub(super) name: OsString,
    /// The path of the destination, for messages.
    pub(super) path: PathBuf,
    /// Permission bits of the file to be replaced.
    pub(super) mode: Option<u32>,
    pub(super) over: ReplaceKind,
    /// The directory beneath which the name was resolved, and the path from there to the directory
    /// of the name.
    pub(super) resolved_from: Option<(Arc<OwnedFd>, PathBuf)>,
}

impl PartialDestination {
    /// Returns the destination of a path. Follows links to directories and files.
    pub(super) fn named(destination: &Path) -> Result<Self> {
        let fail = |error: io::Error| io_error(destination, error);
        let mut path = destination.to_owned();
        let mut there = std::fs::symlink_metadata(destination);
        if there.as_ref().is_ok_and(std::fs::Metadata::is_symlink) {
            path = std::fs::canonicalize(destination).map_err(fail)?;
            there = std::fs::symlink_metadata(&path);
        }
        let mode = match there {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            other => {
                let there = other.map_err(fail)?;
                let kind = FileType::from_raw_mode(there.mode());
                Some(replaceable(destination, kind, there.mode(), ReplaceKind::File)?).flatten()
            }
        };
        let name = path.file_name().ok_or_else(|| Error::InvalidName {
            location: shown(&path).to_string(),
            why: "not the name of a file".into(),
        })?;
        let parent = directory_of(&path);
        let open =
            || rustix::fs::open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let directory = match open() {
            Err(Errno::NOENT) => {
                std::fs::create_dir_all(parent).map_err(|error| directory_error(parent, error))?;
                open()
            }
            other => other,
        };
        let directory = directory.map_err(|error| io_error(destination, error))?;
        Ok(Self {
            directory: Arc::new(directory),
            name: name.to_owned(),
            mode,
            path,
            over: ReplaceKind::File,
            resolved_from: None,
        })
    }

    /// Returns the name under which the file system has a component of this path, if that name
    /// differs from the component.
    fn other_spelling(&self) -> std::result::Result<Option<OsString>, Errno> {
        match &self.resolved_from {
            Some((root, above)) => Ok(other_part(root, &above.join(&self.name))?.map(|(_, other)| other)),
            None => other_spelling(&self.directory, &self.name),
        }
    }

    /// Returns an error if the file system takes this name for the name of another file, because
    /// that file would be replaced.
    pub(super) fn refuse_changed_name(&self) -> Result<()> {
        if !is_often_changed(&self.name) {
            return Ok(());
        }
        match other_spelling(&self.directory, &self.name).map_err(|error| io_error(&self.path, error))? {
            Some(other) => Err(spelled_otherwise(&self.path, &other)),
            None => Ok(()),
        }
    }

    /// Returns the destination of a name beneath a directory. Follows no links.
    pub(super) fn beneath(root: &Beneath, name: &Path, over: ReplaceKind) -> Result<Self> {
        let path = root.shown(name);
        let (directory, last) = root
            .parent(name, MissingDirectories::Create)
            .map_err(|error| root.explain_parent(name, error))?;
        let mode = match stat_at(&directory, last) {
            Err(Errno::NOENT) => None,
            other => {
                let stat = other.map_err(|error| root.explain(name, error))?;
                replaceable(&path, FileType::from_raw_mode(stat.st_mode), stat.st_mode, over)?
            }
        };
        let above = root.shared().map_err(|error| io_error(&path, error))?;
        let resolved_from = Some((above, name.parent().unwrap_or(Path::new("")).to_owned()));
        Ok(Self { directory, name: last.to_owned(), path, mode, over, resolved_from })
    }

    /// Renames the file to a name that was free at the lookup. If another process has since written
    /// a file of exactly that name, that file is replaced.
    fn rename_to_free_name(&self, partial: &OsStr) -> Result<()> {
        let Self { directory, name, path, .. } = self;
        let renamed = rustix::fs::renameat_with(directory, partial, directory, name, RenameFlags::NOREPLACE);
        let _looked_up = match renamed {
            Ok(()) => return Ok(()),
            Err(Errno::EXIST) => None,
            // The file system or the kernel lacks `RENAME_NOREPLACE`.
            Err(error) if is_refusal(error) => Some(RENAME_LOCK.lock()),
            Err(error) => return Err(self.explain(error)),
        };
        let other = match stat_at(directory, name) {
            Err(Errno::NOENT) => Ok(None),
            Ok(_) => self.other_spelling(),
            Err(error) => Err(error),
        };
        match other.map_err(|error| io_error(path, error))? {
            Some(other) => Err(spelled_otherwise(path, &other)),
            None => self.replace(partial),
        }
    }

    /// Renames the file to its name, replacing another file. Unlike `renameat2` with flags,
    /// `renameat` is supported by all kernels and file systems.
    fn replace(&self, partial: &OsStr) -> Result<()> {
        let Self { directory, name, .. } = self;
        rustix::fs::renameat(directory, partial, directory, name).map_err(|error| self.explain(error))
    }

    /// Converts an error that occurred while the file was renamed to its name.
    fn explain(&self, error: Errno) -> Error {
        let Self { directory, name, path, .. } = self;
        match error {
            // The name exists in another letter case, and the file system finds it only in that
            // case.
            Errno::EXIST => match similar_name(directory, name, None) {
                Ok(other) => spelled_otherwise(path, &other),
                Err(_) => io_error(path, error),
            },
            _ if is_refused_name(error) => refused_name(path, error),
            _ => io_error(path, error),
        }
    }

    /// Removes the file after its rename, if the file system has stored it under another name.
    fn check_stored_name(&self, file: &File) -> Result<()> {
        let Self { directory, name, path, .. } = self;
        if !is_often_changed(name) {
            return Ok(());
        }
        let check = || {
            let Some(other) = other_spelling(directory, name)? else { return Ok(None) };
            let (ours, there) = (rustix::fs::fstat(file)?, stat_at(directory, name)?);
            if (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino) {
                rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
            }
            Ok(Some(other))
        };
        match check().map_err(|error: Errno| io_error(path, error))? {
            Some(other) => Err(stored_otherwise(path, &other)),
            None => Ok(()),
        }
    }

    /// Renames the partial file, which is open as `file`, to its name, if `precondition` holds.
    pub(super) fn publish(&self, partial: &OsStr, file: &File, precondition: &Precondition) -> Result<()> {
        self.rename(partial, precondition)?;
        self.check_stored_name(file)
    }

    fn rename(&self, partial: &OsStr, precondition: &Precondition) -> Result<()> {
        let refused = || Error::Precondition { location: shown(&self.path).to_string(), trace: None };
        let flags = match precondition {
            Precondition::None if self.over == ReplaceKind::Nothing => {
                return self.rename_to_free_name(partial);
            }
            Precondition::None => RenameFlags::empty(),
            Precondition::Absent => RenameFlags::NOREPLACE,
            Precondition::Matches(version) => match stat(&self.path) {
                Ok(stat) if stat.version.agrees_with(version) => RenameFlags::empty(),
                Ok(_) | Err(Error::NotFound { .. }) => return Err(refused()),
                Err(error) => return Err(error),
            },
        };
        let Self { directory, name, path, .. } = self;
        if flags.is_empty() {
            return self.replace(partial);
        }
        match rustix::fs::renameat_with(directory, partial, directory, name, flags) {
            Err(Errno::EXIST) => Err(refused()),
            // This file system cannot refuse to replace a file in a rename. A hard link never
            // replaces a file.
            Err(error) if is_refusal(error) => {
                let unlink = || rustix::fs::unlinkat(directory, partial, AtFlags::empty());
                match rustix::fs::linkat(directory, partial, directory, name, AtFlags::empty()) {
                    Err(Errno::EXIST) => Err(refused()),
                    // Without hard links too, the name is looked up first. Another process may
                    // still create the name between the lookup and the rename.
                    Err(error) if is_refusal(error) => {
                        let _looked_up = RENAME_LOCK.lock();
                        match stat_at(directory, name) {
                            Err(Errno::NOENT) => self.replace(partial),
                            Ok(_) => Err(refused()),
                            Err(error) => Err(io_error(path, error)),
                        }
                    }
                    linked => linked.and_then(|()| unlink()).map_err(|error| io_error(path, error)),
                }
            }
            result => result.map_err(|error| io_error(path, error)),
        }
    }
}

/// Checks that the destination may be replaced. Returns the permission bits of an existing file.
fn replaceable(path: &Path, kind: FileType, mode: u32, over: ReplaceKind) -> Result<Option<u32>> {
    match kind {
        FileType::RegularFile => Ok(Some(mode)),
        FileType::Symlink => Ok(None),
        FileType::Directory if over == ReplaceKind::Directory => Ok(None),
        FileType::Directory => Err(io_error(path, io::Error::from(io::ErrorKind::IsADirectory))),
        // A rename to /dev/null would replace the device with a file.
        _ => {
            let why = "a device, socket or pipe is there, which a copy cannot replace; \
                       `firstbyte cat` writes into one";
            Err(Error::InvalidName { location: shown(path).to_string(), why: why.into() })
        }
    }
}
