//! Lists a tree in the byte order of an object store, where `a.txt` comes before everything in
//! `a/`.
//!
//! A directory's names are read, sorted and returned one by one. A directory among them is entered
//! when its turn comes. Only names are kept, with a `/` after the name of a directory, so that they
//! compare as bytes. Other details are read when an entry is returned. A directory whose names take
//! more than the limit is read several times: each reading keeps the smallest names that were not
//! returned yet. This costs more reads, but saves memory, and needs no temporary file, which a
//! killed process would leave behind. A name that exists during the whole listing is returned once,
//! because each reading returns another range of the order.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use firstbyte_location::{Entry, EntryKind};
use rustix::fs::{AtFlags, SeekFrom};
use rustix::io::Errno;

use crate::batch::{Batch, RecordDecision};
use crate::bounds::WalkBounds;
use crate::chain::{DirectoryChain, DirectoryIdentity};
use crate::details::{Details, read_attributes};
use crate::error::{Error, Result, below};
use crate::open::DirectoryHandle;
use crate::options::{Boundary, Detail, ListingOptions, Symlinks};
use crate::stat::InodeStat;
use crate::tuning::{FileSystemReach, Tuning};

/// Maximum bytes of all waiting names. 10^6 names of usual length take six readings, and a process
/// that walks two such listings in parallel stays within 32 MiB.
const MAX_NAME_BYTES: usize = 6 << 20;
/// Bytes of names that a level may always hold, however many the levels above it hold.
const MIN_LEVEL_BYTES: usize = 256 << 10;
/// Number of levels whose directories stay open, counted from the deepest.
const OPEN_LEVELS: usize = 32;

/// The entries below a root, in order.
#[derive(Debug)]
pub(crate) struct SortedWalk {
    path: PathBuf,
    options: ListingOptions,
    device: u64,
    reach: FileSystemReach,
    /// Number of entries of which to read a cached attribute between two reads of a directory.
    attribute_reads: usize,
    root: DirectoryHandle,
    /// The directories from the root to the current one.
    levels: Vec<Level>,
    /// The directory that was returned last, to be entered next.
    due: Option<Vec<u8>>,
    /// Errors that were not reported yet.
    errors: Vec<Error>,
    batch: Batch,
    bounds: WalkBounds,
}

/// A directory whose entries are being returned.
#[derive(Debug)]
struct Level {
    /// Path from the root, with a `/` at its end; empty for the root itself.
    path: Vec<u8>,
    /// `None` if it was closed to limit the number of open directories.
    open: Option<DirectoryHandle>,
    chain: Option<Arc<DirectoryChain>>,
    names: Names,
    /// Number of names returned so far.
    returned: usize,
}

/// Names in order, up to the limit of memory.
#[derive(Debug, Default)]
struct Names {
    bytes: Vec<u8>,
    /// Position of each name in `bytes`. The name of a directory ends in `/`.
    index: Vec<Name>,
    /// The greatest name that was kept when names were dropped; `None` if no names were dropped.
    /// This reading then has all names up to `bound`, and no greater names.
    bound: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug)]
struct Name {
    start: u32,
    len: u16,
    kind: EntryKind,
}

impl SortedWalk {
    pub(crate) fn open(path: &Path, options: &ListingOptions, bounds: WalkBounds) -> Result<Self> {
        let fail = |error| Error::at(path, b"", error);
        let count = Arc::new(AtomicUsize::new(0));
        let root = DirectoryHandle::root(path, &count).map_err(fail)?;
        let tuning = Tuning::of_open(&root, options).map_err(fail)?;
        let identity = DirectoryIdentity::of(&root).map_err(fail)?;
        let mut sorted = Self {
            path: path.to_owned(),
            options: *options,
            device: identity.device,
            reach: tuning.file_system.reach,
            // Types are needed to sort, because `/` is appended to the names of directories.
            attribute_reads: tuning.attribute_reads(if options.detail.has_stats() {
                options.detail
            } else {
                Detail::Names
            }),
            levels: Vec::new(),
            due: None,
            errors: Vec::new(),
            batch: Batch::new(tuning.buffer),
            // A second descriptor of the root, for opening directories below it. The first
            // descriptor is for reading.
            root: root.reopen().map_err(fail)?,
            bounds,
        };
        sorted.begin(root, Vec::new(), Some(Arc::new(DirectoryChain { identity, above: None })));
        Ok(sorted)
    }

    /// Opens a directory that was returned and reads its names, if the options allow to enter the
    /// directory.
    fn enter(&mut self, name: &[u8]) {
        let Some(level) = self.levels.last() else { return };
        let path = [&level.path, name].concat();
        let above = level.chain.clone();
        if let Err(error) = self.try_enter(&path, name, above)
            && !matches!(&error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
        {
            self.errors.push(error);
        }
    }

    fn try_enter(&mut self, path: &[u8], name: &[u8], above: Option<Arc<DirectoryChain>>) -> Result<()> {
        let fail = |error| Error::at(&self.path, path, error);
        let symlinks = self.options.symlinks;
        let parent = self.levels.last().and_then(|level| level.open.as_ref());
        let open = match parent {
            Some(parent) => parent.enter(name.strip_suffix(b"/").unwrap_or(name), symlinks),
            None => self.root.descend(path, symlinks),
        };
        let open = open.map_err(fail)?;
        let identity = DirectoryIdentity::of(&open).map_err(fail)?;
        if self.options.boundary == Boundary::Stay && identity.device != self.device {
            return Ok(());
        }
        if self.bounds.refuses(identity) {
            return Err(Error::Refused { path: below(&self.path, path) });
        }
        if symlinks == Symlinks::Follow && above.as_ref().is_some_and(|above| above.contains(identity)) {
            return Err(Error::Loop { path: below(&self.path, path) });
        }
        let chain = (symlinks == Symlinks::Follow).then(|| Arc::new(DirectoryChain { identity, above }));
        self.begin(open, path.to_vec(), chain);
        Ok(())
    }

    fn begin(&mut self, open: DirectoryHandle, path: Vec<u8>, chain: Option<Arc<DirectoryChain>>) {
        if let Some(far) = self.levels.len().checked_sub(OPEN_LEVELS) {
            self.levels[far].open = None;
        }
        let names = self.read(&open, &path, b"");
        self.levels.push(Level { path, open: Some(open), chain, names, returned: 0 });
    }

    /// Reads the names in a directory that sort after `after`, and keeps the smallest ones, up to
    /// the limit.
    fn read(&mut self, open: &DirectoryHandle, path: &[u8], after: &[u8]) -> Names {
        let taken: usize = self.levels.iter().map(|level| level.names.size()).sum();
        let mut names = Names::default();
        let limit = MAX_NAME_BYTES.saturating_sub(taken).max(MIN_LEVEL_BYTES);
        loop {
            self.batch.clear();
            self.batch.begin(path, 0);
            let read = self.batch.read(open, usize::MAX, |_, _| Ok(RecordDecision::Entry));
            self.batch.end(0);
            let details = Details {
                directory: open,
                root: &self.path,
                symlinks: self.options.symlinks,
                detail: Detail::Names,
                reach: self.reach,
                bounds: &self.bounds,
            };
            details.add(&mut self.batch, 0);
            read_attributes(&self.batch, 0, self.attribute_reads, open);
            for entry in self.batch.entries() {
                names.add(entry.name(), entry.kind(), after, limit);
            }
            self.errors.append(&mut self.batch.take_errors());
            match read {
                Ok(0) | Err(Errno::NOENT) => break,
                Ok(_) => {}
                Err(error) => {
                    self.errors.push(Error::at(&self.path, path, error));
                    break;
                }
            }
        }
        names.sort();
        names
    }

    /// Reads more names of the deepest level after all its names were returned. Leaves the level if
    /// there are no more names.
    fn read_more_names(&mut self) {
        let Some(mut level) = self.levels.pop() else { return };
        let after = level.names.last().to_vec();
        let more = level.names.bound.is_some();
        level.names = Names::default();
        if !more {
            return;
        }
        let open = match level.open.take() {
            Some(open) => Ok(open),
            None if level.path.is_empty() => self.root.reopen(),
            None => self.root.descend(&level.path, self.options.symlinks),
        };
        match open.and_then(|open| rustix::fs::seek(&open, SeekFrom::Start(0)).map(|_| open)) {
            Ok(open) => {
                level.names = self.read(&open, &level.path, &after);
                level.open = Some(open);
                level.returned = 0;
                self.levels.push(level);
            }
            Err(Errno::NOENT) => {}
            Err(error) => self.errors.push(Error::at(&self.path, &level.path, error)),
        }
    }

    /// Makes an entry with the requested details. `None` if the file no longer exists or has
    /// another type now, or if the entry would be an error about a name that is not wanted.
    fn make_entry(
        &self,
        path: &[u8],
        open: Option<&DirectoryHandle>,
        name: &[u8],
        kind: EntryKind,
    ) -> Option<Result<Entry>> {
        let bare = name.strip_suffix(b"/").unwrap_or(name);
        let full = [path, bare].concat();
        if !self.options.detail.has_stats() {
            return describe(&self.path, self.options.symlinks, &self.bounds, full, kind, None);
        }
        let follow = self.options.symlinks == Symlinks::Follow && kind != EntryKind::Symlink;
        let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let read = |open: &DirectoryHandle| {
            InodeStat::read(
                open,
                &CString::new(bare).map_err(|_| Errno::INVAL)?,
                flags,
                self.options.detail,
                self.reach,
            )
        };
        let stat = match open {
            Some(open) => read(open),
            None if path.is_empty() => read(&self.root),
            None => self.root.descend(path, self.options.symlinks).and_then(|open| read(&open)),
        };
        match stat {
            Ok(stat) if stat.kind() != kind => None,
            Ok(stat) => describe(&self.path, self.options.symlinks, &self.bounds, full, kind, Some(&stat)),
            Err(Errno::NOENT) => None,
            Err(_) if kind == EntryKind::File && !self.bounds.reports_errors_of(&full) => None,
            Err(error) => Some(Err(Error::at(&self.path, &full, error))),
        }
    }
}

impl Iterator for SortedWalk {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(error) = self.errors.pop() {
                return Some(Err(error));
            }
            if let Some(name) = self.due.take() {
                self.enter(&name);
                continue;
            }
            let depth = u32::try_from(self.levels.len()).unwrap_or(u32::MAX);
            let level = self.levels.last_mut()?;
            let Some((name, kind)) = level.names.get(level.returned) else {
                self.read_more_names();
                continue;
            };
            let name = name.to_vec();
            level.returned += 1;
            let level = self.levels.last()?;
            let shown = self.make_entry(&level.path, level.open.as_ref(), &name, kind);
            if kind == EntryKind::Directory
                && self.options.depth.enters(depth - 1)
                && matches!(shown, Some(Ok(_)))
                && self.bounds.enters(&[&level.path, &name[..]].concat())
            {
                self.due = Some(name);
            }
            if shown.is_some() {
                return shown;
            }
        }
    }
}

impl Names {
    fn size(&self) -> usize {
        self.bytes.len() + self.index.len() * size_of::<Name>()
    }

    fn get(&self, index: usize) -> Option<(&[u8], EntryKind)> {
        self.index.get(index).map(|name| (bytes_of(&self.bytes, name), name.kind))
    }

    fn last(&self) -> &[u8] {
        self.index.last().map_or(b"", |name| bytes_of(&self.bytes, name))
    }

    /// Adds a name if it sorts after `after` and does not exceed the bound. Drops the larger half
    /// of the names when they take more than `limit` bytes.
    fn add(&mut self, name: &[u8], kind: EntryKind, after: &[u8], limit: usize) {
        let start = self.bytes.len();
        // Grows to the limit in one step, because each doubling would leave an unused block of the
        // old size.
        if self.bytes.capacity() < start + name.len() + 1 && start > MIN_LEVEL_BYTES {
            self.bytes.reserve_exact(limit.saturating_sub(start) + name.len() + 1);
        }
        self.bytes.extend_from_slice(name);
        if kind == EntryKind::Directory {
            self.bytes.push(b'/');
        }
        let name = &self.bytes[start..];
        if name <= after || self.bound.as_ref().is_some_and(|bound| name > bound.as_slice()) {
            self.bytes.truncate(start);
            return;
        }
        self.index.push(Name { start: start as u32, len: (self.bytes.len() - start) as u16, kind });
        if self.size() > limit && self.index.len() > 1 {
            self.halve();
        }
    }

    /// Keeps the smaller half of the names. Their bytes are moved within the buffer, because a copy
    /// would need twice the memory.
    fn halve(&mut self) {
        self.sort();
        self.index.truncate(self.index.len() / 2);
        self.bound = Some(self.last().to_vec());
        self.index.sort_unstable_by_key(|name| name.start);
        let mut end = 0;
        for name in &mut self.index {
            let start = name.start as usize;
            self.bytes.copy_within(start..start + usize::from(name.len), end);
            name.start = end as u32;
            end += usize::from(name.len);
        }
        self.bytes.truncate(end);
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.index.sort_unstable_by(|a, b| bytes_of(bytes, a).cmp(bytes_of(bytes, b)));
    }
}

fn bytes_of<'a>(bytes: &'a [u8], name: &Name) -> &'a [u8] {
    let start = name.start as usize;
    &bytes[start..start + usize::from(name.len)]
}

/// Makes the entry `name` below `root`. If links are followed, a dangling link is an error. Returns
/// `None` for a dangling link whose name is not wanted.
pub(crate) fn describe(
    root: &Path,
    symlinks: Symlinks,
    bounds: &WalkBounds,
    name: Vec<u8>,
    kind: EntryKind,
    stat: Option<&InodeStat>,
) -> Option<Result<Entry>> {
    if symlinks == Symlinks::Follow && kind == EntryKind::Symlink {
        return bounds.reports_errors_of(&name).then(|| Err(Error::at(root, &name, Errno::NOENT)));
    }
    Some(Ok(Entry {
        name,
        kind,
        size: stat.filter(|_| kind == EntryKind::File).map(|stat| stat.size),
        modified: stat.and_then(|stat| stat.modified.system()),
        changed: stat.and_then(|stat| stat.changed.system()),
        etag: None,
        storage_class: None,
        version: None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads all names, in several readings if needed. Returns the names, and the maximum number of
    /// bytes held at once.
    fn read_all(names: &[String], limit: usize) -> (Vec<String>, usize) {
        let (mut read, mut most, mut after) = (Vec::new(), 0, Vec::new());
        loop {
            let mut part = Names::default();
            for name in names {
                part.add(name.as_bytes(), EntryKind::File, &after, limit);
                most = most.max(part.size());
            }
            part.sort();
            let text = |at: usize| String::from_utf8(part.get(at).unwrap().0.to_vec()).unwrap();
            read.extend((0..part.index.len()).map(text));
            after = part.last().to_vec();
            if part.bound.is_none() {
                return (read, most);
            }
        }
    }

    #[test]
    fn a_directory_that_is_read_several_times_shows_every_name_once_in_any_order() {
        for multiplier in [1, 7, 389, 999] {
            let names: Vec<String> = (0..1_000_u64)
                .map(|number| {
                    let number = number * multiplier % 1_000;
                    format!("{number:03}{}", "x".repeat(usize::try_from(number % 40).unwrap_or(0)))
                })
                .collect();
            let mut expected = names.clone();
            expected.sort();
            for limit in [200, 1_000, 5_000, 1 << 20] {
                let (read, most) = read_all(&names, limit);
                assert!(read == expected, "{multiplier} {limit}: {} of {}", read.len(), expected.len());
                assert!(most <= limit, "{most} of {limit}");
            }
        }
    }
}
