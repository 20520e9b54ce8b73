//! Sends the requests of a worker: tracks each, cancels it when it stays silent, and retries it
//! after a pause.
//!
//! Each worker has one [`Requester`], which movers borrow. It owns the worker's slot in the request
//! tracker and its buffer.

use std::time::Instant;

use firstbyte_location::Location;
use firstbyte_pacing::{InFlightRequest, Wait, backoff};
use firstbyte_store::{BUFFER, Body, Cancel, Error as StoreError, Get, Hasher, Sending, Sink, Stat};

use crate::context::{Context, add, count, micros};
use crate::job::Batch;
use crate::{Error, Result};

/// Size of a worker's buffer if many objects move: most are smaller, and many workers share the
/// memory.
const BUFFER_OF_MANY: usize = 32 << 10;

/// Sends the requests of one worker, one at a time.
pub(crate) struct Requester<'a> {
    pub(crate) context: &'a Context<'a>,
    slot: usize,
    buffer: Vec<u8>,
}

/// One attempt at a request, lent to the code that makes it.
pub(crate) struct Attempt<'a> {
    pub(crate) context: &'a Context<'a>,
    /// Ends the request; to be passed to the store.
    pub(crate) cancel: Cancel,
    in_flight: InFlightRequest<'a, Cancel>,
    /// Bytes moved by this attempt.
    bytes: u64,
    start: Start,
}

/// The first byte that an attempt moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// The first that is missing, so that every byte is progress.
    Missing,
    /// The first of all, so that only bytes beyond those of earlier attempts are progress.
    Beginning,
}

/// An answer whose body is still to be read, and the handle that ends it.
pub(crate) type Opened = (Body, Cancel);

/// Size of each worker's buffer, bytes.
pub(crate) fn buffer_size(batch: Batch) -> usize {
    match batch {
        Batch::One => BUFFER,
        Batch::Many | Batch::Tree => BUFFER_OF_MANY,
    }
}

impl Attempt<'_> {
    /// The head of an answer has arrived, and a body of so many bytes follows.
    pub(crate) fn head_arrived(&self, body: u64) {
        let took = self.in_flight.head_arrived(body, Instant::now());
        self.keep_to_rate();
        add(&self.context.meters.head_wait, micros(took));
    }

    /// Bytes arrived, or were accepted by the server.
    pub(crate) fn moved(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.context.moved(bytes);
        self.in_flight.bytes_arrived(Instant::now());
        self.keep_to_rate();
    }

    /// The attempt moves all bytes, those of earlier attempts again.
    pub(crate) fn starts_over(&mut self) {
        self.start = Start::Beginning;
    }

    /// Under a rate limit a silence is our own pause: only the store's deadlines end the request.
    fn keep_to_rate(&self) {
        if self.context.is_throttled() {
            self.in_flight.paused();
        }
    }

    /// The store itself notices a silence: a write is many requests, each with its reply, or one
    /// that lasts as long as the object is large.
    pub(crate) fn left_to_store(&self) {
        self.in_flight.paused();
    }

    /// A read of everything, of any version, for this attempt.
    pub(crate) fn get(&self) -> Get {
        let throttle = self.context.throttles.reading.clone();
        Get { cancel: self.cancel.clone(), throttle, ..Get::default() }
    }

    /// Parameters for sending bytes in this attempt.
    pub(crate) fn sending(&self) -> Sending {
        self.keep_to_rate();
        Sending { cancel: self.cancel.clone(), throttle: self.context.throttles.writing.clone() }
    }

    /// Sends the request and waits for the head of its answer.
    pub(crate) fn open(&self, source: &Location, get: &Get) -> Result<Body> {
        let body = self.context.store.get(source, get)?;
        self.head_arrived(body.range().len());
        Ok(body)
    }

    /// Moves a body into `sink`, from `at` up to `end`. After an error `at` is where it stopped.
    pub(crate) fn copy_body(
        &mut self,
        body: &mut Body,
        sink: &Sink,
        at: &mut u64,
        end: u64,
        buffer: &mut [u8],
        hasher: Option<&mut Hasher>,
    ) -> Result<()> {
        let start = *at;
        let mut progress = |bytes| {
            *at += bytes;
            self.moved(bytes);
        };
        match hasher {
            Some(hasher) => {
                let mut observe = |bytes: &[u8]| hasher.update(bytes);
                body.write_to(sink, start, end - start, buffer, Some(&mut observe), &mut progress)?;
            }
            None => drop(body.write_to(sink, start, end - start, buffer, None, &mut progress)?),
        }
        Ok(())
    }
}

impl<'a> Requester<'a> {
    pub(crate) fn new(context: &'a Context<'a>, slot: usize) -> Self {
        Self { context, slot, buffer: Vec::new() }
    }

    /// Describes an object, or one version of it.
    pub(crate) fn stat(&mut self, location: &Location, version_id: Option<&str>) -> Result<Stat> {
        self.request(Wait::Head, None, |attempt, _| {
            let store = attempt.context.store;
            let stat = match version_id {
                Some(id) => store.stat_version(location, id)?,
                None => store.stat(location)?,
            };
            attempt.head_arrived(0);
            Ok(stat)
        })
    }

    /// Asks for the range and version of `get`.
    pub(crate) fn open(&mut self, source: &Location, get: &Get) -> Result<Opened> {
        self.request(Wait::Head, None, |attempt, _| {
            let get = Get {
                range: get.range,
                version: get.version.clone(),
                checksum: get.checksum,
                length: get.length,
                ..attempt.get()
            };
            Ok((attempt.open(source, &get)?, get.cancel))
        })
    }

    /// Makes a request until it succeeds, fails for good, or the run ends. `once` is one attempt.
    /// It keeps what it has achieved, so that the next attempt asks only for the rest. `cancel`
    /// belongs to an answer that is already open.
    pub(crate) fn request<T>(
        &mut self,
        wait: Wait,
        mut cancel: Option<Cancel>,
        mut once: impl FnMut(&mut Attempt<'_>, &mut [u8]) -> Result<T>,
    ) -> Result<T> {
        let context = self.context;
        if self.buffer.is_empty() {
            // Zeroed by the kernel: its pages cost nothing until they are touched.
            self.buffer = vec![0; buffer_size(context.subject.batch)];
        }
        let (mut cuts, mut failures, mut most) = (0, 0, 0);
        loop {
            if context.is_ended() {
                return Err(Error::Interrupted);
            }
            let cancel = cancel.take().unwrap_or_default();
            let in_flight = context.tracker.begin(self.slot, wait, cancel.clone(), cuts, Instant::now());
            let mut attempt = Attempt { context, cancel, in_flight, bytes: 0, start: Start::Missing };
            let result = once(&mut attempt, &mut self.buffer);
            let Attempt { in_flight, bytes, start, .. } = attempt;
            // A server that ends every body at the same byte must not be asked for ever.
            let progressed = match start {
                Start::Missing => bytes > 0,
                Start::Beginning => bytes > most,
            };
            most = most.max(bytes);
            let cut = in_flight.end(result.is_ok(), Instant::now());
            match result {
                Ok(value) => return Ok(value),
                Err(_) if context.is_ended() => return Err(Error::Interrupted),
                // An answer cut at the moment its head arrived reports it only to its first reader.
                Err(error) if cut || matches!(error, Error::Store(StoreError::Cancelled)) => {
                    cuts += 1;
                    add(&context.meters.hedged, 1);
                }
                Err(Error::Store(error)) if self.may_recover(&error) => {
                    failures = match &error {
                        _ if progressed => 1,
                        // Nothing was sent: the endpoint's failures count, whatever they were for.
                        StoreError::Unresponsive { silences, .. } => failures.max(*silences),
                        _ => failures + 1,
                    };
                    if failures > context.settings.retries {
                        return Err(error.into());
                    }
                    tracing::debug!(%error, failures, "trying again");
                    self.pause(&error, failures);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn may_recover(&self, error: &StoreError) -> bool {
        let moving = count(&self.context.meters.moved) > 0;
        // An endpoint that has answered before, and an answer damaged on its way, are worth another
        // try. An address that never answered is most likely wrong.
        let damaged = matches!(error, StoreError::Unreachable { .. } | StoreError::Protocol { .. });
        error.is_transient() || (moving && damaged)
    }

    fn pause(&self, error: &StoreError, failures: u32) {
        let asked = match error {
            StoreError::SlowDown { retry_after, .. } => {
                add(&self.context.meters.slowdowns, 1);
                *retry_after
            }
            StoreError::Unresponsive { retry_in, .. } => return self.context.pause(*retry_in),
            _ => None,
        };
        self.context.pause(backoff(failures, asked));
    }
}
