//! What is left to do: objects not begun, and pieces of those that are.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crate::flight::Distance;
use crate::pieces::Pieces;
use crate::{Error, Job, Summary};

#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) jobs: VecDeque<Job>,
    /// More jobs may come.
    pub(crate) feeding: bool,
    pub(crate) open: VecDeque<Open>,
    pub(crate) next_id: u64,
    /// Workers with a task in hand.
    pub(crate) busy: usize,
    pub(crate) level: usize,
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
    /// The next task: pieces of objects already begun come before another object.
    pub(crate) fn take(&mut self, source: Distance) -> Option<Task> {
        if let Some(open) = self.open.iter_mut().find(|open| !open.pending.is_empty()) {
            let pieces = open.take(self.level, source)?;
            open.running += 1;
            return Some(Task::Move(Taken { id: open.id, object: Arc::clone(&open.object), pieces }));
        }
        self.jobs.pop_front().map(Task::Begin)
    }

    /// Tasks that could be under way at this instant.
    pub(crate) fn demand(&self) -> usize {
        self.busy + self.waiting()
    }

    /// Tasks nobody has taken.
    pub(crate) fn waiting(&self) -> usize {
        self.jobs.len() + self.open.iter().map(|open| open.pending.len()).sum::<usize>()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.busy == 0 && (self.ended.is_some() || (!self.feeding && self.waiting() == 0))
    }
}

impl Open {
    /// Takes the first pieces: neighbours together, as far as one request can move them, while there are plenty for
    /// `workers` of them - half of each one's share at a time, so that all finish together.
    fn take(&mut self, workers: usize, source: Distance) -> Option<Range<u32>> {
        let share = self.pending.len() / (2 * workers.max(1));
        let most = u32::try_from(share).unwrap_or(u32::MAX).min(self.object.most_together(source));
        let start = self.pending.pop_front()?;
        let mut end = start.saturating_add(1);
        while end - start < most && self.pending.front() == Some(&end) {
            self.pending.pop_front();
            end += 1;
        }
        Some(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Result;
    use crate::pieces::{Done, Finish};
    use crate::worker::Worker;
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

    fn taken(pending: impl IntoIterator<Item = u32>, level: usize) -> Vec<Range<u32>> {
        let place = firstbyte_location::Location::Local("x".into());
        let job = Job { source: place.clone(), destination: place, entry: None };
        let pending = pending.into_iter().collect();
        let open = Open { id: 0, job, object: Arc::new(Still), pending, running: 0, error: None };
        let mut queue = Queue { open: VecDeque::from([open]), level, ..Queue::default() };
        std::iter::from_fn(|| match queue.take(Distance::Far)? {
            Task::Move(taken) => Some(taken.pieces),
            Task::Begin(_) => None,
        })
        .collect()
    }

    #[test]
    fn neighbours_go_together_while_there_are_plenty_and_one_by_one_at_the_end() {
        assert_eq!(taken(0..12, 1), [0..4, 4..8, 8..10, 10..11, 11..12]);
        assert_eq!(taken(0..4, 4), [0..1, 1..2, 2..3, 3..4]);
    }

    #[test]
    fn a_gap_left_by_an_earlier_run_is_not_bridged() {
        assert_eq!(
            taken([u32::MAX, 1, 2, 7, 8, 9, 10, 11, 12, 13], 1)[..3],
            [u32::MAX..u32::MAX, 1..3, 7..10]
        );
    }
}
