//! A directory into which a tree is written. Names are resolved beneath it without following
//! symbolic links.
//!
//! The directory itself may be a link, since the caller named it. Below it, `openat2` resolves
//! names without links. On kernels without that call, the components of a name are opened one after
//! another. So a link, even one that appears during a copy, cannot redirect a write or a deletion.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use firstbyte_listing::{Time, rename_exclusively};
use firstbyte_location::{EntryKind, FileIdentity, Version, shown};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix_futex_sync::Mutex;

use super::optional::{Improvement, attempt};
use super::resolve::{LOOKUP, is_dots, open_beneath, readable, stat_at};
use super::spelling::{
    is_often_changed, is_refused_name, other_part, other_spelling, refused_name, similar_name,
    spelled_otherwise,
};
use super::{directory_error, errno, io_error};
use crate::error::{Error, Result};
use crate::syscall_refusal::is_refusal;

/// Permission bits that a copy preserves. The others (set-user-ID, set-group-ID, sticky) grant
/// rights of the owner, and a copy may have another owner.
pub(super) const KEPT: u32 = 0o777;
/// Bits that the owner needs to write into a directory.
const FILLING: u32 = 0o700;
/// A directory beneath which names are resolved.
#[derive(Debug)]
pub struct Beneath {
    path: PathBuf,
    /// The local tree whose directories determine the permission bits of new directories.
    like: Option<PathBuf>,
    root: OnceLock<Arc<OwnedFd>>,
    /// New directories whose final permission bits deny writing to the owner, with those bits.
    closing: Mutex<Vec<(PathBuf, u32)>>,
    /// True if the file system finds a new directory in another case too.
    folds_case: OnceLock<bool>,
    /// Held while a directory is created whose name the file system may change.
    changed_names: Mutex<()>,
    /// Directories for writing that are spelled as their names are.
    spelled: Mutex<HashSet<PathBuf>>,
    time_unit: OnceLock<Option<Duration>>,
}

/// The treatment of missing directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MissingDirectories {
    /// Return an error.
    Refuse,
    /// Create them.
    Create,
}

/// A file, directory or link beneath the directory.
#[derive(Clone, Debug)]
pub struct FoundEntry {
    /// The kind of the entry. Links are not followed.
    pub kind: EntryKind,
    /// Length of the file, bytes.
    pub size: u64,
    /// Modification time (`st_mtime`).
    pub modified: SystemTime,
    /// Change time of the inode (`st_ctime`), which programs cannot set.
    pub changed: SystemTime,
}

impl Beneath {
    /// Returns the directory `path`, which is opened or created at first use. If `like` is given,
    /// new directories get the permission bits of the directories of the same name below it.
    #[must_use]
    pub fn new(path: &Path, like: Option<&Path>) -> Self {
        let like = like.map(Path::to_owned);
        Self {
            path: path.to_owned(),
            like,
            root: OnceLock::new(),
            closing: Mutex::default(),
            folds_case: OnceLock::new(),
            changed_names: Mutex::default(),
            spelled: Mutex::default(),
            time_unit: OnceLock::new(),
        }
    }

    /// Opens the directory `path` now. A link in its place is refused.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn itself(path: &Path) -> Result<Self> {
        // A `/` at the end of a path would make the kernel follow a link.
        let bytes = path.as_os_str().as_bytes();
        let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(1, |last| last + 1).min(bytes.len());
        let bare = Path::new(OsStr::from_bytes(&bytes[..end]));
        let opened = rustix::fs::open(bare, LOOKUP | OFlags::NOFOLLOW, Mode::empty());
        let beneath = Self::new(path, None);
        // The result is ignored: a new cell cannot be set already.
        let _ = beneath.root.set(Arc::new(opened.map_err(|error| io_error(path, error))?));
        Ok(beneath)
    }

    /// Returns true if the directory is missing or empty. A directory that cannot be read counts as
    /// not empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let first = |root: &Arc<OwnedFd>| {
            let mut entries = Dir::new(readable(root)?)?;
            Ok(entries.find(|entry| !matches!(entry, Ok(entry) if is_dots(entry))))
        };
        match self.root(MissingDirectories::Refuse).and_then(first) {
            Ok(entry) => entry.is_none(),
            Err(error) => error == Errno::NOENT,
        }
    }

    /// Looks a name up. Returns `None` if it does not exist or a component of its path is a link.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn find(&self, name: &Path) -> Result<Option<FoundEntry>> {
        let stat = self
            .parent(name, MissingDirectories::Refuse)
            .and_then(|(directory, last)| stat_at(&directory, last));
        match stat {
            Ok(stat) => Ok(Some(entry_of(&stat))),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(error) => Err(io_error(&self.path.join(name), error)),
        }
    }

    /// Returns the unit in which the file system keeps modification times: finds it once, by a file
    /// that it makes and removes. `None` if it can make none.
    #[must_use]
    pub fn time_unit(&self) -> Option<Duration> {
        let root = self.root(MissingDirectories::Refuse).ok()?;
        *self.time_unit.get_or_init(|| super::time_unit::find(root).ok())
    }

    /// Returns the error for a name that the file system takes for `other`.
    #[must_use]
    pub fn is_spelled_otherwise(&self, name: &Path, other: &OsStr) -> Error {
        spelled_otherwise(&self.path.join(name), other)
    }

    /// Returns the names in a directory for which `wanted` is true, unsorted. Empty if the
    /// directory does not exist.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::InvalidName`] if a component of the path is a link.
    pub fn names(&self, directory: &Path, wanted: &dyn Fn(&[u8]) -> bool) -> Result<Vec<OsString>> {
        let mut names = Vec::new();
        self.each_name(directory, &mut |name| {
            if wanted(name) {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        })?;
        Ok(names)
    }

    /// Calls `with` for each name in a directory, if the directory exists.
    ///
    /// # Errors
    /// The errors of [`names`](Self::names).
    pub fn each_name(&self, directory: &Path, with: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut read = || -> std::result::Result<(), Errno> {
            let opened = self.directory(directory, MissingDirectories::Refuse)?;
            for entry in Dir::new(readable(&opened)?)? {
                with(entry?.file_name().to_bytes());
            }
            Ok(())
        };
        match read() {
            Err(Errno::NOENT) => Ok(()),
            other => other.map_err(|error| self.explain(directory, error)),
        }
    }

    /// Returns the different name that an entry found as `name` has in its directory. Some file
    /// systems take two names for one, by letter case or Unicode form. `None` if the names are
    /// equal.
    ///
    /// # Errors
    /// The errors of [`names`](Self::names).
    pub fn other_spelling(&self, name: &Path) -> Result<Option<OsString>> {
        let found = self
            .parent(name, MissingDirectories::Refuse)
            .and_then(|(directory, last)| other_spelling(&directory, last));
        match found {
            Err(Errno::NOENT) => Ok(None),
            other => other.map_err(|error| self.explain(name, error)),
        }
    }

    /// Creates a directory and its parents.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::InvalidName`] if a component of the path is a link or a file.
    pub fn create_directory(&self, name: &Path) -> Result<()> {
        let made = self.directory(name, MissingDirectories::Create).map(drop);
        made.map_err(|error| self.explain_directory(name, name, error))
    }

    /// Renames `name` to `to` beneath another directory. Returns false if `name` does not exist, if
    /// `to` exists, or across file systems. Creates the directories of `to`. A link itself is
    /// renamed.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::InvalidName`] if a component of a path is a link.
    pub fn rename(&self, name: &Path, target: &Self, to: &Path) -> Result<bool> {
        let explained = |error| self.explain(name, error);
        let (from, last) = match self.parent(name, MissingDirectories::Refuse) {
            Err(Errno::NOENT) => return Ok(false),
            other => other.map_err(explained)?,
        };
        let (into, new) = target
            .parent(to, MissingDirectories::Create)
            .map_err(|error| target.explain_parent(to, error))?;
        match rename_exclusively(from.as_fd(), last, into.as_fd(), new) {
            Ok(()) if is_often_changed(new) && other_spelling(&into, new).map_err(explained)?.is_some() => {
                // A copy to this name is refused with the reason.
                rename_exclusively(into.as_fd(), new, from.as_fd(), last).map_err(explained)?;
                Ok(false)
            }
            Ok(()) => Ok(true),
            Err(Errno::NOENT | Errno::EXIST | Errno::XDEV) => Ok(false),
            // The file system has no hard links.
            Err(error) if is_refusal(error) => Ok(false),
            // The directory is a mount point.
            Err(Errno::BUSY) => Ok(false),
            Err(error) => Err(explained(error)),
        }
    }

    /// Sets the final permission bits of directories. Called after the last write.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn settle(&self) -> Result<()> {
        let mut closing = std::mem::take(&mut *self.closing.lock());
        // The deepest directories come first: without permissions on a directory, those below it
        // cannot be reached.
        closing.sort_by_key(|(name, _)| std::cmp::Reverse(name.components().count()));
        for (name, mode) in closing {
            let done = self
                .directory(&name, MissingDirectories::Refuse)
                .and_then(|directory| change_mode(readable(&directory)?, mode));
            done.map_err(|error| io_error(&self.path.join(&name), error))?;
        }
        Ok(())
    }

    /// Returns a new descriptor of the directory, which must exist.
    pub(super) fn opened(&self) -> std::result::Result<OwnedFd, Errno> {
        rustix::fs::openat(self.root(MissingDirectories::Refuse)?, ".", LOOKUP, Mode::empty())
    }

    /// Returns the shared descriptor of the directory, which must exist, without a system call.
    pub(super) fn shared(&self) -> std::result::Result<Arc<OwnedFd>, Errno> {
        self.root(MissingDirectories::Refuse).map(Arc::clone)
    }

    /// Returns the path of a name, for messages.
    pub(crate) fn shown(&self, name: &Path) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the parent directory of `name`, and the last component of the name.
    pub(crate) fn parent<'a>(
        &self,
        name: &'a Path,
        missing: MissingDirectories,
    ) -> std::result::Result<(Arc<OwnedFd>, &'a OsStr), Errno> {
        let last = name.file_name().ok_or(Errno::INVAL)?;
        let directory = self.directory(name.parent().unwrap_or(Path::new("")), missing)?;
        Ok((directory, last))
    }

    /// Converts an error of resolving `name`.
    pub(crate) fn explain(&self, name: &Path, error: Errno) -> Error {
        let why = match self.obstacle(name) {
            Some((at, EntryKind::Symlink)) if matches!(error, Errno::NOTDIR | Errno::LOOP) => {
                let why = "a symbolic link is in a directory's place, and none is followed below a destination; \
                           remove it, or copy to where it leads";
                return Error::InvalidName {
                    location: shown(&self.path.join(at)).to_string(),
                    why: why.into(),
                };
            }
            Some((at, _)) if error == Errno::NOTDIR => {
                let why = "not a directory: a file has the name of a directory";
                return Error::InvalidName {
                    location: shown(&self.path.join(at)).to_string(),
                    why: why.into(),
                };
            }
            _ if error == Errno::EXIST => match self.other_directory(name) {
                Some((at, other)) => return spelled_otherwise(&self.path.join(at), &other),
                None => error,
            },
            _ if is_refused_name(error) => return refused_name(&self.path.join(name), error),
            _ => error,
        };
        io_error(&self.path.join(name), why)
    }

    /// Converts an error of opening or creating the directory of `name`.
    pub(crate) fn explain_parent(&self, name: &Path, error: Errno) -> Error {
        self.explain_directory(name, name.parent().unwrap_or(Path::new("")), error)
    }

    /// Converts an error of opening or creating `directory` for `name`.
    fn explain_directory(&self, name: &Path, directory: &Path, error: Errno) -> Error {
        let is_root = directory.as_os_str().is_empty();
        let directory = if is_root { self.path.clone() } else { self.path.join(directory) };
        match self.explain(name, error) {
            Error::Io { source, .. } if !directory.is_dir() => directory_error(&directory, source),
            explained => explained,
        }
    }

    /// Returns the first directory of a name that is there in another spelling, and that spelling.
    fn other_directory(&self, name: &Path) -> Option<(PathBuf, OsString)> {
        let root = self.root(MissingDirectories::Refuse).ok()?;
        if let Some(found) = other_part(root, name).ok()? {
            return Some(found);
        }
        // Some file systems refuse a second spelling, but find the directory in the first alone.
        let missing = name.ancestors().filter(|part| !part.as_os_str().is_empty()).filter(|part| {
            let above = self.directory(part.parent().unwrap_or(Path::new("")), MissingDirectories::Refuse);
            let opened = open_beneath(root, part, LOOKUP, Mode::empty());
            above.is_ok() && matches!(opened, Err(Errno::NOENT))
        });
        let part = missing.last()?;
        let (above, last) = self.parent(part, MissingDirectories::Refuse).ok()?;
        Some((part.to_owned(), similar_name(&above, last, None).ok()?))
    }

    /// Returns the first component of a name that exists and is not a directory.
    fn obstacle(&self, name: &Path) -> Option<(PathBuf, EntryKind)> {
        let mut parts: Vec<&Path> = name.ancestors().filter(|part| !part.as_os_str().is_empty()).collect();
        parts.reverse();
        parts.into_iter().find_map(|part| {
            let stat = std::fs::symlink_metadata(self.path.join(part)).ok()?;
            let kind = if stat.is_symlink() { EntryKind::Symlink } else { EntryKind::Other };
            (!stat.is_dir()).then(|| (part.to_owned(), kind))
        })
    }

    fn root(&self, missing: MissingDirectories) -> std::result::Result<&Arc<OwnedFd>, Errno> {
        if let Some(root) = self.root.get() {
            return Ok(root);
        }
        let opened = match rustix::fs::open(&self.path, LOOKUP, Mode::empty()) {
            Err(Errno::NOENT) if missing == MissingDirectories::Create => {
                let above = self.path.parent().filter(|above| !above.as_os_str().is_empty());
                let made = above.map_or(Ok(()), std::fs::create_dir_all);
                made.map_err(|error| errno(&error))?;
                self.make(CWD, self.path.as_os_str(), Path::new(""))?
            }
            other => other?,
        };
        Ok(self.root.get_or_init(|| Arc::new(opened)))
    }

    /// Opens the directory `name` for lookups. Most lookups are in the root, which is already open.
    fn directory(
        &self,
        name: &Path,
        missing: MissingDirectories,
    ) -> std::result::Result<Arc<OwnedFd>, Errno> {
        let root = self.root(missing)?;
        if name.as_os_str().is_empty() {
            return Ok(Arc::clone(root));
        }
        let is_changed = missing == MissingDirectories::Create && name.iter().any(is_often_changed);
        // A directory that is stored under another name exists until its creator has removed it.
        let _alone = is_changed.then(|| self.changed_names.lock());
        let opened = match open_beneath(root, name, LOOKUP, Mode::empty()) {
            Err(Errno::NOENT) if missing == MissingDirectories::Create => self.descend(root, name),
            other => other,
        }?;
        if missing == MissingDirectories::Create {
            self.check_spelling(root, name)?;
        }
        Ok(Arc::new(opened))
    }

    /// Checks that a directory is spelled as its name is, where the file system may find it in
    /// another spelling too: what is written there would be merged into another directory.
    fn check_spelling(&self, root: &OwnedFd, name: &Path) -> std::result::Result<(), Errno> {
        let folds = self.folds_case.get().is_some_and(|folds| *folds);
        if !folds && !name.iter().any(is_often_changed) || self.spelled.lock().contains(name) {
            return Ok(());
        }
        match other_part(root, name)? {
            Some(_) => Err(Errno::EXIST),
            None => {
                self.spelled.lock().insert(name.to_owned());
                Ok(())
            }
        }
    }

    /// Opens the components of a name one after another, and creates missing ones.
    fn descend(&self, root: &OwnedFd, name: &Path) -> std::result::Result<OwnedFd, Errno> {
        let mut directory = rustix::fs::openat(root, ".", LOOKUP, Mode::empty())?;
        let mut reached = PathBuf::new();
        for part in name {
            if part == ".." {
                return Err(Errno::INVAL);
            }
            reached.push(part);
            directory = match rustix::fs::openat(&directory, part, LOOKUP | OFlags::NOFOLLOW, Mode::empty()) {
                Err(Errno::NOENT) => self.make_named(&directory, part, &reached)?,
                other => other?,
            };
        }
        Ok(directory)
    }

    /// Creates a directory like [`make`](Self::make), and removes it if the file system has stored
    /// it under another name. Finds out whether the file system folds letter case.
    fn make_named(&self, above: &OwnedFd, part: &OsStr, name: &Path) -> std::result::Result<OwnedFd, Errno> {
        let made = self.make(above, part, name)?;
        if is_often_changed(part) && other_spelling(above, part)?.is_some() {
            rustix::fs::unlinkat(above, part, AtFlags::REMOVEDIR)?;
            return Err(Errno::INVAL);
        }
        let swapped = swap_case(part);
        if swapped != part {
            self.folds_case.get_or_init(|| stat_at(above, &swapped).is_ok());
        }
        Ok(made)
    }

    /// Creates the directory `part` in `above`; `name` is its path from the root.
    fn make(&self, above: impl AsFd, part: &OsStr, name: &Path) -> std::result::Result<OwnedFd, Errno> {
        let wanted = self.like.as_ref().and_then(|like| std::fs::metadata(like.join(name)).ok());
        let wanted = wanted.filter(std::fs::Metadata::is_dir).map(|metadata| metadata.mode() & KEPT);
        let mode = Mode::from_raw_mode(wanted.map_or(KEPT, |mode| mode | FILLING));
        let open = || rustix::fs::openat(&above, part, LOOKUP | OFlags::NOFOLLOW, Mode::empty());
        match rustix::fs::mkdirat(&above, part, mode) {
            // Another worker has created the directory, unless it is there in another case only.
            Err(Errno::EXIST) => {
                return open().map_err(|error| if error == Errno::NOENT { Errno::EXIST } else { error });
            }
            other => other?,
        }
        let directory = open()?;
        let Some(wanted) = wanted else { return Ok(directory) };
        change_mode(readable(&directory)?, wanted | FILLING)?;
        if wanted | FILLING != wanted {
            self.closing.lock().push((name.to_owned(), wanted));
        }
        Ok(directory)
    }
}

/// Returns a name with each ASCII letter in the other case.
fn swap_case(name: &OsStr) -> OsString {
    let swap = |byte: &u8| if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { *byte };
    OsString::from_vec(name.as_bytes().iter().map(swap).collect())
}

pub(super) fn version_of(stat: &Stat) -> Version {
    let file = FileIdentity::new(
        (stat.st_dev, stat.st_ino),
        (stat.st_mtime, stat.st_mtime_nsec),
        (stat.st_ctime, stat.st_ctime_nsec),
    );
    Version { size: u64::try_from(stat.st_size).ok(), file: Some(file), ..Version::default() }
}

fn entry_of(stat: &Stat) -> FoundEntry {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        _ => EntryKind::Other,
    };
    FoundEntry {
        kind,
        size: u64::try_from(stat.st_size).unwrap_or_default(),
        modified: time(stat.st_mtime, stat.st_mtime_nsec),
        changed: time(stat.st_ctime, stat.st_ctime_nsec),
    }
}

/// Converts a time of an inode; 1970 if it is out of range.
fn time(seconds: i64, nanoseconds: u64) -> SystemTime {
    let time = Time { seconds, nanoseconds: nanoseconds as u32 };
    time.system().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Sets permission bits, if the file system supports them.
pub(super) fn change_mode(file: impl AsFd, mode: u32) -> std::result::Result<(), Errno> {
    let change = || rustix::fs::fchmod(&file, Mode::from_raw_mode(mode));
    attempt(Improvement::Mode, &file, change).map(drop)
}
