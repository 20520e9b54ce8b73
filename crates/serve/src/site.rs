//! The state that all connections of one server share: the directory, the policies, the counters.
//! It also identifies the caller of a request and checks its origin.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use firstbyte_pacing::RateLimit;
use http::Method;
use http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};

use crate::attempts::Attempts;
use crate::auth::{Key, Rights, SESSION_COOKIE, Sessions, basic, cookie};
use crate::config::{Authentication, Config, Cors, Writing};
use crate::metrics::Metrics;
use crate::request::Request;
use crate::root::{EntryPath, Root};
use crate::s3::Service;
use crate::uploads::Uploads;

pub(crate) use crate::auth::Access;

/// What all connections of one server share.
#[derive(Debug)]
pub(crate) struct Site {
    /// The configuration.
    pub(crate) config: Config,
    /// The address it really listens on.
    pub(crate) address: SocketAddr,
    /// The served directory.
    pub(crate) root: Root,
    /// Uploads in parts, of S3 clients and of the page.
    pub(crate) uploads: Arc<Uploads>,
    /// Browser sessions.
    pub(crate) sessions: Sessions,
    /// Wrong secrets of late.
    pub(crate) attempts: Attempts,
    /// The counters behind `/metrics`.
    pub(crate) metrics: Metrics,
    /// The rate over all connections.
    pub(crate) rate: Option<Arc<RateLimit>>,
    /// The S3 API.
    pub(crate) s3: Service,
}

/// The result of checking an access key and a secret.
#[derive(Clone, Debug)]
pub(crate) enum SignIn {
    /// They belong together.
    Key(Arc<Key>),
    /// They do not.
    Wrong,
    /// They were not compared: too many wrong secrets came for this key from this address.
    Wait(Duration),
}

impl Site {
    /// Whose request this is, by HTTP Basic or session cookie. (S3 signatures are the S3 service's
    /// business.)
    ///
    /// # Errors
    /// How long to wait, where too many wrong secrets came.
    pub(crate) fn access(&self, request: &Request) -> Result<Access, Duration> {
        let Authentication::Keys(keys) = &self.config.authentication else { return Ok(Access::Everyone) };
        if let Some((access_key, secret)) = request.header(AUTHORIZATION).and_then(basic) {
            return match self.sign_in(request.peer.ip(), &access_key, &secret) {
                SignIn::Key(key) => Ok(Access::Key(key)),
                SignIn::Wrong => Ok(Access::Nobody),
                SignIn::Wait(wait) => Err(wait),
            };
        }
        let token = request.header(COOKIE).and_then(|header| cookie(header, SESSION_COOKIE));
        let holder = token.and_then(|token| self.sessions.holder(token));
        let key = holder.and_then(|id| keys.get(&id));
        Ok(key.map_or(Access::Nobody, |key| Access::Key(key.clone())))
    }

    /// Weighs a secret, unless too many wrong ones came before.
    pub(crate) fn sign_in(&self, from: IpAddr, access_key: &str, secret: &str) -> SignIn {
        let Authentication::Keys(keys) = &self.config.authentication else { return SignIn::Wrong };
        let counted = self.counted(access_key);
        if let Some(wait) = self.attempts.wait(from, counted) {
            return SignIn::Wait(wait);
        }
        match keys.check(access_key, secret) {
            Some(key) => {
                self.attempts.succeeded(from, counted);
                SignIn::Key(key.clone())
            }
            None => {
                self.attempts.failed(from, counted);
                SignIn::Wrong
            }
        }
    }

    /// The name under which wrong secrets of `access_key` are counted: all unknown ones share the
    /// empty name.
    pub(crate) fn counted<'a>(&self, access_key: &'a str) -> &'a str {
        match &self.config.authentication {
            Authentication::Keys(keys) if keys.get(access_key).is_some() => access_key,
            _ => "",
        }
    }

    /// `path` for writing by `access`, fenced by its rights; none where it has no right to, or the
    /// server takes no writes at all.
    pub(crate) fn writable(&self, access: &Access, path: &EntryPath) -> Option<EntryPath> {
        if self.config.writing == Writing::Refused {
            return None;
        }
        Some(path.clone().fenced(access.fence(Rights::Write, path.as_bytes())?))
    }

    /// Refuses what a browser may have been tricked into: a name that was rebound to loopback, a
    /// form on another site.
    ///
    /// # Errors
    /// One line on what was wrong.
    pub(crate) fn check_origin(&self, request: &Request) -> Result<(), &'static str> {
        let host = request.header(HOST).unwrap_or_default();
        let open = matches!(self.config.authentication, Authentication::None);
        if open && self.address.ip().is_loopback() && !host.is_empty() && !is_local_name(host) {
            // Without keys the address is the only protection, and a name can be pointed at it from
            // outside.
            return Err("this server answers to loopback names only; ask it as localhost, or give it keys");
        }
        if matches!(request.method, Method::GET | Method::HEAD | Method::OPTIONS) {
            return Ok(());
        }
        let Some(origin) = request.header(ORIGIN) else {
            let cross =
                request.header("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none");
            return if cross { Err("a page of another site may not write here") } else { Ok(()) };
        };
        let same =
            origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host));
        let listed =
            matches!(&self.config.cors, Cors::Origins(origins) if origins.iter().any(|item| item == origin));
        if same || listed { Ok(()) } else { Err("a page of another site may not write here") }
    }
}

/// Whether the `Host` value names loopback whatever a name server says: an address, or `localhost`.
fn is_local_name(host: &str) -> bool {
    let unbracketed =
        |text: &str| text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    host.parse::<SocketAddr>().is_ok() || unbracketed(host) || unbracketed(name) || is_localhost(name)
}

fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::is_local_name;

    #[test]
    fn only_addresses_and_localhost_are_local_names() {
        for local in
            ["127.0.0.1:8080", "localhost", "localhost:80", "[::1]:8080", "[::1]", "bucket.localhost:1"]
        {
            assert!(is_local_name(local), "{local}");
        }
        for other in ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example"]
        {
            assert!(!is_local_name(other), "{other}");
        }
    }
}
