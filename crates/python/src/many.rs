//! `read_many`: reads objects and ranges of objects in parallel, and returns them in order.
//!
//! Each is one request. Threads read ahead of the caller as long as what waits for it, and what is
//! under way, stays below the memory ceiling. The length of an object is not known before its
//! answer, so a request is sent if the largest length so far would fit, and its body is read once
//! the announced length fits. Objects get their room in the order in which the caller takes them,
//! so none waits for room that a later one holds; one that is larger than the ceiling is read
//! alone. The threads never use Python.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firstbyte_location::{ByteRange, Location, to_usize};
use firstbyte_store::{Cancel, Get, Hasher, Result, STACK, Store};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::client::{Client, Place};
use crate::error::failure;
use crate::fork::Own;
use crate::wait::{self, TICK};

/// What the first objects are assumed to have, in bytes.
const ASSUMED: u64 = 1 << 20;
/// A body is given so much memory at a time, whatever length the server claims.
const STEP: usize = 16 << 20;
/// The pause before the second attempt; it doubles with each.
const PAUSE: Duration = Duration::from_millis(100);

/// Objects in order, read ahead while they are taken.
#[pyclass(frozen, module = "firstbyte._native")]
pub(crate) struct Objects {
    reading: Own<Arc<Reading>>,
}

/// Begins to read objects, each whole or the range beside it (offset and length), by so many
/// threads.
#[pyfunction]
pub(crate) fn read_many(
    py: Python<'_>,
    client: &Client,
    wanted: Vec<(Place, Option<(i64, i64)>)>,
    concurrency: usize,
) -> PyResult<Objects> {
    if concurrency == 0 {
        return Err(PyValueError::new_err("concurrency should be at least 1, not 0"));
    }
    let engine = client.route.uncached(py)?;
    let range = |(offset, length): (i64, i64)| match (u64::try_from(offset), u64::try_from(length)) {
        (Ok(offset), Ok(length)) => Ok(ByteRange::at(offset, length)),
        _ => Err(PyValueError::new_err(format!(
            "offsets and lengths are counted from 0: ({offset}, {length})"
        ))),
    };
    let wanted = wanted
        .into_iter()
        .map(|(place, part)| Ok(Wanted { location: place.0, range: part.map(range).transpose()? }))
        .collect::<PyResult<Vec<_>>>()?;
    let threads = concurrency.min(wanted.len());
    let cancel = Cancel::new();
    let state = State { largest: ASSUMED, ..State::default() };
    let reading = Arc::new(Reading {
        wanted,
        store: engine.store().scoped(&cancel),
        cancel,
        retries: engine.copies().retries,
        memory: engine.copies().memory,
        state: Mutex::new(state),
        arrived: Condvar::new(),
        room: Condvar::new(),
        turns: Condvar::new(),
    });
    let objects = Objects { reading: Own::new(Arc::clone(&reading)) };
    for _ in 0..threads {
        let reading = Arc::clone(&reading);
        let thread = std::thread::Builder::new().name("firstbyte-many".into()).stack_size(STACK);
        thread.spawn(move || reading.work())?;
    }
    Ok(objects)
}

#[pymethods]
impl Objects {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let reading = self.reading.get().ok_or_else(|| {
            PyRuntimeError::new_err("these objects were begun to be read before a fork: begin in the child")
        })?;
        loop {
            match py.detach(|| reading.take()) {
                Taken::Object(_, Ok(content)) => return Ok(Some(PyBytes::new(py, &content))),
                Taken::Object(index, Err(error)) => {
                    reading.end();
                    return Err(failure(py, &error.into(), Some(&reading.wanted[index].location)));
                }
                Taken::Over => return Ok(None),
                Taken::Later => wait::check(py).inspect_err(|_| reading.end())?,
            }
        }
    }

    /// Ends the requests under way. Nothing more is given out.
    fn close(&self) {
        if let Some(reading) = self.reading.get() {
            reading.end();
        }
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        self.close();
    }
}

struct Wanted {
    location: Location,
    range: Option<ByteRange>,
}

/// What the caller and the threads share.
struct Reading {
    wanted: Vec<Wanted>,
    store: Store,
    cancel: Cancel,
    retries: u32,
    memory: u64,
    state: Mutex<State>,
    /// Signalled when the object that is due has arrived, and at the end.
    arrived: Condvar,
    /// Signalled to one thread when there may be room, and passed on by each that has found some.
    room: Condvar,
    /// Signalled when an object may have its turn to get room.
    turns: Condvar,
}

#[derive(Default)]
struct State {
    /// The first object that no thread has begun.
    next: usize,
    /// The first object that has no room yet.
    turn: usize,
    /// The object that the caller gets next.
    due: usize,
    /// Bytes assumed for objects that were begun and have no room yet.
    assumed: u64,
    /// Bytes of the objects that have room: under way, or waiting for the caller.
    held: u64,
    /// Length of the largest object so far.
    largest: u64,
    /// What has arrived, each with its room.
    ready: BTreeMap<usize, (u64, Result<Vec<u8>>)>,
    ended: bool,
}

/// The bytes that an object under way counts for.
enum Room {
    /// Its answer has not come.
    Assumed(u64),
    Held(u64),
}

/// What the caller gets.
enum Taken {
    Object(usize, Result<Vec<u8>>),
    Over,
    /// It has not arrived yet.
    Later,
}

impl Reading {
    /// Reads one object after the other until none is left.
    fn work(&self) {
        while let Some((index, assumed)) = self.begin() {
            let mut room = Room::Assumed(assumed);
            let read = self.read(index, &mut room);
            // An object that failed before its answer passes its turn on.
            let room = self.admit(index, &mut room, 0);
            let mut state = self.lock();
            state.ready.insert(index, (room, read));
            if index == state.due {
                self.arrived.notify_all();
            }
        }
    }

    /// Waits until an object of this length has room, once it is its turn. Returns its room: what
    /// it got before, if that was more.
    fn admit(&self, index: usize, room: &mut Room, length: u64) -> u64 {
        let mut state = self.lock();
        let had = match *room {
            Room::Assumed(_) => 0,
            Room::Held(bytes) => bytes,
        };
        let more = length.saturating_sub(had);
        let is_first = matches!(room, Room::Assumed(_));
        let has_room = |state: &State| {
            let others = state.held - had;
            others == 0 || others.saturating_add(length) <= self.memory
        };
        while is_first && !state.ended && !(state.turn == index && has_room(&state)) {
            state = self.turns.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if let Room::Assumed(assumed) = *room {
            state.assumed -= assumed;
            state.turn = state.turn.max(index + 1);
        }
        state.held += more;
        state.largest = state.largest.max(length);
        *room = Room::Held(had + more);
        self.turns.notify_all();
        self.room.notify_one();
        had + more
    }

    /// The next object to read, once there is room for it, and the length that is assumed.
    fn begin(&self) -> Option<(usize, u64)> {
        let mut state = self.lock();
        loop {
            if state.ended {
                return None;
            }
            let Some(wanted) = self.wanted.get(state.next) else {
                self.room.notify_one();
                return None;
            };
            let assumed = wanted.range.map_or(state.largest, |range| range.len());
            let all = state.held.saturating_add(state.assumed).saturating_add(assumed);
            if state.next == state.due || all <= self.memory {
                state.assumed += assumed;
                state.next += 1;
                self.room.notify_one();
                return Some((state.next - 1, assumed));
            }
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The object that is due, if it arrives within a tick.
    fn take(&self) -> Taken {
        let is_awaited = |state: &mut State| {
            !state.ended && state.due < self.wanted.len() && !state.ready.contains_key(&state.due)
        };
        let waited = self.arrived.wait_timeout_while(self.lock(), TICK, is_awaited);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let index = state.due;
        if state.ended || index == self.wanted.len() {
            return Taken::Over;
        }
        let Some((room, read)) = state.ready.remove(&index) else { return Taken::Later };
        state.held -= room;
        state.due += 1;
        self.turns.notify_all();
        self.room.notify_one();
        if state.ready.contains_key(&state.due) {
            // For another thread that takes from the same iterator.
            self.arrived.notify_all();
        }
        Taken::Object(index, read)
    }

    fn end(&self) {
        self.lock().ended = true;
        self.cancel.cancel();
        self.arrived.notify_all();
        self.turns.notify_all();
        self.room.notify_all();
    }

    /// Reads one, again if an attempt fails in passing. Each attempt is one answer, so no bytes of
    /// two versions are mixed.
    fn read(&self, index: usize, room: &mut Room) -> Result<Vec<u8>> {
        let mut failures = 0;
        loop {
            match self.attempt(index, room) {
                Err(error) if error.is_transient() && failures < self.retries => {
                    let pause = PAUSE * 2_u32.pow(failures.min(6));
                    failures += 1;
                    let waited = self.arrived.wait_timeout_while(self.lock(), pause, |state| !state.ended);
                    if waited.unwrap_or_else(PoisonError::into_inner).0.ended {
                        return Err(error);
                    }
                }
                result => return result,
            }
        }
    }

    fn attempt(&self, index: usize, room: &mut Room) -> Result<Vec<u8>> {
        let Wanted { location, range } = &self.wanted[index];
        if range.is_some_and(|range| range.is_empty()) {
            return Ok(Vec::new());
        }
        let get = Get { range: *range, checksum: range.is_none(), ..Get::default() };
        let mut body = self.store.get(location, &get)?;
        let expected = body.stat().checksum.clone().filter(|_| range.is_none());
        let length = to_usize(body.range().len());
        self.admit(index, room, length as u64);
        let mut content = Vec::new();
        let mut read = 0;
        while read < length {
            if read == content.len() {
                let step = length.min(read.saturating_add(STEP)) - read;
                // Not twice as much each time.
                content.reserve_exact(step);
                content.resize(read + step, 0);
            }
            match body.read(&mut content[read..])? {
                0 => break,
                more => read += more,
            }
        }
        content.truncate(read);
        if let Some(expected) = expected {
            let mut hasher = Hasher::new(expected.algorithm);
            hasher.update(&content);
            expected.verify(&hasher.finish(), location)?;
        }
        Ok(content)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
