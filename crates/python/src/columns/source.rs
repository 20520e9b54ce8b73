//! Converts the listing of a local directory or of a store into batches of columns. Reads only as
//! the caller takes batches.

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use firstbyte_listing::{BatchStream, Error, Visitor};
use firstbyte_store::{Cancel, Listing};
use rustix_futex_sync::Mutex;

use super::build::ColumnsBuilder;
use super::stored;

/// The error message if a forked child continues the listing of its parent.
pub(super) const INHERITED: &str = "this listing was begun before a fork: begin another in the child";

/// Reason why there is no next batch.
pub(crate) enum BatchFailure {
    /// A name that the column cannot hold.
    Name(String),
    /// The listing was begun before a fork.
    Inherited,
    /// The store failed.
    Store(firstbyte::Error),
}

impl fmt::Display for BatchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(line) => f.write_str(line),
            Self::Inherited => f.write_str(INHERITED),
            Self::Store(error) => error.fmt(f),
        }
    }
}

/// Iterates over batches of the requested size, whatever the sizes of the batches that were read.
pub(crate) struct BatchSource {
    /// `None` only while this value is dropped.
    entries: Option<Entries>,
    /// The process that began the listing. A forked child inherits everything except the threads
    /// that list.
    process: u32,
}

/// The origin of the entries.
enum Entries {
    Local { stream: BatchStream, builder: ColumnsBuilder, errors: Arc<Mutex<Vec<Error>>>, over: bool },
    Stored { listing: Listing, builder: stored::StoredColumnsBuilder, cancel: Cancel, over: bool },
}

impl BatchSource {
    pub(super) fn local(
        stream: BatchStream,
        builder: ColumnsBuilder,
        errors: Arc<Mutex<Vec<Error>>>,
    ) -> Self {
        Self::new(Entries::Local { stream, builder, errors, over: false })
    }

    /// Makes a source from the listing of a store. `cancel` ends the listing's requests.
    pub(super) fn stored(listing: Listing, builder: stored::StoredColumnsBuilder, cancel: Cancel) -> Self {
        Self::new(Entries::Stored { listing, builder, cancel, over: false })
    }

    fn new(entries: Entries) -> Self {
        Self { entries: Some(entries), process: std::process::id() }
    }

    /// Returns the handle that cancels the listing's requests, if the listing is a store's.
    pub(super) fn cancel(&self) -> Option<Cancel> {
        match &self.entries {
            Some(Entries::Stored { cancel, .. }) => Some(cancel.clone()),
            _ => None,
        }
    }

    /// Returns whether this process is a forked child of the process that began the listing.
    fn is_inherited(&self) -> bool {
        self.process != std::process::id()
    }
}

impl Drop for BatchSource {
    fn drop(&mut self) {
        if self.is_inherited() {
            // A thread may have been sending a batch when the process forked. Dropping the receiver
            // in the child would wait forever for the rest of that batch, so the entries are
            // leaked.
            std::mem::forget(self.entries.take());
        }
    }
}

impl Iterator for BatchSource {
    type Item = Result<RecordBatch, BatchFailure>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_inherited() {
            return Some(Err(BatchFailure::Inherited));
        }
        match self.entries.as_mut()? {
            Entries::Local { stream, builder, errors, over } => {
                while !*over && !builder.is_ready() {
                    match stream.next() {
                        Some(mut batch) => {
                            // The result is ignored, because the builder never asks to stop.
                            let _ = builder.visit(&mut batch);
                            stream.recycle(batch);
                        }
                        None => {
                            *over = true;
                            builder.complete();
                        }
                    }
                    let mut errors = errors.lock();
                    errors.append(&mut builder.errors);
                }
                Some(builder.take()?.map_err(BatchFailure::Name))
            }
            Entries::Stored { listing, builder, over, .. } => {
                while !*over && !builder.is_full() {
                    match listing.next() {
                        Some(Ok(entry)) => builder.push(&entry),
                        Some(Err(error)) => {
                            *over = true;
                            return Some(Err(BatchFailure::Store(error.into())));
                        }
                        None => *over = true,
                    }
                }
                Some(builder.take()?.map_err(BatchFailure::Name))
            }
        }
    }
}
