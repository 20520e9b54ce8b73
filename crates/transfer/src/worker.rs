//! One worker: its scratch memory, and how it makes a request - watched, cut when silent, tried again.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use firstbyte_location::Location;
use firstbyte_store::{Cancel, Error as StoreError, Get, Sending};

use crate::engine::Batch;
use crate::flight::Flight;
use crate::patience::Wait;
use crate::pieces::Begun;
use crate::run::{Run, micros};
use crate::{Error, Job, Result, download, relay, upload};

/// Bytes that pass through this process do so in pieces of this size: it fits the second-level cache.
pub(crate) const SCRATCH: usize = 128 << 10;
/// The same where many objects move: most of them are smaller, and many workers share the memory.
const SCRATCH_OF_MANY: usize = 32 << 10;
/// First pause before a request that failed is tried again; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Sleeps are cut into this, to notice the end of the run.
const NAP: Duration = Duration::from_millis(50);

pub(crate) struct Worker<'a> {
    pub(crate) run: &'a Run<'a>,
    index: usize,
    scratch: Vec<u8>,
}

/// One attempt at a request, given to the code that makes it.
pub(crate) struct Attempt<'a> {
    pub(crate) run: &'a Run<'a>,
    /// Ends the request; to be passed to the store.
    pub(crate) cancel: Cancel,
    flight: Flight<'a>,
    progressed: bool,
}

impl Attempt<'_> {
    /// The answer's head is here, and a body of so many bytes follows.
    pub(crate) fn head_arrived(&self, body: u64) {
        let took = self.flight.head_arrived(body);
        self.keep_to_rate();
        self.run.meters.head_wait.fetch_add(micros(took), Ordering::Relaxed);
    }

    /// Bytes arrived, or were taken over by the server.
    pub(crate) fn moved(&mut self, bytes: u64) {
        self.progressed |= bytes > 0;
        self.run.moved(bytes);
        self.flight.heard();
        self.keep_to_rate();
    }

    /// Under a rate limit pauses are ours, and no silence of the server's: only the store's own deadlines end them.
    fn keep_to_rate(&self) {
        if self.run.is_throttled() {
            self.flight.paused();
        }
    }

    /// How bytes are asked for by this attempt: everything, of any version.
    pub(crate) fn get(&self) -> Get {
        let throttle = self.run.throttles.reading.clone();
        Get { cancel: self.cancel.clone(), throttle, ..Get::default() }
    }

    /// How bytes are sent by this attempt.
    pub(crate) fn sending(&self) -> Sending {
        self.keep_to_rate();
        Sending { cancel: self.cancel.clone(), throttle: self.run.throttles.writing.clone() }
    }
}

/// Size of the buffer that each worker of a batch has, bytes.
pub(crate) fn scratch(batch: Batch) -> usize {
    match batch {
        Batch::One => SCRATCH,
        Batch::Many | Batch::Tree => SCRATCH_OF_MANY,
    }
}

impl<'a> Worker<'a> {
    pub(crate) fn new(run: &'a Run<'a>, index: usize) -> Self {
        Self { run, index, scratch: Vec::new() }
    }

    /// Begins an object: by the direction it goes.
    pub(crate) fn begin(&mut self, job: &Job) -> Result<Begun> {
        match (&job.source, &job.destination) {
            (_, Location::Local(path)) => download::begin(self, job, path),
            (Location::Local(path), _) => upload::begin(self, job, path),
            _ => relay::begin(self, job),
        }
    }

    /// Makes a request until it succeeds, fails for good, or the run ends. `once` is one attempt; it keeps what it
    /// has achieved, so that the next asks for the rest only. `cancel` belongs to an answer already begun.
    pub(crate) fn request<T>(
        &mut self,
        wait: Wait,
        mut cancel: Option<Cancel>,
        mut once: impl FnMut(&mut Attempt<'_>, &mut [u8]) -> Result<T>,
    ) -> Result<T> {
        if self.scratch.is_empty() {
            // Zeroed by the kernel: its pages cost nothing until bytes do pass through.
            self.scratch = vec![0; scratch(self.run.batch)];
        }
        let (mut cuts, mut failures) = (0, 0);
        loop {
            if self.run.is_ended() {
                return Err(Error::Interrupted);
            }
            let cancel = cancel.take().unwrap_or_default();
            let flight = self.run.flights.begin(self.index, wait, cancel.clone(), cuts);
            let mut attempt = Attempt { run: self.run, cancel, flight, progressed: false };
            let result = once(&mut attempt, &mut self.scratch);
            let Attempt { flight, progressed, .. } = attempt;
            let cut = flight.end(result.is_ok());
            match result {
                Ok(value) => return Ok(value),
                Err(_) if self.run.is_ended() => return Err(Error::Interrupted),
                // An answer that was cut at the very moment its head arrived says so only to its first reader.
                Err(error) if cut || matches!(error, Error::Store(StoreError::Cancelled)) => {
                    cuts += 1;
                    self.run.meters.hedged.fetch_add(1, Ordering::Relaxed);
                }
                Err(Error::Store(error)) if self.may_recover(&error) => {
                    failures = match &error {
                        _ if progressed => 1,
                        // Nothing was sent: what counts are the endpoint's failures, whichever request they were.
                        StoreError::Unresponsive { silences, .. } => failures.max(*silences),
                        _ => failures + 1,
                    };
                    if failures > self.run.settings.retries {
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
        let moving = self.run.meters.moved.load(Ordering::Relaxed) > 0;
        // An endpoint that has answered before, and an answer mangled on its way, are worth another try; an address
        // that never answered is most likely wrong.
        let mangled = matches!(error, StoreError::Unreachable { .. } | StoreError::Protocol { .. });
        error.is_transient() || (moving && mangled)
    }

    fn pause(&self, error: &StoreError, failures: u32) {
        let mut pause =
            FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST_PAUSE);
        if let StoreError::SlowDown { retry_after, .. } = error {
            self.run.meters.slowdowns.fetch_add(1, Ordering::Relaxed);
            pause = pause.max(retry_after.unwrap_or_default().min(LONGEST_PAUSE * 6));
        }
        if let StoreError::Unresponsive { retry_in, .. } = error {
            pause = *retry_in;
        }
        // Workers that failed together must not come back together. The clock's low digits are random enough.
        let spread =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
        nap(self.run, pause.mul_f64(0.5 + f64::from(spread % 1_000) / 1_000.0));
    }
}

/// Sleeps, but not past the end of the run.
pub(crate) fn nap(run: &Run<'_>, mut pause: Duration) {
    while !pause.is_zero() && !run.is_ended() {
        let step = pause.min(NAP);
        std::thread::sleep(step);
        pause -= step;
    }
}
