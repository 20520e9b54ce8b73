//! Reads one directory of the served tree: its visible files and directories. Symbolic links are
//! resolved beneath the root.
//!
//! A link to a file is reported as the file, and a link to a directory as a directory. Recursive
//! listings do not enter a linked directory, because the link may lead to a directory above it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt;

use rustix::fs::{AtFlags, Dir, FileType, OFlags};

use crate::access::keys::{KeyRights, RequestRights};
use crate::http::etag::EtagIdentity;
use crate::object::root::ServedRoot;
use crate::path::{EntryPath, is_hidden};

/// One visible entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VisibleEntry {
    pub(crate) name: OsString,
    pub(crate) kind: VisibleKind,
}

/// The kind of an entry. Everything else (sockets, devices, links leading out) is invisible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum VisibleKind {
    File,
    /// A directory.
    Directory,
    /// A link to a directory inside.
    LinkedDirectory,
}

/// The position of a reader in a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectoryPosition {
    /// Device and inode of the directory.
    directory: (u64, u64),
    offset: i64,
}

/// Iterates over the visible entries of a directory, in the file system's order. Blocking.
#[derive(Debug)]
pub(crate) struct EntryReader {
    root: ServedRoot,
    path: EntryPath,
    entries: Dir,
    /// The file system's offset after the last entry.
    offset: i64,
    /// The rights that limit the visible entries to those that may be read, and the directories
    /// that lead there. `None`: all entries are visible.
    shown_to: Option<RequestRights>,
}

impl EntryReader {
    pub(crate) fn open(root: &ServedRoot, path: &EntryPath) -> io::Result<Self> {
        let entries = Dir::new(root.open_directory(path)?)?;
        Ok(Self { root: root.clone(), path: path.clone(), entries, offset: 0, shown_to: None })
    }

    /// Opens the directory `path`. The reader shows only the entries that `access` may read, and
    /// the directories that lead there.
    pub(crate) fn open_for(root: &ServedRoot, path: &EntryPath, access: &RequestRights) -> io::Result<Self> {
        let shown_to = (!access.allows(KeyRights::Read, path.as_bytes())).then(|| access.clone());
        Ok(Self { shown_to, ..Self::open(root, path)? })
    }

    /// Returns the position, from which another reader can [resume](Self::resume).
    pub(crate) fn position(&self) -> io::Result<DirectoryPosition> {
        let found = self.entries.stat()?;
        Ok(DirectoryPosition { directory: (found.st_dev, found.st_ino), offset: self.offset })
    }

    /// Opens the directory `path` for `access` at the position of an earlier reader.
    ///
    /// # Errors
    /// The directory cannot be opened, or another directory now has its name.
    pub(crate) fn resume(
        root: &ServedRoot,
        path: &EntryPath,
        access: &RequestRights,
        position: DirectoryPosition,
    ) -> io::Result<Self> {
        let mut reader = Self::open_for(root, path, access)?;
        if reader.position()?.directory != position.directory {
            return Err(io::Error::other(format!("{path} changed while it was read")));
        }
        reader.entries.seek(position.offset)?;
        reader.offset = position.offset;
        Ok(reader)
    }

    /// True if the entry `name` may be shown, judged by its name and, if known, its `kind`.
    fn is_shown(&self, name: &OsStr, kind: Option<VisibleKind>) -> bool {
        let Some(access) = &self.shown_to else { return true };
        let path = self.path.join(name);
        match kind {
            Some(VisibleKind::File) => access.allows(KeyRights::Read, path.as_bytes()),
            _ => access.reaches(&path.as_directory()),
        }
    }

    /// Returns the version of `entry`. `None` if it no longer exists.
    pub(crate) fn identity(&self, entry: &VisibleEntry) -> Option<EtagIdentity> {
        identity_at(&self.root, self.entries.fd().ok()?, &self.path, &entry.name)
    }

    /// Returns the path of the entry `name` in this directory.
    pub(crate) fn path_of(&self, name: &OsStr) -> EntryPath {
        self.path.join(name)
    }

    fn kind(&self, name: &OsString, reported: FileType) -> Option<VisibleKind> {
        match reported {
            FileType::RegularFile => return Some(VisibleKind::File),
            FileType::Directory => return Some(VisibleKind::Directory),
            FileType::Symlink | FileType::Unknown => {}
            _ => return None,
        }
        let file = self.root.open_blocking(&self.path.join(name), OFlags::PATH).ok()?;
        let metadata = file.metadata().ok()?;
        match (metadata.is_file(), metadata.is_dir()) {
            (true, _) => Some(VisibleKind::File),
            (_, true) if reported == FileType::Symlink => Some(VisibleKind::LinkedDirectory),
            (_, true) => Some(VisibleKind::Directory),
            _ => None,
        }
    }
}

impl Iterator for EntryReader {
    type Item = io::Result<VisibleEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let entry = match self.entries.read()? {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error.into())),
            };
            self.offset = entry.offset();
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." || is_hidden(name) {
                continue;
            }
            let name = OsString::from_vec(name.to_vec());
            if !self.is_shown(&name, None) {
                continue;
            }
            if let Some(kind) = self.kind(&name, entry.file_type())
                && self.is_shown(&name, Some(kind))
            {
                return Some(Ok(VisibleEntry { name, kind }));
            }
        }
    }
}

/// True if lists and archives omit the entry at `path` after opening it failed with `error`: the
/// entry no longer exists, or the server may not read it, which is logged. So another user's
/// directory, such as `lost+found`, does not hide the remaining entries.
pub(crate) fn is_left_out(path: &EntryPath, error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, NotADirectory, NotFound, PermissionDenied};
    if error.kind() == PermissionDenied {
        tracing::warn!(%path, %error, "left out of a list or an archive");
    }
    matches!(error.kind(), NotFound | PermissionDenied | NotADirectory | CrossesDevices)
        || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

/// Returns the version of the entry `name` in the open `directory`, which is `path` in `root`.
/// `None` if the entry no longer exists, or is a link that leads to no entry inside. Blocking.
pub(crate) fn identity_at(
    root: &ServedRoot,
    directory: BorrowedFd<'_>,
    path: &EntryPath,
    name: &OsStr,
) -> Option<EtagIdentity> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink => Some((&stat).into()),
        Ok(_) => {
            let file = root.open_blocking(&path.join(name), OFlags::PATH).ok()?;
            Some((&file.metadata().ok()?).into())
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_files_and_links_leading_out_are_invisible() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("file"), "x").unwrap();
        std::fs::write(at(".x.firstbyte-part"), "x").unwrap();
        std::fs::create_dir(at(".firstbyte")).unwrap();
        std::fs::create_dir(at("sub")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", at("out")).unwrap();
        std::os::unix::fs::symlink("file", at("in")).unwrap();
        std::os::unix::fs::symlink(".", at("loop")).unwrap();
        let (root, path) = (ServedRoot::open(directory.path()).unwrap(), EntryPath::default());
        let reader = EntryReader::open(&root, &path).unwrap();
        let mut entries: Vec<_> =
            reader.map(|entry| entry.unwrap()).map(|entry| (entry.name, entry.kind)).collect();
        entries.sort();
        let names: Vec<_> = entries.iter().map(|(name, kind)| (name.to_str().unwrap(), *kind)).collect();
        let expected = [
            ("file", VisibleKind::File),
            ("in", VisibleKind::File),
            ("loop", VisibleKind::LinkedDirectory),
            ("sub", VisibleKind::Directory),
        ];
        assert_eq!(names, expected);
    }
}
