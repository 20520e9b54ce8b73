//! A small blocking HTTP/1.1 client, because the byte path is ours.
//!
//! A request is written to a socket, the answer's head is parsed, and the body stays in the socket until the caller says
//! where it goes: into a buffer, or by splice into a file. No async, no `Bytes`, no body copied on the way.
//!
//! Assumptions: requests can be sent again (every payload is memory or a file range); one connection carries one request
//! at a time; concurrency is the callers' threads. A request that fails on a *reused* connection before any byte of the
//! answer is sent once more on a new one, since servers close idle connections without asking.

mod chunked;
mod connection;
mod incoming;
mod origin;
mod pool;
mod proxy;
mod request;
mod response;
mod splice;
mod tls;
mod trust;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Cancel, Error, Options, Result};

pub(crate) use incoming::Incoming;
pub(crate) use origin::Origin;
pub(crate) use request::{Method, Request};
pub(crate) use response::Head;

use connection::Connection;
use pool::Pool;
use proxy::Routes;
use tls::Tls;

/// What has been done so far; shared by every clone of a store.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) requests: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) sent: AtomicU64,
}

/// Sends requests; owns the connections. Clones share them.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) options: Arc<Options>,
    pub(crate) counters: Arc<Counters>,
    pool: Arc<Pool>,
    routes: Arc<Routes>,
    resolver: Arc<origin::Resolver>,
    tls: Arc<Tls>,
    /// Ends every request of this clone, beside each one's own handle.
    scope: Option<Cancel>,
}

impl Client {
    pub(crate) fn new(options: Arc<Options>) -> Result<Self> {
        Ok(Self {
            counters: Arc::new(Counters::default()),
            pool: Arc::new(Pool::default()),
            routes: Arc::new(Routes::new(&options.proxies)?),
            resolver: Arc::default(),
            tls: Arc::new(Tls::new(options.ca_bundle.clone())),
            scope: None,
            options,
        })
    }

    /// A clone whose requests `cancel` ends as well.
    pub(crate) fn scoped(&self, cancel: &Cancel) -> Self {
        Self { scope: Some(self.scoped_cancel(cancel)), ..self.clone() }
    }

    /// A clone whose requests only `cancel` and their own handles end.
    pub(crate) fn with_scope(&self, cancel: Cancel) -> Self {
        Self { scope: Some(cancel), ..self.clone() }
    }

    /// A request's own handle inside the client's.
    pub(crate) fn scoped_cancel(&self, cancel: &Cancel) -> Cancel {
        self.scope.as_ref().map_or_else(|| cancel.clone(), |scope| cancel.within(scope))
    }

    /// Sends one request and returns when the head of its answer is here, whatever its status.
    pub(crate) fn send(&self, request: &Request<'_>) -> Result<(Head, Incoming)> {
        request.check()?;
        let route = self.routes.to(request.origin);
        let key =
            pool::Key { origin: request.origin.clone(), proxy: route.map(|proxy| proxy.origin.clone()) };
        if let Some(connection) = self.pool.take(&key) {
            match self.exchange(connection, request, &key, route) {
                Err(Failed { error, stale: true }) if !request.cancel.is_cancelled() => {
                    tracing::debug!(%error, "an idle connection had gone; sending again on a new one");
                    self.counters.retries.fetch_add(1, Ordering::Relaxed);
                }
                other => return other.map_err(|failed| failed.error),
            }
        }
        let connection = self.connect(request, route)?;
        self.exchange(connection, request, &key, route).map_err(|failed| failed.error)
    }

    fn connect(&self, request: &Request<'_>, route: Option<&proxy::Proxy>) -> Result<Connection> {
        if request.cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let first_hop = route.map_or(request.origin, |proxy| &proxy.origin);
        let socket = self.resolver.connect(first_hop, &self.options, request.cancel)?;
        let mut connection = Connection::plain(socket);
        if request.origin.tls {
            if let Some(proxy) = route {
                proxy.open_tunnel(&mut connection, request)?;
            }
            let session = self.tls.session(request.origin)?;
            connection.start_tls(session, request, self.options.read_deadline)?;
        }
        Ok(connection)
    }

    fn exchange(
        &self,
        mut connection: Connection,
        request: &Request<'_>,
        key: &pool::Key,
        route: Option<&proxy::Proxy>,
    ) -> std::result::Result<(Head, Incoming), Failed> {
        if !request.cancel.register(&connection.socket) {
            return Err(Failed { error: Error::Cancelled, stale: false });
        }
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        let used = connection.used;
        let sent = request.write(&mut connection, route, &self.counters);
        // A server may refuse before it has read the whole payload, and close: its answer then explains the failed write.
        let head = Head::read(&mut connection, request.place);
        let head = match (sent, head) {
            (Ok(()), Ok(head)) => head,
            (Err(_), Ok(head)) if head.status >= 300 => {
                // The rest of the payload was never sent: nothing else can go over this connection.
                let incoming = Incoming::new(connection, &head, request, self.back_to(None));
                return Ok((head, incoming));
            }
            (Err(error), _) | (Ok(()), Err(response::HeadError::Io(error))) => {
                let stale = used && connection.ahead().is_empty() && !connection::timed_out(&error);
                request.cancel.release(&Arc::downgrade(&connection.socket));
                let error =
                    connection::classify(&error, request.place, request.cancel, self.options.read_deadline);
                return Err(Failed { error, stale });
            }
            (Ok(()), Err(response::HeadError::Malformed(error))) => {
                request.cancel.release(&Arc::downgrade(&connection.socket));
                return Err(Failed { error, stale: false });
            }
        };
        connection.used = true;
        let pool = head.keeps_alive().then(|| (Arc::clone(&self.pool), key.clone()));
        let incoming = Incoming::new(connection, &head, request, self.back_to(pool));
        Ok((head, incoming))
    }

    /// What becomes of a connection after its answer.
    fn back_to(&self, pool: Option<(Arc<Pool>, pool::Key)>) -> incoming::Return {
        incoming::Return { pool, counters: Arc::clone(&self.counters), deadline: self.options.read_deadline }
    }
}

/// A failed exchange, and whether an idle connection that had gone stale is to blame.
struct Failed {
    error: Error,
    stale: bool,
}
