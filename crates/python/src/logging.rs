//! Keeps events of the library in a queue for Python's `logging`. A Python thread empties the
//! queue. No thread of this module touches Python.

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

/// Largest number of events that wait. Older events are dropped and counted.
const MOST_WAITING: usize = 10_000;

/// A level of Python, the target, and the fields as JSON.
type Logged = (u8, String, String);

/// The lowest level of Python that is passed on.
static MIN_LEVEL: AtomicU8 = AtomicU8::new(u8::MAX);

/// The queue of this process. Never freed: a forked child makes its own, because a thread that the
/// child does not have may have held the lock of this one.
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

impl Queue {}

fn queue() -> Option<&'static Queue> {
    // SAFETY: null, or a queue that was leaked.
    unsafe { QUEUE.load(Ordering::Acquire).as_ref() }
}

/// The number of a level in Python.
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
    if state.events.len() == MOST_WAITING {
        state.events.pop_front();
        state.dropped += 1;
    }
    let event = (level_of(metadata), metadata.target().to_owned(), Value::Object(fields).to_string());
    state.events.push_back(event);
    queue.changed.notify_one();
}

/// Begins to keep events of at least this level of Python, in a new queue.
#[pyfunction]
pub(crate) fn log_begin(least: u8) {
    static SUBSCRIBER: Once = Once::new();
    MIN_LEVEL.store(least, Ordering::Relaxed);
    QUEUE.store(Box::leak(Box::<Queue>::default()), Ordering::Release);
    SUBSCRIBER.call_once(|| {
        let own = filter_fn(|metadata| {
            // Spans are kept too: a request takes the number of its attempt from one.
            let is_loud = metadata.is_span() || level_of(metadata) >= MIN_LEVEL.load(Ordering::Relaxed);
            metadata.target().starts_with("firstbyte") && *metadata.level() <= Level::DEBUG && is_loud
        });
        // Fails if another library of this process has a subscriber, which then gets the events.
        let _ = tracing_subscriber::registry()
            .with(firstbyte::events::layer::<Registry>(take).with_filter(own))
            .try_init();
    });
    tracing::callsite::rebuild_interest_cache();
}

/// Waits for events, at most a second. Returns them, the number of those that were dropped, and
/// whether there will be no others.
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

/// Ends the queue. Events in it are still returned.
#[pyfunction]
pub(crate) fn log_end() {
    MIN_LEVEL.store(u8::MAX, Ordering::Relaxed);
    if let Some(queue) = queue() {
        queue.state.lock().is_ended = true;
        queue.changed.notify_all();
    }
}
