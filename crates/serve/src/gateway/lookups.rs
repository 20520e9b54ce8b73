//! Looks up objects at the origin, once for all clients, and keeps the results for a time.
//!
//! Clients that ask for an object during its look-up share the result, also a failure. A result is
//! valid for the time `fresh` from the start of the look-up, and for the time `stale` longer while
//! the origin does not answer for this object. The failure of one object says nothing about others:
//! a store may limit the rate of one prefix, and a redirect may lead to a host that is down. The
//! store itself notices a host that has stopped answering. The number of objects is bounded; the
//! least recently used ones are forgotten.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use firstbyte_location::{EntryKind, Location};
use firstbyte_store::{Moment, Stat, Store};
use rustix_futex_sync::Mutex;

use super::error::GatewayRefusal;
use super::object::{LookUpId, RemoteObject};
use super::shared_call::{CallAnswer, SharedCall};
use super::{Gateway, MAX_LOOKUP_WAIT};
use crate::http::condition::tags_contain;
use crate::object::described::etag_value;

/// Maximum number of remembered objects, about 10 MB in total.
const MAX_OBJECTS: usize = 10_000;

/// Time after an outage during which the origin is not asked for the same object again. Until then
/// clients get a stale answer or an error at once.
const OUTAGE_PAUSE: Duration = Duration::from_secs(2);

/// The look-ups of one gateway.
pub(super) struct Lookups {
    fresh: Duration,
    objects: Mutex<HashMap<LookUpId, Arc<KnownObject>>>,
    clock: AtomicU64,
}

/// The answers of the origin about one name.
#[derive(Default)]
struct KnownObject {
    look_up: SharedCall<LookUp>,
    /// The last look-up that succeeded, unless the origin has denied the object since.
    found: Mutex<Option<LookUp>>,
    /// True if the name is that of a directory.
    directory: SharedCall<bool>,
    used: AtomicU64,
}

/// The properties of a request that decide which look-up answers it.
struct Arrival<'a> {
    at: Instant,
    /// The tags in `If-Match`.
    expected: Option<&'a str>,
}

#[derive(Clone)]
struct LookUp {
    stat: Arc<Stat>,
    asked_at: Moment,
}

impl Lookups {
    pub(super) fn new(fresh: Duration) -> Self {
        Self { fresh, objects: Mutex::default(), clock: AtomicU64::new(0) }
    }

    /// Looks up the object at `location`, in the version with this id if one is given. `expected`
    /// is the list of tags in the request's `If-Match`.
    pub(super) async fn get(
        &self,
        gateway: &Gateway,
        location: Location,
        (version, expected): (Option<String>, Option<&str>),
    ) -> Result<RemoteObject, GatewayRefusal> {
        let arrival = Arrival { at: Instant::now(), expected };
        let id = (location, version);
        let known = self.known_object(&id);
        let found = |look_up: LookUp, stale| RemoteObject { id: id.clone(), stat: look_up.stat, stale };
        let (location, version) = &id;
        let before = known.found.lock().clone();
        if let Some(last) = before.as_ref().filter(|last| self.is_fresh(last, &arrival)) {
            gateway.counters.looked_up_fresh.fetch_add(1, Relaxed);
            return Ok(found(last.clone(), None));
        }
        let before = before.filter(|last| last.asked_at.age() <= self.fresh.saturating_add(gateway.stale));
        let answers = |last: &CallAnswer<LookUp>| match &last.result {
            Ok(look_up) => self.is_fresh(look_up, &arrival),
            Err(_) => is_paused(last),
        };
        let ask = ask(gateway, &known.found, location, version.clone());
        let answer = known.look_up.get(arrival.at, answers, ask);
        let outcome = match (known.look_up.last(is_paused), &before) {
            (Some(failed), _) => failed,
            (None, None) => answer.await,
            (None, Some(_)) => tokio::time::timeout(MAX_LOOKUP_WAIT, answer).await.unwrap_or_else(|_| {
                Err(GatewayRefusal::Unavailable(format!("{location}: no answer within {MAX_LOOKUP_WAIT:?}")))
            }),
        };
        match (outcome, before) {
            (Ok(look_up), _) => Ok(found(look_up, None)),
            (Err(error), Some(last)) if error.is_outage() => {
                gateway.counters.looked_up_stale.fetch_add(1, Relaxed);
                tracing::warn!(%location, %error, "served as it was known before");
                let age = last.asked_at.age();
                Ok(found(last, Some(age)))
            }
            (Err(error), _) => {
                gateway.counters.look_ups_failed.fetch_add(1, Relaxed);
                Err(error)
            }
        }
    }

    /// True if an earlier look-up answers a request: it is younger than `fresh`, and its tag is one
    /// that the client expects. With another tag the client may know of a newer version. A version
    /// named by its id is no exception: its content never changes, but it can be deleted, and so
    /// can the right to read it.
    fn is_fresh(&self, look_up: &LookUp, arrival: &Arrival<'_>) -> bool {
        let is_expected = || {
            let etag = look_up.stat.version.etag.as_deref().map(etag_value);
            arrival.expected.is_none_or(|tags| tags_contain(tags, etag.unwrap_or_default()))
        };
        look_up.asked_at.age() < self.fresh && is_expected()
    }

    /// Returns true if the name at `location` is that of a directory. `ask` asks the origin;
    /// concurrent calls for one name share its answer.
    pub(super) async fn is_directory(
        &self,
        location: Location,
        ask: impl Future<Output = Result<bool, GatewayRefusal>>,
    ) -> Result<bool, GatewayRefusal> {
        let arrived = Instant::now();
        self.known_object(&(location, None)).directory.get(arrived, |_| false, ask).await
    }

    /// Forgets an object, so that the next request looks it up again.
    pub(super) fn forget(&self, id: &LookUpId) {
        self.objects.lock().remove(id);
    }

    fn known_object(&self, id: &LookUpId) -> Arc<KnownObject> {
        let now = self.clock.fetch_add(1, Relaxed);
        let mut objects = self.objects.lock();
        let known = match objects.get(id) {
            Some(known) => Arc::clone(known),
            None => {
                if objects.len() >= MAX_OBJECTS {
                    forget_least_used(&mut objects);
                }
                Arc::clone(objects.entry(id.clone()).or_default())
            }
        };
        known.used.store(now, Relaxed);
        known
    }
}

/// Forgets the least recently used half of the objects. Half, so that this is rarely needed.
fn forget_least_used(objects: &mut HashMap<LookUpId, Arc<KnownObject>>) {
    let mut uses: Vec<u64> = objects.values().map(|known| known.used.load(Relaxed)).collect();
    let middle = uses.len() / 2;
    let (_, limit, _) = uses.select_nth_unstable(middle);
    let limit = *limit;
    objects.retain(|_, known| known.used.load(Relaxed) > limit);
}

fn stat(store: &Store, location: &Location, version: Option<&str>) -> firstbyte_store::Result<Stat> {
    match version {
        Some(id) => store.stat_version(location, id),
        None => store.stat_object(location),
    }
}

/// True if an outage is so recent that the origin is not asked again yet.
fn is_paused(last: &CallAnswer<LookUp>) -> bool {
    last.result.as_ref().is_err_and(GatewayRefusal::is_outage) && last.ended.elapsed() < OUTAGE_PAUSE
}

/// Looks an object up at the origin, and keeps the result in `found`.
async fn ask(
    gateway: &Gateway,
    found: &Mutex<Option<LookUp>>,
    location: &Location,
    version: Option<String>,
) -> Result<LookUp, GatewayRefusal> {
    let asked_at = Moment::now();
    let (store, of) = (gateway.hydrator.store().clone(), location.clone());
    gateway.counters.looked_up_at_origin.fetch_add(1, Relaxed);
    let absence = if version.is_some() { GatewayRefusal::NoVersion } else { GatewayRefusal::NotFound };
    let look_up = match gateway.call(move || stat(&store, &of, version.as_deref())).await {
        Ok(stat) if stat.kind == EntryKind::File => Ok(LookUp { stat: Arc::new(stat), asked_at }),
        Ok(_) | Err(GatewayRefusal::NotFound) => Err(absence),
        Err(error) => Err(error),
    };
    match &look_up {
        Ok(look_up) => *found.lock() = Some(look_up.clone()),
        Err(error) if error.is_outage() => {}
        Err(_) => *found.lock() = None,
    }
    look_up
}
