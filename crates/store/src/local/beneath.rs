//! Writes a tree into a directory: resolves names beneath the directory without following symbolic
//! links.
//!
//! The directory itself may be a link, because the caller named it. Below the directory, `openat2`
//! resolves names without links. On kernels without that call, the components of a name are opened
//! one after another. So a link cannot redirect a write or a deletion, even if the link appears
//! during a copy.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use firstbyte_listing::{Time, rename_exclusively};
use firstbyte_location::{EntryKind, FileIdentity, Version, shown};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix_futex_sync::Mutex;

use super::file_times::StoredTimes;
use super::name::random_name;
use super::optional::{Improvement, attempt};
use super::resolve::{LOOKUP, is_dots, open_beneath, readable, stat_at};
use super::spelling::{
    is_often_changed, is_refused_name, other_part, other_spelling, refused_name, similar_name,
    spelled_otherwise,
};
use super::{directory_error, errno, io_error};
use crate::error::{Error, Result};
use crate::syscall_refusal::is_refusal;

/// Permission bits that a copy preserves. The other bits (set-user-ID, set-group-ID, sticky) grant
/// the owner's rights, and a copy may have another owner.
pub(super) const PRESERVED_BITS: u32 = 0o777;
/// Permission bits that the owner needs in order to write into a directory.
const OWNER_BITS: u32 = 0o700;
/// The bit by which a directory gives its group, and the bit, to what is created in it.
const SET_GROUP_ID: u32 = 0o2000;

/// A directory beneath which names are resolved.
#[derive(Debug)]
pub struct Beneath {
    path: PathBuf,
    /// The local tree whose directories determine the permission bits of new directories.
    like: Option<PathBuf>,
    root: OnceLock<Arc<OwnedFd>>,
    /// New directories, each with its final permission bits. These bits do not let the owner write,
    /// so they are set after everything is written.
    closing: Mutex<Vec<(PathBuf, u32)>>,
    /// True if the file system also finds a new directory by its name in another letter case.
    folds_case: OnceLock<bool>,
    /// Locked while a directory is created whose name the file system may change.
    changed_names: Mutex<()>,
    /// Directories whose spelling was checked: each is listed with exactly the name by which it was
    /// opened for writing.
    spelled: Mutex<HashSet<PathBuf>>,
    /// The times that the file systems beneath the directory can store, by device.
    stored_times: Mutex<HashMap<u64, StoredTimes>>,
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
    /// Returns the directory `path`, which is opened or created at first use. If `like` is given, a
    /// new directory gets the permission bits of the directory with the same name below `like`.
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
            stored_times: Mutex::default(),
        }
    }

    /// Opens the directory `path` now, unlike [`new`](Self::new), and fails if `path` is a link.
    pub fn open(path: &Path) -> Result<Self> {
        // A `/` at the end of a path would make the kernel follow a link.
        let bytes = path.as_os_str().as_bytes();
        let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(1, |last| last + 1).min(bytes.len());
        let bare = Path::new(OsStr::from_bytes(&bytes[..end]));
        let opened = rustix::fs::open(bare, LOOKUP | OFlags::NOFOLLOW, Mode::empty());
        let beneath = Self::new(path, None);
        // Setting a new cell cannot fail.
        let _ = beneath.root.set(Arc::new(opened.map_err(|error| io_error(path, error))?));
        Ok(beneath)
    }

    /// Returns true if the directory is missing or empty, and false if it cannot be read.
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

    /// Looks up a name. Returns `None` if the name does not exist, or if a component of its path is
    /// a link.
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

    /// Returns the modification times that the file system of `name` can store. The first call for
    /// a file system finds them with a file that it creates and removes beside `name`. `None` if no
    /// such file can be created.
    #[must_use]
    pub fn stored_times(&self, name: &Path) -> Option<StoredTimes> {
        let (directory, _) = self.parent(name, MissingDirectories::Refuse).ok()?;
        let device = rustix::fs::fstat(&directory).ok()?.st_dev;
        let mut known = self.stored_times.lock();
        if let Some(times) = known.get(&device) {
            return Some(*times);
        }
        let times = super::file_times::measure_stored_times(&directory).ok()?;
        known.insert(device, times);
        Some(times)
    }

    /// Returns the error for a name that the file system does not distinguish from `other`.
    #[must_use]
    pub fn spelling_error(&self, name: &Path, other: &OsStr) -> Error {
        spelled_otherwise(&self.path.join(name), other)
    }

    /// Returns the names in a directory for which `wanted` is true, unsorted. Returns none if the
    /// directory does not exist.
    pub fn names(&self, directory: &Path, wanted: &dyn Fn(&[u8]) -> bool) -> Result<Vec<OsString>> {
        let mut names = Vec::new();
        self.each_name(directory, &mut |name| {
            if wanted(name) {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        })?;
        Ok(names)
    }

    /// Calls `with` for each name in a directory. Succeeds if the directory does not exist.
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

    /// Returns the name that the directory lists for the entry found as `name`, if it differs from
    /// `name`. Some file systems list a different name, because they take two names for one, by
    /// letter case or Unicode form. `None` if the names are equal.
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

    /// Renames `name` to `to` beneath another directory, and creates the directories of `to`. If
    /// `name` is a link, the link itself is renamed. Returns false if `name` does not exist or is
    /// on another file system, or if `to` exists. If `to` is another spelling of `name` itself, the
    /// rename succeeds.
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
                // The rename is undone, because the file system has stored another name than the
                // requested one. A later copy to that name fails, and reports the reason.
                rename_exclusively(into.as_fd(), new, from.as_fd(), last).map_err(explained)?;
                Ok(false)
            }
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => respell(&from, last, &into, new).map_err(explained),
            Err(Errno::NOENT | Errno::XDEV) => Ok(false),
            // The file system has no hard links.
            Err(error) if is_refusal(error) => Ok(false),
            // The directory is a mount point.
            Err(Errno::BUSY) => Ok(false),
            Err(error) => Err(explained(error)),
        }
    }

    /// Sets the final permission bits of new directories. The caller must have finished writing.
    pub fn settle(&self) -> Result<()> {
        let mut closing = std::mem::take(&mut *self.closing.lock());
        // The deepest directories come first, because a directory whose own bits deny access makes
        // those below it unreachable.
        closing.sort_by_key(|(name, _)| std::cmp::Reverse(name.components().count()));
        for (name, mode) in closing {
            let done = self
                .directory(&name, MissingDirectories::Refuse)
                .and_then(|directory| change_directory_mode(&directory, mode));
            done.map_err(|error| io_error(&self.path.join(&name), error))?;
        }
        Ok(())
    }

    /// Opens a new descriptor of the directory, which must exist.
    pub(super) fn reopen_root(&self) -> std::result::Result<OwnedFd, Errno> {
        rustix::fs::openat(self.root(MissingDirectories::Refuse)?, ".", LOOKUP, Mode::empty())
    }

    /// Returns the shared descriptor of the directory, which must exist. Makes no system call if
    /// the directory is already open.
    pub(super) fn shared(&self) -> std::result::Result<Arc<OwnedFd>, Errno> {
        self.root(MissingDirectories::Refuse).map(Arc::clone)
    }

    /// Returns the path of a name, for messages.
    pub(crate) fn shown(&self, name: &Path) -> PathBuf {
        self.path.join(name)
    }

    /// Opens the parent directory of `name`. Returns it with the last component of `name`.
    pub(crate) fn parent<'a>(
        &self,
        name: &'a Path,
        missing: MissingDirectories,
    ) -> std::result::Result<(Arc<OwnedFd>, &'a OsStr), Errno> {
        let last = name.file_name().ok_or(Errno::INVAL)?;
        let directory = self.directory(name.parent().unwrap_or(Path::new("")), missing)?;
        Ok((directory, last))
    }

    /// Converts an error that occurred while `name` was resolved.
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

    /// Converts an error that occurred while the directory of `name` was opened or created.
    pub(crate) fn explain_parent(&self, name: &Path, error: Errno) -> Error {
        self.explain_directory(name, name.parent().unwrap_or(Path::new("")), error)
    }

    /// Converts an error that occurred while `directory` was opened or created for `name`.
    fn explain_directory(&self, name: &Path, directory: &Path, error: Errno) -> Error {
        let is_root = directory.as_os_str().is_empty();
        let directory = if is_root { self.path.clone() } else { self.path.join(directory) };
        match self.explain(name, error) {
            Error::Io { source, .. } if !directory.is_dir() => directory_error(&directory, source),
            explained => explained,
        }
    }

    /// Returns the first directory of `name` that exists in another spelling, with that spelling.
    fn other_directory(&self, name: &Path) -> Option<(PathBuf, OsString)> {
        let root = self.root(MissingDirectories::Refuse).ok()?;
        if let Some(found) = other_part(root, name).ok()? {
            return Some(found);
        }
        // Some file systems refuse to create the second spelling, but find the directory only by
        // the first.
        let missing = name.ancestors().filter(|part| !part.as_os_str().is_empty()).filter(|part| {
            let above = self.directory(part.parent().unwrap_or(Path::new("")), MissingDirectories::Refuse);
            let opened = open_beneath(root, part, LOOKUP, Mode::empty());
            above.is_ok() && matches!(opened, Err(Errno::NOENT))
        });
        let part = missing.last()?;
        let (above, last) = self.parent(part, MissingDirectories::Refuse).ok()?;
        Some((part.to_owned(), similar_name(&above, last, None).ok()?))
    }

    /// Returns the first component of `name` that exists and is not a directory.
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

    /// Opens the directory `name` for lookups. The root needs no system call, and most lookups are
    /// in the root.
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
        // A new directory with such a name may be stored under another name, until the thread that
        // created it removes it. The lock hides that state from other threads.
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

    /// Checks that the directory is listed with exactly the spelling `name`. A file system that
    /// also finds other spellings would otherwise merge two directories of the source into one.
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

    /// Opens the components of a name one after another, and creates missing directories.
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

    /// Creates a directory like [`make`](Self::make), and removes it again if the file system has
    /// stored it under another name. Also finds out whether the file system ignores letter case.
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
        let wanted =
            wanted.filter(std::fs::Metadata::is_dir).map(|metadata| metadata.mode() & PRESERVED_BITS);
        let mode = Mode::from_raw_mode(wanted.map_or(PRESERVED_BITS, |mode| mode | OWNER_BITS));
        let open = || rustix::fs::openat(&above, part, LOOKUP | OFlags::NOFOLLOW, Mode::empty());
        match rustix::fs::mkdirat(&above, part, mode) {
            // Another worker has created the directory, or it exists only in another letter case.
            Err(Errno::EXIST) => {
                return open().map_err(|error| if error == Errno::NOENT { Errno::EXIST } else { error });
            }
            other => other?,
        }
        let directory = open()?;
        let Some(wanted) = wanted else { return Ok(directory) };
        change_directory_mode(&directory, wanted | OWNER_BITS)?;
        if wanted | OWNER_BITS != wanted {
            self.closing.lock().push((name.to_owned(), wanted));
        }
        Ok(directory)
    }
}

/// Renames an entry to another spelling of its own name, by which the file system already finds it.
/// Returns false if another entry has the new name. The entry is first renamed to a third name,
/// because a rename between two names of one inode does nothing (rename(2)).
fn respell(
    directory: &OwnedFd,
    name: &OsStr,
    into: &OwnedFd,
    new: &OsStr,
) -> std::result::Result<bool, Errno> {
    let place = |directory: &OwnedFd| rustix::fs::fstat(directory).map(|it| (it.st_dev, it.st_ino));
    if place(directory)? != place(into)? || other_spelling(directory, new)?.as_deref() != Some(name) {
        return Ok(false);
    }
    let rename =
        |old: &OsStr, free: &OsStr| match rename_exclusively(directory.as_fd(), old, directory.as_fd(), free)
        {
            // The file system cannot refuse to replace a file.
            Err(error) if is_refusal(error) => match stat_at(directory, free) {
                Err(Errno::NOENT) => rustix::fs::renameat(directory, old, directory, free),
                Ok(_) => Err(Errno::EXIST),
                Err(error) => Err(error),
            },
            done => done,
        };
    let between = random_name(new).map_err(|error| errno(&error))?;
    rename(name, &between)?;
    let renamed = rename(&between, new);
    if renamed.is_err() {
        rename(&between, name)?;
    }
    renamed.map(|()| true)
}

/// Returns a name in which each ASCII letter has the other case.
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

/// Converts a time of an inode. Returns 1970 for a time out of range.
fn time(seconds: i64, nanoseconds: u64) -> SystemTime {
    let time = Time { seconds, nanoseconds: nanoseconds as u32 };
    time.system().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Sets the permission bits of a new directory. The set-group-ID bit stays: the directory has it
/// from the one above, so that what is created in it belongs to the same group.
fn change_directory_mode(directory: &OwnedFd, mode: u32) -> std::result::Result<(), Errno> {
    let inherited = rustix::fs::fstat(directory)?.st_mode & SET_GROUP_ID;
    change_mode(readable(directory)?, mode | inherited)
}

/// Sets permission bits, if the file system supports them.
pub(super) fn change_mode(file: impl AsFd, mode: u32) -> std::result::Result<(), Errno> {
    let change = || rustix::fs::fchmod(&file, Mode::from_raw_mode(mode));
    attempt(Improvement::Mode, &file, change).map(drop)
}
