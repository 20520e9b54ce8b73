//! Starts origins and gateways for the tests.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_hydrate::{HydrationSettings, Hydrator};
use firstbyte_location::Location;
use firstbyte_serve::{
    Config, GatewayConfig, NameSource, PlannedObjects, RunningServer, ServeSource, Server, WritePolicy,
};
use firstbyte_store::{ListOptions, Outages, Store, StoreOptions, Via};
use firstbyte_testkit::{Scripted, bytes_at, set_credentials};

use crate::client::{Answer, Client};

/// An origin: `serve` over a directory with one bucket.
pub(crate) struct Origin {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) server: RunningServer,
}

impl Origin {
    pub(crate) fn start() -> Self {
        set_credentials();
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("bucket")).unwrap();
        let server = start(directory.path(), 0);
        Self { directory, server }
    }

    /// Writes the object `key` of the bucket. Each write is a new version.
    pub(crate) fn put(&self, key: &str, content: &[u8]) {
        let path = self.directory.path().join("bucket").join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let fresh = self.directory.path().join(".fresh");
        std::fs::write(&fresh, content).unwrap();
        std::fs::rename(fresh, path).unwrap();
    }

    pub(crate) fn remove(&self, key: &str) {
        std::fs::remove_file(self.directory.path().join("bucket").join(key)).unwrap();
    }

    /// Stops the server. Returns its directory and its port, which [`Self::restart`] needs.
    pub(crate) fn stop(self) -> (tempfile::TempDir, u16) {
        let port = self.server.address().port();
        self.server.stop();
        (self.directory, port)
    }

    pub(crate) fn restart((directory, port): (tempfile::TempDir, u16)) -> Self {
        let server = start(directory.path(), port);
        Self { directory, server }
    }

    /// Requests `target` from the origin itself.
    pub(crate) fn get(&self, target: &str, headers: &str) -> Answer {
        Client::new(&self.server).ask("GET", target, headers, b"")
    }
}

fn start(directory: &Path, port: u16) -> RunningServer {
    let mut config = Config::new(directory);
    config.listen.set_port(port);
    config.writing = WritePolicy::Allowed;
    config.limits.drain = Duration::ZERO;
    Server::start(config).unwrap()
}

/// Lists the origin's existing objects as a manifest: in no order, and with one object twice.
pub(crate) fn planned(origin: &Origin) -> NameSource {
    set_credentials();
    let endpoint_url = Some(origin.server.url().to_owned());
    let store = Store::new(StoreOptions { endpoint_url, ..StoreOptions::default() }).unwrap();
    let root = Location::parse("s3://bucket".as_ref()).unwrap();
    let options = ListOptions { recursive: true, ..ListOptions::default() };
    let listed = store.list(&root, &options).unwrap().map(Result::unwrap);
    let mut objects: Vec<_> = listed.map(|entry| (root.join(&entry.name), entry)).collect();
    objects.reverse();
    objects.extend(objects.first().cloned());
    objects.push((Location::parse("s3://another/key".as_ref()).unwrap(), objects[0].1.clone()));
    Arc::new(move || Ok(Box::new(objects.clone().into_iter().map(Ok)) as PlannedObjects))
}

/// A gateway with its own cache.
pub(crate) struct Gateway {
    pub(crate) server: RunningServer,
    _cache: tempfile::TempDir,
}

/// Settings of a gateway.
pub(crate) struct Plan {
    pub(crate) location: &'static str,
    pub(crate) fresh: Duration,
    pub(crate) stale: Duration,
    pub(crate) deadline: Duration,
    pub(crate) cache_size: Option<u64>,
    pub(crate) memory: u64,
    pub(crate) listen: u16,
    pub(crate) names: Option<NameSource>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            location: "s3://bucket",
            fresh: Duration::from_secs(600),
            stale: Duration::from_secs(3600),
            deadline: Duration::from_secs(30),
            cache_size: None,
            memory: 8 << 20,
            listen: 0,
            names: None,
        }
    }
}

impl Gateway {
    /// Starts a gateway with the S3 endpoint `endpoint`.
    pub(crate) fn start(endpoint: &str, plan: &Plan, configure: impl FnOnce(&mut Config)) -> Self {
        set_credentials();
        let cache = tempfile::tempdir().unwrap();
        let via = Via::default();
        let store = Store::new(StoreOptions {
            endpoint_url: Some(endpoint.to_owned()),
            outages: Outages::FailFast,
            read_deadline: plan.deadline,
            retries: 1,
            via: via.clone(),
            ..StoreOptions::default()
        })
        .unwrap();
        let settings = HydrationSettings {
            cache: Some(cache.path().to_owned()),
            cache_size: plan.cache_size,
            reserve: 0,
            deadline: plan.deadline,
            ..HydrationSettings::default()
        };
        let hydrator = Hydrator::new(store, settings).unwrap();
        let location = Location::parse(plan.location.as_ref()).unwrap();
        let mut config = Config::of(ServeSource::Gateway(GatewayConfig {
            location,
            hydrator,
            fresh: plan.fresh,
            stale: plan.stale,
            memory: plan.memory,
            deadline: plan.deadline,
            via,
            usd_per_request: Some(4e-7),
            names: plan.names.clone(),
        }));
        config.listen.set_port(plan.listen);
        config.limits.drain = Duration::ZERO;
        configure(&mut config);
        Self { server: Server::start(config).unwrap(), _cache: cache }
    }

    /// Starts a gateway before `origin`.
    pub(crate) fn before(origin: &Origin, plan: &Plan) -> Self {
        Self::start(origin.server.url(), plan, |_| {})
    }

    /// Starts a gateway of the directory `dir` of a scripted web server.
    pub(crate) fn of_web(origin: &Scripted, plan: Plan) -> Self {
        let location = Box::leak(format!("{}/dir/", origin.url()).into_boxed_str());
        Self::start("http://127.0.0.1:1", &Plan { location, ..plan }, |_| {})
    }

    /// Starts a gateway of the bucket `bucket` of a scripted object store.
    pub(crate) fn of_store(origin: &Scripted, plan: &Plan) -> Self {
        Self::start(origin.url(), plan, |_| {})
    }

    pub(crate) fn ask(&self, method: &str, target: &str, headers: &str) -> Answer {
        Client::new(&self.server).ask(method, target, headers, b"")
    }

    pub(crate) fn get(&self, target: &str, headers: &str) -> Answer {
        self.ask("GET", target, headers)
    }
}

/// Returns the content of version `number`. Each byte depends on the version and its offset, so a
/// mixture is detected.
pub(crate) fn version(number: u64, length: usize) -> Vec<u8> {
    bytes_at(number, 0, length)
}
