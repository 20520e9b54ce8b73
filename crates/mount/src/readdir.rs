//! One open directory: its names, in an order that is stable for the handle, in constant memory.
//!
//! Names come from a listing as it arrives, or from a cached directory. The kernel requests them by
//! position. It mostly continues at the last position, but a short buffer makes it repeat some
//! names, so the last names are kept. A position further back (`rewinddir`, `seekdir`) starts a new
//! listing, which skips to that position.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::directory::{DirectorySnapshot, KnownDirectories, KnownNames, ListedName};
use crate::error::{Error, Result};
use crate::inodes::Inodes;
use crate::prefetch::Prefetch;
use crate::source::{Children, MountSource};

/// The most names in one answer, and half of those kept: more than the kernel requests at once in
/// its usual 32 KiB.
pub(crate) const ANSWER: usize = 1024;
/// The number of names of a wide directory that are kept as one page.
const PAGE_NAMES: usize = 1000;

/// The sources of names; one for the whole file system.
#[derive(Clone)]
pub(crate) struct NameSources {
    pub(crate) source: Arc<MountSource>,
    pub(crate) directories: Arc<KnownDirectories>,
    pub(crate) inodes: Arc<Inodes>,
    pub(crate) prefetch: Arc<Prefetch>,
    /// The time for which names are valid.
    pub(crate) ttl: Duration,
}

enum Feed {
    /// The listing has not begun.
    Start,
    Known(Arc<DirectorySnapshot>),
    Listing {
        children: Children,
        /// All names so far; once they are too many to keep, those of the current page.
        names: Vec<ListedName>,
        begun: Instant,
        /// Whether the directory has more names than are kept.
        is_wide: bool,
    },
    End,
    /// A listing that failed; it never counts as complete.
    Failed(Error),
}

/// An open directory.
pub(crate) struct ReadDir {
    pub(crate) sources: NameSources,
    path: Box<[u8]>,
    feed: Feed,
    /// The number of names drawn so far.
    drawn: usize,
    /// The last names, and the time at which each came.
    recent: VecDeque<(ListedName, Instant)>,
}

impl ReadDir {
    pub(crate) fn new(sources: NameSources, path: &[u8]) -> Self {
        Self { sources, path: path.into(), feed: Feed::Start, drawn: 0, recent: VecDeque::new() }
    }

    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// The remaining part of `ttl` for which the names are valid: all of it for a listing in
    /// progress.
    pub(crate) fn valid(&self, ttl: Duration) -> Duration {
        match &self.feed {
            Feed::Known(directory) => directory.valid(ttl),
            _ => ttl,
        }
    }

    /// Returns the name at position `index`, from 0; `None` behind the last.
    ///
    /// # Errors
    /// The store cannot list.
    pub(crate) fn at(&mut self, index: usize) -> Result<Option<ListedName>> {
        let oldest = self.drawn - self.recent.len();
        // Position 0 restarts the listing, as after `rewinddir`, unless it has just begun.
        if index < oldest
            || (index == 0 && self.drawn > ANSWER)
            || (index == 0 && matches!(self.feed, Feed::Failed(_)))
        {
            self.restart();
        }
        while self.drawn <= index {
            let Some(listed) = self.draw()? else { return Ok(None) };
            if self.recent.len() >= 2 * ANSWER {
                self.recent.pop_front();
            }
            self.recent.push_back((listed, Instant::now()));
            self.drawn += 1;
        }
        let oldest = self.drawn - self.recent.len();
        Ok(self.recent.get(index - oldest).map(|(listed, _)| listed.clone()))
    }

    /// Returns one of the names returned last, and the part of `ttl` for which it is still valid.
    /// `None` if that has passed.
    pub(crate) fn recent(&self, name: &[u8], ttl: Duration) -> Option<(&ListedName, Duration)> {
        let (listed, came) = self.recent.iter().rev().find(|(listed, _)| *listed.child.name == *name)?;
        let valid = ttl.saturating_sub(came.elapsed()).min(self.valid(ttl));
        (!valid.is_zero()).then_some((listed, valid))
    }

    fn restart(&mut self) {
        self.feed = Feed::Start;
        self.drawn = 0;
        self.recent.clear();
    }

    fn draw(&mut self) -> Result<Option<ListedName>> {
        if matches!(self.feed, Feed::Start) {
            self.feed = self.begin()?;
        }
        match &mut self.feed {
            Feed::Known(directory) => Ok(directory.listed().get(self.drawn).cloned()),
            Feed::Listing { children, names, is_wide, begun } => match children.next() {
                Some(Ok(child)) => {
                    let ino = self.sources.inodes.number(&self.path, &child);
                    let listed = ListedName { child: Arc::new(child), ino };
                    names.push(listed.clone());
                    let directories = &self.sources.directories;
                    if !*is_wide && names.len() > directories.widest() {
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
                        *begun = Instant::now();
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
        let begun = Instant::now();
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
            directories.keep(&self.path, Arc::new(DirectorySnapshot::new(names, begun)));
        }
    }
}
