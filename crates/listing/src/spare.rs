//! Keeps batches that the caller has finished with, so that their memory is reused instead of
//! allocated again.

use rustix_futex_sync::Mutex;

use crate::batch::Batch;

/// Batches whose memory any thread may reuse.
#[derive(Debug)]
pub(crate) struct SpareBatches {
    buffer: usize,
    most: usize,
    batches: Mutex<Vec<Batch>>,
}

impl SpareBatches {
    /// Starts empty. Keeps at most `most` batches of `buffer` bytes each.
    pub(crate) fn new(buffer: usize, most: usize) -> Self {
        Self { buffer, most, batches: Mutex::default() }
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
        if batches.len() < self.most {
            batches.push(batch);
        }
    }
}
