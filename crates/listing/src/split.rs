//! Reads one large ext4 directory from several positions at once.
//!
//! If a directory is indexed, ext4 returns entries in the order of their names' hashes. An entry's
//! position *is* that hash, whichever other entries are added or removed. So
//! [`lseek`](rustix::fs::seek) to any number leads to the first entry whose hash is not smaller,
//! and every reader finds the same entries between two numbers. Each part starts at a number and
//! stops at the next part's start. An entry's own position decides which part it is in, so there is
//! no overlap and no gap between parts, even while names are added and removed. Two threads halve
//! the time.
//!
//! POSIX promises none of this, so it is checked. Before reading: the file system must be known to
//! behave like this, and a seek to the middle of the directory must lead to positions beyond the
//! middle (an ext4 directory without index fails this check). In each part: positions must never
//! decrease. Where two parts meet: one part must stop at the entry at which the other began, unless
//! the directory was changed during the listing. If the check before reading fails, one thread
//! reads the directory. If a later check fails, the result is
//! [`Error::Disordered`](crate::Error::Disordered), because entries have been returned by then.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use rustix_futex_sync::Mutex;

use crate::batch::RecordDecision;
use crate::dirent::{MIN_BUFFER_BYTES, Raw, getdents, records};
use crate::open::reopen;
use crate::stat::Time;

/// Approximate number of entries in a part. Opening and seeking take about 30 us, reading this many
/// entries 3 ms.
const PART_ENTRIES: u64 = 16 << 10;
/// Maximum number of parts if their order does not matter. With this many, all threads end at about
/// the same time.
pub(crate) const MAX_UNORDERED_PARTS: u64 = 64;

/// A directory that is read in parts.
#[derive(Debug)]
struct Split {
    /// For each boundary that one of its two parts has reached: the first entry after the boundary,
    /// if any, as that part saw it.
    joins: Mutex<HashMap<i64, Option<Vec<u8>>>>,
    /// The directory's last change before the split.
    stamp: Stamp,
}

/// A part of a directory: the entries whose positions are at least `start` and less than `stop`.
#[derive(Debug)]
pub(crate) struct DirectoryPart {
    split: Arc<Split>,
    start: i64,
    stop: Option<i64>,
    /// True if the part continues the reading that was in progress at the split, so that no other
    /// part ends at its start.
    is_first: bool,
    /// Position of the next record, once it is known.
    position: Option<i64>,
    is_over: bool,
    is_ordered: bool,
    /// Name of the first entry at or after `start`, once it is read.
    first: Option<Vec<u8>>,
    /// Name of the first entry at or after `stop`, once it is read.
    after: Option<Vec<u8>>,
}

/// Plans at most `most` parts for the rest of a directory, of which `read` entries have been read,
/// up to position `next`. The first part continues at `next`, with the same descriptor. The result
/// is empty if splitting is not possible or not worthwhile.
pub(crate) fn plan(directory: impl AsFd + Copy, read: u64, next: i64, most: u64) -> Vec<DirectoryPart> {
    let boundaries = boundaries(read, next, most);
    let Some(middle) = boundaries.get(boundaries.len() / 2) else { return Vec::new() };
    let Ok(true) = can_seek_to(directory, *middle) else { return Vec::new() };
    let Ok(stamp) = Stamp::of(directory) else { return Vec::new() };
    let split = Arc::new(Split { joins: Mutex::default(), stamp });
    let starts = [next].into_iter().chain(boundaries.iter().copied());
    let stops = boundaries.iter().copied().map(Some).chain([None]);
    let part = |(start, stop)| DirectoryPart::new(&split, start, stop, start == next);
    starts.zip(stops).map(part).collect()
}

/// Returns the starts of all parts except the first, if `read` entries of the directory are before
/// `position`. The parts have equal ranges of hashes, because hashes are distributed evenly.
fn boundaries(read: u64, position: i64, most: u64) -> Vec<i64> {
    let Some(before) = u64::try_from(position).ok().filter(|before| *before > 0) else { return Vec::new() };
    let left = i64::MAX as u64 - before;
    let entries = u128::from(read) * u128::from(left) / u128::from(before);
    let parts = u64::try_from(entries / u128::from(PART_ENTRIES)).unwrap_or(most).min(most);
    (1..parts).map(|index| position + (left / parts * index) as i64).collect()
}

/// True if a seek to `position` leads to entries after that position, in order.
fn can_seek_to(directory: impl AsFd, position: i64) -> rustix::io::Result<bool> {
    let probe = reopen(directory)?;
    let mut buffer = [0; MIN_BUFFER_BYTES];
    let filled = seek_and_read(&probe, position, &mut buffer)?;
    let mut last = position;
    let mut ordered = filled > 0;
    for raw in records(&buffer[..filled], 0) {
        let next = raw?.next;
        ordered &= next >= last;
        last = next;
    }
    Ok(ordered)
}

/// Returns the name of the first entry at or after `position`.
fn first_from(directory: impl AsFd, position: i64) -> rustix::io::Result<Option<Vec<u8>>> {
    let mut buffer = [0; MIN_BUFFER_BYTES];
    let filled = seek_and_read(reopen(directory)?, position, &mut buffer)?;
    let Some(raw) = records(&buffer[..filled], 0).next().transpose()? else { return Ok(None) };
    Ok(Some(buffer[raw.name..raw.name + raw.len].to_vec()))
}

fn seek_and_read(directory: impl AsFd, position: i64, buffer: &mut [u8]) -> rustix::io::Result<usize> {
    seek(&directory, position)?;
    getdents(directory, buffer)
}

fn seek(directory: impl AsFd, position: i64) -> rustix::io::Result<()> {
    let offset = u64::try_from(position).map_err(|_| Errno::INVAL)?;
    if rustix::fs::seek(directory, SeekFrom::Start(offset))? == offset { Ok(()) } else { Err(Errno::INVAL) }
}

impl DirectoryPart {
    fn new(split: &Arc<Split>, start: i64, stop: Option<i64>, is_first: bool) -> Self {
        let position = is_first.then_some(start);
        let split = Arc::clone(split);
        Self {
            split,
            start,
            stop,
            is_first,
            position,
            is_over: false,
            is_ordered: true,
            first: None,
            after: None,
        }
    }

    /// True if this part continues the reading that was in progress when the directory was split,
    /// with the same descriptor.
    pub(crate) fn is_first(&self) -> bool {
        self.is_first
    }

    /// Seeks with `own`, a separate descriptor of the directory, to this part's start.
    pub(crate) fn begin(&self, own: impl AsFd) -> rustix::io::Result<()> {
        seek(own, self.start)
    }

    /// Decides whether a record belongs to this part.
    pub(crate) fn take(
        &mut self,
        raw: &Raw,
        name: &[u8],
        directory: impl AsFd,
    ) -> rustix::io::Result<RecordDecision> {
        if raw.next < self.position.unwrap_or(self.start) {
            (self.is_over, self.is_ordered) = (true, false);
            return Ok(RecordDecision::Stop);
        }
        let beyond = match (self.stop, self.position) {
            (None, _) => false,
            (Some(stop), Some(position)) => position >= stop,
            // The position of the first record itself is unknown. If the next record is beyond the
            // stop, the first one may be too.
            (Some(stop), None) => {
                raw.next >= stop && first_from(directory, stop)?.is_some_and(|first| first == name)
            }
        };
        if self.position.is_none() {
            self.first = Some(name.to_vec());
        }
        if beyond {
            self.after = Some(name.to_vec());
            self.is_over = true;
            return Ok(RecordDecision::Stop);
        }
        self.position = Some(raw.next);
        Ok(RecordDecision::Entry)
    }

    /// True if all further entries belong to the next part.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// True if this part has no gap to its neighbours and no overlap with them. Neighbours that are
    /// not done yet are not checked. If the directory may have changed since the split, only the
    /// order of the part's own positions is checked.
    pub(crate) fn joins(&self, directory: impl AsFd) -> bool {
        let starts = self.is_first || self.split.record_seen(self.start, self.first.as_ref());
        let stops = self.stop.is_none_or(|stop| self.split.record_seen(stop, self.after.as_ref()));
        self.is_ordered && ((starts && stops) || !self.split.stamp.is_current(directory))
    }
}

impl Split {
    /// Records the entry that one side of a boundary saw. False if the other side saw another
    /// entry.
    fn record_seen(&self, boundary: i64, seen: Option<&Vec<u8>>) -> bool {
        let mut joins = self.joins.lock();
        match joins.remove(&boundary) {
            Some(other) => other.as_ref() == seen,
            None => joins.insert(boundary, seen.cloned()).is_none(),
        }
    }
}

/// The last modification of a directory. A change within the same clock tick does not change it.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    seconds: i64,
    nanoseconds: u64,
    /// Time at which the modification time was read.
    seen: SystemTime,
}

/// Age from which a modification time is reliable. Such times advance by the kernel's tick, at most
/// 10 ms, and a change within the same tick may leave the time unchanged.
const MAX_TICK: Duration = Duration::from_millis(20);

impl Stamp {
    fn of(directory: impl AsFd) -> rustix::io::Result<Self> {
        let stat = rustix::fs::fstat(directory)?;
        Ok(Self { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec, seen: SystemTime::now() })
    }

    /// True if the directory certainly has not changed since the modification time was read.
    fn is_current(&self, directory: impl AsFd) -> bool {
        let time = Time { seconds: self.seconds, nanoseconds: self.nanoseconds as u32 };
        let long_ago =
            time.system().is_some_and(|time| self.seen.duration_since(time).is_ok_and(|age| age > MAX_TICK));
        long_ago
            && Self::of(directory)
                .is_ok_and(|now| (now.seconds, now.nanoseconds) == (self.seconds, self.nanoseconds))
    }
}

#[cfg(test)]
mod tests;
