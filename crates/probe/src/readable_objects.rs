//! Finds objects of the probed location that can be read, by a bounded listing.
//!
//! Objects and files have the same type, so that all measurements are the same. Only the page cache
//! differs: local files are dropped from it before they are read. An object that cannot be read
//! (archived, denied, deleted meanwhile) is left out from then on.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use firstbyte_location::{ByteRange, Entry, EntryKind, Location};
use firstbyte_store::{Body, Get, ListOptions, Store};
use rustix::fs::{Advice, fadvise, fdatasync};

use crate::error::{Error, Result};
use crate::part::{PartEnd, concerns_object};

/// Maximum number of objects to find: some pages of a bucket, or a large directory.
pub(crate) const MAX_SAMPLES: usize = 4_096;

/// Maximum length of a small object, in bytes.
const MAX_SMALL_SIZE: u64 = 256 << 10;

/// Minimum length of an object that serves to measure rates, in bytes. If no object is that long,
/// the largest one serves.
const MIN_LARGE_SIZE: u64 = 16 << 20;

/// Length of one read, in bytes.
pub(crate) const READ_BYTES: usize = 1 << 20;

/// An object with content.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) location: Location,
    pub(crate) size: u64,
    /// The reason why the object cannot be read, once a read has failed.
    lost: OnceLock<String>,
    /// Set once the file's bytes are on the disk. Only then can they be dropped from the page
    /// cache.
    flushed: OnceLock<()>,
}

/// The objects that were found at a location.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    /// The objects, at most [`MAX_SAMPLES`].
    all: Vec<Sample>,
    /// Local files without content, which only serve to be opened; at most [`MAX_SAMPLES`].
    without_content: Vec<Sample>,
    /// Position of the next read in the concatenated large objects.
    cursor: AtomicU64,
}

/// A range of a sample.
pub(crate) struct SampleRange<'s> {
    pub(crate) sample: &'s Sample,
    pub(crate) range: ByteRange,
}

impl Samples {
    /// Returns the samples of a location that is a single object.
    pub(crate) fn one(location: Location, size: u64) -> Self {
        Self { all: vec![Sample::new(location, size)], ..Self::default() }
    }

    /// Lists objects with content below `location`, at most `most`, for at most `time`.
    pub(crate) fn below(store: &Store, location: &Location, most: usize, time: Duration) -> Result<Self> {
        let (mut found, until) = (Self::default(), Instant::now() + time);
        let options = ListOptions { recursive: true, ..ListOptions::default() };
        let mut entries = store.list(location, &options)?;
        while found.all.len() < most {
            match entries.next() {
                None => break,
                // This user may lack access to single directories of a local tree.
                Some(Err(error)) if location.as_local().is_none() && found.all.is_empty() => {
                    return Err(error.into());
                }
                Some(Err(_)) if location.as_local().is_none() => break,
                Some(Err(_)) => {}
                Some(Ok(entry)) => found.extend(location, &entry),
            }
            if Instant::now() >= until {
                break;
            }
        }
        Ok(found)
    }

    fn extend(&mut self, below: &Location, entry: &Entry) {
        let Some(size) = entry.size.filter(|_| entry.kind == EntryKind::File) else { return };
        let sample = || Sample::new(below.join(&entry.name), size);
        if size > 0 {
            self.all.push(sample());
        } else if below.as_local().is_some() && self.without_content.len() < MAX_SAMPLES {
            self.without_content.push(sample());
        }
    }

    /// Returns the objects to measure small operations with: those that can be read and, if there
    /// are none, the local files without content, which can at least be opened.
    pub(crate) fn openable(&self) -> Vec<&Sample> {
        let readable = self.readable();
        if readable.is_empty() { self.without_content.iter().collect() } else { readable }
    }

    /// Returns the objects that can be read, as far as is known.
    pub(crate) fn readable(&self) -> Vec<&Sample> {
        self.all.iter().filter(|sample| !sample.is_lost()).collect()
    }

    /// Returns true if no object with content was found.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the number of objects that cannot be read, and the reason of the first.
    pub(crate) fn lost(&self) -> Option<(usize, String)> {
        let mut lost = self.all.iter().filter_map(|sample| sample.lost.get());
        let first = lost.next()?.clone();
        Some((1 + lost.count(), first))
    }

    /// Returns the objects that are read whole, as small files.
    pub(crate) fn small(&self) -> Vec<&Sample> {
        self.readable().into_iter().filter(|sample| sample.size <= MAX_SMALL_SIZE).collect()
    }

    /// Returns the objects that serve to measure rates: the large objects or, if there are none,
    /// the largest object.
    pub(crate) fn large(&self) -> Vec<&Sample> {
        let readable = self.readable();
        if readable.iter().all(|sample| sample.size < MIN_LARGE_SIZE) {
            return readable.into_iter().max_by_key(|sample| sample.size).into_iter().collect();
        }
        readable.into_iter().filter(|sample| sample.size >= MIN_LARGE_SIZE).collect()
    }

    /// Takes the next `length` bytes of the large objects, which start over after their end. A
    /// piece that reaches the end of an object is shorter. `None` if nothing can be read.
    pub(crate) fn next(&self, length: u64) -> Option<SampleRange<'_>> {
        let large = self.large();
        let total: u64 = large.iter().map(|sample| sample.size).sum();
        let mut at = self.cursor.fetch_add(length, Ordering::Relaxed).checked_rem(total)?;
        let sample = large.iter().find(|sample| {
            let here = at < sample.size;
            at -= if here { 0 } else { sample.size };
            here
        })?;
        let range = ByteRange::new(at, (at + length).min(sample.size));
        Some(SampleRange { sample, range })
    }
}

impl Sample {
    fn new(location: Location, size: u64) -> Self {
        Self { location, size, lost: OnceLock::new(), flushed: OnceLock::new() }
    }

    /// Returns true if this object cannot be read.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    /// Judges an attempt to read this object. Returns `None` if the object is to be left out.
    pub(crate) fn judge<T>(&self, attempt: Result<T>) -> std::result::Result<Option<T>, PartEnd> {
        match self.record_failure(attempt) {
            Ok(done) => Ok(Some(done)),
            Err(_) if self.is_lost() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Remembers a failure that concerns this object.
    pub(crate) fn record_failure<T>(&self, attempt: Result<T>) -> Result<T> {
        if let Err(error) = &attempt
            && concerns_object(error)
        {
            let _ = self.lost.set(error.to_string());
        }
        attempt
    }

    /// Begins to read a range. A local file is first dropped from the page cache.
    pub(crate) fn open(&self, store: &Store, range: ByteRange) -> Result<Body> {
        self.drop_cached(range);
        Ok(store.get(&self.location, &Get { range: Some(range), ..Get::default() })?)
    }

    /// Opens and closes a local file. Returns the seconds that both took together.
    pub(crate) fn open_only(&self) -> Result<f64> {
        let path = self.location.as_local().unwrap_or(std::path::Path::new(""));
        let began = Instant::now();
        let file = File::open(path).map_err(|source| Error::io(&self.location, source))?;
        drop(file);
        Ok(began.elapsed().as_secs_f64())
    }

    /// Opens a local file, and reads its first block. Returns the seconds that the read alone took.
    pub(crate) fn first_block(&self) -> Result<f64> {
        let path = self.location.as_local().unwrap_or(std::path::Path::new(""));
        self.drop_cached(ByteRange::new(0, self.size));
        let failed = |source| Error::io(&self.location, source);
        let file = File::open(path).map_err(failed)?;
        let began = Instant::now();
        file.read_at(&mut [0; 4_096], 0).map_err(failed)?;
        Ok(began.elapsed().as_secs_f64())
    }

    fn drop_cached(&self, range: ByteRange) {
        let Some(file) = self.location.as_local().and_then(|path| File::open(path).ok()) else { return };
        // Pages that are not yet on the disk stay in the cache (posix_fadvise(2)).
        self.flushed.get_or_init(|| {
            if may_be_dirty(&file) {
                let _ = fdatasync(&file);
            }
        });
        // On a file system without a separate disk (tmpfs) the pages stay; it has no colder state.
        let _ = fadvise(&file, range.start, std::num::NonZeroU64::new(range.len()), Advice::DontNeed);
    }
}

/// Age from which the kernel has written changed pages by itself: twice the 30 s of
/// `dirty_expire_centisecs` (Documentation/admin-guide/sysctl/vm.rst of Linux).
const WRITTEN_AFTER: Duration = Duration::from_secs(60);

/// Returns true if a file may have pages that are not yet on the disk. Flushing takes time even if
/// a file has no such pages.
fn may_be_dirty(file: &File) -> bool {
    let modified = file.metadata().and_then(|metadata| metadata.modified());
    modified.ok().and_then(|time| time.elapsed().ok()).is_none_or(|age| age < WRITTEN_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(sizes: &[u64]) -> Samples {
        let all = sizes
            .iter()
            .map(|size| Sample::new(Location::parse(format!("/x/{size}").as_ref()).unwrap(), *size));
        Samples { all: all.collect(), ..Samples::default() }
    }

    #[test]
    fn pieces_follow_each_other_through_all_large_objects_and_begin_again() {
        let samples = samples(&[20 << 20, 1_000, 16 << 20]);
        assert_eq!(samples.large().len(), 2);
        let piece = || {
            let SampleRange { sample, range } = samples.next(8 << 20).unwrap();
            (sample.size >> 20, range.start >> 20, range.end >> 20)
        };
        let taken: Vec<_> = (0..6).map(|_| piece()).collect();
        assert_eq!(taken, [(20, 0, 8), (20, 8, 16), (20, 16, 20), (16, 4, 12), (16, 12, 16), (20, 4, 12)]);
    }

    #[test]
    fn where_no_object_is_large_the_largest_is_read() {
        let samples = samples(&[5, 4_000]);
        assert_eq!(samples.large()[0].size, 4_000);
        assert_eq!(samples.small().len(), 2);
        assert!(self::samples(&[]).next(1).is_none());
    }

    #[test]
    fn an_object_that_cannot_be_read_is_left_out_and_counted() {
        let samples = samples(&[5, 4_000]);
        let archived = |location: &str| {
            let (location, class) = (location.to_owned(), "GLACIER".to_owned());
            Error::Store(firstbyte_store::Error::Archived { location, class, trace: None })
        };
        assert_eq!(samples.all[1].judge(Err::<(), _>(archived("s3://b/k"))), Ok(None));
        assert_eq!(samples.large()[0].size, 5);
        let (count, why) = samples.lost().unwrap();
        assert!(count == 1 && why.contains("s3://b/k"), "{why}");
        let slow = |location: &str| {
            let location = location.to_owned();
            Error::Store(firstbyte_store::Error::SlowDown { location, retry_after: None, trace: None })
        };
        assert_eq!(samples.all[0].judge(Err::<(), _>(slow("s3://b/k"))), Err(PartEnd::Throttled));
        assert_eq!(samples.readable().len(), 1);
    }
}
