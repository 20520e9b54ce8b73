//! Accepts connections up to a bound, and runs each in a task. At shutdown it waits for the
//! requests in progress, up to a limit. Called by the server.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use firstbyte_location::to_usize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use crate::http::connection::{self, RequestHandler};
use crate::http::connections::Connections;
use crate::http::wire::Transport;

/// Pause before accepting again after the process ran out of descriptors.
const DESCRIPTORS_PAUSE: Duration = Duration::from_millis(50);

/// Descriptors to reserve for each connection: its socket, and one directory and two files of a
/// request.
const DESCRIPTORS_PER_CONNECTION: u64 = 4;

/// Accepts and serves connections until `shutdown` completes, then drains.
pub(crate) async fn run(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    connections: Arc<Connections>,
    handler: Arc<impl RequestHandler>,
    shutdown: impl Future<Output = ()>,
) {
    let most = max_connections(connections.limits.connections);
    let permits = Arc::new(Semaphore::new(most));
    let (stopping, _) = watch::channel(false);
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &permits, &connections) => accepted,
            () = &mut shutdown => break,
        };
        let Ok((stream, peer, permit)) = accepted else {
            tokio::time::sleep(DESCRIPTORS_PAUSE).await;
            continue;
        };
        let (connections, handler) = (connections.clone(), handler.clone());
        let (acceptor, stopping) = (acceptor.clone(), stopping.subscribe());
        tokio::spawn(async move {
            connections.metrics.accepted.fetch_add(1, Relaxed);
            connections.metrics.open.fetch_add(1, Relaxed);
            let limit = connections.limits.head;
            if let Ok(Ok(transport)) = tokio::time::timeout(limit, prepare(stream, acceptor)).await {
                connection::run(transport, peer, &*handler, &connections, stopping).await;
            }
            connections.metrics.open.fetch_sub(1, Relaxed);
            drop(permit);
        });
    }
    drop(listener);
    // Idle connections close at once, the others after their response.
    let _ = stopping.send(true);
    let all = u32::try_from(most).unwrap_or(u32::MAX);
    if tokio::time::timeout(connections.limits.drain, permits.acquire_many(all)).await.is_err() {
        tracing::warn!("some requests were still running when the drain time was over; they are cut off");
    }
}

/// Returns the maximum number of open connections: `limit`, or fewer if the process cannot open
/// enough descriptors.
fn max_connections(limit: usize) -> usize {
    let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let share = descriptors.map_or(usize::MAX, |most| to_usize(most / DESCRIPTORS_PER_CONNECTION));
    limit.min(share).clamp(1, Semaphore::MAX_PERMITS)
}

/// Accepts a connection and waits until it may be served.
async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
    connections: &Connections,
) -> io::Result<(TcpStream, std::net::SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let (stream, peer) = listener.accept().await?;
    let permit = match permits.clone().try_acquire_owned() {
        Ok(permit) => permit,
        Err(_) => connections.make_room(permits.clone().acquire_owned()).await.map_err(io::Error::other)?,
    };
    Ok((stream, peer, permit))
}

async fn prepare(stream: TcpStream, acceptor: Option<TlsAcceptor>) -> io::Result<Transport> {
    // Responses are written whole or corked, so waiting to fill a packet would only delay them.
    stream.set_nodelay(true)?;
    match acceptor {
        None => Ok(Transport::Plain(stream)),
        Some(acceptor) => Ok(Transport::Tls(Box::new(acceptor.accept(stream).await?))),
    }
}
