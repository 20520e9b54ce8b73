//! Keeps batches that the caller has finished with, so that they are filled again instead of
//! allocated.

use rustix_futex_sync::Mutex;

use crate::batch::Batch;

/// Batches to be filled again, by any thread.
#[derive(Debug)]
pub(crate) struct SpareBatches {
    buffer: usize,
    most: usize,
    batches: Mutex<Vec<Batch>>,
}

impl SpareBatches {
    /// Starts without batches. Keeps at most `most` of them, each of `buffer` bytes.
    pub(crate) fn new(buffer: usize, most: usize) -> Self {
        Self { buffer, most, batches: Mutex::default() }
    }

    /// Returns an empty batch, with used memory if there is some.
    pub(crate) fn take(&self) -> Batch {
        let batch = self.batches.lock().pop();
        batch.unwrap_or_else(|| Batch::new(self.buffer))
    }

    /// Keeps a batch's memory, or frees it if there is enough.
    pub(crate) fn give(&self, mut batch: Batch) {
        batch.clear();
        let mut batches = self.batches.lock();
        if batches.len() < self.most {
            batches.push(batch);
        }
    }
}
