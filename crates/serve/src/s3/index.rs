//! Sorted directories, kept while unchanged, so that paging through a wide one reads and sorts it once.
//!
//! A name is kept with `/` behind it when it is a directory, which gives S3's byte order of whole keys: `a.txt` before `a/`.
//! Names lie end to end in one allocation; a million of 20 bytes take 24 MB. What is kept is bounded, and each use checks
//! the directory's own modification time, which every change of its names moves.

use std::collections::HashMap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crate::directory::{Kind, Reader};
use crate::etag::Identity;
use crate::root::{EntryPath, Root};

/// What all kept directories may take together: room for a million keys of common length.
const MOST_BYTES: usize = 32 << 20;

/// A directory changed so recently may change again within the same tick of its clock, unseen.
const SETTLED: Duration = Duration::from_millis(20);

/// The names of one directory, sorted.
#[derive(Debug, Default)]
pub(crate) struct SortedDirectory {
    names: Vec<u8>,
    /// Where each name ends in `names`.
    ends: Vec<u32>,
}

impl SortedDirectory {
    fn read(root: &Root, path: &EntryPath) -> io::Result<Self> {
        let mut unsorted = Self::default();
        for entry in Reader::open(root, path)? {
            let entry = entry?;
            if entry.kind == Kind::LinkedDirectory {
                continue;
            }
            unsorted.names.extend_from_slice(entry.name.as_bytes());
            if entry.kind == Kind::Directory {
                unsorted.names.push(b'/');
            }
            let end = u32::try_from(unsorted.names.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
            unsorted.ends.push(end);
        }
        let count = u32::try_from(unsorted.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut order: Vec<u32> = (0..count).collect();
        order.sort_unstable_by(|left, right| {
            unsorted.name(*left as usize).cmp(unsorted.name(*right as usize))
        });
        let mut sorted =
            Self { names: Vec::with_capacity(unsorted.names.len()), ends: Vec::with_capacity(order.len()) };
        for index in order {
            sorted.names.extend_from_slice(unsorted.name(index as usize));
            sorted.ends.push(sorted.names.len() as u32);
        }
        Ok(sorted)
    }

    /// How many names there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The name at `index`; with `/` behind it for a directory.
    pub(crate) fn name(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.names[start..self.ends[index] as usize]
    }

    /// The index of the first name for which `before` does not hold; `before` must hold for a leading run of names.
    pub(crate) fn partition_point(&self, before: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if before(self.name(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }

    fn bytes(&self) -> usize {
        self.names.len() + 4 * self.ends.len() + 256
    }
}

#[derive(Debug)]
struct Kept {
    directory: Arc<SortedDirectory>,
    version: Identity,
    used: u64,
}

#[derive(Debug, Default)]
struct State {
    kept: HashMap<EntryPath, Kept>,
    bytes: usize,
    clock: u64,
}

/// Sorted directories, kept while unchanged.
#[derive(Debug, Default)]
pub(crate) struct Index {
    state: Mutex<State>,
}

impl Index {
    /// The directory `path`, read when it is not kept or has changed. Blocking.
    pub(crate) fn get(&self, root: &Root, path: &EntryPath) -> io::Result<Arc<SortedDirectory>> {
        let metadata = std::fs::File::from(root.open_directory(path)?).metadata()?;
        let version = Identity::from(&metadata);
        if let Some(directory) = self.lookup(path, &version) {
            return Ok(directory);
        }
        let directory = Arc::new(SortedDirectory::read(root, path)?);
        let settled =
            metadata.modified()?.checked_add(SETTLED).is_some_and(|settled| settled < SystemTime::now());
        if settled && directory.bytes() <= MOST_BYTES {
            self.keep(path.clone(), directory.clone(), version);
        }
        Ok(directory)
    }

    fn lookup(&self, path: &EntryPath, version: &Identity) -> Option<Arc<SortedDirectory>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.clock += 1;
        let clock = state.clock;
        let kept = state.kept.get_mut(path).filter(|kept| kept.version == *version)?;
        kept.used = clock;
        Some(kept.directory.clone())
    }

    fn keep(&self, path: EntryPath, directory: Arc<SortedDirectory>, version: Identity) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let used = state.clock;
        state.bytes += directory.bytes();
        if let Some(old) = state.kept.insert(path, Kept { directory, version, used }) {
            state.bytes -= old.directory.bytes();
        }
        if state.bytes > MOST_BYTES {
            state.drop_least_used();
        }
    }
}

impl State {
    /// Down to half of what is allowed, so that this is rare.
    fn drop_least_used(&mut self) {
        let mut by_use: Vec<(u64, EntryPath)> =
            self.kept.iter().map(|(path, kept)| (kept.used, path.clone())).collect();
        by_use.sort_unstable();
        let newest = by_use.pop();
        for (_, path) in by_use {
            if self.bytes <= MOST_BYTES / 2 {
                return;
            }
            if let Some(kept) = self.kept.remove(&path) {
                self.bytes -= kept.directory.bytes();
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
        let root = Root::open(directory.path()).unwrap();
        let index = Index::default();
        let names = || {
            let sorted = index.get(&root, &EntryPath::default()).unwrap();
            (0..sorted.len())
                .map(|at| String::from_utf8(sorted.name(at).to_vec()).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(), ["a-", "a.txt", "a/", "b"]);
        std::fs::remove_file(directory.path().join("a-")).unwrap();
        assert_eq!(names(), ["a.txt", "a/", "b"]);
    }
}
