//! Finds the table of each version that is open in this process, so that all files on a version
//! share one table.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use firstbyte_location::{Location, Strength, Version};
use rustix_futex_sync::Mutex;

use super::BlockTable;
use super::in_flight::FetchId;
use crate::block_store::BlockStore;

#[derive(Default)]
pub(crate) struct OpenTables {
    ids: AtomicU64,
    tables: Mutex<HashMap<Location, Vec<Weak<BlockTable>>>>,
}

impl OpenTables {
    /// Returns the table of a version. If there is none, creates it with the blocks that `store`
    /// opens under a new id.
    ///
    /// An existing table may refuse to fetch, because the store once had another version. The
    /// caller has just seen this version, so the table tries again. This cannot mix versions,
    /// because each request names the version.
    pub(crate) fn open(
        self: &Arc<Self>,
        location: &Location,
        version: Version,
        store: impl FnOnce(u64, &Version) -> BlockStore,
    ) -> Arc<BlockTable> {
        let mut tables = self.tables.lock();
        let weak = tables.entry(location.clone()).or_default();
        // These references are kept until the lock is released: dropping the last reference to a
        // table takes the same lock.
        let open: Vec<Arc<BlockTable>> = weak.iter().filter_map(Weak::upgrade).collect();
        // Two versions that identify no content may be equal and still have different content.
        let same =
            |table: &&Arc<BlockTable>| table.version == version && version.strength() != Strength::None;
        let shared = open.iter().find(same).cloned().inspect(|table| table.forget_final_error());
        let table = shared.unwrap_or_else(|| {
            let blocks = store(self.next_id(), &version);
            let table = Arc::new(BlockTable::new(Arc::clone(self), location.clone(), version, blocks));
            weak.push(Arc::downgrade(&table));
            table
        });
        drop(tables);
        table
    }

    /// Forgets the dropped tables of objects at `location`.
    pub(super) fn close(&self, location: &Location) {
        let mut tables = self.tables.lock();
        if let Some(open) = tables.get_mut(location) {
            open.retain(|table| table.strong_count() > 0);
            if open.is_empty() {
                tables.remove(location);
            }
        }
    }

    /// Returns an id that is unique in this process.
    pub(super) fn next_id(&self) -> FetchId {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }
}
