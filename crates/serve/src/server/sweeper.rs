//! Removes leftovers of unfinished writes and expired trash from the buckets: when the server
//! starts, and regularly while it runs. Removes empty staging directories when the server stops. A
//! read-only server removes nothing.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{Buckets, WritePolicy};
use crate::object::directory::{EntryReader, VisibleKind};
use crate::object::reserved;
use crate::object::root::ServedRoot;
use crate::object::staging;
use crate::object::trash;
use crate::object::uploads::Uploads;
use crate::path::EntryPath;
use crate::state::DirectoryState;

/// Maximum pause between two sweeps. It may be long, because leftovers only take space.
const MAX_PAUSE: Duration = Duration::from_secs(3600);
/// Minimum pause between two sweeps, for an age of abandoned uploads that is near zero.
const MIN_PAUSE: Duration = Duration::from_millis(100);

/// Sweeps regularly until the future is dropped.
pub(crate) async fn run(state: &DirectoryState) {
    if state.config.writing == WritePolicy::Refused {
        return std::future::pending().await;
    }
    let pause = state.config.limits.abandoned.clamp(MIN_PAUSE, MAX_PAUSE);
    loop {
        let sweeper = Sweeper::new(state);
        // The failure is logged where it occurs. A panic in the sweep must not end the server.
        let _ = tokio::task::spawn_blocking(move || sweeper.sweep()).await;
        tokio::time::sleep(pause).await;
    }
}

/// Removes the empty staging directories when the server stops.
pub(crate) async fn finish(state: &DirectoryState) {
    if state.config.writing == WritePolicy::Allowed {
        let sweeper = Sweeper::new(state);
        let _ = tokio::task::spawn_blocking(move || sweeper.tidy()).await;
    }
}

/// The parts of the server's state that a sweep uses.
struct Sweeper {
    root: ServedRoot,
    uploads: Arc<Uploads>,
    buckets: Buckets,
    abandoned: Duration,
}

impl Sweeper {
    fn new(state: &DirectoryState) -> Self {
        let (root, uploads, buckets) =
            (state.root.clone(), state.uploads.clone(), state.config.buckets.clone());
        Self { root, uploads, buckets, abandoned: state.config.limits.abandoned }
    }

    fn sweep(&self) {
        for bucket in self.buckets() {
            // A failure of one of these sweeps does not stop the others.
            let swept = [
                staging::sweep(&self.root, &bucket, self.abandoned),
                self.uploads.sweep(&bucket, self.abandoned),
                trash::sweep(&self.root, &bucket, self.abandoned),
            ];
            for error in swept.into_iter().filter_map(Result::err) {
                tracing::warn!(%error, %bucket, "leftovers of unfinished writes or trash cannot be removed");
            }
        }
    }

    fn tidy(&self) {
        self.buckets().iter().for_each(|bucket| reserved::tidy(&self.root, bucket));
    }

    /// Returns every directory that may have a staging directory. Among them is the served
    /// directory, for files that are in no bucket.
    fn buckets(&self) -> Vec<EntryPath> {
        let served = EntryPath::default();
        let names = || -> io::Result<Vec<OsString>> {
            let entries = EntryReader::open(&self.root, &served)?.collect::<io::Result<Vec<_>>>()?;
            Ok(entries
                .into_iter()
                .filter(|entry| entry.kind != VisibleKind::File)
                .map(|entry| entry.name)
                .collect())
        };
        let names = match self.buckets {
            Buckets::Named(_) => Vec::new(),
            Buckets::FirstLevel => names().unwrap_or_else(|error| {
                tracing::warn!(%error, "the buckets cannot be listed");
                Vec::new()
            }),
        };
        let below = names.iter().map(|name| served.join(name));
        std::iter::once(served.clone()).chain(below).collect()
    }
}
