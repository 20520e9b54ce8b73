//! Requests one page of a listing, and converts the response to entries.

use std::sync::atomic::Ordering;
use std::time::Instant;

use firstbyte_location::{Entry, EntryKind, ObjectLocation};

use crate::cancel::Cancel;
use crate::dates;
use crate::error::{Error, Result};
use crate::object::{common_prefix, in_listing_order};
use crate::order::Disorder;
use crate::query::{ListOptions, Marker};
use crate::s3::dialect::ListVersion;
use crate::s3::names::{ENCODING, NameForm};
use crate::s3::operation::S3Operation;
use crate::s3::xml::{self, BucketPage};
use crate::s3::{S3, S3Call, protocol};

use super::answer::{ObjectElement, ObjectPage};
use super::cut::Grouping;

/// The parameters that all pages of a listing share.
#[derive(Clone, Debug)]
pub(super) struct S3Query {
    pub(super) bucket: ObjectLocation,
    /// The prefix: empty, or with a final `/`.
    prefix: String,
    /// The string with which every name, after the prefix, must begin.
    beginning: String,
    pub(super) grouping: Grouping,
    start_after: Option<String>,
    marker: Marker,
    /// The time at which the listing began. Keys that change after that time need not be listed.
    began: Instant,
}

/// Where a page starts.
#[derive(Clone, Debug)]
pub(super) enum PageStart {
    /// At the start of the listing.
    Start,
    /// After this key, which need not exist.
    After(String),
    /// After another page, whose response had this continuation token.
    Token(String),
}

/// One page of a listing.
#[derive(Debug, Default)]
pub(super) struct S3Page {
    /// The entries in listing order, unless `disorder` is set.
    pub(super) entries: Vec<Entry>,
    /// The first two names in the wrong order, if there are any.
    pub(super) disorder: Option<Disorder>,
    /// The greatest name on the page, in byte order, relative to the prefix of the query. A common
    /// prefix keeps its `/`. `None` for an empty page, and for a page of buckets.
    pub(super) last: Option<String>,
    /// The continuation token of the next page. `None` on the last page.
    pub(super) next: Option<String>,
}

impl S3Query {
    pub(super) fn new(object: &ObjectLocation, options: &ListOptions) -> Self {
        let mut prefix = object.key.clone();
        if !prefix.is_empty() && !prefix.ends_with('/') {
            prefix.push('/');
        }
        Self {
            bucket: object.with_key(""),
            start_after: options.start_after.clone(),
            marker: options.marker,
            prefix,
            beginning: options.beginning.clone(),
            grouping: if options.recursive { Grouping::Keys } else { Grouping::Prefixes },
            began: Instant::now(),
        }
    }
}

impl S3Query {
    pub(super) fn place(&self) -> String {
        let key = format!("{}{}", self.prefix, self.beginning);
        self.bucket.with_key(key).to_string()
    }

    /// Adds to a request the parameters of every page of keys.
    pub(super) fn add_to(&self, call: &mut S3Call<'_>) {
        call.query.push((ENCODING, "url".to_owned()));
        call.query.push(("prefix", format!("{}{}", self.prefix, self.beginning)));
        if self.grouping == Grouping::Prefixes {
            call.query.push(("delimiter", "/".to_owned()));
        }
    }

    /// Returns the part of a key after the prefix. `None` for the prefix itself, which marks a
    /// directory.
    pub(super) fn name<'k>(&self, key: &'k str) -> Option<&'k str> {
        key.strip_prefix(&self.prefix).filter(|name| !name.is_empty())
    }

    /// Returns true if the listing is restricted by more than the prefix. An empty page then does
    /// not mean that the prefix is missing.
    pub(super) fn is_narrowed(&self) -> bool {
        self.start_after.is_some() || !self.beginning.is_empty()
    }
}

impl S3 {
    /// Requests one page of buckets or of keys.
    pub(super) fn page(&self, query: &S3Query, from: &PageStart, cancel: &Cancel) -> Result<S3Page> {
        if query.bucket.bucket.is_empty() {
            return self.bucket_page(query, from, cancel);
        }
        let (page, form) = self.object_page(query, from, None, cancel)?;
        let mut last: Option<String> = None;
        let mut name = |key: &str| {
            let key = form.decode(key);
            let name = key.strip_prefix(&query.prefix)?;
            match &mut last {
                // The allocation is reused: a page has a thousand names.
                Some(last) if name > last.as_str() => name.clone_into(last),
                Some(_) => {}
                None => last = Some(name.to_owned()),
            }
            Some(name.as_bytes().to_vec())
        };
        let mut entries = Vec::with_capacity(page.contents.len() + page.common_prefixes.len());
        for object in page.contents {
            // A key equal to the prefix marks the prefix as a directory.
            let listed = |name: &Vec<u8>| query.marker == Marker::Listed || !name.is_empty();
            let Some(name) = name(&object.key).filter(listed) else { continue };
            entries.push(entry(name, object));
        }
        let keys = entries.len();
        for prefix in page.common_prefixes {
            entries.extend(name(&prefix).and_then(common_prefix));
        }
        let disorder = Disorder::among(&entries[..keys]).or_else(|| Disorder::among(&entries[keys..]));
        if query.grouping == Grouping::Prefixes {
            entries.sort_by(|a, b| in_listing_order(a).cmp(in_listing_order(b)));
        }
        Ok(S3Page { entries, disorder, last, next: page.next_continuation_token })
    }

    /// Requests one page of keys, limited to `most` keys if `most` is given. If the service
    /// supports only version 1 of the request, the token of the next page is a key.
    pub(super) fn object_page(
        &self,
        query: &S3Query,
        from: &PageStart,
        most: Option<u32>,
        cancel: &Cancel,
    ) -> Result<(ObjectPage, NameForm)> {
        let version = self.list_version()?;
        let mut call = S3Call::new(S3Operation::ListObjectsV2, &query.bucket, cancel);
        let (after, token) = match version {
            ListVersion::V1 => ("marker", "marker"),
            ListVersion::V2 => {
                call.query.push(("list-type", "2".to_owned()));
                ("start-after", "continuation-token")
            }
        };
        query.add_to(&mut call);
        call.query.extend(most.map(|most| ("max-keys", most.to_string())));
        let start_after = |name: &String| (after, format!("{}{name}", query.prefix));
        match from {
            PageStart::Token(text) => call.query.push((token, text.clone())),
            PageStart::After(name) => {
                call.query.push(start_after(name));
                // The age of the listing in seconds, rounded up: the response may be that old.
                call.header("cache-control", format!("max-age={}", query.began.elapsed().as_secs() + 1));
            }
            PageStart::Start => call.query.extend(query.start_after.as_ref().map(start_after)),
        }
        let (head, body) = match self.call_text(&call) {
            Err(Error::Server { status: 501, .. }) if version == ListVersion::V2 => {
                return self.first_version_page(query, from, most, cancel);
            }
            answer => answer?,
        };
        self.client.clocks.learn(query.bucket.service, &head);
        let mut page = ObjectPage::parse(&body)
            .ok_or_else(|| protocol(&call.place(), "no listing in the response").traced(|| head.trace()))?;
        let form = self.form_of_names(&mut call, &page, ObjectPage::parse)?;
        if page.is_truncated != Some(true) {
            page.next_continuation_token = None;
        } else if page.next_continuation_token.is_none() {
            if version == ListVersion::V2 {
                return self.first_version_page(query, from, most, cancel);
            }
            page.next_continuation_token = Some(next_marker(&page, form).ok_or_else(|| {
                protocol(&call.place(), "a listing with further pages and no name").traced(|| head.trace())
            })?);
        }
        Ok((page, form))
    }

    /// Requests the page by version 1 of the request. The service does not support version 2: it
    /// either refused that request, or sent no token for the next page.
    fn first_version_page(
        &self,
        query: &S3Query,
        from: &PageStart,
        most: Option<u32>,
        cancel: &Cancel,
    ) -> Result<(ObjectPage, NameForm)> {
        let set = self.identity.settings(&self.client.options)?.list_version;
        if set == Some(ListVersion::V2) || matches!(from, PageStart::Token(_)) {
            let why = "a listing with further pages and no continuation token";
            return Err(protocol(&query.place(), why));
        }
        tracing::debug!(
            bucket = query.bucket.bucket,
            "the service knows the first version of listings alone"
        );
        self.first_list_version.store(true, Ordering::Relaxed);
        self.object_page(query, from, most, cancel)
    }

    pub(super) fn form_of_names(
        &self,
        call: &mut S3Call<'_>,
        page: &ObjectPage,
        parse: fn(&[u8]) -> Option<ObjectPage>,
    ) -> Result<NameForm> {
        if let Some(stated) = NameForm::stated(page.encoding_type.as_deref()) {
            return Ok(stated);
        }
        let names: Vec<&str> = page.names().collect();
        self.names.learn(&names, || {
            call.query.retain(|parameter| parameter.0 != ENCODING);
            let (_, body) = self.call_text(call)?;
            let plain = parse(&body).unwrap_or_default();
            Ok(plain.names().map(ToOwned::to_owned).collect())
        })
    }

    fn bucket_page(&self, query: &S3Query, from: &PageStart, cancel: &Cancel) -> Result<S3Page> {
        let mut call = S3Call::new(S3Operation::ListBuckets, &query.bucket, cancel);
        if let PageStart::Token(token) = from {
            call.query.push(("continuation-token", token.clone()));
        }
        let (head, body) = self.call_text(&call)?;
        let page: BucketPage = xml::parse_root("ListAllMyBucketsResult", &body)
            .ok_or_else(|| protocol(&call.place(), "no buckets in the response").traced(|| head.trace()))?;
        let entry = |bucket: xml::Bucket| Entry {
            modified: bucket.creation_date.as_deref().and_then(dates::rfc3339),
            ..Entry::named(bucket.name.into_bytes(), EntryKind::Directory)
        };
        let entries = page.buckets.bucket.into_iter().map(entry).collect();
        Ok(S3Page { entries, disorder: None, last: None, next: page.continuation_token })
    }
}

/// Returns the key after which the next page of a version 1 listing starts. Without a delimiter,
/// the service does not state that key: it is the last key of the page
/// (<https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjects.html>).
fn next_marker(page: &ObjectPage, form: NameForm) -> Option<String> {
    let last = || page.names().map(|name| form.decode(name)).max();
    let marker = page.next_marker.as_deref();
    marker.map(|marker| form.decode(marker)).or_else(last).map(std::borrow::Cow::into_owned)
}

pub(super) fn entry(name: Vec<u8>, object: ObjectElement) -> Entry {
    Entry {
        size: object.size,
        modified: object.last_modified.as_deref().and_then(dates::rfc3339),
        etag: object.etag,
        storage_class: object.storage_class.filter(|class| class != "STANDARD" && !class.is_empty()),
        ..Entry::named(name, EntryKind::File)
    }
}
