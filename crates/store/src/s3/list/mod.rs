//! Lists objects, versions and buckets: by ListObjectsV2, ListObjectVersions and ListBuckets.
//!
//! A sequential listing takes one round trip per 1,000 keys. So if the first page is not the last,
//! the key space is split into ranges. The ranges are listed concurrently, and split again as
//! needed: [`plan`] decides when, and [`cut`] where.
//!
//! Ranges rely on the order of names. A bucket that is known to list its names out of order is
//! listed page by page. If the listed ranges turn out not to fit together, the listing starts over
//! as one range.
//!
//! The first page is fetched before the listing is returned, so a missing bucket or prefix fails
//! immediately.

mod answer;
mod crew;
mod cut;
mod pace;
mod page;
mod plan;
mod versions;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use firstbyte_location::{Entry, ObjectLocation};

use crate::cancel::Cancel;
use crate::endless::{EndlessListingCheck, PageContent};
use crate::error::{Error, Result};
use crate::order::is_directory_bucket;
use crate::query::{ListOptions, ListedPage};

use super::{S3, protocol};

use crew::ConcurrentListing;
use page::{PageStart, S3Page, S3Query};

impl S3 {
    /// Lists a prefix, a bucket or, with an empty bucket name, all buckets.
    pub(crate) fn list(
        self: &Arc<Self>,
        object: &ObjectLocation,
        options: &ListOptions,
    ) -> Result<Box<dyn Iterator<Item = Result<Entry>> + Send>> {
        let entries = self.list_sorted(object, options)?;
        if options.start_after.is_none() {
            return Ok(entries);
        }
        // The entries are filtered here too, because a service may ignore the requested start of a
        // listing.
        let options = options.clone();
        Ok(Box::new(
            entries.filter(move |entry| !entry.as_ref().is_ok_and(|entry| !options.includes_entry(entry))),
        ))
    }

    fn list_sorted(
        self: &Arc<Self>,
        object: &ObjectLocation,
        options: &ListOptions,
    ) -> Result<Box<dyn Iterator<Item = Result<Entry>> + Send>> {
        if self.client.unsorted.has(object) {
            return self.list_unsorted(object, options);
        }
        let query = S3Query::new(object, options);
        let first = self.first_page(object, &query)?;
        if first.disorder.is_some() {
            self.client.unsorted.add(object);
            return self.list_unsorted(object, options);
        }
        if first.next.is_none() {
            return Ok(Box::new(first.entries.into_iter().map(Ok)));
        }
        // Listings of buckets are sequential.
        if query.bucket.bucket.is_empty() {
            return Ok(Box::new(Pages::new(Arc::clone(self), query, first)?.flatten()));
        }
        let most = options.requests.map_or(pace::MAX_REQUESTS, usize::from);
        Ok(Box::new(ConcurrentListing::start(Arc::clone(self), query, options.order, most, first)?))
    }

    /// Lists page by page. Applies the filters here, because the service could apply them only if
    /// it listed in order.
    fn list_unsorted(
        self: &Arc<Self>,
        object: &ObjectLocation,
        options: &ListOptions,
    ) -> Result<Box<dyn Iterator<Item = Result<Entry>> + Send>> {
        let beginning = match is_directory_bucket(object) {
            true => String::new(),
            false => options.beginning.clone(),
        };
        let whole = ListOptions { start_after: None, beginning, ..options.clone() };
        let query = S3Query::new(object, &whole);
        let first = self.first_page(object, &query)?;
        let pages = Pages::new(Arc::clone(self), query, first)?.flatten();
        let options = options.clone();
        Ok(Box::new(
            pages.filter(move |entry| !entry.as_ref().is_ok_and(|entry| !options.includes_entry(entry))),
        ))
    }

    /// Returns the first page of a listing. Sends one request.
    pub(crate) fn list_page(&self, object: &ObjectLocation, options: &ListOptions) -> Result<ListedPage> {
        let mut page = self.first_page(object, &S3Query::new(object, options))?;
        if options.start_after.is_some() {
            page.entries.retain(|entry| options.includes_entry(entry));
        }
        if let Some(disorder) = page.disorder.filter(|_| page.next.is_some()) {
            self.client.unsorted.add(object);
            return Err(disorder.at(object.to_string()));
        }
        Ok(ListedPage { is_last: page.next.is_none(), entries: page.entries })
    }

    fn first_page(&self, object: &ObjectLocation, query: &S3Query) -> Result<S3Page> {
        let page = self.page(query, &PageStart::Start, &Cancel::new())?;
        // On S3, a prefix exists only while a key begins with it. So an empty page means "not
        // found".
        if !object.key.is_empty() && !query.is_narrowed() && page.last.is_none() && page.next.is_none() {
            return Err(Error::NotFound { location: object.to_string(), trace: None });
        }
        Ok(page)
    }

    fn retries(&self) -> u64 {
        self.client.counters.retries.load(Ordering::Relaxed)
    }

    /// Returns true if any key begins with this key.
    pub(super) fn has_keys_under(&self, prefix: &ObjectLocation) -> Result<bool> {
        let query = S3Query::new(prefix, &ListOptions { recursive: true, ..ListOptions::default() });
        let (page, _) = self.object_page(&query, &PageStart::Start, Some(1), &Cancel::new())?;
        Ok(!page.contents.is_empty() || !page.common_prefixes.is_empty())
    }
}

/// An iterator over sequential pages. Requests the next page when the current one is used up.
struct Pages {
    s3: Arc<S3>,
    query: S3Query,
    page: S3Page,
    endless: EndlessListingCheck,
}

impl Pages {
    fn new(s3: Arc<S3>, query: S3Query, first: S3Page) -> Result<Self> {
        let mut pages = Self { s3, query, page: S3Page::default(), endless: EndlessListingCheck::default() };
        pages.accept(first)?;
        Ok(pages)
    }

    fn accept(&mut self, page: S3Page) -> Result<()> {
        if let Some(token) = &page.next {
            let checked = self.endless.check(token, PageContent::of(&page.entries));
            checked.map_err(|why| protocol(&self.query.place(), why))?;
        }
        self.page = page;
        Ok(())
    }
}

impl Iterator for Pages {
    type Item = Vec<Result<Entry>>;

    fn next(&mut self) -> Option<Self::Item> {
        let entries = std::mem::take(&mut self.page.entries);
        if !entries.is_empty() {
            return Some(entries.into_iter().map(Ok).collect());
        }
        let token = self.page.next.take()?;
        let page = self.s3.page(&self.query, &PageStart::Token(token), &Cancel::new());
        match page.and_then(|page| self.accept(page)) {
            Ok(()) => Some(Vec::new()),
            Err(error) => Some(vec![Err(error)]),
        }
    }
}
