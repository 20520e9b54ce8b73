//! What is in a directory, read whole, and whether that is still so.
//!
//! A directory's times change with every name that comes, goes or changes its type, so what was read is current as
//! long as they are the same. But times have a grain: a change right after another may leave the same. So a directory
//! that changed within [`SETTLED`] before it was read is never taken for current, as git treats its index.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use firstbyte_listing::Batch;
use rustix::fs::{AtFlags, CWD, FileType, Stat, statat};

use crate::place::open;

/// Bytes a directory is read by at once: what the kernel fills in one call for all but large ones.
const BUFFER: usize = 64 << 10;

/// Seconds a directory must have been unchanged before it was read. Local times have a grain of 10 ms at most, FAT's
/// of 2 s; a file server's clock may differ from ours by about as much.
const SETTLED: i64 = 3;

/// What a name is, as far as a walk must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    /// A link, not looked through.
    Link,
    LinkToDirectory,
    Other,
    /// The file system did not say.
    Unknown,
}

/// The names in a directory.
pub(super) struct Contents {
    /// End to end.
    names: Vec<u8>,
    /// Where each one ends, and what it is.
    ends: Vec<(u32, Kind)>,
    stamp: Stamp,
}

/// Which directory it was, and in what state.
#[derive(PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    /// Whether it had been unchanged for long enough before it was read.
    settled: bool,
}

impl Contents {
    /// Reads the directory at `path`.
    ///
    /// # Errors
    /// The operating system's.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        thread_local! {
            // One buffer a thread, for all directories.
            static BATCH: std::cell::RefCell<Batch> = std::cell::RefCell::new(Batch::new(BUFFER));
        }
        let mut reader = open(path)?;
        let stamp = Stamp::of(&rustix::fs::fstat(reader.as_fd())?);
        let mut contents = Self { names: Vec::new(), ends: Vec::new(), stamp };
        BATCH.with_borrow_mut(|batch| {
            while reader.read(batch)? {
                contents.add(batch);
            }
            Ok(contents)
        })
    }

    fn add(&mut self, batch: &Batch) {
        self.ends.reserve(batch.len());
        for entry in batch.entries() {
            self.names.extend_from_slice(entry.name());
            let end =
                u32::try_from(self.names.len()).expect("names of a directory in memory are below 4 GiB");
            self.ends.push((end, kind(entry.file_type())));
        }
    }

    /// The names, in the order the file system gave them.
    pub(super) fn names(&self) -> impl Iterator<Item = (&[u8], Kind)> {
        let mut start = 0;
        self.ends.iter().map(move |&(end, kind)| {
            let name = &self.names[start..end as usize];
            start = end as usize;
            (name, kind)
        })
    }

    /// Finds out what the directory did not tell: what links lead to, and types it does not know. Not done ahead of the
    /// walk, since what a link leads to may change and leave no trace here.
    pub(super) fn look(&mut self, directory: &Path) {
        let mut start = 0;
        for (end, kind) in &mut self.ends {
            if matches!(kind, Kind::Link | Kind::Unknown) {
                let name = OsStr::from_bytes(&self.names[start..*end as usize]);
                *kind = look(&directory.join(name), *kind);
            }
            start = *end as usize;
        }
    }

    /// Bytes it takes.
    pub(super) fn size(&self) -> usize {
        self.names.capacity() + self.ends.capacity() * size_of::<(u32, Kind)>()
    }

    /// Whether reading `path` now would give the same.
    pub(super) fn is_current(&self, path: &Path) -> bool {
        self.stamp.settled
            && statat(CWD, path, AtFlags::empty())
                .is_ok_and(|stat| Stamp { settled: true, ..Stamp::of(&stat) } == self.stamp)
    }
}

impl Stamp {
    fn of(stat: &Stat) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
            settled: stat.st_mtime.max(stat.st_ctime) as i64 + SETTLED < now,
        }
    }
}

fn kind(kind: FileType) -> Kind {
    match kind {
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        FileType::Unknown => Kind::Unknown,
        _ => Kind::Other,
    }
}

/// What `path` is, which its directory alone does not tell. What cannot be looked at is no directory.
fn look(path: &Path, known: Kind) -> Kind {
    let ask = |flags| statat(CWD, path, flags).map(|stat| FileType::from_raw_mode(stat.st_mode));
    let own = if known == Kind::Link { Ok(FileType::Symlink) } else { ask(AtFlags::SYMLINK_NOFOLLOW) };
    match own {
        Ok(FileType::Directory) => Kind::Directory,
        Ok(FileType::Symlink) if ask(AtFlags::empty()) == Ok(FileType::Directory) => Kind::LinkToDirectory,
        _ => Kind::Other,
    }
}
