//! A listing read ahead on a thread of its own: where two listings are walked side by side, each would otherwise wait
//! while the other is read.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use firstbyte_location::Entry;
use firstbyte_store::{Cancel, Error as StoreError, Listing, Result};

use crate::Error;

/// Entries handed over together: waking the other thread costs as much as reading some tens of entries.
const TOGETHER: usize = 256;
/// Batches that may wait: with names of 100 bytes about 200 KiB.
const WAITING: usize = 4;
/// How often a wait for the next batch looks whether the run has ended: a file system may not answer the listing at all.
const LOOK: Duration = Duration::from_millis(50);

type Batch = Vec<Result<Entry>>;

/// A listing's entries in its order. Dropped, it stops the thread at its next batch.
pub(crate) struct Ahead {
    batches: Receiver<Batch>,
    batch: std::vec::IntoIter<Result<Entry>>,
    /// Taken once it has ended the listing.
    cancel: Option<Cancel>,
}

impl Ahead {
    /// Starts to read `listing`; `cancel` ends the wait for it.
    pub(crate) fn start(listing: Listing, cancel: Cancel) -> crate::Result<Self> {
        let (sender, batches) = sync_channel(WAITING);
        std::thread::Builder::new()
            .name("listing".to_owned())
            .spawn(move || read(listing, &sender))
            .map_err(Error::io("starting a thread"))?;
        Ok(Self { batches, batch: Vec::new().into_iter(), cancel: Some(cancel) })
    }
}

fn read(mut listing: Listing, sender: &SyncSender<Batch>) {
    loop {
        let batch: Batch = listing.by_ref().take(TOGETHER).collect();
        // Nobody listens any more, or there is no more.
        if batch.is_empty() || sender.send(batch).is_err() {
            return;
        }
    }
}

impl Iterator for Ahead {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.batch.next() {
                return Some(entry);
            }
            match self.batches.recv_timeout(LOOK) {
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
