//! One directory in batches, the next ones read by a thread while Python works on this one.
//!
//! The kernel takes about as long to bring an entry as Python to look at it, so a large directory takes half the time
//! when both go on at once. A small one is over before a thread would have started: the first two batches are read
//! here, and only if there were two does a thread take over.
//!
//! The thread touches no Python, ends with the directory or with the [`Reading`], and is waited for, so that its
//! descriptor is closed when the caller may count on it.

use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::thread::JoinHandle;

use firstbyte_listing::{Batch, Reader};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::place::Place;

/// Some 2,000 entries of usual names: what stays in a core's cache until Python has seen it.
const BUFFER: usize = 64 << 10;
/// Batches read before they are asked for: enough to ride out a pause of either side.
const AHEAD: usize = 4;

/// The entries of a directory, batch by batch.
pub(crate) struct Reading {
    source: Source,
    /// A caller's descriptor is left at its start, as `os` leaves it.
    descriptor: Descriptor,
    /// The last batch's memory.
    spare: Option<Batch>,
}

/// Whose descriptor a directory is read by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Descriptor {
    Ours,
    Shared,
}

enum Source {
    /// Read here, so many batches up to now.
    Here(Reader, usize),
    Thread(Thread),
    Done,
}

struct Thread {
    full: Receiver<io::Result<Batch>>,
    spent: Sender<Batch>,
    worker: JoinHandle<Reader>,
    /// A child of this process inherits all of this but the thread.
    process: u32,
}

impl Reading {
    /// Opens the directory at `place`.
    ///
    /// # Errors
    /// `OSError`, naming the place.
    pub(crate) fn open(py: Python<'_>, place: &Place) -> PyResult<Self> {
        let descriptor = if place.descriptor().is_some() { Descriptor::Shared } else { Descriptor::Ours };
        Ok(Self { source: Source::Here(place.open(py)?, 0), descriptor, spare: None })
    }

    /// The next entries, or nothing when there are no more. Waits without the interpreter's lock. The memory of the
    /// batch before, if given back, is used again.
    ///
    /// # Errors
    /// `OSError`, naming `place`; `RuntimeError` in a child of the process that began to read.
    pub(crate) fn next(
        &mut self,
        py: Python<'_>,
        place: &Place,
        spent: Option<Batch>,
    ) -> PyResult<Option<Batch>> {
        let next = match &mut self.source {
            Source::Done => return Ok(None),
            Source::Here(reader, batches) => {
                *batches += 1;
                let mut batch = spent.unwrap_or_else(|| Batch::new(BUFFER));
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
            Source::Thread(thread) => {
                if thread.process != std::process::id() {
                    let line = "this directory was begun to be read before a fork: read it anew in the child";
                    return Err(PyRuntimeError::new_err(line));
                }
                thread.next(py, spent)
            }
        };
        if !matches!(next, Ok(Some(_))) {
            self.close(py);
        }
        next.map_err(|error| place.fail(py, &error))
    }

    /// Ends the thread, if there is one, and closes the directory.
    pub(crate) fn close(&mut self, py: Python<'_>) {
        py.detach(|| self.end());
    }

    /// Whether there may be more to read.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.source, Source::Done)
    }

    /// The memory that was used here, for another reading.
    pub(crate) fn into_spare(mut self) -> Option<Batch> {
        self.spare.take()
    }

    /// Lets a thread read on; where none can be had, reading goes on here.
    fn hand_over(&mut self) {
        let (fill, full) = sync_channel(AHEAD);
        let (spent, empty) = channel();
        let (give, take) = channel();
        let reading = move || {
            let reader = take.recv().expect("the reader is sent once the thread is there");
            read(reader, &fill, &empty)
        };
        let Ok(worker) = std::thread::Builder::new().name("firstbyte-read".into()).spawn(reading) else {
            return;
        };
        let process = std::process::id();
        if let Source::Here(reader, _) = std::mem::replace(&mut self.source, Source::Done) {
            give.send(reader).expect("the thread waits for it");
            self.source = Source::Thread(Thread { full, spent, worker, process });
        }
    }

    fn end(&mut self) {
        let mut reader = match std::mem::replace(&mut self.source, Source::Done) {
            Source::Done => return,
            Source::Here(reader, _) => reader,
            // In a child there is no thread to wait for, and its channels are in whatever state they were.
            Source::Thread(thread) if thread.process != std::process::id() => {
                return std::mem::forget(thread);
            }
            Source::Thread(thread) => {
                // With nobody to take its batches the thread ends after the one it reads.
                drop(thread.full);
                drop(thread.spent);
                let Ok(reader) = thread.worker.join() else { return };
                reader
            }
        };
        if self.descriptor == Descriptor::Shared {
            // It was open and a directory; that it cannot be set back is nothing anybody could act on.
            let _ = reader.rewind();
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.end();
    }
}

impl Thread {
    fn next(&mut self, py: Python<'_>, spent: Option<Batch>) -> io::Result<Option<Batch>> {
        if let Some(spent) = spent {
            // A thread that has ended needs no memory.
            let _ = self.spent.send(spent);
        }
        let next = match self.full.try_recv() {
            Ok(next) => Some(next),
            // Nothing is sent after the end.
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => {
                let full = &mut self.full;
                py.detach(move || full.recv().ok())
            }
        };
        next.transpose()
    }
}

/// The thread: fills batches until the directory ends, fails, or nobody takes them any more.
fn read(mut reader: Reader, full: &SyncSender<io::Result<Batch>>, empty: &Receiver<Batch>) -> Reader {
    loop {
        let mut batch = empty.try_recv().unwrap_or_else(|_| Batch::new(BUFFER));
        match reader.read(&mut batch) {
            Ok(true) if full.send(Ok(batch)).is_ok() => {}
            Ok(_) => return reader,
            Err(error) => {
                let _ = full.send(Err(error));
                return reader;
            }
        }
    }
}
