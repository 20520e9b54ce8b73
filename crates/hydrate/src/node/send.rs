//! What a node puts on its way: which blocks, in which requests.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::{Node, Table, Way};
use crate::fetch::Fetch;
use crate::inflight::Class;
use crate::job::Portion;
use crate::pending::Hold;
use crate::streams::Ahead;
use crate::{BLOCK, Error};

impl Node {
    /// Puts the blocks of `run` on their way, in fetches of at most `most` blocks. An object that comes whole comes by one.
    pub(super) fn begin(
        self: &Arc<Self>,
        table: &mut Table,
        class: Class,
        run: Range<u64>,
        most: u64,
    ) -> Vec<Fetch> {
        let (class, run, most) = match table.way {
            Way::Ranges => (class, run, most),
            Way::Whole => (Class::Demand, 0..self.size().div_ceil(BLOCK), u64::MAX),
        };
        // From now on what is neither here nor on its way never will be.
        table.gone = table.gone.take().or_else(|| table.once.clone());
        let mut fetches = Vec::new();
        let mut start = run.start;
        while start < run.end {
            let blocks = start..run.end.min(start.saturating_add(most.max(1)));
            start = blocks.end;
            let id = self.shared.next_id();
            let took_over = table.flights.begin(id, class, blocks.clone());
            let node = Arc::clone(self);
            fetches.push(Fetch { node, id, class, blocks, took_over, handle: None, portion: None });
        }
        fetches
    }

    /// Fetches ahead of a reader what is not here, as long as its handle lives.
    pub(crate) fn ahead(self: &Arc<Self>, ahead: &Ahead, handle: &Weak<()>) {
        let blocks = ahead.range.start / BLOCK..ahead.range.end.div_ceil(BLOCK);
        let segment = ahead.segment / BLOCK;
        let mut fetches = Vec::new();
        {
            let mut table = self.lock();
            if table.gone.is_some() || table.way == Way::Whole {
                return;
            }
            for run in table.flights.free(blocks, self.here.has_in_order()) {
                fetches.extend(self.begin(&mut table, Class::Ahead, run, segment));
            }
        }
        let distance = |fetch: &Fetch| (fetch.blocks.start * BLOCK).saturating_sub(ahead.reader) >> 20;
        let with_handle = |mut fetch: Fetch| {
            fetch.handle = Some(handle.clone());
            let distance = distance(&fetch);
            (fetch, distance)
        };
        self.shared.crew.submit(fetches.into_iter().map(with_handle).collect());
    }

    /// The next blocks from `from` on that are not in the cache and that nobody fetches, at most `most`, as a background
    /// fetch; `None` where there are none before `end`.
    pub(crate) fn background(
        self: &Arc<Self>,
        from: u64,
        end: u64,
        most: u64,
        portion: &Arc<Portion>,
    ) -> Option<Range<u64>> {
        let fetch = {
            let mut table = self.lock();
            if table.gone.is_some() {
                return None;
            }
            let mut kept = self.here.kept_in_order();
            let first = (from..end).find(|block| !kept(*block) && !table.flights.is_owned(*block))?;
            let run = table.flights.free(first..end.min(first + most), kept).into_iter().next()?;
            self.begin(&mut table, Class::Background, run, most).pop()?
        };
        let blocks = fetch.blocks.clone();
        let fetch = Fetch { portion: Some(Arc::clone(portion)), ..fetch };
        portion.begun();
        self.shared.crew.submit(vec![(fetch, 0)]);
        Some(blocks)
    }

    /// The server serves no ranges: all that was to come by fetch `id`, and everything else, comes by one stream instead.
    pub(crate) fn come_whole(self: &Arc<Self>) {
        let fetches = {
            let mut table = self.lock();
            if table.way == Way::Whole {
                return;
            }
            table.way = Way::Whole;
            self.begin(&mut table, Class::Demand, 0..0, 0)
        };
        self.shared.crew.submit(fetches.into_iter().map(|fetch| (fetch, 0)).collect());
    }

    /// Whether it comes as one stream.
    pub(crate) fn is_whole(&self) -> bool {
        self.lock().way == Way::Whole
    }

    /// Whether it can be streamed only once, so that a stream that breaks off is the end of it.
    pub(crate) fn is_once(&self) -> bool {
        self.lock().once.is_some()
    }

    /// Whether a stream has come so far ahead of its readers that blocks they want would be lost, because memory is all
    /// there is to hold them.
    pub(crate) fn is_far_ahead(&self, block: u64) -> bool {
        let reach = self.reach.load(Ordering::Relaxed);
        !self.here.keeps() && block * BLOCK > reach + self.shared.most_window(Hold::Copied)
    }

    /// Why what is neither here nor on its way never will be, if so.
    pub(crate) fn gone(&self) -> Option<Error> {
        self.lock().gone.clone()
    }

    /// Whether a block is on its way.
    pub(crate) fn is_coming(&self, block: u64) -> bool {
        self.lock().flights.is_owned(block)
    }
}
