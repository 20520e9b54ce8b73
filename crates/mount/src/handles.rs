//! Keeps the table of open files, and decides how the kernel reads each inode: through its page
//! cache from this process, or directly from a local file.
//!
//! The kernel allows only one of these modes for an inode, and fails with EIO if both are used. So
//! while a handle of an inode is open, further handles are opened in the same mode. The mode may
//! change after the last handle is closed. The type of the local file is a generic parameter, so
//! that this rule can be tested without a kernel.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix_futex_sync::Mutex;

use crate::error::{Error, Result};
use crate::inodes::Ino;

/// How the kernel reads an inode.
pub(crate) enum InodeReadMode<B> {
    /// Through its page cache, with requests to this process.
    Cached,
    /// Directly from this local file, which has to live until the last handle of the inode is
    /// closed.
    Direct(Arc<B>),
}

impl<B> Clone for InodeReadMode<B> {
    fn clone(&self) -> Self {
        match self {
            Self::Cached => Self::Cached,
            Self::Direct(file) => Self::Direct(Arc::clone(file)),
        }
    }
}

/// The table of all open files. `T` is the reader of an open file, `B` a local file that the kernel
/// reads.
pub(crate) struct HandleTable<T, B> {
    tables: Mutex<OpenHandles<T, B>>,
    next: AtomicU64,
}

struct OpenHandles<T, B> {
    handles: HashMap<u64, (Ino, Arc<T>)>,
    /// For each open inode, how the kernel reads it, and the number of its handles.
    open_inodes: HashMap<Ino, (InodeReadMode<B>, usize)>,
}

impl<T, B> HandleTable<T, B> {
    pub(crate) fn new() -> Self {
        let tables = OpenHandles { handles: HashMap::new(), open_inodes: HashMap::new() };
        Self { tables: Mutex::new(tables), next: AtomicU64::new(1) }
    }

    /// Opens inode `ino`. Returns the number of the handle, and the mode in which the kernel must
    /// open it. `local` returns the local file from which the kernel may read the inode, and is
    /// called only if the inode has no open handle.
    pub(crate) fn open(
        &self,
        ino: Ino,
        reader: T,
        local: impl FnOnce() -> Option<B>,
    ) -> (u64, InodeReadMode<B>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut tables = self.tables.lock();
        let (mode, handles) = tables.open_inodes.entry(ino).or_insert_with(|| {
            (local().map_or(InodeReadMode::Cached, |file| InodeReadMode::Direct(Arc::new(file))), 0)
        });
        *handles += 1;
        let mode = mode.clone();
        tables.handles.insert(number, (ino, Arc::new(reader)));
        (number, mode)
    }

    pub(crate) fn get(&self, number: u64) -> Result<Arc<T>> {
        let tables = self.tables.lock();
        tables.handles.get(&number).map(|(_, reader)| Arc::clone(reader)).ok_or(Error::Unknown { number })
    }

    pub(crate) fn is_open(&self, ino: Ino) -> bool {
        self.tables.lock().open_inodes.contains_key(&ino)
    }

    pub(crate) fn close(&self, number: u64) {
        let mut tables = self.tables.lock();
        let Some((ino, reader)) = tables.handles.remove(&number) else { return };
        let gone = match tables.open_inodes.get_mut(&ino) {
            Some((_, handles)) if *handles > 1 => {
                *handles -= 1;
                None
            }
            _ => tables.open_inodes.remove(&ino),
        };
        // Dropped after the lock is released, because closing files can take a while.
        drop(tables);
        drop((reader, gone));
    }

    /// Returns the number of open handles.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.tables.lock().handles.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_inode_open_before_it_was_hydrated_stays_cached_until_its_last_handle_is_closed() {
        let handles: HandleTable<(), u8> = HandleTable::new();
        let (first, _) = handles.open(7, (), || None);
        let (second, way) = handles.open(7, (), || panic!("asked for a local file while a handle is cached"));
        assert!(matches!(way, InodeReadMode::Cached));
        handles.close(first);
        let (third, way) = handles.open(7, (), || panic!("asked for a local file while a handle is cached"));
        assert!(matches!(way, InodeReadMode::Cached));
        handles.close(second);
        handles.close(third);
        assert!(matches!(handles.open(7, (), || Some(1)).1, InodeReadMode::Direct(_)));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Open { ino: Ino, hydrated: bool },
        Close(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (2_u64..5, any::<bool>()).prop_map(|(ino, hydrated)| Step::Open { ino, hydrated }),
            (0_usize..8).prop_map(Step::Close),
        ]
    }

    proptest! {
        #[test]
        fn handles_of_one_inode_are_never_open_in_two_ways(steps in proptest::collection::vec(step(), 0..200)) {
            let handles: HandleTable<(), u64> = HandleTable::new();
            // Each entry is the number of a handle, its inode, and its local file. Each open
            // creates another local file.
            let mut model: Vec<(u64, Ino, Option<u64>)> = Vec::new();
            for (count, step) in (0..).zip(steps) {
                match step {
                    Step::Open { ino, hydrated } => {
                        let (number, opened) = handles.open(ino, (), || hydrated.then_some(count));
                        let through = match opened { InodeReadMode::Cached => None, InodeReadMode::Direct(file) => Some(*file) };
                        if let Some((_, _, way)) = model.iter().find(|(_, open, _)| *open == ino) {
                            prop_assert_eq!(*way, through);
                        } else {
                            prop_assert_eq!(through.is_some(), hydrated);
                        }
                        model.push((number, ino, through));
                    }
                    Step::Close(index) if index < model.len() => handles.close(model.remove(index).0),
                    Step::Close(_) => {}
                }
                prop_assert_eq!(handles.len(), model.len());
            }
        }
    }
}
