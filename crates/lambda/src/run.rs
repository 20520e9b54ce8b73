//! Runs the transfer engine within one invocation. A separate thread watches the deadline and stops
//! the run in time.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use firstbyte::Client;
use firstbyte_location::Location;
use firstbyte_store::{FailureKind, STACK, Store};
use firstbyte_transfer::{Concurrency, Engine, Failure as Failed, Observer, Stop, TransferSettings};

use crate::deadline::Deadline;
use crate::error::{InvocationFailure, Result};
use crate::frontier::Frontier;
use crate::meter::{ByteMeter, Window};

/// Interval at which the deadline is checked, a fraction of the smallest margin.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// An engine whose requests and transfers end before the deadline.
pub(crate) struct EngineRun {
    pub(crate) engine: Engine,
    pub(crate) stop: Stop,
    pub(crate) meter: Arc<ByteMeter>,
    /// Ends the watching thread when it is dropped.
    _watch: Sender<()>,
}

impl EngineRun {
    pub(crate) fn start(client: &Client, deadline: Deadline, concurrency: Option<usize>) -> Result<Self> {
        let stop = Stop::default();
        let meter = Arc::new(ByteMeter::default());
        let watch = watch(deadline, Arc::clone(&meter), stop.clone())?;
        let copies = client.copies();
        let settings = TransferSettings {
            stop: stop.clone(),
            concurrency: concurrency.map_or(copies.concurrency, Concurrency::Fixed),
            ..copies.clone()
        };
        Ok(Self { engine: client.transfers(settings), stop, meter, _watch: watch })
    }

    /// Returns the store. Its requests end with the run.
    pub(crate) fn store(&self) -> &Store {
        self.engine.store()
    }

    /// Returns whether the deadline has stopped the run.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_stopped()
    }
}

fn watch(deadline: Deadline, meter: Arc<ByteMeter>, stop: Stop) -> Result<Sender<()>> {
    let (sender, ended) = mpsc::channel();
    let look = move || {
        let mut window = Window::of(&meter);
        while ended.recv_timeout(CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            if deadline.is_near(window.rate()) {
                stop.stop();
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("deadline".into()).stack_size(STACK);
    let started = thread.spawn(look);
    started.map_err(|error| {
        InvocationFailure::new(FailureKind::Failed, format!("starting a thread: {error}"))
    })?;
    Ok(sender)
}

/// Receives events of the engine. Passes bytes to the meter, and objects to the frontier.
pub(crate) struct RunProgress<'a> {
    pub(crate) meter: &'a ByteMeter,
    pub(crate) frontier: &'a Frontier,
}

impl Observer for RunProgress<'_> {
    fn moved(&self, bytes: u64) {
        self.meter.add(bytes);
    }

    fn finished(&self, source: &Location, _destination: &Location, _bytes: u64) {
        self.frontier.end(&source.to_string());
    }

    fn skipped(&self, source: &Location) {
        self.frontier.end(&source.to_string());
    }

    fn failed(&self, failure: &Failed) {
        self.frontier.end(&failure.location);
    }
}
