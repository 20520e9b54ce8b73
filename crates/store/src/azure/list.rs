//! Lists blobs and containers, by `List Blobs` and `List Containers`.

use firstbyte_location::{Entry, EntryKind, Service, etag};

use super::xml::{self, BlobItem, NamedElement};
use super::{Azure, path};
use crate::cancel::Cancel;
use crate::dates;
use crate::error::Result;
use crate::limits::PAGE;
use crate::requests::RequestKind;
use crate::rest::{RestCall, RestPage, RestQuery, RestStore as _, protocol};
use crate::wire::HttpMethod;

impl Azure {
    pub(super) fn list_page_of(
        &self,
        query: &RestQuery,
        token: Option<&str>,
        most: Option<u32>,
    ) -> Result<RestPage> {
        let cancel = Cancel::new();
        let is_service = query.bucket.bucket.is_empty();
        let path = if is_service { "/".to_owned() } else { path(&query.bucket) };
        let mut call = RestCall::new(HttpMethod::Get, &query.bucket, path, &cancel);
        call.kind = RequestKind::List;
        call.query.push(("comp", "list".to_owned()));
        if !is_service {
            call.query.push(("restype", "container".to_owned()));
            call.query.push(("prefix", query.prefix()));
            // The metadata show which blobs are directories.
            call.query.push(("include", "metadata".to_owned()));
            call.query.extend(query.delimiter().map(|delimiter| ("delimiter", delimiter.to_owned())));
        }
        call.query.extend(token.map(|token| ("marker", token.to_owned())));
        // Azure allows 5,000 entries per page, which would take megabytes; the default is smaller.
        let most = most.map_or(PAGE, |most| most as usize);
        call.query.push(("maxresults", most.to_string()));
        call.query.retain(|(_, value)| !value.is_empty());
        let (head, body) = self.call(&call)?;
        self.client.clocks.learn(Service::Azure, &head);
        let listing = xml::listing(&body)
            .ok_or_else(|| protocol(&call.place(), "no listing in the response").traced(|| head.trace()))?;
        if is_service {
            let bucket = |container: &NamedElement| Entry {
                modified: container.properties.last_modified.as_deref().and_then(dates::parse_http_date),
                ..Entry::named(container.name().into_bytes(), EntryKind::Directory)
            };
            let entries: Vec<_> = listing.containers.container.iter().map(bucket).collect();
            let next = listing.next_marker.filter(|marker| !marker.is_empty());
            return Ok(RestPage { disorder: None, brought_names: !entries.is_empty(), entries, next });
        }
        let (mut blobs, mut prefixes, mut has_directories) = (Vec::new(), Vec::new(), false);
        for item in listing.blobs.items {
            match item {
                BlobItem::Blob(blob) if blob.is_directory() && !query.lists_directory_blobs() => {
                    has_directories = true;
                }
                BlobItem::Blob(blob) => blobs.push((blob.name(), entry(blob))),
                BlobItem::BlobPrefix(prefix) => prefixes.push(prefix.name()),
                BlobItem::Other => {}
            }
        }
        let page = query.page(blobs.into_iter(), prefixes.into_iter(), listing.next_marker);
        Ok(RestPage { brought_names: page.brought_names || has_directories, ..page })
    }
}

fn entry(blob: NamedElement) -> Entry {
    let properties = blob.properties;
    Entry {
        size: properties.content_length,
        modified: properties.last_modified.as_deref().and_then(dates::parse_http_date),
        etag: properties.etag.as_deref().and_then(etag::quoted),
        storage_class: properties.access_tier.filter(|tier| tier != "Hot"),
        ..Entry::named(Vec::new(), EntryKind::File)
    }
}
