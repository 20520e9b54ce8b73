//! The walk over a tree: which directory is read next.
//!
//! Unsorted, the directories found wait as names until the one being read is done. Sorted, a directory is read whole,
//! ordered and closed, and each one in it is entered at its place. Either way one directory is open at a time.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firstbyte_location::{Entry, Kind};
use rustix::io::Errno;

use crate::directory::{Directory, Identity, at, below};
use crate::{Depth, Error, Options, Order, Result, Symlinks};

/// The directories above one, to tell when a link leads back to one of them.
struct Chain {
    identity: Identity,
    above: Option<Arc<Chain>>,
}

/// A directory found and not read yet.
struct Waiting {
    name: Vec<u8>,
    above: Option<Arc<Chain>>,
}

/// Entries read and not handed out yet, all of one directory.
struct Batch {
    entries: std::vec::IntoIter<Result<Entry>>,
    chain: Option<Arc<Chain>>,
}

/// The entries below a root, as they are found.
pub struct Walk {
    path: PathBuf,
    options: Options,
    root: Directory,
    /// The directory whose next buffer is read once its last one is handed out; only unsorted.
    open: Option<(Directory, Option<Arc<Chain>>)>,
    /// What was read and not handed out: one directory a level where sorted, else one.
    batches: Vec<Batch>,
    waiting: Vec<Waiting>,
}

/// Lists what is below the directory `root`.
///
/// # Errors
/// [`Error::Io`] if `root` cannot be opened as a directory.
pub fn walk(root: &Path, options: Options) -> Result<Walk> {
    let fail = |error: Errno| at(root, b"", error);
    let mut walk = Walk {
        path: root.to_owned(),
        options,
        root: Directory::root(root).map_err(fail)?,
        open: None,
        batches: Vec::new(),
        waiting: Vec::new(),
    };
    // A descriptor of its own for reading: the root's is kept for opening what lies below.
    walk.enter(Directory::root(root).map_err(fail)?, b"", None)?;
    Ok(walk)
}

impl Iterator for Walk {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let due = if self.options.order == Order::Bytes { self.waiting.pop() } else { None };
            if let Some(directory) = due {
                if let Err(error) = self.open(directory) {
                    return Some(Err(error));
                }
            } else if let Some(batch) = self.batches.last_mut() {
                if let Some(entry) = batch.entries.next() {
                    let chain = batch.chain.clone();
                    self.queue(&entry, chain);
                    return Some(entry);
                }
                self.batches.pop();
            } else if let Err(error) = self.refill()? {
                return Some(Err(error));
            }
        }
    }
}

impl Walk {
    /// Notes a directory that is to be entered.
    fn queue(&mut self, entry: &Result<Entry>, above: Option<Arc<Chain>>) {
        if let Ok(entry) = entry
            && entry.kind == Kind::Directory
            && self.options.depth == Depth::Recursive
        {
            self.waiting.push(Waiting { name: entry.name.clone(), above });
        }
    }

    /// Reads on, in the open directory or else in one that waits; nothing when the walk is over.
    fn refill(&mut self) -> Option<Result<()>> {
        if let Some((directory, chain)) = self.open.take() {
            return Some(self.read(directory, chain));
        }
        let waiting = self.waiting.pop()?;
        Some(self.open(waiting))
    }

    fn open(&mut self, waiting: Waiting) -> Result<()> {
        match Directory::open(self.root.fd(), &waiting.name, self.options.symlinks) {
            Ok(directory) => self.enter(directory, &waiting.name, waiting.above),
            Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(at(&self.path, &waiting.name, error)),
        }
    }

    /// Begins with a directory, unless a link led back to it.
    fn enter(&mut self, directory: Directory, name: &[u8], above: Option<Arc<Chain>>) -> Result<()> {
        if self.options.symlinks == Symlinks::Report {
            return self.read(directory, None);
        }
        let identity = directory.identity().map_err(|error| at(&self.path, name, error))?;
        let mut ancestor = above.as_deref();
        while let Some(chain) = ancestor {
            if chain.identity == identity {
                return Err(Error::Loop { path: below(&self.path, name) });
            }
            ancestor = chain.above.as_deref();
        }
        self.read(directory, Some(Arc::new(Chain { identity, above })))
    }

    /// Reads a buffer of entries, or, where they are sorted, all of them.
    fn read(&mut self, directory: Directory, chain: Option<Arc<Chain>>) -> Result<()> {
        let mut entries = Vec::new();
        let sorted = self.options.order == Order::Bytes;
        loop {
            match directory.read(&self.path, self.options, &mut entries) {
                Ok(true) if sorted => {}
                Ok(true) => {
                    self.open = Some((directory, chain.clone()));
                    break;
                }
                // A directory removed while it is read has no more entries.
                Ok(false) | Err(Errno::NOENT) => break,
                Err(error) => {
                    entries.push(Err(at(&self.path, directory.name(), error)));
                    break;
                }
            }
        }
        if sorted {
            entries.sort_unstable_by(|a, b| sort_key(a).cmp(sort_key(b)));
        }
        self.batches.push(Batch { entries: entries.into_iter(), chain });
        Ok(())
    }
}

/// The bytes a name is ordered by: errors first, and a directory as everything below it is, with its `/`.
fn sort_key(entry: &Result<Entry>) -> impl Iterator<Item = u8> + '_ {
    let (name, slash) = match entry {
        Ok(entry) => (entry.name.as_slice(), entry.kind == Kind::Directory),
        Err(_) => (&b""[..], false),
    };
    name.iter().copied().chain(slash.then_some(b'/'))
}

#[cfg(test)]
mod tests;
