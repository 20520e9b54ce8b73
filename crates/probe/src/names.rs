//! Measures how many names per second a single lister gets, from the pages of a bucket or from a
//! directory.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use firstbyte_listing::{Batch, Depth, Detail, ListingOptions, scan};
use firstbyte_location::Location;
use firstbyte_store::{ListOptions, Store};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::ledger::Ledger;
use crate::part::PartEnd;

/// Maximum number of pages to request, or of passes over a directory.
const PAGES: usize = 5;

/// Share of the time that listing may take.
const LISTING_PART: f64 = 0.05;

/// Smallest number of names per page that gives a rate. With fewer, the request itself takes most
/// of the time.
const MIN_NAMES: f64 = 100.0;

/// The speed of listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ListingSpeed {
    /// Number of names on one page, or in all directories together.
    pub names: f64,
    /// Median time of one page, or of one pass over the directories, in seconds.
    pub seconds: f64,
    /// True if names come in pages, with one request for each.
    pub paged: bool,
}

impl ListingSpeed {
    /// Returns the number of names per second. `None` if there are too few names.
    #[must_use]
    pub fn per_second(&self) -> Option<f64> {
        (self.names >= MIN_NAMES && self.seconds > 0.0).then(|| self.names / self.seconds)
    }
}

/// Lists `location`, which is a prefix or a directory. Returns the speed.
pub(crate) fn measure(
    store: &Store,
    location: &Location,
    ledger: &Ledger<'_>,
) -> (Option<ListingSpeed>, Option<PartEnd>) {
    let until = Instant::now() + ledger.part(LISTING_PART);
    match location.as_local() {
        Some(path) => match directory(path, until) {
            Ok(speed) => (Some(speed), None),
            Err(error) => (None, Some(error.into())),
        },
        None => pages(store, location, ledger, until),
    }
}

fn pages(
    store: &Store,
    location: &Location,
    ledger: &Ledger<'_>,
    until: Instant,
) -> (Option<ListingSpeed>, Option<PartEnd>) {
    let options = ListOptions { recursive: true, ..ListOptions::default() };
    let (mut times, mut names, mut end) = (Vec::new(), 0, None);
    while times.len() < PAGES && (times.is_empty() || Instant::now() < until) {
        if ledger.remaining().is_zero() {
            end = Some(PartEnd::Time);
            break;
        }
        let began = Instant::now();
        match store.list_page(location, &options) {
            Ok(page) => names = page.entries.len(),
            Err(error) => {
                end = Some(Error::from(error).into());
                break;
            }
        }
        times.push(began.elapsed());
    }
    (median(times).map(|seconds| ListingSpeed { names: names as f64, seconds, paged: true }), end)
}

fn directory(path: &Path, until: Instant) -> Result<ListingSpeed> {
    let options =
        ListingOptions { depth: Depth::Recursive, detail: Detail::Names, ..ListingOptions::default() };
    let (mut times, mut names) = (Vec::new(), 0.0);
    while times.len() < PAGES && (times.is_empty() || Instant::now() < until) {
        let began = Instant::now();
        let counts = scan(path, &options, || NameCounter { names: 0, until }).map_err(Error::Listing)?;
        names = counts.iter().map(|count| count.names as f64).sum();
        times.push(began.elapsed());
    }
    let seconds = median(times).unwrap_or(0.0);
    Ok(ListingSpeed { names, seconds, paged: false })
}

/// Counts names until the deadline `until`.
struct NameCounter {
    names: usize,
    until: Instant,
}

impl firstbyte_listing::Visitor for NameCounter {
    fn visit(&mut self, batch: &mut Batch) -> ControlFlow<()> {
        self.names += batch.len();
        batch.take_errors();
        if Instant::now() < self.until { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

fn median(mut times: Vec<Duration>) -> Option<f64> {
    times.sort();
    times.get(times.len() / 2).map(Duration::as_secs_f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_names_give_no_rate() {
        let names = |names: f64| ListingSpeed { names, seconds: 0.05, paged: true }.per_second();
        assert_eq!(names(3.0), None);
        assert_eq!(names(1_000.0), Some(20_000.0));
    }

    #[test]
    fn all_names_of_a_tree_are_counted() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("below")).unwrap();
        for number in 0..150 {
            std::fs::write(place.path().join("below").join(number.to_string()), "x").unwrap();
        }
        let found = directory(place.path(), Instant::now() + Duration::from_secs(600)).unwrap();
        assert_eq!(found.names, 151.0);
        assert!(found.per_second().is_some());
    }
}
