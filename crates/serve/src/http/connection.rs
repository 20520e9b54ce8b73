//! Runs one connection: reads the head of a request, sends the response, and repeats until either
//! side closes.
//!
//! An idle connection has no buffer. A buffer is allocated when the first byte of a request
//! arrives, and freed when it is empty. Requests sent ahead (pipelined) wait in the buffer and are
//! answered in order. A [`RequestHandler`] makes the responses.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use firstbyte_pacing::Throttle;
use http::HeaderName;
use rustix_futex_sync::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::config::AccessLog;
use crate::http::answer::{self, SentResponse};
use crate::http::connections::Connections;
use crate::http::head::{Framing, Persistence, RequestHead, RequestHeadError, parse_head};
use crate::http::log;
use crate::http::metrics::RequestRoute;
use crate::http::request::{HttpRequest, RequestBody};
use crate::http::request_id;
use crate::http::response::HttpResponse;
use crate::http::wire::{HttpWire, Transport, WireBody};

/// Initial size of the buffer for a request head, in bytes. Most heads fit.
const HEAD_ROOM: usize = 4 << 10;

/// Maximum number of bytes of a refused body that are discarded to keep the connection. A longer
/// body ends the connection.
const MAX_DISCARDED: usize = 256 << 10;

/// Maximum wait for the rest of a refused body, which delays the response. It is enough for bytes
/// that are already in flight. Also the maximum wait for more bytes after the last response.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum time for which bytes of the client are discarded after the last response, however many
/// they are. Many clients read the response only after they have sent the whole body. nginx has the
/// same limit (`lingering_time`).
const LINGER_LIMIT: Duration = Duration::from_secs(30);

/// Maximum number of bytes that are discarded at once.
const LINGER_ROOM: usize = 64 << 10;

/// A response, with the fields that the log and the counters need.
#[derive(Debug)]
pub(crate) struct LoggedResponse {
    pub(crate) response: HttpResponse,
    pub(crate) route: RequestRoute,
    /// The access key that the request proved, or `-`.
    pub(crate) who: String,
}

/// Answers requests. Implemented by the router.
pub(crate) trait RequestHandler: Send + Sync + 'static {
    /// Answers one request.
    fn answer(&self, request: HttpRequest) -> impl Future<Output = LoggedResponse> + Send;

    /// Answers a request whose head cannot be read.
    fn refuse(&self, refused: &RequestHeadError) -> LoggedResponse;
}

/// Serves one connection to its end.
pub(crate) async fn run(
    transport: Transport,
    peer: SocketAddr,
    handler: &impl RequestHandler,
    connections: &Connections,
    mut stopping: watch::Receiver<bool>,
) {
    let throttle = connections.throttle();
    let mut wire = HttpWire::new(transport);
    loop {
        let is_idle = wire.buffer.is_empty();
        let begun = tokio::select! {
            begun = await_request(&mut wire, connections) => begun,
            _ = stopping.wait_for(|stop| *stop), if is_idle => return,
            () = connections.wait_for_close_request(), if is_idle => return,
        };
        if !begun.unwrap_or(false) {
            return;
        }
        let head = tokio::select! {
            head = read_head(&mut wire, connections) => head,
            _ = stopping.wait_for(|stop| *stop), if is_idle => return,
        };
        let head = match head {
            Ok(Some(Ok(head))) => head,
            Ok(Some(Err(refused))) => return refuse(&mut wire, handler.refuse(&refused), connections).await,
            Ok(None) | Err(_) => return,
        };
        let answered = exchange(wire, head, peer, handler, connections, &throttle, &stopping);
        let Some(next) = answered.await else { return };
        wire = next;
        if wire.buffer.is_empty() {
            wire.buffer = BytesMut::new();
        }
    }
}

/// Answers one request. Returns the wire if another request may follow.
async fn exchange(
    mut wire: HttpWire,
    head: RequestHead,
    peer: SocketAddr,
    handler: &impl RequestHandler,
    connections: &Connections,
    throttle: &Throttle,
    stopping: &watch::Receiver<bool>,
) -> Option<HttpWire> {
    let begun = Instant::now();
    wire.begin_body(head.framing, head.expects_continue);
    let slot = Arc::new(Mutex::new(Some(wire)));
    let length = match head.framing {
        Framing::Length(length) => Some(length),
        Framing::Chunked => None,
    };
    let body = match length {
        Some(0) => RequestBody::Empty,
        _ => RequestBody::Wire(WireBody::new(slot.clone(), length, connections.limits.stall)),
    };
    let method = head.method.clone();
    let target =
        if head.query.is_empty() { head.path.clone() } else { format!("{}?{}", head.path, head.query) };
    let request = HttpRequest {
        method: head.method,
        prefix: String::new(),
        path: head.path,
        query: head.query,
        headers: head.headers,
        peer,
        body,
    };
    let mut outcome = Box::pin(handler.answer(request)).await;
    let id = request_id::next();
    if outcome.route == RequestRoute::S3 {
        outcome.response = outcome.response.with_header(HeaderName::from_static(request_id::NAME), &id);
    }
    let mut wire = slot.lock().take()?;

    let mut persistence = head.persistence;
    if *stopping.borrow() || !read_past(&mut wire).await {
        persistence = Persistence::Close;
    }
    let framing = answer::ResponseFraming { method: &method, minor_version: head.minor_version, persistence };
    let status = outcome.response.status;
    let sent = answer::send(&mut wire.transport, outcome.response, framing, connections, throttle).await;
    connections.metrics.count(outcome.route, status);
    if let AccessLog::To(log) = connections.access_log {
        let bytes = sent.as_ref().map_or(0, |answered| answered.body_bytes);
        let (who, id) = (&outcome.who, &id);
        let took = begun.elapsed();
        log(&log::LogLine { peer, who, method: &method, target: &target, status, bytes, took, id }.text());
    }
    match sent {
        Ok(SentResponse { persistence: Persistence::KeepAlive, .. }) => Some(wire),
        Ok(_) => {
            close(&mut wire).await;
            None
        }
        Err(error) => {
            tracing::debug!(%peer, %error, "the connection broke");
            None
        }
    }
}

/// Waits for the first bytes of a request. False if the peer has left.
async fn await_request(wire: &mut HttpWire, connections: &Connections) -> io::Result<bool> {
    if !wire.buffer.is_empty() {
        return Ok(true);
    }
    let idle = connections.limits.idle;
    if let Transport::Plain(stream) = &wire.transport {
        // The buffer is allocated only when there are bytes to read.
        timeout(idle, stream.readable()).await??;
    }
    Ok(timeout(idle, fill(wire)).await?? > 0)
}

/// Reads a head that has begun. `None` if the peer leaves before its end.
async fn read_head(
    wire: &mut HttpWire,
    connections: &Connections,
) -> io::Result<Option<Result<RequestHead, RequestHeadError>>> {
    let limits = &connections.limits;
    timeout(limits.head, async {
        loop {
            match parse_head(&wire.buffer) {
                Ok(Some(head)) => {
                    wire.buffer.advance(head.length);
                    return Ok(Some(Ok(head)));
                }
                Ok(None) => {}
                Err(refused) => return Ok(Some(Err(refused))),
            }
            if fill(wire).await? == 0 {
                return Ok(None);
            }
        }
    })
    .await?
}

async fn fill(wire: &mut HttpWire) -> io::Result<usize> {
    std::future::poll_fn(|context| wire.poll_fill(context, HEAD_ROOM)).await
}

/// Discards the part of the body that the handler did not read. True if another request can follow.
async fn read_past(wire: &mut HttpWire) -> bool {
    if wire.body_is_done() {
        return true;
    }
    if wire.body_is_broken() {
        return false;
    }
    if wire.awaits_continue() {
        // The client got no 100 Continue, so the next bytes may be the body or another request. The
        // connection cannot be used again.
        return false;
    }
    let drain = async {
        let mut read = 0;
        while read <= MAX_DISCARDED {
            match std::future::poll_fn(|context| wire.poll_body(context)).await {
                Ok(piece) if piece.is_empty() => return true,
                Ok(piece) => read += piece.len(),
                Err(_) => return false,
            }
        }
        false
    };
    timeout(DISCARD_TIMEOUT, drain).await.unwrap_or(false)
}

async fn refuse(wire: &mut HttpWire, outcome: LoggedResponse, connections: &Connections) {
    let framing = answer::ResponseFraming {
        method: &http::Method::GET,
        minor_version: 1,
        persistence: Persistence::Close,
    };
    let throttle = Throttle::default();
    connections.metrics.count(outcome.route, outcome.response.status);
    if answer::send(&mut wire.transport, outcome.response, framing, connections, &throttle).await.is_ok() {
        close(wire).await;
    }
}

/// Closes the connection after the peer has had time to read the response. Closing while bytes of
/// the peer are unread would reset the connection.
async fn close(wire: &mut HttpWire) {
    if wire.transport.shutdown().await.is_err() {
        return;
    }
    let linger = async {
        loop {
            wire.buffer.clear();
            let more = std::future::poll_fn(|context| wire.poll_fill(context, LINGER_ROOM));
            if !matches!(timeout(DISCARD_TIMEOUT, more).await, Ok(Ok(1..))) {
                return;
            }
        }
    };
    let _ = timeout(LINGER_LIMIT, linger).await;
}
