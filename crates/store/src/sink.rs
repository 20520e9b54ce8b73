//! A file that several bodies are written into at once, each at its own offset.
//!
//! The kernel lets one buffered write at a time into a file, and threads that wait for the file's lock spin while its
//! owner copies: twelve workers on two cores lost a fifth of their processor time that way, which the server on the
//! same machine, or the rest of the job, needs more. So writers queue here, asleep, before they enter the kernel.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file for positioned writes from many threads.
#[derive(Debug)]
pub struct Sink {
    file: File,
    turn: Mutex<()>,
}

impl Sink {
    /// Writes go into `file`.
    #[must_use]
    pub fn new(file: File) -> Self {
        Self { file, turn: Mutex::new(()) }
    }

    /// The file itself, to read it or to change its length.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// Those of `pwrite(2)`; some of the bytes may have been written then.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let _turn = self.turn();
        self.file.write_all_at(bytes, offset)
    }

    /// Waits until no other thread writes; nobody else does while the guard lives.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        // The lock guards no data a panicking writer could have left half-changed.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
