//! Keeps the table of open directories, and decides how many names each reply to the kernel
//! contains.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use firstbyte_location::{EntryKind, to_usize};
use rustix_futex_sync::Mutex;

use crate::child::Child;
use crate::directory::ListedName;
use crate::error::{Error, Result};
use crate::inodes::Ino;
use crate::readdir::{MAX_REPLY_NAMES, ReadDir};
use crate::source::MountSource;

/// Number of names for the first reply, when it is not known yet how many the kernel's buffer
/// holds.
const FIRST_ANSWER_NAMES: usize = 256;

/// A name for a reply.
pub(crate) struct NamedEntry {
    entry: Entry,
    /// The position of the next name.
    pub(crate) next: u64,
    /// Time for which the name is valid.
    pub(crate) valid: Duration,
}

enum Entry {
    Itself(Ino),
    Parent,
    Listed(ListedName),
}

impl NamedEntry {
    pub(crate) fn name(&self) -> &[u8] {
        match &self.entry {
            Entry::Itself(_) => b".",
            Entry::Parent => b"..",
            Entry::Listed(listed) => &listed.child.name,
        }
    }

    pub(crate) fn kind(&self) -> EntryKind {
        self.child().map_or(EntryKind::Directory, |child| child.kind)
    }

    pub(crate) fn ino(&self) -> Ino {
        match &self.entry {
            Entry::Itself(ino) => *ino,
            // The kernel already has the parent's number, and any number but 0 makes the entry
            // visible.
            Entry::Parent => crate::inodes::ROOT,
            Entry::Listed(listed) => listed.ino,
        }
    }

    pub(crate) fn child(&self) -> Option<&Child> {
        match &self.entry {
            Entry::Listed(listed) => Some(&listed.child),
            Entry::Itself(_) | Entry::Parent => None,
        }
    }
}

/// An open directory.
pub(crate) struct OpenDirectory {
    stream: Mutex<ReadDir>,
    path: Box<[u8]>,
    /// Number of names for the next reply.
    want: AtomicUsize,
}

impl OpenDirectory {
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// Returns the entry `name` if the handle has listed it recently, and the time for which it is
    /// valid. Returns `None` while another thread is reading the directory.
    fn recent(&self, name: &[u8], ttl: Duration) -> Option<(ListedName, Duration)> {
        let stream = self.stream.try_lock()?;
        stream.recent(name, ttl).map(|(listed, valid)| (listed.clone(), valid))
    }

    /// Returns names from position `offset` on, as many as the reply is likely to hold.
    pub(crate) fn names(&self, ino: Ino, offset: u64) -> Result<Vec<NamedEntry>> {
        let mut stream = self.stream.lock();
        let mut names = Vec::new();
        for position in offset..offset + self.want.load(Ordering::Relaxed) as u64 {
            let entry = match position {
                0 => Entry::Itself(ino),
                1 => Entry::Parent,
                _ => match stream.at(to_usize(position - 2)) {
                    Ok(Some(listed)) => Entry::Listed(listed),
                    Ok(None) => {
                        stream.sources.prefetch.note_listing_read(&self.path);
                        break;
                    }
                    // The names before the error are returned first, and the next call fails.
                    Err(_) if !names.is_empty() => break,
                    Err(error) => return Err(error),
                },
            };
            names.push(NamedEntry { entry, next: position + 1, valid: stream.valid(stream.sources.ttl) });
        }
        Ok(names)
    }

    /// Returns names like [`names`](Self::names), with the attributes that a listing of local files
    /// leaves out.
    pub(crate) fn names_with_attributes(
        &self,
        source: &MountSource,
        ino: Ino,
        offset: u64,
    ) -> Result<Vec<NamedEntry>> {
        let mut names = self.names(ino, offset)?;
        if source.root().as_local().is_some() {
            for named in &mut names {
                if let Entry::Listed(ListedName { child, .. }) = &mut named.entry
                    && !child.is_known()
                    && let Ok(Some(found)) = source.find(&self.path, &child.name)
                {
                    *child = Arc::new(found);
                }
            }
        }
        Ok(names)
    }

    /// Adapts the number of names for the next reply, after `fitted` of `offered` names went into
    /// this one.
    pub(crate) fn adapt_reply_size(&self, fitted: usize, offered: usize) {
        let want = if fitted == offered { 2 * offered } else { fitted + fitted / 8 + 1 };
        self.want.store(want.clamp(16, MAX_REPLY_NAMES), Ordering::Relaxed);
    }
}

/// The table of all open directories.
#[derive(Default)]
pub(crate) struct DirHandles {
    open: Mutex<HashMap<u64, Arc<OpenDirectory>>>,
    next: AtomicU64,
}

impl DirHandles {
    pub(crate) fn insert(&self, stream: ReadDir) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = stream.path().into();
        let open =
            OpenDirectory { stream: Mutex::new(stream), path, want: AtomicUsize::new(FIRST_ANSWER_NAMES) };
        self.open.lock().insert(number, Arc::new(open));
        number
    }

    pub(crate) fn get(&self, number: u64) -> Result<Arc<OpenDirectory>> {
        self.open.lock().get(&number).cloned().ok_or(Error::Unknown { number })
    }

    /// Returns the entry `name` of the directory at `path`, if an open listing of the directory has
    /// just returned the entry. `ls -l` looks each name up again if the kernel did not keep it.
    pub(crate) fn recent(&self, path: &[u8], name: &[u8], ttl: Duration) -> Option<(ListedName, Duration)> {
        let open: Vec<Arc<OpenDirectory>> =
            self.open.lock().values().filter(|open| *open.path == *path).cloned().collect();
        open.iter().find_map(|open| open.recent(name, ttl))
    }

    pub(crate) fn remove(&self, number: u64) {
        let gone = self.open.lock().remove(&number);
        // Dropped after the lock is released, because ending the requests of a listing may take a
        // while.
        drop(gone);
    }
}
