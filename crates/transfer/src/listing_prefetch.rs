//! Reads a listing ahead on its own thread. `sync` walks two listings side by side, and each would
//! otherwise wait while the other is read.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};

use firstbyte_location::Entry;
use firstbyte_store::{Cancel, Error as StoreError, Listing, PAGE, POLL_INTERVAL, Result};

use crate::error::Error;

type Batch = Vec<Result<Entry>>;

/// A listing's entries in its order. When it is dropped, the thread stops at its next batch.
pub(crate) struct ListingPrefetch {
    batches: Receiver<Batch>,
    batch: std::vec::IntoIter<Result<Entry>>,
    /// `None` once a cancellation has ended the listing.
    cancel: Option<Cancel>,
}

impl ListingPrefetch {
    /// Starts to read `listing`; `cancel` ends the wait for it.
    pub(crate) fn start(listing: Listing, cancel: Cancel) -> crate::error::Result<Self> {
        // One page waits in the channel: about 200 KiB with names of 100 bytes.
        let (sender, batches) = sync_channel(1);
        std::thread::Builder::new()
            .name("listing".to_owned())
            .spawn(move || read(listing, &sender))
            .map_err(Error::io("starting a thread"))?;
        Ok(Self { batches, batch: Vec::new().into_iter(), cancel: Some(cancel) })
    }
}

fn read(mut listing: Listing, sender: &SyncSender<Batch>) {
    loop {
        // A page at a time: waking a thread costs as much as reading some tens of entries.
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
            // A file system may hang, so the wait for it can be cancelled.
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
