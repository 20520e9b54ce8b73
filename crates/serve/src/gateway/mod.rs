//! Implements a read-through gateway, which serves a remote location from the block cache. The APIs
//! use the gateway in place of a directory.
//!
//! An object is looked up at its origin ([`lookups`]), then read through `hydrate`: cached blocks
//! leave by sendfile, others are fetched once for all clients ([`reading`]). Invariants: a response
//! has bytes of one version; memory is bounded by two budgets, whatever the number of clients; a
//! request reaches only keys that its rights and the served prefix cover ([`origin`]).

mod chain;
mod error;
mod lookups;
mod metrics;
mod names;
mod object;
mod origin;
mod reading;
mod shared_call;
mod stream;
mod visible;

use std::sync::Arc;
use std::time::{Duration, Instant};

use firstbyte_hydrate::{BLOCK, Hydrator};
use firstbyte_location::{ByteRange, Entry, EntryKind, Location};
use firstbyte_store::{ListOptions, ListedPage, Listing};
use http::HeaderMap;
use http::header::IF_MATCH;
use tokio::sync::Semaphore;

use self::chain::GatewayChain;
pub(crate) use self::error::{GatewayRefusal, RETRY_SECONDS};
use self::lookups::Lookups;
use self::metrics::GatewayCounters;
use self::names::ManifestNames;
pub(crate) use self::object::RemoteObject;
use self::origin::GatewayOrigin;
pub(crate) use self::reading::BlockFrames;
use self::reading::{Budgets, RangeReading, ReadingContext};
pub(crate) use self::visible::Visible;
use crate::access::keys::{KeyRights, RequestRights};
use crate::config::{Buckets, GatewayConfig};
use crate::error::Result;
use crate::http::condition::join_values;
use crate::http::request::HttpRequest;
use crate::http::response::ResponseBody;

/// Response header for an object whose last look-up is outdated: the seconds since that look-up.
pub(crate) const STALE: &str = "x-firstbyte-stale";

/// Header of a request for blocks with checksums, and of its response.
pub(crate) const FRAMES: &str = "x-firstbyte-frames";

/// Maximum number of concurrent look-ups and listings at the origin. Each occupies a thread; the
/// remaining threads stay free for reads from a disk.
const MAX_ORIGIN_CALLS: usize = 32;

/// Maximum time for which a client waits for a new look-up before it gets the previous one, if
/// there is one.
const MAX_LOOKUP_WAIT: Duration = Duration::from_secs(5);

/// A remote location, and the state to serve it.
pub(crate) struct Gateway {
    origin: GatewayOrigin,
    hydrator: Hydrator,
    lookups: Lookups,
    budgets: Arc<Budgets>,
    calls: Arc<Semaphore>,
    chain: GatewayChain,
    /// Names of a manifest for listings. `None`: listings show the origin's names.
    names: Option<Arc<ManifestNames>>,
    counters: Arc<GatewayCounters>,
    stale: Duration,
    deadline: Duration,
    usd_per_request: Option<f64>,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Makes a gateway. Also returns the buckets that clients see.
    ///
    /// # Errors
    /// The location cannot be served.
    pub(crate) fn new(config: &GatewayConfig, buckets: &Buckets) -> Result<(Self, Buckets)> {
        let (origin, buckets) = GatewayOrigin::new(&config.location, buckets)?;
        let names = config.names.as_ref().map(|names| ManifestNames::sorted(names, &origin)).transpose()?;
        let gateway = Self {
            origin,
            names: names.map(Arc::new),
            hydrator: config.hydrator.clone(),
            lookups: Lookups::new(config.fresh),
            budgets: Arc::new(Budgets::new(config.memory)),
            calls: Arc::new(Semaphore::new(MAX_ORIGIN_CALLS)),
            chain: GatewayChain::new(config.via.clone()),
            counters: Arc::default(),
            stale: config.stale,
            deadline: config.deadline,
            usd_per_request: config.usd_per_request,
        };
        Ok((gateway, buckets))
    }

    /// Refuses a request that has passed this gateway before, because its origin leads back to it.
    pub(crate) fn check_loop(&self, request: &HttpRequest) -> std::result::Result<(), GatewayRefusal> {
        self.chain.check(&request.headers, Instant::now())
    }

    /// Returns the served location, for messages.
    pub(crate) fn location(&self) -> &Location {
        self.origin.location()
    }

    /// True if the first level of names is a list of buckets.
    pub(crate) fn has_buckets(&self) -> bool {
        self.origin.has_buckets()
    }

    /// Returns the path of an object in plain URLs. Rights are checked against this path.
    pub(crate) fn path(&self, bucket: &str, key: &str) -> String {
        self.origin.path(bucket, key)
    }

    /// Checks that the bucket exists.
    ///
    /// # Errors
    /// The bucket does not exist, or the origin does not answer.
    pub(crate) async fn check_bucket(&self, bucket: &str) -> std::result::Result<(), GatewayRefusal> {
        let Some(location) = self.origin.bucket(bucket)? else { return Ok(()) };
        let store = self.hydrator.store().clone();
        self.call(move || store.stat(&location)).await.map(drop)
    }

    /// Looks up the object `key` of `bucket` at the origin, if `access` may read it. Rights are
    /// checked by the names alone, before the origin is asked.
    ///
    /// # Errors
    /// The client has no right, the object does not exist, or the origin does not answer and no
    /// recent look-up is known.
    pub(crate) async fn look_up(
        &self,
        access: &RequestRights,
        bucket: &str,
        key: &str,
        (version, headers): (Option<&str>, &HeaderMap),
    ) -> std::result::Result<RemoteObject, GatewayRefusal> {
        self.check_right(access, bucket, key)?;
        let location = self.origin.locate(bucket, key)?;
        let expected = join_values(headers, &IF_MATCH);
        let version = self.origin.version(version)?;
        self.lookups.get(self, location, (version, expected.as_deref())).await
    }

    /// Refuses a key that `access` may not read, or that is not served.
    fn check_right(
        &self,
        access: &RequestRights,
        bucket: &str,
        key: &str,
    ) -> std::result::Result<(), GatewayRefusal> {
        match access.allows(KeyRights::Read, self.origin.path(bucket, key).as_bytes()) {
            true => Ok(()),
            false => Err(GatewayRefusal::Forbidden),
        }
    }

    /// Chooses the form of a response body: blocks with checksums if the request has the header
    /// [`FRAMES`] and the range consists of whole blocks, otherwise plain bytes.
    pub(crate) fn frames(
        headers: &HeaderMap,
        range: Option<ByteRange>,
        object: &RemoteObject,
    ) -> BlockFrames {
        let is_whole = |range: ByteRange, size: u64| {
            range.start.is_multiple_of(BLOCK) && (range.end.is_multiple_of(BLOCK) || range.end == size)
        };
        match range.zip(object.ranged_size()) {
            Some((range, size)) if headers.contains_key(FRAMES) && is_whole(range, size) => {
                BlockFrames::Blocks
            }
            _ => BlockFrames::None,
        }
    }

    /// Reads a range, or the whole object if `part` is `None`. If the object has changed at the
    /// origin and the bytes are not cached, the next request looks the object up again.
    ///
    /// # Errors
    /// The first bytes do not arrive within the deadline.
    pub(crate) async fn read(
        self: &Arc<Self>,
        object: &RemoteObject,
        part: Option<ByteRange>,
        frames: BlockFrames,
    ) -> std::result::Result<ResponseBody, GatewayRefusal> {
        let Some(size) = object.ranged_size() else {
            return stream::body(self.hydrator.store(), object, &self.budgets).await;
        };
        let range = part.unwrap_or(ByteRange::new(0, size));
        if range.is_empty() {
            return Ok(ResponseBody::Empty);
        }
        let file = self.hydrator.described(object.location(), object.stat.as_ref().clone())?;
        let (gateway, id) = (Arc::clone(self), object.id.clone());
        let shared = ReadingContext {
            budgets: Arc::clone(&self.budgets),
            counters: Arc::clone(&self.counters),
            changed: Box::new(move || gateway.lookups.forget(&id)),
        };
        Ok(ResponseBody::Pieces(Box::new(RangeReading::begin(file, range, frames, shared).await?)))
    }

    /// Reads one page of a listing of the keys below `prefix`, which is empty or ends in `/`.
    ///
    /// # Errors
    /// The origin does not answer.
    pub(crate) async fn list_page(
        &self,
        bucket: &str,
        prefix: &str,
        options: ListOptions,
    ) -> std::result::Result<ListedPage, GatewayRefusal> {
        let location = self.origin.directory(bucket, prefix)?;
        if let Some(names) = self.names.clone() {
            let below = self.origin.path(bucket, prefix);
            return without_origin(move || names.page(&below, &options)).await;
        }
        let store = self.hydrator.store().clone();
        self.call(move || store.list_page(&location, &options)).await
    }

    /// Lists the keys below `prefix`. The returned iterator blocks.
    ///
    /// # Errors
    /// The origin does not answer.
    pub(crate) async fn list(
        &self,
        bucket: &str,
        prefix: &str,
        options: ListOptions,
    ) -> std::result::Result<Listing, GatewayRefusal> {
        let location = self.origin.directory(bucket, prefix)?;
        if let Some(names) = &self.names {
            return Ok(names.listing(self.origin.path(bucket, prefix), options));
        }
        let store = self.hydrator.store().clone();
        self.call(move || store.list(&location, &options)).await
    }

    /// True if `key` is a directory: in an object store, other keys begin with `key` and a `/`.
    ///
    /// # Errors
    /// The origin does not answer.
    pub(crate) async fn is_directory(
        &self,
        bucket: &str,
        key: &str,
    ) -> std::result::Result<bool, GatewayRefusal> {
        let location = self.origin.directory(bucket, key)?;
        if let Some(names) = self.names.clone() {
            let below = format!("{}/", self.origin.path(bucket, key));
            let page = without_origin(move || names.page(&below, &ListOptions::default())).await?;
            return Ok(!page.entries.is_empty());
        }
        let (store, of) = (self.hydrator.store().clone(), location.clone());
        let ask = move || match &of {
            Location::Object(_) => store.has_below(&of),
            _ => store.stat(&of).map(|stat| stat.kind == EntryKind::Directory),
        };
        let ask = async {
            match self.call(ask).await {
                Err(GatewayRefusal::NotFound) => Ok(false),
                answer => answer,
            }
        };
        self.lookups.is_directory(location, ask).await
    }

    /// Lists the buckets of an origin that has several.
    ///
    /// # Errors
    /// The origin does not answer.
    pub(crate) async fn buckets(&self) -> std::result::Result<Vec<String>, GatewayRefusal> {
        let name = |entry: Entry| String::from_utf8(entry.name).ok();
        if let Some(names) = self.names.clone() {
            let entries = move || names.listing(String::new(), ListOptions::default()).collect();
            let entries: Vec<Entry> = without_origin(entries).await?;
            return Ok(entries.into_iter().filter_map(name).collect());
        }
        let (store, location) = (self.hydrator.store().clone(), self.origin.location().clone());
        let entries = self.call(move || store.list_page(&location, &ListOptions::default())).await?.entries;
        Ok(entries.into_iter().filter_map(name).collect())
    }

    /// Returns the keys of a bucket that `access` may see.
    pub(crate) fn visible<'a>(&'a self, access: &'a RequestRights, bucket: &'a str) -> Visible<'a> {
        Visible::new(&self.origin, access, bucket)
    }

    /// Calls the origin on a blocking thread, within the deadline.
    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> firstbyte_store::Result<T> + Send + 'static,
    ) -> std::result::Result<T, GatewayRefusal> {
        let called = async {
            let permit = Arc::clone(&self.calls).acquire_owned().await;
            let run = move || {
                let _permit = permit;
                call()
            };
            tokio::task::spawn_blocking(run).await
        };
        match tokio::time::timeout(self.deadline, called).await {
            Ok(Ok(done)) => Ok(done?),
            Ok(Err(panicked)) => Err(GatewayRefusal::Failed(panicked.to_string())),
            Err(_) => Err(GatewayRefusal::Unavailable(format!(
                "{}: no answer within {:?}",
                self.origin.location(),
                self.deadline
            ))),
        }
    }

    /// Formats the gateway's counters for Prometheus.
    pub(crate) fn render_metrics(&self) -> String {
        self.counters.render(&self.hydrator, self.usd_per_request)
    }
}

/// Reads local names on a blocking thread, without waiting for other calls of the origin.
async fn without_origin<T: Send + 'static>(
    read: impl FnOnce() -> firstbyte_store::Result<T> + Send + 'static,
) -> std::result::Result<T, GatewayRefusal> {
    let read = tokio::task::spawn_blocking(read).await;
    Ok(read.map_err(|panicked| GatewayRefusal::Failed(panicked.to_string()))??)
}
