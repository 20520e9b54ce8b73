//! A [`Body`](super::Body) whose bytes are a range of an open file.

use std::fs::File;
use std::os::unix::fs::FileExt;

use firstbyte_location::{Version, to_usize};
use firstbyte_pacing::SHORTEST_REQUEST;
use rustix::io::Errno;

use crate::{Cancel, Error, Result, Sink};

/// An open file and the range left to read.
pub(super) struct LocalSource {
    file: File,
    offset: u64,
    cancel: Cancel,
    /// True if the kernel refused to copy between these two files.
    refused: bool,
}

impl LocalSource {
    pub(super) fn new(file: File, offset: u64, cancel: Cancel) -> Self {
        Self { file, offset, cancel, refused: false }
    }

    pub(super) fn read(&mut self, place: &str, buffer: &mut [u8]) -> Result<usize> {
        self.check_cancelled()?;
        let read = self
            .file
            .read_at(buffer, self.offset)
            .map_err(|source| Error::Io { location: place.to_owned(), source })?;
        self.offset += read as u64;
        Ok(read)
    }

    /// Moves up to `most` bytes within the kernel. Returns `None` if the kernel does not support
    /// that.
    pub(super) fn copy_to(
        &mut self,
        place: &str,
        sink: &Sink,
        offset: u64,
        most: u64,
    ) -> Option<Result<usize>> {
        if self.refused {
            return None;
        }
        if let Err(error) = self.check_cancelled() {
            return Some(Err(error));
        }
        // Progress is reported and cancellation checked several times a second.
        let step = to_usize(most.min(SHORTEST_REQUEST));
        let mut to = offset;
        let _turn = sink.turn();
        match rustix::fs::copy_file_range(
            &self.file,
            Some(&mut self.offset),
            sink.file(),
            Some(&mut to),
            step,
        ) {
            Ok(count) if count > 0 => Some(Ok(count)),
            // The kernel also returns 0 for pseudo files that have content but no size: confirm the
            // end by reading.
            Ok(_)
            | Err(
                Errno::XDEV
                | Errno::INVAL
                | Errno::NOSYS
                | Errno::OPNOTSUPP
                | Errno::BADF
                | Errno::PERM
                | Errno::TXTBSY,
            ) => {
                self.refused = true;
                None
            }
            Err(error) => Some(Err(Error::Io { location: place.to_owned(), source: error.into() })),
        }
    }

    /// Checks at the end that the file has not changed since it was opened.
    pub(super) fn check_unchanged(&self, place: &str, expected: &Version) -> Result<()> {
        let Some(identity) = &expected.file else { return Ok(()) };
        let metadata =
            self.file.metadata().map_err(|source| Error::Io { location: place.to_owned(), source })?;
        let found = crate::local::version(&metadata);
        if found.file.as_ref() == Some(identity) && found.size == expected.size {
            return Ok(());
        }
        Err(Error::Changed {
            location: place.to_owned(),
            expected: Box::new(expected.clone()),
            found: Box::new(found),
        })
    }

    fn check_cancelled(&self) -> Result<()> {
        if self.cancel.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }
}
