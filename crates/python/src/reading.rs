//! Reads one directory in batches. Threads read the next batches while Python processes the current
//! one.
//!
//! The kernel takes longer to read an entry than Python takes to process it, so for a large
//! directory both in parallel take half the time. A small directory would be read before a thread
//! has started: the first two batches are read on the calling thread, and threads start only after
//! them. The threads do not touch Python.

use std::io;

use firstbyte_listing::{AheadDirectory, Batch, DirectoryReader};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::place::DirectoryArgument;

/// The entries of a directory, batch by batch.
pub(crate) struct DirectoryReading {
    source: Source,
    /// The owner of the descriptor. A caller's descriptor is rewound to the start at the end, as
    /// `os` does.
    descriptor: Descriptor,
    /// Memory of the last batch.
    spare: Option<Batch>,
}

/// The owner of the descriptor by which a directory is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Descriptor {
    Ours,
    Shared,
}

enum Source {
    /// Read on the calling thread. The number counts the batches so far.
    Here(DirectoryReader, usize),
    /// Read by threads of the process with this number. A forked child inherits everything except
    /// the threads.
    Ahead(AheadDirectory, u32),
    Done,
}

impl DirectoryReading {
    /// Opens the directory at `place`.
    ///
    /// # Errors
    /// `OSError`, with the directory as its file name.
    pub(crate) fn open(py: Python<'_>, place: &DirectoryArgument) -> PyResult<Self> {
        let descriptor = if place.descriptor().is_some() { Descriptor::Shared } else { Descriptor::Ours };
        Ok(Self { source: Source::Here(place.open(py)?, 0), descriptor, spare: None })
    }

    /// Returns the next entries; `None` after the last. Waits without the interpreter's lock. If
    /// the caller gives back the previous batch as `spent`, reuses its memory.
    ///
    /// # Errors
    /// `OSError`, with `place` as its file name; `RuntimeError` in a child of the process that
    /// began to read.
    pub(crate) fn next(
        &mut self,
        py: Python<'_>,
        place: &DirectoryArgument,
        spent: Option<Batch>,
    ) -> PyResult<Option<Batch>> {
        let next = match &mut self.source {
            Source::Done => return Ok(None),
            Source::Here(reader, batches) => {
                *batches += 1;
                let mut batch = spent.unwrap_or_else(|| Batch::new(AheadDirectory::BUFFER));
                let read = py.detach(|| reader.read(&mut batch));
                if matches!(read, Ok(true)) && *batches > 1 {
                    self.hand_over();
                }
                match read {
                    Ok(true) => Ok(Some(batch)),
                    Ok(false) => {
                        self.spare = Some(batch);
                        Ok(None)
                    }
                    Err(error) => Err(error),
                }
            }
            Source::Ahead(_, process) if *process != std::process::id() => {
                let line = "this directory was begun to be read before a fork: read it anew in the child";
                return Err(PyRuntimeError::new_err(line));
            }
            Source::Ahead(ahead, _) => take(py, ahead, spent),
        };
        if !matches!(next, Ok(Some(_))) {
            self.close(py);
        }
        next.map_err(|error| place.fail(py, &error))
    }

    /// Ends the threads, if there are any. Closes the directory.
    pub(crate) fn close(&mut self, py: Python<'_>) {
        py.detach(|| self.end());
    }

    /// Returns whether there may be more entries to read.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.source, Source::Done)
    }

    /// Returns the memory of the last batch, for another reading.
    pub(crate) fn into_spare(mut self) -> Option<Batch> {
        self.spare.take()
    }

    /// Starts threads that continue the reading. If no thread can be started, the caller continues.
    fn hand_over(&mut self) {
        self.source = match std::mem::replace(&mut self.source, Source::Done) {
            Source::Here(reader, batches) => match AheadDirectory::new(reader) {
                Ok(ahead) => Source::Ahead(ahead, std::process::id()),
                Err(reader) => Source::Here(reader, batches),
            },
            other => other,
        };
    }

    fn end(&mut self) {
        let mut reader = match std::mem::replace(&mut self.source, Source::Done) {
            Source::Done => return,
            Source::Here(reader, _) => reader,
            // A forked child has no threads to wait for, and their channels may be in any state.
            Source::Ahead(ahead, process) if process != std::process::id() => return std::mem::forget(ahead),
            Source::Ahead(ahead, _) => {
                let Some(reader) = ahead.end() else { return };
                reader
            }
        };
        if self.descriptor == Descriptor::Shared {
            // The error is ignored: the descriptor is an open directory, and no caller could react
            // to the error.
            let _ = reader.rewind();
        }
    }
}

impl Drop for DirectoryReading {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns the next batch that was read ahead. Releases the interpreter's lock only if it has to
/// wait.
fn take(py: Python<'_>, ahead: &mut AheadDirectory, spent: Option<Batch>) -> io::Result<Option<Batch>> {
    if let Some(spent) = spent {
        ahead.recycle(spent);
    }
    ahead.ready().unwrap_or_else(|| py.detach(|| ahead.wait()))
}
