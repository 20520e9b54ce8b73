//! Blocks in memory, where there is no cache or no room in it: fetched ahead, or read in small steps.
//!
//! Bounded. A block that was read to its end goes first, then the one not used for longest.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::BLOCK;

/// Whose block: a file's number in this process, and the block.
type Key = (u64, u64);
/// Who goes first: blocks read to their end before others, then in order of use.
type Rank = (bool, u64);

pub(crate) struct Pool {
    most: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    blocks: HashMap<Key, (Rank, Arc<[u8]>)>,
    order: BTreeMap<Rank, Key>,
    clock: u64,
}

impl Pool {
    /// A pool of at most `bytes`, of some blocks at the least.
    pub(crate) fn new(bytes: u64) -> Self {
        Self { most: usize::try_from(bytes / BLOCK).unwrap_or(usize::MAX).max(4), state: Mutex::default() }
    }

    /// Bytes it holds at most.
    pub(crate) fn capacity(&self) -> u64 {
        self.most as u64 * BLOCK
    }

    pub(crate) fn put(&self, file: u64, block: u64, bytes: &[u8]) {
        let bytes = Arc::from(bytes);
        let mut state = self.lock();
        state.remove((file, block));
        while state.blocks.len() >= self.most
            && let Some((_, key)) = state.order.pop_first()
        {
            state.blocks.remove(&key);
        }
        state.insert((file, block), true, bytes);
    }

    pub(crate) fn has(&self, file: u64, block: u64) -> bool {
        self.lock().blocks.contains_key(&(file, block))
    }

    /// Copies from `offset` of a file on, up to the end of its block; 0 where it is not here.
    pub(crate) fn read_at(&self, file: u64, buffer: &mut [u8], offset: u64) -> usize {
        let key = (file, offset / BLOCK);
        let bytes = {
            let mut state = self.lock();
            let Some((_, bytes)) = state.remove(key) else { return 0 };
            let from = usize::try_from(offset % BLOCK).unwrap_or(0);
            let unread = from + buffer.len() < bytes.len();
            state.insert(key, unread, Arc::clone(&bytes));
            bytes
        };
        let found = bytes.get(usize::try_from(offset % BLOCK).unwrap_or(0)..).unwrap_or_default();
        let count = found.len().min(buffer.len());
        buffer[..count].copy_from_slice(&found[..count]);
        count
    }

    /// Lets a file's blocks go.
    pub(crate) fn forget(&self, file: u64) {
        let mut state = self.lock();
        let keys: Vec<Key> = state.blocks.keys().filter(|(of, _)| *of == file).copied().collect();
        keys.into_iter().for_each(|key| drop(state.remove(key)));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn insert(&mut self, key: Key, unread: bool, bytes: Arc<[u8]>) {
        self.clock += 1;
        let rank = (unread, self.clock);
        self.order.insert(rank, key);
        self.blocks.insert(key, (rank, bytes));
    }

    fn remove(&mut self, key: Key) -> Option<(Rank, Arc<[u8]>)> {
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
    fn what_was_read_to_its_end_goes_before_what_was_not() {
        let pool = Pool::new(4 * BLOCK);
        (0..4).for_each(|number| pool.put(1, number, &block(number)));
        let mut buffer = block(9);
        assert_eq!(pool.read_at(1, &mut buffer, 2 * BLOCK), buffer.len());
        assert_eq!(buffer, block(2));
        pool.put(1, 4, &block(4));
        assert_eq!([0, 1, 2, 3, 4].map(|number| pool.has(1, number)), [true, true, false, true, true]);
        pool.put(1, 5, &block(5));
        assert!(!pool.has(1, 0), "the oldest");
    }

    #[test]
    fn a_read_ends_with_its_block_and_files_do_not_mix() {
        let pool = Pool::new(4 * BLOCK);
        pool.put(1, 0, &block(7)[..1000]);
        let mut buffer = [0; 600];
        assert_eq!(pool.read_at(1, &mut buffer, 600), 400);
        assert_eq!(pool.read_at(2, &mut buffer, 600), 0);
        pool.forget(1);
        assert!(!pool.has(1, 0));
        assert!(pool.lock().order.is_empty());
    }
}
