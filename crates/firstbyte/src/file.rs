//! Defines an open file: one version of an object, with a position for reading.

use std::io::{self, Read, Seek, SeekFrom};
use std::time::Duration;

use firstbyte_hydrate::Handle;
use firstbyte_location::{ByteRange, Location, Version};

use crate::error::{Error, Result};

/// An object opened for reading. Only bytes that are read are fetched, from the nearest place that
/// has them. The file stays at the version that was opened: if the object is overwritten, reads of
/// bytes that are not cached fail as stale.
///
/// ```no_run
/// # fn main() -> firstbyte::Result<()> {
/// # let client = firstbyte::Client::new(firstbyte::ClientOptions::default())?;
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

    /// Returns the location of the object.
    #[must_use]
    pub fn location(&self) -> &Location {
        self.handle.file().location()
    }

    /// Returns the version that was opened.
    #[must_use]
    pub fn version(&self) -> &Version {
        self.handle.file().version()
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.handle.file().size()
    }

    /// Reads into `buffer` from `offset` on. Any number of threads may do this at the same time.
    /// Returns fewer bytes than `buffer` holds only at the end of the object.
    ///
    /// # Errors
    /// There is no response within the deadline, the version no longer exists, or the store returns
    /// an error.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        Ok(self.handle.read_at(buffer, offset)?)
    }

    /// Reads like [`read_at`](Self::read_at). While it waits, it calls `go_on` once every `tick`,
    /// and fails as cancelled if `go_on` returns false. The requested bytes are still fetched, for
    /// the next reader.
    ///
    /// # Errors
    /// The errors of [`read_at`](Self::read_at), and
    /// [`Cancelled`](firstbyte_store::Error::Cancelled).
    pub fn read_at_while(
        &self,
        buffer: &mut [u8],
        offset: u64,
        tick: Duration,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<usize> {
        self.read_expecting(buffer, offset, 0, tick, go_on)
    }

    /// Reads like [`read_at_while`](Self::read_at_while), for a caller that is about to read
    /// `expected` bytes from `offset` on. If they are more than the buffer holds, all of them are
    /// requested at once.
    ///
    /// # Errors
    /// The errors of [`read_at_while`](Self::read_at_while).
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

    /// Reads many ranges in parallel, each given by its offset and its buffer. Neighbouring ranges
    /// share a request. Ranges may overlap, may be empty, and may be in any order. Returns the
    /// number of bytes read into each buffer, which is less than the buffer holds only at the end
    /// of the object.
    ///
    /// ```no_run
    /// # fn main() -> firstbyte::Result<()> {
    /// # let client = firstbyte::Client::new(firstbyte::ClientOptions::default())?;
    /// let file = client.open("s3://bucket/table.parquet")?;
    /// let (mut names, mut ages) = (vec![0; 70_000], vec![0; 9_000]);
    /// file.read_ranges(&mut [(4, &mut names), (1 << 20, &mut ages)])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`read_at`](Self::read_at); some buffers may have been filled.
    pub fn read_ranges(&self, ranges: &mut [(u64, &mut [u8])]) -> Result<Vec<usize>> {
        self.read_ranges_while(ranges, Duration::MAX, &mut || true)
    }

    /// Reads like [`read_ranges`](Self::read_ranges), with the same `tick` and `go_on` as
    /// [`read_at_while`](Self::read_at_while).
    ///
    /// # Errors
    /// The errors of [`read_at_while`](Self::read_at_while).
    pub fn read_ranges_while(
        &self,
        ranges: &mut [(u64, &mut [u8])],
        tick: Duration,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<usize>> {
        Ok(self.handle.read_ranges_while(ranges, tick, go_on)?)
    }

    /// Reads `length` bytes from `offset` on, fewer only at the end of the object, and calls `done`
    /// with them. If the bytes are present, `done` is called before this function returns;
    /// otherwise, the thread that fetches the bytes calls it. `done` must not block.
    pub fn read_then(&self, offset: u64, length: usize, done: impl FnOnce(Result<&[u8]>) + Send + 'static) {
        self.handle.read_then(offset, length, Box::new(move |result| done(result.map_err(Error::from))));
    }

    /// Starts to fetch `ranges`, which will be read soon, and returns at once. The call is a hint:
    /// it makes at most [`MOST_HINTED`](firstbyte_hydrate::MOST_HINTED) requests, and without a
    /// cache it fetches no more than memory holds.
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

/// Computes the position in a file after a seek.
pub(crate) fn position_after(position: u64, size: u64, to: SeekFrom) -> io::Result<u64> {
    let position = match to {
        SeekFrom::Start(offset) => Some(offset),
        SeekFrom::Current(offset) => position.checked_add_signed(offset),
        SeekFrom::End(offset) => size.checked_add_signed(offset),
    };
    position.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a seek to before the beginning"))
}
