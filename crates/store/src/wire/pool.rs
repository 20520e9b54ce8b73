//! Idle connections, kept for the next request to the same place.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Connection, Origin};

/// What makes connections exchangeable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) origin: Origin,
    pub(super) proxy: Option<Origin>,
    /// Bytes its socket may hold, where a rate is limited: it never gets fast again.
    pub(super) buffer: Option<u64>,
}

/// Idle connections kept for one place: as many as the largest concurrency a transfer grows to.
const MOST_IDLE: usize = 256;
/// Servers close idle connections after 5 s (S3's front ends among the strictest) to 75 s (nginx); an older one is
/// likelier dead than alive.
const LONGEST_IDLE: Duration = Duration::from_secs(5);

/// Last in, first out: the warmest connection has the largest congestion window.
#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<HashMap<Key, Vec<(Instant, Connection)>>>,
}

impl Pool {
    /// The connection used last, unless it has been idle for too long.
    pub(super) fn take(&self, key: &Key) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.get_mut(key)?;
        let (since, connection) = kept.pop()?;
        if since.elapsed() < LONGEST_IDLE {
            return Some(connection);
        }
        // The others have been idle for longer still.
        kept.clear();
        None
    }

    /// Keeps a connection whose answer was read to its end.
    pub(super) fn put(&self, key: Key, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.entry(key).or_default();
        if kept.len() < MOST_IDLE {
            kept.push((Instant::now(), connection));
        }
    }
}
