//! Keeps the remaining work of a run: jobs that have not started, and pieces of objects that have.
//! Workers claim both.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use firstbyte_pacing::{PartLimit, PartsInFlight, SHORTEST_REQUEST};

use crate::error::Error;
use crate::job::CopyJob;
use crate::pieces::{ObjectPieces, PendingPieces, Piece};
use crate::plan::{CHUNK_SIZE, LARGE_OBJECT};
use crate::report::Summary;

/// Minimum number of neighbouring pieces in a request to a near server.
const NEAR_PIECES: u32 = (SHORTEST_REQUEST / CHUNK_SIZE) as u32;

#[derive(Default)]
pub(super) struct Queue {
    jobs: VecDeque<CopyJob>,
    /// Total length of the jobs that have not started, bytes, as far as a listing shows their
    /// lengths.
    listed: u64,
    /// True if more jobs may be added.
    pub(super) is_feeding: bool,
    pub(super) open: VecDeque<StartedObject>,
    pub(super) next_id: u64,
    /// Number of workers that have a task.
    pub(super) busy: usize,
    /// Number of workers that may be active.
    pub(super) limit: usize,
    /// Maximum number of neighbouring pieces that one worker claims at a time.
    pub(super) max_pieces: Option<u32>,
    /// The limit on upload parts in flight.
    pub(super) parts: PartLimit,
    pub(super) summary: Summary,
    /// A directory that the run has written to. Its file system is synced at the end. The path of a
    /// file could not be opened for that if the file is a dangling link.
    pub(super) written: Option<PathBuf>,
}

/// An object that was started and is not finished.
pub(super) struct StartedObject {
    pub(super) id: u64,
    pub(super) job: CopyJob,
    pub(super) object: Arc<dyn ObjectPieces>,
    /// Pieces of the object that no worker has claimed.
    pub(super) pending: PendingPieces,
    /// Number of workers that move pieces of the object.
    pub(super) running: u32,
    pub(super) error: Option<Error>,
}

/// The next task for a worker.
pub(super) enum WorkerTask {
    Start(Box<CopyJob>),
    Move(ClaimedPiece),
}

/// A piece that a worker has claimed, and its object.
pub(super) struct ClaimedPiece {
    pub(super) id: u64,
    pub(super) object: Arc<dyn ObjectPieces>,
    pub(super) piece: Piece,
}

impl Queue {
    /// Creates an empty queue to which jobs will be added.
    pub(super) fn feeding(max_pieces: Option<u32>, parts: PartLimit) -> Self {
        Self { is_feeding: true, max_pieces, parts, ..Self::default() }
    }

    /// Adds a job to the end of the queue.
    pub(super) fn add(&mut self, job: CopyJob) {
        self.listed = self.listed.saturating_add(length(&job));
        self.jobs.push_back(job);
    }

    /// Returns the number of jobs that have not started.
    pub(super) fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// Claims the next task. Pieces of started objects come before new objects, and pieces of the
    /// oldest object come first. If the server is `near`, two rules differ. The object with the
    /// fewest workers comes first, because workers that write to one file wait for each other.
    /// Requests are long, because each request costs a near server as much as some megabytes. No
    /// request has more than `longest` bytes.
    pub(super) fn claim(&mut self, near: bool, longest: u64) -> Option<WorkerTask> {
        let least = if near { NEAR_PIECES } else { 0 };
        let most = self.half_share().max(least).min(self.max_pieces.unwrap_or(u32::MAX));
        let full = self.is_full_of_parts();
        let mut started = self.open.iter_mut().filter(|open| !open.pending.is_empty());
        let next = if near { started.min_by_key(|open| open.running) } else { started.next() };
        if let Some(open) = next {
            if full && open.object.part_length().is_some() {
                return None;
            }
            let piece = open.pending.claim(most.min(open.object.most_together(longest)))?;
            open.running += 1;
            return Some(WorkerTask::Move(ClaimedPiece {
                id: open.id,
                object: Arc::clone(&open.object),
                piece,
            }));
        }
        let job = self.jobs.pop_front()?;
        self.listed = self.listed.saturating_sub(length(&job));
        Some(WorkerTask::Start(Box::new(job)))
    }

    /// Returns the number and length of the upload parts in flight.
    pub(super) fn parts_in_flight(&self) -> PartsInFlight {
        let uploads = self.open.iter().filter_map(|open| Some((open.running, open.object.part_length()?)));
        uploads.fold(PartsInFlight::default(), |parts, (running, length)| PartsInFlight {
            count: parts.count + running as usize,
            length: parts.length.max(length),
        })
    }

    /// Returns whether no more upload parts may be sent now.
    pub(super) fn is_full_of_parts(&self) -> bool {
        self.parts_in_flight().count >= self.parts.most()
    }

    /// Returns the number of pieces that a worker may claim at once: half of its share of the
    /// remaining work, so that all workers finish together.
    fn half_share(&self) -> u32 {
        let left = self.pieces() as u64 + self.listed / CHUNK_SIZE;
        u32::try_from(left / (2 * self.limit.max(1) as u64)).unwrap_or(u32::MAX)
    }

    /// Returns the number of pieces of started objects that no worker has claimed.
    fn pieces(&self) -> usize {
        self.open.iter().map(|open| open.pending.len()).sum()
    }

    /// Returns whether the waiting objects are large on average. An object of unknown length counts
    /// as empty.
    pub(super) fn is_large(&self) -> bool {
        let started = self.open.iter().filter(|open| !open.pending.is_empty()).count();
        let objects = (started + self.jobs.len()) as u64;
        let bytes = self.listed.saturating_add(self.pieces() as u64 * CHUNK_SIZE);
        objects > 0 && bytes / objects >= LARGE_OBJECT
    }

    /// Returns the number of tasks that are running or could run now.
    pub(super) fn demand(&self) -> usize {
        self.busy + self.waiting()
    }

    /// Returns the number of tasks that no worker has claimed.
    pub(super) fn waiting(&self) -> usize {
        self.jobs.len() + self.pieces()
    }

    /// Returns whether there are no unclaimed tasks and no more will come.
    pub(super) fn is_exhausted(&self) -> bool {
        !self.is_feeding && self.waiting() == 0
    }
}

/// Returns the length of a job's object in bytes, or 0 if it is not listed.
fn length(job: &CopyJob) -> u64 {
    job.listed_size().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::error::Result;
    use crate::pieces::FinishOutcome;
    use crate::report::CompletedObject;
    use crate::request::Requester;
    use firstbyte_location::{Entry, EntryKind};
    use firstbyte_store::Store;

    /// An object whose pieces are never moved. One request could move four of them.
    struct Still;

    impl ObjectPieces for Still {
        fn move_piece(&self, _: &mut Requester<'_>, _: Piece) -> Result<()> {
            Ok(())
        }
        fn most_together(&self, _: u64) -> u32 {
            4
        }
        fn finish(&self, _: &mut Requester<'_>) -> Result<FinishOutcome> {
            let verified = crate::Verified::Length;
            Ok(FinishOutcome::Done(CompletedObject { bytes: 0, verified, version: None, source: None }))
        }
        fn abandon(&self, _: &Store, _: &Error) {}
    }

    fn job(size: Option<u64>) -> CopyJob {
        let place = firstbyte_location::Location::Local("x".into());
        let entry =
            size.map(|size| Entry { size: Some(size), ..Entry::named(b"x".to_vec(), EntryKind::File) });
        CopyJob { source: place.clone(), destination: place, entry, over: crate::ReplaceKind::File }
    }

    /// Returns a queue of started objects, each with the given pieces, and a limit on the number of
    /// workers.
    fn started(pieces: impl IntoIterator<Item = Vec<u32>>, limit: usize) -> Queue {
        let open = |(id, pending): (u64, Vec<u32>)| StartedObject {
            id,
            job: job(None),
            object: Arc::new(Still),
            pending: pending.into_iter().collect(),
            running: 0,
            error: None,
        };
        Queue { open: (0..).zip(pieces).map(open).collect(), limit, ..Queue::default() }
    }

    /// Claims pieces until only objects that have not started are left. Returns the pieces with the
    /// ids of their objects.
    fn claimed(mut queue: Queue, near: bool) -> Vec<(u64, Range<u32>)> {
        std::iter::from_fn(|| match queue.claim(near, u64::MAX)? {
            WorkerTask::Move(ClaimedPiece { id, piece: Piece::Chunks(chunks), .. }) => Some((id, chunks)),
            WorkerTask::Move(_) | WorkerTask::Start(_) => None,
        })
        .collect()
    }

    fn of_one(pending: impl IntoIterator<Item = u32>, limit: usize) -> Vec<Range<u32>> {
        let queue = started([pending.into_iter().collect()], limit);
        claimed(queue, false).into_iter().map(|(_, pieces)| pieces).collect()
    }

    #[test]
    fn neighbours_go_together_while_there_are_plenty_and_one_by_one_at_the_end() {
        assert_eq!(of_one(0..12, 1), [0..4, 4..8, 8..10, 10..11, 11..12]);
        assert_eq!(of_one(0..4, 4), [0..1, 1..2, 2..3, 3..4]);
    }

    #[test]
    fn a_near_server_gets_no_short_requests() {
        let lengths = |near| claimed(started([(0..12).collect()], 4), near).len();
        assert_eq!((lengths(true), lengths(false)), (6, 12));
    }

    #[test]
    fn a_gap_left_by_an_earlier_run_is_not_bridged() {
        assert_eq!(of_one([1, 2, 7, 8, 9, 10, 11, 12, 13], 1)[..2], [1..3, 7..10]);
    }

    #[test]
    fn the_work_left_of_all_objects_is_shared() {
        let mut queue = started([(0..4).collect()], 2);
        queue.add(job(Some(16 * CHUNK_SIZE)));
        assert!(
            matches!(queue.claim(false, u64::MAX), Some(WorkerTask::Move(ClaimedPiece { piece: Piece::Chunks(chunks), .. })) if chunks == (0..4))
        );
        assert!(
            matches!(queue.claim(false, u64::MAX), Some(WorkerTask::Start(_))) && queue.half_share() == 0
        );
    }

    #[test]
    fn the_oldest_object_is_finished_first_but_near_a_server_each_gets_workers() {
        let two = || started((0..2).map(|_| (0..4).collect()), 1);
        assert_eq!(claimed(two(), false), [(0, 0..4), (1, 0..2), (1, 2..3), (1, 3..4)]);
        let mut queue = started((0..2).map(|_| (0..4).collect()), 2);
        let mut next = || match queue.claim(true, u64::MAX) {
            Some(WorkerTask::Move(taken)) => taken.id,
            _ => panic!("no task"),
        };
        assert_eq!([next(), next(), next()], [0, 1, 0]);
    }

    #[test]
    fn objects_are_large_by_the_pieces_left_of_started_ones_and_the_listed_size_of_others() {
        assert!(!Queue::default().is_large());
        assert!(!started([(0..7).collect()], 1).is_large());
        let mut queue = started([(0..8).collect(), Vec::new()], 1);
        assert!(queue.is_large());
        queue.add(job(Some(LARGE_OBJECT)));
        assert!(queue.is_large());
        queue.add(job(None));
        assert!(!queue.is_large());
    }

    #[test]
    fn impossible_lengths_do_no_harm() {
        let mut queue = Queue::default();
        (0..2).for_each(|_| queue.add(job(Some(u64::MAX))));
        assert!(queue.is_large());
        while queue.claim(false, u64::MAX).is_some() {}
        assert_eq!(queue.half_share(), 0);
    }
}
