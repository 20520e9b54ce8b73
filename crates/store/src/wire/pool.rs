//! Keeps idle connections for the next request to the same server.

use std::collections::HashMap;

use rustix_futex_sync::Mutex;

use super::connection::HttpConnection;
use crate::limits::KEEP_IDLE;
use crate::moment::Moment;
use crate::origin::Origin;

/// The key of a connection. Connections with equal keys are interchangeable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ConnectionKey {
    pub(super) origin: Origin,
    pub(super) proxy: Option<Origin>,
    /// Size of the socket's buffer, in bytes, if the rate is limited. A connection with a small
    /// buffer stays slow, so it must not serve other requests.
    pub(super) buffer: Option<u64>,
}

/// Maximum number of idle connections per key. A transfer may have that many connections idle
/// between two of its requests.
const MAX_IDLE: usize = 1024;

/// The idle connections by key. The connection used last is taken first, because it has the largest
/// congestion window.
#[derive(Default)]
pub(super) struct ConnectionPool {
    idle: Mutex<HashMap<ConnectionKey, Vec<(Moment, HttpConnection)>>>,
}

impl ConnectionPool {
    /// Takes the connection that was used last, unless it has been idle for too long. If a
    /// connection has received anything while it was idle, it is closed: the bytes would be taken
    /// for the response to the next request.
    pub(super) fn take(&self, key: &ConnectionKey) -> Option<HttpConnection> {
        loop {
            let (since, mut connection) = self.idle.lock().get_mut(key)?.pop()?;
            if since.age() >= KEEP_IDLE {
                // The other connections have been idle for even longer.
                self.idle.lock().get_mut(key)?.clear();
                return None;
            }
            if connection.is_quiet() {
                return Some(connection);
            }
            tracing::debug!(origin = %key.origin, "unexpected bytes or the end on an idle connection: closing it");
        }
    }

    /// Adds a connection whose response was read completely.
    pub(super) fn put(&self, key: ConnectionKey, connection: HttpConnection) {
        let mut idle = self.idle.lock();
        let kept = idle.entry(key).or_default();
        if kept.len() < MAX_IDLE {
            kept.push((Moment::now(), connection));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_connection_from_before_a_suspension_is_not_used_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = || HttpConnection::plain(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let origin = Origin { tls: false, host: "127.0.0.1".into(), port: 80 };
        let key = ConnectionKey { origin, proxy: None, buffer: None };
        let pool = ConnectionPool::default();
        pool.put(key.clone(), open());
        assert!(pool.take(&key).is_some());
        let before = Moment::now().before_suspension(Duration::from_secs(3600));
        pool.idle.lock().get_mut(&key).unwrap().push((before, open()));
        assert!(pool.take(&key).is_none());
    }
}
