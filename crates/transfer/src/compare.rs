//! Whether two objects have the same content, for several pairs at a time.
//!
//! Checksums that both stores hold are compared; what only one holds is computed from the bytes of the other. A hash
//! takes a processor and a question to a store takes a round trip, so one pair after the other would leave both idle.
//! Pairs are begun by one thread in its order; what came out is handed back as it is known.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use firstbyte_location::{Entry, Location};
use firstbyte_store::{Algorithm, Checksum, Get, Hasher, Store};

use crate::engine::Route;
use crate::worker::SCRATCH;
use crate::{Concurrency, Error, Result};

/// Pairs at a time where nobody says how many: each needs a buffer of 128 KiB beside the workers' memory.
const MOST: usize = 16;
/// A thread's stack, as a worker's.
const STACK: usize = 512 << 10;

/// A pair's source, and whether its destination has the same content.
pub(crate) type Outcome = (Entry, Result<bool>);

/// Pairs under comparison.
pub(crate) struct Comparisons {
    store: Store,
    most: usize,
    running: usize,
    send: Sender<std::thread::Result<Outcome>>,
    receive: Receiver<std::thread::Result<Outcome>>,
    /// Nobody waits for the rest.
    over: Arc<AtomicBool>,
}

impl Comparisons {
    /// As many as `concurrency` says; between local files, where a hash takes all of a processor, one for each.
    pub(crate) fn new(store: &Store, concurrency: Concurrency, route: Route) -> Self {
        let most = match (concurrency, route) {
            (Concurrency::Fixed(most), _) => most,
            (Concurrency::Auto, Route::Local) => {
                std::thread::available_parallelism().map_or(1, usize::from).min(MOST)
            }
            (Concurrency::Auto, _) => MOST,
        };
        let (send, receive) = channel();
        Self { store: store.clone(), most: most.max(1), running: 0, send, receive, over: Arc::default() }
    }

    /// Whether another pair has to wait for [`wait`](Self::wait).
    pub(crate) fn is_full(&self) -> bool {
        self.running >= self.most
    }

    /// Begins to compare two objects of one length; `source` is handed back with the outcome.
    pub(crate) fn begin(&mut self, source: Entry, left: Location, right: Location) -> Result<()> {
        let (store, send, over) = (self.store.clone(), self.send.clone(), Arc::clone(&self.over));
        let compare = move || {
            let same = || same(&store, &left, &right, &over);
            let outcome = catch_unwind(AssertUnwindSafe(same)).map(|same| (source, same));
            // The run may have ended meanwhile.
            let _ = send.send(outcome);
        };
        let thread = std::thread::Builder::new().name("compare".into()).stack_size(STACK);
        thread.spawn(compare).map_err(Error::io("starting a thread"))?;
        self.running += 1;
        Ok(())
    }

    /// Waits for the next outcome; `None` when no pair is left.
    pub(crate) fn wait(&mut self) -> Option<Outcome> {
        if self.running == 0 {
            return None;
        }
        self.running -= 1;
        let outcome = self.receive.recv().ok()?;
        Some(outcome.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

impl Drop for Comparisons {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn same(store: &Store, left: &Location, right: &Location, over: &AtomicBool) -> Result<bool> {
    let (held, other) = (held(store, left)?, held(store, right)?);
    if let (Some(held), Some(other)) = (&held, &other)
        && held.algorithm == other.algorithm
    {
        return Ok(held == other);
    }
    let algorithm =
        held.as_ref().or(other.as_ref()).map_or(Algorithm::Crc64Nvme, |checksum| checksum.algorithm);
    let read = |held: Option<Checksum>, location| match held {
        Some(held) if held.algorithm == algorithm => Ok(held),
        _ => content(store, location, algorithm, over),
    };
    Ok(read(held, left)? == read(other, right)?)
}

/// The checksum a store holds of an object.
fn held(store: &Store, location: &Location) -> Result<Option<Checksum>> {
    match location {
        Location::Local(_) => Ok(None),
        _ => Ok(store.stat(location)?.checksum),
    }
}

/// The checksum of an object, read whole.
fn content(store: &Store, location: &Location, algorithm: Algorithm, over: &AtomicBool) -> Result<Checksum> {
    let mut body = store.get(location, &Get::default())?;
    let mut hasher = Hasher::new(algorithm);
    let mut buffer = vec![0; SCRATCH];
    while !over.load(Ordering::Relaxed) {
        match body.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            read => hasher.update(&buffer[..read]),
        }
    }
    Err(Error::Interrupted)
}
