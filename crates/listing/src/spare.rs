//! Keeps batches that the caller has finished with, so that their memory is reused instead of
//! allocated again.

use rustix_futex_sync::Mutex;

use crate::batch::Batch;

/// Batches whose memory any thread may reuse.
#[derive(Debug)]
pub(crate) struct SpareBatches {
    /// Length of the buffer of each batch, bytes.
    buffer: usize,
    max_batches: usize,
    batches: Mutex<Vec<Batch>>,
}

impl SpareBatches {
    /// Starts without batches. Keeps at most `max_batches` batches of `buffer` bytes each.
    pub(crate) fn new(buffer: usize, max_batches: usize) -> Self {
        Self { buffer, max_batches, batches: Mutex::default() }
    }

    /// Returns an empty batch, reusing memory if possible.
    pub(crate) fn take(&self) -> Batch {
        let batch = self.batches.lock().pop();
        batch.unwrap_or_else(|| Batch::new(self.buffer))
    }

    /// Keeps a batch for reuse, or frees it if enough batches are kept.
    pub(crate) fn give(&self, mut batch: Batch) {
        batch.clear();
        let mut batches = self.batches.lock();
        if batches.len() < self.max_batches {
            batches.push(batch);
        }
    }
}
