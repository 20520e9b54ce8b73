//! Defines `PyWriter`, which writes an object as its bytes arrive, from beginning to end, by the
//! transfer engine.
//!
//! The object appears, complete, when `commit` returns. Bytes wait in a short queue for the
//! engine's thread, which sends parts as they fill up, so memory is bounded.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use firstbyte_location::Location;
use firstbyte_store::Precondition;
use firstbyte_transfer::{NoObserver, Result, Stop, Summary, TransferSettings};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix_futex_sync::Mutex;

use crate::arguments::{LocationArgument, in_any_directory};
use crate::client::PyClient;
use crate::error::failure;
use crate::fork::ProcessOwned;
use crate::wait::{STOP_TIMEOUT, interruptible};

/// Maximum number of pieces that wait: one is sent while the next is made.
const MAX_WAITING_PIECES: usize = 2;
/// Interval at which a thread that was asked to stop is polled. Usually it ends at once.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// An object that is being written.
#[pyclass(frozen, module = "firstbyte._native", name = "Writer")]
pub(crate) struct PyWriter {
    location: Location,
    /// Locked only while the interpreter's lock is held: see [`crate::fork`].
    state: Mutex<WriterState>,
}

enum WriterState {
    Open(ProcessOwned<Upload>),
    /// Committed or discarded.
    Over,
    /// The write failed, or its caller was interrupted, before the object was complete.
    Broken,
}

struct Upload {
    pieces: SyncSender<Piece>,
    thread: JoinHandle<Result<Summary>>,
    stop: Stop,
}

enum Piece {
    Bytes(Vec<u8>),
    End,
}

/// Begins to write `location`. With `exclusive`, the commit succeeds only if the object does not
/// exist.
#[pyfunction]
pub(crate) fn writer(
    py: Python<'_>,
    client: &PyClient,
    location: LocationArgument,
    exclusive: bool,
) -> PyResult<PyWriter> {
    let LocationArgument(location) = location;
    // The name is checked now, instead of when the first part is sent.
    refuse_directory(&location).map_err(|error| failure(py, &error, Some(&location)))?;
    let engine = client.route.uncached_client(py)?;
    let stop = Stop::default();
    let precondition = if exclusive { Precondition::Absent } else { Precondition::None };
    let settings = TransferSettings { stop: stop.clone(), precondition, ..engine.copies().clone() };
    let engine = engine.transfers(settings);
    let (pieces, source) = sync_channel(MAX_WAITING_PIECES);
    let to = in_any_directory(&location);
    let write = move || {
        let mut source = Pieces { source, piece: Vec::new(), read: 0, ended: false };
        engine.put_stream(&mut source, &to, &NoObserver)
    };
    let thread = std::thread::Builder::new().name("firstbyte-write".into()).spawn(write)?;
    Ok(PyWriter {
        location,
        state: Mutex::new(WriterState::Open(ProcessOwned::new(Upload { pieces, thread, stop }))),
    })
}

/// Refuses a location that cannot be one of an object or file.
fn refuse_directory(location: &Location) -> firstbyte::Result<()> {
    firstbyte_store::require_key(location)?;
    match location.as_local() {
        Some(path) if location.is_directory_like() || path.is_dir() => {
            Err(firstbyte::Error::Directory { location: location.to_string() })
        }
        _ => Ok(()),
    }
}

#[pymethods]
impl PyWriter {
    /// Adds bytes to the end.
    fn write(&self, py: Python<'_>, content: &Bound<'_, PyBytes>) -> PyResult<()> {
        let (pieces, stop) = match &*self.state.lock() {
            WriterState::Open(upload) => {
                let upload = upload.get().ok_or_else(forked_error)?;
                (upload.pieces.clone(), upload.stop.clone())
            }
            WriterState::Over => return Err(PyValueError::new_err("I/O operation on closed file")),
            WriterState::Broken => return Err(broken_error()),
        };
        let sent = match pieces.try_send(Piece::Bytes(content.as_bytes().to_vec())) {
            Ok(()) => true,
            Err(TrySendError::Disconnected(_)) => false,
            Err(TrySendError::Full(piece)) => {
                interruptible(py, || stop.stop(), move || pieces.send(piece).is_ok())
                    .inspect_err(|_| self.give_up(py, WriterState::Broken))?
            }
        };
        // If the thread takes no more pieces, it has ended. Its result is the error.
        if sent { Ok(()) } else { self.finish(py, LastMessage::Nothing) }
    }

    /// Waits until the object is complete.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.finish(py, LastMessage::End)
    }

    /// Discards the bytes. An existing object is kept.
    fn discard(&self, py: Python<'_>) {
        self.give_up(py, WriterState::Over);
    }
}

/// The last message to the thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastMessage {
    /// The end of the object.
    End,
    Nothing,
}

impl PyWriter {
    /// Sends the thread the last message and waits until the thread ends.
    fn finish(&self, py: Python<'_>, last: LastMessage) -> PyResult<()> {
        let state = std::mem::replace(&mut *self.state.lock(), WriterState::Broken);
        let upload = match state {
            WriterState::Open(upload) => upload,
            WriterState::Over => {
                *self.state.lock() = WriterState::Over;
                return Ok(());
            }
            WriterState::Broken => return Err(broken_error()),
        };
        let Upload { pieces, thread, stop } = upload.into_inner().ok_or_else(forked_error)?;
        let end = move || {
            if last == LastMessage::End {
                // If the thread has ended, its result is the error.
                let _ = pieces.send(Piece::End);
            }
            drop(pieces);
            thread.join()
        };
        let done =
            interruptible(py, || stop.stop(), end)?.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        done.map_err(|error| failure(py, &error.into(), Some(&self.location)))?;
        *self.state.lock() = WriterState::Over;
        Ok(())
    }

    /// Ends the upload without making an object. Abandons the thread if it does not end soon.
    fn give_up(&self, py: Python<'_>, state: WriterState) {
        let upload = {
            let mut slot = self.state.lock();
            // A writer that is committed, discarded or broken keeps its state.
            let WriterState::Open(_) = *slot else { return };
            std::mem::replace(&mut *slot, state)
        };
        let WriterState::Open(upload) = upload else { return };
        let Some(Upload { pieces, thread, stop }) = upload.into_inner() else { return };
        stop.stop();
        drop(pieces);
        let until = Instant::now() + STOP_TIMEOUT;
        py.detach(|| {
            while !thread.is_finished() && Instant::now() < until {
                std::thread::sleep(STOP_POLL_INTERVAL);
            }
        });
    }
}

fn forked_error() -> PyErr {
    PyRuntimeError::new_err("this file was begun to be written before a fork: only the parent can end it")
}

fn broken_error() -> PyErr {
    PyValueError::new_err(
        "writing this file failed or was interrupted: what was there before is unchanged; write it anew",
    )
}

/// The receiving end of the queue, which the engine reads.
struct Pieces {
    source: Receiver<Piece>,
    piece: Vec<u8>,
    read: usize,
    ended: bool,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.read == self.piece.len() && !self.ended {
            match self.source.recv() {
                Ok(Piece::Bytes(piece)) => (self.piece, self.read) = (piece, 0),
                Ok(Piece::End) => self.ended = true,
                // Without an end message the object would be cut short, so it must not appear.
                Err(_) => return Err(io::Error::other("the writer was discarded")),
            }
        }
        let rest = &self.piece[self.read..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.read += count;
        Ok(count)
    }
}
