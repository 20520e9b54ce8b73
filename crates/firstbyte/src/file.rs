//! `LazyFile`: one version of an object, opened for reading, with a position.

use std::io::{self, Read, Seek, SeekFrom};
use std::time::Duration;

use firstbyte_hydrate::Handle;
use firstbyte_location::{ByteRange, Location, Version};

use crate::error::{Error, Result};

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
        self.read_expecting(buffer, offset, 0, tick, go_on)
    }

    /// As [`read_at_while`](Self::read_at_while), of a caller that is about to read `expected`
    /// bytes from `offset`: if they are more than the buffer holds, all are requested at once.
    ///
    /// # Errors
    /// As [`read_at_while`](Self::read_at_while).
    pub fn read_expecting(
        &self,
        buffer: &mut [u8],
        offset: u64,
        expected: usize,
        tick: Duration,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<usize> {
        Ok(self.handle.read_at_while(buffer, offset, expected, tick, go_on)?)
    }

    /// Reads many ranges at once, each an offset and the buffer for it: in parallel, neighbours by
    /// one request. Ranges may overlap, be empty, and be in any order. Returns the bytes of each,
    /// fewer than its buffer holds only at the end.
    ///
    /// ```no_run
    /// # fn main() -> firstbyte::Result<()> {
    /// # let client = firstbyte::Client::new(firstbyte::Options::default())?;
    /// let file = client.open("s3://bucket/table.parquet")?;
    /// let (mut names, mut ages) = (vec![0; 70_000], vec![0; 9_000]);
    /// file.read_ranges(&mut [(4, &mut names), (1 << 20, &mut ages)])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at); some buffers may have been filled.
    pub fn read_ranges(&self, ranges: &mut [(u64, &mut [u8])]) -> Result<Vec<usize>> {
        self.read_ranges_while(ranges, Duration::MAX, &mut || true)
    }

    /// As [`read_ranges`](Self::read_ranges), with the `tick` and `go_on` of
    /// [`read_at_while`](Self::read_at_while).
    ///
    /// # Errors
    /// As [`read_at_while`](Self::read_at_while).
    pub fn read_ranges_while(
        &self,
        ranges: &mut [(u64, &mut [u8])],
        tick: Duration,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<usize>> {
        Ok(self.handle.read_ranges_while(ranges, tick, go_on)?)
    }

    /// Reads `length` bytes from `offset` and calls `done` with them: at once if they are present,
    /// else from the thread that fetched them, which must not wait. Fewer only at the end.
    pub fn read_then(&self, offset: u64, length: usize, done: impl FnOnce(Result<&[u8]>) + Send + 'static) {
        self.handle.read_then(offset, length, Box::new(move |result| done(result.map_err(Error::from))));
    }

    /// Begins to fetch `ranges`, which will be read soon, and returns at once. It is a hint: at
    /// most [`MOST_HINTED`](firstbyte_hydrate::MOST_HINTED) requests are made for it and, without
    /// a cache, only what memory holds is fetched.
    pub fn prefetch(&self, ranges: &[ByteRange]) {
        self.handle.prefetch(ranges);
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
        self.position = position_after(self.position, self.size(), to)?;
        Ok(self.position)
    }
}

/// The position of a file after a seek.
pub(crate) fn position_after(position: u64, size: u64, to: SeekFrom) -> io::Result<u64> {
    let position = match to {
        SeekFrom::Start(offset) => Some(offset),
        SeekFrom::Current(offset) => position.checked_add_signed(offset),
        SeekFrom::End(offset) => size.checked_add_signed(offset),
    };
    position.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a seek to before the beginning"))
}
