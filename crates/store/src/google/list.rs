//! Lists objects and buckets, one page per request.

use firstbyte_location::{Entry, EntryKind, Service};
use serde::Deserialize;

use super::{Google, JSON_PATH, credentials, json_path};
use crate::cancel::Cancel;
use crate::dates;
use crate::error::Result;
use crate::limits::PAGE;
use crate::requests::RequestKind;
use crate::rest::{RestCall, RestPage, RestQuery, RestStore as _, protocol};
use crate::wire::HttpMethod;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectList {
    items: Vec<Object>,
    prefixes: Vec<String>,
    next_page_token: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Object {
    name: String,
    size: String,
    updated: String,
    storage_class: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BucketList {
    items: Vec<Bucket>,
    next_page_token: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Bucket {
    name: String,
    time_created: String,
}

impl Google {
    pub(super) fn object_page(
        &self,
        query: &RestQuery,
        token: Option<&str>,
        most: Option<u32>,
    ) -> Result<RestPage> {
        let cancel = Cancel::new();
        let path = format!("{}/o", json_path(&query.bucket));
        let mut call = RestCall::new(HttpMethod::Get, &query.bucket, path, &cancel);
        call.kind = RequestKind::List;
        let fields = "items(name,size,updated,storageClass),prefixes,nextPageToken";
        call.query.push(("fields", fields.to_owned()));
        call.query.push(("prefix", query.prefix()));
        call.query.extend(query.delimiter().map(|delimiter| ("delimiter", delimiter.to_owned())));
        // Google includes the name `startOffset` itself if it exists.
        call.query.extend(query.start_after().map(|key| ("startOffset", key)));
        call.query.extend(token.map(|token| ("pageToken", token.to_owned())));
        match (most, query.delimiter()) {
            (Some(most), _) => call.query.push(("maxResults", most.to_string())),
            (None, None) => call.query.push(("maxResults", PAGE.to_string())),
            // No limit is sent with a delimiter, because fake-gcs-server then repeats all prefixes
            // on every page. The default of the service is the same limit.
            (None, Some(_)) => {}
        }
        let (head, body) = self.call(&call)?;
        self.client.clocks.learn(Service::Google, &head);
        let list: ObjectList = serde_json::from_slice(&body).map_err(|error| {
            protocol(&call.place(), format!("no listing in the response: {error}")).traced(|| head.trace())
        })?;
        let entry = |object: Object| {
            let entry = Entry {
                size: object.size.parse().ok(),
                modified: dates::rfc3339(&object.updated),
                storage_class: object.storage_class.filter(|class| class != "STANDARD"),
                ..Entry::named(Vec::new(), EntryKind::File)
            };
            (object.name, entry)
        };
        Ok(query.page(list.items.into_iter().map(entry), list.prefixes.into_iter(), list.next_page_token))
    }

    pub(super) fn bucket_page(&self, query: &RestQuery, token: Option<&str>) -> Result<RestPage> {
        let cancel = Cancel::new();
        let mut call = RestCall::new(HttpMethod::Get, &query.bucket, JSON_PATH.to_owned(), &cancel);
        call.kind = RequestKind::List;
        if !self.identity.place(&self.client.options)?.is_emulator {
            call.query.push(("project", credentials::project()?));
        }
        call.query.extend(token.map(|token| ("pageToken", token.to_owned())));
        let (head, body) = self.call(&call)?;
        let list: BucketList = serde_json::from_slice(&body).map_err(|error| {
            protocol(&call.place(), format!("no buckets in the response: {error}")).traced(|| head.trace())
        })?;
        let entry = |bucket: Bucket| Entry {
            modified: dates::rfc3339(&bucket.time_created),
            ..Entry::named(bucket.name.into_bytes(), EntryKind::Directory)
        };
        let entries: Vec<_> = list.items.into_iter().map(entry).collect();
        let next = list.next_page_token.filter(|token| !token.is_empty());
        Ok(RestPage { disorder: None, brought_names: !entries.is_empty(), entries, next })
    }
}
