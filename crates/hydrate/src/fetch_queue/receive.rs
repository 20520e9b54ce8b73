//! Runs one fetch: a ranged request over adjacent blocks, received block by block.
//!
//! A fetch needs memory for one block at most, however long the request is. Blocks that were
//! received before a failure stay, and so do the first bytes of the next block; only the rest is
//! requested again. Called by the threads of the [`FetchQueue`]; reports to the table of blocks.

use std::cell::Cell;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use firstbyte_fetch::{Attempt, Interest, RequestEnd, RequestEvent, TrackerSlot, Tries};
use firstbyte_location::{ByteRange, Location, to_usize};
use firstbyte_pacing::{RequestTracker, Throttle, Wait};
use firstbyte_store::{Body, Cancel, Error as StoreError, Get, Outages, SHORT_WAIT};

use super::FetchQueue;
use super::background_throttle::BackgroundThrottle;
use crate::block_store::{CacheOutcome, FetchTurn};
use crate::block_table::{Fetch, Priority, Requests};
use crate::error::Error;
use crate::limits::POLL_INTERVAL;

/// Meters that all fetches update and the queue's supervisor reads.
pub(super) struct FetchMeters {
    pub(super) tracker: RequestTracker<Cancel>,
    pub(super) throttle: BackgroundThrottle,
    /// Number of bytes received.
    pub(super) moved: AtomicU64,
    /// Number of fetches that have ended.
    pub(super) ended_fetches: AtomicU64,
    /// Number of responses that asked for a slower rate.
    pub(super) slowdowns: AtomicU64,
}

impl FetchMeters {
    /// Creates meters for fetches on at most `slots` threads.
    pub(super) fn new(slots: usize) -> Self {
        Self {
            tracker: RequestTracker::new(slots, Instant::now()),
            throttle: BackgroundThrottle::default(),
            moved: AtomicU64::new(0),
            ended_fetches: AtomicU64::new(0),
            slowdowns: AtomicU64::new(0),
        }
    }
}

/// Maximum number of retries of a fetch ahead. If a read waits for the fetch, it is retried as
/// often as any other request.
const MAX_AHEAD_RETRIES: u32 = 3;

/// Brings the blocks of a fetch, or reports an error to the reads that wait for them. A panic is
/// reported as an error as well, so that no block keeps an owner.
pub(super) fn run(queue: &Arc<FetchQueue>, fetch: Fetch, slot: usize, buffer: &mut Vec<u8>) {
    let caught = catch_unwind(AssertUnwindSafe(|| bring(queue, &fetch, slot, buffer)));
    queue.meters.ended_fetches.fetch_add(1, Ordering::Relaxed);
    let table = &fetch.table;
    let result = caught.unwrap_or_else(|_| Err(Error::Panicked { location: table.location.to_string() }));
    if let Err(error) = &result {
        table.fail_fetch(fetch.id, error);
    }
    table.verify_if_complete(&queue.store);
    if let Some(job) = fetch.job {
        job.count_end(result.err());
    }
}

fn bring(queue: &Arc<FetchQueue>, fetch: &Fetch, slot: usize, buffer: &mut Vec<u8>) -> Result<(), Error> {
    resize_buffer(buffer, to_usize(fetch.buffer()));
    let table = &fetch.table;
    table.record_start(fetch.id);
    if fetch.job.as_ref().is_some_and(|job| job.take_checksum_request()) {
        table.learn_checksum(&queue.store);
    }
    let throttle = &queue.meters.throttle;
    let _reader = (fetch.priority != Priority::Background).then(|| throttle.begin_reader());
    let interest = FetchInterest { queue, fetch };
    let mut receiver = Receiver::new(queue, fetch, buffer);
    let slot = TrackerSlot { tracker: &queue.meters.tracker, index: slot };
    loop {
        let (error, is_final) = match slot.request(&interest, None, |attempt| receiver.receive_all(attempt)) {
            Ok(()) => return Ok(()),
            // The request was cut off, and the object allows only one response.
            Err(RequestEnd::Failed(StoreError::Cancelled)) => {
                (Error::Unversioned { location: table.location.to_string() }, true)
            }
            Err(RequestEnd::Failed(error)) => (error.into(), true),
            Err(RequestEnd::Unwanted(error)) => {
                (error.unwrap_or_else(|| interest.error_of_cut_request()).into(), false)
            }
        };
        // The fetch continues if a read has just joined it, because the new read is entitled to
        // attempts of its own.
        if is_final || table.give_up(fetch.id, Some(&error)) {
            return Err(error);
        }
    }
}

/// Reports whether reads or a job still want a fetch.
struct FetchInterest<'a> {
    queue: &'a FetchQueue,
    fetch: &'a Fetch,
}

impl FetchInterest<'_> {
    /// Returns the error of a fetch whose last request was cut off: `Cancelled` if the job was
    /// cancelled, otherwise a timeout of the server.
    fn error_of_cut_request(&self) -> StoreError {
        let (location, after) = (self.fetch.table.location.to_string(), self.queue.deadline);
        if self.fetch.is_wanted() {
            StoreError::TimedOut { location, after, trace: None }
        } else {
            StoreError::Cancelled
        }
    }
}

impl Interest for FetchInterest<'_> {
    fn is_wanted(&self, tries: Tries) -> bool {
        if tries == Tries::default() {
            return true;
        }
        match (self.deadline(), self.fetch.priority) {
            (Some(deadline), _) => deadline > Instant::now(),
            // A reader may have promoted this fetch of a job and then left. Then the job decides.
            (None, _) if self.fetch.job.is_some() => self.fetch.is_wanted(),
            (None, Priority::Ahead) => {
                tries.failures.max(tries.cuts) <= MAX_AHEAD_RETRIES && self.fetch.is_wanted()
            }
            (None, Priority::Demand | Priority::Background) => false,
        }
    }

    /// Returns true: the table's version came from a response, so the endpoint has answered before.
    fn is_known(&self) -> bool {
        true
    }

    /// Fetches for readers fail at an outage, because the deadline of a read covers all of its
    /// requests. Background work waits until the server responds again.
    fn outages(&self) -> Outages {
        match self.fetch.priority {
            Priority::Background => Outages::WaitFor,
            Priority::Demand | Priority::Ahead => Outages::FailFast,
        }
    }

    fn is_repeatable(&self) -> bool {
        !self.fetch.table.is_fetched_once()
    }

    fn deadline(&self) -> Option<Instant> {
        self.fetch.table.latest_deadline(self.fetch.id)
    }

    fn count(&self, event: RequestEvent) {
        let counters = &self.queue.counters;
        let counter = match event {
            RequestEvent::Cut => &counters.cuts,
            RequestEvent::Retry => &counters.retries,
            RequestEvent::SlowDown => &self.queue.meters.slowdowns,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Makes the buffer as long as the fetch needs. A longer buffer from an earlier fetch is freed,
/// because memory is counted by the fetches that run.
fn resize_buffer(buffer: &mut Vec<u8>, length: usize) {
    if buffer.capacity() > length {
        *buffer = Vec::new();
    }
    buffer.reserve_exact(length.saturating_sub(buffer.len()));
    buffer.resize(length, 0);
}

/// The lease of a fetch: the right to fetch its blocks, which only one of the processes sharing the
/// cache can have.
struct Lease<'a> {
    queue: &'a Arc<FetchQueue>,
    fetch: &'a Fetch,
    since: Instant,
    turn: FetchTurn,
}

impl<'a> Lease<'a> {
    fn new(queue: &'a Arc<FetchQueue>, fetch: &'a Fetch) -> Self {
        Self { queue, fetch, since: Instant::now(), turn: FetchTurn::Theirs }
    }

    /// Returns true once this process may fetch. Otherwise waits a moment and delivers the blocks
    /// that the other process has cached. If no block is cached for [`SHORT_WAIT`], this process
    /// fetches the blocks too.
    fn acquire(&mut self, buffer: &mut [u8]) -> bool {
        if let FetchTurn::Ours { .. } = self.turn {
            return true;
        }
        let table = &self.fetch.table;
        let at_once = self.fetch.took_over || self.since.elapsed() > SHORT_WAIT;
        self.turn = if at_once {
            FetchTurn::Ours { _lease: None }
        } else {
            table.blocks.try_lease(&self.fetch.blocks)
        };
        if let Some(requests) = table.deliver_cached(self.fetch.id, buffer) {
            self.queue.submit(requests);
            self.since = Instant::now();
        }
        let ours = matches!(self.turn, FetchTurn::Ours { .. });
        if ours {
            table.set_lease(self.fetch.id);
        } else {
            std::thread::sleep(POLL_INTERVAL);
        }
        ours
    }
}

/// Receives the blocks of a fetch in order.
struct Receiver<'a> {
    queue: &'a Arc<FetchQueue>,
    fetch: &'a Fetch,
    lease: Lease<'a>,
    buffer: &'a mut [u8],
    /// True if the cached file has just failed to receive a block.
    is_refused: bool,
    /// The index of a block whose first bytes are in the buffer, and the number of these bytes.
    partial: Option<(u64, usize)>,
}

impl<'a> Receiver<'a> {
    fn new(queue: &'a Arc<FetchQueue>, fetch: &'a Fetch, buffer: &'a mut [u8]) -> Self {
        let lease = Lease::new(queue, fetch);
        Self { queue, fetch, lease, buffer, is_refused: false, partial: None }
    }

    /// Receives the blocks that the fetch has yet to bring, in one attempt. An attempt makes
    /// several requests for a local file, or if other fetches take blocks over.
    fn receive_all(&mut self, attempt: &mut Attempt<'_>) -> Result<(), StoreError> {
        let (fetch, table) = (self.fetch, &self.fetch.table);
        loop {
            if !self.lease.acquire(self.buffer) && !table.remaining(fetch.id).is_empty() && fetch.is_wanted()
            {
                continue;
            }
            let blocks = table.remaining(fetch.id);
            if (blocks.is_empty() || !fetch.is_wanted()) && table.give_up(fetch.id, None) {
                return Ok(());
            }
            match self.request_each(attempt, blocks) {
                Err(StoreError::RangeIgnored { .. }) => self.queue.submit(table.request_whole()),
                // The cached file could not receive a block, so the next attempt receives through
                // memory.
                Err(StoreError::Io { .. }) if std::mem::take(&mut self.is_refused) => {}
                received => received?,
            }
        }
    }

    /// Makes one request for all blocks. For a local file, makes one request per block, because the
    /// version of a local file is checked only after the last byte of a request, and no block may
    /// be stored before that.
    fn request_each(&mut self, attempt: &mut Attempt<'_>, blocks: Range<u64>) -> Result<(), StoreError> {
        if let Location::Local(_) = self.fetch.table.location {
            return blocks.into_iter().try_for_each(|block| self.request(attempt, block..block + 1));
        }
        self.request(attempt, blocks)
    }

    fn request(&mut self, attempt: &mut Attempt<'_>, blocks: Range<u64>) -> Result<(), StoreError> {
        let (fetch, table) = (self.fetch, &self.fetch.table);
        let is_whole = table.is_whole();
        let partial = self.partial.take().filter(|(block, _)| *block == blocks.start && !is_whole);
        let mut kept = partial.map_or(0, |(_, kept)| kept);
        let range = fetch.requested(&blocks).skip(kept as u64);
        // A response with the whole object may contain its checksum.
        let whole = is_whole || range.len() == table.size();
        let blocks = if is_whole { 0..blocks.end } else { blocks };
        attempt.begin(Wait::Head);
        let get = Get {
            range: (!whole).then_some(range),
            version: Some(table.version.clone()),
            checksum: whole && table.blocks.has_cache(),
            ..attempt.get_options(&self.throttle().cloned().unwrap_or_default())
        };
        self.queue.counters.count_fetch(fetch.priority);
        let mut body = self.queue.store.get(&table.location, &get)?;
        let head = Instant::now();
        attempt.head_arrived(range.len());
        if get.checksum {
            table.blocks.set_checksum(body.stat().checksum.clone());
        }
        let mut received = 0;
        for block in blocks {
            let bytes = fetch.requested(&(block..block + 1));
            let (read, outcome) =
                self.receive_block(attempt, &mut body, block, std::mem::take(&mut kept), is_whole)?;
            attempt.record_progress(bytes.end);
            self.queue.meters.moved.fetch_add(bytes.len(), Ordering::Relaxed);
            received += bytes.len();
            if is_whole && !table.is_owned_by(fetch.id, block) {
                continue;
            }
            self.queue.counters.count_received(fetch.priority, read);
            self.queue.submit(if bytes.len() < table.blocks.bytes(&(block..block + 1)).len() {
                table.arrived_in_part(fetch.id, block, bytes.start, &self.buffer[..read])
            } else {
                self.store(block, read, outcome)
            });
            if let Some(job) = &fetch.job {
                job.count_received(read as u64);
            }
            let is_wanted = fetch.priority == Priority::Demand || fetch.is_wanted();
            if !is_wanted || !table.is_needed(fetch.id) {
                break;
            }
            self.yield_to_readers(bytes.len(), attempt);
            if is_whole {
                self.wait_for_readers(block + 1, attempt);
            }
            attempt.record_progress(bytes.end);
        }
        if get.throttle.is_unlimited() && !is_whole {
            self.queue.meters.tracker.learn_rate(received, head.elapsed());
        }
        Ok(())
    }

    /// Receives a block whose first `kept` bytes are already in the buffer. Returns the length of
    /// the block.
    fn receive_block(
        &mut self,
        attempt: &mut Attempt<'_>,
        body: &mut Body,
        block: u64,
        kept: usize,
        is_whole: bool,
    ) -> Result<(usize, CacheOutcome), StoreError> {
        let bytes = self.fetch.requested(&(block..block + 1));
        let outcome = match is_whole || kept > 0 {
            true => CacheOutcome::NotTried,
            false => self.receive_into_cache(attempt, body, block, bytes)?,
        };
        if outcome == CacheOutcome::Cached {
            return Ok((self.len(bytes), outcome));
        }
        let (want, mut done) = (self.len(bytes), kept);
        while done < want {
            let read = body.read(&mut self.buffer[done..want]);
            if let Err(_) | Ok(0) = read {
                self.partial = Some((block, done));
            }
            match read? {
                0 => break,
                read => done += read,
            }
            // A response with the whole object cannot be resumed inside a block, because a repeated
            // one starts at byte 0. So only complete blocks count as progress.
            attempt.record_progress(if is_whole { bytes.start } else { bytes.start + done as u64 });
        }
        check_length(self.fetch, done as u64, bytes)?;
        Ok((done, outcome))
    }

    /// Receives a block directly into the cached file if possible, and reads it into the buffer
    /// from there. Not used for a response that cannot be repeated, because bytes in transit are
    /// lost if the disk is full.
    fn receive_into_cache(
        &mut self,
        attempt: &mut Attempt<'_>,
        body: &mut Body,
        block: u64,
        bytes: ByteRange,
    ) -> Result<CacheOutcome, StoreError> {
        if !body.can_bypass() {
            return Ok(CacheOutcome::NotTried);
        }
        let (len, exempt, fetch) = (self.len(bytes), self.fetch.exempt(), self.fetch);
        let done = Cell::new(0);
        let mut progress = |moved| {
            done.set(done.get() + moved);
            attempt.record_progress(bytes.start + done.get());
        };
        let mut kept = false;
        let received =
            fetch.table.blocks.receive(block, &mut self.buffer[..len], exempt, |sink, at, scratch| {
                let moved = body.write_to(sink, at, bytes.len(), scratch, None, &mut progress);
                let received = moved.and_then(|moved| check_length(fetch, moved, bytes));
                // The next attempt continues after the bytes that have arrived. If the file was cut
                // short, they may be zeros, so they are not used.
                let arrived = &mut scratch[..to_usize(done.get())];
                let is_uncut = || sink.file().metadata().is_ok_and(|found| found.len() == fetch.table.size());
                kept = received.is_err() && sink.file().read_exact_at(arrived, at).is_ok() && is_uncut();
                received
            });
        self.partial = kept.then_some((block, to_usize(done.get())));
        self.is_refused = matches!(received, Err(StoreError::Io { .. }));
        received
    }

    /// Stores the first `length` bytes of the buffer as a block, unless the block is cached
    /// already, and delivers the block.
    fn store(&self, block: u64, length: usize, outcome: CacheOutcome) -> Requests {
        let Fetch { table, id, job, .. } = self.fetch;
        let bytes = &self.buffer[..length];
        if outcome != CacheOutcome::Cached && !table.store(block, bytes, outcome, self.fetch.exempt()) {
            self.queue.counters.uncached.fetch_add(1, Ordering::Relaxed);
            if let Some(job) = job {
                job.fail_without_room(&table.location, table.blocks.capacity());
            }
        }
        table.arrived(*id, block, bytes)
    }

    /// Returns the length of a block, but at most the length of the buffer.
    fn len(&self, bytes: ByteRange) -> usize {
        to_usize(bytes.len()).min(self.buffer.len())
    }

    /// Returns the limits on the rate of a background fetch. `None` for other fetches.
    fn throttle(&self) -> Option<&Throttle> {
        let background = self.fetch.priority == Priority::Background;
        self.fetch.job.as_ref().filter(|_| background).map(|job| job.throttle())
    }

    /// Waits while a whole response is too far ahead of its readers and its blocks are only in
    /// memory.
    fn wait_for_readers(&self, block: u64, attempt: &Attempt<'_>) {
        let table = &self.fetch.table;
        attempt.record_pause();
        // While a file is open, it owns the table too, so the count is above 1.
        while table.is_far_ahead(block) && Arc::strong_count(table) > 1 {
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Pauses a background fetch while readers fetch.
    fn yield_to_readers(&self, bytes: u64, attempt: &Attempt<'_>) {
        let yields = || self.fetch.table.yields(self.fetch.id);
        if self.fetch.priority != Priority::Background || !yields() {
            return;
        }
        let throttle = &self.queue.meters.throttle;
        let pause = throttle.pause_after(bytes, Instant::now());
        if pause.is_zero() {
            return;
        }
        attempt.record_pause();
        let start = Instant::now();
        loop {
            let left = pause.saturating_sub(start.elapsed());
            if left.is_zero() || throttle.is_clear(Instant::now()) || !self.fetch.is_wanted() || !yields() {
                return;
            }
            std::thread::sleep(left.min(POLL_INTERVAL));
        }
    }
}

/// Fails if fewer bytes were received than the block has.
fn check_length(fetch: &Fetch, received: u64, bytes: ByteRange) -> Result<(), StoreError> {
    let missing = bytes.len() - received;
    let location = || fetch.table.location.to_string();
    if missing == 0 {
        Ok(())
    } else {
        Err(StoreError::Truncated { location: location(), missing, trace: None })
    }
}
