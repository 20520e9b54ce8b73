//! Stores unfinished writes of a bucket, all of them below `BUCKET/.firstbyte`, which clients
//! cannot see.
//!
//! `tmp/` has the entries that single requests are writing. A process holds a lock (flock) on each
//! of its entries, so an entry without a lock was left by a killed process, however new it is.
//! `uploads/` has multipart uploads, which survive a process (`object::uploads`), and `trash/` has
//! entries deleted from the page (`object::trash`). [`sweep`] removes abandoned entries of `tmp/`,
//! when the server starts and from time to time. `publish` moves out a finished file by a rename;
//! only then are the directories of its final name made.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_location::PARTIAL_SUFFIX;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::config::Buckets;
use crate::object::reserved::{self, Area};
use crate::object::root::{ServedRoot, is_refused};
use crate::path::EntryPath;
use crate::token::random_token;

/// Maximum number of attempts at creating an entry if sweeps remove it, or its directory, before it
/// is locked.
const CREATE_ATTEMPTS: u32 = 100;

/// Returns the bucket for unfinished writes to `directory`: the bucket that contains it, or the
/// served directory if no such bucket exists. Blocking.
pub(crate) fn bucket_of(root: &ServedRoot, buckets: &Buckets, directory: &EntryPath) -> EntryPath {
    let first = match buckets {
        Buckets::Named(_) => EntryPath::default(),
        Buckets::FirstLevel => directory.first(),
    };
    if root.open_directory(&first).is_ok() { first } else { EntryPath::default() }
}

/// An unfinished file in the staging of a bucket. Dropping it before it is published removes it.
#[derive(Debug)]
pub(crate) struct TemporaryFile {
    directory: OwnedFd,
    name: OsString,
    file: Arc<File>,
}

impl TemporaryFile {
    /// Creates a file in the staging of `bucket`, which must exist. Blocking.
    pub(crate) fn create(root: &ServedRoot, bucket: &EntryPath) -> io::Result<Self> {
        let (directory, name, file) = create(root, bucket, "", new_file)?;
        Ok(Self { directory, name: name.into(), file: Arc::new(file.into()) })
    }

    /// Returns the open file, for writing and for extended attributes.
    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Returns the directory of the file, and its name there.
    pub(crate) fn place(&self) -> (BorrowedFd<'_>, &OsStr) {
        (self.directory.as_fd(), &self.name)
    }

    /// Forgets the file after it was moved out of the staging.
    pub(crate) fn forget_moved(mut self) {
        self.name.clear();
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // If this fails, a sweep removes the file later.
            let _ = rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty());
        }
    }
}

/// A note about a file that is written outside the staging, because its final name is on another
/// file system. The file is in its final directory, named `.TOKEN.firstbyte-part`. A sweep removes
/// the files that the notes of killed processes name. Dropping a note removes the note.
#[derive(Debug)]
pub(crate) struct PartNote {
    directory: OwnedFd,
    name: String,
    /// The open note, which holds its lock.
    _file: OwnedFd,
}

/// Prefix of a note's name. The token follows the prefix.
const NOTE_PREFIX: &str = "part-";

impl PartNote {
    /// Creates a note in the staging of `bucket`: a part is being written in the directory `place`.
    /// Blocking.
    pub(crate) fn create(root: &ServedRoot, bucket: &EntryPath, place: &EntryPath) -> io::Result<Self> {
        let (directory, name, file) = create(root, bucket, NOTE_PREFIX, new_file)?;
        let note = Self { directory, name, _file: file.try_clone()? };
        File::from(file).write_all(place.as_bytes())?;
        Ok(note)
    }

    /// Returns the name of the part file.
    pub(crate) fn part(&self) -> String {
        part_of(&self.name).unwrap_or_default()
    }
}

impl Drop for PartNote {
    fn drop(&mut self) {
        // If this fails, a sweep removes the note later.
        let _ = rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty());
    }
}

fn part_of(note: &str) -> Option<String> {
    note.strip_prefix(NOTE_PREFIX).map(|token| format!(".{token}{PARTIAL_SUFFIX}"))
}

/// Removes the part that an abandoned note names. A missing part is not an error.
fn remove_part(root: &ServedRoot, part: &str, note: OwnedFd) -> io::Result<()> {
    let mut place = Vec::new();
    File::from(note).read_to_end(&mut place)?;
    let Ok(place) = EntryPath::parse(&place) else { return Ok(()) };
    let removed = root
        .open_directory(&place)
        .and_then(|directory| Ok(rustix::fs::unlinkat(&directory, part, AtFlags::empty())?));
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn new_file(directory: &OwnedFd, name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o666))
}

/// An unfinished directory in the staging of a bucket. Dropping it before it is moved removes it
/// with its content.
#[derive(Debug)]
pub(crate) struct TemporaryDirectory {
    parent: OwnedFd,
    name: String,
    directory: OwnedFd,
}

impl TemporaryDirectory {
    /// Creates a directory in the staging of `bucket`, which must exist. Blocking.
    pub(crate) fn create(root: &ServedRoot, bucket: &EntryPath) -> io::Result<Self> {
        let (parent, name, directory) = create(root, bucket, "", |parent, name| {
            rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o777))?;
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(parent, name, flags, Mode::empty())
        })?;
        Ok(Self { parent, name, directory })
    }

    pub(crate) fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// Moves the complete directory into `area` of `bucket` as `name`, which must not exist.
    /// Blocking.
    pub(crate) fn rename(
        mut self,
        root: &ServedRoot,
        bucket: &EntryPath,
        area: Area,
        name: &str,
    ) -> io::Result<()> {
        for _ in 0..CREATE_ATTEMPTS {
            let target = match reserved::make(root, bucket, area) {
                // Another thread removed the empty area while it was opened.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    root.open_directory(bucket)?;
                    continue;
                }
                done => done?,
            };
            match rustix::fs::renameat(&self.parent, &self.name, &target, name) {
                // Another thread removed the empty area between the two steps.
                Err(Errno::NOENT) => {}
                done => {
                    done?;
                    self.name.clear();
                    return Ok(());
                }
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            let _ = remove_tree(&self.parent, self.name.as_ref());
        }
    }
}

/// Calls `make` with a new name that begins with `prefix`, and locks the entry. Repeats this if a
/// sweep removed the entry before it was locked.
fn create(
    root: &ServedRoot,
    bucket: &EntryPath,
    prefix: &str,
    make: impl Fn(&OwnedFd, &str) -> rustix::io::Result<OwnedFd>,
) -> io::Result<(OwnedFd, String, OwnedFd)> {
    let mut attempt = 0;
    loop {
        let name = format!("{prefix}{}", random_token());
        let made = reserved::make(root, bucket, Area::Temporary).and_then(|parent| {
            let entry = make(&parent, &name)?;
            Ok((parent, entry))
        });
        match made {
            Ok((parent, entry)) => {
                let locked = rustix::fs::flock(&entry, FlockOperation::NonBlockingLockExclusive);
                // If the lock is taken, a sweep holds it and is about to remove the entry. Any
                // other failure means a file system without locks, where a sweep leaves entries
                // until they are old.
                if locked != Err(Errno::WOULDBLOCK) && rustix::fs::fstat(&entry)?.st_nlink > 0 {
                    return Ok((parent, name, entry));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                root.open_directory(bucket)?;
            }
            Err(error) => return Err(error),
        }
        attempt += 1;
        if attempt == CREATE_ATTEMPTS {
            return Err(io::ErrorKind::NotFound.into());
        }
        // The growing pause separates two loops that would otherwise collide again and again.
        std::thread::sleep(Duration::from_micros(10) * attempt);
    }
}

/// Removes the entries of killed processes from `tmp` of `bucket`. On a file system without locks,
/// removes the entries older than `age`. Blocking.
pub(crate) fn sweep(root: &ServedRoot, bucket: &EntryPath, age: Duration) -> io::Result<()> {
    for_each_abandoned(root, bucket, Area::Temporary, age, |directory, name, locked| {
        tracing::info!(entry = ?name, "removing what a killed server left");
        if let Some(part) = name.to_str().and_then(part_of)
            && let Err(error) = remove_part(root, &part, locked)
        {
            // The note is kept until its part can be removed.
            tracing::warn!(%error, part, "what a killed server left cannot be removed");
            return Ok(());
        }
        remove_tree(directory, name)
    })
}

/// Calls `visit` with each entry of a staging directory that no process holds. The entry is locked
/// during the call, so a process that has just made the entry and locks it later finds it removed.
/// Then tidies the staging of `bucket`, unless the directory is missing, because a process may be
/// about to make it.
pub(crate) fn for_each_abandoned(
    root: &ServedRoot,
    bucket: &EntryPath,
    area: Area,
    age: Duration,
    mut visit: impl FnMut(&OwnedFd, &OsStr, OwnedFd) -> io::Result<()>,
) -> io::Result<()> {
    let directory = match reserved::open(root, bucket, area) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        done => done?,
    };
    for entry in rustix::fs::Dir::read_from(&directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        if let Some(locked) = lock_abandoned(&directory, name, age)? {
            visit(&directory, name, locked)?;
        }
    }
    reserved::tidy(root, bucket);
    Ok(())
}

/// Locks an entry that no process holds. On a file system without locks, only an entry older than
/// `age` counts.
fn lock_abandoned(directory: &OwnedFd, name: &OsStr, age: Duration) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let open = |access| rustix::fs::openat(directory, name, flags | access, Mode::empty());
    let opened = match open(OFlags::RDWR) {
        Err(Errno::ISDIR) => open(OFlags::RDONLY),
        done => done,
    };
    let entry = match opened {
        Ok(entry) => entry,
        // The entry no longer exists, or belongs to another user. The sweep continues with the next
        // one.
        Err(_) => return Ok(None),
    };
    match rustix::fs::flock(&entry, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(entry)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(_) => {
            let touched = File::from(entry.try_clone()?).metadata()?.modified()?;
            Ok(touched.elapsed().is_ok_and(|since| since > age).then_some(entry))
        }
    }
}

/// Removes `name` in `parent`: a file, or a directory with all its content. A missing entry is not
/// an error. File systems mounted below `name` are not touched: the error is `CrossesDevices`.
/// Blocking.
pub(crate) fn remove_tree(parent: impl AsFd, name: &OsStr) -> io::Result<()> {
    let parent = parent.as_fd();
    let ignore_missing = |done: rustix::io::Result<()>| match done {
        Err(Errno::NOENT) => Ok(()),
        done => Ok(done?),
    };
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => {}
        done => return ignore_missing(done),
    }
    let directory = enter(parent, name)?;
    // The owner may have had no right to write in the directory. If this call fails, the removal
    // reports it.
    let _ = rustix::fs::fchmod(&directory, Mode::RWXU);
    let mut entries = rustix::fs::Dir::new(directory)?;
    while let Some(entry) = entries.read() {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            remove_tree(entries.fd()?, name)?;
        }
    }
    ignore_missing(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR))
}

/// Opens the directory `name` in `parent`, unless another file system is mounted there.
fn enter(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat2(parent, name, flags, Mode::empty(), ResolveFlags::NO_XDEV) {
        Err(error) if is_refused(error) => {
            let opened = rustix::fs::openat(parent, name, flags, Mode::empty())?;
            let same = rustix::fs::fstat(&opened)?.st_dev == rustix::fs::fstat(parent)?.st_dev;
            if same { Ok(opened) } else { Err(Errno::XDEV.into()) }
        }
        done => Ok(done?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_removes_the_part_that_a_killed_server_noted_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("mounted")).unwrap();
        let root = ServedRoot::open(directory.path()).unwrap();
        let (base, place) = (EntryPath::default(), EntryPath::parse(b"mounted").unwrap());
        let note = PartNote::create(&root, &base, &place).unwrap();
        let part = directory.path().join("mounted").join(note.part());
        let other = directory.path().join("mounted/.other.firstbyte-part");
        for path in [&part, &other] {
            std::fs::write(path, "x").unwrap();
        }
        sweep(&root, &base, Duration::from_secs(3600)).unwrap();
        assert!(part.exists(), "its process lives");
        // A killed process releases the lock but leaves the note.
        let killed = std::mem::ManuallyDrop::new(note);
        rustix::fs::flock(&killed._file, FlockOperation::Unlock).unwrap();
        sweep(&root, &base, Duration::from_secs(3600)).unwrap();
        assert!(!part.exists() && other.exists());
        assert!(!directory.path().join(".firstbyte").exists());
    }

    #[test]
    fn a_directory_that_is_being_made_survives_a_sweep() {
        let directory = tempfile::tempdir().unwrap();
        let root = ServedRoot::open(directory.path()).unwrap();
        let base = EntryPath::default();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sweeping = scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    sweep(&root, &base, Duration::from_secs(3600)).unwrap();
                }
            });
            let make = || -> io::Result<()> {
                for _ in 0..6000 {
                    let made = TemporaryDirectory::create(&root, &base)?;
                    rustix::fs::mkdirat(made.directory(), "inside", Mode::RWXU)?;
                }
                Ok(())
            };
            let made = make();
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            sweeping.join().unwrap();
            made.unwrap();
        });
    }

    #[test]
    fn a_sweep_removes_what_no_process_holds_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let root = ServedRoot::open(directory.path()).unwrap();
        let base = EntryPath::default();
        let file = TemporaryFile::create(&root, &base).unwrap();
        let made = TemporaryDirectory::create(&root, &base).unwrap();
        let tmp = directory.path().join(".firstbyte/tmp");
        std::fs::write(tmp.join("left"), "x").unwrap();
        std::fs::create_dir(tmp.join("directory")).unwrap();
        std::fs::write(tmp.join("directory/left"), "x").unwrap();
        sweep(&root, &base, Duration::from_secs(3600)).unwrap();
        assert_eq!(std::fs::read_dir(&tmp).unwrap().count(), 2);
        drop((file, made));
        sweep(&root, &base, Duration::from_secs(3600)).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
