//! Establishes the cache state of a run, such as cold or warm, and collects evidence for it.
//!
//! Three steps surround each run. [`prepare`] establishes the state.
//! [`PreparedCache::observe_before`] observes the state immediately before the run, so that the
//! engine notices a cache that another program has warmed meanwhile. [`conclude`] observes the
//! state again and compares it with the bytes that crossed the wire. Called by the engine.

mod bring;
mod environments;
mod files;
mod names;
mod objects;
mod observe;
mod pages;
mod spec;
mod tolerance;
mod verdict;

use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::result::CacheEvidence;

pub use environments::judge_environments;
use observe::CacheObservation;
pub use spec::{CachedObject, Spec, Tools, Traffic};

/// Returns the error for a file, a directory or a listing of the target that cannot be read.
fn unreadable(path: &Path, error: &io::Error) -> Error {
    let what = format!("{error}; the cache state of a run needs every file of its target to be readable");
    Error::Target { location: path.display().to_string(), what }
}

/// An established cache state, with its first observation.
#[derive(Debug)]
pub struct PreparedCache {
    spec: Spec,
    tools: Tools,
    /// Actions taken, one sentence each.
    done: Vec<String>,
    before: Option<CacheObservation>,
}

/// Establishes the state. May read, evict, fetch and release, but never writes to the target.
///
/// # Errors
/// A file of the target cannot be read, or firstbyte fails.
pub fn prepare(spec: &Spec, tools: &Tools) -> Result<PreparedCache> {
    let mut spec = spec.clone();
    if spec.expected_bytes.is_none() {
        spec.expected_bytes = names::listing_bytes(&spec.names)?;
    }
    let done = bring::establish(&spec, tools)?;
    Ok(PreparedCache { spec, tools: tools.clone(), done, before: None })
}

impl PreparedCache {
    /// Observes the caches. The caller does this last before the run, but before it reads the byte
    /// counters: opening a file on a network may send requests, although no content is read.
    pub fn observe_before(&mut self) {
        self.before = Some(CacheObservation::of(&self.spec, &self.tools));
    }
}

/// Observes the caches after the run, and judges the state. Returns the evidence, and the marks:
/// reasons to keep the run out of the summary. The caller reads the counters for `traffic` before
/// this call.
#[must_use]
pub fn conclude(prepared: PreparedCache, traffic: &Traffic) -> (CacheEvidence, Vec<String>) {
    let after = CacheObservation::of(&prepared.spec, &prepared.tools);
    verdict::judge(&prepared.spec, prepared.done, prepared.before.as_ref(), &after, traffic)
}
