//! The thread of a job: which fetches go out next, and what became of those that did.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstbyte_location::{ByteRange, Location};
use firstbyte_pacing::Throttle;

use super::{Failure, JobState};
use crate::cache::Spare;
use crate::here::{block_range, blocks_of};
use crate::node::Node;
use crate::wanted::{Wanted, WantedList};
use crate::{BLOCK, Error, Hydrator};

/// How often a file is gone over for blocks that another fetch was to bring and did not, or that were evicted while others
/// came.
const ROUNDS: u32 = 5;
/// Bytes from which on the checksum over the whole is asked for early, so that blocks are summed up as they come: to read less
/// again takes a few milliseconds.
const LEARN_FROM: u64 = 64 << 20;
/// How often the thread looks about, where nothing tells it to: what readers fetched meanwhile tells nothing.
const LOOK: Duration = Duration::from_millis(20);

/// A file of a job that is not done.
struct Work {
    node: Arc<Node>,
    blocks: Range<u64>,
    bytes: ByteRange,
    /// Blocks before this one have been looked at in this round.
    next: u64,
    round: u32,
    /// Bytes of disk that its missing blocks took when it began, and bytes of it that were here then.
    cost: u64,
    here: u64,
    portion: Arc<Portion>,
}

/// What the fetches of one file of a job share.
pub(crate) struct Portion {
    job: Arc<JobState>,
    running: AtomicUsize,
    /// Bytes of the file that are counted as here.
    counted: AtomicU64,
    error: Mutex<Option<Error>>,
    /// Whether there is an error.
    has_failed: AtomicBool,
    /// Whether the checksum over the whole is to be asked for, by the thread of the first fetch.
    learns: AtomicBool,
}

impl Portion {
    /// Whether the rest is not wanted any more: the job was cancelled, or the file has failed.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.has_failed.load(Relaxed) || self.job.is_cancelled()
    }

    /// What stays in the cache where room has to be made for the file.
    pub(crate) fn spare(&self) -> Spare {
        self.job.spare
    }

    /// The cache had no room for a block: what follows would be fetched to be thrown away.
    pub(crate) fn refused(&self, location: &Location) {
        self.fail(Error::NoRoom { location: location.to_string() });
    }

    fn fail(&self, error: Error) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.has_failed.store(true, Relaxed);
    }

    /// Takes note of a block fetched.
    pub(crate) fn brought(&self, bytes: u64) {
        self.counted.fetch_add(bytes, Relaxed);
        self.job.fetched(bytes);
    }

    /// The limits on the rate of its fetches.
    pub(crate) fn throttle(&self) -> &Throttle {
        &self.job.throttle
    }

    /// Whether who asks is to ask for the checksum over the whole: the others fetch meanwhile.
    pub(crate) fn is_to_learn(&self) -> bool {
        self.learns.swap(false, Relaxed)
    }

    /// A fetch is in line.
    pub(crate) fn begun(&self) {
        self.running.fetch_add(1, Relaxed);
        self.job.running.fetch_add(1, Relaxed);
    }

    /// A fetch is over.
    pub(crate) fn ended(&self, error: Option<Error>) {
        if let Some(error) = error {
            self.fail(error);
        }
        let _progress = self.job.lock();
        self.running.fetch_sub(1, Relaxed);
        self.job.running.fetch_sub(1, Relaxed);
        self.job.changed.notify_all();
    }

    fn is_idle(&self) -> bool {
        self.running.load(Relaxed) == 0
    }

    fn error(&self) -> Option<Error> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A file of a job that has not begun.
struct Candidate {
    node: Arc<Node>,
    blocks: Range<u64>,
    bytes: ByteRange,
    /// Whether it has found no room once.
    waits: bool,
}

/// What the room in the cache lets a job do with a file.
enum Admission {
    /// Begin it.
    Begun(Work),
    /// Ask again when what is under way has ended: it may have been counted twice, on its way and in the cache.
    Later(Candidate),
    /// Leave it.
    Refused,
}

/// Brings here what is wanted.
pub(super) fn run(hydrator: &Hydrator, job: &Arc<JobState>, mut wanted: WantedList) {
    let mut open: VecDeque<Work> = VecDeque::new();
    let mut held: Option<Candidate> = None;
    let mut exhausted = false;
    let mut least_refused = u64::MAX;
    while !job.is_cancelled() {
        let mut fed = open.iter_mut().any(|work| work.feed(hydrator));
        // Another file once all that is open has gone out: so files come in order.
        let has_room = hydrator.has_room_in_background() && job.has_room();
        if held.is_none() && !exhausted && has_room && open.iter().all(Work::has_gone_out) {
            match wanted.next() {
                Some(Ok(wanted)) => held = found(hydrator, job, wanted),
                Some(Err(failure)) => job.fail(failure),
                None => {
                    exhausted = true;
                    job.lock().is_counted = true;
                }
            }
            fed = true;
        }
        // One that found no room waits until nothing else is under way.
        let waits = held.as_ref().is_some_and(|candidate| candidate.waits && !open.is_empty());
        if !waits && let Some(candidate) = held.take() {
            let promised = open.iter().map(Work::promised).sum();
            match candidate.admit(job, promised, &mut least_refused) {
                Admission::Begun(work) => open.push_back(work),
                Admission::Later(candidate) => held = Some(candidate),
                Admission::Refused => {}
            }
        }
        open.retain_mut(|work| !work.settle(job));
        if exhausted && held.is_none() && open.is_empty() {
            break;
        }
        if !fed {
            drop(job.wait(job.lock(), LOOK));
        }
    }
    // What is under way of a job that was cancelled ends with its next block.
    let mut progress = job.lock();
    while open.iter().any(|work| !work.portion.is_idle()) {
        progress = job.wait(progress, LOOK);
    }
    progress.is_over = true;
    progress.elapsed = job.started.elapsed();
    job.changed.notify_all();
}

/// Opens a file that is wanted.
fn found(hydrator: &Hydrator, job: &JobState, wanted: Wanted) -> Option<Candidate> {
    job.lock().files += 1;
    let location = wanted.location;
    let opened = match wanted.version {
        Some(version) => Ok(hydrator.file(&location, version)),
        None => hydrator.open(&location),
    };
    let node = match opened {
        Ok(file) => file.node,
        Err(error) => {
            job.fail(Failure { location, error });
            return None;
        }
    };
    let whole = ByteRange::new(0, node.size());
    let bytes = wanted.range.map_or(whole, |range| range.intersect(whole));
    let blocks = blocks_of(bytes);
    // Whole blocks are fetched, and counted.
    let bytes = node.here.bytes(&blocks);
    Some(Candidate { node, blocks, bytes, waits: false })
}

impl Candidate {
    /// Makes room for it beside the `promised` bytes of others, so that nothing is fetched to be thrown away. From
    /// `least_refused` bytes on nothing more is evicted in the attempt.
    fn admit(mut self, job: &Arc<JobState>, promised: u64, least_refused: &mut u64) -> Admission {
        let here = &self.node.here;
        match here.make_room(&self.blocks, promised, job.spare, *least_refused) {
            Ok(cost) => return Admission::Begun(self.begin(job, cost)),
            Err(Some(_)) if promised > 0 => {
                self.waits = true;
                return Admission::Later(self);
            }
            Err(refused) => {
                *least_refused = refused.map_or(*least_refused, |bytes| bytes.min(*least_refused));
            }
        }
        here.let_go_if_empty();
        let location = self.node.location.clone();
        let error = Error::NoRoom { location: location.to_string() };
        job.fail(Failure { location, error });
        Admission::Refused
    }

    /// Counts what is here of it.
    fn begin(self, job: &Arc<JobState>, cost: u64) -> Work {
        let Self { node, blocks, bytes, .. } = self;
        let mut kept = node.here.kept_in_order();
        let here: u64 = blocks
            .clone()
            .filter(|block| kept(*block))
            .map(|block| block_range(block).intersect(bytes).len())
            .sum();
        drop(kept);
        let mut progress = job.lock();
        progress.bytes += bytes.len();
        progress.bytes_here += here;
        drop(progress);
        let whole = bytes.len() == node.size();
        let portion = Portion {
            job: Arc::clone(job),
            running: AtomicUsize::new(0),
            counted: AtomicU64::new(here),
            error: Mutex::default(),
            has_failed: AtomicBool::new(false),
            learns: AtomicBool::new(whole && here < bytes.len() && bytes.len() >= LEARN_FROM),
        };
        let (next, portion) = (blocks.start, Arc::new(portion));
        Work { node, next, blocks, bytes, round: 0, cost, here, portion }
    }
}

impl Work {
    /// Sends out the next fetches as long as there is room for them; returns whether there was anything to do.
    fn feed(&mut self, hydrator: &Hydrator) -> bool {
        let mut fed = false;
        while !self.has_gone_out() && hydrator.has_room_in_background() && self.portion.job.has_room() {
            fed = true;
            let most = self.portion.throttle().request().unwrap_or(u64::MAX);
            let request = hydrator.background_request((self.blocks.end - self.next) * BLOCK).min(most);
            let segment = (request / BLOCK).max(1);
            self.next = match self.node.background(self.next, self.blocks.end, segment, &self.portion) {
                Some(blocks) => blocks.end,
                None => self.blocks.end,
            };
        }
        fed
    }

    fn has_gone_out(&self) -> bool {
        self.next >= self.blocks.end || self.portion.has_failed.load(Relaxed)
    }

    /// Bytes of disk that it is still going to take.
    fn promised(&self) -> u64 {
        self.cost.saturating_sub(self.fetched())
    }

    /// Bytes that were fetched for it, those fetched again included.
    fn fetched(&self) -> u64 {
        self.portion.counted.load(Relaxed) - self.here
    }

    /// Whether the missing blocks have been fetched before, and went again: what others evict all the time is not fetched all
    /// the time.
    fn is_evicted_by_others(&self) -> bool {
        let missing = self.blocks.clone().filter(|block| !self.node.here.is_kept(*block)).count() as u64;
        self.fetched() + missing * BLOCK > 2 * self.bytes.len().max(BLOCK)
    }

    /// Whether it is over, one way or the other. Where blocks are still missing another round begins.
    fn settle(&mut self, job: &JobState) -> bool {
        if !self.has_gone_out() || !self.portion.is_idle() {
            return false;
        }
        let location = self.node.location.clone();
        if let Some(error) = self.portion.error().or_else(|| self.node.here.refuted()) {
            job.fail(Failure { location, error });
            return true;
        }
        let missing = self.blocks.clone().find(|block| !self.node.here.is_kept(*block));
        match missing {
            None if self.is_whole() && !self.node.here.is_settled() => {
                // Where nothing had to be fetched nobody has verified it.
                self.node.settle();
                false
            }
            None => {
                let mut progress = job.lock();
                progress.files_done += 1;
                // Blocks that readers fetched, and those fetched twice, are put right.
                progress.bytes_here += self.bytes.len();
                progress.bytes_here -= self.portion.counted.load(Relaxed);
                true
            }
            // Somebody else's fetch is bringing it.
            Some(block) if self.node.is_coming(block) => false,
            Some(_) if self.round == ROUNDS || self.is_evicted_by_others() => {
                let no_room = || Error::NoRoom { location: location.to_string() };
                let error = self.node.gone().unwrap_or_else(no_room);
                job.fail(Failure { location, error });
                true
            }
            Some(block) => {
                self.round += 1;
                self.next = block;
                false
            }
        }
    }

    fn is_whole(&self) -> bool {
        self.bytes.len() == self.node.size()
    }
}

impl JobState {
    fn fail(&self, failure: Failure) {
        tracing::warn!(error = %failure.error, "not hydrated");
        self.lock().failed.push(failure);
    }
}
