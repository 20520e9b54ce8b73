//! Measures how many names per second a single lister gets, from the pages of a bucket or from a
//! directory.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use firstbyte_listing::{Batch, Depth, Detail, FileSystemKind, FileSystemReach, ListingOptions, scan};
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
    /// Seconds of one page, or of one pass over the directories, for these names.
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
    let mut passes = Vec::new();
    while passes.len() < PAGES && (passes.is_empty() || Instant::now() < until) {
        let began = Instant::now();
        let counts = scan(path, &options, || NameCounter { names: 0, until }).map_err(Error::Listing)?;
        let names = counts.iter().map(|count| count.names as f64).sum();
        passes.push(ListingSpeed { names, seconds: began.elapsed().as_secs_f64(), paged: false });
    }
    let kind = FileSystemKind::of(path).map_err(Error::Listing)?;
    Ok(typical(passes, kind.reach))
}

/// Returns the pass that shows how fast the location lists: the first one of a network file system,
/// because the cache of this machine answers the later ones; of other file systems the median. The
/// end of the time may have cut the last pass short, so names and seconds are of the same pass.
fn typical(mut passes: Vec<ListingSpeed>, reach: FileSystemReach) -> ListingSpeed {
    if reach == FileSystemReach::Local {
        passes.sort_by(|a, b| (a.names * b.seconds).total_cmp(&(b.names * a.seconds)));
        let middle = passes.len() / 2;
        passes.drain(..middle);
    }
    passes.first().copied().unwrap_or_default()
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
    fn a_pass_that_was_cut_short_has_its_own_time_and_a_cache_does_not_count() {
        let pass = |names, seconds| ListingSpeed { names, seconds, paged: false };
        let passes = || vec![pass(1e6, 40.0), pass(1e6, 0.5), pass(0.4e6, 0.21)];
        assert_eq!(typical(passes(), FileSystemReach::Local), pass(0.4e6, 0.21));
        assert_eq!(typical(passes(), FileSystemReach::Remote), pass(1e6, 40.0));
        assert_eq!(typical(Vec::new(), FileSystemReach::Local), ListingSpeed::default());
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
