//! Reads a range of an open file, for [`Body`](super::Body).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use firstbyte_location::{ByteRange, Version, to_usize};
use firstbyte_pacing::SHORTEST_REQUEST;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;

use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::local::removal::is_still;
use crate::local::stat::{self, has_byte_at};
use crate::sink::Sink;
use crate::syscall_refusal::cannot_copy_in_kernel;

/// An open file and the range that remains to be read.
pub(super) struct LocalSource {
    file: File,
    offset: u64,
    /// The end of the range, at which reading stops.
    end: u64,
    /// Offset up to which data is known to follow `offset` without a hole.
    data_end: u64,
    cancel: Cancel,
    /// True once the kernel has refused to copy between these two files.
    is_refused: bool,
}

impl LocalSource {
    pub(super) fn new(file: File, range: ByteRange, cancel: Cancel) -> Self {
        Self { file, offset: range.start, end: range.end, data_end: 0, cancel, is_refused: false }
    }

    pub(super) fn read(&mut self, place: &str, buffer: &mut [u8]) -> Result<usize> {
        self.check_cancelled()?;
        let most = buffer.len().min(to_usize(self.end.saturating_sub(self.offset)));
        let read = self
            .file
            .read_at(&mut buffer[..most], self.offset)
            .map_err(|source| Error::Io { location: place.to_owned(), source })?;
        self.offset += read as u64;
        Ok(read)
    }

    /// Moves up to `most` bytes within the kernel, and recreates holes. Returns `None` if the
    /// kernel cannot copy between these files.
    pub(super) fn copy_to(
        &mut self,
        place: &str,
        sink: &Sink,
        offset: u64,
        most: u64,
    ) -> Option<Result<usize>> {
        if let Err(error) = self.check_cancelled() {
            return Some(Err(error));
        }
        match self.copy_hole(sink, offset, most) {
            Ok(0) => {}
            Ok(count) => return Some(Ok(to_usize(count))),
            Err(source) => return Some(Err(Error::Io { location: place.to_owned(), source })),
        }
        if self.is_refused {
            return None;
        }
        let most = most.min(self.data_end - self.offset).min(self.end.saturating_sub(self.offset));
        // Each step is short: progress and cancellation are checked several times a second.
        let step = to_usize(most.min(SHORTEST_REQUEST));
        let mut to = offset;
        let _lock = sink.lock_writes();
        match rustix::fs::copy_file_range(
            &self.file,
            Some(&mut self.offset),
            sink.file(),
            Some(&mut to),
            step,
        ) {
            Ok(count) if count > 0 => Some(Ok(count)),
            Err(error) if !cannot_copy_in_kernel(error) => {
                Some(Err(Error::Io { location: place.to_owned(), source: error.into() }))
            }
            // The kernel cannot copy between these files; or it returned 0, which means the end, or
            // a pseudo file, which has content but no size. So the bytes are read instead, because
            // a read returns 0 only at the real end.
            _ => {
                self.is_refused = true;
                None
            }
        }
    }

    /// Recreates the hole at the current offset in the destination, and moves the offset behind the
    /// hole. Returns the length of the hole, up to `most`. Returns 0 if there is data at the
    /// offset, or if the hole cannot be recreated; the bytes up to `data_end` must then be copied.
    fn copy_hole(&mut self, sink: &Sink, to: u64, most: u64) -> io::Result<u64> {
        if self.offset < self.data_end {
            return Ok(0);
        }
        let (hole, data_end) = self.extent(most)?;
        // Only a hole within the destination's length can be punched, because punching does not
        // lengthen a file. Some file systems cannot punch holes.
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let is_within = hole > 0 && sink.file().metadata()?.len() >= to + hole;
        let count = if is_within && fallocate(sink.file(), punch, to, hole).is_ok() { hole } else { 0 };
        self.offset += count;
        self.data_end = data_end;
        Ok(count)
    }

    /// Returns the length of the hole at the current offset, and the end of the data after that
    /// hole. Looks no further than `most` bytes. If the file system cannot find holes, everything
    /// is data.
    fn extent(&self, most: u64) -> io::Result<(u64, u64)> {
        let end = self.offset.saturating_add(most);
        let data = match seek(&self.file, SeekFrom::Data(self.offset)) {
            Ok(data) => data.min(end),
            // The rest of the file is a hole. If the file was truncated meanwhile, a read reports
            // the truncation.
            Err(Errno::NXIO) if self.file.metadata()?.len() >= end => end,
            Err(_) => return Ok((0, end)),
        };
        let next = seek(&self.file, SeekFrom::Hole(data)).map_or(end, |next| next.clamp(data, end));
        Ok((data - self.offset, if next > self.offset { next } else { end }))
    }

    /// Checks, after everything was read, that the file has not changed since it was opened and
    /// that its content ends at the stated length.
    pub(super) fn check_end(&self, place: &str, expected: &Version) -> Result<()> {
        self.check_unchanged(place, expected)?;
        match expected.size {
            Some(stated) if self.offset == stated && has_byte_at(&self.file, stated) => {
                Err(Error::FalseLength { location: place.to_owned(), stated })
            }
            _ => Ok(()),
        }
    }

    /// Returns the error for content that ends early: either the file has changed, or its stated
    /// length was never true.
    pub(super) fn ended_early(&self, place: &str, expected: &Version) -> Error {
        let stated = expected.size.unwrap_or_default();
        let false_length = Error::FalseLength { location: place.to_owned(), stated };
        self.check_unchanged(place, expected).err().unwrap_or(false_length)
    }

    fn check_unchanged(&self, place: &str, expected: &Version) -> Result<()> {
        if expected.file.is_none() {
            return Ok(());
        }
        let metadata =
            self.file.metadata().map_err(|source| Error::Io { location: place.to_owned(), source })?;
        let found = stat::version(&metadata);
        if is_still(&found, expected) {
            return Ok(());
        }
        Err(Error::Changed {
            location: place.to_owned(),
            expected: Box::new(expected.clone()),
            found: Box::new(found),
            trace: None,
        })
    }

    fn check_cancelled(&self) -> Result<()> {
        if self.cancel.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }
}
