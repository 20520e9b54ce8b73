//! Shows how to add a store with a REST API: copy this example, as CONTRIBUTING.md explains. Tests
//! compile it. The example reads, lists and deletes the objects of a service that answers with a
//! JSON array of names.

use std::sync::Arc;

use firstbyte_location::{Entry, EntryKind, ObjectLocation};
use serde::Deserialize;

use super::{CallAddress, RestCall, RestPage, RestQuery, RestRefusal, RestStore, encoded, protocol};
use crate::answer;
use crate::body::Body;
use crate::cancel::Cancel;
use crate::error::{Error, RequestAuthentication, Result};
use crate::object::Stat;
use crate::origin::Origin;
use crate::query::Get;
use crate::wire::{HttpMethod, WireClient};

/// A toy service.
pub(crate) struct Toy {
    client: Arc<WireClient>,
    origin: Origin,
}

#[derive(Deserialize)]
struct Item {
    name: String,
    size: u64,
}

impl Toy {
    pub(crate) fn new(client: Arc<WireClient>, origin: Origin) -> Self {
        Self { client, origin }
    }

    /// Sends one `GET`.
    pub(crate) fn get(&self, object: &ObjectLocation, get: &Get) -> Result<Body> {
        let mut call = RestCall::new(HttpMethod::Get, object, path(object), &get.cancel);
        call.throttle = get.throttle.clone();
        if let Some(range) = get.range {
            call.header("range", answer::range_header(range));
        }
        self.open(&call, get, |head| head, |get| self.get(object, get))
    }
}

impl RestStore for Toy {
    fn client(&self) -> &Arc<WireClient> {
        &self.client
    }

    fn address(&self, call: &RestCall<'_>, _: &Cancel) -> Result<CallAddress> {
        // A real service would add a signature or a token to the headers.
        Ok(CallAddress { origin: self.origin.clone(), target: call.target(), headers: call.headers.clone() })
    }

    fn renew(&self) -> bool {
        false
    }

    fn untraced_error(&self, call: &RestCall<'_>, refusal: RestRefusal) -> Error {
        refusal.into_error(call.place(), RequestAuthentication::Unsigned)
    }

    fn head(&self, object: &ObjectLocation) -> Result<Stat> {
        let cancel = Cancel::new();
        let (head, _) = self.call(&RestCall::new(HttpMethod::Head, object, path(object), &cancel))?;
        Ok(answer::stat(&head, head.content_length(&object.to_string())?))
    }

    fn page(&self, query: &RestQuery, token: Option<&str>, most: Option<u32>) -> Result<RestPage> {
        let cancel = Cancel::new();
        let mut call = RestCall::new(HttpMethod::Get, &query.bucket, path(&query.bucket), &cancel);
        call.query.push(("prefix", query.prefix()));
        call.query.extend(token.map(|token| ("after", token.to_owned())));
        call.query.extend(most.map(|most| ("most", most.to_string())));
        let (head, body) = self.call(&call)?;
        let items: Vec<Item> = serde_json::from_slice(&body)
            .map_err(|error| protocol(&call.place(), error).traced(|| head.trace()))?;
        let entry = |item: Item| {
            (item.name, Entry { size: Some(item.size), ..Entry::named(Vec::new(), EntryKind::File) })
        };
        // This service returns all names in one page, and has neither prefixes nor tokens.
        Ok(query.page(items.into_iter().map(entry), std::iter::empty(), None))
    }

    fn delete(&self, object: &ObjectLocation) -> Result<()> {
        let cancel = Cancel::new();
        match self.call(&RestCall::new(HttpMethod::Delete, object, path(object), &cancel)) {
            Err(Error::NotFound { .. }) => Ok(()),
            other => other.map(drop),
        }
    }
}

fn path(object: &ObjectLocation) -> String {
    format!("/{}/{}", encoded(&object.bucket), encoded(&object.key))
}
