//! ListObjectsV2 and ListBuckets, as entries.
//!
//! The first page is fetched before the listing is handed out, so that a wrong name fails at once; after that the next
//! page is fetched on a thread of its own while the entries of this one are used. Two pages are held at most.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use firstbyte_location::{Entry, Kind, S3Object};

use crate::object::in_listing_order;
use crate::wire::Method;
use crate::{Cancel, ListOptions, Result, answer};

use super::xml::{self, BucketPage, ObjectPage};
use super::{Call, S3, protocol};

/// What is listed: everything that stays the same from page to page.
struct Query {
    bucket: S3Object,
    /// Empty, or ending in `/`.
    prefix: String,
    recursive: bool,
    start_after: Option<String>,
}

/// Entries of one page, and where the next one begins.
struct Page {
    entries: Vec<Entry>,
    next: Option<String>,
}

impl S3 {
    /// Lists a prefix, a bucket, or (with an empty bucket) the buckets.
    pub(crate) fn list(
        self: &Arc<Self>,
        object: &S3Object,
        options: &ListOptions,
    ) -> Result<Box<dyn Iterator<Item = Result<Entry>> + Send>> {
        let query = Query::new(object, options);
        let first = self.page(&query, None)?;
        let Some(next) = first.next else { return Ok(Box::new(first.entries.into_iter().map(Ok))) };
        let rest = Arc::clone(self).fetch_ahead(query, next);
        let rest = rest.into_iter().flat_map(|page| {
            let (entries, error) = match page {
                Ok(entries) => (entries, None),
                Err(error) => (Vec::new(), Some(Err(error))),
            };
            entries.into_iter().map(Ok).chain(error)
        });
        Ok(Box::new(first.entries.into_iter().map(Ok).chain(rest)))
    }

    /// Pages from `next` on, one ahead of the reader; ends when the reader goes away.
    fn fetch_ahead(self: Arc<Self>, query: Query, next: String) -> Receiver<Result<Vec<Entry>>> {
        let (sender, receiver) = sync_channel(1);
        std::thread::spawn(move || {
            let mut next = Some(next);
            while let Some(token) = next {
                let page = self.page(&query, Some(token));
                let (message, following) = match page {
                    Ok(page) => (Ok(page.entries), page.next),
                    Err(error) => (Err(error), None),
                };
                next = following;
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        receiver
    }

    /// Whether any key begins with this one.
    pub(super) fn has_keys_under(&self, prefix: &S3Object) -> Result<bool> {
        let query = Query::new(prefix, &ListOptions { recursive: true, ..ListOptions::default() });
        let page = self.object_page(&query, None, 1)?;
        Ok(!page.contents.is_empty() || !page.common_prefixes.is_empty())
    }

    fn page(&self, query: &Query, token: Option<String>) -> Result<Page> {
        if query.bucket.bucket.is_empty() {
            return self.bucket_page(query, token);
        }
        let page = self.object_page(query, token, 1000)?;
        let encoding = page.encoding_type.as_deref();
        let name = |key: &str| {
            xml::key(key, encoding).strip_prefix(&query.prefix).map(|name| name.as_bytes().to_vec())
        };
        let mut entries = Vec::with_capacity(page.contents.len() + page.common_prefixes.len());
        for object in page.contents {
            // A key equal to the prefix is the directory's own marker.
            let Some(name) = name(&object.key).filter(|name| !name.is_empty()) else { continue };
            entries.push(Entry {
                name,
                kind: Kind::File,
                size: Some(object.size),
                modified: object.last_modified.as_deref().and_then(answer::rfc3339),
                etag: object.etag,
                storage_class: object.storage_class.filter(|class| class != "STANDARD" && !class.is_empty()),
            });
        }
        for prefix in page.common_prefixes {
            let Some(mut name) = name(&prefix.prefix) else { continue };
            // `a//b` has a directory called `/` under `a/`: its slash is its name.
            if name.len() > 1 {
                name.pop();
            }
            entries.push(directory(name));
        }
        if !query.recursive {
            entries.sort_by(|a, b| in_listing_order(a).cmp(in_listing_order(b)));
        }
        let next = page.next_continuation_token.filter(|token| page.is_truncated && !token.is_empty());
        Ok(Page { entries, next })
    }

    fn object_page(&self, query: &Query, token: Option<String>, most: u32) -> Result<ObjectPage> {
        let cancel = Cancel::new();
        let mut call = Call::new(Method::Get, &query.bucket, &cancel);
        call.query.push(("list-type", "2".to_owned()));
        call.query.push(("encoding-type", "url".to_owned()));
        call.query.push(("prefix", query.prefix.clone()));
        if most < 1000 {
            call.query.push(("max-keys", most.to_string()));
        }
        if !query.recursive {
            call.query.push(("delimiter", "/".to_owned()));
        }
        match token {
            Some(token) => call.query.push(("continuation-token", token)),
            None => call.query.extend(query.start_after.clone().map(|key| ("start-after", key))),
        }
        let (_, body) = self.call_text(&call)?;
        let page: ObjectPage = xml::parse_root("ListBucketResult", &body)
            .ok_or_else(|| protocol(&call.place(), "no listing in the answer"))?;
        if page.is_truncated && page.next_continuation_token.is_none() {
            return Err(protocol(&call.place(), "a listing that goes on without saying where"));
        }
        Ok(page)
    }

    fn bucket_page(&self, query: &Query, token: Option<String>) -> Result<Page> {
        let cancel = Cancel::new();
        let mut call = Call::new(Method::Get, &query.bucket, &cancel);
        call.query.extend(token.map(|token| ("continuation-token", token)));
        let (_, body) = self.call_text(&call)?;
        let page: BucketPage = xml::parse_root("ListAllMyBucketsResult", &body)
            .ok_or_else(|| protocol("s3://", "no buckets in the answer"))?;
        let entry = |bucket: xml::Bucket| Entry {
            modified: bucket.creation_date.as_deref().and_then(answer::rfc3339),
            ..directory(bucket.name.into_bytes())
        };
        let entries = page.buckets.bucket.into_iter().map(entry).collect();
        Ok(Page { entries, next: page.continuation_token.filter(|token| !token.is_empty()) })
    }
}

impl Query {
    fn new(object: &S3Object, options: &ListOptions) -> Self {
        let mut prefix = object.key.clone();
        if !prefix.is_empty() && !prefix.ends_with('/') {
            prefix.push('/');
        }
        Self {
            bucket: S3Object { bucket: object.bucket.clone(), key: String::new() },
            start_after: options.start_after.as_ref().map(|name| format!("{prefix}{name}")),
            prefix,
            recursive: options.recursive,
        }
    }
}

fn directory(name: Vec<u8>) -> Entry {
    Entry { name, kind: Kind::Directory, size: None, modified: None, etag: None, storage_class: None }
}
