//! Keeps blocks in memory if there is no cache, or no room in the cache. The memory is bounded:
//! blocks that were read to their end are removed first, then the least recently used. The memory
//! of a removed block is reused for the next block: if each thread freed and allocated blocks, the
//! allocator would keep about twice as much.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use firstbyte_location::to_usize;
use rustix_futex_sync::Mutex;

use crate::block::BLOCK;

/// Minimum number of blocks for which there is room: the block that is being read, and the next
/// one.
const MIN_BLOCKS: usize = 2;

/// The id of a version in this process, and the index of a block.
type Key = (u64, u64);
/// The order of removal: first whether the block has unread bytes, then the time of the last use.
type Rank = (bool, u64);

pub(crate) struct MemoryBlocks {
    max_blocks: usize,
    /// Number of open handles that read ahead and share the memory.
    pub(crate) sequential: AtomicU64,
    table: Mutex<Table>,
}

/// The bytes of a block. Readers copy them after they have released the lock on the table.
type Bytes = Arc<Vec<u8>>;

#[derive(Default)]
struct Table {
    blocks: HashMap<Key, (Rank, Bytes)>,
    order: BTreeMap<Rank, Key>,
    clock: u64,
}

impl MemoryBlocks {
    /// Creates a memory for `bytes`, but for at least [`MIN_BLOCKS`] blocks.
    pub(crate) fn new(bytes: u64) -> Self {
        let max_blocks = to_usize(bytes / BLOCK).max(MIN_BLOCKS);
        Self { max_blocks, sequential: AtomicU64::new(0), table: Mutex::default() }
    }

    /// Returns the read-ahead window of one sequential reader, bytes: its share of three quarters
    /// of the memory.
    pub(super) fn window(&self) -> u64 {
        self.max_blocks as u64 * BLOCK / 4 * 3 / self.sequential.load(Relaxed).max(1)
    }

    pub(super) fn put(&self, file: u64, block: u64, bytes: &[u8]) {
        let mut held = self.table.lock().make_room(self.max_blocks).unwrap_or_default();
        match Arc::get_mut(&mut held) {
            Some(held) => {
                held.clear();
                held.extend_from_slice(bytes);
            }
            // A reader still copies from the removed block, so the new block gets memory of its
            // own.
            None => held = Arc::new(bytes.to_vec()),
        }
        let mut table = self.table.lock();
        table.remove((file, block));
        // Another thread may have stored a block since room was made.
        table.make_room(self.max_blocks);
        table.insert((file, block), true, held);
    }

    pub(super) fn has(&self, file: u64, block: u64) -> bool {
        self.table.lock().blocks.contains_key(&(file, block))
    }

    /// Copies bytes from `offset` up to the end of the block. Returns 0 if the block is absent.
    pub(super) fn read_at(&self, file: u64, buffer: &mut [u8], offset: u64) -> usize {
        let key = (file, offset / BLOCK);
        let from = to_usize(offset % BLOCK);
        let bytes = {
            let mut table = self.table.lock();
            let Some((_, bytes)) = table.remove(key) else { return 0 };
            let unread = from + buffer.len() < bytes.len();
            table.insert(key, unread, Arc::clone(&bytes));
            bytes
        };
        let found = bytes.get(from..).unwrap_or_default();
        let count = found.len().min(buffer.len());
        buffer[..count].copy_from_slice(&found[..count]);
        count
    }

    pub(super) fn remove_file(&self, file: u64) {
        let mut table = self.table.lock();
        let keys: Vec<Key> = table.blocks.keys().filter(|(of, _)| *of == file).copied().collect();
        keys.into_iter().for_each(|key| drop(table.remove(key)));
    }
}

impl Table {
    /// Makes room for one block within `max_blocks` blocks. Returns the memory of a removed block.
    fn make_room(&mut self, max_blocks: usize) -> Option<Bytes> {
        let mut removed = None;
        while self.blocks.len() >= max_blocks
            && let Some((_, key)) = self.order.pop_first()
        {
            removed = self.blocks.remove(&key);
        }
        removed.map(|(_, bytes)| bytes)
    }

    fn insert(&mut self, key: Key, unread: bool, bytes: Bytes) {
        self.clock += 1;
        let rank = (unread, self.clock);
        self.order.insert(rank, key);
        self.blocks.insert(key, (rank, bytes));
    }

    fn remove(&mut self, key: Key) -> Option<(Rank, Bytes)> {
        let found = self.blocks.remove(&key)?;
        self.order.remove(&found.0);
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(of: u64) -> Vec<u8> {
        vec![u8::try_from(of % 251).unwrap(); usize::try_from(BLOCK).unwrap()]
    }

    #[test]
    fn blocks_read_to_their_end_are_removed_first() {
        let memory = MemoryBlocks::new(4 * BLOCK);
        (0..4).for_each(|number| memory.put(1, number, &block(number)));
        let mut buffer = block(9);
        assert_eq!(memory.read_at(1, &mut buffer, 2 * BLOCK), buffer.len());
        assert_eq!(buffer, block(2));
        memory.put(1, 4, &block(4));
        assert_eq!([0, 1, 2, 3, 4].map(|number| memory.has(1, number)), [true, true, false, true, true]);
        memory.put(1, 5, &block(5));
        assert!(!memory.has(1, 0), "the oldest");
    }

    #[test]
    fn a_block_takes_the_memory_of_the_one_it_replaces() {
        let memory = MemoryBlocks::new(4 * BLOCK);
        let at = |number| memory.table.lock().blocks[&(1, number)].1.as_ptr();
        (0..4).for_each(|number| memory.put(1, number, &block(number)));
        let first = at(0);
        memory.put(1, 4, &block(4));
        assert_eq!(at(4), first);
        let mut buffer = block(9);
        assert_eq!(memory.read_at(1, &mut buffer, 4 * BLOCK), buffer.len());
        assert_eq!(buffer, block(4));
    }

    #[test]
    fn a_read_ends_with_its_block_and_files_do_not_mix() {
        let memory = MemoryBlocks::new(4 * BLOCK);
        memory.put(1, 0, &block(7)[..1000]);
        let mut buffer = [0; 600];
        assert_eq!(memory.read_at(1, &mut buffer, 600), 400);
        assert_eq!(memory.read_at(2, &mut buffer, 600), 0);
        memory.remove_file(1);
        assert!(!memory.has(1, 0));
        assert!(memory.table.lock().order.is_empty());
    }
}
