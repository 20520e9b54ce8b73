//! The options of `serve` for a remote location, and the gateway that they configure.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use firstbyte::Client;
use firstbyte::manifest::Manifest;
use firstbyte_advise::prices::{Day, PriceCatalogue};
use firstbyte_hydrate::{
    HydrationFailure, HydrationItem, HydrationJob, HydrationList, HydrationSettings, StartFile, wanted,
};
use firstbyte_location::{Location, Service, Strength, units};
use firstbyte_serve::{GatewayConfig, NameSource, PlannedObjects};
use firstbyte_store::{Error as StoreError, Gateways, Outages, Store, Via};

use crate::globals::Globals;
use crate::render::error::{Error, Result};
use crate::verbs::cached::CacheArgs;
use crate::verbs::start;

/// Interval at which the progress of a job is requested.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Region whose prices are used if no region is given, or if the given region has no prices.
const PRICE_REGION: &str = "us-east-1";

/// Heading of the options that only a gateway has.
pub const GATEWAY_HEADING: &str = "Gateway (LOCATION is remote)";

/// The options of a gateway.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = GATEWAY_HEADING)]
pub struct GatewayArgs {
    /// Serve a cached object for this long before revalidating it at the origin; 0 revalidates on
    /// each request
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = units::parse_duration)]
    fresh: Duration,
    /// While the origin is down, serve cached objects for this long after --fresh. Such responses
    /// have the header x-firstbyte-stale
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = units::parse_duration)]
    stale: Duration,
    /// List the objects of this manifest, which `plan` wrote, without asking the origin. Objects
    /// are still looked up there
    #[arg(long, value_name = "MANIFEST")]
    names: Option<PathBuf>,
    /// Fetch what a start file names first, in its order; clients come before it
    #[arg(long, value_name = "LOC")]
    replay: Option<OsString>,
    /// Fetch everything below LOCATION into the cache; clients come first
    #[arg(long)]
    hydrate: bool,
    #[command(flatten)]
    cache: CacheArgs,
}

impl GatewayArgs {
    /// Makes the gateway over `location`, and the job that fills its cache.
    pub fn config(
        &self,
        location: &Location,
        globals: &Globals,
    ) -> Result<(GatewayConfig, Option<HydrationJob>)> {
        let via = Via::default();
        let options = firstbyte_store::StoreOptions {
            outages: Outages::FailFast,
            via: via.clone(),
            // Gateways that asked other gateways, perhaps themselves, would keep each byte twice.
            gateways: Gateways::default(),
            ..globals.options().store
        };
        let store = globals.store_of(options)?;
        check(&store, location)?;
        let whole = self.cache.settings(globals);
        let (memory, deadline) = (whole.memory, whole.deadline);
        // Half of the memory is for fetches, and a quarter for waiting clients. The rest is for the
        // server itself.
        let settings = HydrationSettings { memory: memory / 2, ..whole };
        let hydrator = Client::reading(store.clone(), settings)?.hydrator().clone();
        let manifest = self.names.as_deref().map(Manifest::open).transpose()?;
        let list = || match &manifest {
            Some(manifest) => planned_below(manifest, location),
            None => Ok(wanted::below(&store, location)),
        };
        let read = |file: &OsString| start::read_checked(file, location, &store);
        let start = self.replay.as_ref().map(read).transpose()?;
        let first = start.as_ref().map(StartFile::wanted);
        let rest = self.hydrate.then(list).transpose()?;
        let job = match (first, rest) {
            (None, None) => None,
            (first, rest) => {
                let list = Box::new(first.into_iter().chain(rest).flatten());
                Some(hydrator.hydrate(list, None)?)
            }
        };
        let config = GatewayConfig {
            location: location.clone(),
            hydrator,
            fresh: self.fresh,
            stale: self.stale,
            memory: memory / 4,
            deadline,
            via,
            usd_per_request: usd_per_request(&store, location, globals),
            names: manifest.map(names),
        };
        Ok((config, job))
    }
}

/// Makes the function that lists the names in a manifest, for listings of the gateway.
fn names(manifest: Manifest) -> NameSource {
    Arc::new(move || Ok(Box::new(manifest.objects()?) as PlannedObjects))
}

/// Lists the objects of a manifest that are below `location`, in the versions that the manifest
/// names.
fn planned_below(manifest: &Manifest, location: &Location) -> Result<HydrationList> {
    let at_manifest = |error: io::Error| HydrationFailure {
        location: Location::Local("the manifest".into()),
        error: StoreError::Io { location: "the manifest".to_owned(), source: error }.into(),
    };
    let (objects, root) = (manifest.objects(), location.clone());
    let objects = objects.map_err(|error| Error::failed(error.to_string()))?;
    Ok(Box::new(objects.filter_map(move |object| match object {
        Ok((object, _)) if !is_served(&object, &root) => None,
        Ok((object, entry)) => {
            let version = entry.version.map(|version| *version);
            let version = version.filter(|version| version.strength() > Strength::None);
            Some(Ok(HydrationItem { location: object, version, range: None }))
        }
        Err(error) => Some(Err(at_manifest(error))),
    })))
}

/// Returns whether a gateway over `root` serves this object.
fn is_served(object: &Location, root: &Location) -> bool {
    match (object, root) {
        (Location::Object(object), Location::Object(all)) if all.bucket.is_empty() => {
            object.service == all.service
        }
        _ => object == root || object.name_below(root).is_some(),
    }
}

/// Requests the location once, so that a wrong location is an error at the start. An unreachable
/// origin is only logged, because it may become reachable again.
fn check(store: &Store, location: &Location) -> Result<()> {
    match store.without_retries().stat(location) {
        Err(error) if error.is_transient() || is_down(&error) => {
            tracing::warn!("{error}; served as soon as it answers");
            Ok(())
        }
        // A prefix that has no objects yet may get some later.
        Err(firstbyte_store::Error::NotFound { .. }) if has_key(location) => Ok(()),
        Err(error) => Err(Error::from(error)),
        Ok(_) => Ok(()),
    }
}

fn is_down(error: &firstbyte_store::Error) -> bool {
    matches!(error, firstbyte_store::Error::Unreachable { .. })
}

fn has_key(location: &Location) -> bool {
    matches!(location, Location::Object(object) if !object.key.is_empty())
}

/// Returns the list price of a GetObject; `None` if requests are not billed by AWS.
fn usd_per_request(store: &Store, location: &Location, globals: &Globals) -> Option<f64> {
    let Location::Object(object) = location else { return None };
    if object.service != Service::S3 || !store.service_of(location).is_empty() {
        return None;
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
    let today = Day::from_unix(i64::try_from(now.as_secs()).ok()?)?;
    let prices = PriceCatalogue::current();
    let of = |region: &str| prices.price("s3-standard/get", region, today).map(|price| price.usd);
    globals.region.as_deref().and_then(of).or_else(|| of(PRICE_REGION))
}

/// Waits until a job is over, and logs its outcome.
pub fn report(job: &HydrationJob) {
    loop {
        let progress = job.wait(PROGRESS_INTERVAL);
        if progress.is_over {
            for failure in &progress.failed {
                tracing::warn!("{}: {}", failure.location, failure.error);
            }
            tracing::info!("hydrated: {} objects, {} bytes", progress.files_done, progress.bytes_here);
            return;
        }
    }
}
