//! Checks the `Host` header: whether it names this server, and which bucket it names.
//!
//! Other names are refused for two reasons. An attacker may have pointed the name at this address
//! (DNS rebinding). Or the name is a bucket in front of a server name that `--host-style` does not
//! list: then the path is a key of that bucket, but would be read as bucket and key. IP addresses
//! are always accepted. Called first for every request.

use std::net::IpAddr;

use crate::error::{Error, Result};

/// The target of a `Host` header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostTarget {
    /// The server.
    Server,
    /// The bucket of this name.
    Bucket(String),
    /// Neither the server nor a bucket.
    Elsewhere,
}

/// The names of one server, in lower case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts {
    names: Vec<String>,
    /// The machine's own name. It is accepted with or without a domain behind it.
    machine: String,
    /// Names of the server that may have a bucket in front.
    domains: Vec<String>,
}

impl Hosts {
    /// Accepts `names`, `domains` and the machine's name. A bucket may stand in front of each of
    /// `domains`.
    ///
    /// # Errors
    /// One of `domains` is not a host name.
    pub(crate) fn new(names: &[String], domains: &[String]) -> Result<Self> {
        let domains = domains.iter().map(|domain| match normalize(domain) {
            Some(name) if is_name(&name) && !domain.contains(':') => Ok(name),
            _ => Err(Error::Setting(format!(
                "--host-style {domain}: write a host name without a port, such as s3.lab.example"
            ))),
        });
        let machine = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
        let names = names.iter().filter_map(|name| normalize(name)).collect();
        Ok(Self { names, machine, domains: domains.collect::<Result<_>>()? })
    }

    /// Classifies the value of a `Host` header. `host` is empty if the header is missing, as in
    /// HTTP/1.0.
    pub(crate) fn judge(&self, host: &str) -> HostTarget {
        if host.is_empty() {
            return HostTarget::Server;
        }
        let Some(name) = normalize(host) else { return HostTarget::Elsewhere };
        if name.parse::<IpAddr>().is_ok()
            || name == "localhost"
            || self.names.contains(&name)
            || self.domains.contains(&name)
            || self.is_machine(&name)
        {
            return HostTarget::Server;
        }
        let bucket =
            |domain: &String| Some(name.strip_suffix(domain.as_str())?.strip_suffix('.')?.to_owned());
        match self.domains.iter().find_map(bucket) {
            Some(bucket) if !bucket.is_empty() => HostTarget::Bucket(bucket),
            _ => HostTarget::Elsewhere,
        }
    }

    /// True if `name` is the machine's name, with or without a domain behind it.
    fn is_machine(&self, name: &str) -> bool {
        let domain = name.strip_prefix(self.machine.as_str());
        let machine_again =
            || domain.is_some_and(|domain| domain[1..].split('.').next() == Some(&self.machine));
        !self.machine.is_empty()
            && domain.is_some_and(|domain| domain.is_empty() || domain.starts_with('.') && !machine_again())
    }
}

/// Normalizes a `Host` value to its name or address: without port, brackets and final dot, in lower
/// case. `None` if the port is not a number.
fn normalize(host: &str) -> Option<String> {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => (address, rest),
        None => host.find(':').map_or((host, ""), |at| host.split_at(at)),
    };
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok() || port.is_empty());
    // An IPv6 address needs no brackets if no port follows.
    if host.parse::<IpAddr>().is_ok() {
        return Some(host.to_lowercase());
    }
    is_port.then(|| name.strip_suffix('.').unwrap_or(name).to_lowercase())
}

fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    name.split('.').all(is_label) && name.parse::<IpAddr>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(domains: &[&str]) -> Hosts {
        let domains: Vec<String> = domains.iter().map(|domain| (*domain).to_owned()).collect();
        let mut hosts = Hosts::new(&["Files.Lab.example".to_owned()], &domains).unwrap();
        hosts.machine = "store".to_owned();
        hosts
    }

    #[test]
    fn addresses_and_the_server_s_own_names_are_the_server() {
        for own in [
            "",
            "127.0.0.1:8080",
            "10.1.2.3",
            "[::1]:8080",
            "[::1]",
            "::1",
            "localhost",
            "LOCALHOST:80",
            "localhost.",
            "localhost.:80",
            "files.lab.example",
            "FILES.lab.example.:443",
            "store",
            "store.lan",
            "Store:80",
            "localhost:",
        ] {
            assert_eq!(hosts(&[]).judge(own), HostTarget::Server, "{own}");
        }
    }

    #[test]
    fn every_other_name_is_elsewhere() {
        for other in [
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "one.localhost",
            "one.files.lab.example",
            "one.store.lan",
            "store.store.lan",
            "storehouse",
            "xstore",
            ".",
            "a:b",
            "localhost:x",
            "[::1",
            "[::1]x",
            "localhost:80:80",
            "1.2.3.4:99999",
            ".localhost",
        ] {
            assert_eq!(hosts(&[]).judge(other), HostTarget::Elsewhere, "{other}");
        }
    }

    #[test]
    fn a_bucket_stands_in_front_of_an_announced_domain_only() {
        let hosts = hosts(&["s3.lab.example", "LOCALHOST"]);
        let bucket = |name: &str| HostTarget::Bucket(name.to_owned());
        assert_eq!(hosts.judge("one.S3.lab.example:9000"), bucket("one"));
        assert_eq!(hosts.judge("a.b.s3.lab.example"), bucket("a.b"));
        assert_eq!(hosts.judge("one.localhost:1"), bucket("one"));
        assert_eq!(hosts.judge("s3.lab.example"), HostTarget::Server);
        for other in ["ones3.lab.example", ".s3.lab.example", "lab.example", "one.lab.example"] {
            assert_eq!(hosts.judge(other), HostTarget::Elsewhere, "{other}");
        }
    }

    #[test]
    fn invalid_domains_are_refused() {
        for domain in ["", "a:80", "https://a", "10.0.0.1", "a..b", "*.a", "a/b", "[::1]"] {
            assert!(Hosts::new(&[], &[domain.to_owned()]).is_err(), "{domain}");
        }
    }
}
