//! Opens a directory for this program's own files: caches, journals, sockets and logs.
//!
//! Another user may have created the directory first, for example in `/tmp`, and filled it with
//! links, pipes or files. So the directory is opened without following a link in its place, and it
//! must belong to this user. Every file in the directory is opened beneath it without links, and
//! checked. Links in the path above the directory are followed only if they belong to root or to
//! this user.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use firstbyte_location::directory_of;
use rustix::fs::{AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::resolve::{LOOKUP, open_beneath};
use super::resolve::{READ, is_dots, readable, stat_at};

/// Maximum number of links followed in one path, as in the kernel (path_resolution(7)).
const MAX_LINKS: u32 = 40;
/// Permission bits that let other users change a directory.
const OTHERS_WRITE: u32 = 0o022;

/// The users that share a private directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// No other users: mode 0700.
    #[default]
    Private,
    /// The group of the directory: mode 2770. Members of the group are trusted to change each
    /// other's files.
    Group,
}

/// The access to a file, and the treatment of a missing or an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAccess {
    /// Read. The file must exist.
    Read,
    /// Read and write. The file must exist.
    Write,
    /// Read and write. The file is created if it is missing.
    Create,
    /// Read and write. The file must not exist.
    CreateNew,
}

/// An open directory for files of this program.
#[derive(Debug)]
pub struct PrivateDirectory {
    directory: OwnedFd,
    path: PathBuf,
    sharing: Sharing,
}

impl PrivateDirectory {
    /// Opens the existing directory at `path`.
    ///
    /// # Errors
    /// `NotFound`. `PermissionDenied` if `path` is a link, or if the directory belongs to another
    /// user or can be written by other users.
    pub fn open(path: &Path, sharing: Sharing) -> io::Result<Self> {
        Self::at(path, sharing, Missing::Refuse)
    }

    /// Opens the directory at `path`. If the directory is missing, creates it with its parents. If
    /// it is empty and belongs to this user, closes it to other users.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open), and those of creating a directory.
    pub fn create(path: &Path, sharing: Sharing) -> io::Result<Self> {
        let opened = Self::at(path, sharing, Missing::Create(sharing))?;
        if opened.is_empty() {
            opened.restrict()?;
        }
        Ok(opened)
    }

    fn at(path: &Path, sharing: Sharing, missing: Missing) -> io::Result<Self> {
        let directory = descend(path, missing)?;
        let opened = Self { directory, path: path.to_owned(), sharing };
        opened.check()?;
        Ok(opened)
    }

    /// Opens the directory `name` in this one. Creates it if it is missing.
    pub fn directory(&self, name: &str) -> io::Result<Self> {
        self.make_directory(Path::new(name))?;
        let directory = self.resolve(Path::new(name), LOOKUP, Mode::empty())?;
        let opened = Self { directory, path: self.path.join(name), sharing: self.sharing };
        opened.check()?;
        Ok(opened)
    }

    /// Creates the directory `name`, unless it exists.
    ///
    /// # Errors
    /// The errors of the system calls.
    pub fn make_directory(&self, name: &Path) -> io::Result<()> {
        let (above, last) = self.parent(name)?;
        make(&above, last, self.sharing)?;
        Ok(())
    }

    /// Opens a regular file.
    ///
    /// # Errors
    /// `PermissionDenied` for a link, a pipe or a device, for a file that would be written and has
    /// a second name, and for a file of another user. In a shared directory, files of the
    /// directory's group are allowed too.
    pub fn file(&self, name: &Path, opening: FileAccess) -> io::Result<File> {
        let flags = match opening {
            FileAccess::Read => OFlags::RDONLY,
            FileAccess::Write => OFlags::RDWR,
            FileAccess::Create => OFlags::RDWR | OFlags::CREATE,
            FileAccess::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        };
        // With these flags, opening a pipe does not block, and no terminal becomes the controlling
        // terminal of this process.
        let safe = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let mode = if flags.contains(OFlags::CREATE) {
            Mode::from_raw_mode(self.file_mode())
        } else {
            Mode::empty()
        };
        let file = self.resolve(name, flags | safe, mode).map_err(|error| match error {
            Errno::LOOP => denied("it is a symbolic link"),
            Errno::NXIO => denied("it is not a regular file"),
            other => other.into(),
        })?;
        let found = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(denied("it is not a regular file"));
        }
        if self.sharing == Sharing::Private && found.st_uid != geteuid().as_raw() {
            return Err(foreign(&found));
        }
        if self.sharing == Sharing::Group && !self.is_of_group(&found)? {
            return Err(denied(&format!(
                "it belongs to user {} and group {}, which do not share this directory",
                found.st_uid, found.st_gid
            )));
        }
        // A write would also change the file under its other name, which may be outside the
        // directory.
        if opening != FileAccess::Read && found.st_nlink > 1 {
            return Err(denied("it has a second name (hard link)"));
        }
        if self.sharing == Sharing::Group && found.st_uid == geteuid().as_raw() && found.st_size == 0 {
            // The umask may have cleared the group's bits.
            rustix::fs::fchmod(&file, Mode::from_raw_mode(self.file_mode()))?;
        }
        Ok(File::from(file))
    }

    /// Returns the names in the directory `name`, in any order. Returns none if the directory does
    /// not exist.
    pub fn names(&self, name: &Path) -> io::Result<Vec<OsString>> {
        let opened = match self.resolve(name, READ | OFlags::NOFOLLOW, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(Vec::new()),
            other => other?,
        };
        names_in(opened, usize::MAX)
    }

    /// Returns true if an entry has this name.
    #[must_use]
    pub fn has(&self, name: &Path) -> bool {
        self.parent(name).is_ok_and(|(above, last)| stat_at(&above, last).is_ok())
    }

    /// Returns true if the directory is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let first =
            readable(&self.directory).map_err(Into::into).and_then(|directory| names_in(directory, 1));
        first.is_ok_and(|names| names.is_empty())
    }

    /// Removes a file or a link. A missing file is not an error.
    ///
    /// # Errors
    /// The errors of the system calls.
    pub fn remove(&self, name: &Path) -> io::Result<()> {
        let removed =
            self.parent(name).and_then(|(above, last)| rustix::fs::unlinkat(above, last, AtFlags::empty()));
        match removed {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Renames a file. Replaces an existing entry.
    ///
    /// # Errors
    /// The errors of the system calls.
    pub fn rename(&self, name: &Path, to: &Path) -> io::Result<()> {
        let ((from, last), (into, new)) = (self.parent(name)?, self.parent(to)?);
        Ok(rustix::fs::renameat(from, last, into, new)?)
    }

    /// Closes the directory to all users that do not share it. The caller must know that the
    /// directory is its own.
    pub fn restrict(&self) -> io::Result<()> {
        let found = rustix::fs::fstat(&self.directory)?;
        let wanted = directory_mode(self.sharing);
        if found.st_uid != geteuid().as_raw() || found.st_mode & 0o7777 & !0o2000 == wanted & !0o2000 {
            return Ok(());
        }
        Ok(rustix::fs::fchmod(readable(&self.directory)?, Mode::from_raw_mode(wanted))?)
    }

    /// Locks the directory until the guard is dropped. Excludes only processes that lock it too.
    /// Returns `None` if the directory is already locked.
    pub fn try_lock(&self) -> io::Result<Option<OwnedFd>> {
        let lock = readable(&self.directory)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(lock)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the path of a name, for messages.
    #[must_use]
    pub fn shown(&self, name: &Path) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the path by which the directory was opened, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the directory was removed since it was opened.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        rustix::fs::fstat(&self.directory).is_ok_and(|found| found.st_nlink == 0)
    }

    /// Returns an error if another user may have filled the directory.
    fn check(&self) -> io::Result<()> {
        let found = rustix::fs::fstat(&self.directory)?;
        if self.sharing == Sharing::Group {
            if found.st_mode & 0o002 != 0 {
                return Err(denied("every user can write to it; a shared directory has mode 2770"));
            }
            return Ok(());
        }
        if found.st_uid != geteuid().as_raw() {
            return Err(foreign(&found));
        }
        if found.st_mode & OTHERS_WRITE != 0 {
            // The directory was empty before it was closed to other users, who may have added files
            // until then. So it is checked again now that only this user can add files.
            let is_empty_now = self.is_empty() && self.restrict().is_ok() && self.is_empty();
            if !is_empty_now {
                return Err(denied(
                    "other users can write to it; use another directory, or empty it and chmod 700",
                ));
            }
        }
        Ok(())
    }

    /// Returns true if a file belongs to this user or to the group that shares the directory. A
    /// file of any other user is not used, because its owner could read what this program writes to
    /// it.
    fn is_of_group(&self, found: &Stat) -> io::Result<bool> {
        Ok(found.st_uid == geteuid().as_raw() || found.st_gid == rustix::fs::fstat(&self.directory)?.st_gid)
    }

    fn file_mode(&self) -> u32 {
        match self.sharing {
            Sharing::Private => 0o600,
            Sharing::Group => 0o660,
        }
    }

    /// Opens the directory that holds `name`. Returns it with the last component of `name`.
    fn parent<'a>(&self, name: &'a Path) -> Result<(OwnedFd, &'a OsStr), Errno> {
        let last = name.file_name().ok_or(Errno::INVAL)?;
        let above = directory_of(name);
        Ok((self.resolve(above, LOOKUP, Mode::empty())?, last))
    }

    /// Opens a name beneath the directory, following no links.
    fn resolve(&self, name: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        open_beneath(&self.directory, name, flags, mode)
    }
}

/// Treatment of the missing directories of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Refuse,
    /// Create the missing directories. The last of them is for the users that share it.
    Create(Sharing),
}

/// Opens a directory by its path, component by component.
fn descend(path: &Path, missing: Missing) -> io::Result<OwnedFd> {
    let mut rest: VecDeque<OsString> = path.iter().map(OsStr::to_owned).collect();
    let mut at = rustix::fs::openat(CWD, ".", LOOKUP, Mode::empty())?;
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        let is_last = rest.is_empty();
        at = match rustix::fs::openat(&at, &part, LOOKUP | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(next) => next,
            Err(Errno::NOENT) if let Missing::Create(sharing) = missing => {
                make(&at, &part, if is_last { sharing } else { Sharing::Private })?;
                rustix::fs::openat(&at, &part, LOOKUP | OFlags::NOFOLLOW, Mode::empty())?
            }
            Err(error @ (Errno::NOTDIR | Errno::LOOP)) => {
                let found = stat_at(&at, &part)?;
                if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
                    return Err(error.into());
                }
                if is_last {
                    return Err(denied("it is a symbolic link; name the directory itself"));
                }
                if ![0, geteuid().as_raw()].contains(&found.st_uid) {
                    return Err(denied("a symbolic link of another user is in its path"));
                }
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::LOOP.into());
                }
                let target = rustix::fs::readlinkat(&at, &part, Vec::new())?;
                let target = Path::new(OsStr::from_bytes(target.to_bytes())).to_owned();
                target.iter().rev().for_each(|part| rest.push_front(part.to_owned()));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
    }
    Ok(at)
}

/// Creates the directory `name` in `above`, unless it exists.
fn make(above: &OwnedFd, name: &OsStr, sharing: Sharing) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(directory_mode(sharing));
    match rustix::fs::mkdirat(above, name, mode) {
        Err(Errno::EXIST) => Ok(()),
        Ok(()) if sharing == Sharing::Group => {
            // The umask may have cleared the group's bits.
            let made = rustix::fs::openat(above, name, READ | OFlags::NOFOLLOW, Mode::empty())?;
            rustix::fs::fchmod(made, mode)
        }
        other => other,
    }
}

fn directory_mode(sharing: Sharing) -> u32 {
    match sharing {
        Sharing::Private => 0o700,
        Sharing::Group => 0o2770,
    }
}

/// Returns up to `most` names in a directory.
fn names_in(directory: OwnedFd, most: usize) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::new(directory)? {
        let entry = entry?;
        if !is_dots(&entry) {
            names.push(OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
            if names.len() == most {
                break;
            }
        }
    }
    Ok(names)
}

fn denied(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

fn foreign(found: &Stat) -> io::Error {
    denied(&format!("it belongs to user {}; use a directory of your own, such as one below it", found.st_uid))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode_of(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[track_caller]
    fn denied_at(path: &Path, why: &str) {
        let error = PrivateDirectory::create(path, Sharing::Private).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }

    #[test]
    fn a_new_directory_and_an_empty_one_are_closed_to_others() {
        let scratch = tempfile::tempdir().unwrap();
        let new = scratch.path().join("a/b");
        PrivateDirectory::create(&new, Sharing::Private).unwrap();
        assert_eq!(mode_of(&new), 0o700);
        set_mode(&new, 0o777);
        PrivateDirectory::create(&new, Sharing::Private).unwrap();
        assert_eq!(mode_of(&new), 0o700);
        let shared = scratch.path().join("shared");
        let directory = PrivateDirectory::create(&shared, Sharing::Group).unwrap();
        assert_eq!(mode_of(&shared), 0o2770);
        directory.file(Path::new("x"), FileAccess::Create).unwrap();
        assert_eq!(mode_of(&shared.join("x")), 0o660);
        assert!(PrivateDirectory::open(&scratch.path().join("none"), Sharing::Private).is_err());
    }

    #[test]
    fn a_directory_that_others_may_have_prepared_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("d");
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("planted"), "").unwrap();
        set_mode(&directory, 0o777);
        denied_at(&directory, "other users can write");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        set_mode(&directory, 0o755);
        PrivateDirectory::create(&directory, Sharing::Private).unwrap();
        assert_eq!(mode_of(&directory), 0o755, "it is not known to be this program's");
        let link = scratch.path().join("link");
        symlink(&directory, &link).unwrap();
        denied_at(&link, "symbolic link");
        symlink(scratch.path(), scratch.path().join("above")).unwrap();
        PrivateDirectory::create(&scratch.path().join("above/d"), Sharing::Private).unwrap();
    }

    #[test]
    fn links_pipes_and_second_names_are_neither_read_nor_written() {
        let scratch = tempfile::tempdir().unwrap();
        let (outside, directory) = (scratch.path().join("outside"), scratch.path().join("d"));
        fs::write(&outside, "secret").unwrap();
        let opened = PrivateDirectory::create(&directory, Sharing::Private).unwrap();
        symlink(&outside, directory.join("link")).unwrap();
        fs::hard_link(&outside, directory.join("second")).unwrap();
        symlink(scratch.path(), directory.join("sub")).unwrap();
        let pipe = directory.join("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        for opening in [FileAccess::Read, FileAccess::Write, FileAccess::Create, FileAccess::CreateNew] {
            for name in ["link", "pipe", "sub/outside", "../outside", "second"] {
                let opened = opened.file(Path::new(name), opening);
                assert!(
                    opened.is_err() || (name == "second" && opening == FileAccess::Read),
                    "{name} {opening:?}"
                );
            }
        }
        assert!(opened.names(Path::new("sub")).is_err());
        assert!(opened.directory("sub").is_err());
        opened.remove(Path::new("link")).unwrap();
        assert_eq!(fs::read_to_string(&outside).unwrap(), "secret");
    }

    #[test]
    fn files_are_created_renamed_listed_and_removed_beneath_a_private_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = PrivateDirectory::create(&scratch.path().join("d"), Sharing::Private).unwrap();
        directory.make_directory(Path::new("sub")).unwrap();
        let mut file = directory.file(Path::new("sub/x"), FileAccess::CreateNew).unwrap();
        file.write_all(b"content").unwrap();
        assert!(directory.file(Path::new("sub/x"), FileAccess::CreateNew).is_err());
        directory.rename(Path::new("sub/x"), Path::new("y")).unwrap();
        assert!(directory.has(Path::new("y")) && directory.names(Path::new("sub")).unwrap().is_empty());
        assert_eq!(fs::read(scratch.path().join("d/y")).unwrap(), b"content");
        directory.remove(Path::new("y")).unwrap();
        directory.remove(Path::new("y")).unwrap();
        assert_eq!(directory.names(Path::new(".")).unwrap(), ["sub"]);
        assert!(directory.names(Path::new("none")).unwrap().is_empty());
    }
}
