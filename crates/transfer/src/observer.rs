//! Who watches a transfer: progress bars, logs, tests. Called from worker threads, so it must be quick.

use firstbyte_location::Location;

use crate::Failure;

/// What a dry run would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Copy an object.
    Copy {
        /// From.
        source: Location,
        /// To.
        destination: Location,
        /// Length in bytes, where the listing tells it.
        size: Option<u64>,
    },
    /// Delete an object that the source does not have.
    Delete {
        /// What.
        location: Location,
    },
}

/// Told what happens. Every method does nothing unless overridden.
pub trait Observer: Sync {
    /// That many more objects and bytes are to be moved (called again as more is found).
    fn expected(&self, _objects: u64, _bytes: u64) {}
    /// That many bytes more have arrived.
    fn moved(&self, _bytes: u64) {}
    /// An object is complete at its destination: `bytes` long, part of which may have been there from an earlier run.
    fn finished(&self, _source: &Location, _destination: &Location, _bytes: u64) {}
    /// An object was found unchanged.
    fn skipped(&self, _source: &Location) {}
    /// An object failed for good.
    fn failed(&self, _failure: &Failure) {}
    /// A dry run would do this.
    fn planned(&self, _action: &Action) {}
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}
