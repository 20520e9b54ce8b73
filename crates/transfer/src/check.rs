//! Compares two locations without writing, by walking their listings side by side in byte order.
//! The listings contain names and sizes. Content is compared by the stores' ETags and checksums, or
//! by reading it. The engine calls this.

use std::cmp::Ordering;
use std::iter::Peekable;

use firstbyte_location::{Entry, EntryKind, Location, etag};
use firstbyte_store::{EntryOrder, Error as StoreError, Links, ListOptions, Marker, WalkBounds};

use crate::compare::{Comparisons, Sameness, SourceComparison};
use crate::context::CallScope;
use crate::deferred::DeferredRecords;
use crate::error::{Error, Failure, Result};
use crate::job::{TransferRoute, is_unfinished};
use crate::listing_prefetch::ListingPrefetch;
use crate::report::{Difference, Observer, Summary, Verified};

/// Two locations to compare.
pub struct Check<'a> {
    /// The first location.
    pub source: Location,
    /// The second location.
    pub destination: Location,
    /// A filter on names, which are relative to both locations.
    pub select: &'a (dyn Fn(&[u8]) -> bool + Sync),
    /// The same filter, in the form with which listings of local directories skip excluded names
    /// without examining them.
    pub bounds: WalkBounds,
    /// Method of comparing the contents of two objects of equal length.
    pub content: ContentComparison,
}

/// Method of comparing the contents of two objects of equal length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentComparison {
    /// By the ETags and checksums that the stores have. If the stores have no checksum in common,
    /// the objects count as the same.
    #[default]
    Held,
    /// By the ETags and checksums that the stores have; if a store has no checksum, it is computed
    /// from the bytes.
    Read,
}

type Entries = Peekable<Box<dyn Iterator<Item = firstbyte_store::Result<Entry>> + Send>>;

pub(crate) fn check(scope: &CallScope<'_>, check: &Check<'_>, observer: &dyn Observer) -> Result<Summary> {
    let is_store = |place: &Location| matches!(place, Location::Object(_));
    // An empty object may mark a directory. If only one side is a store, the other side shows no
    // file for it, so such objects are not compared.
    let has_markers = is_store(&check.source) && is_store(&check.destination);
    let (one, other) = (
        entries(scope, &check.source, &check.bounds, has_markers)?,
        entries(scope, &check.destination, &check.bounds, has_markers)?,
    );
    let Some(one) = one else {
        return Err(StoreError::NotFound { location: check.source.to_string(), trace: None }.into());
    };
    let other = other.unwrap_or_else(no_entries);
    let mut walk = Walk::new(scope, check, observer);
    walk.deferred = (is_store(&check.source) || is_store(&check.destination)).then(DeferredRecords::default);
    walk.compare_all(one, other);
    walk.report();
    Ok(walk.summary)
}

/// Compares two objects, which may have different names.
pub(crate) fn check_one(
    scope: &CallScope<'_>,
    check: &Check<'_>,
    observer: &dyn Observer,
) -> Result<Summary> {
    let mut walk = Walk { is_single: true, ..Walk::new(scope, check, observer) };
    let size = |location: &Location| match scope.store.stat_object(location) {
        Ok(stat) if stat.kind != EntryKind::Directory => Ok(Some(stat.size())),
        Ok(_) | Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    };
    let (one, other) = (size(&check.source)?, size(&check.destination)?);
    match (one, other) {
        (None, _) => {
            return Err(StoreError::NotFound { location: check.source.to_string(), trace: None }.into());
        }
        (Some(_), None) => walk.record_difference(b"", Finding::OnlySource),
        (Some(one), Some(other)) => {
            let entry = |size| Entry { size, ..Entry::named(Vec::new(), EntryKind::File) };
            walk.compare_pair(&check.source, &check.destination, entry(one), &entry(other));
            walk.wait_for_all();
        }
    }
    Ok(walk.summary)
}

fn no_entries() -> Entries {
    let entries: Box<dyn Iterator<Item = _> + Send> = Box::new(std::iter::empty());
    entries.peekable()
}

/// Lists the files below a location, in byte order. Returns `None` if the location does not exist.
/// Empty objects that mark prefixes are listed only if `has_markers` is true.
fn entries(
    scope: &CallScope<'_>,
    location: &Location,
    bounds: &WalkBounds,
    has_markers: bool,
) -> Result<Option<Entries>> {
    let options = ListOptions {
        bounds: bounds.clone(),
        recursive: true,
        order: EntryOrder::Bytes,
        links: Links::Follow,
        marker: Marker::Listed,
        requests: Some(scope.settings.listing_requests()),
        ..ListOptions::default()
    };
    let listing = match scope.store.list(location, &options) {
        // A missing bucket is an error. A missing prefix or directory has no names.
        Err(error @ StoreError::NotFound { .. }) if !error.concerns_store() => return Ok(None),
        listing => listing?,
    };
    let listing = ListingPrefetch::start(listing, scope.cancel.clone())?;
    let place = location.clone();
    let entries: Box<dyn Iterator<Item = _> + Send> = Box::new(listing.filter(move |entry| {
        entry.as_ref().map_or(true, |entry| {
            let marks = (entry.name.ends_with(b"/") || entry.name.is_empty()) && entry.size == Some(0);
            entry.kind == EntryKind::File && (has_markers || !marks) && !is_unfinished(&place, &entry.name)
        })
    }));
    Ok(Some(entries.peekable()))
}

/// A comparison of two trees, or of two single objects, in progress.
struct Walk<'a> {
    scope: &'a CallScope<'a>,
    check: &'a Check<'a>,
    observer: &'a dyn Observer,
    comparisons: Comparisons,
    summary: Summary,
    /// Differences that are true only if the stores list their names in order. They are reported at
    /// the end. `None` if differences are reported as soon as they are found.
    deferred: Option<DeferredRecords>,
    /// For each side, the names of directories that could not be listed.
    unlisted: [Vec<String>; 2],
    /// True if the two locations are single objects and not trees.
    is_single: bool,
}

/// A difference that was found at a name.
#[derive(Clone, Copy)]
enum Finding {
    OnlySource,
    OnlyDestination,
    Size(u64, u64),
    Content,
}

impl Finding {
    /// Encodes a finding and its name as a record for [`DeferredRecords`].
    fn to_record(self, name: &[u8]) -> Vec<u8> {
        let (tag, one, other) = match self {
            Self::OnlySource => (0_u8, 0, 0),
            Self::OnlyDestination => (1, 0, 0),
            Self::Size(one, other) => (2, one, other),
            Self::Content => (3, 0, 0),
        };
        [&[tag][..], &one.to_le_bytes(), &other.to_le_bytes(), name].concat()
    }

    fn of_record(record: &[u8]) -> Option<(Self, &[u8])> {
        let (head, name) = record.split_at_checked(17)?;
        let number = |at: usize| head[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        Some(match head[0] {
            0 => (Self::OnlySource, name),
            1 => (Self::OnlyDestination, name),
            2 => (Self::Size(number(1)?, number(9)?), name),
            _ => (Self::Content, name),
        })
    }
}

impl<'a> Walk<'a> {
    fn new(scope: &'a CallScope<'a>, check: &'a Check<'a>, observer: &'a dyn Observer) -> Self {
        let route = TransferRoute::of(&check.source, &check.destination);
        let comparisons = Comparisons::new(&scope.store, scope.settings.concurrency, route);
        Self {
            scope,
            check,
            observer,
            comparisons,
            summary: Summary::default(),
            deferred: None,
            unlisted: Default::default(),
            is_single: false,
        }
    }

    fn compare_all(&mut self, mut one: Entries, mut other: Entries) {
        loop {
            if let Some(why) = self.scope.settings.stop.error() {
                self.summary.ended = Some(why);
                return;
            }
            let order = match (one.peek(), other.peek()) {
                (Some(Err(_)), _) | (_, Some(Err(_))) => {
                    if self.record_missing_names(&mut one, &mut other) {
                        continue;
                    }
                    return;
                }
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(Ok(one)), Some(Ok(other))) => one.name.cmp(&other.name),
            };
            let left =
                if order == Ordering::Greater { None } else { one.next().and_then(std::result::Result::ok) };
            let right =
                if order == Ordering::Less { None } else { other.next().and_then(std::result::Result::ok) };
            let name = left.as_ref().or(right.as_ref()).map(|entry| entry.name.clone()).unwrap_or_default();
            if !(self.check.select)(&name) {
                continue;
            }
            match (left, right) {
                (Some(left), Some(right)) => {
                    let (source, destination) = self.locations(&name);
                    self.compare_pair(&source, &destination, left, &right);
                }
                (Some(_), None) => self.record_difference(&name, Finding::OnlySource),
                (None, _) => self.record_difference(&name, Finding::OnlyDestination),
            }
        }
        self.wait_for_all();
    }

    /// Takes the next entry of each listing if it is an error, and records which name could not be
    /// listed. Returns false if the error has ended a listing, so that all further names are
    /// missing.
    fn record_missing_names(&mut self, one: &mut Entries, other: &mut Entries) -> bool {
        let places = [&self.check.source, &self.check.destination];
        for (side, (entries, place)) in [one, other].into_iter().zip(places).enumerate() {
            let Some(Err(error)) = entries.next_if(firstbyte_store::Result::is_err) else { continue };
            let Some(unlisted) = error.unlisted_name(place).map(|name| name.trim_end_matches('/').to_owned())
            else {
                self.summary.ended = self.scope.settings.stop.error().or(Some(error.into()));
                return false;
            };
            self.record_failure(unlisted.clone(), error.into());
            self.unlisted[side].push(unlisted);
        }
        true
    }

    /// Returns whether a name that one side does not list may still exist there, because the name
    /// or a directory above it could not be listed.
    fn may_be_unlisted(&self, name: &[u8], finding: Finding) -> bool {
        let (unlisted, root) = match finding {
            Finding::OnlySource => (&self.unlisted[1], &self.check.destination),
            Finding::OnlyDestination => (&self.unlisted[0], &self.check.source),
            Finding::Size(..) | Finding::Content => return false,
        };
        let is_in = |place: &str, above: &String| {
            place.strip_prefix(above.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !unlisted.is_empty() && {
            let place = root.join(name).to_string();
            unlisted.iter().any(|above| is_in(&place, above))
        }
    }

    /// Returns the locations of a name on both sides.
    fn locations(&self, name: &[u8]) -> (Location, Location) {
        let place = |root: &Location| if self.is_single { root.clone() } else { root.join(name) };
        (place(&self.check.source), place(&self.check.destination))
    }

    fn record_difference(&mut self, name: &[u8], finding: Finding) {
        if self.may_be_unlisted(name, finding) {
            return;
        }
        let Some(deferred) = &mut self.deferred else { return self.report_difference(name, finding) };
        if let Err(error) = deferred.add(&finding.to_record(name)) {
            self.summary.ended.get_or_insert(error);
        }
    }

    /// Reports the deferred differences, unless a listing turned out to be out of order.
    fn report(&mut self) {
        let Some(deferred) = self.deferred.take() else { return };
        if matches!(self.summary.ended, Some(Error::Store(StoreError::Disordered { .. }))) {
            // The engine then compares everything again.
            self.summary = Summary { ended: self.summary.ended.take(), ..Summary::default() };
            return;
        }
        let report_result = deferred.into_records().and_then(|mut records| {
            records.try_for_each(|record| {
                let record = record?;
                if let Some((finding, name)) = Finding::of_record(&record) {
                    self.report_difference(name, finding);
                }
                Ok(())
            })
        });
        if let Err(error) = report_result {
            self.summary.ended.get_or_insert(error);
        }
    }

    fn report_difference(&mut self, name: &[u8], finding: Finding) {
        let (source, destination) = self.locations(name);
        let difference = match finding {
            Finding::OnlySource => Difference::OnlySource(source),
            Finding::OnlyDestination => Difference::OnlyDestination(destination),
            Finding::Size(one, other) => {
                Difference::Size { source: (source, one), destination: (destination, other) }
            }
            Finding::Content => Difference::Content(source, destination),
        };
        self.summary.differences += 1;
        self.observer.differs(&difference);
    }

    /// Compares two objects that have the same name.
    fn compare_pair(&mut self, source: &Location, destination: &Location, one: Entry, other: &Entry) {
        let known = |location: &Location, size| match (size, location) {
            // A file that is listed with length 0 may still have content, for example in `/proc`.
            (Some(0), Location::Local(_) | Location::Sftp(_)) => {
                self.scope.store.stat(location).map_or(size, |stat| stat.size())
            }
            _ => size,
        };
        let sizes = (known(source, one.size), known(destination, other.size));
        if let (Some(left), Some(right)) = sizes
            && left != right
        {
            return self.record_difference(&one.name, Finding::Size(left, right));
        }
        let is_one_content = |(one, other): (&String, &String)| {
            !etag::is_weak(one) && !etag::is_weak(other) && etag::is_same(one, other)
        };
        if one.etag.as_ref().zip(other.etag.as_ref()).is_some_and(is_one_content) {
            return self.record_same(one.size, Verified::Full);
        }
        let with = match self.check.content {
            _ if sizes.0.is_none() || sizes.1.is_none() => SourceComparison::Content(destination.clone()),
            ContentComparison::Held if source.as_local().is_some() || destination.as_local().is_some() => {
                return self.record_same(one.size, Verified::Length);
            }
            ContentComparison::Held => SourceComparison::StoredChecksums(destination.clone()),
            ContentComparison::Read => SourceComparison::Content(destination.clone()),
        };
        if let Err(error) = self.comparisons.start(one, source.clone(), with) {
            return self.record_failure(source.to_string(), error);
        }
        if self.comparisons.is_full() {
            self.record_next();
        }
    }

    fn wait_for_all(&mut self) {
        while self.record_next() {}
    }

    /// Waits for the outcome of a running comparison and records it. Returns false if no comparison
    /// is running.
    fn record_next(&mut self) -> bool {
        let Some((entry, same)) = self.comparisons.wait() else { return false };
        match same {
            Ok(Sameness::Same) => self.record_same(entry.size, Verified::Full),
            Ok(Sameness::Unknown) => self.record_same(entry.size, Verified::Length),
            Ok(Sameness::Different) => self.record_difference(&entry.name, Finding::Content),
            Err(error) => self.record_failure(self.locations(&entry.name).0.to_string(), error),
        }
        true
    }

    fn record_same(&mut self, size: Option<u64>, verified: Verified) {
        self.summary.objects += 1;
        self.summary.bytes += size.unwrap_or(0);
        self.summary.verified = Some(self.summary.verified.map_or(verified, |weakest| weakest.min(verified)));
    }

    fn record_failure(&mut self, location: String, error: Error) {
        if let Some(why) = self.scope.settings.stop.error() {
            self.summary.ended.get_or_insert(why);
            return;
        }
        let failure = Failure { location, error };
        self.observer.failed(&failure);
        self.summary.fail(failure);
    }
}
