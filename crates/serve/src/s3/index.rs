//! Keeps sorted directories in memory while they are unchanged, so that paging through a large
//! directory reads and sorts it once.
//!
//! The name of a directory is stored with a trailing `/`, which gives S3's byte order of whole
//! keys: `a.txt` before `a/`. Memory is bounded: the least recently used directories are dropped,
//! and [`SortedNames`] writes the names of large directories to disk. Each use compares the
//! directory's modification time, which every change of its names updates. A continued listing may
//! use outdated names, so that a busy directory is not sorted again for every page.

use std::collections::HashMap;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rustix_futex_sync::Mutex;

use crate::http::etag::EtagIdentity;
use crate::object::directory::{EntryReader, VisibleKind};
use crate::object::root::ServedRoot;
use crate::object::sorted::SortedNames;
use crate::path::EntryPath;

/// Bytes of names in memory while a directory is read. 150,000 names of common length fit; most
/// directories have fewer.
const READ_MEMORY_BYTES: usize = 4 << 20;

/// Maximum bytes of all kept directories: one or two directories that just fit into
/// [`READ_MEMORY_BYTES`], or up to 32 that were written to disk, which count 256 KiB or more each.
const MAX_KEPT_BYTES: usize = 8 << 20;

/// Age below which a change of a directory may hide another one, because both have the same tick of
/// the file system's clock.
const SETTLED_AGE: Duration = Duration::from_millis(20);

/// Age up to which a continued listing uses outdated names of a directory that is sorted quickly.
const MIN_RECENT_AGE: Duration = Duration::from_secs(1);

/// Age up to which a continued listing uses outdated names of a directory that is sorted slowly, as
/// a multiple of the time that reading and sorting took. The greater of this age and
/// [`MIN_RECENT_AGE`] counts. So a directory that changes all the time is sorted during at most a
/// tenth of its listing.
const RECENT_SORT_FACTOR: u32 = 10;

/// How current the names of a page must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// The page shows every change that was made before the request.
    #[default]
    Current,
    /// The page may miss changes that are newer than this. The client allows the age by a header.
    Within(Duration),
    /// The page may miss recent changes, because it continues an earlier listing.
    Recent,
}

#[derive(Debug)]
struct KeptDirectory {
    names: Arc<SortedNames>,
    /// The version of the directory that was read. `None` if the directory may have changed
    /// unnoticed during the read.
    version: Option<EtagIdentity>,
    read: Instant,
    /// Age up to which [`Freshness::Recent`] accepts the names.
    recent: Duration,
    used: u64,
}

impl KeptDirectory {
    fn serves(&self, version: &EtagIdentity, freshness: Freshness) -> bool {
        let oldest = match freshness {
            Freshness::Current => None,
            Freshness::Within(age) => Some(age),
            Freshness::Recent => Some(self.recent),
        };
        self.version.as_ref() == Some(version) || oldest.is_some_and(|oldest| self.read.elapsed() <= oldest)
    }
}

#[derive(Debug, Default)]
struct IndexState {
    /// Sorted directories by path and fence. The fence decides which links are visible.
    directories: HashMap<(EntryPath, usize), KeptDirectory>,
    bytes: usize,
    clock: u64,
}

/// Sorted directories, kept while they are unchanged.
#[derive(Debug)]
pub(crate) struct Index {
    room: usize,
    state: Mutex<IndexState>,
    /// Locked while a directory is read. Threads that wait for the lock use the result.
    reading: Mutex<()>,
}

impl Default for Index {
    fn default() -> Self {
        Self::with_room(READ_MEMORY_BYTES)
    }
}

impl Index {
    /// Makes an index that uses `room` bytes of names in memory while it reads a directory.
    pub(crate) fn with_room(room: usize) -> Self {
        Self { room, state: Mutex::default(), reading: Mutex::default() }
    }

    /// Returns the names of the directory `path`, reading the directory if its names are absent or
    /// too old. Blocking.
    pub(crate) fn get(
        &self,
        root: &ServedRoot,
        path: &EntryPath,
        freshness: Freshness,
    ) -> io::Result<Arc<SortedNames>> {
        if let Some(names) = self.lookup(path, &version(root, path)?, freshness) {
            return Ok(names);
        }
        let _alone = self.reading.lock();
        let version = version(root, path)?;
        if let Some(names) = self.lookup(path, &version, freshness) {
            return Ok(names);
        }
        let (begun, started) = (SystemTime::now(), Instant::now());
        let names = Arc::new(read(root, path, self.room)?);
        let is_settled =
            begun.checked_sub(SETTLED_AGE).is_some_and(|settled| version.modified_at() < settled);
        let kept = KeptDirectory {
            names: Arc::clone(&names),
            version: is_settled.then_some(version),
            read: started,
            recent: MIN_RECENT_AGE.max(started.elapsed() * RECENT_SORT_FACTOR),
            used: 0,
        };
        self.keep(path, kept);
        Ok(names)
    }

    fn lookup(
        &self,
        path: &EntryPath,
        version: &EtagIdentity,
        freshness: Freshness,
    ) -> Option<Arc<SortedNames>> {
        let mut state = self.state.lock();
        state.clock += 1;
        let clock = state.clock;
        let kept = state.directories.get_mut(&key(path)).filter(|kept| kept.serves(version, freshness))?;
        kept.used = clock;
        Some(kept.names.clone())
    }

    fn keep(&self, path: &EntryPath, mut kept: KeptDirectory) {
        let mut state = self.state.lock();
        kept.used = state.clock;
        state.bytes += kept.names.weight();
        if let Some(old) = state.directories.insert(key(path), kept) {
            state.bytes -= old.names.weight();
        }
        if state.bytes > MAX_KEPT_BYTES {
            state.drop_least_used();
        }
    }
}

fn key(path: &EntryPath) -> (EntryPath, usize) {
    (path.clone(), path.fence())
}

fn version(root: &ServedRoot, path: &EntryPath) -> io::Result<EtagIdentity> {
    Ok(EtagIdentity::from(&std::fs::File::from(root.open_directory(path)?).metadata()?))
}

fn read(root: &ServedRoot, path: &EntryPath, room: usize) -> io::Result<SortedNames> {
    let mut links: u64 = 0;
    let names = EntryReader::open(root, path)?.filter_map(|entry| match entry {
        Ok(entry) if entry.kind == VisibleKind::LinkedDirectory => {
            links += 1;
            None
        }
        Ok(entry) => {
            let mut name = entry.name.into_vec();
            if entry.kind == VisibleKind::Directory {
                name.push(b'/');
            }
            Some(Ok(name))
        }
        Err(error) => Some(Err(error)),
    });
    let sorted = SortedNames::collect(names, room)?;
    if links > 0 {
        tracing::info!(%path, links, "links to directories are left out of S3 lists");
    }
    Ok(sorted)
}

impl IndexState {
    /// Drops the least recently used directories until at most half of the limit is used, so that
    /// this is rarely needed. The directory that was used last is kept in any case.
    fn drop_least_used(&mut self) {
        let mut by_use: Vec<(u64, (EntryPath, usize))> =
            self.directories.iter().map(|(key, kept)| (kept.used, key.clone())).collect();
        by_use.sort_unstable();
        let newest = by_use.pop();
        for (_, key) in by_use {
            if self.bytes <= MAX_KEPT_BYTES / 2 {
                return;
            }
            if let Some(kept) = self.directories.remove(&key) {
                self.bytes -= kept.names.weight();
            }
        }
        drop(newest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_sort_with_their_slash_and_changes_are_seen() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a.txt", "b", "a-"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        std::fs::create_dir(directory.path().join("a")).unwrap();
        let root = ServedRoot::open(directory.path()).unwrap();
        let index = Index::default();
        let names = || {
            let sorted = index.get(&root, &EntryPath::default(), Freshness::Current).unwrap();
            let mut cursor = sorted.skip_while(|_| false).unwrap();
            let mut names = Vec::new();
            while let Some(name) = cursor.next_name().unwrap() {
                names.push(String::from_utf8(name.to_vec()).unwrap());
            }
            names
        };
        assert_eq!(names(), ["a-", "a.txt", "a/", "b"]);
        std::fs::remove_file(directory.path().join("a-")).unwrap();
        assert_eq!(names(), ["a.txt", "a/", "b"]);
    }

    /// Makes a directory with two files whose modification time is long past.
    fn settled_directory(path: &std::path::Path) {
        std::fs::create_dir_all(path).unwrap();
        for name in ["a", "b"] {
            std::fs::write(path.join(name), "").unwrap();
        }
        std::fs::File::open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    }

    #[test]
    fn an_unchanged_directory_is_read_once() {
        let directory = tempfile::tempdir().unwrap();
        settled_directory(directory.path());
        let (root, index, path) =
            (ServedRoot::open(directory.path()).unwrap(), Index::default(), EntryPath::default());
        let get = |freshness| index.get(&root, &path, freshness).unwrap();
        let first = get(Freshness::Current);
        assert!(Arc::ptr_eq(&first, &get(Freshness::Current)));
        std::fs::write(directory.path().join("c"), "").unwrap();
        assert!(Arc::ptr_eq(&first, &get(Freshness::Recent)));
        assert!(Arc::ptr_eq(&first, &get(Freshness::Within(Duration::from_secs(600)))));
        let changed = get(Freshness::Within(Duration::ZERO));
        assert!(!Arc::ptr_eq(&first, &changed));
        // The change is so recent that another change in the same clock tick could go unnoticed, so
        // the names are not reused.
        assert!(!Arc::ptr_eq(&changed, &get(Freshness::Current)));
    }

    #[test]
    fn memory_for_many_directories_is_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let (root, index) = (ServedRoot::open(directory.path()).unwrap(), Index::with_room(1));
        for number in 0..100 {
            let name = number.to_string();
            settled_directory(&directory.path().join(&name));
            let path = EntryPath::parse(name.as_bytes()).unwrap();
            index.get(&root, &path, Freshness::Current).unwrap();
            let state = index.state.lock();
            let weight: usize = state.directories.values().map(|kept| kept.names.weight()).sum();
            assert_eq!(weight, state.bytes);
            assert!(weight <= MAX_KEPT_BYTES && !state.directories.is_empty());
        }
    }
}
