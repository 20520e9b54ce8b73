//! Requests one page of a listing and converts the response to entries.

use std::time::Instant;

use firstbyte_location::{Entry, Kind, ObjectLocation, Service};

use crate::object::in_listing_order;
use crate::order::Disorder;
use crate::s3::operation::Operation;
use crate::s3::xml::{self, BucketPage};
use crate::s3::{Call, NameEncoding, S3, protocol};
use crate::{Cancel, ListOptions, Marker, Result, answer};

use super::answer::{Object, ObjectPage};
use super::cut::Grouping;

/// Parameter for URL-encoded names, since keys may have characters that XML cannot.
const ENCODING: &str = "encoding-type";

/// The parameters shared by all pages of a listing.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) bucket: ObjectLocation,
    /// Empty, or ending in `/`.
    prefix: String,
    /// The beginning of names after the prefix.
    beginning: String,
    pub(super) grouping: Grouping,
    /// The key after which the listing begins.
    start_after: Option<String>,
    marker: Marker,
    /// Changes since then need not be in the listing.
    began: Instant,
}

/// The start of a page.
#[derive(Clone, Debug)]
pub(super) enum From {
    /// At the start of the listing.
    Start,
    /// After this key, which need not exist.
    After(String),
    /// After another page, by its continuation token.
    Token(String),
}

/// Entries of one page.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// In listing order, unless there is a disorder.
    pub(super) entries: Vec<Entry>,
    /// Names that the service has not put in order.
    pub(super) disorder: Option<Disorder>,
    /// The last key, or common prefix with its `/`; `None` for an empty page.
    pub(super) last: Option<String>,
    /// The continuation token of the next page.
    pub(super) next: Option<String>,
}

impl Query {
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

impl Query {
    /// The location in error messages.
    pub(super) fn place(&self) -> String {
        let key = format!("{}{}", self.prefix, self.beginning);
        self.bucket.with_key(key).to_string()
    }

    /// Adds the parameters of every page of keys to a request.
    pub(super) fn add_to(&self, call: &mut Call<'_>) {
        call.query.push((ENCODING, "url".to_owned()));
        call.query.push(("prefix", format!("{}{}", self.prefix, self.beginning)));
        if self.grouping == Grouping::Prefixes {
            call.query.push(("delimiter", "/".to_owned()));
        }
    }

    /// The part of a key behind the prefix. `None` for the prefix itself, which is the marker of a
    /// directory.
    pub(super) fn name<'k>(&self, key: &'k str) -> Option<&'k str> {
        key.strip_prefix(&self.prefix).filter(|name| !name.is_empty())
    }

    /// True if the listing is restricted further than by the prefix, so that an empty one does not
    /// mean that the prefix is missing.
    pub(super) fn is_narrowed(&self) -> bool {
        self.start_after.is_some() || !self.beginning.is_empty()
    }
}

impl S3 {
    /// Requests one page of buckets or keys.
    pub(super) fn page(&self, query: &Query, from: &From, cancel: &Cancel) -> Result<Page> {
        if query.bucket.bucket.is_empty() {
            return self.bucket_page(query, from, cancel);
        }
        let page = self.object_page(query, from, None, cancel)?;
        let encoding = page.encoding_type.as_deref();
        let mut last: Option<String> = None;
        let mut name = |key: &str| {
            let key = xml::key(key, encoding);
            let name = key.strip_prefix(&query.prefix)?;
            match &mut last {
                // Reuses the allocation, since a page has a thousand names.
                Some(last) if name > last.as_str() => name.clone_into(last),
                Some(_) => {}
                None => last = Some(name.to_owned()),
            }
            Some(name.as_bytes().to_vec())
        };
        let mut entries = Vec::with_capacity(page.contents.len() + page.common_prefixes.len());
        for object in page.contents {
            // A key equal to the prefix is its directory marker.
            let listed = |name: &Vec<u8>| query.marker == Marker::Listed || !name.is_empty();
            let Some(name) = name(&object.key).filter(listed) else { continue };
            entries.push(entry(name, object));
        }
        let keys = entries.len();
        for prefix in page.common_prefixes {
            entries.extend(name(&prefix).map(common_prefix));
        }
        let disorder = Disorder::among(&entries[..keys]).or_else(|| Disorder::among(&entries[keys..]));
        if query.grouping == Grouping::Prefixes {
            entries.sort_by(|a, b| in_listing_order(a).cmp(in_listing_order(b)));
        }
        let next = page.next_continuation_token.filter(|token| page.is_truncated && !token.is_empty());
        Ok(Page { entries, disorder, last, next })
    }

    /// Requests a page of keys, at most `most` if given.
    pub(super) fn object_page(
        &self,
        query: &Query,
        from: &From,
        most: Option<u32>,
        cancel: &Cancel,
    ) -> Result<ObjectPage> {
        let mut call = Call::new(Operation::ListObjectsV2, &query.bucket, cancel);
        call.query.push(("list-type", "2".to_owned()));
        query.add_to(&mut call);
        call.query.extend(most.map(|most| ("max-keys", most.to_string())));
        let start_after = |name: &String| ("start-after", format!("{}{name}", query.prefix));
        match from {
            From::Token(token) => call.query.push(("continuation-token", token.clone())),
            From::After(name) => {
                call.query.push(start_after(name));
                // Whole seconds, rounded up.
                call.header("cache-control", format!("max-age={}", query.began.elapsed().as_secs() + 1));
            }
            From::Start => call.query.extend(query.start_after.as_ref().map(start_after)),
        }
        let (head, body) = self.call_text(&call)?;
        self.client.clocks.learn(Service::S3, &head);
        let mut page =
            ObjectPage::parse(&body).ok_or_else(|| protocol(&call.place(), "no listing in the response"))?;
        if self.name_encoding(&mut call, &page, ObjectPage::parse)? == NameEncoding::Literal {
            page.encoding_type = None;
        }
        if page.is_truncated && page.next_continuation_token.is_none() {
            return Err(protocol(&call.place(), "a listing with further pages and no continuation token"));
        }
        Ok(page)
    }

    /// Whether the names of a page are encoded as it states. Some services state it and send names
    /// as they are; there a `+` is a `+`. The first name with one is looked at in the same page
    /// without encoding.
    pub(super) fn name_encoding(
        &self,
        call: &mut Call<'_>,
        page: &ObjectPage,
        parse: fn(&[u8]) -> Option<ObjectPage>,
    ) -> Result<NameEncoding> {
        if page.encoding_type.as_deref() != Some("url") {
            return Ok(NameEncoding::Encoded);
        }
        if let Some(known) = self.names.get() {
            return Ok(*known);
        }
        // No encoding leaves a space, and names as they are seldom have a `%` before two digits.
        let found = if page.names().any(|name| name.contains(' ')) {
            NameEncoding::Literal
        } else if page.names().any(has_escape) {
            NameEncoding::Encoded
        } else if let Some(name) = page.names().find(|name| name.contains('+')) {
            call.query.retain(|parameter| parameter.0 != ENCODING);
            let (_, body) = self.call_text(call)?;
            let decoded = xml::key(name, Some("url"));
            // Names that XML cannot have make the page unusable without encoding.
            let plain = parse(&body).unwrap_or_default();
            let has = |wanted: &str| plain.names().any(|name| name == wanted);
            if has(name) && !has(&decoded) { NameEncoding::Literal } else { NameEncoding::Encoded }
        } else {
            return Ok(NameEncoding::Encoded);
        };
        Ok(*self.names.get_or_init(|| found))
    }

    fn bucket_page(&self, query: &Query, from: &From, cancel: &Cancel) -> Result<Page> {
        let mut call = Call::new(Operation::ListBuckets, &query.bucket, cancel);
        if let From::Token(token) = from {
            call.query.push(("continuation-token", token.clone()));
        }
        let (_, body) = self.call_text(&call)?;
        let page: BucketPage = xml::parse_root("ListAllMyBucketsResult", &body)
            .ok_or_else(|| protocol("s3://", "no buckets in the response"))?;
        let entry = |bucket: xml::Bucket| Entry {
            modified: bucket.creation_date.as_deref().and_then(answer::rfc3339),
            ..Entry::named(bucket.name.into_bytes(), Kind::Directory)
        };
        let entries = page.buckets.bucket.into_iter().map(entry).collect();
        Ok(Page {
            entries,
            disorder: None,
            last: None,
            next: page.continuation_token.filter(|token| !token.is_empty()),
        })
    }
}

/// True if a name has a percent-encoded byte.
fn has_escape(name: &str) -> bool {
    let digits = |pair: &[u8]| pair.len() == 2 && pair.iter().all(u8::is_ascii_hexdigit);
    name.bytes()
        .enumerate()
        .any(|(at, byte)| byte == b'%' && name.as_bytes().get(at + 1..at + 3).is_some_and(digits))
}

/// The entry of an object.
pub(super) fn entry(name: Vec<u8>, object: Object) -> Entry {
    Entry {
        size: Some(object.size),
        modified: object.last_modified.as_deref().and_then(answer::rfc3339),
        etag: object.etag,
        storage_class: object.storage_class.filter(|class| class != "STANDARD" && !class.is_empty()),
        ..Entry::named(name, Kind::File)
    }
}

/// The entry of a common prefix, from the part of it behind the listing's prefix.
pub(super) fn common_prefix(mut name: Vec<u8>) -> Entry {
    // `a//b` has a directory named `/` below `a/`.
    if name.len() > 1 {
        name.pop();
    }
    Entry::named(name, Kind::Directory)
}
