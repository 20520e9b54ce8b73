//! Sends the requests of a worker, using the request loop of `firstbyte_fetch` with the meters and
//! limits of the run.
//!
//! Each worker has one [`Requester`], which movers borrow. The requester owns the worker's slot in
//! the request tracker, and the worker's buffer.

use std::ops::Deref;

use firstbyte_fetch::{AttemptError, Interest, RequestEnd, RequestEvent, TrackerSlot, Tries};
use firstbyte_location::{Location, Version};
use firstbyte_pacing::{START, Wait};
use firstbyte_store::{BUFFER, Body, Cancel, Error as StoreError, Get, Hasher, Outages, Sending, Sink, Stat};

use crate::context::{Context, add_relaxed, load_relaxed, micros};
use crate::error::{Error, Result};
use crate::job::ObjectCount;

/// Length of a worker's buffer if many objects move, bytes. Most of these objects are smaller.
const SMALL_BUFFER: usize = 32 << 10;
/// Length in bytes of the buffer of most workers if one object moves: a TLS record. Many of these
/// workers may exist, and they mostly wait. Only the first [`START`] workers have a larger buffer.
const RECORD_BUFFER: usize = 16 << 10;

/// Sends the requests of one worker, one at a time.
pub(crate) struct Requester<'a> {
    pub(crate) context: &'a Context<'a>,
    slot: usize,
    buffer: Vec<u8>,
}

/// One attempt at a request, lent to the code that makes the attempt.
pub(crate) struct TransferAttempt<'a, 't> {
    pub(crate) context: &'a Context<'a>,
    tracked: &'a mut firstbyte_fetch::Attempt<'t>,
}

/// A response whose body has not been read yet, and a handle that cancels it.
pub(crate) type OpenedBody = (Body, Cancel);

/// Returns the length of a worker's buffer, bytes.
pub(crate) fn buffer_size(batch: ObjectCount, worker: usize) -> usize {
    match batch {
        ObjectCount::One if worker < START => BUFFER,
        ObjectCount::One => RECORD_BUFFER,
        ObjectCount::Many | ObjectCount::Tree => SMALL_BUFFER,
    }
}

impl Interest for Context<'_> {
    fn is_wanted(&self, _: Tries) -> bool {
        !self.is_ended()
    }

    fn retries(&self) -> u32 {
        self.settings.retries
    }

    fn is_known(&self) -> bool {
        load_relaxed(&self.meters.moved) > 0
    }

    fn outages(&self) -> Outages {
        Outages::WaitFor
    }

    fn count(&self, event: RequestEvent) {
        match event {
            RequestEvent::Cut => add_relaxed(&self.meters.hedged, 1),
            RequestEvent::Retry => self.store.count_retry(),
            RequestEvent::SlowDown => add_relaxed(&self.meters.slowdowns, 1),
        }
    }
}

impl AttemptError for Error {
    fn store_error(&self) -> Option<&StoreError> {
        match self {
            Self::Store(error) => Some(error),
            _ => None,
        }
    }

    fn store_error_mut(&mut self) -> Option<&mut StoreError> {
        match self {
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}

impl<'t> Deref for TransferAttempt<'_, 't> {
    type Target = firstbyte_fetch::Attempt<'t>;

    fn deref(&self) -> &Self::Target {
        self.tracked
    }
}

impl TransferAttempt<'_, '_> {
    /// Records that the head of a response has arrived, and that a body of `body` bytes follows.
    pub(crate) fn head_arrived(&self, body: u64) {
        let took = self.tracked.head_arrived(body);
        add_relaxed(&self.context.meters.head_wait, micros(took));
    }

    /// Records that `bytes` more bytes, up to the offset `end`, have arrived or were accepted by
    /// the server.
    pub(crate) fn record_moved(&mut self, bytes: u64, end: u64) {
        self.context.record_moved(bytes);
        self.tracked.record_progress(end);
    }

    /// Returns the parameters of a read in this attempt. They request the whole object in any
    /// version; the caller narrows them.
    pub(crate) fn get(&mut self) -> Get {
        self.tracked.get_options(&self.context.throttles.reading)
    }

    /// Returns the parameters for sending bytes in this attempt.
    pub(crate) fn sending(&mut self) -> Sending {
        let throttle = self.context.throttles.writing.clone();
        self.tracked.record_rate_limit(&throttle);
        Sending { cancel: self.cancel().clone(), throttle }
    }

    /// Sends the request and waits for the head of its response.
    pub(crate) fn open(&self, source: &Location, get: &Get) -> Result<Body> {
        let body = self.context.single.get(source, get)?;
        self.head_arrived(body.range().len());
        Ok(body)
    }

    /// Writes a body into `sink`, from offset `at` up to `end`. After an error, `at` is the offset
    /// at which the copy stopped.
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
            self.record_moved(bytes, *at);
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

    /// Requests the description of an object, or of one version of it.
    pub(crate) fn stat(&mut self, location: &Location, version_id: Option<&str>) -> Result<Stat> {
        self.request(Wait::Head, None, |attempt, _| {
            let store = &attempt.context.single;
            let stat = match version_id {
                Some(id) => store.stat_version(location, id)?,
                None => store.stat(location)?,
            };
            attempt.head_arrived(0);
            Ok(stat)
        })
    }

    /// Requests, without retries, a description that is useful but not needed. Returns `None` on
    /// failure.
    pub(crate) fn try_stat(&mut self, location: &Location, version_id: Option<&str>) -> Option<Stat> {
        let store = &self.context.single;
        let stat = match version_id {
            Some(id) => store.stat_version(location, id),
            None => store.stat(location),
        };
        stat.inspect_err(|error| tracing::debug!(%error, "no description")).ok()
    }

    /// Returns the length that a HEAD request reports for a response whose body ends with its
    /// connection. `None` if HEAD reports no length, or describes another version.
    pub(crate) fn stated_length(&mut self, source: &Location, version: &Version) -> Option<u64> {
        let described = self.try_stat(source, version.version_id.as_deref())?;
        described.size().filter(|_| described.version.agrees_with(version))
    }

    /// Opens the range and version that `get` asks for.
    pub(crate) fn open(&mut self, source: &Location, get: &Get) -> Result<OpenedBody> {
        self.request(Wait::Head, None, |attempt, _| {
            let Get { cancel, throttle, .. } = attempt.get();
            let get = Get { cancel, throttle, ..get.clone() };
            Ok((attempt.open(source, &get)?, get.cancel))
        })
    }

    /// Repeats a request until it succeeds, fails for good, or the run ends. `once` makes one
    /// attempt, and records its progress, so that the next attempt requests only the remaining
    /// bytes. `opened` is the handle that cancels a response that is already open.
    pub(crate) fn request<T>(
        &mut self,
        wait: Wait,
        opened: Option<Cancel>,
        mut once: impl FnMut(&mut TransferAttempt<'_, '_>, &mut [u8]) -> Result<T>,
    ) -> Result<T> {
        let context = self.context;
        if self.buffer.is_empty() {
            // The kernel provides zeroed pages, which use no memory until they are touched.
            self.buffer = vec![0; buffer_size(context.run_kind.batch, self.slot)];
        }
        let slot = TrackerSlot { tracker: &context.tracker, index: self.slot };
        let result = slot.request(context, opened, |tracked| {
            tracked.begin(wait);
            once(&mut TransferAttempt { context, tracked }, &mut self.buffer)
        });
        match result {
            Ok(value) => Ok(value),
            Err(RequestEnd::Failed(error)) if !context.is_ended() => Err(error),
            Err(_) => Err(Error::Interrupted),
        }
    }
}
