//! A listing read ahead on a thread of its own: where two listings are walked side by side, each would otherwise wait
//! while the other is read.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use firstbyte_location::Entry;
use firstbyte_store::{Listing, Result};

use crate::Error;

/// Entries handed over together: waking the other thread costs as much as reading some tens of entries.
const TOGETHER: usize = 256;
/// Batches that may wait: with names of 100 bytes about 200 KiB.
const WAITING: usize = 4;

type Batch = Vec<Result<Entry>>;

/// A listing's entries in its order. Dropped, it stops the thread at its next batch.
pub(crate) struct Ahead {
    batches: Receiver<Batch>,
    batch: std::vec::IntoIter<Result<Entry>>,
}

impl Ahead {
    /// Starts to read `listing`.
    pub(crate) fn start(listing: Listing) -> crate::Result<Self> {
        let (sender, batches) = sync_channel(WAITING);
        std::thread::Builder::new()
            .name("listing".to_owned())
            .spawn(move || read(listing, &sender))
            .map_err(Error::io("starting a thread"))?;
        Ok(Self { batches, batch: Vec::new().into_iter() })
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
            self.batch = self.batches.recv().ok()?.into_iter();
        }
    }
}
