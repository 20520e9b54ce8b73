//! Reads one open directory: returns its names in an order that is stable for the handle, in
//! constant memory.
//!
//! Names come from a listing as it arrives, or from a cached directory. The kernel requests names
//! by position. Usually it continues at the last position, but if its buffer was short, it requests
//! some names again, so the last names are kept. A position further back (`rewinddir`, `seekdir`)
//! starts a new listing, which skips to that position.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_store::Moment;

use crate::directory::{DirectorySnapshot, KnownDirectories, KnownNames, ListedName, OnlyReader};
use crate::error::{Error, Result};
use crate::inodes::Inodes;
use crate::prefetch::Prefetch;
use crate::source::{Children, MountSource};

/// Maximum number of names in one reply. The kernel's usual buffer of 32 KiB has room for fewer. An
/// open directory keeps the last `2 * MAX_REPLY_NAMES` names, in case the kernel requests some
/// again.
pub(crate) const MAX_REPLY_NAMES: usize = 1024;
/// Number of names of a wide directory that are kept as one page.
const PAGE_NAMES: usize = 1000;

/// Whether the names of a directory that the kernel caches are still valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListingFreshness {
    /// The kernel's names come from a listing that is still valid.
    InKernel,
    /// The kernel must drop its names and read them again.
    Unknown,
}

/// The sources of names, which all open directories share.
#[derive(Clone)]
pub(crate) struct NameSources {
    pub(crate) source: Arc<MountSource>,
    pub(crate) directories: Arc<KnownDirectories>,
    pub(crate) inodes: Arc<Inodes>,
    pub(crate) prefetch: Arc<Prefetch>,
    /// Time for which names are valid.
    pub(crate) ttl: Duration,
}

enum Feed {
    /// The listing has not begun.
    Start,
    Known(Arc<DirectorySnapshot>),
    Listing {
        children: Children,
        /// All names so far or, if the directory is wide, only the names of the current page.
        names: Vec<ListedName>,
        begun: Moment,
        /// True if the directory has too many names to be kept as a whole.
        is_wide: bool,
    },
    End,
    /// A listing that failed, and therefore never counts as complete.
    Failed(Error),
}

/// An open directory.
pub(crate) struct ReadDir {
    pub(crate) sources: NameSources,
    path: Box<[u8]>,
    feed: Feed,
    /// Number of names taken from the listing so far.
    drawn: usize,
    /// The most recent names, each with the time at which it came.
    recent: VecDeque<(ListedName, Moment)>,
    /// Proves that the kernel got all names in its cache from this handle. `None` if the kernel may
    /// have other names, or if this handle has started its listing again.
    only_reader: Option<OnlyReader>,
    pub(crate) freshness: ListingFreshness,
}

impl ReadDir {
    pub(crate) fn new(sources: NameSources, path: &[u8]) -> Self {
        let only_reader = sources.directories.begin_reading(path);
        let freshness = match sources.directories.get(path) {
            KnownNames::Whole(known) if known.is_in_kernel() => ListingFreshness::InKernel,
            _ => ListingFreshness::Unknown,
        };
        Self {
            sources,
            path: path.into(),
            feed: Feed::Start,
            drawn: 0,
            recent: VecDeque::new(),
            only_reader: only_reader.filter(|_| freshness == ListingFreshness::Unknown),
            freshness,
        }
    }

    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// Returns how much of `ttl` is left, which is the time for which the names are valid. For a
    /// listing in progress, returns all of `ttl`.
    pub(crate) fn valid(&self, ttl: Duration) -> Duration {
        match &self.feed {
            Feed::Known(directory) => directory.valid(ttl),
            _ => ttl,
        }
    }

    /// Returns the name at position `index`, which starts at 0. Returns `None` after the last name.
    ///
    /// # Errors
    /// The store cannot list the directory.
    pub(crate) fn at(&mut self, index: usize) -> Result<Option<ListedName>> {
        let oldest = self.drawn - self.recent.len();
        // Position 0 restarts the listing, as after `rewinddir`, unless the listing has only just
        // begun.
        if index < oldest
            || (index == 0 && self.drawn > MAX_REPLY_NAMES)
            || (index == 0 && matches!(self.feed, Feed::Failed(_)))
        {
            self.restart();
        }
        while self.drawn <= index {
            let Some(listed) = self.draw()? else { return Ok(None) };
            if self.recent.len() >= 2 * MAX_REPLY_NAMES {
                self.recent.pop_front();
            }
            self.recent.push_back((listed, Moment::now()));
            self.drawn += 1;
        }
        let oldest = self.drawn - self.recent.len();
        Ok(self.recent.get(index - oldest).map(|(listed, _)| listed.clone()))
    }

    /// Returns the entry `name` if it was listed recently, and how much of `ttl` is left for it.
    /// Returns `None` if the time has passed.
    pub(crate) fn recent(&self, name: &[u8], ttl: Duration) -> Option<(&ListedName, Duration)> {
        let (listed, came) = self.recent.iter().rev().find(|(listed, _)| *listed.child.name == *name)?;
        let valid = ttl.saturating_sub(came.age()).min(self.valid(ttl));
        (!valid.is_zero()).then_some((listed, valid))
    }

    fn restart(&mut self) {
        self.only_reader = None;
        self.feed = Feed::Start;
        self.drawn = 0;
        self.recent.clear();
    }

    fn draw(&mut self) -> Result<Option<ListedName>> {
        if matches!(self.feed, Feed::Start) {
            self.feed = self.begin()?;
        }
        match &mut self.feed {
            Feed::Known(directory) => {
                let listed = directory.listed().get(self.drawn).cloned();
                if let (None, Some(reader)) = (&listed, self.only_reader) {
                    self.sources.directories.note_in_kernel(&self.path, directory, reader);
                }
                Ok(listed)
            }
            Feed::Listing { children, names, is_wide, begun } => match children.next() {
                Some(Ok(child)) => {
                    let ino = self.sources.inodes.number(&self.path, &child);
                    let listed = ListedName { child: Arc::new(child), ino };
                    names.push(listed.clone());
                    let directories = &self.sources.directories;
                    if !*is_wide && names.len() > directories.max_kept_names() {
                        *is_wide = true;
                        directories.mark_wide(&self.path);
                    }
                    if *is_wide && names.len() >= PAGE_NAMES {
                        let first = self.drawn + 1 - names.len();
                        for (page, names) in names.chunks(PAGE_NAMES).enumerate() {
                            directories.keep_listed(&self.path, first + page * PAGE_NAMES, names, *begun);
                        }
                        names.clear();
                        names.shrink_to(PAGE_NAMES);
                        *begun = Moment::now();
                    }
                    Ok(Some(listed))
                }
                Some(Err(error)) => {
                    self.feed = Feed::Failed(error.clone());
                    Err(error)
                }
                None => {
                    self.end();
                    Ok(None)
                }
            },
            Feed::Failed(error) => Err(error.clone()),
            Feed::Start | Feed::End => Ok(None),
        }
    }

    fn begin(&self) -> Result<Feed> {
        if let KnownNames::Whole(directory) = self.sources.directories.get(&self.path) {
            return Ok(Feed::Known(directory));
        }
        let begun = Moment::now();
        let children = self.sources.source.list(&self.path)?;
        Ok(Feed::Listing { children, names: Vec::new(), begun, is_wide: false })
    }

    fn end(&mut self) {
        let feed = std::mem::replace(&mut self.feed, Feed::End);
        let Feed::Listing { names, begun, is_wide, .. } = feed else { return };
        let directories = &self.sources.directories;
        if is_wide {
            directories.keep_listed(&self.path, self.drawn - names.len(), &names, begun);
        } else {
            let snapshot = Arc::new(DirectorySnapshot::new(names, begun));
            if let Some(reader) = self.only_reader {
                directories.note_in_kernel(&self.path, &snapshot, reader);
            }
            directories.keep(&self.path, snapshot);
        }
    }
}

impl Drop for ReadDir {
    fn drop(&mut self) {
        self.sources.directories.end_reading(&self.path);
    }
}
