//! Walks a tree in a store that lists one directory at a time, and returns entries in byte order.
//! Each directory is read completely and sorted. Depth and memory are limited, whatever a server
//! sends. The HTTP and SFTP backends use this module.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use firstbyte_location::{Entry, EntryKind};

use crate::error::{Error, Result};
use crate::limits::STACK;
use crate::object::in_listing_order;
use crate::query::{Directories, ListOptions};

/// Maximum length of the path of a directory to enter, in bytes: the limit of Linux. If a path is
/// longer, the tree is assumed to be endless, because a link leads to a directory above itself.
const MAX_PATH_BYTES: usize = 4_096;
/// Maximum memory, in bytes, of the entries of all open directories, without the largest of these
/// directories.
const MAX_WAITING_BYTES: usize = 16 << 20;

/// A tree of directories in a store.
pub(crate) trait DirectoryTree: Send + Sync + 'static {
    /// Number of directories that are read ahead of the walk, each by its own thread.
    const AHEAD: usize;
    /// Whether directories exist independently of files. If so, they are listed.
    const HAS_DIRECTORIES: bool;

    /// Reads the names in `directory`, which is empty for the root and otherwise ends in `/`.
    fn read(&self, directory: &[u8]) -> Result<WalkedNames>;

    /// Returns true if the walk may continue after this error, which is about one directory.
    fn may_skip(&self, error: &Error) -> bool;

    /// Returns the location of a directory, for errors.
    fn place(&self, directory: &[u8]) -> String;
}

/// The names in a directory, relative to it.
#[derive(Default)]
pub(crate) struct WalkedNames {
    pub(crate) entries: Vec<Entry>,
    /// The names that cannot be listed.
    pub(crate) failed: Vec<(Vec<u8>, Error)>,
}

impl From<Vec<Entry>> for WalkedNames {
    fn from(entries: Vec<Entry>) -> Self {
        Self { entries, failed: Vec::new() }
    }
}

/// A walk, with all directories from the root to the current one.
pub(crate) struct StoreWalk<T> {
    tree: Arc<T>,
    options: ListOptions,
    levels: Vec<Level>,
    /// The directory to enter next. The entry of this directory was already returned.
    entering: Option<Vec<u8>>,
    /// The directories that are being read ahead.
    being_read: HashMap<Vec<u8>, Receiver<Result<WalkedNames>>>,
    /// The errors of names that were not returned yet.
    failed: VecDeque<Error>,
}

/// A directory that is being walked.
struct Level {
    /// The name relative to the root: empty, or with a final `/`.
    directory: Vec<u8>,
    /// The remaining entries. Their names are relative to the directory.
    entries: std::vec::IntoIter<Entry>,
    /// The subdirectories that are neither read nor being read ahead, relative to the root.
    unread: VecDeque<Vec<u8>>,
    /// Memory of the entries, in bytes.
    memory: usize,
}

impl<T: DirectoryTree> StoreWalk<T> {
    /// Starts a walk. Reads the root immediately.
    pub(crate) fn begin(tree: Arc<T>, options: &ListOptions) -> Result<Self> {
        let (options, being_read, failed) = (options.clone(), HashMap::new(), VecDeque::new());
        let mut walk = Self { tree, options, levels: Vec::new(), entering: None, being_read, failed };
        walk.enter(Vec::new())?;
        Ok(walk)
    }

    fn enter(&mut self, directory: Vec<u8>) -> Result<()> {
        let protocol =
            |why: String| Error::Protocol { location: self.tree.place(&directory), detail: why, trace: None };
        if directory.len() > MAX_PATH_BYTES {
            let why = format!("a path of more than {MAX_PATH_BYTES} bytes: the tree seems to have no end");
            return Err(protocol(why));
        }
        if let Some(level) = self.levels.last_mut()
            && level.unread.front() == Some(&directory)
        {
            level.unread.pop_front();
        }
        let read = self.being_read.remove(&directory).and_then(|coming| coming.recv().ok());
        let WalkedNames { mut entries, failed } = read.unwrap_or_else(|| self.tree.read(&directory))?;
        let failed = failed.into_iter().map(|(name, error)| ([&directory[..], &name].concat(), error));
        let wanted = failed.filter(|(name, _)| wants_error(&self.options, name));
        self.failed.extend(wanted.map(|(_, error)| error));
        entries.sort_by(|a, b| in_listing_order(a).cmp(in_listing_order(b)));
        let taken = |entry: &Entry| {
            size_of::<Entry>() + entry.name.len() + entry.etag.as_ref().map_or(0, String::len)
        };
        let memory = entries.iter().map(taken).sum();
        let held: usize = self.levels.iter().map(|level| level.memory).sum();
        let largest = self.levels.iter().map(|level| level.memory).max().unwrap_or_default();
        if held + memory - largest.max(memory) > MAX_WAITING_BYTES {
            let depth = self.levels.len() + 1;
            return Err(protocol(format!(
                "{depth} nested directories have too many names to keep in memory"
            )));
        }
        let mut unread = VecDeque::new();
        if T::AHEAD > 0 && self.options.recursive {
            let directories = entries.iter().filter(|entry| entry.kind == EntryKind::Directory);
            unread.extend(directories.map(|entry| [&directory, &entry.name, &b"/"[..]].concat()));
            unread.retain(|directory| may_hold(&self.options, directory));
        }
        self.levels.push(Level { directory, entries: entries.into_iter(), unread, memory });
        self.read_ahead();
        Ok(())
    }

    /// Starts to read the next directories ahead.
    fn read_ahead(&mut self) {
        for level in self.levels.iter_mut().rev() {
            while self.being_read.len() < T::AHEAD
                && let Some(directory) = level.unread.pop_front()
            {
                let (send, receive) = sync_channel(1);
                let (tree, name) = (Arc::clone(&self.tree), directory.clone());
                let read = move || drop(send.send(tree.read(&name)));
                let started = thread::Builder::new().name("list".into()).stack_size(STACK).spawn(read);
                // If no thread can be started, the directory is read when the walk enters it.
                if started.is_ok() {
                    self.being_read.insert(directory, receive);
                }
            }
        }
    }
}

impl<T: DirectoryTree> Iterator for StoreWalk<T> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(error) = self.failed.pop_front() {
                return Some(Err(error));
            }
            if let Some(directory) = self.entering.take()
                && let Err(error) = self.enter(directory)
            {
                match error {
                    // The directory was removed after its parent was read.
                    Error::NotFound { .. } if self.tree.may_skip(&error) => {}
                    _ => {
                        if !self.tree.may_skip(&error) {
                            self.levels.clear();
                        }
                        return Some(Err(error));
                    }
                }
            }
            let level = self.levels.last_mut()?;
            let Some(mut entry) = level.entries.next() else {
                self.levels.pop();
                continue;
            };
            entry.name.splice(..0, level.directory.iter().copied());
            if entry.kind == EntryKind::Directory && self.options.recursive {
                let directory = [&entry.name, &b"/"[..]].concat();
                self.entering = Some(directory).filter(|directory| may_hold(&self.options, directory));
                if !T::HAS_DIRECTORIES || self.options.directories == Directories::Implied {
                    continue;
                }
            }
            if self.options.includes(&entry.name) {
                return Some(Ok(entry));
            }
        }
    }
}

/// Returns true if the error of a name belongs in the listing.
fn wants_error(options: &ListOptions, name: &[u8]) -> bool {
    options.includes(name) && options.bounds.wanted.as_ref().is_none_or(|wanted| wanted.is_met(name))
}

/// Returns true if names below `directory`, which ends in `/`, may belong in the listing.
fn may_hold(options: &ListOptions, directory: &[u8]) -> bool {
    let beginning = options.beginning.as_bytes();
    let after = options.start_after.as_deref().unwrap_or_default().as_bytes();
    let name = directory.strip_suffix(b"/").unwrap_or(directory);
    (directory.starts_with(beginning) || beginning.starts_with(directory))
        && (directory > after || after.starts_with(directory))
        && options.bounds.entered.as_ref().is_none_or(|entered| entered.is_met(name))
}
