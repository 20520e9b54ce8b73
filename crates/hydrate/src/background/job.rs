//! Runs a hydration job on its thread: opens the wanted files in order, makes room for each file in
//! the cache, submits its fetches as fast as the workers start them, and verifies the fetched
//! content.

use std::cell::LazyCell;
use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use firstbyte_location::{ByteRange, Location, Strength};
use firstbyte_pacing::{LONGEST_REQUEST, RateLimit};

use crate::block::{BLOCK, block_range, blocks_of};
use crate::error::{Error, Result};
use crate::job_state::{FetchPace, HydrationProgress, JobFile, JobState};
use crate::limits::ATTEMPTS;
use crate::version::{HydrationContext, SharedVersion};
use crate::wanted::{HydrationFailure, HydrationItem, HydrationList};

use super::disk_writer::DiskWriter;

/// Minimum length of an object for which the checksum of the whole object is requested early, so
/// that its blocks are hashed as they arrive. A smaller object is read back from the cache and
/// hashed at the end, which takes a few milliseconds.
const LEARN_CHECKSUM_FROM: u64 = LONGEST_REQUEST;
/// Maximum number of files that are found before the job can start them. Each takes some hundred
/// bytes.
const MAX_FILES_AHEAD: usize = 10_000;
/// Number of newly fetched bytes of a file after which the disk starts to write them.
const WRITE_AFTER_BYTES: u64 = 16 << 20;
/// Interval at which the job looks for blocks that arrived for readers. Such a block does not
/// notify the job.
const POLL_INTERVAL: Duration = firstbyte_store::POLL_INTERVAL;

/// A hydration that is running or over. Clones refer to the same job; dropping them does not end
/// the job.
#[derive(Clone)]
pub struct HydrationJob {
    state: Arc<JobState>,
}

impl HydrationJob {
    /// Starts a thread that fetches the `wanted` files at no more than `rate` bytes per second.
    /// Without a rate, `pace` sets how fast the job fetches while readers fetch.
    pub(crate) fn start(
        context: &Arc<HydrationContext>,
        wanted: HydrationList,
        rate: Option<u64>,
        pace: FetchPace,
    ) -> Result<Self> {
        let own = rate.map(|rate| Arc::new(RateLimit::new(rate)));
        let throttle = own.into_iter().chain(context.background_limit.clone()).collect();
        let state = Arc::new(JobState::new(throttle, pace));
        let job = Self { state: Arc::clone(&state) };
        let context = Arc::clone(context);
        let work = move || {
            if catch_unwind(AssertUnwindSafe(|| run(&context, &state, wanted))).is_err() {
                state.end_panicked();
            }
        };
        let spawned = std::thread::Builder::new().name("hydrate".into()).spawn(work);
        spawned.map_err(|source| Error::Thread { source: Arc::new(source) })?;
        Ok(job)
    }

    /// Returns the progress so far.
    #[must_use]
    pub fn progress(&self) -> HydrationProgress {
        self.state.snapshot()
    }

    /// Cancels the job, which ends after its running fetches. Cached blocks stay.
    pub fn cancel(&self) {
        self.state.cancel();
    }

    /// Waits until the job is over or `timeout` has passed. Returns the progress.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> HydrationProgress {
        let until = Instant::now() + timeout;
        let mut progress = self.state.lock_progress();
        while !progress.is_over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            progress = self.state.wait(progress, left);
        }
        drop(progress);
        self.progress()
    }

    /// Waits until a fetch of the job has ended, the job is over, or `timeout` has passed. Returns
    /// the progress. A fetch that ended just before the call is missed, so use a short timeout.
    #[must_use]
    pub fn wait_for_more(&self, timeout: Duration) -> HydrationProgress {
        let progress = self.state.lock_progress();
        if !progress.is_over {
            drop(self.state.wait(progress, timeout));
        }
        self.progress()
    }
}

/// A wanted file or range that was found.
struct FoundItem {
    item: HydrationItem,
    /// True if this item is the first of its object. If several ranges of an object are wanted,
    /// only the first counts as a file.
    is_first: bool,
}

/// The wanted files, counted as they are found. While a rate limit leaves the thread idle, it finds
/// files that the job cannot start yet, so that the totals are known early.
struct WantedFiles {
    list: HydrationList,
    /// Files that were found and not started yet.
    found: VecDeque<std::result::Result<FoundItem, HydrationFailure>>,
    /// Objects of which a range was found, so that a second range does not count as another file.
    ranged: HashSet<Location>,
    is_ended: bool,
}

impl WantedFiles {
    fn new(list: HydrationList) -> Self {
        Self { list, found: VecDeque::new(), ranged: HashSet::new(), is_ended: false }
    }

    /// Returns the next file.
    fn next(&mut self, job: &JobState) -> Option<std::result::Result<FoundItem, HydrationFailure>> {
        self.found.pop_front().or_else(|| self.find(job))
    }

    /// Finds one more file before the job can start it. Returns false if there is no other, or if
    /// [`MAX_FILES_AHEAD`] files wait.
    fn look_ahead(&mut self, job: &JobState) -> bool {
        if self.is_ended || self.found.len() >= MAX_FILES_AHEAD {
            return false;
        }
        let found = self.find(job);
        self.found.extend(found);
        true
    }

    fn find(&mut self, job: &JobState) -> Option<std::result::Result<FoundItem, HydrationFailure>> {
        let found = if self.is_ended { None } else { self.list.next() };
        self.is_ended = found.is_none();
        let mut progress = job.lock_progress();
        progress.totals_are_final = self.is_ended;
        let item = match found? {
            Ok(item) => item,
            Err(failure) => return Some(Err(failure)),
        };
        let is_first = item.range.is_none() || self.ranged.insert(item.location.clone());
        progress.files += u64::from(is_first);
        job.note_found(&item.location);
        progress.bytes = progress.bytes.saturating_add(item.listed_bytes());
        Some(Ok(FoundItem { item, is_first }))
    }
}

/// Runs a job on the job's thread.
fn run(context: &Arc<HydrationContext>, job: &Arc<JobState>, wanted: HydrationList) {
    let mut wanted = WantedFiles::new(wanted);
    let mut active: VecDeque<ActiveFile> = VecDeque::new();
    let mut waiting_file: Option<Candidate> = None;
    let mut exhausted = false;
    let mut least_refused = u64::MAX;
    let disk_writer: LazyCell<Option<DiskWriter>> = LazyCell::new(DiskWriter::start);
    while !job.is_cancelled() {
        let mut busy = active.iter_mut().any(|file| file.submit(context));
        // The next file starts only when all fetches of the active files are submitted, so files
        // are fetched in order.
        let has_room = context.queue.has_room_in_background() && job.may_submit();
        if waiting_file.is_none() && !exhausted && has_room && active.iter().all(ActiveFile::is_submitted) {
            match wanted.next(job) {
                Some(Ok(wanted)) => waiting_file = open(context, job, wanted),
                Some(Err(failure)) => job.fail(failure),
                None => exhausted = true,
            }
            busy = true;
        }
        if !busy && !job.throttle.is_unlimited() {
            busy = wanted.look_ahead(job);
        }
        // A file that found no room waits until no other file is active.
        let waits = waiting_file.as_ref().is_some_and(|candidate| candidate.is_waiting && !active.is_empty());
        if !waits && let Some(candidate) = waiting_file.take() {
            let promised = active.iter().map(ActiveFile::promised).sum();
            match candidate.admit(job, promised, &mut least_refused) {
                Admission::Started(file) => active.push_back(file),
                Admission::Later(candidate) => waiting_file = Some(candidate),
                Admission::Refused => {}
            }
        }
        active.iter_mut().for_each(|file| file.begin_writing(&disk_writer));
        active.retain_mut(|file| !file.finish(job));
        if exhausted && waiting_file.is_none() && active.is_empty() {
            break;
        }
        if !busy {
            drop(job.wait(job.lock_progress(), POLL_INTERVAL));
        }
    }
    // The running fetches of a cancelled job end with their next block; wait for them.
    let mut progress = job.lock_progress();
    while active.iter().any(|file| !file.shared.is_idle()) {
        progress = job.wait(progress, POLL_INTERVAL);
    }
    job.end(progress);
}

/// Opens a wanted file. Returns `None`, and records the failure, if the file cannot be hydrated.
fn open(context: &Arc<HydrationContext>, job: &JobState, found: FoundItem) -> Option<Candidate> {
    let FoundItem { item: wanted, is_first } = found;
    // The total contains the listed bytes of the file. They are subtracted here, because `start`
    // adds the whole blocks of the file.
    let mut progress = job.lock_progress();
    progress.bytes = progress.bytes.saturating_sub(wanted.listed_bytes());
    drop(progress);
    let location = wanted.location;
    let opened = match wanted.version {
        Some(version) => Ok(context.open_version(&location, version)),
        None => context.open(&location),
    };
    let version = match opened {
        Ok(version) => version,
        Err(error) => {
            job.fail(HydrationFailure { location, error });
            return None;
        }
    };
    if let Some(error) = unkept_error(&version) {
        job.fail(HydrationFailure { location, error });
        return None;
    }
    let whole = ByteRange::new(0, version.table.size());
    let bytes = wanted.range.map_or(whole, |range| range.intersect(whole));
    let blocks = blocks_of(bytes);
    // Blocks are fetched and counted as wholes, even if only a part of a block is wanted.
    let bytes = version.table.blocks.bytes(&blocks);
    Some(Candidate { version, blocks, bytes, is_first, is_waiting: false })
}

/// Returns the reason why the cache cannot keep an object, if its version gives one. Without a
/// strong `ETag` or version id, the cache drops the content when the last reader closes it, so a
/// hydration would be wasted unless a reader has the object open.
fn unkept_error(version: &SharedVersion) -> Option<Error> {
    let (table, location) = (&version.table, version.table.location.to_string());
    match table.version.strength() {
        _ if table.version.size.is_none() => Some(Error::NoLength { location }),
        Strength::Strong => None,
        _ if Arc::strong_count(table) > 1 => None,
        Strength::Weak => Some(Error::NotKept { location }),
        Strength::None => Some(Error::Unversioned { location }),
    }
}

/// A file of a job that has not started.
struct Candidate {
    version: SharedVersion,
    blocks: Range<u64>,
    bytes: ByteRange,
    /// True if the object counts as done when this item is done.
    is_first: bool,
    /// True if the file found no room before, and waits until no other file is active.
    is_waiting: bool,
}

/// The decision whether a file may start, given the room in the cache.
enum Admission {
    Started(ActiveFile),
    /// No room now. The job tries again when the active files have ended, because their bytes may
    /// have been counted twice: as promised and as cached.
    Later(Candidate),
    Refused,
}

impl Candidate {
    /// Makes room for the file in addition to the `promised` bytes of other files, so that no
    /// fetched block is discarded. `least_refused` is the smallest total for which there was no
    /// room so far; for that many bytes or more, no eviction is tried again.
    fn admit(mut self, job: &Arc<JobState>, promised: u64, least_refused: &mut u64) -> Admission {
        let blocks = &self.version.table.blocks;
        match blocks.make_room(&self.blocks, promised, job.exempt, *least_refused) {
            Ok(cost) => return Admission::Started(self.start(job, cost)),
            Err(Some(_)) if promised > 0 => {
                self.is_waiting = true;
                return Admission::Later(self);
            }
            Err(refused) => {
                *least_refused = refused.map_or(*least_refused, |bytes| bytes.min(*least_refused));
            }
        }
        blocks.release_if_empty();
        let location = self.version.table.location.clone();
        let no_room = || Error::NoRoom { location: location.to_string(), capacity: blocks.capacity() };
        let error = blocks.cache_error().unwrap_or_else(no_room);
        job.fail(HydrationFailure { location, error });
        Admission::Refused
    }

    /// Starts the file, and counts its cached bytes.
    fn start(self, job: &Arc<JobState>, cost: u64) -> ActiveFile {
        let Self { version, blocks, bytes, is_first, .. } = self;
        version.table.blocks.store_empty(job.exempt);
        let mut is_cached = version.table.blocks.ascending_cache_test();
        let cached_blocks = blocks.clone().filter(|block| is_cached(*block));
        let cached: u64 = cached_blocks.map(|block| block_range(block).intersect(bytes).len()).sum();
        drop(is_cached);
        let mut progress = job.lock_progress();
        progress.bytes = progress.bytes.saturating_add(bytes.len());
        progress.bytes_here += cached;
        drop(progress);
        let is_whole = bytes.len() == version.table.size();
        let checksum_wanted = is_whole && cached < bytes.len() && bytes.len() >= LEARN_CHECKSUM_FROM;
        let shared = Arc::new(JobFile::new(Arc::clone(job), cached, checksum_wanted));
        ActiveFile {
            version,
            next_block: blocks.start,
            blocks,
            bytes,
            is_first,
            round: 0,
            cost,
            cached,
            written: 0,
            shared,
        }
    }
}

/// A file of a job that has started.
struct ActiveFile {
    version: SharedVersion,
    blocks: Range<u64>,
    bytes: ByteRange,
    /// True if the object counts as done when this item is done.
    is_first: bool,
    /// The first block that has not been examined in this round. A round is one pass over all
    /// blocks.
    next_block: u64,
    round: u32,
    /// Bytes of disk that the file's uncached blocks needed at the start.
    cost: u64,
    /// Bytes cached at the start.
    cached: u64,
    /// Number of fetched bytes when the disk was last asked to write.
    written: u64,
    shared: Arc<JobFile>,
}

impl ActiveFile {
    /// Submits fetches while the queue has room. Returns whether it had room and blocks were left.
    fn submit(&mut self, context: &HydrationContext) -> bool {
        let mut busy = false;
        while !self.is_submitted() && context.queue.has_room_in_background() && self.shared.may_submit() {
            busy = true;
            let most = self.shared.throttle().request().unwrap_or(u64::MAX);
            let rest = (self.blocks.end - self.next_block) * BLOCK;
            let request = context.queue.background_request(rest).min(most);
            let most = (request / BLOCK).max(1);
            let fetched =
                self.version.fetch_in_background(self.next_block, self.blocks.end, most, &self.shared);
            self.next_block = fetched.map_or(self.blocks.end, |blocks| blocks.end);
        }
        busy
    }

    /// Returns whether all fetches of the current pass over the blocks have been submitted.
    fn is_submitted(&self) -> bool {
        self.next_block >= self.blocks.end || self.shared.has_failed()
    }

    /// Returns the bytes of disk that the file has yet to use.
    fn promised(&self) -> u64 {
        self.cost.saturating_sub(self.fetched())
    }

    /// Returns the number of bytes fetched. Blocks that were fetched several times count several
    /// times.
    fn fetched(&self) -> u64 {
        self.shared.counted() - self.cached
    }

    /// Starts writing the fetched bytes to the disk if there are at least [`WRITE_AFTER_BYTES`] new
    /// ones.
    fn begin_writing(&mut self, writer: &LazyCell<Option<DiskWriter>>) {
        let fetched = self.fetched();
        if fetched.saturating_sub(self.written) < WRITE_AFTER_BYTES {
            return;
        }
        self.written = fetched;
        if let Some(file) = self.version.table.blocks.unsynced_file()
            && let Some(writer) = &**writer
        {
            writer.begin(file);
        }
    }

    /// Returns whether the missing blocks were fetched before and then evicted by other processes
    /// or threads. If so, the job gives up instead of fetching the same blocks again and again.
    fn is_evicted_by_others(&self) -> bool {
        let missing = self.blocks.clone().filter(|block| !self.version.table.blocks.is_cached(*block));
        self.fetched() + missing.count() as u64 * BLOCK > 2 * self.bytes.len().max(BLOCK)
    }

    /// Returns true if the file is over, with or without success. Begins another round if blocks
    /// are missing, because another fetch failed to bring them or because they were evicted.
    fn finish(&mut self, job: &JobState) -> bool {
        if !self.is_submitted() || !self.shared.is_idle() {
            return false;
        }
        let location = self.version.table.location.clone();
        let error = self.shared.error().or_else(|| self.version.table.blocks.checksum_error());
        let has_room = self.version.table.blocks.has_room(&self.blocks);
        if matches!(error, Some(Error::NoRoom { .. })) && has_room && self.round < ATTEMPTS {
            // A block was released or evicted just when it was about to be stored.
            self.shared.forget_error();
            self.round += 1;
            self.next_block = self.blocks.start;
            return false;
        }
        if let Some(error) = error {
            job.fail(HydrationFailure { location, error });
            return true;
        }
        let missing = self.blocks.clone().find(|block| !self.version.table.blocks.is_cached(*block));
        match missing {
            None if self.bytes.len() == self.version.table.size()
                && !self.version.table.blocks.is_settled() =>
            {
                // If nothing had to be fetched, no fetch has verified the version.
                self.version.table.verify_if_complete(&self.version.context.store);
                false
            }
            None => {
                let mut progress = job.lock_progress();
                progress.files_done += u64::from(self.is_first);
                // Blocks that readers fetched were not counted, and blocks that were fetched twice
                // were counted twice. Now the whole file counts once.
                progress.bytes_here += self.bytes.len();
                progress.bytes_here -= self.shared.counted();
                true
            }
            // Another fetch brings the missing block; wait for it.
            Some(block) if self.version.table.is_in_flight(block) => false,
            Some(_) if self.round == ATTEMPTS || self.is_evicted_by_others() => {
                let (location_text, capacity) = (location.to_string(), self.version.table.blocks.capacity());
                let lost = || match has_room {
                    true => Error::Released { location: location_text },
                    false => Error::NoRoom { location: location_text, capacity },
                };
                let error = self.version.table.final_error().unwrap_or_else(lost);
                job.fail(HydrationFailure { location, error });
                true
            }
            Some(block) => {
                self.round += 1;
                self.next_block = block;
                false
            }
        }
    }
}
