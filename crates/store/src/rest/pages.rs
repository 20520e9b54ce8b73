//! Lists entries one page after another.
//!
//! The first page is fetched before the listing is returned, so a missing bucket or prefix fails
//! immediately.

use std::sync::Arc;

use firstbyte_location::{Entry, ObjectLocation};

use super::{RestStore, protocol};
use crate::endless::{EndlessListingCheck, PageContent};
use crate::error::{Error, Result};
use crate::object::{common_prefix, in_listing_order};
use crate::order::Disorder;
#[cfg(feature = "azure")]
use crate::query::DirectoryBlobs;
use crate::query::{ListOptions, Marker};

/// The parameters that all pages of a listing share.
#[derive(Clone)]
pub(crate) struct RestQuery {
    /// The bucket. Its name is empty in a listing of buckets.
    pub(crate) bucket: ObjectLocation,
    /// The prefix: empty, or with a final `/`.
    prefix: String,
    /// The location that the caller gave, for errors.
    listed: String,
    options: ListOptions,
    /// True if the service lists names in byte order. Only then can the listing start after a name.
    is_sorted: bool,
}

#[derive(Default)]
pub(crate) struct RestPage {
    pub(crate) entries: Vec<Entry>,
    /// The first two names in the wrong order, if there are any.
    pub(crate) disorder: Option<Disorder>,
    /// The token that requests the next page; `None` on the last page.
    pub(crate) next: Option<String>,
    /// True if the response had any key. The only key may be the one that marks the prefix itself,
    /// which is not listed.
    pub(crate) brought_names: bool,
}

impl RestQuery {
    pub(crate) fn new(object: &ObjectLocation, options: &ListOptions) -> Self {
        let mut prefix = object.key.clone();
        if !prefix.is_empty() && !prefix.ends_with('/') {
            prefix.push('/');
        }
        let (bucket, listed) = (object.with_key(""), object.to_string());
        Self { bucket, prefix, listed, options: options.clone(), is_sorted: true }
    }

    /// Returns the prefix of all keys of the listing.
    pub(crate) fn prefix(&self) -> String {
        format!("{}{}", self.prefix, self.options.beginning)
    }

    /// Returns the delimiter, unless the listing is recursive. With a delimiter, the service lists
    /// a directory instead of its contents.
    pub(crate) fn delimiter(&self) -> Option<&'static str> {
        (!self.options.recursive).then_some("/")
    }

    pub(crate) fn start_after(&self) -> Option<String> {
        let after = self.options.start_after.as_ref().filter(|_| self.is_sorted);
        after.map(|name| format!("{}{name}", self.prefix))
    }

    /// Returns true if blobs that mark directories are listed.
    #[cfg(feature = "azure")]
    pub(crate) fn lists_directory_blobs(&self) -> bool {
        self.options.directory_blobs == DirectoryBlobs::Listed
    }

    fn place(&self) -> String {
        self.bucket.with_key(self.prefix()).to_string()
    }

    /// Makes a page from keys and common prefixes (each `NAME/`), in listing order.
    pub(crate) fn page(
        &self,
        keys: impl Iterator<Item = (String, Entry)>,
        prefixes: impl Iterator<Item = String>,
        next: Option<String>,
    ) -> RestPage {
        let mut brought_names = false;
        let (marker, narrowed) = (self.options.marker, self.options.start_after.is_some());
        let after = self.options.start_after.as_deref().unwrap_or_default().as_bytes();
        let mut name = |key: &str| {
            brought_names = true;
            // A key equal to the prefix marks the prefix as a directory.
            key.strip_prefix(&self.prefix)
                .filter(|name| marker == Marker::Listed || !name.is_empty())
                .map(|name| name.as_bytes().to_vec())
        };
        let mut entries: Vec<Entry> = Vec::new();
        for (key, entry) in keys {
            entries.extend(
                name(&key)
                    .filter(|name| !narrowed || name.as_slice() > after)
                    .map(|name| Entry { name, ..entry }),
            );
        }
        let keys = entries.len();
        for prefix in prefixes {
            let below = |name: &Vec<u8>| name.as_slice() > after || after.starts_with(name);
            entries.extend(name(&prefix).filter(below).and_then(common_prefix));
        }
        let disorder = Disorder::among(&entries[..keys]).or_else(|| Disorder::among(&entries[keys..]));
        entries.sort_by(|a, b| in_listing_order(a).cmp(in_listing_order(b)));
        RestPage { entries, disorder, next: next.filter(|token| !token.is_empty()), brought_names }
    }
}

/// Requests the first page. A prefix exists only if a key begins with it.
pub(super) fn first(service: &impl RestStore, query: &RestQuery) -> Result<RestPage> {
    let page = service.page(query, None, None)?;
    let narrowed = query.options.start_after.is_some() || !query.options.beginning.is_empty();
    if !query.prefix.is_empty() && !narrowed && !page.brought_names && page.next.is_none() {
        return Err(Error::NotFound { location: query.listed.clone(), trace: None });
    }
    Ok(page)
}

pub(super) fn list<S: RestStore>(
    service: Arc<S>,
    object: &ObjectLocation,
    options: &ListOptions,
) -> Result<Box<dyn Iterator<Item = Result<Entry>> + Send>> {
    let is_sorted = !service.client().unsorted.has(object);
    let query = RestQuery { is_sorted, ..RestQuery::new(object, options) };
    let first = first(&*service, &query)?;
    if is_sorted && first.disorder.is_some() {
        service.client().unsorted.add(object);
        return list(service, object, options);
    }
    let mut pages =
        Pages { service, query, page: RestPage::default(), endless: EndlessListingCheck::default() };
    pages.accept(first)?;
    Ok(Box::new(pages.flatten()))
}

/// An iterator over pages. Requests the next page when the entries of the current one are used up.
struct Pages<S> {
    service: Arc<S>,
    query: RestQuery,
    page: RestPage,
    endless: EndlessListingCheck,
}

impl<S> Pages<S> {
    fn accept(&mut self, page: RestPage) -> Result<()> {
        if let Some(token) = &page.next {
            let content = PageContent::of(&page.entries);
            self.endless.check(token, content).map_err(|why| protocol(&self.query.place(), why))?;
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
