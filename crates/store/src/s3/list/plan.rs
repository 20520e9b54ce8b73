//! Divides a listing between workers. The key space is a sequence of adjacent ranges. Each is
//! listed page by page by one worker, and is split when another worker is idle.
//!
//! The ranges always cover every key exactly once. A key that exists all the time is listed exactly
//! once, since S3 lists in key order and with strong consistency. A key that is added or removed
//! meanwhile is listed at most once. Facts learnt from one range (the end of all keys, the shape of
//! keys) are used for the others.
//!
//! The order of the service is checked: each page starts after the previous one, and the first key
//! after the end of a range is the first of the next range. If it is wrong, an unordered listing
//! starts over as one range and skips the keys already returned. An ordered listing fails.
//!
//! The plan does no I/O: callers report pages and ask for tasks, so tests can simulate whole
//! listings.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

use firstbyte_listing::EntryOrder;
use firstbyte_location::Entry;

use super::cut::{Grouping, KeyShape};
use super::page::{From, S3Page};
use crate::object::{in_listing_order, listing_key};
use crate::order::Disorder;
use crate::turns::{Brought, Turns};

/// Wrong guesses allowed before the first right one. A name of 30 characters may need one guess per
/// character.
const FREE_GUESSES: u64 = 16;
/// Wrong guesses allowed per useful page. So a listing takes at most about three times as many
/// requests as a sequential one, and usually only a few more.
const GUESSES_PER_PAGE: u64 = 2;
/// The fewest keys of a useful page. Fewer keys were a wrong guess: they would have fitted into
/// another page.
const USEFUL_PAGE: usize = 250;

/// First ranges that may be split in an ordered listing, since entries of later ones would wait too
/// long. It is also the limit of waiting pages in all ranges, and again in the ranges needed next:
/// 10 MB in total.
pub(super) const SPLITTABLE_RANGES: usize = 16;
/// Estimated number of pages from which a range is worth splitting. The lower half ends with a
/// partial page, which pays off if a round trip is saved.
const FEWEST_PAGES: f64 = 2.5;
/// Estimated number of pages from which a range is worth splitting if requests are quick: the
/// partial page has to be a small part of the range.
const FEWEST_QUICK_PAGES: f64 = 16.0;
/// Interval of the keys from which the shape is learnt.
const SAMPLE: usize = 16;

/// A range of keys, after one key and up to another.
#[derive(Debug)]
struct Range {
    id: u64,
    /// The key after which the range starts; `None` for the first range.
    after: Option<String>,
    /// The last key listed; `None` before its first page.
    last: Option<String>,
    /// The first key of the last page.
    first: Option<String>,
    /// The last key that may be in the range; `None` for the last range.
    until: Option<String>,
    /// True if the range has been listed to its end.
    listed: bool,
    /// The place to continue from, while no worker lists the range.
    idle: Option<From>,
    /// Pages that the consumer has not taken yet.
    pages: VecDeque<Vec<Entry>>,
    /// Detects endless listings.
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

    /// Returns the fault if a page does not follow the one before. A page may repeat the last key.
    fn disorder(&self, page: &S3Page) -> Option<Disorder> {
        if let Some(disorder) = &page.disorder {
            return Some(disorder.clone());
        }
        let (last, first) = (self.last.as_ref()?, page.entries.first()?);
        in_listing_order(first)
            .lt(last.bytes())
            .then(|| Disorder { previous: last.as_bytes().to_vec(), name: first.name.clone() })
    }

    /// Removes entries outside this range, and a key already listed, from a page. Returns the first
    /// key after the start of the range, and the first after its end.
    fn keep(&self, entries: &mut Vec<Entry>) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        // A service without support for `start-after` starts at the first key.
        if let Some(before) = self.last.as_ref().or(self.after.as_ref()) {
            entries.drain(..entries.partition_point(|entry| !in_listing_order(entry).gt(before.bytes())));
        }
        let first = entries.first().map(listing_key);
        let Some(until) = &self.until else { return (first, None) };
        let end = entries.partition_point(|entry| !in_listing_order(entry).gt(until.bytes()));
        let behind = entries.get(end).map(listing_key);
        entries.truncate(end);
        (first, behind)
    }
}

/// The reason why pages cannot be combined to a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListingFault {
    /// The pages do not end, or a repeated listing does not match the first one.
    Unusable(&'static str),
    /// The pages are out of order.
    Disordered(Disorder),
}

/// The keys that two adjacent ranges have seen around their common end.
#[derive(Debug, Default)]
struct Seam {
    /// The first key after the end that the range below has seen. The outer value is `None` until
    /// that range has ended.
    seen_below: Option<Option<Vec<u8>>>,
    /// The first key of the range above; `Some(None)` if the range ended without a key.
    seen_above: Option<Option<Vec<u8>>>,
}

impl Seam {
    /// Returns the disorder if both ranges have seen different keys.
    fn disorder(&self, at: &str) -> Option<Disorder> {
        let (below, above) = self.seen_below.as_ref().zip(self.seen_above.as_ref())?;
        let key = |key: &Option<Vec<u8>>| key.clone().unwrap_or_else(|| at.as_bytes().to_vec());
        (below != above).then(|| Disorder { previous: key(below), name: key(above) })
    }

    fn is_checked(&self) -> bool {
        self.seen_below.is_some() && self.seen_above.is_some()
    }
}

/// Keys that the consumer took before a listing started over.
#[derive(Debug, Default)]
struct Taken {
    /// The first and the last key taken of each range. The service has listed all keys between
    /// them.
    runs: HashMap<u64, (Vec<u8>, Vec<u8>)>,
    /// The last key of the run that is being skipped.
    within: Option<Vec<u8>>,
}

impl Taken {
    fn add(&mut self, range: u64, page: &[Entry]) {
        let (Some(first), Some(last)) = (page.first(), page.last()) else { return };
        let run = self.runs.entry(range).or_insert_with(|| (listing_key(first), Vec::new()));
        run.1 = listing_key(last);
    }

    /// Returns whether an entry of the repeated listing was taken before.
    fn has(&mut self, entry: &Entry) -> bool {
        let key = listing_key(entry);
        if self.within.is_none() {
            self.within = self.runs.values().find(|(first, _)| *first == key).map(|(_, last)| last.clone());
        }
        let Some(last) = &self.within else { return false };
        if *last == key {
            self.within = None;
        }
        true
    }
}

/// The next step for the consumer.
#[derive(Debug)]
pub(super) enum NextStep {
    /// A page.
    Page(Vec<Entry>),
    /// No page is ready yet.
    Wait,
    /// The end of the listing.
    End,
}

/// A page to request: its range and its start.
#[derive(Clone, Debug)]
pub(super) struct PageTask {
    pub(super) range: u64,
    pub(super) from: From,
}

/// Whether a range may be split for an idle worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cutting {
    Allowed,
    /// Requests are quick: only long ranges are split, and only while there is room for pages of
    /// any range. Otherwise the ranges needed next would be split ever finer, each time at the cost
    /// of a partial page.
    OnlyLong,
    Never,
}

/// The ranges of the whole key space, and the state of listing them.
#[derive(Debug)]
pub(super) struct ListingPlan {
    /// The ranges in key order, without those that are listed and taken.
    ranges: Vec<Range>,
    shape: KeyShape,
    order: EntryOrder,
    /// Pages of all ranges that were not taken yet or are being requested.
    waiting: usize,
    /// Number of waiting pages from which only pages needed next are requested.
    most: usize,
    next_id: u64,
    worth: u64,
    poor: u64,
    /// The ends of ranges that have not been compared yet, by key.
    seams: HashMap<String, Seam>,
    taken: Taken,
    /// True if the listing has started over as one range.
    undivided: bool,
}

impl ListingPlan {
    pub(super) const WHOLE: u64 = 0;

    /// Returns a plan of one range over all keys. `most` pages may wait, and as many again in
    /// ordered listings.
    pub(super) fn new(grouping: Grouping, order: EntryOrder, most: usize) -> Self {
        let whole = Range::new(Self::WHOLE, None, None);
        Self {
            ranges: vec![whole],
            shape: KeyShape::new(grouping),
            order,
            waiting: 0,
            most,
            next_id: Self::WHOLE + 1,
            worth: 0,
            poor: 0,
            seams: HashMap::new(),
            taken: Taken::default(),
            undivided: false,
        }
    }

    /// Returns the next task of a worker that listed the range `at`. The worker continues with that
    /// range while there is room for pages. Otherwise it continues an idle range or splits one.
    pub(super) fn task(&mut self, at: Option<u64>, cutting: Cutting) -> Option<PageTask> {
        let room = self.requestable_ranges();
        let may = |range: &Range| range.idle.is_some() && !range.listed;
        let first = || self.ranges[..room].iter().position(may);
        let own = at.and_then(|id| self.ranges[..room].iter().position(|range| range.id == id && may(range)));
        if let Some(range) = own.or_else(first).map(|at| &mut self.ranges[at]) {
            let task = range.idle.take().map(|from| PageTask { range: range.id, from });
            self.waiting += 1;
            return task;
        }
        match cutting {
            Cutting::Allowed => self.cut(room, FEWEST_PAGES),
            Cutting::OnlyLong if room == self.ranges.len() => self.cut(room, FEWEST_QUICK_PAGES),
            Cutting::OnlyLong | Cutting::Never => None,
        }
    }

    /// Returns how many of the first ranges may request another page: all while there is room.
    /// After that, the same room again is reserved for the ranges needed next. The first range may
    /// always request a page if none of its pages waits, otherwise the listing would stop.
    fn requestable_ranges(&self) -> usize {
        if self.waiting < self.most {
            return self.ranges.len();
        }
        if self.order == EntryOrder::Any {
            return 0;
        }
        let mut near = 0;
        let within = self.ranges.iter().take_while(|range| {
            near += range.pages.len();
            near < self.most
        });
        let first = self.ranges.iter().take(1).filter(|range| range.pages.is_empty()).count();
        within.count().max(first)
    }

    /// Splits one of the first `room` ranges that has at least `fewest` pages. Returns the upper
    /// half as a task, or `None` if no guess is worth a request.
    fn cut(&mut self, room: usize, fewest: f64) -> Option<PageTask> {
        if self.undivided || self.poor > FREE_GUESSES + GUESSES_PER_PAGE * self.worth {
            return None;
        }
        let near = match self.order {
            EntryOrder::Any => usize::MAX,
            EntryOrder::Bytes => SPLITTABLE_RANGES,
        };
        let open = self.ranges[..room].iter().enumerate().filter(|(_, range)| !range.listed).take(near);
        let cuts = open.filter_map(|(at, range)| {
            let cut = self.shape.cut(range.last.as_ref()?, range.until.as_deref())?;
            (self.pages_left(range)? >= fewest).then_some((at, cut))
        });
        // The widest range is split: a narrow one may have only the page being requested.
        let (at, cut) = cuts.min_by_key(|(_, cut)| (cut.shared, Reverse(cut.breadth)))?;
        let range = &mut self.ranges[at];
        let until = range.until.replace(cut.at.clone());
        let id = self.next_id;
        self.next_id += 1;
        self.ranges.insert(at + 1, Range::new(id, Some(cut.at.clone()), until));
        self.waiting += 1;
        Some(PageTask { range: id, from: From::After(cut.at) })
    }

    /// Estimates the remaining pages of a range, assuming that keys are distributed like those
    /// seen.
    fn pages_left(&self, range: &Range) -> Option<f64> {
        let last = self.shape.rank(range.last.as_ref()?);
        let page = last - self.shape.rank(range.first.as_ref()?);
        let until = range.until.as_ref().map_or(1.0, |until| self.shape.rank(until));
        Some((until - last) / page)
    }

    /// Records a page of a range.
    ///
    /// # Errors
    /// The fault, after which the listing must not continue.
    pub(super) fn arrived(&mut self, id: u64, page: S3Page) -> Result<(), ListingFault> {
        self.waiting = self.waiting.saturating_sub(1);
        let Some(at) = self.ranges.iter().position(|range| range.id == id && !range.listed) else {
            return Ok(());
        };
        if let Some(token) = &page.next {
            let brought = Brought::of(&page.entries);
            self.ranges[at].turns.check(token, brought).map_err(ListingFault::Unusable)?;
        }
        if self.undivided {
            return self.add_undivided(page);
        }
        match self.ranges[at].disorder(&page).or_else(|| self.add(at, page)) {
            None => Ok(()),
            Some(disorder) if self.order == EntryOrder::Bytes => Err(ListingFault::Disordered(disorder)),
            Some(_) => {
                self.start_over();
                Ok(())
            }
        }
    }

    /// Adds a page to a range. Returns the disorder if ranges do not fit together.
    fn add(&mut self, at: usize, page: S3Page) -> Option<Disorder> {
        let S3Page { mut entries, last, next, .. } = page;
        let range = &mut self.ranges[at];
        if let Some(first) = entries.first() {
            range.first = Some(String::from_utf8_lossy(&first.name).into_owned());
        }
        let (first, behind) = range.keep(&mut entries);
        let within = behind.is_none();
        let worth = entries.len() >= USEFUL_PAGE;
        (self.worth, self.poor) = (self.worth + u64::from(worth), self.poor + u64::from(!worth));
        for entry in entries.iter().step_by(SAMPLE) {
            self.shape.see(&String::from_utf8_lossy(&entry.name));
        }
        let is_first_of_range = range.last.is_none();
        range.listed = !within || next.is_none();
        range.last =
            last.filter(|last| range.after.as_ref().is_none_or(|after| last > after)).or(range.last.take());
        if !entries.is_empty() {
            range.pages.push_back(entries);
            self.waiting += 1;
        }
        let (listed, after) = (range.listed, range.after.clone());
        range.idle = next.filter(|_| within).map(From::Token);
        let mut disorder = None;
        if let Some(after) = after.filter(|_| is_first_of_range && (first.is_some() || listed)) {
            disorder = self.check(after, |seam| seam.seen_above = Some(first));
        }
        if let Some(until) = self.ranges[at].until.clone().filter(|_| listed) {
            disorder = disorder.or(self.check(until, |seam| seam.seen_below = Some(behind)));
        }
        if within && listed {
            // The service has no keys after these, so all later ranges are empty.
            self.ranges[at + 1..].iter_mut().for_each(|range| range.listed = true);
            disorder = disorder.or_else(|| self.key_behind(at));
        }
        disorder
    }

    /// Records a key next to the end of a range, and compares it with the key from the other side.
    fn check(&mut self, at: String, record: impl FnOnce(&mut Seam)) -> Option<Disorder> {
        let seam = self.seams.entry(at.clone()).or_default();
        record(seam);
        let disorder = seam.disorder(&at);
        if seam.is_checked() {
            self.seams.remove(&at);
        }
        disorder
    }

    /// Returns a disorder if a range has seen a key after the end of all keys, which the range `at`
    /// has reached.
    fn key_behind(&self, at: usize) -> Option<Disorder> {
        let until = self.ranges[at].until.as_ref()?;
        let seen = |(_, seam): (_, &Seam)| seam.seen_above.clone().flatten();
        let name = self.seams.iter().filter(|(key, _)| *key >= until).find_map(seen)?;
        Some(Disorder { previous: until.as_bytes().to_vec(), name })
    }

    /// Starts again with the whole key space as one range.
    fn start_over(&mut self) {
        let whole = Range { idle: Some(From::Start), ..Range::new(self.next_id, None, None) };
        self.next_id += 1;
        self.ranges = vec![whole];
        self.waiting = 0;
        self.seams.clear();
        self.undivided = true;
    }

    fn add_undivided(&mut self, page: S3Page) -> Result<(), ListingFault> {
        let S3Page { mut entries, next, .. } = page;
        entries.retain(|entry| !self.taken.has(entry));
        if next.is_none() && self.taken.within.is_some() {
            return Err(ListingFault::Unusable(
                "a listing that is out of order, and changed while it was read",
            ));
        }
        let Some(range) = self.ranges.first_mut() else { return Ok(()) };
        if !entries.is_empty() {
            range.pages.push_back(entries);
            self.waiting += 1;
        }
        range.listed = next.is_none();
        range.idle = next.map(From::Token);
        Ok(())
    }

    /// Returns true if the listing has started over because it is out of order.
    pub(super) fn is_undivided(&self) -> bool {
        self.undivided
    }

    /// Takes the next page in the requested order.
    pub(super) fn take(&mut self) -> NextStep {
        let done = |range: &Range| range.listed && range.pages.is_empty();
        match self.order {
            EntryOrder::Any => self.ranges.retain(|range| !done(range)),
            EntryOrder::Bytes => {
                let first = self.ranges.iter().position(|range| !done(range)).unwrap_or(self.ranges.len());
                self.ranges.drain(..first);
            }
        }
        let ready = match self.order {
            EntryOrder::Any => self.ranges.iter_mut().find(|range| !range.pages.is_empty()),
            EntryOrder::Bytes => self.ranges.first_mut(),
        };
        match ready.and_then(|range| Some((range.id, range.pages.pop_front()?))) {
            Some((range, page)) => {
                self.waiting = self.waiting.saturating_sub(1);
                if self.order == EntryOrder::Any && !self.undivided {
                    self.taken.add(range, &page);
                }
                NextStep::Page(page)
            }
            None if self.ranges.is_empty() => NextStep::End,
            None => NextStep::Wait,
        }
    }

    /// Returns the range whose pages are taken first.
    pub(super) fn first_range(&self) -> Option<u64> {
        self.ranges.first().map(|range| range.id)
    }

    pub(super) fn is_listed(&self) -> bool {
        self.ranges.iter().all(|range| range.listed)
    }
}

#[cfg(test)]
mod tests;
