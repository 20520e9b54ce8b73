//! Lists the ranges of a [`ListingPlan`] on several threads, and iterates over the entries.
//!
//! A thread lists its range as long as there is room for pages. After that, it continues another
//! range or splits one. If [`ListingPace`] allows more requests, more threads are started; if it
//! allows fewer, the surplus threads wait. All threads end with the listing. If the listing is
//! dropped, their requests are cancelled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use firstbyte_location::Entry;
use rustix_futex_sync::{Condvar, Mutex};

use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::limits::STACK;
use crate::s3::{S3, protocol};
use firstbyte_listing::EntryOrder;

use super::pace::ListingPace;
use super::page::{S3Page, S3Query};
use super::plan::{Cutting, ListingFault, ListingPlan, NextStep, PageTask, SPLITTABLE_RANGES};

struct Shared {
    s3: Arc<S3>,
    query: S3Query,
    state: Mutex<ConcurrentListingState>,
    /// Wakes workers that wait for a range to split, for room, or for the end.
    work: Condvar,
    /// Wakes the consumer, which waits for a page or an error.
    page_ready: Condvar,
}

struct ConcurrentListingState {
    plan: ListingPlan,
    pace: ListingPace,
    cancels: Vec<Cancel>,
    error: Option<Error>,
    /// True if the listing was dropped or has failed.
    is_stopped: bool,
}

/// An iterator over the entries of a listing.
pub(super) struct ConcurrentListing {
    shared: Arc<Shared>,
    page: std::vec::IntoIter<Entry>,
}

impl ConcurrentListing {
    /// Continues after the first page, with up to `most` concurrent requests. Up to `most` pages of
    /// about 300 KB may wait for the consumer.
    pub(super) fn start(
        s3: Arc<S3>,
        query: S3Query,
        order: EntryOrder,
        most: usize,
        first: S3Page,
    ) -> Result<Self> {
        let waiting = match order {
            EntryOrder::Any => most,
            EntryOrder::Bytes => most.min(SPLITTABLE_RANGES),
        };
        let mut plan = ListingPlan::new(query.grouping, order, waiting);
        plan.record_page(ListingPlan::WHOLE, first).map_err(|fault| error(fault, &query))?;
        let state = ConcurrentListingState {
            plan,
            pace: ListingPace::new(most),
            cancels: Vec::new(),
            error: None,
            is_stopped: false,
        };
        let shared = Arc::new(Shared {
            s3,
            query,
            state: Mutex::new(state),
            work: Condvar::new(),
            page_ready: Condvar::new(),
        });
        shared.spawn(&mut shared.state.lock())?;
        Ok(Self { shared, page: Vec::new().into_iter() })
    }

    /// Waits for the next page. Returns `None` at the end of the listing.
    fn next_page(&mut self) -> Option<Result<Vec<Entry>>> {
        let mut state = self.shared.state.lock();
        loop {
            if let Some(error) = state.error.take() {
                state.stop();
                self.shared.work.notify_all();
                return Some(Err(error));
            }
            if state.is_stopped {
                return None;
            }
            let first = state.plan.first_range();
            let next = state.plan.take();
            // There is room now, or another range has become the first one, which always has room.
            if matches!(next, NextStep::Page(_)) || state.plan.first_range() != first {
                self.shared.work.notify_all();
            }
            match next {
                NextStep::Page(page) => return Some(Ok(page)),
                NextStep::End => return None,
                NextStep::Wait => {
                    state = self.shared.page_ready.wait(state);
                }
            }
        }
    }
}

impl Iterator for ConcurrentListing {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.page.next() {
                return Some(Ok(entry));
            }
            match self.next_page()? {
                Ok(page) => self.page = page.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Drop for ConcurrentListing {
    fn drop(&mut self) {
        self.shared.state.lock().stop();
        self.shared.work.notify_all();
    }
}

impl ConcurrentListingState {
    fn stop(&mut self) {
        self.is_stopped = true;
        self.cancels.iter().for_each(Cancel::cancel);
    }

    fn is_over(&self) -> bool {
        self.is_stopped || self.error.is_some() || self.plan.is_listed()
    }
}

impl Shared {
    /// Starts a worker.
    fn spawn(self: &Arc<Self>, state: &mut ConcurrentListingState) -> Result<()> {
        let (shared, cancel, index) = (Arc::clone(self), Cancel::new(), state.cancels.len());
        let worker = cancel.clone();
        let thread = std::thread::Builder::new().name(format!("list-{index}")).stack_size(STACK);
        thread
            .spawn(move || shared.work(index, &worker))
            .map_err(|source| Error::Io { location: "starting a thread".to_owned(), source })?;
        state.cancels.push(cancel);
        Ok(())
    }

    fn work(self: &Arc<Self>, index: usize, cancel: &Cancel) {
        let mut at = None;
        while let Some(task) = self.next_task(index, at) {
            at = Some(task.range);
            if let Err(error) = self.fetch(&task, cancel) {
                self.state.lock().error.get_or_insert(error);
                self.work.notify_all();
                self.page_ready.notify_one();
                return;
            }
        }
    }

    /// Waits for a task. Returns `None` at the end of the listing.
    fn next_task(&self, index: usize, at: Option<u64>) -> Option<PageTask> {
        let mut state = self.state.lock();
        while !state.is_over() {
            let cutting = match index < state.pace.allowed() {
                true if state.pace.is_near() => Cutting::OnlyLong,
                true => Cutting::Allowed,
                false => Cutting::Never,
            };
            if let Some(task) = state.plan.task(at, cutting) {
                return Some(task);
            }
            state = self.work.wait(state);
        }
        None
    }

    fn fetch(self: &Arc<Self>, task: &PageTask, cancel: &Cancel) -> Result<()> {
        let retries = self.s3.retries();
        let began = Instant::now();
        let page = self.s3.page(&self.query, &task.from, cancel)?;
        self.deliver(task.range, page, began.elapsed(), self.s3.retries() > retries)
    }

    fn deliver(self: &Arc<Self>, range: u64, page: S3Page, took: Duration, refused: bool) -> Result<()> {
        let full = page.next.is_some();
        let mut state = self.state.lock();
        state.plan.record_page(range, page).map_err(|fault| error(fault, &self.query))?;
        if state.plan.is_undivided() {
            self.s3.client.unsorted.add(&self.query.bucket);
        }
        if refused {
            state.pace.halve();
        } else if full {
            state.pace.record_full_page(took);
        }
        while state.cancels.len() < state.pace.allowed() && !state.is_over() {
            // If no thread can be started, the listing continues with fewer concurrent requests.
            if self.spawn(&mut state).is_err() {
                break;
            }
        }
        drop(state);
        self.work.notify_all();
        self.page_ready.notify_one();
        Ok(())
    }
}

fn error(fault: ListingFault, query: &S3Query) -> Error {
    match fault {
        ListingFault::Unusable(why) => protocol(&query.place(), why),
        ListingFault::Disordered(disorder) => disorder.at(query.place()),
    }
}
