//! The thread of a job: which fetches go out next, and what became of those that did.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstbyte_location::ByteRange;

use super::{Failure, JobState};
use crate::here::{block_range, blocks_of};
use crate::node::Node;
use crate::wanted::{Wanted, WantedList};
use crate::{BLOCK, Error, Hydrator};

/// How often a file is gone over for blocks that a fetch of somebody else promised and did not bring, or that were
/// evicted while others came.
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
    portion: Arc<Portion>,
}

/// What the fetches of one file of a job share.
pub(crate) struct Portion {
    job: Arc<JobState>,
    running: AtomicUsize,
    /// Bytes of the file that are counted as here.
    counted: AtomicU64,
    error: Mutex<Option<Error>>,
    /// Whether the checksum over the whole is to be asked for, by the thread of the first fetch.
    learns: AtomicBool,
}

impl Portion {
    /// Whether nobody wants the rest any more.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.job.is_cancelled()
    }

    /// Takes note of a block fetched; returns how long to pause to keep the rate.
    pub(crate) fn brought(&self, bytes: u64) -> Duration {
        self.counted.fetch_add(bytes, Relaxed);
        self.job.fetched(bytes)
    }

    /// Whether who asks is to ask for the checksum over the whole: the others fetch meanwhile.
    pub(crate) fn is_to_learn(&self) -> bool {
        self.learns.swap(false, Relaxed)
    }

    /// A fetch is in line.
    pub(crate) fn begun(&self) {
        self.running.fetch_add(1, Relaxed);
    }

    /// A fetch is over.
    pub(crate) fn ended(&self, error: Option<Error>) {
        if let Some(error) = error {
            self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
        let _progress = self.job.lock();
        self.running.fetch_sub(1, Relaxed);
        self.job.changed.notify_all();
    }

    fn is_idle(&self) -> bool {
        self.running.load(Relaxed) == 0
    }

    fn error(&self) -> Option<Error> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Brings here what is wanted.
pub(super) fn run(hydrator: &Hydrator, job: &Arc<JobState>, mut wanted: WantedList) {
    let mut open: VecDeque<Work> = VecDeque::new();
    let mut exhausted = false;
    while !job.is_cancelled() {
        let mut fed = open.iter_mut().any(|work| work.feed(hydrator));
        // Another file once all that is open has gone out: so files come in order.
        if !exhausted && hydrator.has_room_in_background() && open.iter().all(Work::has_gone_out) {
            match wanted.next() {
                Some(Ok(wanted)) => open.extend(begin(hydrator, job, wanted)),
                Some(Err(failure)) => job.fail(failure),
                None => {
                    exhausted = true;
                    job.lock().is_counted = true;
                }
            }
            fed = true;
        }
        open.retain_mut(|work| !work.settle(job));
        if exhausted && open.is_empty() {
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

/// Opens a file that is wanted, and counts what is here of it.
fn begin(hydrator: &Hydrator, job: &Arc<JobState>, wanted: Wanted) -> Option<Work> {
    job.lock().files += 1;
    let location = wanted.location;
    let opened = match wanted.version {
        Some(version) => Ok(hydrator.file(&location, version)),
        None => hydrator.open(&location),
    };
    let node = match opened {
        Ok(file) if file.node.here.can_keep() => file.node,
        Ok(_) => {
            let error = Error::NoRoom { location: location.to_string() };
            job.fail(Failure { location, error });
            return None;
        }
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
    let portion = Portion {
        job: Arc::clone(job),
        running: AtomicUsize::new(0),
        counted: AtomicU64::new(here),
        error: Mutex::default(),
        learns: AtomicBool::new(bytes == whole && here < bytes.len() && bytes.len() >= LEARN_FROM),
    };
    Some(Work { node, next: blocks.start, blocks, bytes, round: 0, portion: Arc::new(portion) })
}

impl Work {
    /// Sends out the next fetches as long as there is room for them; returns whether there was anything to do.
    fn feed(&mut self, hydrator: &Hydrator) -> bool {
        let mut fed = false;
        while !self.has_gone_out() && hydrator.has_room_in_background() {
            fed = true;
            let segment = hydrator.background_request((self.blocks.end - self.next) * BLOCK) / BLOCK;
            self.next = match self.node.background(self.next, self.blocks.end, segment, &self.portion) {
                Some(blocks) => blocks.end,
                None => self.blocks.end,
            };
        }
        fed
    }

    fn has_gone_out(&self) -> bool {
        self.next >= self.blocks.end || self.portion.error().is_some()
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
            Some(_) if self.round == ROUNDS => {
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
