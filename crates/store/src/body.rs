//! The bytes of one answer, on their way to the caller.

use std::fs::File;

use firstbyte_location::ByteRange;

use crate::{Result, Stat};

/// An open answer to a [`Store::get`](crate::Store::get). Dropping it gives the connection back if every byte was read.
pub struct Body {}

impl Body {
    /// The object, as far as this answer's head tells.
    pub fn stat(&self) -> &Stat { panic!() }

    /// The bytes this answer carries. Where the server told no length, the end is `u64::MAX`.
    pub fn range(&self) -> ByteRange { panic!() }

    /// Reads into `buffer`; 0 only at the proper end.
    ///
    /// # Errors
    /// [`Truncated`](crate::Error::Truncated), [`Disconnected`](crate::Error::Disconnected), [`TimedOut`](crate::Error::TimedOut), [`Cancelled`](crate::Error::Cancelled).
    pub fn read(&mut self, _buffer: &mut [u8]) -> Result<usize> { panic!() }

    /// Moves the next bytes, `limit` at the most or to the end, into `file` from `offset` on; returns how many. With no `observe` they may never enter
    /// this process (splice, copy_file_range); with it every piece is shown once, in order, after it was written.
    /// `scratch` is used where bytes do pass through. `progress` is called with each count of bytes written; what it was told is in the file even if an error follows.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`Io`](crate::Error::Io) for the file.
    pub fn write_to(&mut self, _file: &File, _offset: u64, _limit: u64, _scratch: &mut [u8], _observe: Option<&mut dyn FnMut(&[u8])>, _progress: &mut dyn FnMut(u64)) -> Result<u64> { panic!() }
}
