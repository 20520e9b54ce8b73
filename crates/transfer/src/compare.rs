//! Decides whether a destination is complete and unchanged: by size and time, or by content.
//!
//! **By size and time**: the lengths must be equal. In addition, either the modification times are
//! equal in whole seconds (all that listings and file systems have in common), or the destination
//! was *written* after the source was last modified, and not changed since. The time of writing is
//! `LastModified` for a store, and for a file the inode change time, which programs cannot set
//! back. If a file was written before its object, as one that was uploaded, the object's metadata
//! are requested: the modification time in them may be the file's. So a repeated copy finds all
//! unchanged in either direction, although an upload cannot choose its `LastModified`. Between
//! files, here or on hosts that are reached by SFTP, times are copied exactly, and only equal ones
//! count. This misses a source of the
//! same length that was given a time before the destination was written.
//!
//! **By content**: checksums that both stores have are compared. If only one store has a checksum,
//! the other is computed from the bytes. [`sync`](crate::sync) compares several pairs at a time.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, SystemTime};

use firstbyte_location::{Entry, Kind, Location};
use firstbyte_pacing::START;
use firstbyte_store::{Algorithm, BUFFER, Beneath, Checksum, Found, Get, Hasher, STACK, Store};

use crate::job::{Route, as_path};
use crate::{Concurrency, Error, Result, Tree};

/// The result of comparing sizes and times of two objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Times {
    /// The destination is complete and unchanged.
    Unchanged,
    /// The object is to be copied.
    Changed,
    /// Unchanged if the metadata of the source, which listings do not have, hold this modification
    /// time: whole seconds since 1970.
    UnchangedIfModified(i64),
}

impl Times {
    pub(crate) fn unchanged_if(unchanged: bool) -> Self {
        if unchanged { Self::Unchanged } else { Self::Changed }
    }

    /// Unchanged if a file is as new as a listed source.
    pub(crate) fn unless_newer(source: &Entry, found: &Found) -> Self {
        let modified = source.modified.map(whole_seconds);
        Self::unchanged_if(found.kind == Kind::File && modified.is_some_and(|time| found.modified >= time))
    }

    /// Compares two listed entries of equal length.
    pub(crate) fn of_entries(
        tree: &Tree<'_>,
        beneath: Option<&Beneath>,
        source: &Entry,
        destination: &Entry,
    ) -> Self {
        let (Some(modified), Some(there)) = (source.modified, destination.modified) else {
            return Self::Changed;
        };
        let (modified, there) = (whole_seconds(modified), whole_seconds(there));
        match beneath {
            _ if source.size.is_none() => Self::Changed,
            // The time was copied, if not that of the listing then that of the metadata.
            None if matches!(tree.destination, Location::Sftp(_)) => match tree.source {
                _ if there == modified => Self::Unchanged,
                Location::Object(_) => Self::UnchangedIfModified(there),
                _ => Self::Changed,
            },
            None => Self::unchanged_if(there >= modified),
            Some(_)
                if there == modified || !matches!(tree.source, Location::Object(_) | Location::Http(_)) =>
            {
                Self::unchanged_if(there == modified)
            }
            // A listing does not have the time of the last write. It matters only if they differ.
            Some(beneath) => match beneath.find(as_path(&destination.name)) {
                Ok(Some(found)) => Self::of_file(tree, source, &found),
                _ => Self::Changed,
            },
        }
    }

    /// Compares a listed source with a file at a local destination.
    pub(crate) fn of_file(tree: &Tree<'_>, source: &Entry, found: &Found) -> Self {
        let Some(modified) = source.modified.map(whole_seconds) else { return Self::Changed };
        if found.kind != Kind::File || source.size != Some(found.size) {
            return Self::Changed;
        }
        let written_since = found.modified < modified && found.changed >= modified;
        match tree.source {
            _ if found.modified == modified => Self::Unchanged,
            Location::Local(_) | Location::Sftp(_) => Self::Changed,
            _ if written_since => Self::Unchanged,
            Location::Object(_) => Self::UnchangedIfModified(found.modified),
            Location::Http(_) => Self::Changed,
        }
    }
}

/// Whether a destination is at least as new as its source, in whole seconds.
pub(crate) fn is_newer(destination: Option<SystemTime>, source: Option<SystemTime>) -> bool {
    destination.zip(source).is_some_and(|(there, here)| whole_seconds(there) >= whole_seconds(here))
}

/// Whole seconds since 1970, rounded down.
fn whole_seconds(time: SystemTime) -> i64 {
    let whole = |since: Duration| i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => whole(since),
        Err(before) => {
            let before = before.duration();
            -whole(before) - i64::from(before.subsec_nanos() > 0)
        }
    }
}

/// The comparison to make for a source.
pub(crate) enum Comparison {
    /// The content of an object of equal length.
    Content(Location),
    /// The checksums that the stores have, without a look at the bytes.
    Held(Location),
    /// The modification time of a file of equal length, in whole seconds since 1970.
    Modified(i64),
}

/// Whether two objects have the same content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sameness {
    Same,
    Different,
    /// The stores have no common checksum.
    Unknown,
}

impl Sameness {
    pub(crate) fn of(same: bool) -> Self {
        if same { Self::Same } else { Self::Different }
    }
}

/// A pair's source, and whether its destination has the same content.
pub(crate) type Outcome = (Entry, Result<Sameness>);

/// Pairs that are being compared. A hash takes a processor and a question to a store takes a round
/// trip, so one pair after the other would leave both idle.
pub(crate) struct Comparisons {
    store: Store,
    most: usize,
    running: usize,
    send: Sender<std::thread::Result<Outcome>>,
    receive: Receiver<std::thread::Result<Outcome>>,
    /// Set when the results are no longer needed.
    cancelled: Arc<AtomicBool>,
}

impl Comparisons {
    /// As many at a time as `concurrency` says; between local files, where a hash keeps a processor
    /// busy, one for each processor. Each needs a buffer of 128 KiB beside the workers' memory.
    pub(crate) fn new(store: &Store, concurrency: Concurrency, route: Route) -> Self {
        let most = match (concurrency, route) {
            (Concurrency::Fixed(most), _) => most,
            (Concurrency::Auto, Route::Local) => {
                std::thread::available_parallelism().map_or(1, usize::from).min(START)
            }
            (Concurrency::Auto, _) => START,
        };
        let (send, receive) = channel();
        Self { store: store.clone(), most: most.max(1), running: 0, send, receive, cancelled: Arc::default() }
    }

    /// Whether [`wait`](Self::wait) has to be called before another pair is started.
    pub(crate) fn is_full(&self) -> bool {
        self.running >= self.most
    }

    /// Starts to compare the object `location` of a source with its destination; `source` is
    /// returned with the outcome.
    pub(crate) fn start(&mut self, source: Entry, location: Location, with: Comparison) -> Result<()> {
        let (store, send, cancelled) = (self.store.clone(), self.send.clone(), Arc::clone(&self.cancelled));
        let compare = move || {
            let same = || match with {
                Comparison::Content(other) => same(&store, &location, &other, &cancelled).map(Sameness::of),
                Comparison::Held(other) => held_same(&store, &location, &other),
                // If the store fails, the copy reports why.
                Comparison::Modified(modified) => Ok(Sameness::of(store.stat(&location).is_ok_and(|stat| {
                    let wanted = source.version.as_ref().is_none_or(|it| it.agrees_with(&stat.version));
                    wanted && stat.modified.is_some_and(|time| whole_seconds(time) == modified)
                }))),
            };
            let outcome = catch_unwind(AssertUnwindSafe(same)).map(|same| (source, same));
            // Fails if the run has ended meanwhile.
            let _ = send.send(outcome);
        };
        let thread = std::thread::Builder::new().name("compare".into()).stack_size(STACK);
        thread.spawn(compare).map_err(Error::io("starting a thread"))?;
        self.running += 1;
        Ok(())
    }

    /// Waits for the next outcome. Returns `None` if no comparison is running.
    pub(crate) fn wait(&mut self) -> Option<Outcome> {
        if self.running == 0 {
            return None;
        }
        self.running -= 1;
        let outcome = self.receive.recv().ok()?;
        Some(outcome.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

impl Drop for Comparisons {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

fn same(store: &Store, left: &Location, right: &Location, cancelled: &AtomicBool) -> Result<bool> {
    let (held, other) = (held(store, left)?, held(store, right)?);
    if let (Some(held), Some(other)) = (&held, &other)
        && held.algorithm == other.algorithm
    {
        return Ok(held == other);
    }
    let algorithm =
        held.as_ref().or(other.as_ref()).map_or(Algorithm::Crc64Nvme, |checksum| checksum.algorithm);
    let read = |held: Option<Checksum>, location| match held {
        Some(held) if held.algorithm == algorithm => Ok(held),
        _ => content(store, location, algorithm, cancelled),
    };
    Ok(read(held, left)? == read(other, right)?)
}

fn held_same(store: &Store, left: &Location, right: &Location) -> Result<Sameness> {
    Ok(match (held(store, left)?, held(store, right)?) {
        (Some(left), Some(right)) if left.algorithm == right.algorithm => Sameness::of(left == right),
        _ => Sameness::Unknown,
    })
}

/// The checksum that a store has of an object.
fn held(store: &Store, location: &Location) -> Result<Option<Checksum>> {
    match location {
        Location::Local(_) | Location::Sftp(_) => Ok(None),
        _ => Ok(store.stat(location)?.checksum),
    }
}

/// The checksum of an object, read whole.
fn content(
    store: &Store,
    location: &Location,
    algorithm: Algorithm,
    cancelled: &AtomicBool,
) -> Result<Checksum> {
    let mut body = store.get(location, &Get::default())?;
    let mut hasher = Hasher::new(algorithm);
    let mut buffer = vec![0; BUFFER];
    while !cancelled.load(Ordering::Relaxed) {
        match body.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            read => hasher.update(&buffer[..read]),
        }
    }
    Err(Error::Interrupted)
}
