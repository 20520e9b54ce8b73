//! What is left to do: objects not begun, and pieces of those that are.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crate::flight::Distance;
use crate::part_limit::PartLimit;
use crate::pieces::Pieces;
use crate::plan::OPENING;
use crate::{Error, Job, Summary};

/// Objects from this length on are large: it is their bytes that are waited for. A request costs a server that is near as much
/// as sending some 4 MiB (MinIO), a quarter of this.
const LARGE: u64 = 16 << 20;

#[derive(Default)]
pub(crate) struct Queue {
    jobs: VecDeque<Job>,
    /// Bytes of the jobs that wait, as far as their listing told.
    listed: u64,
    /// More jobs may come.
    pub(crate) feeding: bool,
    pub(crate) open: VecDeque<Open>,
    pub(crate) next_id: u64,
    /// Workers with a task in hand.
    pub(crate) busy: usize,
    pub(crate) level: usize,
    /// How many neighbours may be taken together; as many as the object allows where none is given.
    pub(crate) together: Option<u32>,
    /// How many parts of uploads may be under way.
    pub(crate) parts: PartLimit,
    pub(crate) ended: Option<Error>,
    pub(crate) summary: Summary,
    /// A file of the batch just written: names the file system it is on.
    pub(crate) wrote: Option<PathBuf>,
}

/// An object begun and not finished.
pub(crate) struct Open {
    pub(crate) id: u64,
    pub(crate) job: Job,
    pub(crate) object: Arc<dyn Pieces>,
    /// Pieces nobody has taken.
    pub(crate) pending: VecDeque<u32>,
    /// Workers with pieces of it in hand.
    pub(crate) running: u32,
    pub(crate) error: Option<Error>,
}

/// What a worker does next.
pub(crate) enum Task {
    Begin(Job),
    Move(Taken),
}

/// Pieces of an object in a worker's hand.
pub(crate) struct Taken {
    pub(crate) id: u64,
    pub(crate) object: Arc<dyn Pieces>,
    pub(crate) pieces: Range<u32>,
}

impl Queue {
    /// Adds a job at the end.
    pub(crate) fn add(&mut self, job: Job) {
        self.listed = self.listed.saturating_add(length(&job));
        self.jobs.push_back(job);
    }

    /// Jobs nobody has begun.
    pub(crate) fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// The next task: pieces of objects already begun come before another object, and the oldest object first. Only from a
    /// server that is near it is the one that the fewest workers are at, because those who write one file wait for each other.
    pub(crate) fn take(&mut self, source: Distance) -> Option<Task> {
        let most = self.half_share().min(self.together.unwrap_or(u32::MAX));
        let full = self.parts_under_way() >= self.parts.most();
        let mut begun = self.open.iter_mut().filter(|open| !open.pending.is_empty());
        let next = match source {
            Distance::Near => begun.min_by_key(|open| open.running),
            Distance::Far => begun.next(),
        };
        if let Some(open) = next {
            if full && open.object.is_upload() {
                return None;
            }
            let pieces = open.take(most, source)?;
            open.running += 1;
            return Some(Task::Move(Taken { id: open.id, object: Arc::clone(&open.object), pieces }));
        }
        let job = self.jobs.pop_front()?;
        self.listed = self.listed.saturating_sub(length(&job));
        Some(Task::Begin(job))
    }

    /// Parts of uploads that are being sent.
    pub(crate) fn parts_under_way(&self) -> usize {
        self.open.iter().filter(|open| open.object.is_upload()).map(|open| open.running as usize).sum()
    }

    /// Pieces a worker may take at once: half of its share of all that is left, so that all finish together.
    fn half_share(&self) -> u32 {
        let left = self.pieces() as u64 + self.listed / OPENING;
        u32::try_from(left / (2 * self.level.max(1) as u64)).unwrap_or(u32::MAX)
    }

    /// Pieces of objects already begun that nobody has taken.
    fn pieces(&self) -> usize {
        self.open.iter().map(|open| open.pending.len()).sum()
    }

    /// Whether what waits is large objects on average, as far as is known.
    pub(crate) fn is_large(&self) -> bool {
        let begun = self.open.iter().filter(|open| !open.pending.is_empty()).count();
        let objects = (begun + self.jobs.len()) as u64;
        let bytes = self.listed.saturating_add(self.pieces() as u64 * OPENING);
        objects > 0 && bytes / objects >= LARGE
    }

    /// Tasks that could be under way at this instant.
    pub(crate) fn demand(&self) -> usize {
        self.busy + self.waiting()
    }

    /// Tasks nobody has taken.
    pub(crate) fn waiting(&self) -> usize {
        self.jobs.len() + self.pieces()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.busy == 0 && (self.ended.is_some() || (!self.feeding && self.waiting() == 0))
    }
}

impl Open {
    /// Takes the first pieces: up to `most` neighbours together, as far as one request can move them.
    fn take(&mut self, most: u32, source: Distance) -> Option<Range<u32>> {
        let most = most.min(self.object.most_together(source));
        let start = self.pending.pop_front()?;
        let mut end = start.saturating_add(1);
        while end - start < most && self.pending.front() == Some(&end) {
            self.pending.pop_front();
            end += 1;
        }
        Some(start..end)
    }
}

/// Length of a job's object, bytes; 0 where its listing did not tell.
fn length(job: &Job) -> u64 {
    job.entry.as_ref().and_then(|entry| entry.size).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Result;
    use crate::pieces::{Done, Finish};
    use crate::worker::Worker;
    use firstbyte_location::{Entry, Kind};
    use firstbyte_store::Store;

    /// Nothing that moves; four of its pieces may go together.
    struct Still;

    impl Pieces for Still {
        fn move_pieces(&self, _: &mut Worker<'_>, _: Range<u32>) -> Result<()> {
            Ok(())
        }
        fn most_together(&self, _: Distance) -> u32 {
            4
        }
        fn finish(&self, _: &mut Worker<'_>) -> Result<Finish> {
            let verified = crate::Verified::Length;
            Ok(Finish::Done(Done { bytes: 0, verified, version: None }))
        }
        fn abandon(&self, _: &Store, _: &Error) {}
    }

    fn job(size: Option<u64>) -> Job {
        let place = firstbyte_location::Location::Local("x".into());
        let entry = size.map(|size| Entry {
            name: b"x".to_vec(),
            kind: Kind::File,
            size: Some(size),
            modified: None,
            etag: None,
            storage_class: None,
        });
        Job { source: place.clone(), destination: place, entry, over: crate::Over::File }
    }

    /// Objects begun, each with so many pieces, at a level.
    fn begun(pieces: impl IntoIterator<Item = Vec<u32>>, level: usize) -> Queue {
        let open = |(id, pending): (u64, Vec<u32>)| Open {
            id,
            job: job(None),
            object: Arc::new(Still),
            pending: pending.into(),
            running: 0,
            error: None,
        };
        Queue { open: (0..).zip(pieces).map(open).collect(), level, ..Queue::default() }
    }

    /// The objects that pieces are taken of until only objects not begun are left, and the pieces.
    fn taken(mut queue: Queue, source: Distance) -> Vec<(u64, Range<u32>)> {
        std::iter::from_fn(|| match queue.take(source)? {
            Task::Move(taken) => Some((taken.id, taken.pieces)),
            Task::Begin(_) => None,
        })
        .collect()
    }

    fn of_one(pending: impl IntoIterator<Item = u32>, level: usize) -> Vec<Range<u32>> {
        let queue = begun([pending.into_iter().collect()], level);
        taken(queue, Distance::Far).into_iter().map(|(_, pieces)| pieces).collect()
    }

    #[test]
    fn neighbours_go_together_while_there_are_plenty_and_one_by_one_at_the_end() {
        assert_eq!(of_one(0..12, 1), [0..4, 4..8, 8..10, 10..11, 11..12]);
        assert_eq!(of_one(0..4, 4), [0..1, 1..2, 2..3, 3..4]);
    }

    #[test]
    fn a_gap_left_by_an_earlier_run_is_not_bridged() {
        assert_eq!(
            of_one([u32::MAX, 1, 2, 7, 8, 9, 10, 11, 12, 13], 1)[..3],
            [u32::MAX..u32::MAX, 1..3, 7..10]
        );
    }

    #[test]
    fn what_is_left_of_all_objects_is_shared() {
        let mut queue = begun([(0..4).collect()], 2);
        queue.add(job(Some(16 * OPENING)));
        assert!(
            matches!(queue.take(Distance::Far), Some(Task::Move(Taken { pieces, .. })) if pieces == (0..4))
        );
        assert!(matches!(queue.take(Distance::Far), Some(Task::Begin(_))) && queue.half_share() == 0);
    }

    #[test]
    fn the_oldest_object_is_finished_first_but_nearby_each_gets_workers() {
        let two = || begun((0..2).map(|_| (0..4).collect()), 1);
        assert_eq!(taken(two(), Distance::Far), [(0, 0..4), (1, 0..2), (1, 2..3), (1, 3..4)]);
        let mut queue = begun((0..2).map(|_| (0..4).collect()), 2);
        let mut next = || match queue.take(Distance::Near) {
            Some(Task::Move(taken)) => taken.id,
            _ => panic!("nothing taken"),
        };
        assert_eq!([next(), next(), next()], [0, 1, 0]);
    }

    #[test]
    fn objects_are_large_by_what_is_left_of_those_begun_and_what_was_listed_of_the_others() {
        assert!(!Queue::default().is_large());
        assert!(!begun([(0..7).collect()], 1).is_large());
        let mut queue = begun([(0..8).collect(), Vec::new()], 1);
        assert!(queue.is_large());
        queue.add(job(Some(LARGE)));
        assert!(queue.is_large());
        queue.add(job(None));
        assert!(!queue.is_large());
    }

    #[test]
    fn lengths_that_cannot_be_do_no_harm() {
        let mut queue = Queue::default();
        (0..2).for_each(|_| queue.add(job(Some(u64::MAX))));
        assert!(queue.is_large());
        while queue.take(Distance::Far).is_some() {}
        assert_eq!(queue.half_share(), 0);
    }
}
