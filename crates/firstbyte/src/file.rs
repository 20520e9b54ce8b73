//! `LazyFile`: one version of an object, opened for reading, with a position.

use std::io::{self, Read, Seek, SeekFrom};
use std::time::Duration;

use firstbyte_hydrate::Handle;
use firstbyte_location::{Location, Version};

use crate::Result;

/// An object opened for reading: only what is read is fetched, from where it is nearest. It stays
/// the version it was opened as; where that is overwritten meanwhile, reads of what is not cached
/// yet fail as stale.
///
/// ```no_run
/// # fn main() -> firstbyte::Result<()> {
/// # let client = firstbyte::Client::new(firstbyte::Options::default())?;
/// let file = client.open("s3://bucket/big.bam")?;
/// std::thread::scope(|scope| {
///     for part in 0..16 {
///         let file = &file;
///         scope.spawn(move || file.read_at(&mut [0; 4096], part << 30));
///     }
/// });
/// # Ok(())
/// # }
/// ```
pub struct LazyFile {
    handle: Handle,
    position: u64,
}

impl LazyFile {
    pub(crate) fn new(handle: Handle) -> Self {
        Self { handle, position: 0 }
    }

    /// Its location.
    #[must_use]
    pub fn location(&self) -> &Location {
        self.handle.file().location()
    }

    /// The version it is.
    #[must_use]
    pub fn version(&self) -> &Version {
        self.handle.file().version()
    }

    /// Length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.handle.file().size()
    }

    /// Reads into `buffer` from `offset` on, from any number of threads at once; fewer bytes than
    /// asked only at the end.
    ///
    /// # Errors
    /// No answer within the deadline, a version that is gone, and what the store says.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        Ok(self.handle.read_at(buffer, offset)?)
    }

    /// As [`read_at`](Self::read_at), but while it waits it calls `go_on` once every `tick`, and
    /// fails as cancelled if that returns false. The requested bytes are fetched all the same, for
    /// the next reader.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at), and [`Cancelled`](firstbyte_store::Error::Cancelled).
    pub fn read_at_while(
        &self,
        buffer: &mut [u8],
        offset: u64,
        tick: Duration,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<usize> {
        Ok(self.handle.read_at_while(buffer, offset, tick, go_on)?)
    }
}

impl Read for LazyFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.read_at(buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for LazyFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
            SeekFrom::End(offset) => self.size().checked_add_signed(offset),
        };
        self.position = position
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a seek to before the beginning"))?;
        Ok(self.position)
    }
}
