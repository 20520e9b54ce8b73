//! Looks up objects at the origin, once for all clients, and keeps the results for a time.
//!
//! Clients that ask for an object during its look-up share the result. A result is valid for the
//! time `fresh` from the start of the look-up, and for the time `stale` longer while the origin is
//! down. The number of objects is bounded; the least recently used ones are forgotten.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use firstbyte_location::{EntryKind, Location};
use firstbyte_store::{Stat, Store};
use rustix_futex_sync::Mutex;

use super::error::Unserved;
use super::object::RemoteObject;
use super::{Gateway, MAX_LOOKUP_WAIT};

/// Maximum number of remembered objects, about 10 MB in total.
const MAX_OBJECTS: usize = 10_000;

/// Time after an outage of the origin during which it is not asked again. Until then clients get a
/// stale answer or an error at once.
const OUTAGE_PAUSE: Duration = Duration::from_secs(2);

/// The look-ups of one gateway.
pub(super) struct Lookups {
    fresh: Duration,
    objects: Mutex<HashMap<LookUpId, Arc<KnownObject>>>,
    clock: AtomicU64,
    /// The time and the error of the last outage of the origin.
    outage: Mutex<Option<(Instant, Unserved)>>,
}

/// Key of a look-up: the object, and the version id if the request names one.
pub(super) type LookUpId = (Location, Option<String>);

/// The last look-up of one object.
#[derive(Default)]
struct KnownObject {
    last: Mutex<Option<LookUp>>,
    /// Locked while the origin is asked. Other clients wait for the lock and share the answer.
    asking: tokio::sync::Mutex<()>,
    used: AtomicU64,
}

/// The properties of a request that decide which look-up answers it.
struct Arrival<'a> {
    at: Instant,
    /// The value of `If-Match`.
    expected: Option<&'a str>,
}

#[derive(Clone)]
struct LookUp {
    stat: Arc<Stat>,
    asked: Instant,
}

impl Lookups {
    pub(super) fn new(fresh: Duration) -> Self {
        Self { fresh, objects: Mutex::default(), clock: AtomicU64::new(0), outage: Mutex::default() }
    }

    /// Looks up the object at `location`, in the version with this id if one is given. `expected`
    /// is the tag in the request's `If-Match`.
    pub(super) async fn get(
        &self,
        gateway: &Gateway,
        location: Location,
        (version, expected): (Option<String>, Option<&str>),
    ) -> Result<RemoteObject, Unserved> {
        let arrival = Arrival { at: Instant::now(), expected };
        let id = (location, version);
        let known = self.known(&id);
        let found = |look_up: LookUp, stale| RemoteObject { id: id.clone(), stat: look_up.stat, stale };
        let (location, version) = &id;
        if let Some(last) = known.last().filter(|last| self.serves(last, &arrival)) {
            gateway.counters.looked_up_fresh.fetch_add(1, Relaxed);
            return Ok(found(last, None));
        }
        let asked = async {
            let _asking = known.asking.lock().await;
            match known.last().filter(|last| self.serves(last, &arrival)) {
                Some(shared) => Ok(shared),
                None => self.ask(gateway, &known, location, version.clone()).await,
            }
        };
        let before =
            known.last().filter(|last| last.asked.elapsed() <= self.fresh.saturating_add(gateway.stale));
        let outcome = match &before {
            None => asked.await,
            Some(_) => tokio::time::timeout(MAX_LOOKUP_WAIT, asked).await.unwrap_or_else(|_| {
                Err(Unserved::Unavailable(format!("{location}: no answer within {MAX_LOOKUP_WAIT:?}")))
            }),
        };
        match (outcome, before) {
            (Ok(look_up), _) => Ok(found(look_up, None)),
            (Err(error), Some(last)) if error.is_outage() => {
                gateway.counters.looked_up_stale.fetch_add(1, Relaxed);
                tracing::warn!(%location, %error, "served as it was known before");
                let age = last.asked.elapsed();
                Ok(found(last, Some(age)))
            }
            (Err(error), _) => {
                gateway.counters.look_ups_failed.fetch_add(1, Relaxed);
                Err(error)
            }
        }
    }

    /// Whether `look_up` answers a request. A look-up without the tag that the client expects does
    /// not, because the client may know of a newer version. A version named by its id is no
    /// exception: its content never changes, but it can be deleted, and so can the right to read it.
    fn serves(&self, look_up: &LookUp, arrival: &Arrival<'_>) -> bool {
        let is_expected = || {
            let etag = look_up.stat.version.etag.as_deref();
            arrival.expected.is_none_or(|expected| expected == "*" || etag == Some(expected))
        };
        look_up.asked >= arrival.at || (look_up.asked.elapsed() < self.fresh && is_expected())
    }

    async fn ask(
        &self,
        gateway: &Gateway,
        known: &KnownObject,
        location: &Location,
        version: Option<String>,
    ) -> Result<LookUp, Unserved> {
        if let Some((since, error)) =
            self.outage.lock().as_ref().filter(|(since, _)| since.elapsed() < OUTAGE_PAUSE)
        {
            tracing::debug!(?since, "the origin is not asked again yet");
            return Err(error.clone());
        }
        let asked = Instant::now();
        let (store, of) = (gateway.hydrator.store().clone(), location.clone());
        gateway.counters.looked_up_at_origin.fetch_add(1, Relaxed);
        let absence = if version.is_some() { Unserved::NoVersion } else { Unserved::NotFound };
        let stat = match gateway.call(move || stat(&store, &of, version.as_deref())).await {
            Err(Unserved::NotFound) => Err(absence),
            stat => stat,
        };
        let is_outage = stat.as_ref().is_err_and(Unserved::is_outage);
        *self.outage.lock() =
            stat.as_ref().err().filter(|_| is_outage).map(|error| (Instant::now(), error.clone()));
        let stat = match stat {
            Ok(stat) if stat.kind == EntryKind::File => Arc::new(stat),
            Ok(_) => return Err(self.drop_known(known, Unserved::NotFound)),
            Err(error) if error.is_outage() => return Err(error),
            Err(error) => return Err(self.drop_known(known, error)),
        };
        let look_up = LookUp { stat, asked };
        *known.last.lock() = Some(look_up.clone());
        Ok(look_up)
    }

    /// Forgets the last look-up, because the origin now reports `error`. Returns `error`.
    fn drop_known(&self, known: &KnownObject, error: Unserved) -> Unserved {
        *known.last.lock() = None;
        error
    }

    /// Forgets an object, so that the next request looks it up again.
    pub(super) fn forget(&self, id: &LookUpId) {
        self.objects.lock().remove(id);
    }

    fn known(&self, id: &LookUpId) -> Arc<KnownObject> {
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

impl KnownObject {
    fn last(&self) -> Option<LookUp> {
        self.last.lock().clone()
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
