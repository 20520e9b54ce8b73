//! Fills one page of a listing with keys in order, up to its limit, and groups them by the
//! delimiter. Defines the query that a page answers. Called by the listings of a directory and of a
//! gateway's origin.

use crate::http::etag::EtagIdentity;
use crate::object::described::Described;
use crate::s3::index::Freshness;

/// The keys to list.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyQuery {
    /// The prefix of the keys to list.
    pub(crate) prefix: String,
    /// The delimiter. Keys that are equal up to the first delimiter after the prefix are shown as
    /// one common prefix.
    pub(crate) delimiter: Option<String>,
    /// The position after which keys are listed.
    pub(crate) after: PagePosition,
    /// Maximum number of keys and common prefixes together.
    pub(crate) limit: usize,
    /// How current the listed names must be.
    pub(crate) freshness: Freshness,
}

/// The position after which a page begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum PagePosition {
    /// The page begins with the first key.
    #[default]
    Start,
    /// The page begins after this key.
    Key(String),
    /// The page begins after all keys with this prefix, because the last page ended with this
    /// common prefix.
    Prefix(String),
}

/// A page of a listing.
#[derive(Debug)]
pub(crate) struct ListingPage<V = EtagIdentity> {
    /// Keys and their versions.
    pub(crate) objects: Vec<(String, V)>,
    /// Common prefixes.
    pub(crate) prefixes: Vec<String>,
    /// The position of the next page; `None` for the last page.
    pub(crate) next: Option<PagePosition>,
}

impl<V> Default for ListingPage<V> {
    fn default() -> Self {
        Self { objects: Vec::new(), prefixes: Vec::new(), next: None }
    }
}

impl ListingPage {
    /// Converts the versions to HTTP's terms.
    pub(crate) fn described(self) -> ListingPage<Described> {
        let describe = |(key, identity): (String, EtagIdentity)| (key, Described::from(&identity));
        let objects = self.objects.into_iter().map(describe).collect();
        ListingPage { objects, prefixes: self.prefixes, next: self.next }
    }
}

impl KeyQuery {
    /// Returns the part of `key` up to and including the first delimiter after the query's prefix.
    /// `key` must begin with that prefix.
    pub(crate) fn common_prefix<'k>(&self, key: &'k str) -> Option<&'k str> {
        common_prefix(key, &self.prefix, self.delimiter.as_deref())
    }
}

fn common_prefix<'k>(key: &'k str, prefix: &str, delimiter: Option<&str>) -> Option<&'k str> {
    let delimiter = delimiter.filter(|delimiter| !delimiter.is_empty())?;
    let at = key.strip_prefix(prefix)?.find(delimiter)?;
    Some(&key[..prefix.len() + at + delimiter.len()])
}

impl PagePosition {
    /// Returns the position after `marker`, a key that a client names, in a listing with `prefix`
    /// and `delimiter`. If the listing shows the marker as a common prefix, the page begins behind
    /// this prefix: S3 omits common prefixes that do not sort after the marker (AWS, Ceph and MinIO
    /// agree, 2026-11-28).
    pub(crate) fn marker(marker: &str, prefix: &str, delimiter: Option<&str>) -> Self {
        match common_prefix(marker, prefix, delimiter) {
            _ if marker.is_empty() => Self::Start,
            Some(prefix) => Self::Prefix(prefix.to_owned()),
            None => Self::Key(marker.to_owned()),
        }
    }

    /// True if all keys that begin with `start` are before the page.
    pub(crate) fn has_passed(&self, start: &str) -> bool {
        match self {
            Self::Start => false,
            Self::Key(after) => !after.starts_with(start) && start < after.as_str(),
            Self::Prefix(after) => {
                start.starts_with(after.as_str()) || (!after.starts_with(start) && start < after.as_str())
            }
        }
    }

    /// True if the page begins after `key`.
    pub(crate) fn is_after(&self, key: &str) -> bool {
        match self {
            Self::Start => false,
            Self::Key(after) => key <= after.as_str(),
            Self::Prefix(after) => key.starts_with(after.as_str()) || key < after.as_str(),
        }
    }
}

/// The next step of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The page takes more entries.
    Continue,
    /// The page is full.
    Full,
}

/// A page that is being filled.
pub(crate) struct PageBuilder<'a, V> {
    query: &'a KeyQuery,
    /// The page as filled so far.
    pub(crate) page: ListingPage<V>,
    /// True if the last entry of the page is a common prefix.
    ends_in_prefix: bool,
}

impl<'a, V> PageBuilder<'a, V> {
    /// Starts with an empty page.
    pub(crate) fn new(query: &'a KeyQuery) -> Self {
        Self { query, page: ListingPage::default(), ends_in_prefix: false }
    }

    /// Adds a common prefix, unless the page or the page before it ends with the same one.
    pub(crate) fn put_prefix(&mut self, prefix: &str) -> Step {
        let is_shown = self.page.prefixes.last().is_some_and(|last| last == prefix)
            || matches!(&self.query.after, PagePosition::Prefix(after) if after == prefix);
        if is_shown {
            return Step::Continue;
        }
        if self.end_if_full() {
            return Step::Full;
        }
        self.ends_in_prefix = true;
        self.page.prefixes.push(prefix.to_owned());
        Step::Continue
    }

    /// Adds a key with its version.
    pub(crate) fn put_object(&mut self, key: String, version: V) -> Step {
        if self.end_if_full() {
            return Step::Full;
        }
        self.ends_in_prefix = false;
        self.page.objects.push((key, version));
        Step::Continue
    }

    /// Ends the page if it is full: records that the next page begins after the last entry. Returns
    /// whether the page is full.
    fn end_if_full(&mut self) -> bool {
        let is_full = self.page.objects.len() + self.page.prefixes.len() >= self.query.limit;
        if is_full {
            self.page.next = Some(self.last());
        }
        is_full
    }

    /// Returns the last entry of the page.
    fn last(&self) -> PagePosition {
        let last = match self.ends_in_prefix {
            true => self.page.prefixes.last().cloned().map(PagePosition::Prefix),
            false => self.page.objects.last().map(|(key, _)| PagePosition::Key(key.clone())),
        };
        last.unwrap_or_default()
    }
}
