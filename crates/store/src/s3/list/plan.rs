//! Divides a listing between workers. The key space is a sequence of adjacent ranges. One worker
//! lists each range page by page; when another worker is idle, a range is split for it.
//!
//! The ranges always cover every key exactly once. A key that exists during the whole listing is
//! listed exactly once, because S3 lists in key order and with strong consistency. A key that is
//! added or removed during the listing is listed at most once. Each range may show the end of all
//! keys or the shape of keys, which is then used for the other ranges.
//!
//! The order of the service is checked: each page must start after the previous one, and the first
//! key after the end of a range must be the first key of the next range. If the order is wrong, an
//! unordered listing starts over as one range and skips the keys already returned, and an ordered
//! listing fails.
//!
//! The plan does no I/O: callers report pages and ask for tasks. So tests can simulate whole
//! listings.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

use firstbyte_listing::EntryOrder;
use firstbyte_location::Entry;

use super::cut::{Grouping, KeyShape};
use super::page::{PageStart, S3Page};
use crate::endless::{EndlessListingCheck, PageContent};
use crate::object::{in_listing_order, listing_key};
use crate::order::Disorder;

/// Number of wrong guesses allowed before the first right one. A guess is a key at which a range is
/// split; it is wrong if the range above the key has few keys. Keys with a long common beginning
/// may need one guess for each of its characters.
const FREE_GUESSES: u64 = 16;
/// Number of wrong guesses allowed per useful page. So a listing takes at most about three times
/// the requests of a sequential listing, and usually only a few more.
const GUESSES_PER_PAGE: u64 = 2;
/// Minimum number of keys on a useful page. A page with fewer keys counts as a wrong guess, because
/// the page before it had room for them.
const MIN_USEFUL_KEYS: usize = 250;

/// Number of ranges at the start of an ordered listing that may be split. Entries of later ranges
/// would wait too long before they are returned. Also the maximum number of pages that wait in all
/// ranges together. As many again may wait in the ranges that are needed next. All these pages take
/// 10 MB.
pub(super) const SPLITTABLE_RANGES: usize = 16;
/// Estimated number of remaining pages from which on a range may be split. After a split, the lower
/// half ends with a partial page. That costs one request, but saves at least one round trip.
const MIN_PAGES_TO_SPLIT: f64 = 2.5;
/// Estimated number of remaining pages from which on a range may be split if requests are quick.
/// The additional partial page must then be a small part of the range.
const MIN_QUICK_PAGES_TO_SPLIT: f64 = 16.0;
/// The shape of keys is learnt from one key in this many.
const SAMPLE_INTERVAL: usize = 16;

/// A range of keys: all keys after one key, up to and including another.
#[derive(Debug)]
struct KeyRange {
    id: u64,
    /// The key after which the range starts; `None` for the first range.
    after: Option<String>,
    /// The greatest name listed, relative to the prefix of the query; `None` before the first page.
    last: Option<String>,
    /// The first key of the page that was listed last.
    first: Option<String>,
    /// The last key that may be in the range; `None` for the last range.
    until: Option<String>,
    /// True if the range has been listed to its end.
    is_listed: bool,
    /// The start of the next page. `None` while a worker lists the range.
    idle: Option<PageStart>,
    /// Pages that the consumer has not taken yet.
    pages: VecDeque<Vec<Entry>>,
    /// Detects a listing that never ends.
    endless: EndlessListingCheck,
}

impl KeyRange {
    fn new(id: u64, after: Option<String>, until: Option<String>) -> Self {
        Self {
            id,
            after,
            last: None,
            first: None,
            until,
            is_listed: false,
            idle: None,
            pages: VecDeque::new(),
            endless: EndlessListingCheck::default(),
        }
    }

    /// Returns the disorder if a page does not follow the previous one. A page may repeat the last
    /// key of the previous one.
    fn disorder(&self, page: &S3Page) -> Option<Disorder> {
        if let Some(disorder) = &page.disorder {
            return Some(disorder.clone());
        }
        let (last, first) = (self.last.as_ref()?, page.entries.first()?);
        in_listing_order(first)
            .lt(last.bytes())
            .then(|| Disorder { previous: last.as_bytes().to_vec(), next: first.name.clone() })
    }

    /// Removes from a page the entries outside this range, and a key that was already listed.
    /// Returns the first key after the start of the range, and the first key after its end.
    fn keep(&self, entries: &mut Vec<Entry>) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        // If the service does not support `start-after`, the page starts at the first key of all.
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

/// The keys that the two ranges on both sides of a common end have seen after that end.
#[derive(Debug, Default)]
struct Seam {
    /// The first key after the common end that the lower range has seen, if there is one. The outer
    /// `Option` is `None` until the lower range has ended.
    seen_below: Option<Option<Vec<u8>>>,
    /// The first key of the upper range. The outer `Option` is `None` until the upper range has a
    /// page. The inner `Option` is `None` if that range ended without a key.
    seen_above: Option<Option<Vec<u8>>>,
}

impl Seam {
    /// Returns the disorder if the two ranges have seen different keys.
    fn disorder(&self, at: &str) -> Option<Disorder> {
        let (below, above) = self.seen_below.as_ref().zip(self.seen_above.as_ref())?;
        let key = |key: &Option<Vec<u8>>| key.clone().unwrap_or_else(|| at.as_bytes().to_vec());
        (below != above).then(|| Disorder { previous: key(below), next: key(above) })
    }

    fn is_checked(&self) -> bool {
        self.seen_below.is_some() && self.seen_above.is_some()
    }
}

/// The keys that the consumer took before the listing started over.
#[derive(Debug, Default)]
struct TakenKeys {
    /// The first and last key taken from each range. The service has listed all keys between these
    /// two.
    runs: HashMap<u64, (Vec<u8>, Vec<u8>)>,
    /// The last key of the run that is being skipped now.
    skipped_until: Option<Vec<u8>>,
}

impl TakenKeys {
    fn add_page(&mut self, range: u64, page: &[Entry]) {
        let (Some(first), Some(last)) = (page.first(), page.last()) else { return };
        let run = self.runs.entry(range).or_insert_with(|| (listing_key(first), Vec::new()));
        run.1 = listing_key(last);
    }

    /// Returns true if an entry of the repeated listing was taken before.
    fn has(&mut self, entry: &Entry) -> bool {
        let key = listing_key(entry);
        if self.skipped_until.is_none() {
            self.skipped_until =
                self.runs.values().find(|(first, _)| *first == key).map(|(_, last)| last.clone());
        }
        let Some(last) = &self.skipped_until else { return false };
        if *last == key {
            self.skipped_until = None;
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

/// A page to request: its range, and where it starts.
#[derive(Clone, Debug)]
pub(super) struct PageTask {
    pub(super) range: u64,
    pub(super) from: PageStart,
}

/// Whether a range may be split for an idle worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cutting {
    Allowed,
    /// Only long ranges are split, because requests are quick, and only while there is room for
    /// pages of any range. Otherwise the ranges that are needed next would be split again and
    /// again, and each split costs a partial page.
    OnlyLong,
    Never,
}

/// The ranges of the whole key space, and how far each is listed.
#[derive(Debug)]
pub(super) struct ListingPlan {
    /// The ranges in key order, without those whose pages were all listed and taken.
    ranges: Vec<KeyRange>,
    shape: KeyShape,
    order: EntryOrder,
    /// Number of pages, of all ranges, that are being requested or were not taken yet.
    waiting: usize,
    /// Number of waiting pages from which on only the pages that are needed next are requested.
    max_waiting: usize,
    next_id: u64,
    /// Number of pages with enough keys to be worth a request.
    useful_pages: u64,
    /// Number of pages with fewer keys.
    wasted_pages: u64,
    /// The ends of ranges that were not compared yet, by key.
    seams: HashMap<String, Seam>,
    taken: TakenKeys,
    /// True if the listing has started over as one range.
    is_undivided: bool,
}

impl ListingPlan {
    pub(super) const WHOLE: u64 = 0;

    /// Returns a plan with one range over all keys. Up to `max_waiting` pages may wait. In ordered
    /// listings, as many again may wait for the ranges needed next.
    pub(super) fn new(grouping: Grouping, order: EntryOrder, max_waiting: usize) -> Self {
        let whole = KeyRange::new(Self::WHOLE, None, None);
        Self {
            ranges: vec![whole],
            shape: KeyShape::new(grouping),
            order,
            waiting: 0,
            max_waiting,
            next_id: Self::WHOLE + 1,
            useful_pages: 0,
            wasted_pages: 0,
            seams: HashMap::new(),
            taken: TakenKeys::default(),
            is_undivided: false,
        }
    }

    /// Returns the next task for a worker that listed the range `at`. The worker continues that
    /// range while there is room for pages. After that, it continues an idle range or splits one.
    pub(super) fn task(&mut self, at: Option<u64>, cutting: Cutting) -> Option<PageTask> {
        let room = self.requestable_ranges();
        let may = |range: &KeyRange| range.idle.is_some() && !range.is_listed;
        let first = || self.ranges[..room].iter().position(may);
        let own = at.and_then(|id| self.ranges[..room].iter().position(|range| range.id == id && may(range)));
        if let Some(range) = own.or_else(first).map(|at| &mut self.ranges[at]) {
            let task = range.idle.take().map(|from| PageTask { range: range.id, from });
            self.waiting += 1;
            return task;
        }
        match cutting {
            Cutting::Allowed => self.cut(room, MIN_PAGES_TO_SPLIT),
            Cutting::OnlyLong if room == self.ranges.len() => self.cut(room, MIN_QUICK_PAGES_TO_SPLIT),
            Cutting::OnlyLong | Cutting::Never => None,
        }
    }

    /// Returns the number of ranges at the start of the plan that may request another page. If
    /// there is room for pages, all ranges may. Otherwise, in an ordered listing, the ranges that
    /// are needed next may use an equal amount of additional room. The first range may always
    /// request a page if none of its pages waits, because the listing would stop otherwise.
    fn requestable_ranges(&self) -> usize {
        if self.waiting < self.max_waiting {
            return self.ranges.len();
        }
        if self.order == EntryOrder::Any {
            return 0;
        }
        let mut near = 0;
        let within = self.ranges.iter().take_while(|range| {
            near += range.pages.len();
            near < self.max_waiting
        });
        let first = self.ranges.iter().take(1).filter(|range| range.pages.is_empty()).count();
        within.count().max(first)
    }

    /// Splits one of the first `room` ranges that has at least `fewest` pages left. Returns the
    /// upper half as a task, or `None` if no split is worth a request.
    fn cut(&mut self, room: usize, fewest: f64) -> Option<PageTask> {
        if self.is_undivided || self.wasted_pages > FREE_GUESSES + GUESSES_PER_PAGE * self.useful_pages {
            return None;
        }
        let near = match self.order {
            EntryOrder::Any => usize::MAX,
            EntryOrder::Bytes => SPLITTABLE_RANGES,
        };
        let open = self.ranges[..room].iter().enumerate().filter(|(_, range)| !range.is_listed).take(near);
        let cuts = open.filter_map(|(at, range)| {
            let cut = self.shape.cut(range.last.as_ref()?, range.until.as_deref())?;
            (self.pages_left(range)? >= fewest).then_some((at, cut))
        });
        // The widest range is split, because a narrow one may have no keys after the page that is
        // being requested.
        let (at, cut) = cuts.min_by_key(|(_, cut)| (cut.shared, Reverse(cut.breadth)))?;
        let range = &mut self.ranges[at];
        let until = range.until.replace(cut.at.clone());
        let id = self.next_id;
        self.next_id += 1;
        self.ranges.insert(at + 1, KeyRange::new(id, Some(cut.at.clone()), until));
        self.waiting += 1;
        Some(PageTask { range: id, from: PageStart::After(cut.at) })
    }

    /// Estimates the number of remaining pages of a range, assuming that its keys are distributed
    /// like those seen so far.
    fn pages_left(&self, range: &KeyRange) -> Option<f64> {
        let last = self.shape.rank(range.last.as_ref()?);
        let page = last - self.shape.rank(range.first.as_ref()?);
        let until = range.until.as_ref().map_or(1.0, |until| self.shape.rank(until));
        Some((until - last) / page)
    }

    /// Records a page of a range.
    ///
    /// # Errors
    /// The reason why the listing must not continue.
    pub(super) fn record_page(&mut self, id: u64, page: S3Page) -> Result<(), ListingFault> {
        self.waiting = self.waiting.saturating_sub(1);
        let Some(at) = self.ranges.iter().position(|range| range.id == id && !range.is_listed) else {
            return Ok(());
        };
        if let Some(token) = &page.next {
            let content = PageContent::of(&page.entries);
            self.ranges[at].endless.check(token, content).map_err(ListingFault::Unusable)?;
        }
        if self.is_undivided {
            return self.add_undivided(page);
        }
        match self.ranges[at].disorder(&page).or_else(|| self.add_to_range(at, page)) {
            None => Ok(()),
            Some(disorder) if self.order == EntryOrder::Bytes => Err(ListingFault::Disordered(disorder)),
            Some(_) => {
                self.start_over();
                Ok(())
            }
        }
    }

    /// Adds a page to a range. Returns the disorder if the range does not fit the ranges next to
    /// it.
    fn add_to_range(&mut self, at: usize, page: S3Page) -> Option<Disorder> {
        let S3Page { mut entries, last, next, .. } = page;
        let range = &mut self.ranges[at];
        if let Some(first) = entries.first() {
            range.first = Some(String::from_utf8_lossy(&first.name).into_owned());
        }
        let (first, behind) = range.keep(&mut entries);
        let within = behind.is_none();
        let is_useful = entries.len() >= MIN_USEFUL_KEYS;
        self.useful_pages += u64::from(is_useful);
        self.wasted_pages += u64::from(!is_useful);
        for entry in entries.iter().step_by(SAMPLE_INTERVAL) {
            self.shape.see(&String::from_utf8_lossy(&entry.name));
        }
        let is_first_of_range = range.last.is_none();
        range.is_listed = !within || next.is_none();
        range.last =
            last.filter(|last| range.after.as_ref().is_none_or(|after| last > after)).or(range.last.take());
        if !entries.is_empty() {
            range.pages.push_back(entries);
            self.waiting += 1;
        }
        let (listed, after) = (range.is_listed, range.after.clone());
        range.idle = next.filter(|_| within).map(PageStart::Token);
        let mut disorder = None;
        if let Some(after) = after.filter(|_| is_first_of_range && (first.is_some() || listed)) {
            disorder = self.check(after, |seam| seam.seen_above = Some(first));
        }
        if let Some(until) = self.ranges[at].until.clone().filter(|_| listed) {
            disorder = disorder.or(self.check(until, |seam| seam.seen_below = Some(behind)));
        }
        if within && listed {
            // The service has no keys after this range, so all later ranges are empty.
            self.ranges[at + 1..].iter_mut().for_each(|range| range.is_listed = true);
            disorder = disorder.or_else(|| self.key_behind(at));
        }
        disorder
    }

    /// Records a key at the common end of two ranges, and compares it with the key that the other
    /// range has seen there.
    fn check(&mut self, at: String, record: impl FnOnce(&mut Seam)) -> Option<Disorder> {
        let seam = self.seams.entry(at.clone()).or_default();
        record(seam);
        let disorder = seam.disorder(&at);
        if seam.is_checked() {
            self.seams.remove(&at);
        }
        disorder
    }

    /// Returns the disorder if a later range has seen a key, although the range `at` has reached
    /// the end of all keys.
    fn key_behind(&self, at: usize) -> Option<Disorder> {
        let until = self.ranges[at].until.as_ref()?;
        let seen = |(_, seam): (_, &Seam)| seam.seen_above.clone().flatten();
        let name = self.seams.iter().filter(|(key, _)| *key >= until).find_map(seen)?;
        Some(Disorder { previous: until.as_bytes().to_vec(), next: name })
    }

    /// Starts over with one range over the whole key space.
    fn start_over(&mut self) {
        let whole = KeyRange { idle: Some(PageStart::Start), ..KeyRange::new(self.next_id, None, None) };
        self.next_id += 1;
        self.ranges = vec![whole];
        self.waiting = 0;
        self.seams.clear();
        self.is_undivided = true;
    }

    fn add_undivided(&mut self, page: S3Page) -> Result<(), ListingFault> {
        let S3Page { mut entries, next, .. } = page;
        entries.retain(|entry| !self.taken.has(entry));
        if next.is_none() && self.taken.skipped_until.is_some() {
            return Err(ListingFault::Unusable(
                "a listing that is out of order, and changed while it was read",
            ));
        }
        let Some(range) = self.ranges.first_mut() else { return Ok(()) };
        if !entries.is_empty() {
            range.pages.push_back(entries);
            self.waiting += 1;
        }
        range.is_listed = next.is_none();
        range.idle = next.map(PageStart::Token);
        Ok(())
    }

    /// Returns true if the listing has started over because its order was wrong.
    pub(super) fn is_undivided(&self) -> bool {
        self.is_undivided
    }

    /// Takes the next page in the requested order.
    pub(super) fn take(&mut self) -> NextStep {
        let done = |range: &KeyRange| range.is_listed && range.pages.is_empty();
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
                if self.order == EntryOrder::Any && !self.is_undivided {
                    self.taken.add_page(range, &page);
                }
                NextStep::Page(page)
            }
            None if self.ranges.is_empty() => NextStep::End,
            None => NextStep::Wait,
        }
    }

    /// Returns the first range. Its pages are taken first in an ordered listing.
    pub(super) fn first_range(&self) -> Option<u64> {
        self.ranges.first().map(|range| range.id)
    }

    pub(super) fn is_listed(&self) -> bool {
        self.ranges.iter().all(|range| range.is_listed)
    }
}

#[cfg(test)]
mod tests;
