//! One fetch: a ranged request over adjacent blocks, received block by block.
//!
//! It needs memory for one block at most, whatever the length of the request. Blocks received
//! before a failure stay, and only the rest is requested again. Called by the threads of
//! [`WorkerPool`](crate::workers).

mod retry;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use firstbyte_location::{ByteRange, Location, to_usize};
use firstbyte_pacing::{InFlightRequest, RequestTracker, Throttle, Wait};
use firstbyte_store::{BRIEFLY, Body, Cancel, Error as StoreError, Get};

use crate::background::BackgroundThrottle;
use crate::block_store::{CacheOutcome, FetchTurn};
use crate::inflight::Priority;
use crate::limits::POLL;
use crate::version::Fetch;

use retry::{Failed, GaveUp, Retry};

/// Meters that all fetches share, and that the supervisor of the workers observes.
pub(crate) struct FetchMeters {
    pub(crate) tracker: RequestTracker<Cancel>,
    pub(crate) throttle: BackgroundThrottle,
    /// Bytes received.
    pub(crate) moved: AtomicU64,
    /// Fetches ended.
    pub(crate) requests: AtomicU64,
    /// Responses that asked for a slower rate.
    pub(crate) slowdowns: AtomicU64,
}

impl FetchMeters {
    /// For fetches in at most `slots` threads.
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            tracker: RequestTracker::new(slots, Instant::now()),
            throttle: BackgroundThrottle::default(),
            moved: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            slowdowns: AtomicU64::new(0),
        }
    }
}

/// Brings the blocks of a fetch, or reports the error to the reads that wait for them.
pub(crate) fn run(meters: &FetchMeters, fetch: Fetch, slot: usize, buffer: &mut Vec<u8>) {
    fit(buffer, to_usize(fetch.buffer()));
    let version = &fetch.version;
    version.started(fetch.id);
    if fetch.job.as_ref().is_some_and(|job| job.take_checksum_request()) {
        version.learn_checksum();
    }
    let reader = (fetch.priority != Priority::Background).then(|| meters.throttle.begin_reader());
    let mut retry = Retry::default();
    let mut lease = Lease::new(&fetch);
    let result = loop {
        if !lease.acquire(buffer) && !version.remaining(fetch.id).is_empty() && fetch.is_wanted() {
            continue;
        }
        let blocks = version.remaining(fetch.id);
        if (blocks.is_empty() || !fetch.is_wanted()) && version.give_up(fetch.id, None) {
            break Ok(());
        }
        let mut attempt = Attempt { meters, fetch: &fetch, slot, buffer, progressed: false, refused: false };
        let result = attempt.fetch(blocks, retry.cuts);
        let Attempt { progressed, refused, .. } = attempt;
        let Err(error) = result else { continue };
        if refused {
            // The next attempt receives through memory.
            continue;
        }
        if let Failed::Store(StoreError::RangeIgnored { .. }) = error {
            version.fetch_whole();
            continue;
        }
        match retry.wait(meters, &fetch, error, progressed) {
            Ok(()) => {}
            Err(GaveUp::Permanent(error)) => break Err(error),
            // A read that started just now has a right to tries of its own.
            Err(GaveUp::Unwanted(error)) if version.give_up(fetch.id, Some(&error)) => break Err(error),
            Err(GaveUp::Unwanted(_)) => {}
        }
    };
    drop((reader, lease));
    meters.requests.fetch_add(1, Ordering::Relaxed);
    if let Err(error) = &result {
        version.failed(fetch.id, error);
    }
    version.verify_if_complete();
    if let Some(job) = fetch.job {
        job.ended(result.err());
    }
}

/// Makes the buffer as long as a fetch needs it. A longer one of an earlier fetch is freed: the
/// memory of all threads is counted by what they fetch.
fn fit(buffer: &mut Vec<u8>, length: usize) {
    if buffer.capacity() > length {
        *buffer = Vec::new();
    }
    buffer.reserve_exact(length.saturating_sub(buffer.len()));
    buffer.resize(length, 0);
}

/// The right to fetch, among the processes that share the cache.
struct Lease<'a> {
    fetch: &'a Fetch,
    since: Instant,
    turn: FetchTurn,
}

impl<'a> Lease<'a> {
    fn new(fetch: &'a Fetch) -> Self {
        Self { fetch, since: Instant::now(), turn: FetchTurn::Theirs }
    }

    /// Returns true once this process may fetch. Otherwise waits a moment, and delivers what the
    /// other process has cached. If that takes too long, both fetch the blocks.
    fn acquire(&mut self, buffer: &mut [u8]) -> bool {
        if let FetchTurn::Ours { .. } = self.turn {
            return true;
        }
        let version = &self.fetch.version;
        let at_once = self.fetch.took_over || self.since.elapsed() > BRIEFLY;
        self.turn = if at_once {
            FetchTurn::Ours { _lease: None }
        } else {
            version.blocks.try_lease(&self.fetch.blocks)
        };
        if version.deliver_cached(self.fetch.id, buffer) {
            self.since = Instant::now();
        }
        let ours = matches!(self.turn, FetchTurn::Ours { .. });
        if ours {
            version.set_lease(self.fetch.id);
        } else {
            std::thread::sleep(POLL);
        }
        ours
    }
}

struct Attempt<'a> {
    meters: &'a FetchMeters,
    fetch: &'a Fetch,
    slot: usize,
    buffer: &'a mut [u8],
    progressed: bool,
    /// The cached file refused a block on its way into it.
    refused: bool,
}

impl Attempt<'_> {
    /// One request; for a local file one for each block, because its version is checked only after
    /// the last byte of a request, and no block may be stored before.
    fn fetch(&mut self, blocks: Range<u64>, cuts: u32) -> Result<(), Failed> {
        if let Location::Local(_) = self.fetch.version.location {
            return blocks.into_iter().try_for_each(|block| self.request(block..block + 1, cuts));
        }
        self.request(blocks, cuts)
    }

    fn request(&mut self, blocks: Range<u64>, cuts: u32) -> Result<(), Failed> {
        let cancel = Cancel::new();
        let meters = self.meters;
        let request = meters.tracker.begin(self.slot, Wait::Head, cancel.clone(), cuts, Instant::now());
        let result = self.receive_all(blocks, cancel, &request);
        let cut = request.end(result.is_ok(), Instant::now());
        result.map_err(|error| match error {
            _ if cut => Failed::Cut,
            // A request cut just as the head of its response arrives reports that only here.
            StoreError::Cancelled => Failed::Cut,
            error => Failed::Store(error),
        })
    }

    fn receive_all(
        &mut self,
        blocks: Range<u64>,
        cancel: Cancel,
        request: &InFlightRequest<'_, Cancel>,
    ) -> Result<(), StoreError> {
        let version = &self.fetch.version;
        let range = self.fetch.requested(&blocks);
        let is_whole = version.is_whole();
        // A response with the whole object may carry its checksum.
        let whole = is_whole || range.len() == version.size();
        let blocks = if is_whole { 0..blocks.end } else { blocks };
        let get = Get {
            range: (!whole).then_some(range),
            version: Some(version.version.clone()),
            cancel,
            checksum: whole && version.blocks.has_cache(),
            throttle: self.throttle().cloned().unwrap_or_default(),
            ..Get::default()
        };
        version.engine.counters.started(self.fetch.priority);
        let mut body = version.engine.store.get(&version.location, &get)?;
        let head = Instant::now();
        request.head_arrived(range.len(), head);
        let progress = || match get.throttle.is_unlimited() {
            true => request.bytes_arrived(Instant::now()),
            false => request.paused(),
        };
        progress();
        if get.checksum {
            version.blocks.set_checksum(body.stat().checksum.clone());
        }
        let mut received = 0;
        for block in blocks {
            let bytes = self.fetch.requested(&(block..block + 1));
            let outcome = match is_whole {
                true => CacheOutcome::NotTried,
                false => self.receive_into_cache(&mut body, block, bytes)?,
            };
            let read = match outcome {
                CacheOutcome::Cached => self.len(bytes),
                _ => self.receive_into_buffer(&mut body, bytes)?,
            };
            self.progressed = true;
            self.meters.moved.fetch_add(bytes.len(), Ordering::Relaxed);
            received += bytes.len();
            if is_whole && !version.is_owned_by(self.fetch.id, block) {
                progress();
                continue;
            }
            if bytes.len() < version.blocks.bytes(&(block..block + 1)).len() {
                version.arrived_in_part(self.fetch.id, block, bytes.start, &self.buffer[..read]);
            } else {
                self.store(block, read, outcome);
            }
            let is_wanted = self.fetch.priority == Priority::Demand || self.fetch.is_wanted();
            if !is_wanted || !version.is_needed(self.fetch.id) {
                break;
            }
            self.yield_to_readers(bytes.len(), request);
            if is_whole {
                self.wait_for_readers(block + 1, request);
            }
            progress();
        }
        if get.throttle.is_unlimited() && !is_whole {
            self.meters.tracker.learn_rate(received, head.elapsed());
        }
        Ok(())
    }

    /// Receives a block directly into the cached file, and from there into the buffer, if
    /// possible. Not for a response that cannot be repeated: bytes in transit when the disk is
    /// full are lost.
    fn receive_into_cache(
        &mut self,
        body: &mut Body,
        block: u64,
        bytes: ByteRange,
    ) -> Result<CacheOutcome, StoreError> {
        if !body.can_bypass() {
            return Ok(CacheOutcome::NotTried);
        }
        let (len, exempt, fetch) = (self.len(bytes), self.fetch.exempt(), self.fetch);
        let received =
            fetch.version.blocks.receive(block, &mut self.buffer[..len], exempt, |sink, at, scratch| {
                let moved = body.write_to(sink, at, bytes.len(), scratch, None, &mut |_| {})?;
                check_length(fetch, moved, bytes)
            });
        self.refused = matches!(received, Err(StoreError::Io { .. }));
        received
    }

    /// Receives a block into the buffer.
    fn receive_into_buffer(&mut self, body: &mut Body, bytes: ByteRange) -> Result<usize, StoreError> {
        let (want, mut done) = (self.len(bytes), 0);
        while done < want {
            match body.read(&mut self.buffer[done..want])? {
                0 => break,
                read => done += read,
            }
        }
        check_length(self.fetch, done as u64, bytes)?;
        Ok(done)
    }

    /// Stores the first `length` bytes of the buffer as a block, unless it is in the cache
    /// already, and delivers it.
    fn store(&self, block: u64, length: usize, outcome: CacheOutcome) {
        let Fetch { version, id, priority, job, .. } = self.fetch;
        let bytes = &self.buffer[..length];
        let cached =
            outcome == CacheOutcome::Cached || version.store(block, bytes, outcome, self.fetch.exempt());
        if let (false, Some(job)) = (cached, job) {
            job.refused(&version.location);
        }
        version.arrived(*id, block, bytes, *priority);
        if let Some(job) = job {
            job.received(length as u64);
        }
    }

    /// Length of a block, at most that of the buffer.
    fn len(&self, bytes: ByteRange) -> usize {
        to_usize(bytes.len()).min(self.buffer.len())
    }

    /// The limits on the rate of a background fetch.
    fn throttle(&self) -> Option<&Throttle> {
        let background = self.fetch.priority == Priority::Background;
        self.fetch.job.as_ref().filter(|_| background).map(|job| job.throttle())
    }

    /// Keeps a whole response close to its readers if only memory holds it.
    fn wait_for_readers(&self, block: u64, request: &InFlightRequest<'_, Cancel>) {
        let version = &self.fetch.version;
        request.paused();
        // While the file is open, this fetch is not the only owner of the version.
        while version.is_far_ahead(block) && std::sync::Arc::strong_count(version) > 1 {
            std::thread::sleep(POLL);
        }
    }

    /// Pauses background work while readers fetch.
    fn yield_to_readers(&self, bytes: u64, request: &InFlightRequest<'_, Cancel>) {
        if self.fetch.priority != Priority::Background {
            return;
        }
        let throttle = &self.meters.throttle;
        let pause = throttle.pause_after(bytes, Instant::now());
        if pause.is_zero() {
            return;
        }
        request.paused();
        let start = Instant::now();
        loop {
            let left = pause.saturating_sub(start.elapsed());
            if left.is_zero() || throttle.is_clear(Instant::now()) || !self.fetch.is_wanted() {
                return;
            }
            std::thread::sleep(left.min(POLL));
        }
    }
}

/// Fails if fewer bytes of a block were received than it has.
fn check_length(fetch: &Fetch, received: u64, bytes: ByteRange) -> Result<(), StoreError> {
    let missing = bytes.len() - received;
    let location = || fetch.version.location.to_string();
    if missing == 0 { Ok(()) } else { Err(StoreError::Truncated { location: location(), missing }) }
}
