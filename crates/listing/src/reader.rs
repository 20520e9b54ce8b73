//! One open directory, read a buffer at a time: the plainest use of this crate.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, OFlags};
use rustix::io::Errno;

use crate::batch::Take;
use crate::open::open_at;
use crate::{Batch, Error, Result, Symlinks};

/// An open directory. Its entries are as the directory has them: a type may be unknown, a name gone by now.
#[derive(Debug)]
pub struct Reader {
    fd: OwnedFd,
    so_far: u64,
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

    /// Reads the next entries into `batch`, in place of what was there; false when there are no more. Each call is one
    /// system call, but for names too long for what is left of the buffer.
    ///
    /// # Errors
    /// The operating system's code. A directory that was removed meanwhile has merely ended.
    pub fn read(&mut self, batch: &mut Batch) -> std::io::Result<bool> {
        batch.clear();
        batch.begin(b"", 0);
        let read = match batch.read(&self.fd, |_, _| Ok(Take::Entry)) {
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
        self.so_far = 0;
        Ok(())
    }
}

impl From<OwnedFd> for Reader {
    /// Reads an open directory on from where it stands.
    fn from(fd: OwnedFd) -> Self {
        Self { fd, so_far: 0 }
    }
}

impl AsFd for Reader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
