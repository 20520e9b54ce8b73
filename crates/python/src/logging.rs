//! Queues events of the library for Python's `logging`. A Python thread empties the queue. No
//! thread of this module touches Python.

use std::collections::VecDeque;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};
use std::time::Duration;

use pyo3::prelude::*;
use rustix_futex_sync::{Condvar, Mutex};
use serde_json::{Map, Value};
use tracing::{Level, Metadata};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::prelude::*;

/// Maximum number of events that wait. If there are more, the oldest are dropped and counted.
const MAX_WAITING_EVENTS: usize = 10_000;

/// Level as a number of Python's `logging`, target, and fields as JSON.
type Logged = (u8, String, String);

/// The lowest level, as a number of Python's `logging`, that is passed on.
static MIN_LEVEL: AtomicU8 = AtomicU8::new(u8::MAX);

/// The queue of this process. A queue is never freed. A forked child makes its own queue, because a
/// thread that does not exist in the child may have held the lock of the inherited one.
static QUEUE: AtomicPtr<Queue> = AtomicPtr::new(std::ptr::null_mut());

#[derive(Default)]
struct Queue {
    state: Mutex<LogState>,
    changed: Condvar,
}

#[derive(Default)]
struct LogState {
    events: VecDeque<Logged>,
    dropped: u64,
    is_ended: bool,
}

fn queue() -> Option<&'static Queue> {
    // SAFETY: the pointer is null, or points to a queue that was leaked.
    unsafe { QUEUE.load(Ordering::Acquire).as_ref() }
}

/// Returns the number of a level in Python's `logging`.
fn level_of(metadata: &Metadata<'_>) -> u8 {
    match *metadata.level() {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        _ => 10,
    }
}

fn take(metadata: &Metadata<'static>, fields: Map<String, Value>) {
    let Some(queue) = queue() else { return };
    let mut state = queue.state.lock();
    if state.events.len() == MAX_WAITING_EVENTS {
        state.events.pop_front();
        state.dropped += 1;
    }
    let event = (level_of(metadata), metadata.target().to_owned(), Value::Object(fields).to_string());
    state.events.push_back(event);
    queue.changed.notify_one();
}

/// Begins to keep events, in a new queue. `least` is the lowest level, as a number of Python's
/// `logging`.
#[pyfunction]
pub(crate) fn log_begin(least: u8) {
    static SUBSCRIBER: Once = Once::new();
    QUEUE.store(Box::leak(Box::<Queue>::default()), Ordering::Release);
    SUBSCRIBER.call_once(|| {
        let own = filter_fn(|metadata| {
            // Spans are kept too, because a request takes the number of its attempt from a span.
            let is_loud = metadata.is_span() || level_of(metadata) >= MIN_LEVEL.load(Ordering::Relaxed);
            metadata.target().starts_with("firstbyte") && *metadata.level() <= Level::DEBUG && is_loud
        });
        // The call fails if another library of this process has a subscriber. That subscriber then
        // gets the events.
        let _ = tracing_subscriber::registry()
            .with(firstbyte::events::layer::<Registry>(take).with_filter(own))
            .try_init();
    });
    log_level(least);
}

/// Changes the lowest level of the queue that has begun.
#[pyfunction]
pub(crate) fn log_level(least: u8) {
    MIN_LEVEL.store(least, Ordering::Relaxed);
    tracing::callsite::rebuild_interest_cache();
}

/// Waits up to a second for events. Returns the events, the number of dropped events, and whether
/// the queue has ended.
#[pyfunction]
pub(crate) fn log_next(py: Python<'_>) -> (Vec<Logged>, u64, bool) {
    let Some(queue) = queue() else { return (Vec::new(), 0, true) };
    py.detach(|| {
        let is_idle = |state: &mut LogState| state.events.is_empty() && !state.is_ended;
        let (mut state, _) =
            queue.changed.wait_timeout_while(queue.state.lock(), Duration::from_secs(1), is_idle);
        (state.events.drain(..).collect(), std::mem::take(&mut state.dropped), state.is_ended)
    })
}

/// Ends the queue. Events that are still in the queue can be taken.
#[pyfunction]
pub(crate) fn log_end() {
    MIN_LEVEL.store(u8::MAX, Ordering::Relaxed);
    if let Some(queue) = queue() {
        queue.state.lock().is_ended = true;
        queue.changed.notify_all();
    }
}
