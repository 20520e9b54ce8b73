//! Looks objects up at the origin, once for all clients, and keeps the answers for a time.
//!
//! A look-up is shared by all clients that ask for the object meanwhile, and serves for the time of
//! `fresh`, counted from when it was asked. While the origin is down, an object that was known
//! within `stale` is still served. The number of objects is bounded; the least recently used ones
//! are forgotten.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use firstbyte_location::{Kind, Location};
use firstbyte_store::{Stat, Store};
use rustix_futex_sync::Mutex;

use super::error::Unserved;
use super::object::RemoteObject;
use super::{Gateway, PATIENCE};

/// The most objects remembered: some 10 MB.
const MOST: usize = 10_000;

/// After the origin was found down, it is not asked again for so long: clients get what is known,
/// or an error, at once.
const PAUSE: Duration = Duration::from_secs(2);

/// The look-ups of one gateway.
pub(super) struct Lookups {
    fresh: Duration,
    objects: Mutex<HashMap<Id, Arc<Known>>>,
    clock: AtomicU64,
    /// When the origin was last found down, and the error.
    outage: Mutex<Option<(Instant, Unserved)>>,
}

/// An object, and the version that was asked for by its id.
type Id = (Location, Option<String>);

/// Knowledge of one object.
#[derive(Default)]
struct Known {
    last: Mutex<Option<LookUp>>,
    /// Held by the client that asks the origin; others wait for its answer.
    asking: tokio::sync::Mutex<()>,
    used: AtomicU64,
}

/// A request, as far as it decides which look-up answers it.
struct Arrival<'a> {
    at: Instant,
    /// Whether it asks for a version by its id.
    is_version: bool,
    /// Value of `If-Match`.
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

    /// The object at `location`, of the version with this id if one is given. `expected` is the
    /// tag that the request expects.
    pub(super) async fn get(
        &self,
        gateway: &Gateway,
        location: Location,
        (version, expected): (Option<String>, Option<&str>),
    ) -> Result<RemoteObject, Unserved> {
        let arrival = Arrival { at: Instant::now(), is_version: version.is_some(), expected };
        let known = self.known(&(location.clone(), version.clone()));
        let found =
            |look_up: LookUp, stale| RemoteObject { location: location.clone(), stat: look_up.stat, stale };
        if let Some(last) = known.last().filter(|last| self.serves(last, &arrival)) {
            gateway.counters.looked_up_fresh.fetch_add(1, Relaxed);
            return Ok(found(last, None));
        }
        let asked = async {
            let _asking = known.asking.lock().await;
            match known.last().filter(|last| self.serves(last, &arrival)) {
                Some(shared) => Ok(shared),
                None => self.ask(gateway, &known, &location, version.clone()).await,
            }
        };
        let before =
            known.last().filter(|last| last.asked.elapsed() <= self.fresh.saturating_add(gateway.stale));
        let outcome = match &before {
            None => asked.await,
            Some(_) => tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| {
                Err(Unserved::Unavailable(format!("{location}: no answer within {PATIENCE:?}")))
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

    /// Whether a look-up answers a request. The version of an id does not change. A client that
    /// expects another tag than a fresh look-up has may know of a newer version.
    fn serves(&self, look_up: &LookUp, arrival: &Arrival<'_>) -> bool {
        let is_expected = || {
            let etag = look_up.stat.version.etag.as_deref();
            arrival.expected.is_none_or(|expected| expected == "*" || etag == Some(expected))
        };
        arrival.is_version
            || look_up.asked >= arrival.at
            || (look_up.asked.elapsed() < self.fresh && is_expected())
    }

    async fn ask(
        &self,
        gateway: &Gateway,
        known: &Known,
        location: &Location,
        version: Option<String>,
    ) -> Result<LookUp, Unserved> {
        if let Some((since, error)) = self.outage.lock().as_ref().filter(|(since, _)| since.elapsed() < PAUSE)
        {
            tracing::debug!(?since, "the origin is not asked again yet");
            return Err(error.clone());
        }
        let asked = Instant::now();
        let (store, of) = (gateway.hydrator.store().clone(), location.clone());
        gateway.counters.looked_up_at_origin.fetch_add(1, Relaxed);
        let stat = gateway.call(move || stat(&store, &of, version.as_deref())).await;
        let is_outage = stat.as_ref().is_err_and(Unserved::is_outage);
        *self.outage.lock() =
            stat.as_ref().err().filter(|_| is_outage).map(|error| (Instant::now(), error.clone()));
        let stat = match stat {
            Ok(stat) if stat.kind == Kind::File => Arc::new(stat),
            Ok(_) => return Err(self.drop_known(known, Unserved::NotFound)),
            Err(error) if error.is_outage() => return Err(error),
            Err(error) => return Err(self.drop_known(known, error)),
        };
        let look_up = LookUp { stat, asked };
        *known.last.lock() = Some(look_up.clone());
        Ok(look_up)
    }

    /// Forgets what was known, because the origin has answered otherwise.
    fn drop_known(&self, known: &Known, error: Unserved) -> Unserved {
        *known.last.lock() = None;
        error
    }

    /// Forgets an object, so that it is looked up by the next request.
    pub(super) fn forget(&self, location: &Location) {
        self.objects.lock().remove(&(location.clone(), None));
    }

    fn known(&self, id: &Id) -> Arc<Known> {
        let now = self.clock.fetch_add(1, Relaxed);
        let mut objects = self.objects.lock();
        let known = match objects.get(id) {
            Some(known) => Arc::clone(known),
            None => {
                if objects.len() >= MOST {
                    forget_least_used(&mut objects);
                }
                Arc::clone(objects.entry(id.clone()).or_default())
            }
        };
        known.used.store(now, Relaxed);
        known
    }
}

impl Known {
    fn last(&self) -> Option<LookUp> {
        self.last.lock().clone()
    }
}

/// Forgets half of the objects, so that this is rare.
fn forget_least_used(objects: &mut HashMap<Id, Arc<Known>>) {
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
