//! `mount --share`: makes this machine a gateway, through which other machines read from its cache.
//! Called by `mount`.
//!
//! The gateway itself sends requests to the origin without `--via`, because gateways that ask each
//! other could wait in a circle. The gateway and the mount share a cache directory, so that each
//! block is fetched once.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use firstbyte::Client;
use firstbyte_hydrate::HydrationSettings;
use firstbyte_location::Location;
use firstbyte_serve::{
    Authentication, Config, GatewayConfig, RunningServer, ServeSource, Server, ServerKeys, ServerLimits,
    TlsFiles,
};
use firstbyte_store::{Gateways, StoreOptions, Via};

use crate::globals::Globals;
use crate::render::error::{Error, Result};
use crate::signals;
use crate::verbs::address;

/// Time for which the gateway caches look-ups. Clients pin versions, and look an object up again
/// when the version no longer matches.
const LOOKUP_LIFETIME: Duration = Duration::from_secs(60);

/// Options that make a mount a gateway too.
#[derive(Args, Clone, Debug)]
pub struct ShareArgs {
    /// Share what this mount shows and caches with the machines of --via, as one of the gateways
    /// listed there. Beyond loopback it needs --via-key
    #[arg(long, value_name = "HOST:PORT", requires = "via")]
    share: Option<String>,
    /// Certificate chain for HTTPS of --share
    #[arg(long, value_name = "FILE", requires_all = ["share", "share_tls_key"])]
    share_tls_cert: Option<PathBuf>,
    /// Private key for HTTPS of --share
    #[arg(long, value_name = "FILE", requires_all = ["share", "share_tls_cert"])]
    share_tls_key: Option<PathBuf>,
}

impl ShareArgs {
    /// Returns the gateways to read through. If this process is a gateway too, marks its own URL.
    pub fn gateways(&self, gateways: Gateways) -> Result<Gateways> {
        let Some(share) = &self.share else { return Ok(gateways) };
        let address = address::resolve_for_others("--share", share)?;
        let own = gateways.urls.get()?.iter().find(|url| is_own(url, address)).cloned();
        match own {
            Some(_) => Ok(Gateways { own, ..gateways }),
            None => Err(Error::usage(format!("--share {share}: none of the gateways of --via is here"))
                .advise("list this machine there, by its name or address and the same port")),
        }
    }

    /// Checks that the gateway can be started: starts it without a cache, and stops it again.
    pub fn try_out(
        &self,
        location: &Location,
        options: StoreOptions,
        uncached: HydrationSettings,
        globals: &Globals,
    ) -> Result<()> {
        self.start(location, options, HydrationSettings { cache: None, ..uncached }, globals).map(drop)
    }

    /// Starts the gateway; returns `None` if `--share` is not given.
    pub fn start(
        &self,
        location: &Location,
        options: StoreOptions,
        settings: HydrationSettings,
        globals: &Globals,
    ) -> Result<Option<RunningServer>> {
        let Some(share) = &self.share else { return Ok(None) };
        let location = match location {
            Location::Object(object) if !object.bucket.is_empty() => location.clone(),
            other => {
                return Err(Error::usage(format!("{other}: --share shares buckets of object stores only")));
            }
        };
        let via = Via::default();
        let options = StoreOptions { gateways: Gateways::default(), via: via.clone(), ..options };
        let store = globals.store_of(options)?;
        let (memory, deadline) = (settings.memory, settings.deadline);
        let client = Client::reading(store, HydrationSettings { memory: memory / 2, ..settings })?;
        let source = ServeSource::Gateway(GatewayConfig {
            location,
            hydrator: client.hydrator().clone(),
            fresh: LOOKUP_LIFETIME,
            stale: Duration::ZERO,
            memory: memory / 2,
            deadline,
            via,
            usd_per_request: None,
            names: None,
        });
        let keys = globals.via_key.as_ref().map(|file| ServerKeys::read(Path::new(file))).transpose();
        let config = Config {
            listen: address::resolve_for_others("--share", share)?,
            authentication: keys
                .map_err(|error| Error::failed(error.to_string()))?
                .map_or(Authentication::None, Authentication::Keys),
            tls: match (&self.share_tls_cert, &self.share_tls_key) {
                (Some(certificate), Some(key)) => {
                    Some(TlsFiles { certificate: certificate.clone(), key: key.clone() })
                }
                _ => None,
            },
            // Other machines can then read from the origin, so a mount that ends does not wait long
            // for their requests.
            limits: ServerLimits { drain: signals::GRACE, ..ServerLimits::default() },
            names: share.rsplit_once(':').map(|(host, _)| host.to_owned()).into_iter().collect(),
            ..Config::of(source)
        };
        let started = Server::start(config).map_err(|error| match error {
            firstbyte_serve::Error::Exposed { address, .. } => Error::usage(format!(
                "--share {address}: every machine that reaches it could read the bucket"
            ))
            .advise("give --via-key FILE, with a line KEY SECRET read, to all machines of the job"),
            error => Error::failed(error.to_string()),
        });
        started.map(Some)
    }
}

/// Returns whether a URL names the gateway that listens at `address`: by the same port, and by its
/// address or this machine's name. A gateway that listens at all addresses has every address of
/// this machine.
fn is_own(url: &str, address: SocketAddr) -> bool {
    let Some((_, authority)) = url.split_once("://") else { return false };
    let Some((host, port)) = authority.rsplit_once(':') else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let node = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
    let is_host = match host.parse::<IpAddr>() {
        Ok(ip) => ip == address.ip() || (address.ip().is_unspecified() && is_here(ip)),
        Err(_) => {
            is_same_node(&host.to_lowercase(), &node) || (host == "localhost" && address.ip().is_loopback())
        }
    };
    port.parse() == Ok(address.port()) && is_host
}

/// Returns whether two names may be those of one machine: they are equal, or one is the other
/// without its domain.
fn is_same_node(one: &str, other: &str) -> bool {
    let has_domain = |long: &str, short: &str| {
        long.strip_prefix(short).is_some_and(|domain| domain.is_empty() || domain.starts_with('.'))
    };
    has_domain(one, other) || has_domain(other, one)
}

/// Returns whether `ip` is an address of this machine: only then can a socket be bound to it.
fn is_here(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_of_two_domains_are_two() {
        for (one, other, is_one) in [
            ("gw", "gw.site-a", true),
            ("gw.site-a", "gw", true),
            ("gw.site-a", "gw.site-a", true),
            ("gw.site-a", "gw.site-b", false),
            ("gw1", "gw", false),
        ] {
            assert_eq!(is_same_node(one, other), is_one, "{one} {other}");
        }
    }

    #[test]
    fn the_own_gateway_is_found_by_address_or_name_and_port() {
        let at = |text: &str| text.parse().unwrap();
        let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
        assert!(is_own("http://10.0.0.1:8090", at("10.0.0.1:8090")));
        assert!(is_own(&format!("https://{node}.cluster:8090"), at("0.0.0.0:8090")));
        assert!(is_own("http://localhost:1", at("127.0.0.1:1")));
        assert!(is_own("http://127.0.0.1:8090", at("0.0.0.0:8090")));
        // An address for documents (RFC 5737), which no machine has.
        assert!(!is_own("http://192.0.2.1:8090", at("0.0.0.0:8090")));
        assert!(is_own("http://[::1]:1", at("[::1]:1")));
        for (url, address) in [
            ("http://10.0.0.2:8090", "10.0.0.1:8090"),
            ("http://10.0.0.1:8091", "10.0.0.1:8090"),
            ("http://10.0.0.1", "10.0.0.1:80"),
            ("http://another-machine:8090", "10.0.0.1:8090"),
        ] {
            assert!(!is_own(url, at(address)), "{url}");
        }
    }
}
