//! Reads a listing ahead, on a thread of its own. `sync` and `check` walk two listings side by
//! side: without the threads, reading one listing would stop the other.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};

use firstbyte_location::Entry;
use firstbyte_store::{Cancel, Error as StoreError, Listing, PAGE, POLL_INTERVAL, Result};

use crate::error::Error;

type Batch = Vec<Result<Entry>>;

/// The entries of a listing, in its order. When this value is dropped, the thread stops at its next
/// batch.
pub(crate) struct ListingPrefetch {
    batches: Receiver<Batch>,
    batch: std::vec::IntoIter<Result<Entry>>,
    /// `None` after a cancellation has ended the listing.
    cancel: Option<Cancel>,
}

impl ListingPrefetch {
    /// Starts to read `listing`. `cancel` ends the wait for its entries.
    pub(crate) fn start(listing: Listing, cancel: Cancel) -> crate::error::Result<Self> {
        // The channel has room for one page, which is about 200 KiB if names have 100 bytes.
        let (sender, batches) = sync_channel(1);
        std::thread::Builder::new()
            .name("listing".to_owned())
            .spawn(move || send_batches(listing, &sender))
            .map_err(Error::io("starting a thread"))?;
        Ok(Self { batches, batch: Vec::new().into_iter(), cancel: Some(cancel) })
    }
}

fn send_batches(mut listing: Listing, sender: &SyncSender<Batch>) {
    loop {
        // Entries are sent a page at a time, because waking a thread takes as long as reading some
        // tens of entries.
        let batch: Batch = listing.by_ref().take(PAGE).collect();
        // The listing has ended, or the iterator was dropped.
        if batch.is_empty() || sender.send(batch).is_err() {
            return;
        }
    }
}

impl Iterator for ListingPrefetch {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.batch.next() {
                return Some(entry);
            }
            // A file system may hang, so this wait ends when the run is cancelled.
            match self.batches.recv_timeout(POLL_INTERVAL) {
                Ok(batch) => self.batch = batch.into_iter(),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if self.cancel.as_ref()?.is_cancelled() => {
                    self.cancel = None;
                    return Some(Err(StoreError::Cancelled));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}
