//! Turns a stream of the listing crate into batches of columns.

use std::sync::{Arc, Mutex};

use firstbyte_listing::{Error, Stream, Visitor};

use super::build::Builder;
use crate::arrow::Batch;

/// What is said where a child of the process that began a listing continues it.
pub(super) const INHERITED: &str = "this listing was begun before a fork: begin another in the child";

/// Batches of the size asked for, from batches of the size they were read in.
pub(crate) struct Source {
    /// `None` only while it is dropped.
    stream: Option<Stream>,
    builder: Builder,
    errors: Arc<Mutex<Vec<Error>>>,
    over: bool,
    /// A child of this process inherits all of this but the threads that list.
    process: u32,
}

impl Source {
    pub(super) fn new(stream: Stream, builder: Builder, errors: Arc<Mutex<Vec<Error>>>) -> Self {
        Self { stream: Some(stream), builder, errors, over: false, process: std::process::id() }
    }

    /// Whether this process is a child of the one that lists.
    pub(super) fn is_inherited(&self) -> bool {
        self.process != std::process::id()
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if self.is_inherited() {
            // A thread may have been sending when the process forked. To drop the receiver would
            // wait for the rest of that batch, for ever.
            std::mem::forget(self.stream.take());
        }
    }
}

impl Iterator for Source {
    type Item = Result<Arc<Batch>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_inherited() {
            return Some(Err(INHERITED.into()));
        }
        while !self.over && !self.builder.is_ready() {
            let Some(stream) = &mut self.stream else { break };
            match stream.next() {
                Some(mut batch) => {
                    // It never asks to stop.
                    let _ = self.builder.visit(&mut batch);
                    stream.recycle(batch);
                }
                None => {
                    self.over = true;
                    self.builder.complete();
                }
            }
            let mut errors = self.errors.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            errors.append(&mut self.builder.errors);
        }
        self.builder.take().map(|batch| batch.map(Arc::new))
    }
}
