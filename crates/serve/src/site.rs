//! What all connections of one server share: the directory, the policies, the counters.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::Method;
use http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};

use crate::auth::{Rights, SESSION_COOKIE, Sessions, basic, cookie};
use crate::config::{Authentication, Config, Cors, Writing};
use crate::limits::RateLimit;
use crate::metrics::Metrics;
use crate::page::Page;
use crate::request::Request;
use crate::root::{EntryPath, Root};
use crate::s3::Service;
use crate::uploads::Uploads;

pub(crate) use crate::auth::Access;

/// What all connections of one server share.
#[derive(Debug)]
pub(crate) struct Site {
    /// What the server was told.
    pub(crate) config: Config,
    /// The address it really listens on.
    pub(crate) address: SocketAddr,
    /// The served directory.
    pub(crate) root: Root,
    /// Uploads in parts, of S3 clients and of the page.
    pub(crate) uploads: Arc<Uploads>,
    /// Browser sessions.
    pub(crate) sessions: Sessions,
    /// What the directory page remembers between requests.
    pub(crate) page: Page,
    /// The counters behind `/metrics`.
    pub(crate) metrics: Metrics,
    /// The rate over all connections.
    pub(crate) rate: RateLimit,
    /// The S3 API.
    pub(crate) s3: Service,
}

impl Site {
    /// Whose request this is, by HTTP Basic or session cookie. (S3 signatures are the S3 service's business.)
    pub(crate) fn access(&self, request: &Request) -> Access {
        let Authentication::Keys(keys) = &self.config.authentication else { return Access::Everyone };
        let by_password = request.header(AUTHORIZATION).and_then(basic);
        if let Some((access_key, secret)) = by_password {
            return keys.check(&access_key, &secret).map_or(Access::Nobody, |key| Access::Key(key.clone()));
        }
        let token = request.header(COOKIE).and_then(|header| cookie(header, SESSION_COOKIE));
        let holder = token.and_then(|token| self.sessions.holder(token));
        holder.and_then(|id| keys.get(&id)).map_or(Access::Nobody, |key| Access::Key(key.clone()))
    }

    /// Whether `access` may read `path`.
    pub(crate) fn may_read(&self, access: &Access, path: &EntryPath) -> bool {
        access.allows(Rights::Read, path.as_bytes())
    }

    /// Whether `access` may see the directory `path`: everything in it is below a prefix it may read.
    pub(crate) fn may_list(&self, access: &Access, path: &EntryPath) -> bool {
        let mut directory = path.as_bytes().to_vec();
        if !directory.is_empty() {
            directory.push(b'/');
        }
        access.allows(Rights::Read, &directory)
    }

    /// Whether `access` may write `path`, on a server that takes writes at all.
    pub(crate) fn may_write(&self, access: &Access, path: &EntryPath) -> bool {
        self.config.writing == Writing::Allowed && access.allows(Rights::Write, path.as_bytes())
    }

    /// Refuses what a browser may have been tricked into: a name that was rebound to loopback, a form on another site.
    ///
    /// # Errors
    /// One line on what was wrong.
    pub(crate) fn check_origin(&self, request: &Request) -> Result<(), &'static str> {
        let host = request.header(HOST).unwrap_or_default();
        let open = matches!(self.config.authentication, Authentication::None);
        if open && self.address.ip().is_loopback() && !host.is_empty() && !is_local_name(host) {
            // Without keys the address is the only protection, and a name can be pointed at it from outside.
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
