//! The options of `serve` for a remote location, and the gateway that they make.

use std::time::Duration;

use clap::Args;
use firstbyte::Client;
use firstbyte_advise::prices::{Catalogue, Day};
use firstbyte_hydrate::{Job, Settings, wanted};
use firstbyte_location::{Location, Service, units};
use firstbyte_serve::GatewayConfig;
use firstbyte_store::{Outages, Store, Via};

use crate::globals::Globals;
use crate::render::error::{Error, Result};
use crate::verbs::cached::CacheArgs;

/// The interval at which a job's progress is requested.
const TICK: Duration = Duration::from_millis(500);

/// The region whose prices count if none is given, or the one given has none.
const REGION: &str = "us-east-1";

/// The options of a gateway.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Gateway (LOCATION is remote)")]
pub struct GatewayArgs {
    /// Serve an object for this time before it is looked up again: a change at the origin is seen
    /// within it. 0 looks it up for each request
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = units::parse_duration)]
    fresh: Duration,
    /// While the origin is down, serve what is cached for this time after --fresh. Such responses
    /// have the header x-firstbyte-stale
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = units::parse_duration)]
    stale: Duration,
    /// Fetch everything below LOCATION into the cache; clients come first
    #[arg(long)]
    hydrate: bool,
    #[command(flatten)]
    cache: CacheArgs,
}

impl GatewayArgs {
    /// The gateway over `location`, and the job that fills its cache.
    pub fn config(&self, location: &Location, globals: &Globals) -> Result<(GatewayConfig, Option<Job>)> {
        let via = Via::default();
        let options = firstbyte_store::Options {
            outages: Outages::FailFast,
            via: via.clone(),
            ..globals.options().store
        };
        let store = globals.store_of(options)?;
        check(&store, location)?;
        let whole = self.cache.settings(globals);
        let (memory, deadline) = (whole.memory, whole.deadline);
        // Half for fetches, a quarter for clients that wait; the rest is the server's own.
        let settings = Settings { memory: memory / 2, ..whole };
        let hydrator = Client::reading(store.clone(), settings)?.hydrator().clone();
        let job =
            self.hydrate.then(|| hydrator.hydrate(wanted::below(&store, location), None)).transpose()?;
        let config = GatewayConfig {
            location: location.clone(),
            hydrator,
            fresh: self.fresh,
            stale: self.stale,
            memory: memory / 4,
            deadline,
            via,
            usd_per_request: usd_per_request(&store, location, globals),
        };
        Ok((config, job))
    }
}

/// Asks for the location once, so that a wrong one is an error at once. An origin that is down is
/// only logged: it may come back.
fn check(store: &Store, location: &Location) -> Result<()> {
    match store.without_retries().stat(location) {
        Err(error) if error.is_transient() || is_down(&error) => {
            tracing::warn!("{error}; served as soon as it answers");
            Ok(())
        }
        // A prefix without keys may get some.
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

/// The price of a GetObject, where requests are charged: at AWS, by its list.
fn usd_per_request(store: &Store, location: &Location, globals: &Globals) -> Option<f64> {
    let Location::Object(object) = location else { return None };
    if object.service != Service::S3 || !store.service_of(location).is_empty() {
        return None;
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
    let today = Day::from_unix(i64::try_from(now.as_secs()).ok()?)?;
    let prices = Catalogue::current();
    let of = |region: &str| prices.price("s3-standard/get", region, today).map(|price| price.usd);
    globals.region.as_deref().and_then(of).or_else(|| of(REGION))
}

/// Logs how a job ends.
pub fn report(job: &Job) {
    loop {
        let progress = job.wait(TICK);
        if progress.is_over {
            for failure in &progress.failed {
                tracing::warn!("{}: {}", failure.location, failure.error);
            }
            tracing::info!("hydrated: {} objects, {} bytes", progress.files_done, progress.bytes_here);
            return;
        }
    }
}
