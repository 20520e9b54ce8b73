//! Reads the contents of a directory completely, and decides later whether they are still current.
//!
//! The times of a directory change with every name that is added, removed or changes its type. So
//! contents are current if the times are unchanged. But times are coarse: after two changes in
//! quick succession the time may be the same. So, as in the index of git, the contents of a
//! directory that changed within [`SETTLED_SECONDS`] before it was read never count as current.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use firstbyte_listing::Batch;
use rustix::fs::{AtFlags, CWD, FileType, Stat, statat};

use crate::place::open;

/// Seconds before a read in which the directory must not have changed, so that its contents count
/// as current. Local file systems have a time resolution of 10 ms or better, FAT of 2 s. A file
/// server's clock may differ from ours by about 2 s too.
const SETTLED_SECONDS: i64 = 3;

/// The names in a directory. The memory of a value is reused, because memory that another thread
/// allocated is slow to free.
#[derive(Default)]
pub(super) struct Contents {
    /// All names, end to end.
    names: Vec<u8>,
    /// End offset in `names`, and type, of each name.
    ends: Vec<(u32, FileType)>,
    stamp: Stamp,
}

/// Identity and times of a directory.
#[derive(Default, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    /// True if the directory had been unchanged for long enough before it was read.
    is_settled: bool,
}

impl Contents {
    /// Reads the directory at `path`, through `batch`.
    ///
    /// # Errors
    /// The operating system's error.
    pub(super) fn read(&mut self, path: &Path, batch: &mut Batch) -> io::Result<()> {
        self.names.clear();
        self.ends.clear();
        let mut reader = open(path)?;
        self.stamp = Stamp::of(&rustix::fs::fstat(reader.as_fd())?);
        while reader.read(batch)? {
            self.add(batch);
        }
        Ok(())
    }

    fn add(&mut self, batch: &Batch) {
        self.ends.reserve(batch.len());
        for entry in batch.entries() {
            self.names.extend_from_slice(entry.name());
            let end =
                u32::try_from(self.names.len()).expect("names of a directory in memory are below 4 GiB");
            self.ends.push((end, entry.file_type()));
        }
    }

    /// Returns the names in the file system's order.
    pub(super) fn names(&self) -> impl Iterator<Item = (&[u8], FileType)> {
        let mut start = 0;
        self.ends.iter().map(move |&(end, kind)| {
            let name = &self.names[start..end as usize];
            start = end as usize;
            (name, kind)
        })
    }

    /// Returns the memory in use, in bytes.
    pub(super) fn size(&self) -> usize {
        self.names.capacity() + self.ends.capacity() * size_of::<(u32, FileType)>()
    }

    /// Returns whether reading `path` now would give the same names. Returns false for a link if
    /// `links` says not to follow links.
    pub(super) fn is_current(&self, path: &Path, links: AtFlags) -> bool {
        self.stamp.is_settled
            && statat(CWD, path, links)
                .is_ok_and(|stat| Stamp { is_settled: true, ..Stamp::of(&stat) } == self.stamp)
    }
}

impl Stamp {
    fn of(stat: &Stat) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime, stat.st_ctime_nsec as i64),
            is_settled: stat.st_mtime.max(stat.st_ctime) + SETTLED_SECONDS < now,
        }
    }
}
