//! Holds the state that all requests of one server share: the policies, the counters, and the
//! served source. Also identifies the client of a request. Used by the APIs and the router.

use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, COOKIE};

use crate::access::attempts::Attempts;
use crate::access::keys::{KeyRights, RequestRights, ServerKey};
use crate::access::sessions::{BrowserSessions, SESSION_COOKIE, cookie_value, parse_basic};
use crate::config::{Authentication, Config, WritePolicy};
use crate::gateway::Gateway;
use crate::http::hosts::Hosts;
use crate::http::metrics::ServerMetrics;
use crate::http::request::HttpRequest;
use crate::object::root::ServedRoot;
use crate::object::uploads::Uploads;
use crate::path::EntryPath;

/// The state that all requests of one server share.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) config: Config,
    /// The bound address.
    pub(crate) address: SocketAddr,
    pub(crate) sessions: BrowserSessions,
    /// Recent wrong secrets.
    pub(crate) attempts: Arc<Attempts>,
    /// The counters behind `/metrics`.
    pub(crate) metrics: Arc<ServerMetrics>,
    /// The server's names.
    pub(crate) hosts: Hosts,
}

/// The served source.
#[derive(Clone, Debug)]
pub(crate) enum ServedSource {
    Directory(Arc<DirectoryState>),
    Gateway(Arc<Gateway>),
}

/// State of a server of a directory: the state that all servers have, and the directory.
#[derive(Debug)]
pub(crate) struct DirectoryState {
    pub(crate) shared: Arc<ServerState>,
    /// The served directory.
    pub(crate) root: ServedRoot,
    /// Multipart uploads of S3 clients and of the page.
    pub(crate) uploads: Arc<Uploads>,
}

impl Deref for DirectoryState {
    type Target = ServerState;

    fn deref(&self) -> &ServerState {
        &self.shared
    }
}

/// The result of checking an access key and a secret.
#[derive(Clone, Debug)]
pub(crate) enum SignIn {
    /// The secret is right.
    Key(Arc<ServerKey>),
    /// The secret is wrong.
    Wrong,
    /// The secret was not checked: too many wrong secrets came for this key from this address.
    Wait(Duration),
}

impl ServerState {
    /// Identifies the client of a request by HTTP Basic or session cookie. The S3 service checks
    /// signatures.
    ///
    /// # Errors
    /// The time to wait after too many wrong secrets.
    pub(crate) fn access(&self, request: &HttpRequest) -> Result<RequestRights, Duration> {
        let Authentication::Keys(keys) = &self.config.authentication else {
            return Ok(RequestRights::Everyone);
        };
        if let Some((access_key, secret)) = request.header(AUTHORIZATION).and_then(parse_basic) {
            return match self.sign_in(request.peer.ip(), &access_key, &secret) {
                SignIn::Key(key) => Ok(RequestRights::Key(key)),
                SignIn::Wrong => Ok(RequestRights::Nobody),
                SignIn::Wait(wait) => Err(wait),
            };
        }
        let token = request.header(COOKIE).and_then(|header| cookie_value(header, &self.session_cookie()));
        let holder = token.and_then(|token| self.sessions.holder(token));
        let key = holder.and_then(|id| keys.get(&id));
        Ok(key.map_or(RequestRights::Nobody, |key| RequestRights::Key(key.clone())))
    }

    /// Checks a secret, unless too many wrong secrets came before. Counts a wrong secret.
    pub(crate) fn sign_in(&self, from: IpAddr, access_key: &str, secret: &str) -> SignIn {
        let Authentication::Keys(keys) = &self.config.authentication else { return SignIn::Wrong };
        let counted = self.counted_name(access_key);
        if let Some(wait) = self.attempts.remaining_delay(from, counted) {
            return SignIn::Wait(wait);
        }
        match keys.check(access_key, secret) {
            Some(key) => {
                self.attempts.clear_failures(from, counted);
                SignIn::Key(key.clone())
            }
            None => {
                self.attempts.count_failure(from, counted);
                SignIn::Wrong
            }
        }
    }

    /// Returns the name under which wrong secrets of `access_key` are counted. All unknown keys
    /// share the empty name.
    pub(crate) fn counted_name<'a>(&self, access_key: &'a str) -> &'a str {
        match &self.config.authentication {
            Authentication::Keys(keys) if keys.get(access_key).is_some() => access_key,
            _ => "",
        }
    }

    /// Returns `path` for writing, fenced by the rights of `access`. `None` if `access` has no
    /// right to write, or the server refuses all writes.
    pub(crate) fn writable(&self, access: &RequestRights, path: &EntryPath) -> Option<EntryPath> {
        if self.config.writing == WritePolicy::Refused {
            return None;
        }
        Some(path.clone().fenced(access.fence(KeyRights::Write, path.as_bytes())?))
    }

    /// Returns the name of the session cookie. It contains the port, because all ports of a host
    /// share cookies.
    pub(crate) fn session_cookie(&self) -> String {
        format!("{SESSION_COOKIE}_{}", self.address.port())
    }

    /// Returns the scheme of the server's own URLs.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.config.tls.is_some() { "https" } else { "http" }
    }
}
