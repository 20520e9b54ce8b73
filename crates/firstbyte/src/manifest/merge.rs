//! Compares the receipts of workers with their manifest: which objects are done, missing or
//! changed, and which shards were run twice.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use firstbyte_location::shown;
use serde::Serialize;

use super::{Manifest, ObjectTotals};
use crate::error::{Error, Result};
use crate::receipt::{FailedItem, Receipt};
use crate::shard_receipt::{Changed, DoneObjects, ShardReceipt};
use crate::size::human;

/// Maximum number of objects, and of failures, that are listed by name. The counts include all of
/// them.
pub const MOST_NAMED: usize = 1_000;
/// Maximum number of missing objects in the lines for people.
const MAX_SHOWN: usize = 20;

/// The merged receipts of one manifest.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MergedReceipts {
    /// The id of the manifest.
    pub manifest: String,
    /// Number of shards of the manifest.
    pub shards: u32,
    /// Totals of all objects of the manifest.
    pub planned: ObjectTotals,
    /// Totals of the objects that are done.
    pub done: ObjectTotals,
    /// Totals of the objects that are missing.
    pub missing: ObjectTotals,
    /// The locations of the first missing objects.
    pub missing_objects: Vec<String>,
    /// The indexes of shards without a receipt.
    pub lost_shards: Vec<u32>,
    /// The shards with several receipts.
    pub doubled: Vec<Doubled>,
    /// Objects that were found in another version than planned, and that no other run of their
    /// shard has done.
    pub changed: Vec<Changed>,
    /// Other failures of objects, and failures that ended a run.
    pub failed: Vec<FailedItem>,
    /// Number of bytes that the workers have moved.
    pub bytes: u64,
    /// Number of objects that the workers have found unchanged.
    pub skipped: u64,
    /// Number of requests that the workers have sent.
    pub requests: u64,
    /// Total wall-clock time of all workers, seconds.
    pub seconds: f64,
    /// Wall-clock time of the slowest worker, seconds.
    pub longest_seconds: f64,
    /// The workers, by their version of firstbyte.
    pub workers: Vec<Workers>,
}

/// A shard that was run several times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Doubled {
    /// The index of the shard.
    pub shard: u32,
    /// The number of receipts of the shard.
    pub receipts: u32,
}

/// The workers that have the same version of firstbyte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Workers {
    /// The version of firstbyte.
    pub firstbyte: String,
    /// The indexes of the shards of these workers.
    pub shards: Vec<u32>,
}

/// The merged receipts of one shard.
struct KnownShard {
    done: DoneObjects,
    receipts: u32,
}

/// Merges the receipts of a manifest.
///
/// # Errors
/// [`Error::Manifest`] if a file is not the receipt of a shard, or belongs to another manifest.
pub fn merge(manifest: &Manifest, receipts: &[PathBuf]) -> Result<MergedReceipts> {
    let mut merged = MergedReceipts {
        manifest: manifest.header().id.clone(),
        shards: manifest.count(),
        planned: manifest.all(),
        ..MergedReceipts::default()
    };
    let mut shards: BTreeMap<u32, KnownShard> = BTreeMap::new();
    let mut workers: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut changed = Vec::new();
    for path in receipts {
        let (mut receipt, shard, done) = read_receipt(manifest, path)?;
        let known = shards
            .entry(shard.index)
            .or_insert_with(|| KnownShard { done: DoneObjects::none(shard.objects), receipts: 0 });
        known.done.add(&done);
        known.receipts += 1;
        workers.entry(shard.firstbyte).or_default().push(shard.index);
        receipt.failed.retain(|failed| shard.changed.iter().all(|it| it.location != failed.location));
        changed.extend(shard.changed);
        merged.failed.append(&mut receipt.failed);
        merged.bytes += receipt.bytes;
        merged.skipped += receipt.skipped;
        merged.requests += receipt.requests;
        merged.seconds += receipt.seconds;
        merged.longest_seconds = merged.longest_seconds.max(receipt.seconds);
    }
    merged.lost_shards = (0..manifest.count()).filter(|shard| !shards.contains_key(shard)).collect();
    let doubled = shards.iter().filter(|(_, known)| known.receipts > 1);
    merged.doubled =
        doubled.map(|(shard, known)| Doubled { shard: *shard, receipts: known.receipts }).collect();
    merged.workers = workers
        .into_iter()
        .map(|(firstbyte, mut shards)| {
            shards.sort_unstable();
            shards.dedup();
            Workers { firstbyte, shards }
        })
        .collect();
    merged.count(manifest, &shards)?;
    merged.settle(changed);
    Ok(merged)
}

/// Reads a receipt. Also returns its part about the shard, and the objects that are done.
fn read_receipt(manifest: &Manifest, path: &Path) -> Result<(Receipt, ShardReceipt, DoneObjects)> {
    let fails = |why: String| Error::Manifest { path: shown(path).to_string(), why };
    let text = fs::read_to_string(path).map_err(|error| fails(error.to_string()))?;
    let no_receipt = "is not the receipt of a shard; write one with --receipt FILE";
    let mut receipt = Receipt::parse(&text).map_err(|why| fails(why.unwrap_or_else(|| no_receipt.into())))?;
    let shard = receipt.shard.take().ok_or_else(|| fails(no_receipt.into()))?;
    if shard.manifest != manifest.header().id {
        return Err(fails(format!(
            "a receipt of the manifest {}, not of {}; merge receipts with the manifest that their workers had",
            shard.manifest,
            manifest.header().id
        )));
    }
    let objects = manifest.totals(shard.index).objects;
    let done = DoneObjects::parse(&shard.done, shard.objects)
        .filter(|_| {
            shard.index < manifest.count() && shard.count == manifest.count() && shard.objects == objects
        })
        .ok_or_else(|| fails(format!("shard {}/{} does not fit the manifest", shard.index, shard.count)))?;
    Ok((receipt, shard, done))
}

impl MergedReceipts {
    /// Returns true if every object is done.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.missing.objects == 0
    }

    /// Counts the objects that are done and missing. Reads only the rows of shards that are not
    /// complete.
    fn count(&mut self, manifest: &Manifest, shards: &BTreeMap<u32, KnownShard>) -> Result<()> {
        self.done = self.planned;
        for shard in 0..manifest.count() {
            let known = shards.get(&shard);
            if known.is_some_and(|known| known.done.is_complete()) || manifest.totals(shard).objects == 0 {
                continue;
            }
            for (place, row) in (0..).zip(manifest.rows(Some(shard))?) {
                let row = row.map_err(|error| manifest.error(&error.to_string()))?;
                if known.is_some_and(|known| known.done.contains(place)) {
                    continue;
                }
                self.missing.add(ObjectTotals { objects: 1, bytes: row.size });
                if self.missing_objects.len() < MOST_NAMED {
                    self.missing_objects.push(row.location);
                }
            }
        }
        self.done.objects -= self.missing.objects;
        self.done.bytes -= self.missing.bytes;
        Ok(())
    }

    /// Drops failures that no longer matter. If every object is done, drops all failures;
    /// otherwise, drops those of changed objects that another run of their shard has done.
    fn settle(&mut self, mut changed: Vec<Changed>) {
        if self.is_complete() {
            changed.clear();
            self.failed.clear();
        } else if self.missing_objects.len() < MOST_NAMED {
            let missing = &self.missing_objects;
            changed.retain(|it| missing.contains(&it.location));
        }
        changed.sort_unstable_by(|a, b| a.location.cmp(&b.location));
        changed.dedup();
        changed.truncate(MOST_NAMED);
        self.failed.truncate(MOST_NAMED);
        self.changed = changed;
    }

    /// Formats the result as lines for people.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let objects = |totals: ObjectTotals| format!("{} objects, {}", totals.objects, human(totals.bytes));
        let list = |shards: &[u32]| shards.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let mut lines = vec![format!("done: {} of {}", objects(self.done), objects(self.planned))];
        if !self.is_complete() {
            lines.push(format!("missing: {}", objects(self.missing)));
            lines.extend(self.missing_objects.iter().take(MAX_SHOWN).map(|location| format!("  {location}")));
        }
        if !self.lost_shards.is_empty() {
            lines.push(format!("no receipt of shards: {}", list(&self.lost_shards)));
        }
        for doubled in &self.doubled {
            lines.push(format!("shard {}: run {} times", doubled.shard, doubled.receipts));
        }
        for changed in &self.changed {
            let Changed { location, expected, found } = changed;
            lines.push(format!("changed: {location}: expected {expected}, found {found}"));
        }
        for failed in &self.failed {
            lines.push(format!("failed: {}", failed.error));
        }
        if self.workers.len() > 1 {
            for workers in &self.workers {
                lines.push(format!("firstbyte {}: shards {}", workers.firstbyte, list(&workers.shards)));
            }
        }
        lines.push(format!(
            "{} moved, {} objects unchanged, {} requests, {:.2} s of work, the slowest worker {:.2} s",
            human(self.bytes),
            self.skipped,
            self.requests,
            self.seconds,
            self.longest_seconds
        ));
        lines
    }
}
