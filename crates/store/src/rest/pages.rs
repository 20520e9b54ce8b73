//! Listings, page after page.
//!
//! The first page is fetched before the listing is returned, so that a missing bucket or prefix
//! fails at once.

use std::sync::Arc;

use firstbyte_location::{Entry, Kind, ObjectLocation};

use super::{RestStore, protocol};
use crate::object::in_listing_order;
use crate::turns::{Brought, Turns};
use crate::{Error, ListOptions, Order, Result};

/// The parameters shared by all pages of a listing.
#[derive(Clone)]
pub(crate) struct Query {
    /// The bucket; without a name if buckets are listed.
    pub(crate) bucket: ObjectLocation,
    /// Empty, or ending in `/`.
    prefix: String,
    options: ListOptions,
}

/// Entries of one page.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) entries: Vec<Entry>,
    /// What the next page is requested by.
    pub(crate) next: Option<String>,
    /// Whether it named any key, be it only the marker of the prefix itself.
    pub(crate) brought_names: bool,
}

impl Query {
    pub(crate) fn new(object: &ObjectLocation, options: &ListOptions) -> Self {
        let mut prefix = object.key.clone();
        if !prefix.is_empty() && !prefix.ends_with('/') {
            prefix.push('/');
        }
        Self { bucket: object.with_key(""), prefix, options: options.clone() }
    }

    /// What all keys of the listing begin with.
    pub(crate) fn prefix(&self) -> String {
        format!("{}{}", self.prefix, self.options.beginning)
    }

    /// The delimiter, if directories are listed instead of what is in them.
    pub(crate) fn delimiter(&self) -> Option<&'static str> {
        (!self.options.recursive).then_some("/")
    }

    /// The key after which the listing begins.
    pub(crate) fn start_after(&self) -> Option<String> {
        self.options.start_after.as_ref().map(|name| format!("{}{name}", self.prefix))
    }

    /// The location in messages.
    fn place(&self) -> String {
        self.bucket.with_key(self.prefix()).to_string()
    }

    /// The page of these keys and common prefixes, each `NAME/`, in listing order.
    pub(crate) fn page(
        &self,
        keys: impl Iterator<Item = (String, Entry)>,
        prefixes: impl Iterator<Item = String>,
        next: Option<String>,
    ) -> Page {
        let mut brought_names = false;
        let after = self.options.start_after.as_deref().unwrap_or_default().as_bytes();
        let mut name = |key: &str| {
            brought_names = true;
            // A key equal to the prefix is its directory marker.
            key.strip_prefix(&self.prefix)
                .filter(|name| !name.is_empty())
                .map(|name| name.as_bytes().to_vec())
        };
        let mut entries: Vec<Entry> = Vec::new();
        for (key, entry) in keys {
            entries.extend(
                name(&key).filter(|name| name.as_slice() > after).map(|name| Entry { name, ..entry }),
            );
        }
        for prefix in prefixes {
            let below = |name: &Vec<u8>| name.as_slice() > after || after.starts_with(name);
            entries.extend(name(&prefix).filter(below).map(directory_entry));
        }
        entries.sort_by(|a, b| in_listing_order(a).cmp(in_listing_order(b)));
        Page { entries, next: next.filter(|token| !token.is_empty()), brought_names }
    }
}

/// The entry of a directory or bucket, from its name and a `/`.
pub(crate) fn directory_entry(mut name: Vec<u8>) -> Entry {
    // `a//b` has a directory named `/` below `a/`.
    if name.len() > 1 {
        name.pop();
    }
    Entry::named(name, Kind::Directory)
}

/// The first page. A prefix exists only while a key begins with it.
pub(super) fn first(service: &impl RestStore, query: &Query) -> Result<Page> {
    let page = service.page(query, None, None)?;
    let narrowed = query.options.start_after.is_some() || !query.options.beginning.is_empty();
    if !query.prefix.is_empty() && !narrowed && !page.brought_names && page.next.is_none() {
        let key = query.prefix.strip_suffix('/').unwrap_or(&query.prefix);
        return Err(Error::NotFound { location: query.bucket.with_key(key).to_string() });
    }
    Ok(page)
}

pub(super) fn list<S: RestStore>(
    service: Arc<S>,
    object: &ObjectLocation,
    options: &ListOptions,
) -> Result<Box<dyn Iterator<Item = Result<Entry>> + Send>> {
    let query = Query::new(object, options);
    let first = first(&*service, &query)?;
    let mut pages = Pages { service, query, page: Page::default(), turns: Turns::default(), last: None };
    pages.accept(first)?;
    Ok(Box::new(pages.flatten()))
}

/// Each page is requested when the one before is used up.
struct Pages<S> {
    service: Arc<S>,
    query: Query,
    page: Page,
    turns: Turns,
    /// The last entry of the page before, in an ordered listing.
    last: Option<Entry>,
}

impl<S> Pages<S> {
    fn accept(&mut self, page: Page) -> Result<()> {
        if let Some(token) = &page.next {
            let brought = Brought::of(&page.entries);
            self.turns.check(token, brought).map_err(|why| protocol(&self.query.place(), why))?;
        }
        if self.query.options.order == Order::Bytes {
            if let (Some(last), Some(first)) = (&self.last, page.entries.first())
                && in_listing_order(first).lt(in_listing_order(last))
            {
                let why = "a listing that is not in the order of bytes";
                return Err(protocol(&self.query.place(), why));
            }
            self.last = page.entries.last().cloned().or(self.last.take());
        }
        self.page = page;
        Ok(())
    }
}

impl<S: RestStore> Iterator for Pages<S> {
    type Item = Vec<Result<Entry>>;

    fn next(&mut self) -> Option<Self::Item> {
        let entries = std::mem::take(&mut self.page.entries);
        if !entries.is_empty() {
            return Some(entries.into_iter().map(Ok).collect());
        }
        let token = self.page.next.take()?;
        match self.service.page(&self.query, Some(&token), None).and_then(|page| self.accept(page)) {
            Ok(()) => Some(Vec::new()),
            Err(error) => Some(vec![Err(error)]),
        }
    }
}
