//! Sends requests through a proxy: in absolute form for plain HTTP, through a CONNECT tunnel for
//! TLS.

use std::fmt::Write as _;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firstbyte_location::redacted_operand;
use percent_encoding::percent_decode_str;

use super::connection::HttpConnection;
use super::response::{ResponseHead, ResponseHeadError};
use super::{FailedRequest, connection};
use crate::cancel::Cancel;
use crate::error::{Error, PROXY_ANSWERED, Result};
use crate::options::{Proxies, Proxy};
use crate::origin::Origin;

/// A proxy and its credentials.
pub(super) struct UsableProxy {
    pub(super) origin: Origin,
    /// The value of `Proxy-Authorization`.
    pub(super) authorization: Option<String>,
    /// The environment variable that names the proxy.
    pub(super) variable: String,
}

/// The proxy of each scheme, and the hosts that are reached directly.
pub(super) struct Routes {
    http: Option<Route>,
    https: Option<Route>,
    bypass: Vec<String>,
}

/// A proxy, or the error for the requests that need this proxy.
type Route = std::result::Result<UsableProxy, Unusable>;

/// The error for an environment variable that names no usable proxy.
#[derive(Clone)]
struct Unusable {
    what: String,
    why: &'static str,
}

impl Routes {
    pub(super) fn new(proxies: &Proxies) -> Self {
        let parse = |proxy: &Option<Proxy>| {
            proxy.as_ref().filter(|proxy| !proxy.url.is_empty()).map(UsableProxy::parse)
        };
        let bypass = proxies.bypass.iter().map(|host| host.trim().to_ascii_lowercase()).collect();
        Self { http: parse(&proxies.http), https: parse(&proxies.https), bypass }
    }

    /// Returns the proxy for `origin`, or `None` to connect directly. An unusable variable makes
    /// only those requests fail that need its proxy.
    pub(super) fn proxy_for(&self, origin: &Origin) -> Result<Option<&UsableProxy>> {
        let route = if origin.tls { &self.https } else { &self.http };
        match route.as_ref().filter(|_| !self.bypass.iter().any(|rule| bypasses(rule, origin))) {
            None => Ok(None),
            Some(Ok(proxy)) => Ok(Some(proxy)),
            Some(Err(Unusable { what, why })) => {
                Err(Error::Options { what: what.clone(), why: (*why).to_owned() })
            }
        }
    }
}

/// Returns true if a rule in `NO_PROXY` covers a host. A rule is `*`, a domain (which includes its
/// subdomains), an address, or a block of addresses.
fn bypasses(rule: &str, origin: &Origin) -> bool {
    if let (Some((block, bits)), Ok(host)) = (rule.split_once('/'), origin.host.parse()) {
        return matches!((block.parse(), bits.parse()), (Ok(block), Ok(bits)) if is_within(host, block, bits));
    }
    // The port of an IPv6 address follows its bracket.
    let has_port = |name: &str| !name.contains(':') || name.ends_with(']');
    let (name, port) = match rule.rsplit_once(':').filter(|(name, _)| has_port(name)) {
        Some((name, port)) => (name, port.parse::<u16>().ok()),
        None => (rule, None),
    };
    let name = name.trim_start_matches("*.").trim_matches('.').trim_matches(['[', ']']);
    let below = || origin.host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
    let host = rule == "*" || (!name.is_empty() && (origin.host == name || below()));
    host && port.is_none_or(|port| port == origin.port)
}

fn is_within(host: IpAddr, block: IpAddr, bits: u32) -> bool {
    match (host, block) {
        (IpAddr::V4(host), IpAddr::V4(block)) => {
            bits <= 32
                && u32::MAX.checked_shl(32 - bits).unwrap_or(0) & (host.to_bits() ^ block.to_bits()) == 0
        }
        (IpAddr::V6(host), IpAddr::V6(block)) => {
            bits <= 128
                && u128::MAX.checked_shl(128 - bits).unwrap_or(0) & (host.to_bits() ^ block.to_bits()) == 0
        }
        _ => false,
    }
}

impl UsableProxy {
    fn parse(Proxy { url, variable }: &Proxy) -> Route {
        let with_scheme = with_scheme(url);
        let refuse = |why| Unusable { what: format!("{variable}={}", redacted_operand(&with_scheme)), why };
        if with_scheme.to_ascii_lowercase().starts_with("socks") {
            return Err(refuse(
                "SOCKS proxies are not supported; write http://HOST:PORT, or list hosts in no_proxy",
            ));
        }
        let origin = Origin::parse_url(&with_scheme).ok_or_else(|| refuse("write http://HOST:PORT"))?;
        if origin.tls {
            return Err(refuse("proxies with TLS are not supported; write http://HOST:PORT"));
        }
        let authority = with_scheme["http://".len()..].split('/').next().unwrap_or_default();
        let authorization = authority.rsplit_once('@').map(|(user, _)| {
            let plain: Vec<u8> = percent_decode_str(user).collect();
            format!("Basic {}", STANDARD.encode(plain))
        });
        Ok(Self { origin, authorization, variable: variable.clone() })
    }

    /// Requests a tunnel to `origin` from the proxy.
    pub(super) fn open_tunnel(
        &self,
        connection: &mut HttpConnection,
        origin: &Origin,
        place: &str,
        cancel: &Cancel,
    ) -> std::result::Result<(), FailedRequest> {
        let refused =
            |error: &std::io::Error| FailedRequest::unreachable(&self.origin, "", error).through(self);
        let mut head = format!("CONNECT {0} HTTP/1.1\r\nhost: {0}\r\n", origin);
        if let Some(authorization) = &self.authorization {
            // Writing to a `String` cannot fail.
            let _ = write!(head, "proxy-authorization: {authorization}\r\n");
        }
        head.push_str("\r\n");
        if !cancel.register(&connection.socket) {
            return Err(Error::Cancelled.into());
        }
        connection.write_all(head.as_bytes()).map_err(|error| refused(&error))?;
        let answer = ResponseHead::read(connection, place).map_err(|error| match error {
            ResponseHeadError::Io(error) if connection::is_timeout(&error) => {
                let silent = std::io::Error::new(error.kind(), "the proxy does not answer");
                refused(&silent)
            }
            ResponseHeadError::Io(error) => refused(&error),
            ResponseHeadError::Malformed(error) => error.into(),
            ResponseHeadError::ExpectsTls => refused(&std::io::Error::other("the proxy expects TLS")),
        })?;
        match answer.status {
            200..300 => Ok(()),
            // The proxy may be able to reach the host later, as with plain HTTP.
            status @ (408 | 429 | 502..=504) => {
                let location = place.to_owned();
                let detail = format!("{PROXY_ANSWERED}{status} {}", answer.reason);
                Err(Error::Disconnected { location, detail, trace: None }.into())
            }
            status => {
                let said = format!("{PROXY_ANSWERED}{status} {}", answer.reason);
                Err(refused(&std::io::Error::other(said)))
            }
        }
    }
}

/// Adds `http://` to the URL of a proxy that is abbreviated to `HOST:PORT`.
fn with_scheme(url: &str) -> String {
    if url.contains("://") { url.to_owned() } else { format!("http://{url}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(url: &str) -> Proxy {
        Proxy { url: url.to_owned(), variable: "some_proxy".to_owned() }
    }

    fn is_proxied(bypass: &[&str], url: &str) -> bool {
        let proxies = Proxies {
            http: Some(named("http://user:p%40ss@proxy:3128")),
            https: Some(named("proxy:3128")),
            bypass: bypass.iter().map(ToString::to_string).collect(),
        };
        Routes::new(&proxies).proxy_for(&Origin::parse_url(url).unwrap()).unwrap().is_some()
    }

    #[test]
    fn hosts_on_the_bypass_list_are_reached_directly() {
        assert!(is_proxied(&[], "http://example.org"));
        assert!(!is_proxied(&["*"], "http://example.org"));
        assert!(!is_proxied(&["example.org"], "https://a.example.org"));
        assert!(!is_proxied(&[".example.org"], "https://a.example.org"));
        assert!(is_proxied(&["example.org"], "https://badexample.org"));
        assert!(!is_proxied(&["10.0.0.0/8"], "http://10.9.8.7"));
        assert!(is_proxied(&["10.0.0.0/8"], "http://11.9.8.7"));
        assert!(!is_proxied(&["::1"], "http://[::1]:80"));
        assert!(!is_proxied(&["[::1]:9000"], "http://[::1]:9000"));
        assert!(is_proxied(&["[::1]:9000"], "http://[::1]:80"));
        assert!(!is_proxied(&["example.org."], "http://a.example.org"));
        assert!(is_proxied(&["example.org:81"], "http://example.org:80"));
        assert!(is_proxied(&[""], "http://example.org"));
    }

    #[test]
    fn a_proxys_credentials_are_decoded_and_never_shown() {
        let Ok(proxy) = UsableProxy::parse(&named("http://user:p%40ss@proxy:3128")) else {
            panic!("refused")
        };
        assert_eq!(proxy.authorization.unwrap(), format!("Basic {}", STANDARD.encode("user:p@ss")));
        let Err(error) = UsableProxy::parse(&named("https://user:secret@proxy")) else { panic!("accepted") };
        assert_eq!(error.what, "some_proxy=https://***@proxy");
    }

    #[test]
    fn an_unusable_proxy_concerns_the_requests_that_need_it() {
        let proxies =
            Proxies { http: Some(named("socks5h://h:1")), bypass: vec!["near".into()], ..Proxies::default() };
        let routes = Routes::new(&proxies);
        let to = |url| routes.proxy_for(&Origin::parse_url(url).unwrap()).map(|proxy| proxy.is_some());
        assert!(!to("https://far").unwrap() && !to("http://near").unwrap());
        assert!(to("http://far").unwrap_err().to_string().contains("some_proxy=socks5h://h:1"));
    }
}
