//! Records which setting gave the address of an unreachable endpoint, and advises accordingly.

use std::fmt;
use std::net::IpAddr;

use super::Error;
use crate::origin::Origin;
use crate::partitions::name_at_aws;

/// Detail of the error if an endpoint does not use TLS but should.
pub(crate) const WITHOUT_TLS: &str = "the server answers without TLS";

/// Detail of the error if an endpoint requires TLS but its URL says http.
pub(crate) const EXPECTS_TLS: &str = "the server expects TLS";

/// Start of the detail of the error if a host name has no address.
pub(crate) const UNRESOLVED: &str = "the host name is not resolved: ";

/// Start of the detail of the error if a proxy refuses to connect to a host.
pub(crate) const PROXY_ANSWERED: &str = "the proxy answered ";

/// Domains of public services beside AWS. If a connection to one of them fails, the service is
/// hardly the cause.
const PUBLIC_SERVICES: [&str; 2] = [".googleapis.com", ".windows.net"];

/// The source of the address of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AddressSource {
    /// No setting: the service's own address.
    #[default]
    Service,
    /// The URL of the location, without secrets.
    Location(String),
    /// A setting for the endpoint.
    Setting {
        /// The name of the option, variable or file.
        name: String,
        /// The value of the setting, without secrets.
        url: String,
    },
    /// The variable that names the proxy.
    Proxy(String),
}

impl fmt::Display for AddressSource {
    /// Formats the setting that gave the address: `, from FIRSTBYTE_ENDPOINT_URL`, or nothing
    /// without a setting.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.setting() {
            Some(name) => write!(f, ", from {name}"),
            None => Ok(()),
        }
    }
}

/// Returns true for an endpoint of AWS, `HOST:PORT`. The region is part of its host name.
fn is_aws(endpoint: &str) -> bool {
    endpoint.split(':').next().and_then(name_at_aws).is_some()
}

impl AddressSource {
    fn setting(&self) -> Option<&str> {
        match self {
            Self::Setting { name, .. } | Self::Proxy(name) => Some(name),
            Self::Service | Self::Location(_) => None,
        }
    }

    /// Returns advice after a failed connection to `endpoint`. `detail` is the reason of the
    /// failure.
    pub(super) fn advice(&self, endpoint: &str, detail: &str) -> String {
        let place = self.setting().map(|name| format!(" in {name}")).unwrap_or_default();
        match self {
            Self::Proxy(name) if detail.contains(" 407 ") => {
                format!("put USER:PASSWORD@ before the host in {name}")
            }
            Self::Proxy(name) => {
                let is_up = detail.starts_with(PROXY_ANSWERED);
                let first = if is_up { "" } else { "is the proxy up? " };
                format!("{first}correct {name}, or add the hosts to reach directly to NO_PROXY")
            }
            _ if detail == WITHOUT_TLS => self.without_tls(endpoint),
            _ if detail == EXPECTS_TLS => self.scheme_advice(endpoint, "https"),
            _ if detail.starts_with(UNRESOLVED) && is_aws(endpoint) => {
                "check the region (--region, AWS_REGION or the profile), and this machine's name servers"
                    .into()
            }
            _ if detail.starts_with(UNRESOLVED) => format!("check the host name{place}"),
            Self::Service
                if is_aws(endpoint) || PUBLIC_SERVICES.iter().any(|domain| endpoint.contains(domain)) =>
            {
                "check the network and the firewall of this machine".into()
            }
            _ => format!("is the server up? check host and port{place}"),
        }
    }

    /// Returns advice about a server that answers without TLS.
    fn without_tls(&self, endpoint: &str) -> String {
        let written = self.scheme_advice(endpoint, "http");
        match is_private(endpoint) {
            true => written,
            false => format!("name the port that has TLS, or {written}, which sends the data unencrypted"),
        }
    }

    /// Returns advice to write the URL with this scheme.
    fn scheme_advice(&self, endpoint: &str, scheme: &str) -> String {
        let with_scheme = |url: &str| match url.split_once("://") {
            Some((_, rest)) => format!("{scheme}://{rest}"),
            None => format!("{scheme}://{url}"),
        };
        match self {
            Self::Location(url) => format!("write {}", with_scheme(url)),
            Self::Setting { name, url } if name.starts_with("--") => {
                format!("write {name} {}", with_scheme(url))
            }
            Self::Setting { name, url } if !name.contains([' ', '.', '-']) => {
                format!("write {name}={}", with_scheme(url))
            }
            Self::Setting { name, url } => format!("write {} in {name}", with_scheme(url)),
            Self::Service | Self::Proxy(_) => format!("write {}", with_scheme(endpoint)),
        }
    }
}

impl Error {
    /// Returns the error for a server to which no connection is possible.
    pub(crate) fn unreachable(origin: &Origin, detail: String, number: Option<i32>) -> Self {
        let (endpoint, named_by) = (origin.to_string(), Box::default());
        Self::Unreachable { endpoint, named_by, detail, number, trace: None }
    }

    /// Adds the source of the address to the error about an unreachable server, unless the error
    /// has a source.
    pub(crate) fn named_by(mut self, source: AddressSource) -> Self {
        if let Self::Unreachable { named_by, .. } = &mut self
            && **named_by == AddressSource::Service
        {
            **named_by = source;
        }
        self
    }
}

/// Returns true for this machine, and for addresses that are not routed on the internet.
fn is_private(endpoint: &str) -> bool {
    let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse() {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_private() || address.is_link_local(),
        Ok(IpAddr::V6(address)) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &str, url: &str) -> AddressSource {
        AddressSource::Setting { name: name.into(), url: url.into() }
    }

    #[test]
    fn the_value_to_write_is_in_the_advice() {
        let here = "127.0.0.1:9631";
        let url = "https://127.0.0.1:9631/base";
        for (source, written) in [
            (
                setting("FIRSTBYTE_ENDPOINT_URL", url),
                "write FIRSTBYTE_ENDPOINT_URL=http://127.0.0.1:9631/base",
            ),
            (setting("AWS_ENDPOINT_URL_S3", url), "write AWS_ENDPOINT_URL_S3=http://127.0.0.1:9631/base"),
            (setting("--endpoint-url", url), "write --endpoint-url http://127.0.0.1:9631/base"),
            (
                setting("endpoint_url of the profile", url),
                "write http://127.0.0.1:9631/base in endpoint_url of the profile",
            ),
            (AddressSource::Location(url.into()), "write http://127.0.0.1:9631/base"),
        ] {
            assert_eq!(source.advice(here, WITHOUT_TLS), written);
        }
        let plain = setting("FIRSTBYTE_ENDPOINT_URL", "http://store.example:9000");
        assert_eq!(
            plain.advice("store.example:9000", EXPECTS_TLS),
            "write FIRSTBYTE_ENDPOINT_URL=https://store.example:9000"
        );
    }

    #[test]
    fn only_public_addresses_get_the_remark_that_http_is_not_encrypted() {
        let url = AddressSource::Location("https://host/x".into());
        for near in ["127.0.0.1:1", "10.1.2.3:1", "192.168.0.1:1", "169.254.1.1:1", "[::1]:1", "localhost:1"]
        {
            assert!(!url.advice(near, WITHOUT_TLS).contains("unencrypted"), "{near}");
        }
        for far in ["8.8.8.8:1", "store.example:443", "[2001:db8::1]:1"] {
            assert!(url.advice(far, WITHOUT_TLS).contains("unencrypted"), "{far}");
        }
    }

    #[test]
    fn advice_about_a_refused_connection_names_the_setting_and_the_proxy_that_apply() {
        let refused = "Connection refused";
        let endpoint = setting("FIRSTBYTE_ENDPOINT_URL", "http://127.0.0.1:1");
        assert_eq!(
            endpoint.advice("127.0.0.1:1", refused),
            "is the server up? check host and port in FIRSTBYTE_ENDPOINT_URL"
        );
        let proxy = AddressSource::Proxy("HTTPS_PROXY".into());
        assert!(proxy.advice("127.0.0.1:3128", refused).contains("correct HTTPS_PROXY"));
        let none = AddressSource::Service;
        assert_eq!(none.advice("host:80", refused), "is the server up? check host and port");
        assert!(none.advice("s3.us-east-1.amazonaws.com:443", refused).contains("network"));
        let unknown = format!("{UNRESOLVED}Name or service not known");
        assert!(none.advice("s3.us-eats-1.amazonaws.com:443", &unknown).contains("--region"));
        assert_eq!(endpoint.advice("nohost:1", &unknown), "check the host name in FIRSTBYTE_ENDPOINT_URL");
    }
}
