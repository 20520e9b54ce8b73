//! Reads one open directory, a buffer at a time. This is the simplest interface of the crate.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, OFlags};
use rustix::io::Errno;

use crate::batch::{Batch, RecordDecision};
use crate::dirent::Raw;
use crate::error::{Error, Result};
use crate::open::open_at;
use crate::options::Symlinks;

/// An open directory. Its entries are returned as the directory states them: a type may be unknown,
/// and a file may have been removed since.
#[derive(Debug)]
pub struct DirectoryReader {
    fd: OwnedFd,
    /// Number of entries read.
    pub(crate) so_far: u64,
    /// Position of the next record.
    pub(crate) next: i64,
}

impl DirectoryReader {
    /// Opens the directory at `path`, which may be a symbolic link.
    ///
    /// # Errors
    /// [`Error::Io`] with the operating system's code.
    pub fn open(path: &Path) -> Result<Self> {
        open_at(CWD, path, Symlinks::Follow, OFlags::RDONLY)
            .map(Self::from)
            .map_err(|error| Error::at(path, b"", error))
    }

    /// Replaces the contents of `batch` with the next entries, by one system call. False when there
    /// are no more entries.
    ///
    /// # Errors
    /// The operating system's code. If the directory has been removed, it ends without an error.
    pub fn read(&mut self, batch: &mut Batch) -> std::io::Result<bool> {
        self.read_selected(batch, |_, _| Ok(RecordDecision::Entry))
    }

    /// Works like [`read`](Self::read), but keeps only the records that `take` accepts.
    pub(crate) fn read_selected(
        &mut self,
        batch: &mut Batch,
        mut take: impl FnMut(&Raw, &[u8]) -> rustix::io::Result<RecordDecision>,
    ) -> std::io::Result<bool> {
        batch.clear();
        batch.begin(b"", 0);
        let next = &mut self.next;
        let read = batch.read(&self.fd, usize::MAX, |raw, name| {
            *next = raw.next;
            take(raw, name)
        });
        let read = match read {
            // The directory was removed. POSIX requires an ordinary end, Linux returns `ENOENT`.
            Err(Errno::NOENT) => 0,
            read => read?,
        };
        self.so_far = batch.end(self.so_far);
        Ok(read > 0)
    }

    /// Starts over from the first entry.
    ///
    /// # Errors
    /// The operating system's code.
    pub fn rewind(&mut self) -> std::io::Result<()> {
        rustix::fs::seek(&self.fd, rustix::fs::SeekFrom::Start(0))?;
        (self.so_far, self.next) = (0, 0);
        Ok(())
    }
}

impl From<OwnedFd> for DirectoryReader {
    /// Continues to read an open directory from its current position.
    fn from(fd: OwnedFd) -> Self {
        Self { fd, so_far: 0, next: 0 }
    }
}

impl From<DirectoryReader> for OwnedFd {
    fn from(reader: DirectoryReader) -> Self {
        reader.fd
    }
}

impl AsFd for DirectoryReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
