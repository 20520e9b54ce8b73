//! Implements a small blocking HTTP/1.1 client. All backends use it, except the one for local
//! files.
//!
//! The client writes a request to a socket and parses the head of the response. The body stays in
//! the socket until the caller reads it into a buffer or splices it into a file, so the body is
//! never copied in between.
//!
//! Every request can be repeated, because payloads are in memory or in files. A connection carries
//! one request at a time, and callers use threads for concurrency. If a request fails on a *reused*
//! connection before the first byte of the response, the client repeats it on a new connection,
//! because servers may close idle connections at any time.

mod chunked;
mod clock;
mod connection;
mod event;
mod incoming;
mod outage;
mod pool;
mod proxy;
mod request;
mod resolve;
mod response;
mod splice;
mod tls;
mod trust;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use firstbyte_location::to_usize;
use rustix_futex_sync::Mutex;

use crate::cancel::Cancel;
use crate::conditions::OwnTags;
use crate::error::{AddressSource, Error, Result, Trace, WITHOUT_TLS};
use crate::options::{Proxies, StoreOptions};
use crate::order::UnsortedBuckets;
use crate::origin::Origin;
use crate::requests::{RequestCounters, RequestKind};
use crate::spending::{Charge, Spending, SpendingAccount, is_priced_class};

pub(crate) use incoming::Incoming;
pub(crate) use request::{HttpMethod, WireRequest};
pub(crate) use response::ResponseHead;

use clock::Clocks;
use connection::{HttpConnection, SendError};
use outage::{Admitted, EndpointState, RequestOutcome};
use pool::ConnectionPool;
use proxy::{Routes, UsableProxy};
pub(crate) use tls::FindBundle;
use tls::TlsConfig;

/// Bytes per second that even the slowest server is expected to hash, copy and sync.
const SLOWEST_WORK_RATE: u64 = 8 << 20;

/// The header in which S3 states the class of an object, except for `STANDARD`.
pub(crate) const STORAGE_CLASS: &str = "x-amz-storage-class";

/// The headers in which services state the class of an object: S3, Google Cloud and Azure.
const CLASS_HEADERS: [&str; 3] = [STORAGE_CLASS, "x-goog-storage-class", "x-ms-access-tier"];

/// Counters shared by all clones of a store.
#[derive(Debug, Default)]
pub(crate) struct StoreCounters {
    pub(crate) requests: RequestCounters,
    pub(crate) retries: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) unpriced: AtomicU64,
}

/// An HTTP client. Its clones share connections.
#[derive(Clone)]
pub(crate) struct WireClient {
    pub(crate) options: Arc<StoreOptions>,
    /// Number of retries of a control request.
    pub(crate) retries: u32,
    pub(crate) counters: Arc<StoreCounters>,
    account: Arc<SpendingAccount>,
    /// The buckets that are known to list names out of order.
    pub(crate) unsorted: Arc<UnsortedBuckets>,
    pub(crate) clocks: Arc<Clocks>,
    pub(crate) own_tags: Arc<OwnTags>,
    pool: Arc<ConnectionPool>,
    endpoints: Arc<Mutex<HashMap<pool::ConnectionKey, Arc<EndpointState>>>>,
    routes: Arc<Routes>,
    resolver: Arc<resolve::Resolver>,
    tls: Arc<TlsConfig>,
    /// The handle that ends every request of this clone, in addition to the handle of the request.
    scope: Option<Cancel>,
}

impl WireClient {
    /// Returns a client with these options. `find_bundle` finds certificate authorities that are
    /// configured outside the options. The function is called before the first TLS connection.
    pub(crate) fn new(options: Arc<StoreOptions>, find_bundle: FindBundle) -> Self {
        Self {
            retries: options.retries,
            counters: Arc::new(StoreCounters::default()),
            account: Arc::new(SpendingAccount::new(options.spending.clone())),
            unsorted: Arc::default(),
            clocks: Arc::default(),
            own_tags: Arc::default(),
            pool: Arc::new(ConnectionPool::default()),
            endpoints: Arc::default(),
            routes: Arc::new(Routes::new(&options.proxies)),
            resolver: Arc::default(),
            tls: Arc::new(TlsConfig::new(Arc::clone(&options), find_bundle)),
            scope: None,
            options,
        }
    }

    /// Returns a clone whose requests also end when `cancel` is cancelled.
    pub(crate) fn scoped(&self, cancel: &Cancel) -> Self {
        Self { scope: Some(self.scoped_cancel(cancel)), ..self.clone() }
    }

    /// Returns a clone that never retries control requests.
    pub(crate) fn without_retries(&self) -> Self {
        Self { retries: 0, ..self.clone() }
    }

    /// Returns a clone whose requests, from now on, cost at most what `spending` says.
    pub(crate) fn with_spending(&self, spending: Spending) -> Self {
        Self { account: Arc::new(SpendingAccount::new(Some(spending))), ..self.clone() }
    }

    /// Counts a request about an object of the storage class `class`, if the known prices do not
    /// apply to that class. If there is a budget, also returns an error.
    fn check_priced_class(&self, class: Option<&str>, place: &str) -> Result<()> {
        let Some(class) = class.filter(|class| !is_priced_class(class)) else { return Ok(()) };
        self.counters.unpriced.fetch_add(1, Ordering::Relaxed);
        self.account.refuse_class(class, place)
    }

    /// Returns an error for a bucket in another region than the one that the prices of the budget
    /// are for.
    pub(crate) fn check_priced_region(&self, found: &str, place: &str) -> Result<()> {
        self.account.check_region(found, place)
    }

    /// Returns a clone that has the scope `cancel` in place of this client's: only `cancel` and a
    /// request's own handle can cancel the clone's requests.
    pub(crate) fn with_scope(&self, cancel: Cancel) -> Self {
        Self { scope: Some(cancel), ..self.clone() }
    }

    /// Returns a clone whose requests end with those of `other`. It also has the retries and the
    /// budget of `other`.
    pub(crate) fn in_scope_of(&self, other: &Self) -> Self {
        let (scope, account) = (other.scope.clone(), Arc::clone(&other.account));
        Self { scope, account, retries: other.retries, ..self.clone() }
    }

    /// Returns a client for another service. The result has its own options, connections and
    /// certificates.
    pub(crate) fn for_service(&self, options: StoreOptions) -> Self {
        let options = Arc::new(options);
        let tls = Arc::new(self.tls.with_options(Arc::clone(&options)));
        Self { options, tls, pool: Arc::default(), scope: None, ..self.clone() }
    }

    /// Returns a clone outside all scopes, with counters of its own. The clone sends requests that
    /// several callers share.
    pub(crate) fn unscoped(&self) -> Self {
        Self { scope: None, counters: Arc::default(), ..self.clone() }
    }

    /// Returns a clone for services on this machine or on its local network link, which respond
    /// immediately if they exist. The clone uses no proxy, and waits no longer than `deadline`.
    pub(crate) fn nearby(&self, deadline: Duration) -> Self {
        let options = StoreOptions {
            connect_deadline: deadline,
            read_deadline: deadline,
            proxies: Proxies::default(),
            ..(*self.options).clone()
        };
        let routes = Arc::new(Routes::new(&options.proxies));
        Self { options: Arc::new(options), routes, ..self.clone() }
    }

    /// Returns the handle of a request, nested in the scope of the client.
    pub(crate) fn scoped_cancel(&self, cancel: &Cancel) -> Cancel {
        self.scope.as_ref().map_or_else(|| cancel.clone(), |scope| cancel.within(scope))
    }

    /// Sends one request. Returns after the head of the response, whatever its status. Fails
    /// immediately if the endpoint is known not to respond.
    pub(crate) fn send(&self, request: &WireRequest<'_>) -> Result<(ResponseHead, Incoming)> {
        request.check()?;
        let route = self.routes.proxy_for(request.origin)?;
        let key = pool::ConnectionKey {
            origin: request.origin.clone(),
            proxy: route.map(|proxy| proxy.origin.clone()),
            buffer: request.throttle.socket_buffer(),
        };
        let endpoint = match key.buffer {
            None => self.endpoint(&key),
            // Connections with different buffer sizes share the state of their endpoint.
            Some(_) => self.endpoint(&pool::ConnectionKey { buffer: None, ..key.clone() }),
        };
        let admitted = endpoint.admit(self.options.read_deadline, Instant::now()).map_err(|refused| {
            Error::Unresponsive {
                location: request.place.to_owned(),
                endpoint: request.origin.to_string(),
                retry_in: refused.retry_in,
                silences: refused.silences,
                trace: None,
            }
        })?;
        let began = Instant::now();
        let exchange = Exchange { client: self, request, key: &key, route, endpoint: &endpoint, admitted };
        let result = exchange.run();
        let outcome = match &result {
            Ok(_) => RequestOutcome::Answered,
            Err(FailedRequest { fault: Fault::Silent, .. }) if !request.cancel.is_cancelled() => {
                RequestOutcome::Silent
            }
            Err(FailedRequest { error: Error::Cancelled | Error::Payload { .. }, .. }) => {
                RequestOutcome::Abandoned
            }
            Err(_) if request.cancel.is_cancelled() => RequestOutcome::Abandoned,
            Err(_) => RequestOutcome::Answered,
        };
        endpoint.request_ended(&admitted, outcome, Instant::now());
        result.map_err(|failed| {
            event::send_failure(request, &failed.error, began);
            failed.error.traced(|| Trace { attempts: 1, took: began.elapsed(), ..Trace::default() })
        })
    }

    /// Returns the number of body bytes received so far.
    pub(crate) fn received(&self) -> u64 {
        self.endpoints.lock().values().map(|endpoint| endpoint.received()).sum()
    }

    fn endpoint(&self, key: &pool::ConnectionKey) -> Arc<EndpointState> {
        let mut endpoints = self.endpoints.lock();
        if let Some(known) = endpoints.get(key) {
            return Arc::clone(known);
        }
        Arc::clone(endpoints.entry(key.clone()).or_default())
    }
}

/// One request and what is needed to send it.
struct Exchange<'a> {
    client: &'a WireClient,
    request: &'a WireRequest<'a>,
    key: &'a pool::ConnectionKey,
    route: Option<&'a proxy::UsableProxy>,
    endpoint: &'a Arc<EndpointState>,
    admitted: Admitted,
}

/// A failed request, and what the failure says about the server.
struct FailedRequest {
    error: Error,
    fault: Fault,
}

/// Conclusion about the server from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The server had closed the reused connection, or had sent bytes on it that belong to no
    /// request.
    Stale,
    /// The server did not respond in time.
    Silent,
    /// The server responded, or the failure is a local one.
    Other,
}

impl From<Error> for FailedRequest {
    fn from(error: Error) -> Self {
        Self { error, fault: Fault::Other }
    }
}

impl FailedRequest {
    /// Returns the failure to connect, from an error of the operating system or of TLS.
    fn unreachable(origin: &Origin, what: &str, error: &std::io::Error) -> Self {
        let fault = if connection::is_timeout(error) { Fault::Silent } else { Fault::Other };
        let detail = match tls::is_plain(error) {
            true => WITHOUT_TLS.to_owned(),
            false => format!("{what}{error}"),
        };
        Self { error: Error::unreachable(origin, detail, error.raw_os_error()), fault }
    }

    /// Adds the environment variable that names the proxy to a failure to connect to the proxy.
    fn through(self, proxy: &UsableProxy) -> Self {
        Self { error: self.error.named_by(AddressSource::Proxy(proxy.variable.clone())), ..self }
    }
}

impl Exchange<'_> {
    /// Sends the request, on an idle connection if there is one.
    fn run(&self) -> std::result::Result<(ResponseHead, Incoming), FailedRequest> {
        let (client, request) = (self.client, self.request);
        if let Some(connection) = client.pool.take(self.key) {
            match self.converse(connection, self.admitted.wait) {
                Err(FailedRequest { error, fault: Fault::Stale }) if !request.cancel.is_cancelled() => {
                    tracing::debug!(%error, "an idle connection was closed; sending again on a new one");
                    client.counters.retries.fetch_add(1, Ordering::Relaxed);
                }
                other => return other,
            }
        }
        let began = Instant::now();
        let connection = self.connect()?;
        self.converse(connection, self.admitted.wait.saturating_sub(began.elapsed()))
    }

    fn connect(&self) -> std::result::Result<HttpConnection, FailedRequest> {
        let (client, request) = (self.client, self.request);
        if request.cancel.is_cancelled() {
            return Err(Error::Cancelled.into());
        }
        let first_hop = self.route.map_or(request.origin, |proxy| &proxy.origin);
        let socket = client
            .resolver
            .connect(first_hop, &client.options, self.admitted.wait, request.cancel)
            .map_err(|failed| self.route.into_iter().fold(failed, FailedRequest::through))?;
        if let Some(bytes) = self.key.buffer {
            // The kernel fills this buffer regardless of the rate limit, so the buffer is kept
            // small. If the call fails, the buffer keeps its default size.
            let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, to_usize(bytes));
        }
        let mut connection = HttpConnection::plain(socket);
        if request.origin.tls {
            if let Some(proxy) = self.route {
                proxy.open_tunnel(&mut connection, request.origin, request.place, request.cancel)?;
            }
            let session = client.tls.session(request.origin)?;
            let deadline = client.options.read_deadline.min(self.admitted.wait);
            connection.start_tls(session, request.origin, request.place, request.cancel, deadline)?;
        }
        Ok(connection)
    }

    /// Writes the request, and reads the head of the response within `wait`.
    fn converse(
        &self,
        mut connection: HttpConnection,
        wait: Duration,
    ) -> std::result::Result<(ResponseHead, Incoming), FailedRequest> {
        let (client, request, began) = (self.client, self.request, Instant::now());
        let payload = request.payload.length();
        let written = client.options.storage_class.as_deref().filter(|_| request.kind == RequestKind::Put);
        client.check_priced_class(written, request.place)?;
        let charge = client.account.charge_request(request.kind, request.range(), payload, request.place)?;
        if !request.cancel.register(&connection.socket) {
            return Err(Error::Cancelled.into());
        }
        client.counters.requests.add(request.kind);
        let used = connection.is_used;
        let sent = request.write(&mut connection, self.route, client, self.endpoint);
        if let Err(SendError::Payload(source)) = sent {
            // The rest of the payload is missing, so the connection is closed without waiting for a
            // response.
            request.cancel.release(&Arc::downgrade(&connection.socket));
            return Err(Error::Payload { location: request.place.to_owned(), source }.into());
        }
        // A server may refuse a request, and close the connection, before it has read the whole
        // payload. The response of the server then explains the failed write.
        let head = match &sent {
            // The server accepted no bytes for a whole deadline, so a response is not waited for.
            Err(SendError::Socket(error)) if connection::is_timeout(error) => {
                Err(response::ResponseHeadError::Io(error.kind().into()))
            }
            _ => self.read_head(&mut connection, wait),
        };
        let work = if sent.is_ok() { self.working_time() } else { Duration::ZERO };
        let deadline = client.options.read_deadline + work;
        let head = head.map(|mut head| {
            head.took = began.elapsed();
            head
        });
        let head = match (sent, head) {
            (Ok(()), Ok(head)) if used && head.ends_idle_connection() => {
                request.cancel.release(&Arc::downgrade(&connection.socket));
                let error = connection::classify(
                    &std::io::Error::other("408 on an idle connection"),
                    request.place,
                    request.cancel,
                    deadline,
                );
                return Err(FailedRequest { error, fault: Fault::Stale });
            }
            (Ok(()), Ok(head)) => head,
            (Err(_), Ok(head)) if head.status >= 300 => {
                // The rest of the payload was not sent, so the connection cannot be reused.
                let incoming = Incoming::new(connection, &head, (request, began), self.back_to(None, charge));
                return Ok((head, incoming));
            }
            (Err(SendError::Socket(error) | SendError::Payload(error)), _)
            | (Ok(()), Err(response::ResponseHeadError::Io(error))) => {
                let fault = match connection::is_timeout(&error) {
                    true => Fault::Silent,
                    false if used && connection.ahead().is_empty() => Fault::Stale,
                    false => Fault::Other,
                };
                request.cancel.release(&Arc::downgrade(&connection.socket));
                let error = connection::classify(&error, request.place, request.cancel, deadline);
                return Err(FailedRequest { error, fault });
            }
            (Ok(()), Err(unusable)) => {
                request.cancel.release(&Arc::downgrade(&connection.socket));
                // On a reused connection, bytes that cannot be parsed may be left over from the
                // response before. The request is therefore sent again on a new connection.
                let fault = if used { Fault::Stale } else { Fault::Other };
                return Err(FailedRequest { error: unusable.into_error(request.origin), fault });
            }
        };
        connection.is_used = true;
        let pool = head.keeps_alive().then(|| (Arc::clone(&client.pool), self.key.clone()));
        let mut incoming = Incoming::new(connection, &head, (request, began), self.back_to(pool, charge));
        let charge = client.account.charge_length(charge, incoming.length(), request.place)?;
        incoming.set_charge(charge);
        let class = CLASS_HEADERS.iter().find_map(|name| head.get(name));
        client.check_priced_class(class, request.place)?;
        Ok((head, incoming))
    }

    /// Reads the head within `wait`. If the endpoint responds to other requests in the meantime,
    /// waits for a whole deadline. Both times are extended by the time that the server may need to
    /// process the bytes of the request.
    fn read_head(
        &self,
        connection: &mut HttpConnection,
        wait: Duration,
    ) -> std::result::Result<ResponseHead, response::ResponseHeadError> {
        let usual = self.client.options.read_deadline;
        let place = self.request.place;
        let work = self.working_time();
        let (deadline, mut wait) = (usual + work, wait.max(outage::MIN_WAIT) + work);
        if wait + outage::MIN_WAIT >= deadline {
            if work.is_zero() {
                return ResponseHead::read(connection, place);
            }
            wait = deadline;
        }
        let io = response::ResponseHeadError::Io;
        connection.socket.set_read_timeout(Some(wait)).map_err(io)?;
        let mut head = ResponseHead::read(connection, place);
        if matches!(&head, Err(response::ResponseHeadError::Io(error)) if connection::is_timeout(error))
            && wait < deadline
            && self.endpoint.has_answered_since(&self.admitted)
        {
            connection.socket.set_read_timeout(Some(deadline - wait)).map_err(io)?;
            head = ResponseHead::read(connection, place);
        }
        connection.socket.set_read_timeout(Some(usual)).map_err(io)?;
        head
    }

    /// Returns the time for which the server may hash, copy and sync the bytes before it responds.
    fn working_time(&self) -> Duration {
        Duration::from_secs((self.request.payload.length() + self.request.work) / SLOWEST_WORK_RATE)
    }

    /// Decides what to do with the connection after the response.
    fn back_to(
        &self,
        pool: Option<(Arc<ConnectionPool>, pool::ConnectionKey)>,
        charge: Charge,
    ) -> incoming::AfterBody {
        let (deadline, account) = (self.client.options.read_deadline, Arc::clone(&self.client.account));
        incoming::AfterBody { pool, endpoint: Arc::clone(self.endpoint), deadline, account, charge }
    }
}
