//! Implements `read_many`, which reads objects and ranges of objects in parallel, and returns them
//! in order.
//!
//! Each object is one request. Threads read ahead of the caller as long as the waiting and arriving
//! objects stay below the memory ceiling. The length of an object is not known before its response.
//! So a request is sent if the largest length so far would fit, and its body is read once the
//! announced length fits. Objects get memory in the order in which the caller takes them, so no
//! object waits for memory that a later object holds. An object that is larger than the ceiling is
//! read alone. A failed request is repeated by the rules of `firstbyte_fetch`. The threads never
//! use Python.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use firstbyte_fetch::{Attempt, Interest, RequestEnd, RequestEvent, TrackerSlot, Tries};
use firstbyte_location::{ByteRange, Location, Strength, Version, to_usize};
use firstbyte_pacing::{RequestTracker, Throttle, Wait};
use firstbyte_store::{Body, Cancel, Error as StoreError, Get, Hasher, Outages, Result, STACK, Stat, Store};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix_futex_sync::{Condvar, Mutex};

use crate::arguments::{LocationArgument, in_any_directory, number};
use crate::client::PyClient;
use crate::error::failure;
use crate::fork::ProcessOwned;
use crate::wait::{self, SIGNAL_CHECK_INTERVAL};

/// Assumed length of the first objects, in bytes.
const ASSUMED_LENGTH: u64 = 1 << 20;
/// Maximum step in bytes by which the buffer of a body grows, whatever length the server claims.
const MAX_GROWTH_BYTES: usize = 16 << 20;

/// Objects in order, read ahead of the caller, who takes them one by one.
#[pyclass(frozen, module = "firstbyte._native", name = "Objects")]
pub(crate) struct PyObjects {
    reading: ProcessOwned<Arc<Reading>>,
}

/// Begins to read objects with `concurrency` threads. Each object is paired with a range (offset
/// and length), or with `None` to read it completely.
#[pyfunction]
pub(crate) fn read_many(
    py: Python<'_>,
    client: &PyClient,
    wanted: Vec<(LocationArgument, Option<(i64, i64)>)>,
    concurrency: &Bound<'_, PyAny>,
) -> PyResult<PyObjects> {
    let concurrency: usize = number("concurrency", concurrency)?;
    if concurrency == 0 {
        return Err(PyValueError::new_err("concurrency should be at least 1, not 0"));
    }
    let engine = client.route.uncached_client(py)?;
    let range = |(offset, length): (i64, i64)| match (u64::try_from(offset), u64::try_from(length)) {
        (Ok(offset), Ok(length)) => Ok(ByteRange::at(offset, length)),
        _ => Err(PyValueError::new_err(format!(
            "offsets and lengths are counted from 0: ({offset}, {length})"
        ))),
    };
    let wanted = wanted
        .into_iter()
        .map(|(LocationArgument(location), part)| {
            let place = in_any_directory(&location);
            Ok(WantedRange { location, place, range: part.map(range).transpose()? })
        })
        .collect::<PyResult<Vec<_>>>()?;
    let threads = concurrency.min(wanted.len());
    let cancel = Cancel::new();
    let state = ObjectsState { largest: ASSUMED_LENGTH, ..ObjectsState::default() };
    let reading = Arc::new(Reading {
        wanted,
        store: engine.store().without_retries().scoped(&cancel),
        tracker: RequestTracker::new(threads, Instant::now()),
        has_answered: AtomicBool::new(false),
        cancel,
        retries: engine.copies().retries,
        memory: engine.copies().memory,
        state: Mutex::new(state),
        arrived: Condvar::new(),
        room: Condvar::new(),
        turns: Condvar::new(),
    });
    let objects = PyObjects { reading: ProcessOwned::new(Arc::clone(&reading)) };
    for slot in 0..threads {
        let reading = Arc::clone(&reading);
        let thread = std::thread::Builder::new().name("firstbyte-many".into()).stack_size(STACK);
        thread.spawn(move || reading.work(slot))?;
    }
    Ok(objects)
}

#[pymethods]
impl PyObjects {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let reading = self.reading.get().ok_or_else(|| {
            PyRuntimeError::new_err("these objects were begun to be read before a fork: begin in the child")
        })?;
        loop {
            match py.detach(|| reading.take()) {
                AwaitedObject::Object(_, Ok(content)) => return Ok(Some(PyBytes::new(py, &content))),
                AwaitedObject::Object(index, Err(error)) => {
                    reading.end();
                    return Err(failure(py, &error.into(), Some(&reading.wanted[index].location)));
                }
                AwaitedObject::Over => return Ok(None),
                AwaitedObject::Later => wait::check(py).inspect_err(|_| reading.end())?,
            }
        }
    }

    /// Ends the requests in progress. No more objects are returned.
    fn close(&self) {
        if let Some(reading) = self.reading.get() {
            reading.end();
        }
    }
}

impl Drop for PyObjects {
    fn drop(&mut self) {
        self.close();
    }
}

struct WantedRange {
    /// The location as the caller wrote it, for messages.
    location: Location,
    /// The location in any working directory.
    place: Location,
    range: Option<ByteRange>,
}

/// State that the caller and the threads share.
struct Reading {
    wanted: Vec<WantedRange>,
    /// The store, which makes each request once.
    store: Store,
    /// Tracks the requests of the threads. A request without response ends only by its own
    /// deadline.
    tracker: RequestTracker<Cancel>,
    /// True once a response has arrived.
    has_answered: AtomicBool,
    cancel: Cancel,
    retries: u32,
    memory: u64,
    state: Mutex<ObjectsState>,
    /// Signalled when the object that the caller gets next has arrived, and at the end.
    arrived: Condvar,
    /// Signalled to one thread when memory may be free. A thread that finds free memory signals the
    /// next thread.
    room: Condvar,
    /// Signalled when it may be an object's turn to get memory.
    turns: Condvar,
}

#[derive(Default)]
struct ObjectsState {
    /// Index of the first object that no thread has begun.
    next: usize,
    /// Index of the first object that has no memory yet.
    turn: usize,
    /// Indices of later objects that have memory, because they were so small that they did not wait
    /// for their turn.
    early: BTreeSet<usize>,
    /// Number of threads that wait for a turn.
    waiting: usize,
    /// Index of the object that the caller gets next.
    due: usize,
    /// Bytes assumed for objects that were begun and have no memory yet.
    assumed: u64,
    /// Bytes of the objects that have memory: in progress, or waiting for the caller.
    held: u64,
    /// Length in bytes of the largest object so far.
    largest: u64,
    /// The results that have arrived, each with its memory in bytes.
    ready: BTreeMap<usize, (u64, Result<Vec<u8>>)>,
    ended: bool,
}

impl ObjectsState {
    /// Records that the object at `index` has memory, and moves the turn on.
    fn pass_turn(&mut self, index: usize) {
        if index != self.turn {
            self.early.extend((index > self.turn).then_some(index));
            return;
        }
        self.turn += 1;
        while self.early.remove(&self.turn) {
            self.turn += 1;
        }
    }
}

/// The bytes for which an object in progress counts.
enum ObjectMemory {
    /// The response has not arrived, so the length is assumed.
    Assumed(u64),
    Held(u64),
}

/// Outcome of a wait for the object that the caller gets next.
enum AwaitedObject {
    Object(usize, Result<Vec<u8>>),
    Over,
    /// The object has not arrived yet.
    Later,
}

/// An object that is being received.
#[derive(Default)]
struct ArrivingObject {
    /// The requested bytes of the object; empty until the first response.
    wanted: ByteRange,
    stat: Option<Stat>,
    content: Vec<u8>,
    /// Bytes of `content` that have arrived.
    filled: usize,
}

impl ArrivingObject {
    /// Prepares for the body of the first response to a request of `range`.
    fn begin(&mut self, body: &Body, range: Option<ByteRange>) {
        let end = match (range, body.stat().size()) {
            (Some(range), Some(size)) => range.end.min(size),
            (Some(_), None) => body.range().end,
            (None, size) => size.unwrap_or(body.range().end),
        };
        self.wanted = ByteRange::new(body.range().start, end.max(body.range().start));
        self.stat = Some(body.stat().clone());
        (self.content, self.filled) = (Vec::new(), 0);
    }

    fn is_whole(&self) -> bool {
        self.stat.is_some() && self.filled as u64 == self.wanted.len()
    }

    /// Returns the missing range if the bytes before it can be kept, because a version identifies
    /// the object's content.
    fn missing_range(&self) -> Option<ByteRange> {
        let is_kept = self.filled > 0 && self.version().is_some_and(|it| it.strength() > Strength::None);
        is_kept.then(|| self.wanted.skip(self.filled as u64))
    }

    /// Returns the version in the first response.
    fn version(&self) -> Option<Version> {
        self.stat.as_ref().map(|stat| stat.version.clone())
    }

    fn receive(&mut self, body: &mut Body, attempt: &mut Attempt<'_>, location: &Location) -> Result<()> {
        let (before, length) = (self.filled, to_usize(self.wanted.len()));
        while self.filled < length {
            if self.filled == self.content.len() {
                let step = length.min(self.filled.saturating_add(MAX_GROWTH_BYTES)) - self.filled;
                // The buffer grows by this step only. Without `reserve_exact` it would double.
                self.content.reserve_exact(step);
                self.content.resize(self.filled + step, 0);
            }
            match body.read(&mut self.content[self.filled..])? {
                0 if self.filled == before => {
                    let missing = (length - self.filled) as u64;
                    return Err(StoreError::Truncated {
                        location: location.to_string(),
                        missing,
                        trace: None,
                    });
                }
                // A server may send less than was requested.
                0 => break,
                read => self.filled += read,
            }
            attempt.record_progress(self.wanted.start + self.filled as u64);
        }
        Ok(())
    }

    /// Returns the content. Compares it with the checksum of the whole object if the response had
    /// one.
    fn finish(self, location: &Location) -> Result<Vec<u8>> {
        let expected = self
            .stat
            .as_ref()
            .and_then(|stat| stat.checksum.clone().filter(|_| stat.size() == Some(self.wanted.len())));
        if let Some(expected) = expected {
            expected.verify(&Hasher::of(expected.algorithm, &self.content), location)?;
        }
        Ok(self.content)
    }
}

impl Interest for Reading {
    fn is_wanted(&self, _: Tries) -> bool {
        !self.state.lock().ended
    }

    fn retries(&self) -> u32 {
        self.retries
    }

    fn is_known(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    /// Fails fast: a reader waits for at most one request's deadline, not for an outage to end.
    fn outages(&self) -> Outages {
        Outages::FailFast
    }

    fn count(&self, event: RequestEvent) {
        if event == RequestEvent::Retry {
            self.store.count_retry();
        }
    }
}

impl Reading {
    /// Reads one object after another until no object is left.
    fn work(&self, slot: usize) {
        while let Some((index, assumed)) = self.begin() {
            let mut room = ObjectMemory::Assumed(assumed);
            let read = self.read(slot, index, &mut room);
            // An object that failed before its response has not had its turn yet, and passes it on
            // here.
            let room = self.admit(index, &mut room, 0);
            let mut state = self.state.lock();
            state.ready.insert(index, (room, read));
            if index == state.due {
                self.arrived.notify_all();
            }
        }
    }

    /// Waits until it is the object's turn and there is memory for its length. Returns the object's
    /// memory in bytes, which is more than `length` if the object already had more.
    ///
    /// An object need not wait for its turn if it fits into half of the memory together with all
    /// others. The other half is left for the object that the caller gets next. That object gets
    /// memory in any case, because no other object is returned before it.
    fn admit(&self, index: usize, room: &mut ObjectMemory, length: u64) -> u64 {
        let mut state = self.state.lock();
        let had = match *room {
            ObjectMemory::Assumed(_) => 0,
            ObjectMemory::Held(bytes) => bytes,
        };
        let more = length.saturating_sub(had);
        let is_first = matches!(room, ObjectMemory::Assumed(_));
        let has_room = |state: &ObjectsState| {
            let all = (state.held - had).saturating_add(length);
            let is_in_turn = state.turn == index && (all <= self.memory || index == state.due);
            is_in_turn || all <= self.memory / 2
        };
        while is_first && !state.ended && !has_room(&state) {
            state.waiting += 1;
            state = self.turns.wait(state);
            state.waiting -= 1;
        }
        if let ObjectMemory::Assumed(assumed) = *room {
            state.assumed -= assumed;
            state.pass_turn(index);
        }
        state.held += more;
        state.largest = state.largest.max(length);
        *room = ObjectMemory::Held(had + more);
        self.call_waiting(&state);
        self.room.notify_one();
        had + more
    }

    /// Wakes the threads that wait for a turn.
    fn call_waiting(&self, state: &ObjectsState) {
        if state.waiting > 0 {
            self.turns.notify_all();
        }
    }

    /// Waits for memory. Returns the index of the next object to read, and its assumed length in
    /// bytes. `None` if no object is left.
    fn begin(&self) -> Option<(usize, u64)> {
        let mut state = self.state.lock();
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
            state = self.room.wait(state);
        }
    }

    /// Waits up to [`SIGNAL_CHECK_INTERVAL`] for the object that the caller gets next.
    fn take(&self) -> AwaitedObject {
        let is_awaited = |state: &mut ObjectsState| {
            !state.ended && state.due < self.wanted.len() && !state.ready.contains_key(&state.due)
        };
        let (mut state, _) =
            self.arrived.wait_timeout_while(self.state.lock(), SIGNAL_CHECK_INTERVAL, is_awaited);
        let index = state.due;
        if state.ended || index == self.wanted.len() {
            return AwaitedObject::Over;
        }
        let Some((room, read)) = state.ready.remove(&index) else { return AwaitedObject::Later };
        state.held -= room;
        state.due += 1;
        self.call_waiting(&state);
        self.room.notify_one();
        if state.ready.contains_key(&state.due) {
            // Wakes other threads that take from the same iterator.
            self.arrived.notify_all();
        }
        AwaitedObject::Object(index, read)
    }

    fn end(&self) {
        self.state.lock().ended = true;
        self.cancel.cancel();
        self.arrived.notify_all();
        self.turns.notify_all();
        self.room.notify_all();
    }

    /// Reads one object by `firstbyte_fetch`'s loop of attempts. Bytes that arrived before a
    /// failure are kept.
    fn read(&self, slot: usize, index: usize, room: &mut ObjectMemory) -> Result<Vec<u8>> {
        if self.wanted[index].range.is_some_and(|range| range.is_empty()) {
            return Ok(Vec::new());
        }
        let mut arriving = ArrivingObject::default();
        let slot = TrackerSlot { tracker: &self.tracker, index: slot };
        match slot.request(self, None, |attempt| self.read_missing(attempt, index, &mut arriving, room)) {
            Ok(()) => arriving.finish(&self.wanted[index].location),
            Err(RequestEnd::Failed(error)) => Err(error),
            Err(RequestEnd::Unwanted(error)) => Err(error.unwrap_or(StoreError::Cancelled)),
        }
    }

    /// Requests the bytes that have not arrived. If the object has changed or has no version,
    /// requests all bytes, so that bytes of two versions are not mixed.
    fn read_missing(
        &self,
        attempt: &mut Attempt<'_>,
        index: usize,
        arriving: &mut ArrivingObject,
        room: &mut ObjectMemory,
    ) -> Result<()> {
        let WantedRange { place: location, range, .. } = &self.wanted[index];
        while !arriving.is_whole() {
            let rest = arriving.missing_range();
            attempt.begin(Wait::Head);
            let get = Get {
                range: rest.or(*range),
                version: rest.and(arriving.version()),
                checksum: rest.or(*range).is_none(),
                ..attempt.get_options(&Throttle::default())
            };
            let mut body = match self.store.get(location, &get) {
                Err(StoreError::Changed { .. } | StoreError::RangeIgnored { .. }) if rest.is_some() => {
                    *arriving = ArrivingObject::default();
                    continue;
                }
                body => body?,
            };
            self.has_answered.store(true, Ordering::Relaxed);
            attempt.head_arrived(body.range().len());
            if rest.is_none() {
                arriving.begin(&body, *range);
                self.admit(index, room, arriving.wanted.len());
            }
            arriving.receive(&mut body, attempt, location)?;
        }
        Ok(())
    }
}
