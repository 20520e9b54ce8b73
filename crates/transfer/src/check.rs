//! Compares two places without writing: walks two listings in byte order side by side. Names and
//! sizes are in the listings. Content is compared by what the stores have of it, ETags and
//! checksums, or read. The engine calls this.

use std::cmp::Ordering;
use std::iter::Peekable;

use firstbyte_location::{Entry, Kind, Location};
use firstbyte_store::{Error as StoreError, ListOptions, Order};

use crate::compare::{Comparison, Comparisons, Sameness};
use crate::context::Scope;
use crate::job::{Route, is_unfinished};
use crate::listing_prefetch::ListingPrefetch;
use crate::{Difference, Error, Failure, Observer, Result, Summary, Verified};

/// Two places to compare.
pub struct Check<'a> {
    /// One place.
    pub source: Location,
    /// The other.
    pub destination: Location,
    /// A filter on names, relative to both.
    pub select: &'a (dyn Fn(&[u8]) -> bool + Sync),
    /// How content is compared.
    pub content: Content,
}

/// How the content of two objects of equal length is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// By the ETags and checksums that the stores have. Objects without a common one count as the
    /// same.
    #[default]
    Held,
    /// As above, but checksums that a store does not have are computed from the bytes.
    Read,
}

type Entries = Peekable<Box<dyn Iterator<Item = firstbyte_store::Result<Entry>> + Send>>;

pub(crate) fn check(scope: &Scope<'_>, check: &Check<'_>, observer: &dyn Observer) -> Result<Summary> {
    let (one, other) = (entries(scope, &check.source)?, entries(scope, &check.destination)?);
    let Some(one) = one else {
        return Err(StoreError::NotFound { location: check.source.to_string() }.into());
    };
    let other = other.unwrap_or_else(nothing);
    let mut walk = Walk::new(scope, check, observer);
    walk.all(one, other);
    Ok(walk.summary)
}

/// Compares two objects, which may have different names.
pub(crate) fn check_one(scope: &Scope<'_>, check: &Check<'_>, observer: &dyn Observer) -> Result<Summary> {
    let mut walk = Walk::new(scope, check, observer);
    let size = |location: &Location| match scope.store.stat_object(location) {
        Ok(stat) if stat.kind != Kind::Directory => Ok(Some(stat.size())),
        Ok(_) | Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    };
    let (one, other) = (size(&check.source)?, size(&check.destination)?);
    match (one, other) {
        (None, _) => return Err(StoreError::NotFound { location: check.source.to_string() }.into()),
        (Some(_), None) => walk.differs(&Difference::OnlySource(check.source.clone())),
        (Some(one), Some(other)) => {
            let entry = |size| Entry {
                name: Vec::new(),
                kind: Kind::File,
                size,
                modified: None,
                etag: None,
                storage_class: None,
                version: None,
            };
            walk.pair(&check.source, &check.destination, entry(one), &entry(other));
            walk.wait_for_all();
        }
    }
    Ok(walk.summary)
}

fn nothing() -> Entries {
    let entries: Box<dyn Iterator<Item = _> + Send> = Box::new(std::iter::empty());
    entries.peekable()
}

/// The files below a location that take part, in byte order. `None` if it does not exist.
fn entries(scope: &Scope<'_>, location: &Location) -> Result<Option<Entries>> {
    let requests = Some(scope.settings.listing_requests());
    let options = ListOptions { recursive: true, order: Order::Bytes, requests, ..ListOptions::default() };
    let listing = match scope.store.list(location, &options) {
        // That a bucket is missing is no difference.
        Err(error @ StoreError::NotFound { .. }) if !error.concerns_store() => return Ok(None),
        listing => listing?,
    };
    let listing = ListingPrefetch::start(listing, scope.cancel.clone())?;
    let entries: Box<dyn Iterator<Item = _> + Send> = Box::new(listing.filter(|entry| {
        entry.as_ref().map_or(true, |entry| {
            // An object that marks a prefix is no file.
            let marks = entry.name.ends_with(b"/") && entry.size == Some(0);
            entry.kind == Kind::File && !marks && !is_unfinished(&entry.name)
        })
    }));
    Ok(Some(entries.peekable()))
}

/// A comparison under way.
struct Walk<'a> {
    scope: &'a Scope<'a>,
    check: &'a Check<'a>,
    observer: &'a dyn Observer,
    comparisons: Comparisons,
    summary: Summary,
}

impl<'a> Walk<'a> {
    fn new(scope: &'a Scope<'a>, check: &'a Check<'a>, observer: &'a dyn Observer) -> Self {
        let route = Route::of(&check.source, &check.destination);
        let comparisons = Comparisons::new(&scope.store, scope.settings.concurrency, route);
        Self { scope, check, observer, comparisons, summary: Summary::default() }
    }

    fn all(&mut self, mut one: Entries, mut other: Entries) {
        loop {
            if let Some(why) = self.scope.settings.stop.error() {
                self.summary.ended = Some(why);
                return;
            }
            let order = match (one.peek(), other.peek()) {
                // Names that a broken listing did not show are no differences.
                (Some(Err(_)), _) => return self.broken(one.next()),
                (_, Some(Err(_))) => return self.broken(other.next()),
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
            let (source, destination) = (self.check.source.join(&name), self.check.destination.join(&name));
            match (left, right) {
                (Some(left), Some(right)) => self.pair(&source, &destination, left, &right),
                (Some(_), None) => self.differs(&Difference::OnlySource(source)),
                (None, _) => self.differs(&Difference::OnlyDestination(destination)),
            }
        }
        self.wait_for_all();
    }

    fn broken(&mut self, entry: Option<firstbyte_store::Result<Entry>>) {
        let error = entry.and_then(std::result::Result::err).map(Error::from);
        self.summary.ended = self.scope.settings.stop.error().or(error);
    }

    fn differs(&mut self, difference: &Difference) {
        self.summary.differences += 1;
        self.observer.differs(difference);
    }

    /// Compares two objects of one name.
    fn pair(&mut self, source: &Location, destination: &Location, one: Entry, other: &Entry) {
        if let (Some(left), Some(right)) = (one.size, other.size)
            && left != right
        {
            let (source, destination) = ((source.clone(), left), (destination.clone(), right));
            return self.differs(&Difference::Size { source, destination });
        }
        let strong = |etag: &&String| !etag.starts_with("W/");
        if one.etag.as_ref().filter(strong).is_some_and(|etag| other.etag.as_ref() == Some(etag)) {
            return self.same(one.size, Verified::Full);
        }
        let with = match self.check.content {
            Content::Held if source.as_local().is_some() || destination.as_local().is_some() => {
                return self.same(one.size, Verified::Length);
            }
            Content::Held => Comparison::Held(destination.clone()),
            Content::Read => Comparison::Content(destination.clone()),
        };
        if let Err(error) = self.comparisons.start(one, source.clone(), with) {
            return self.failed(source, error);
        }
        if self.comparisons.is_full() {
            self.settle();
        }
    }

    fn wait_for_all(&mut self) {
        while self.settle() {}
    }

    /// Takes the next outcome. False if nothing is being compared.
    fn settle(&mut self) -> bool {
        let Some((entry, same)) = self.comparisons.wait() else { return false };
        let place =
            |root: &Location| if entry.name.is_empty() { root.clone() } else { root.join(&entry.name) };
        let (source, destination) = (place(&self.check.source), place(&self.check.destination));
        match same {
            Ok(Sameness::Same) => self.same(entry.size, Verified::Full),
            Ok(Sameness::Unknown) => self.same(entry.size, Verified::Length),
            Ok(Sameness::Different) => self.differs(&Difference::Content(source, destination)),
            Err(error) => self.failed(&source, error),
        }
        true
    }

    fn same(&mut self, size: Option<u64>, verified: Verified) {
        self.summary.objects += 1;
        self.summary.bytes += size.unwrap_or(0);
        self.summary.verified = Some(self.summary.verified.map_or(verified, |weakest| weakest.min(verified)));
    }

    fn failed(&mut self, location: &Location, error: Error) {
        if let Some(why) = self.scope.settings.stop.error() {
            self.summary.ended.get_or_insert(why);
            return;
        }
        let failure = Failure { location: location.to_string(), error };
        self.observer.failed(&failure);
        self.summary.fail(failure);
    }
}
