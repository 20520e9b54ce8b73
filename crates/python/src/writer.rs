//! `Writer`: an object written from its beginning to its end, by the transfer engine, while the bytes come.
//!
//! Nothing is there before `commit` returns, and then the whole is. Bytes wait in a short queue for the engine's thread,
//! which sends parts as they fill up, so memory is bounded whatever the length.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use firstbyte_location::Location;
use firstbyte_transfer::{Engine, Result, Silent, Summary};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::client::{Client, Place};
use crate::error::failure;
use crate::fork::Own;

/// Pieces that wait: one is sent while the next is made.
const AHEAD: usize = 2;

/// An object on its way.
#[pyclass(frozen, module = "firstbyte._native")]
pub(crate) struct Writer {
    location: Location,
    /// Nothing once it is committed or discarded.
    upload: Mutex<Option<Own<Upload>>>,
}

struct Upload {
    pieces: SyncSender<Piece>,
    thread: JoinHandle<Result<Summary>>,
}

enum Piece {
    Bytes(Vec<u8>),
    End,
}

/// Begins to write `location`.
#[pyfunction]
pub(crate) fn writer(py: Python<'_>, client: &Client, location: Place) -> PyResult<Writer> {
    let Place(location) = location;
    let engine = client.route.uncached(py)?;
    let engine = Engine::new(engine.store().clone(), engine.copies().clone());
    let (pieces, source) = sync_channel(AHEAD);
    let to = location.clone();
    let write = move || {
        let mut source = Pieces { source, piece: Vec::new(), read: 0, ended: false };
        engine.put_stream(&mut source, &to, &Silent)
    };
    let thread = std::thread::Builder::new().name("firstbyte-write".into()).spawn(write)?;
    Ok(Writer { location, upload: Mutex::new(Some(Own::new(Upload { pieces, thread }))) })
}

#[pymethods]
impl Writer {
    /// Adds bytes to the end.
    fn write(&self, py: Python<'_>, content: &Bound<'_, PyBytes>) -> PyResult<()> {
        let pieces = match self.upload().as_ref().map(Own::get) {
            Some(Some(upload)) => upload.pieces.clone(),
            Some(None) => return Err(forked()),
            None => return Err(PyValueError::new_err("I/O operation on closed file")),
        };
        let piece = Piece::Bytes(content.as_bytes().to_vec());
        if py.detach(|| pieces.send(piece)).is_ok() {
            return Ok(());
        }
        // Nobody takes it: the thread has ended, and says why.
        self.finish(py, |_| ())
    }

    /// Waits until the object is there, whole.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.finish(py, |pieces| {
            // A thread that has ended says why when it is joined.
            let _ = pieces.send(Piece::End);
        })
    }

    /// Leaves what was there as it was.
    fn discard(&self, py: Python<'_>) {
        // What it says is that it was cut off.
        let _ = self.finish(py, |_| ());
    }
}

impl Writer {
    /// Tells the thread the last thing and waits for it.
    fn finish(&self, py: Python<'_>, last: impl FnOnce(&SyncSender<Piece>) + Send) -> PyResult<()> {
        let Some(upload) = self.upload().take() else { return Ok(()) };
        let Upload { pieces, thread } = upload.into_inner().ok_or_else(forked)?;
        let done = py.detach(move || {
            last(&pieces);
            drop(pieces);
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        done.map(drop).map_err(|error| failure(py, &error.into(), Some(&self.location)))
    }

    /// Taken only with the interpreter's lock held: see [`crate::fork`].
    fn upload(&self) -> MutexGuard<'_, Option<Own<Upload>>> {
        self.upload.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn forked() -> PyErr {
    PyRuntimeError::new_err("this file was begun to be written before a fork: only the parent can end it")
}

/// The other end of the queue, as the engine reads it.
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
                // Without an end the object would be cut short: it must not come to be.
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
