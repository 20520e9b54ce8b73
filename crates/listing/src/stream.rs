//! Returns a listing as an iterator: the listing threads fill batches, and the caller takes them.
//!
//! Few batches wait at a time, and the memory of returned batches is reused. So a listing of any
//! length takes the same memory, however slowly the caller reads.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::options::ListingOptions;
use crate::scan::Scan;
use crate::spare::SpareBatches;

/// Number of batches that may wait for the caller. With this many, threads need not wait for each
/// other.
const MAX_WAITING_BATCHES: usize = 4;

/// The batches of a listing. Dropping this value ends the listing.
#[derive(Debug)]
pub struct BatchStream {
    batches: Receiver<Batch>,
    spare: Arc<SpareBatches>,
}

/// Begins to list everything below the directory `root`, in no particular order; see
/// [`scan`](crate::scan).
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) if `root` cannot be opened as a directory.
pub fn stream(root: &Path, options: &ListingOptions) -> Result<BatchStream> {
    stream_of(root, Scan::open(root, options)?)
}

/// Begins the listing `scan` of the directory `root`.
pub(crate) fn stream_of(root: &Path, scan: Scan) -> Result<BatchStream> {
    let spare = Arc::new(SpareBatches::new(scan.tuning().buffer, MAX_WAITING_BATCHES + 1));
    let (sender, batches) = sync_channel(MAX_WAITING_BATCHES);
    let filler = Arc::clone(&spare);
    let work = move || drop(scan.run(|| sending_visitor(sender.clone(), Arc::clone(&filler))));
    let started = std::thread::Builder::new().name("firstbyte-list".into()).spawn(work);
    started.map_err(|source| Error::Io { path: root.to_path_buf(), source })?;
    Ok(BatchStream { batches, spare })
}

/// Makes a visitor that sends its batches until the receiver is dropped.
fn sending_visitor(
    sender: SyncSender<Batch>,
    spare: Arc<SpareBatches>,
) -> impl FnMut(&mut Batch) -> ControlFlow<()> + Send {
    move |batch| match sender.send(std::mem::replace(batch, spare.take())) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}

impl BatchStream {
    /// Takes back a batch, so that its memory is reused.
    pub fn recycle(&self, batch: Batch) {
        self.spare.give(batch);
    }
}

impl Iterator for BatchStream {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        self.batches.recv().ok()
    }
}
