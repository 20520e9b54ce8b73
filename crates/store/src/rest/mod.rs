//! Implements what the backends of Google and Azure share: a REST request, its retries, and the
//! operations that both services do in the same way.
//!
//! A backend defines how a request is addressed and signed, what a refusal means, and how one
//! object and one page of a listing are requested ([`RestStore`]). All other operations are built
//! from these.

mod pages;
mod refusal;
#[cfg(test)]
#[allow(dead_code, reason = "compiled alone")]
mod skeleton;
mod tokens;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use firstbyte_location::{Entry, EntryKind, Location, ObjectLocation};
use firstbyte_pacing::Throttle;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::body::Body;
use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::limits::STACK;
use crate::object::Stat;
use crate::options::StoreOptions;
use crate::origin::Origin;
use crate::query::{Get, ListOptions, ListedPage};
use crate::requests::RequestKind;
use crate::retry::Retry;
use crate::upload::Payload;
use crate::wire::{HttpMethod, Incoming, ResponseHead, WireClient, WireRequest};
use crate::{answer, conditions};

pub(crate) use pages::{RestPage, RestQuery};
pub(crate) use refusal::RestRefusal;
pub(crate) use tokens::{BearerToken, Tokens, ask_for_token, form};

/// Maximum length of a response that is read into memory, in bytes. A page of names is shorter.
const MAX_TEXT_BYTES: usize = 32 << 20;
/// Number of concurrent deletions. Both services delete one object per request.
const CONCURRENT_DELETIONS: usize = 16;
/// Characters that are encoded in a component of a path or query: all but the unreserved ones (RFC
/// 3986, 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes one component of a path, or one value of a query.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// A request before it has an address and a signature.
pub(crate) struct RestCall<'a> {
    /// The object or bucket of the call. Messages name it too.
    pub(crate) object: &'a ObjectLocation,
    pub(crate) method: HttpMethod,
    pub(crate) kind: RequestKind,
    /// The path from the root of the service, percent-encoded.
    pub(crate) path: String,
    /// The parameters of the query, not encoded yet.
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) payload: Payload<'a>,
    pub(crate) cancel: &'a Cancel,
    pub(crate) throttle: Throttle,
}

impl<'a> RestCall<'a> {
    pub(crate) fn new(
        method: HttpMethod,
        object: &'a ObjectLocation,
        path: String,
        cancel: &'a Cancel,
    ) -> Self {
        let (query, headers, payload) = (Vec::new(), Vec::new(), Payload::Bytes(b""));
        let (kind, throttle) = (method.kind(), Throttle::default());
        Self { object, method, kind, path, query, headers, payload, cancel, throttle }
    }

    pub(crate) fn header(&mut self, name: &str, value: impl Into<String>) {
        self.headers.push((name.to_owned(), value.into()));
    }

    pub(crate) fn place(&self) -> String {
        self.object.to_string()
    }

    /// Returns the path and query, as on the request line.
    pub(crate) fn target(&self) -> String {
        let mut target = self.path.clone();
        let mut sign = if target.contains('?') { '&' } else { '?' };
        for (name, value) in &self.query {
            target.push_str(&format!("{sign}{name}={}", encoded(value)));
            sign = '&';
        }
        target
    }
}

/// The server, target and headers of a call. The headers include the credential.
pub(crate) struct CallAddress {
    pub(crate) origin: Origin,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
}

/// A response whose body has not been read yet, or a refusal.
pub(crate) type RestReply = std::result::Result<(ResponseHead, Incoming), RestRefusal>;

/// An object store with a REST API.
pub(crate) trait RestStore: Sized + Send + Sync + 'static {
    fn client(&self) -> &Arc<WireClient>;

    /// Addresses and signs a call.
    fn address(&self, call: &RestCall<'_>, cancel: &Cancel) -> Result<CallAddress>;

    /// Drops a token that the service has refused. Returns true if a new token can be requested.
    fn renew(&self) -> bool;

    /// Returns the error for a refusal.
    fn untraced_error(&self, call: &RestCall<'_>, refusal: RestRefusal) -> Error;

    /// Returns the error for a refusal, with the trace of its request.
    fn refusal(&self, call: &RestCall<'_>, refusal: RestRefusal) -> Error {
        let trace = refusal.head.trace();
        self.untraced_error(call, refusal).traced(|| trace)
    }

    /// Describes one object, never a prefix.
    fn head(&self, object: &ObjectLocation) -> Result<Stat>;

    /// Requests one page of a listing, limited to `most` names if `most` is given. A query without
    /// a bucket lists the buckets.
    fn page(&self, query: &RestQuery, token: Option<&str>, most: Option<u32>) -> Result<RestPage>;

    /// Deletes one object. Succeeds if the object is missing.
    fn delete(&self, object: &ObjectLocation) -> Result<()>;

    /// Sends a call, and once more if the service refuses the token.
    fn send(&self, call: &RestCall<'_>) -> Result<RestReply> {
        let (client, place) = (self.client(), call.place());
        let cancel = client.scoped_cancel(call.cancel);
        let mut renewed = false;
        loop {
            let CallAddress { origin, target, headers } = self.address(call, &cancel)?;
            let request = WireRequest {
                place: &place,
                operation: None,
                origin: &origin,
                method: call.method,
                kind: call.kind,
                target,
                headers,
                payload: call.payload,
                work: 0,
                cancel: &cancel,
                throttle: &call.throttle,
            };
            // The target and the headers are not logged, because they may contain a signature.
            tracing::trace!(method = call.method.as_str(), place, query = ?call.query, "asking");
            let (head, incoming) = client.send(&request)?;
            if head.status < 300 {
                return Ok(Ok((head, incoming)));
            }
            let refusal = RestRefusal::new(head, &incoming.collect(MAX_TEXT_BYTES)?);
            if refusal.head.status != 401 || renewed || !self.renew() {
                return Ok(Err(refusal));
            }
            renewed = true;
            client.counters.retries.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends a call, and repeats it after transient failures.
    fn call(&self, call: &RestCall<'_>) -> Result<(ResponseHead, Vec<u8>)> {
        let mut retry = Retry::new(self.client(), call.cancel);
        loop {
            let sent = self.send(call).and_then(|reply| match reply {
                Ok((head, incoming)) => Ok((head, incoming.collect(MAX_TEXT_BYTES)?)),
                Err(refusal) => Err(self.refusal(call, refusal)),
            });
            match sent {
                Ok(done) => return Ok(done),
                Err(error) => retry.wait_or_give_up(error)?,
            }
        }
    }

    /// Describes an object. Without such an object, describes a prefix with keys below it as a
    /// directory.
    fn stat(&self, object: &ObjectLocation) -> Result<Stat> {
        if object.key.is_empty() {
            // The bucket is listed, because a caller may have the right to list it but not to read
            // its description.
            let query = RestQuery::new(object, &ListOptions::default());
            return self.page(&query, None, Some(1)).map(|_| Stat::directory());
        }
        match self.head(object) {
            // An empty object `NAME/` is a directory marker.
            Ok(marker) if object.key.ends_with('/') && marker.size() == Some(0) => {
                Ok(Stat { kind: EntryKind::Directory, ..marker })
            }
            Err(Error::NotFound { .. }) if self.has_below(object)? => Ok(Stat::directory()),
            other => other,
        }
    }

    /// Returns true if any key begins with this key and a `/`.
    fn has_below(&self, object: &ObjectLocation) -> Result<bool> {
        let prefix = object.with_key(format!("{}/", object.key.trim_end_matches('/')));
        let query = RestQuery::new(&prefix, &ListOptions { recursive: true, ..ListOptions::default() });
        Ok(self.page(&query, None, Some(1))?.brought_names)
    }

    /// Returns the body of a GET, after checking that it has the requested version. `again` sends
    /// the request of another `get`.
    fn open(
        &self,
        call: &RestCall<'_>,
        get: &Get,
        described: impl Fn(ResponseHead) -> ResponseHead,
        again: impl FnOnce(&Get) -> Result<Body>,
    ) -> Result<Body> {
        let place = call.place();
        match self.send(call)? {
            Ok((head, incoming)) => answer::open(&place, get, &described(head), incoming, again),
            Err(refusal) => match (refusal.head.status, &get.version) {
                (416, _) => answer::unsatisfied(&place, get, &described(refusal.head), again),
                // A replaced generation no longer exists.
                (404 | 412, Some(expected)) => {
                    let found = self.head(call.object).map(|stat| stat.version);
                    let trace = || refusal.head.trace();
                    Err(conditions::precondition_error(&place, Some(expected), found).traced(trace))
                }
                _ => Err(self.refusal(call, refusal)),
            },
        }
    }

    /// Lists a prefix, a bucket or, with an empty bucket name, all buckets, one page after another.
    fn list(
        self: &Arc<Self>,
        object: &ObjectLocation,
        options: &ListOptions,
    ) -> Result<Box<dyn Iterator<Item = Result<Entry>> + Send>> {
        pages::list(Arc::clone(self), object, options)
    }

    fn list_page(&self, object: &ObjectLocation, options: &ListOptions) -> Result<ListedPage> {
        let page = pages::first(self, &RestQuery::new(object, options))?;
        if let Some(disorder) = page.disorder.filter(|_| page.next.is_some()) {
            self.client().unsorted.add(object);
            return Err(disorder.at(object.to_string()));
        }
        Ok(ListedPage { is_last: page.next.is_none(), entries: page.entries })
    }

    fn delete_many(&self, objects: &[ObjectLocation]) -> Vec<(Location, Error)> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut failed = Vec::new();
            while let Some(object) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcome = self.delete(object);
                failed.extend(outcome.err().map(|error| (Location::Object(object.clone()), error)));
            }
            failed
        };
        std::thread::scope(|scope| {
            let start = |_| std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work).ok();
            // This thread works too: deleting succeeds even if no other thread can start.
            let others: Vec<_> = (1..CONCURRENT_DELETIONS.min(objects.len())).filter_map(start).collect();
            let mut failed = work();
            for other in others {
                match other.join() {
                    Ok(more) => failed.extend(more),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            failed
        })
    }
}

/// Returns an error for options that only S3 supports. If they were ignored, objects would be
/// stored in another way than the user requested.
pub(crate) fn refuse_s3_options(options: &StoreOptions) -> Result<()> {
    let given = [
        ("--acl", options.acl.is_some()),
        ("--tag", !options.tags.is_empty()),
        ("--sse", options.encryption.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        Some((what, _)) => Err(Error::Options { what: what.to_owned(), why: "only S3 has it".to_owned() }),
        None => Ok(()),
    }
}

pub(crate) fn protocol(place: &str, detail: impl ToString) -> Error {
    Error::Protocol { location: place.to_owned(), detail: detail.to_string(), trace: None }
}
