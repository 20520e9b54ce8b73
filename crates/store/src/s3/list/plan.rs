//! Who lists what: the key space as ranges that touch, each listed page by page by one worker, and cut in two whenever
//! a worker has nothing to do.
//!
//! The ranges cover every key exactly once, whatever is cut and whenever: a key that exists throughout lies in one
//! range, and that range lists it, since S3 lists in key order and sees every write that is complete. Keys that come
//! or go meanwhile are listed at most once. What is learnt about one range (it ends here, keys look so) serves the others.
//!
//! Pure: it is told what came back and says what to ask next, so that whole listings can be played through in a test.

use std::cmp::Reverse;
use std::collections::VecDeque;

use firstbyte_location::Entry;

use super::cut::{Grouping, Shape};
use super::page::{From, Page};
use super::turns::{Brought, Turns};
use crate::Order;
use crate::object::in_listing_order;

/// Guesses that may fail at no cost worth mentioning, before the first has been right: a name of 30 characters that
/// all have to be tried one by one.
const FREE_GUESSES: u64 = 16;
/// Guesses that may fail for each page that was worth its request. So a listing costs at most about three times the
/// requests it would cost in sequence, and usually a few more than that.
const GUESSES_PER_PAGE: u64 = 2;
/// A request that brings fewer keys than this was not worth it: it would have come along with the page before.
const WORTH: usize = 250;

/// Where keys are wanted in order, one of the first so many ranges is cut: what lies further on would wait long.
const NEAR: usize = 16;
/// Pages that a range must still have, as far as can be told, to be worth cutting: each half asks for part of a page in vain.
const FEWEST_PAGES: f64 = 2.5;
/// Keys of a page that its shape is learnt from: one of so many.
const SAMPLE: usize = 16;

/// A part of the key space: the keys behind one place and up to another.
#[derive(Debug)]
struct Range {
    id: u64,
    /// The key that it begins behind; nothing for the first range of all.
    after: Option<String>,
    /// The last key seen of it; nothing before its first page.
    last: Option<String>,
    /// The first key of its last page.
    first: Option<String>,
    /// The last key that may be in it; nothing for the last range of all.
    until: Option<String>,
    /// It has been listed to its end.
    listed: bool,
    /// Where it goes on, while no worker is at it.
    idle: Option<From>,
    /// Pages that nobody has taken yet.
    pages: VecDeque<Vec<Entry>>,
    /// Whether it gets on.
    turns: Turns,
}

impl Range {
    fn new(id: u64, after: Option<String>, until: Option<String>) -> Self {
        Self {
            id,
            after,
            last: None,
            first: None,
            until,
            listed: false,
            idle: None,
            pages: VecDeque::new(),
            turns: Turns::default(),
        }
    }

    /// Leaves of a page what lies in this range. False where it went beyond its end.
    fn keep(&self, entries: &mut Vec<Entry>) -> bool {
        let whole = entries.len();
        if let Some(until) = &self.until {
            entries.truncate(entries.partition_point(|entry| !in_listing_order(entry).gt(until.bytes())));
        }
        let within = entries.len() == whole;
        // A service that does not know `start-after` begins at its first key.
        if let Some(after) = &self.after {
            entries.drain(..entries.partition_point(|entry| !in_listing_order(entry).gt(after.bytes())));
        }
        within
    }
}

/// What a consumer finds.
#[derive(Debug)]
pub(super) enum Next {
    /// A page.
    Page(Vec<Entry>),
    /// Nothing yet.
    Wait,
    /// Nothing ever more.
    End,
}

/// A page to ask for: of which range, and where it begins.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) range: u64,
    pub(super) from: From,
}

/// Whether a range may be cut for a worker that would have nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cutting {
    Allowed,
    /// Only while there is room for pages of any range. What is wanted next is cut ever finer otherwise, each cut at the cost of
    /// a page asked for in vain, and that is worth it only where a page takes long to come.
    WhileRoom,
    Never,
}

/// The whole key space.
#[derive(Debug)]
pub(super) struct Plan {
    /// In key order; those listed and taken are gone.
    ranges: Vec<Range>,
    shape: Shape,
    order: Order,
    /// Pages that nobody has taken yet, of all ranges, and those asked for.
    waiting: usize,
    /// So many pages may wait, before only those wanted next are asked for.
    most: usize,
    next_id: u64,
    worth: u64,
    poor: u64,
}

impl Plan {
    /// The range that a listing begins with.
    pub(super) const WHOLE: u64 = 0;

    /// One range over everything, of which `most` pages may wait, and as many again where they are wanted in order.
    pub(super) fn new(grouping: Grouping, order: Order, most: usize) -> Self {
        let whole = Range::new(Self::WHOLE, None, None);
        Self {
            ranges: vec![whole],
            shape: Shape::new(grouping),
            order,
            waiting: 0,
            most,
            next_id: Self::WHOLE + 1,
            worth: 0,
            poor: 0,
        }
    }

    /// What a worker does next, who was at the range `at` before: he stays with it while there is room for its pages. Else he takes
    /// up what another has left, or cuts a range in two.
    pub(super) fn task(&mut self, at: Option<u64>, cutting: Cutting) -> Option<Task> {
        let room = self.rooms();
        let may = |range: &Range| range.idle.is_some() && !range.listed;
        let first = || self.ranges[..room].iter().position(may);
        let own = at.and_then(|id| self.ranges[..room].iter().position(|range| range.id == id && may(range)));
        if let Some(range) = own.or_else(first).map(|at| &mut self.ranges[at]) {
            let task = range.idle.take().map(|from| Task { range: range.id, from });
            self.waiting += 1;
            return task;
        }
        match cutting {
            Cutting::Allowed => self.cut(room),
            Cutting::WhileRoom if room == self.ranges.len() => self.cut(room),
            Cutting::WhileRoom | Cutting::Never => None,
        }
    }

    /// How many ranges, from the first on, may bring another page. All may while there is room. Behind that, as much
    /// room again is kept for those wanted next: pages from far on must not keep the workers from what is waited
    /// for. The first range always may, or nothing would ever be taken.
    fn rooms(&self) -> usize {
        if self.waiting < self.most {
            return self.ranges.len();
        }
        if self.order == Order::Any {
            return 0;
        }
        let mut near = 0;
        let within = self.ranges.iter().take_while(|range| {
            near += range.pages.len();
            near < self.most
        });
        within.count().max(1).min(self.ranges.len())
    }

    /// Cuts one of the first `room` ranges in two and gives its upper half away; nothing where a guess is not worth a
    /// request now.
    fn cut(&mut self, room: usize) -> Option<Task> {
        if self.poor > FREE_GUESSES + GUESSES_PER_PAGE * self.worth {
            return None;
        }
        let near = match self.order {
            Order::Any => usize::MAX,
            Order::Bytes => NEAR,
        };
        let open = self.ranges[..room].iter().enumerate().filter(|(_, range)| !range.listed).take(near);
        let cuts = open.filter_map(|(at, range)| {
            let cut = self.shape.cut(range.last.as_ref()?, range.until.as_deref())?;
            (self.pages_left(range)? >= FEWEST_PAGES).then_some((at, cut))
        });
        // The widest: a narrow one may have no more than the page that is under way.
        let (at, cut) = cuts.min_by_key(|(_, cut)| (cut.shared, Reverse(cut.breadth)))?;
        let range = &mut self.ranges[at];
        let until = range.until.replace(cut.at.clone());
        let id = self.next_id;
        self.next_id += 1;
        self.ranges.insert(at + 1, Range::new(id, Some(cut.at.clone()), until));
        self.waiting += 1;
        Some(Task { range: id, from: From::After(cut.at) })
    }

    /// How many pages a range goes on for, as far as keys are spread as those seen are.
    fn pages_left(&self, range: &Range) -> Option<f64> {
        let last = self.shape.rank(range.last.as_ref()?);
        let page = last - self.shape.rank(range.first.as_ref()?);
        let until = range.until.as_ref().map_or(1.0, |until| self.shape.rank(until));
        Some((until - last) / page)
    }

    /// Takes in a page of a range.
    ///
    /// # Errors
    /// Why the range must not be listed on.
    pub(super) fn arrived(&mut self, id: u64, page: Page) -> Result<(), &'static str> {
        let Page { mut entries, last, next, .. } = page;
        self.waiting = self.waiting.saturating_sub(1);
        let Some(at) = self.ranges.iter().position(|range| range.id == id && !range.listed) else {
            return Ok(());
        };
        let range = &mut self.ranges[at];
        if let Some(token) = &next {
            range.turns.check(token, Brought::of(&entries))?;
        }
        if let Some(first) = entries.first() {
            range.first = Some(String::from_utf8_lossy(&first.name).into_owned());
        }
        let within = range.keep(&mut entries);
        let worth = entries.len() >= WORTH;
        (self.worth, self.poor) = (self.worth + u64::from(worth), self.poor + u64::from(!worth));
        for entry in entries.iter().step_by(SAMPLE) {
            self.shape.see(&String::from_utf8_lossy(&entry.name));
        }
        range.listed = !within || next.is_none();
        range.last =
            last.filter(|last| range.after.as_ref().is_none_or(|after| last > after)).or(range.last.take());
        if !entries.is_empty() {
            range.pages.push_back(entries);
            self.waiting += 1;
        }
        if within && next.is_none() {
            // The service says that no key lies behind these: every range behind this one is empty.
            self.ranges[at + 1..].iter_mut().for_each(|range| range.listed = true);
        }
        self.ranges[at].idle = next.filter(|_| within).map(From::Token);
        Ok(())
    }

    /// Takes the next page, in the order asked for.
    pub(super) fn take(&mut self) -> Next {
        let done = |range: &Range| range.listed && range.pages.is_empty();
        match self.order {
            Order::Any => self.ranges.retain(|range| !done(range)),
            Order::Bytes => {
                let first = self.ranges.iter().position(|range| !done(range)).unwrap_or(self.ranges.len());
                self.ranges.drain(..first);
            }
        }
        let ready = match self.order {
            Order::Any => self.ranges.iter_mut().find(|range| !range.pages.is_empty()),
            Order::Bytes => self.ranges.first_mut(),
        };
        match ready.and_then(|range| range.pages.pop_front()) {
            Some(page) => {
                self.waiting -= 1;
                Next::Page(page)
            }
            None if self.ranges.is_empty() => Next::End,
            None => Next::Wait,
        }
    }

    /// The range whose pages are taken first.
    pub(super) fn first(&self) -> Option<u64> {
        self.ranges.first().map(|range| range.id)
    }

    /// Whether everything has been listed.
    pub(super) fn is_listed(&self) -> bool {
        self.ranges.iter().all(|range| range.listed)
    }
}

#[cfg(test)]
mod tests;
