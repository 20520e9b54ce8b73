//! Reads one open directory, a buffer at a time. This is the plainest interface of the crate.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, OFlags};
use rustix::io::Errno;

use crate::batch::{Batch, Take};
use crate::dirent::Raw;
use crate::error::{Error, Result};
use crate::open::open_at;
use crate::options::Symlinks;

/// An open directory. Its entries are as the directory has them: a type may be unknown, a name gone
/// by now.
#[derive(Debug)]
pub struct Reader {
    fd: OwnedFd,
    /// Entries read.
    pub(crate) so_far: u64,
    /// The position of the record that comes next.
    pub(crate) next: i64,
}

impl Reader {
    /// Opens the directory at `path`; a symbolic link to one will do.
    ///
    /// # Errors
    /// [`Error::Io`] with the operating system's code.
    pub fn open(path: &Path) -> Result<Self> {
        open_at(CWD, path, Symlinks::Follow, OFlags::RDONLY)
            .map(Self::from)
            .map_err(|error| Error::at(path, b"", error))
    }

    /// Reads the next entries into `batch`, in place of what was there; false when there are no
    /// more. Each call is one system call, but for names too long for what is left of the buffer.
    ///
    /// # Errors
    /// The operating system's code. A directory that was removed meanwhile has merely ended.
    pub fn read(&mut self, batch: &mut Batch) -> std::io::Result<bool> {
        self.read_those(batch, |_, _| Ok(Take::Entry))
    }

    /// The same with those records that `take` says are to be had.
    pub(crate) fn read_those(
        &mut self,
        batch: &mut Batch,
        mut take: impl FnMut(&Raw, &[u8]) -> rustix::io::Result<Take>,
    ) -> std::io::Result<bool> {
        batch.clear();
        batch.begin(b"", 0);
        let next = &mut self.next;
        let read = batch.read(&self.fd, usize::MAX, |raw, name| {
            *next = raw.next;
            take(raw, name)
        });
        let read = match read {
            // POSIX lets it end; Linux says that it is gone.
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

impl From<OwnedFd> for Reader {
    /// Reads an open directory on from where it stands.
    fn from(fd: OwnedFd) -> Self {
        Self { fd, so_far: 0, next: 0 }
    }
}

impl From<Reader> for OwnedFd {
    fn from(reader: Reader) -> Self {
        reader.fd
    }
}

impl AsFd for Reader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
