//! A directory that a tree is written into: every name is looked up beneath it, and no symbolic link is followed.
//!
//! The directory itself may be a link, since the caller named it. Below it the kernel resolves each name by `openat2`
//! without links; on kernels without that call the parts of a name are opened one after the other. So neither a link
//! that is there nor one that appears meanwhile leads a write or a deletion anywhere else.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use firstbyte_location::{Kind, shown};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::io_error;
use crate::{Error, Result};

/// Permission bits that a copy keeps. Those beyond (set-user-ID, set-group-ID, sticky) grant rights of an owner, and
/// the owner is not copied.
pub(super) const KEPT: u32 = 0o777;
/// What the owner needs to fill a directory.
const FILLING: u32 = 0o700;
/// Opens a directory to look names up in it; not to read it.
const LOOKUP: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Opens a directory to read it.
const READ: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A directory that names are looked up beneath.
#[derive(Debug)]
pub struct Beneath {
    path: PathBuf,
    /// The local tree whose directories give those made here their permission bits.
    like: Option<PathBuf>,
    root: OnceLock<OwnedFd>,
    /// Directories that keep the owner out in the end, and their permission bits.
    closing: Mutex<Vec<(PathBuf, u32)>>,
}

/// Whether directories that are missing are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// They are an error.
    Refuse,
    /// They are made.
    Create,
}

/// What has a name beneath the directory.
#[derive(Clone, Debug)]
pub struct Found {
    /// What it is; a link is a link.
    pub kind: Kind,
    /// Its length.
    pub size: u64,
    /// When its content was modified, in whole seconds since 1970.
    pub modified: i64,
    /// When it was last written, moved or changed in any way, in whole seconds since 1970.
    pub changed: i64,
}

impl Beneath {
    /// The directory `path`, which is opened or made when it is first needed. Directories made in it have the permission
    /// bits of their namesakes below `like` where that is given, else the usual ones.
    #[must_use]
    pub fn new(path: &Path, like: Option<&Path>) -> Self {
        let like = like.map(Path::to_owned);
        Self { path: path.to_owned(), like, root: OnceLock::new(), closing: Mutex::default() }
    }

    /// Whether the directory is there.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.root(Missing::Refuse).is_ok()
    }

    /// What has this name; `None` where nothing has it. A link on the way to it counts as nothing.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn find(&self, name: &Path) -> Result<Option<Found>> {
        let stat = self.parent(name, Missing::Refuse).and_then(|(directory, last)| stat_at(&directory, last));
        match stat {
            Ok(stat) => Ok(Some(found(&stat))),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(error) => Err(io_error(&self.path.join(name), error)),
        }
    }

    /// The names in a directory that `wanted` is true of, in no order. A directory that is not there has none.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::InvalidName`] where a link is on the way to it.
    pub fn names(&self, directory: &Path, wanted: &dyn Fn(&[u8]) -> bool) -> Result<Vec<OsString>> {
        let read = || -> std::result::Result<Vec<OsString>, Errno> {
            let opened = self.directory(directory, Missing::Refuse)?;
            let mut names = Vec::new();
            for entry in Dir::read_from(&rustix::fs::openat(&opened, ".", READ, Mode::empty())?)? {
                let entry = entry?;
                let name = entry.file_name().to_bytes();
                if wanted(name) {
                    names.push(OsStr::from_bytes(name).to_owned());
                }
            }
            Ok(names)
        };
        match read() {
            Err(Errno::NOENT) => Ok(Vec::new()),
            other => other.map_err(|error| self.explain(directory, error)),
        }
    }

    /// Makes a directory, and those above it.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::InvalidName`] where a link or a file is in its place.
    pub fn create_directory(&self, name: &Path) -> Result<()> {
        self.directory(name, Missing::Create).map(drop).map_err(|error| self.explain(name, error))
    }

    /// Removes a file or a link; one that is not there is no error.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::InvalidName`] where a link is on the way to it.
    pub fn remove_file(&self, name: &Path) -> Result<()> {
        self.remove(name, AtFlags::empty())
    }

    /// Removes a directory that is empty. One that is not, or is not there, is left and is no error.
    ///
    /// # Errors
    /// As [`remove_file`](Self::remove_file).
    pub fn remove_empty_directory(&self, name: &Path) -> Result<()> {
        match self.remove(name, AtFlags::REMOVEDIR) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            other => other,
        }
    }

    /// Removes a directory with all in it, if `may` agrees to every name; returns how many files and links it held.
    /// Nothing is removed unless all may be.
    ///
    /// # Errors
    /// [`Error::InvalidName`] where something in it is to stay; [`Error::Io`].
    pub fn remove_tree(&self, name: &Path, may: &dyn Fn(&[u8]) -> bool) -> Result<u64> {
        let directory = self.parent(name, Missing::Refuse).and_then(|(above, last)| enter(&above, last));
        let directory = directory.map_err(|error| self.explain(name, error))?;
        self.agree(&directory, name, may)?;
        let mut removed = 0;
        self.empty(&directory, name, &mut removed)?;
        self.remove(name, AtFlags::REMOVEDIR)?;
        Ok(removed)
    }

    /// Gives directories their last permission bits; to be called when nothing more is written.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn settle(&self) -> Result<()> {
        let mut closing = std::mem::take(&mut *self.closing.lock().unwrap_or_else(PoisonError::into_inner));
        // Those deep down first: a directory without permission hides what is in it.
        closing.sort_by_key(|(name, _)| std::cmp::Reverse(name.components().count()));
        for (name, mode) in closing {
            let done = self.directory(&name, Missing::Refuse).and_then(|directory| {
                let directory = rustix::fs::openat(&directory, ".", READ, Mode::empty())?;
                change_mode(&directory, mode)
            });
            done.map_err(|error| io_error(&self.path.join(&name), error))?;
        }
        Ok(())
    }

    /// The path of a name, for messages.
    pub(crate) fn shown(&self, name: &Path) -> PathBuf {
        self.path.join(name)
    }

    /// The directory that `name` lies in, and its last part.
    pub(crate) fn parent<'a>(
        &self,
        name: &'a Path,
        missing: Missing,
    ) -> std::result::Result<(OwnedFd, &'a OsStr), Errno> {
        let last = name.file_name().ok_or(Errno::INVAL)?;
        let directory = self.directory(name.parent().unwrap_or(Path::new("")), missing)?;
        Ok((directory, last))
    }

    /// What an error met on the way to `name` means there.
    pub(crate) fn explain(&self, name: &Path, error: Errno) -> Error {
        let why = match self.obstacle(name) {
            Some((at, Kind::Symlink)) if matches!(error, Errno::NOTDIR | Errno::LOOP) => {
                let why = "a symbolic link is in a directory's place, and none is followed below a destination; \
                           remove it, or copy to where it leads";
                return Error::InvalidName {
                    location: shown(&self.path.join(at)).to_string(),
                    why: why.into(),
                };
            }
            Some((at, _)) if error == Errno::NOTDIR => {
                let why = "not a directory: a file is in a directory's place";
                return Error::InvalidName {
                    location: shown(&self.path.join(at)).to_string(),
                    why: why.into(),
                };
            }
            _ => error,
        };
        io_error(&self.path.join(name), why)
    }

    /// The first part of a name that is there and is no directory.
    fn obstacle(&self, name: &Path) -> Option<(PathBuf, Kind)> {
        let mut parts: Vec<&Path> = name.ancestors().filter(|part| !part.as_os_str().is_empty()).collect();
        parts.reverse();
        parts.into_iter().find_map(|part| {
            let stat = std::fs::symlink_metadata(self.path.join(part)).ok()?;
            let kind = if stat.is_symlink() { Kind::Symlink } else { Kind::Other };
            (!stat.is_dir()).then(|| (part.to_owned(), kind))
        })
    }

    fn root(&self, missing: Missing) -> std::result::Result<&OwnedFd, Errno> {
        if let Some(root) = self.root.get() {
            return Ok(root);
        }
        let opened = match rustix::fs::open(&self.path, LOOKUP, Mode::empty()) {
            Err(Errno::NOENT) if missing == Missing::Create => {
                let above = self.path.parent().filter(|above| !above.as_os_str().is_empty());
                let made = above.map_or(Ok(()), std::fs::create_dir_all);
                made.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
                self.make(CWD, self.path.as_os_str(), Path::new(""))?
            }
            other => other?,
        };
        Ok(self.root.get_or_init(|| opened))
    }

    fn directory(&self, name: &Path, missing: Missing) -> std::result::Result<OwnedFd, Errno> {
        let root = self.root(missing)?;
        if name.as_os_str().is_empty() {
            return rustix::fs::openat(root, ".", LOOKUP, Mode::empty());
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(root, name, LOOKUP, Mode::empty(), resolve) {
            Err(Errno::NOENT) if missing == Missing::Refuse => Err(Errno::NOENT),
            // Old kernels lack the call, sandboxes refuse it, and it gives up where a rename gets in its way.
            Err(Errno::NOENT | Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::AGAIN) => {
                self.descend(root, name, missing)
            }
            other => other,
        }
    }

    /// Opens the parts of a name one after the other, and makes those that are missing.
    fn descend(&self, root: &OwnedFd, name: &Path, missing: Missing) -> std::result::Result<OwnedFd, Errno> {
        let mut directory = rustix::fs::openat(root, ".", LOOKUP, Mode::empty())?;
        let mut reached = PathBuf::new();
        for part in name {
            if part == ".." {
                return Err(Errno::INVAL);
            }
            reached.push(part);
            directory = match rustix::fs::openat(&directory, part, LOOKUP | OFlags::NOFOLLOW, Mode::empty()) {
                Err(Errno::NOENT) if missing == Missing::Create => self.make(&directory, part, &reached)?,
                other => other?,
            };
        }
        Ok(directory)
    }

    /// Makes the directory `part` of `above`, which is called `name` from here.
    fn make(&self, above: impl AsFd, part: &OsStr, name: &Path) -> std::result::Result<OwnedFd, Errno> {
        let wanted = self.like.as_ref().and_then(|like| std::fs::metadata(like.join(name)).ok());
        let wanted = wanted.filter(std::fs::Metadata::is_dir).map(|metadata| metadata.mode() & KEPT);
        let mode = Mode::from_raw_mode(wanted.map_or(KEPT, |mode| mode | FILLING));
        let open = || rustix::fs::openat(&above, part, LOOKUP | OFlags::NOFOLLOW, Mode::empty());
        match rustix::fs::mkdirat(&above, part, mode) {
            // Another worker was faster.
            Err(Errno::EXIST) => return open(),
            other => other?,
        }
        let directory = open()?;
        let Some(wanted) = wanted else { return Ok(directory) };
        let readable = rustix::fs::openat(&directory, ".", READ, Mode::empty())?;
        change_mode(&readable, wanted | FILLING)?;
        if wanted | FILLING != wanted {
            self.closing.lock().unwrap_or_else(PoisonError::into_inner).push((name.to_owned(), wanted));
        }
        Ok(directory)
    }

    fn remove(&self, name: &Path, how: AtFlags) -> Result<()> {
        let removed = self
            .parent(name, Missing::Refuse)
            .and_then(|(directory, last)| rustix::fs::unlinkat(&directory, last, how));
        match removed {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(self.explain(name, error)),
        }
    }

    /// Checks that all in a directory may be removed.
    fn agree(&self, directory: &OwnedFd, name: &Path, may: &dyn Fn(&[u8]) -> bool) -> Result<()> {
        let fail = |error: Errno| io_error(&self.path.join(name), error);
        for (part, kind) in entries(directory).map_err(fail)? {
            let below = name.join(&part);
            let stays = match kind {
                FileType::Directory => {
                    let inner = enter(directory, &part).map_err(fail)?;
                    self.agree(&inner, &below, may)?;
                    false
                }
                FileType::RegularFile | FileType::Symlink => !may(below.as_os_str().as_bytes()),
                _ => true,
            };
            if stays {
                let location = shown(&self.path.join(&below)).to_string();
                let why = "is to stay, so the directory it lies in cannot make way for a file";
                return Err(Error::InvalidName { location, why: why.into() });
            }
        }
        Ok(())
    }

    fn empty(&self, directory: &OwnedFd, name: &Path, removed: &mut u64) -> Result<()> {
        let fail = |error: Errno| io_error(&self.path.join(name), error);
        for (part, kind) in entries(directory).map_err(fail)? {
            if kind == FileType::Directory {
                let below = enter(directory, &part).map_err(fail)?;
                self.empty(&below, &name.join(&part), removed)?;
                rustix::fs::unlinkat(directory, &part, AtFlags::REMOVEDIR).map_err(fail)?;
            } else {
                rustix::fs::unlinkat(directory, &part, AtFlags::empty()).map_err(fail)?;
                *removed += 1;
            }
        }
        Ok(())
    }
}

/// The names in a directory, and what they are.
fn entries(directory: &OwnedFd) -> std::result::Result<Vec<(OsString, FileType)>, Errno> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let part = OsStr::from_bytes(entry.file_name().to_bytes());
        if part == "." || part == ".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => FileType::from_raw_mode(stat_at(directory, part)?.st_mode),
            known => known,
        };
        found.push((part.to_owned(), kind));
    }
    Ok(found)
}

fn enter(directory: &OwnedFd, part: &OsStr) -> std::result::Result<OwnedFd, Errno> {
    rustix::fs::openat(directory, part, READ | OFlags::NOFOLLOW, Mode::empty())
}

/// What a name in a directory is; a link is not followed.
pub(super) fn stat_at(directory: &OwnedFd, name: &OsStr) -> std::result::Result<Stat, Errno> {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
}

fn found(stat: &Stat) -> Found {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        _ => Kind::Other,
    };
    Found {
        kind,
        size: u64::try_from(stat.st_size).unwrap_or_default(),
        modified: stat.st_mtime,
        changed: stat.st_ctime,
    }
}

/// Sets permission bits where the file system has them; one that does not cannot keep any.
pub(super) fn change_mode(file: impl AsFd, mode: u32) -> std::result::Result<(), Errno> {
    match rustix::fs::fchmod(file, Mode::from_raw_mode(mode)) {
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        other => other,
    }
}
