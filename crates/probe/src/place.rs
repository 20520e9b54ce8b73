//! Finds objects of the probed location that can be read, by a bounded listing.
//!
//! Objects and files have the same type, so all measurements are the same. Only the page cache
//! differs: local files are dropped from it before they are read.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use firstbyte_location::{ByteRange, Entry, EntryKind, Location};
use firstbyte_store::{Body, Get, ListOptions, Store};
use rustix::fs::{Advice, fadvise};

use crate::error::{Error, Result};

/// Maximum number of entries to list: some pages of a bucket, or a large directory.
const MAX_ENTRIES: usize = 4_096;

/// Maximum length of a small object, in bytes.
const MAX_SMALL_SIZE: u64 = 256 << 10;

/// Minimum length of an object that serves to measure rates, in bytes. If no object is that long,
/// the largest one serves.
const MIN_LARGE_SIZE: u64 = 16 << 20;

/// Length of one read, in bytes.
pub(crate) const BUFFER: usize = 1 << 20;

/// An object that can be read.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) location: Location,
    pub(crate) size: u64,
}

/// The objects that were found at a location.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    /// The objects, up to [`MAX_ENTRIES`].
    pub(crate) all: Vec<Sample>,
    /// True if the location has no other objects.
    pub(crate) complete: bool,
    /// Offset of the next read in the concatenation of all large objects.
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
        Self { all: vec![Sample { location, size }], complete: true, cursor: AtomicU64::new(0) }
    }

    /// Lists the objects below `location`, for up to `time`.
    pub(crate) fn below(store: &Store, location: &Location, time: Duration) -> Result<Self> {
        let (mut found, until) = (Self::default(), Instant::now() + time);
        let options = ListOptions { recursive: true, ..ListOptions::default() };
        let mut entries = store.list(location, &options)?;
        while found.all.len() < MAX_ENTRIES && Instant::now() < until {
            match entries.next() {
                None => {
                    found.complete = true;
                    break;
                }
                // Single directories of a local tree may be closed to this user, which is not an
                // error.
                Some(Err(error)) if location.as_local().is_none() => return Err(error.into()),
                Some(Err(_)) => {}
                Some(Ok(entry)) => found.all.extend(sample(location, &entry)),
            }
        }
        Ok(found)
    }

    /// Returns the objects that are read whole, as small files.
    pub(crate) fn small(&self) -> Vec<&Sample> {
        self.all.iter().filter(|sample| (1..=MAX_SMALL_SIZE).contains(&sample.size)).collect()
    }

    /// Returns the objects that serve to measure rates: the large objects or, if there are none,
    /// the largest object.
    pub(crate) fn large(&self) -> Vec<&Sample> {
        let large: Vec<&Sample> = self.all.iter().filter(|sample| sample.size >= MIN_LARGE_SIZE).collect();
        if large.is_empty() {
            self.all.iter().max_by_key(|sample| sample.size).into_iter().collect()
        } else {
            large
        }
    }

    /// Takes the next `length` bytes of `large`, the concatenation of large objects, which starts
    /// over after its end. The range is shorter if it reaches the end of an object.
    pub(crate) fn next<'s>(&self, large: &[&'s Sample], length: u64) -> Option<SampleRange<'s>> {
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

fn sample(below: &Location, entry: &Entry) -> Option<Sample> {
    let size = entry.size.filter(|_| entry.kind == EntryKind::File)?;
    Some(Sample { location: below.join(&entry.name), size })
}

impl Sample {
    /// Begins to read a range. Drops a local file from the page cache first.
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
        // On a file system without a disk of its own (tmpfs), the pages stay cached. Such a file
        // system has no colder state.
        let _ = fadvise(&file, range.start, std::num::NonZeroU64::new(range.len()), Advice::DontNeed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(sizes: &[u64]) -> Samples {
        let all = sizes.iter().map(|size| Sample {
            location: Location::parse(format!("/x/{size}").as_ref()).unwrap(),
            size: *size,
        });
        Samples { all: all.collect(), ..Samples::default() }
    }

    #[test]
    fn pieces_follow_each_other_through_all_large_objects_and_begin_again() {
        let samples = samples(&[20 << 20, 1_000, 16 << 20]);
        let large = samples.large();
        assert_eq!(large.len(), 2);
        let piece = || {
            let SampleRange { sample, range } = samples.next(&large, 8 << 20).unwrap();
            (sample.size >> 20, range.start >> 20, range.end >> 20)
        };
        let taken: Vec<_> = (0..6).map(|_| piece()).collect();
        assert_eq!(taken, [(20, 0, 8), (20, 8, 16), (20, 16, 20), (16, 4, 12), (16, 12, 16), (20, 4, 12)]);
    }

    #[test]
    fn where_no_object_is_large_the_largest_is_read() {
        let samples = samples(&[5, 4_000, 0]);
        assert_eq!(samples.large()[0].size, 4_000);
        assert_eq!(samples.small().len(), 2);
        assert!(self::samples(&[]).next(&[], 1).is_none());
    }
}
