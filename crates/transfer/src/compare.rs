//! Decides whether a destination is complete and unchanged: by size and time, or by content.
//!
//! **By size and time**: the lengths must be equal, and the times must show that the destination
//! was written after the source was last modified. A copied file, local or over SFTP, gets the time
//! of its source, so only equal times count. They must be equal as exactly as the file systems can
//! store them ([`times`](crate::times)). A store gives each object the date at which it was
//! written. The date proves that the copy is unchanged in these cases:
//!
//! - Upload: the object is at least [`TIME_MARGIN`] younger than the file's modification time and
//!   inode change time. The inode change time reveals a file that was replaced by one with an older
//!   modification time.
//! - Download: the file's inode change time is at least [`TIME_MARGIN`] after the object's date,
//!   and the file's modification time is not later than the object's.
//! - Between stores: the copy is at least [`TIME_MARGIN`] younger than the source.
//!
//! A web server reports the date of its file, and only local files and stores report when their
//! content was replaced. So the date of any other source proves nothing unless the times are equal.
//!
//! A store's clock may be wrong. Its `Date` header shows by how much, and a date in the future
//! proves nothing. If the listing proves nothing, a HEAD request decides (between two stores, one
//! HEAD request to each). The copy has written the source's modification time into the metadata of
//! the object (`x-amz-meta-mtime`): if both times are equal, the object is unchanged. If the object
//! has no such metadata, the times in the listing are compared in whole seconds.
//!
//! **By content**: checksums that both stores have are compared. If only one store has a checksum,
//! the same kind of checksum is computed from the other object's bytes. [`sync`](crate::sync)
//! compares several pairs at a time.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime};

use firstbyte_fetch::{Interest, RequestEnd, RequestEvent, TrackerSlot, Tries};
use firstbyte_location::{Entry, EntryKind, Location};
use firstbyte_pacing::{RequestTracker, START};
use firstbyte_store::{
    Algorithm, BUFFER, Beneath, Body, Checksum, Error as StoreError, FoundEntry, Get, Hasher, Outages, STACK,
    Stat, StatedLength, Store, StoredTimes,
};

use crate::error::{Error, Result};
use crate::job::{TransferRoute, Tree, as_path};
use crate::settings::Concurrency;
use crate::times::{SourceTime, is_same, stored_times, whole_seconds};

/// Smallest difference of two times that proves their order. Dates have whole seconds, and clocks
/// differ a little.
const TIME_MARGIN: Duration = Duration::from_secs(2);

/// The result of comparing sizes and times of two objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeVerdict {
    /// The destination is complete and unchanged.
    Unchanged,
    /// The object has to be copied.
    Changed,
    /// The metadata of an object decide. They have to be requested, because a listing does not
    /// contain them.
    CheckMetadata(MetadataCheck),
}

/// A comparison by the modification time in the metadata of an object, which has to be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MetadataCheck {
    of: MetadataHolder,
    /// The times that the file system of the copy can store, if they are known.
    stored: Option<StoredTimes>,
    /// The result if the metadata contain no modification time.
    otherwise: Sameness,
}

/// The object whose metadata are requested, because a copy has written the modification time of the
/// original file into them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetadataHolder {
    /// The source. Its metadata are compared with this time of the destination's file.
    Source(SystemTime),
    /// The destination. Its metadata are compared with this time of the source's file.
    Destination(SystemTime),
    /// Source and destination, because the source is an object too. The time in the destination's
    /// metadata is compared with the source's time: the one in its metadata or, without that, its
    /// date.
    Both,
}

impl TimeVerdict {
    pub(crate) fn unchanged_if(unchanged: bool) -> Self {
        if unchanged { Self::Unchanged } else { Self::Changed }
    }

    fn check_metadata(of: MetadataHolder, stored: Option<StoredTimes>, otherwise: bool) -> Self {
        Self::CheckMetadata(MetadataCheck { of, stored, otherwise: Sameness::of(otherwise) })
    }

    /// Returns `Unchanged` if the destination's file is at least as new as the listed source.
    pub(crate) fn unless_newer(tree: &Tree<'_>, source: &Entry, found: &FoundEntry, root: &Beneath) -> Self {
        let stored = || stored_times(tree, root, &source.name);
        let is_newer = is_newer(Some(found.modified), SourceTime::of(&tree.source, source), stored);
        Self::unchanged_if(found.kind == EntryKind::File && is_newer)
    }

    /// Compares two listed entries of equal length.
    pub(crate) fn of_entries(
        tree: &Tree<'_>,
        store: &Store,
        beneath: Option<&Beneath>,
        source: &Entry,
        destination: &Entry,
    ) -> Self {
        let (Some(modified), Some(there)) = (source.modified, destination.modified) else {
            return Self::Changed;
        };
        match (beneath, &tree.source, &tree.destination) {
            _ if source.size.is_none() => Self::Changed,
            (Some(beneath), Location::Local(_) | Location::Sftp(_), _) => {
                let stored = || stored_times(tree, beneath, &destination.name);
                let time = SourceTime::of(&tree.source, source);
                Self::unchanged_if(time.is_some_and(|time| is_same(time, there, stored)))
            }
            // The listing does not contain the inode change time, so the file is looked up.
            (Some(beneath), ..) => match beneath.find(as_path(&destination.name)) {
                Ok(Some(found)) => Self::of_file(tree, store, source, &found, beneath),
                _ => Self::Changed,
            },
            // An earlier copy has set the file's time to the listed time of the source or to the
            // one in the object's metadata. If the file still has one of them, it is unchanged.
            (None, from, Location::Sftp(_)) => match from {
                _ if is_same(SourceTime::rounded(modified), there, || Some(StoredTimes::HOST)) => {
                    Self::Unchanged
                }
                Location::Object(_) => {
                    Self::check_metadata(MetadataHolder::Source(there), Some(StoredTimes::HOST), false)
                }
                _ => Self::Changed,
            },
            (None, Location::Object(_), Location::Object(_)) => {
                let (from, to) =
                    (DateRange::of(store, tree, modified), DateRange::of_destination(store, tree, there));
                let proved = match is_one_service(&tree.source, &tree.destination) {
                    true => is_after(there, modified),
                    false => is_after(to.earliest, from.latest) && to.is_past(),
                };
                Self::unless_proved(proved, MetadataHolder::Both, modified, there)
            }
            (None, _, Location::Http(_)) if is_same(SourceTime::rounded(modified), there, || None) => {
                Self::Unchanged
            }
            (None, Location::Object(_), _) => {
                Self::unchanged_if(whole_seconds(there) >= whole_seconds(modified))
            }
            // If no change time is known, a date proves nothing: hosts and web servers show the old
            // date of a file that has replaced another (`rsync -t`, `cp -p`, `tar x`).
            (None, ..) => match source.changed {
                None => Self::check_metadata(MetadataHolder::Destination(modified), None, false),
                Some(changed) => {
                    let object = DateRange::of_destination(store, tree, there);
                    let proved = is_after(object.earliest, changed.max(modified)) && object.is_past();
                    Self::unless_proved(proved, MetadataHolder::Destination(modified), modified, there)
                }
            },
        }
    }

    /// Returns `Unchanged` if `proved`. Otherwise the metadata decide. If the metadata contain no
    /// time, the destination must not be older in whole seconds.
    fn unless_proved(proved: bool, of: MetadataHolder, modified: SystemTime, there: SystemTime) -> Self {
        match proved {
            true => Self::Unchanged,
            false => Self::check_metadata(of, None, whole_seconds(there) >= whole_seconds(modified)),
        }
    }

    /// Compares a listed source with a file at a local destination.
    pub(crate) fn of_file(
        tree: &Tree<'_>,
        store: &Store,
        source: &Entry,
        found: &FoundEntry,
        root: &Beneath,
    ) -> Self {
        let Some(time) = SourceTime::of(&tree.source, source) else { return Self::Changed };
        let modified = time.modified;
        if found.kind != EntryKind::File || source.size != Some(found.size) {
            return Self::Changed;
        }
        let stored = || stored_times(tree, root, &source.name);
        let (there, here) = (whole_seconds(found.modified), whole_seconds(modified));
        let is_older = there < here && whole_seconds(found.changed) >= here;
        match &tree.source {
            // A web server reports the date of its file, even if that file has replaced a newer
            // one. If the copy has another date, only the metadata of a gateway or of `serve` can
            // show that the content is the same.
            Location::Http(_) if is_older && !is_same(time, found.modified, stored) => {
                Self::check_metadata(MetadataHolder::Source(found.modified), stored(), false)
            }
            Location::Local(_) | Location::Sftp(_) | Location::Http(_) => {
                Self::unchanged_if(is_same(time, found.modified, stored))
            }
            Location::Object(_) => {
                let unchanged = there == here || is_older || is_same(time, found.modified, stored);
                let written_since = is_after(found.changed, DateRange::of(store, tree, modified).latest);
                match unchanged && written_since {
                    true => Self::Unchanged,
                    false => {
                        Self::check_metadata(MetadataHolder::Source(found.modified), stored(), unchanged)
                    }
                }
            }
        }
    }
}

/// The date of an object in terms of this machine's clock. It is a range, because the error of the
/// store's clock is known only roughly.
struct DateRange {
    earliest: SystemTime,
    latest: SystemTime,
}

impl DateRange {
    fn of(store: &Store, tree: &Tree<'_>, date: SystemTime) -> Self {
        Self::at(store.clock_ahead(&tree.source).unwrap_or(0), date)
    }

    fn of_destination(store: &Store, tree: &Tree<'_>, date: SystemTime) -> Self {
        Self::at(store.clock_ahead(&tree.destination).unwrap_or(0), date)
    }

    /// Converts a date of a store to this machine's clock. The store's clock is at most `ahead`
    /// seconds ahead; a negative number means behind.
    fn at(ahead: i64, date: SystemTime) -> Self {
        let seconds = Duration::from_secs(ahead.unsigned_abs());
        let (before, after) = (date.checked_sub(seconds), date.checked_add(seconds));
        Self {
            earliest: before.filter(|_| ahead > 0).unwrap_or(date),
            latest: after.filter(|_| ahead < 0).unwrap_or(date),
        }
    }

    fn is_past(&self) -> bool {
        self.earliest <= SystemTime::now() + TIME_MARGIN
    }
}

/// Returns whether both are objects of the same kind of service, so their dates come from the same
/// clock.
fn is_one_service(one: &Location, other: &Location) -> bool {
    matches!((one, other), (Location::Object(one), Location::Object(other)) if one.service == other.service)
}

/// Returns whether the time `later` is certainly after `earlier`, in spite of rounding and clock
/// differences.
fn is_after(later: SystemTime, earlier: SystemTime) -> bool {
    earlier.checked_add(TIME_MARGIN).is_some_and(|earlier| later >= earlier)
}

/// Returns whether a destination is at least as new as its source. Returns false if one of them has
/// no time.
pub(crate) fn is_newer(
    destination: Option<SystemTime>,
    source: Option<SourceTime>,
    stored: impl FnOnce() -> Option<StoredTimes>,
) -> bool {
    let newer = |(there, here): (_, SourceTime)| there >= here.modified || is_same(here, there, stored);
    destination.zip(source).is_some_and(newer)
}

/// Returns whether an object or file is a complete copy of another, by length and time. The times
/// must be equal, because each copy gets its source's time. A store's date has whole seconds, and
/// the source may have changed again within the same second, so the copy of an object must also be
/// younger.
pub(crate) fn is_copied(from: &Stat, there: &Stat, stored: impl FnOnce() -> Option<StoredTimes>) -> bool {
    let is_file = from.kind == EntryKind::File && there.kind == EntryKind::File;
    let (Some(time), Some(copied)) = (SourceTime::of_stat(from), there.modified) else { return false };
    if !is_file || from.size().is_none() || from.size() != there.size() || !is_same(time, copied, stored) {
        return false;
    }
    let is_exact = from.version.file.is_some() || from.metadata.modified.is_some();
    is_exact || there.written().is_some_and(|written| is_after(written, time.modified))
}

/// How a source is compared with its destination.
pub(crate) enum SourceComparison {
    /// Compare the content with the content of the object at this location, which has the same
    /// length.
    Content(Location),
    /// Compare the checksums that the stores have, without reading bytes.
    StoredChecksums(Location),
    /// Compare the modification time in the metadata of an object of equal length.
    Times(MetadataCheck, Location),
}

impl MetadataCheck {
    fn answer(
        self,
        store: &Store,
        source: &Entry,
        from: &Location,
        to: &Location,
    ) -> firstbyte_store::Result<Sameness> {
        let of_source = || {
            let stat = store.stat_object(from)?;
            let is_wanted = source.version.as_ref().is_none_or(|it| it.agrees_with(&stat.version))
                && source.size == stat.size();
            Ok::<_, firstbyte_store::Error>((stat, is_wanted))
        };
        let (source_time, copy_time) = match self.of {
            MetadataHolder::Source(file) => {
                let (stat, is_wanted) = of_source()?;
                if !is_wanted {
                    return Ok(Sameness::Different);
                }
                (stat.metadata.modified, Some(file))
            }
            MetadataHolder::Destination(file) => {
                let stat = store.stat_object(to)?;
                if stat.size() != source.size {
                    return Ok(Sameness::Different);
                }
                (Some(file), stat.metadata.modified)
            }
            MetadataHolder::Both => {
                let (stat, is_wanted) = of_source()?;
                if !is_wanted {
                    return Ok(Sameness::Different);
                }
                (stat.modified, store.stat_object(to)?.metadata.modified)
            }
        };
        Ok(match source_time.zip(copy_time) {
            Some((source, copy)) => Sameness::of(is_same(SourceTime::rounded(source), copy, || self.stored)),
            None => self.otherwise,
        })
    }
}

/// Result of comparing the contents of two objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sameness {
    Same,
    Different,
    /// The stores have no checksum in common.
    Unknown,
}

impl Sameness {
    pub(crate) fn of(same: bool) -> Self {
        if same { Self::Same } else { Self::Different }
    }
}

/// The listed entry of a source that was compared, and the outcome.
pub(crate) type ComparedPair = (Entry, Result<Sameness>);

/// Pairs of objects that are compared concurrently. Comparing one pair after the other would waste
/// time, because a request takes a round trip and hashing keeps a processor busy.
pub(crate) struct Comparisons {
    store: Store,
    max_running: usize,
    running: usize,
    send: Sender<std::thread::Result<ComparedPair>>,
    receive: Receiver<std::thread::Result<ComparedPair>>,
    /// Set when the results of the running comparisons are no longer needed.
    cancelled: Arc<AtomicBool>,
}

impl Comparisons {
    /// Compares up to `concurrency` pairs at a time. `Auto` means [`START`] pairs, and between
    /// local files at most one pair per processor, because hashing keeps a processor busy. Each
    /// running comparison needs a buffer of 128 KiB in addition to the workers' memory.
    pub(crate) fn new(store: &Store, concurrency: Concurrency, route: TransferRoute) -> Self {
        let max_running = match (concurrency, route) {
            (Concurrency::Fixed(max_running), _) => max_running,
            (Concurrency::Auto, TransferRoute::Local) => {
                std::thread::available_parallelism().map_or(1, usize::from).min(START)
            }
            (Concurrency::Auto, _) => START,
        };
        let (send, receive) = channel();
        Self {
            store: store.clone(),
            max_running: max_running.max(1),
            running: 0,
            send,
            receive,
            cancelled: Arc::default(),
        }
    }

    /// Returns whether the caller has to call [`wait`](Self::wait) before starting another pair.
    pub(crate) fn is_full(&self) -> bool {
        self.running >= self.max_running
    }

    /// Starts to compare the object at `location` with its destination. `source` is the listed
    /// entry of the object. [`wait`](Self::wait) returns the entry together with the outcome.
    pub(crate) fn start(&mut self, source: Entry, location: Location, with: SourceComparison) -> Result<()> {
        let (store, send, cancelled) = (self.store.clone(), self.send.clone(), Arc::clone(&self.cancelled));
        let compare = move || {
            let same = || match with {
                SourceComparison::Content(other) => {
                    is_same_content(&store, &location, &other, &cancelled).map(Sameness::of)
                }
                SourceComparison::StoredChecksums(other) => {
                    compare_stored_checksums(&store, &location, &other)
                }
                // If the request fails, the object counts as different, and the copy that follows
                // reports why.
                SourceComparison::Times(check, other) => {
                    Ok(check.answer(&store, &source, &location, &other).unwrap_or(Sameness::Different))
                }
            };
            let outcome = catch_unwind(AssertUnwindSafe(same)).map(|same| (source, same));
            // Sending fails if the run has ended in the meantime.
            let _ = send.send(outcome);
        };
        let thread = std::thread::Builder::new().name("compare".into()).stack_size(STACK);
        thread.spawn(compare).map_err(Error::io("starting a thread"))?;
        self.running += 1;
        Ok(())
    }

    /// Waits for the outcome of a running comparison. Returns `None` if no comparison is running.
    pub(crate) fn wait(&mut self) -> Option<ComparedPair> {
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

fn is_same_content(store: &Store, left: &Location, right: &Location, cancelled: &AtomicBool) -> Result<bool> {
    let (held, other) = (stored_checksum(store, left)?, stored_checksum(store, right)?);
    if let (Some(held), Some(other)) = (&held, &other)
        && held.algorithm == other.algorithm
    {
        return Ok(held == other);
    }
    let algorithm =
        held.as_ref().or(other.as_ref()).map_or(Algorithm::Crc64Nvme, |checksum| checksum.algorithm);
    let read = |held: Option<Checksum>, location| match held {
        Some(held) if held.algorithm == algorithm => Ok(held),
        _ => read_checksum(store, location, algorithm, cancelled),
    };
    Ok(read(held, left)? == read(other, right)?)
}

/// Returns whether two files have the same bytes. Ends at the first difference.
pub(crate) fn has_same_bytes(store: &Store, left: &Location, right: &Location) -> Result<bool> {
    let open = |location| store.get(location, &Get::default());
    let (mut left, mut right) = (open(left)?, open(right)?);
    let mut buffers = [vec![0; BUFFER / 2], vec![0; BUFFER / 2]];
    loop {
        let [one, other] = &mut buffers;
        let (read, found) = (fill(&mut left, one)?, fill(&mut right, other)?);
        if one[..read] != other[..found] {
            return Ok(false);
        }
        if read == 0 {
            return Ok(true);
        }
    }
}

/// Reads until the buffer is full or the body ends. Returns the number of bytes.
fn fill(body: &mut Body, buffer: &mut [u8]) -> std::result::Result<usize, StoreError> {
    let mut filled = 0;
    while filled < buffer.len() {
        match body.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

fn compare_stored_checksums(store: &Store, left: &Location, right: &Location) -> Result<Sameness> {
    Ok(match (stored_checksum(store, left)?, stored_checksum(store, right)?) {
        (Some(left), Some(right)) if left.algorithm == right.algorithm => Sameness::of(left == right),
        _ => Sameness::Unknown,
    })
}

/// Returns the store's checksum of an object. Local files and SFTP have none.
fn stored_checksum(store: &Store, location: &Location) -> Result<Option<Checksum>> {
    match location {
        Location::Local(_) | Location::Sftp(_) => Ok(None),
        _ => Ok(store.stat(location)?.checksum),
    }
}

/// Lets a read continue until its comparison is cancelled.
struct Uncancelled<'a>(&'a AtomicBool);

impl Interest for Uncancelled<'_> {
    fn is_wanted(&self, _: Tries) -> bool {
        !self.0.load(Ordering::Relaxed)
    }

    fn is_known(&self) -> bool {
        false
    }

    fn outages(&self) -> Outages {
        Outages::WaitFor
    }

    fn count(&self, _: RequestEvent) {}
}

/// Computes the checksum of an object by reading all of it. After a transient failure, starts
/// again.
fn read_checksum(
    store: &Store,
    location: &Location,
    algorithm: Algorithm,
    cancelled: &AtomicBool,
) -> Result<Checksum> {
    let tracker = RequestTracker::new(1, Instant::now());
    let slot = TrackerSlot { tracker: &tracker, index: 0 };
    let read = |length| {
        slot.request(&Uncancelled(cancelled), None, |_| {
            hash(store.get(location, &Get { length, ..Get::default() })?, algorithm, cancelled)
        })
    };
    let checked = match read(StatedLength::Checked) {
        Err(RequestEnd::Failed(error)) if error.is_false_length() => read(StatedLength::Ignored),
        other => other,
    };
    checked.map_err(|ended| match ended {
        RequestEnd::Failed(error) => error,
        RequestEnd::Unwanted(_) => Error::Interrupted,
    })
}

fn hash(mut body: Body, algorithm: Algorithm, cancelled: &AtomicBool) -> Result<Checksum> {
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
