//! A stream of the listing crate as batches of columns.

use std::sync::{Arc, Mutex};

use firstbyte_listing::{Error, Stream, Visitor};

use super::build::Builder;
use crate::arrow::Batch;

/// Batches of the size asked for, from batches of the size they were read in.
pub(crate) struct Source {
    stream: Stream,
    builder: Builder,
    errors: Arc<Mutex<Vec<Error>>>,
    over: bool,
    /// A child of this process inherits all of this but the threads that list.
    process: u32,
}

impl Source {
    pub(super) fn new(stream: Stream, builder: Builder, errors: Arc<Mutex<Vec<Error>>>) -> Self {
        Self { stream, builder, errors, over: false, process: std::process::id() }
    }
}

impl Iterator for Source {
    type Item = Result<Arc<Batch>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.process != std::process::id() {
            return Some(Err("this listing was begun before a fork: begin another in the child".into()));
        }
        while !self.over && !self.builder.is_ready() {
            match self.stream.next() {
                Some(mut batch) => {
                    // It never asks to stop.
                    let _ = self.builder.visit(&mut batch);
                    self.stream.recycle(batch);
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
