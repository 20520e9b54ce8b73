//! Compares the receipts of workers with their manifest: which objects are done, missing or
//! changed, and which shards were run twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use firstbyte_location::shown;
use serde::Serialize;

use super::{Manifest, ObjectTotals, local_file, unreadable};
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
    /// The indexes of shards with missing objects. They have to be run again.
    pub incomplete_shards: Vec<u32>,
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
    /// The workers, by the destination that they were given.
    pub destinations: Vec<ShardsOfDestination>,
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

/// The workers that were given the same destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShardsOfDestination {
    /// The destination as it was given. `None` for the cache.
    pub destination: Option<String>,
    /// The indexes of the shards of these workers.
    pub shards: Vec<u32>,
}

/// The merged receipts of one shard.
struct KnownShard {
    done: DoneObjects,
    receipts: u32,
    changed: Vec<Changed>,
    failed: Vec<FailedItem>,
}

impl KnownShard {
    fn new(objects: u64) -> Self {
        let done = DoneObjects::none(objects);
        Self { done, receipts: 0, changed: Vec::new(), failed: Vec::new() }
    }
}

/// Shards by a property of their workers.
type ShardsBy<K> = BTreeMap<K, BTreeSet<u32>>;

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
    let (mut workers, mut destinations): (ShardsBy<String>, ShardsBy<Option<String>>) = Default::default();
    for path in receipts {
        let (mut receipt, shard, done) = read_receipt(manifest, path)?;
        let known = shards.entry(shard.index).or_insert_with(|| KnownShard::new(shard.objects));
        known.done.add(&done);
        known.receipts += 1;
        workers.entry(shard.firstbyte).or_default().insert(shard.index);
        destinations.entry(receipt.destination.take()).or_default().insert(shard.index);
        receipt.failed.retain(|failed| shard.changed.iter().all(|it| it.location != failed.location));
        known.changed.extend(shard.changed);
        known.failed.append(&mut receipt.failed);
        merged.bytes = merged.bytes.saturating_add(receipt.bytes);
        merged.skipped = merged.skipped.saturating_add(receipt.skipped);
        merged.requests = merged.requests.saturating_add(receipt.requests);
        merged.seconds += receipt.seconds;
        merged.longest_seconds = merged.longest_seconds.max(receipt.seconds);
    }
    merged.lost_shards = (0..manifest.count()).filter(|shard| !shards.contains_key(shard)).collect();
    let doubled = shards.iter().filter(|(_, known)| known.receipts > 1);
    merged.doubled =
        doubled.map(|(shard, known)| Doubled { shard: *shard, receipts: known.receipts }).collect();
    let listed = |shards: BTreeSet<u32>| shards.into_iter().collect();
    merged.workers = workers
        .into_iter()
        .map(|(firstbyte, shards)| Workers { firstbyte, shards: listed(shards) })
        .collect();
    merged.destinations = destinations
        .into_iter()
        .map(|(destination, shards)| ShardsOfDestination { destination, shards: listed(shards) })
        .collect();
    merged.count(manifest, &shards)?;
    merged.collect_failures(shards);
    Ok(merged)
}

/// Reads a receipt. Also returns its part about the shard, and the objects that are done.
fn read_receipt(manifest: &Manifest, path: &Path) -> Result<(Receipt, ShardReceipt, DoneObjects)> {
    let path = &local_file(path)?;
    let fails = |why: String| Error::Manifest { path: shown(path).to_string(), why };
    let text = fs::read_to_string(path).map_err(|error| unreadable(path, error))?;
    let no_receipt = "is not the receipt of a shard; write one with --receipt FILE";
    let mut receipt = Receipt::parse(&text).map_err(|why| fails(why.unwrap_or_else(|| no_receipt.into())))?;
    let no_shard = || fails(format!("is a receipt of {} without a manifest; leave it out", receipt.verb));
    let shard = receipt.shard.take().ok_or_else(no_shard)?;
    if shard.manifest != manifest.header().id {
        return Err(fails(format!(
            "a receipt of the manifest {}, not of {}; merge receipts with the manifest that their workers had",
            shard.manifest,
            manifest.header().id
        )));
    }
    let objects = manifest.totals(shard.index).objects;
    let fits = shard.index < manifest.count() && shard.count == manifest.count() && shard.objects == objects;
    // A false number of objects must not decide how much memory is used.
    let done = fits.then(|| DoneObjects::parse(&shard.done, objects)).flatten();
    match done {
        Some(done) => Ok((receipt, shard, done)),
        None => Err(fails(format!("shard {}/{} does not fit the manifest", shard.index, shard.count))),
    }
}

impl MergedReceipts {
    /// Returns true if every object is done.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.missing.objects == 0
    }

    /// Counts the objects that are done and missing. Reads only the rows of shards that are not
    /// complete, all in one pass.
    fn count(&mut self, manifest: &Manifest, shards: &BTreeMap<u32, KnownShard>) -> Result<()> {
        let is_complete = |shard: &u32| shards.get(shard).is_some_and(|known| known.done.is_complete());
        let has_objects = |shard: &u32| manifest.totals(*shard).objects > 0;
        let incomplete: BTreeSet<u32> =
            (0..manifest.count()).filter(|shard| has_objects(shard) && !is_complete(shard)).collect();
        self.done = self.planned;
        self.incomplete_shards = incomplete.iter().copied().collect();
        if incomplete.is_empty() {
            return Ok(());
        }
        let mut places: BTreeMap<u32, u64> = BTreeMap::new();
        for row in manifest.rows(move |shard| incomplete.contains(&shard))? {
            let row = row.map_err(|error| manifest.error(&error.to_string()))?;
            let next = places.entry(row.shard).or_default();
            let place = std::mem::replace(next, *next + 1);
            if shards.get(&row.shard).is_some_and(|known| known.done.contains(place)) {
                continue;
            }
            self.missing.add(ObjectTotals { objects: 1, bytes: row.size });
            if self.missing_objects.len() < MOST_NAMED {
                self.missing_objects.push(row.location);
            }
        }
        self.done.objects = self.done.objects.saturating_sub(self.missing.objects);
        self.done.bytes = self.done.bytes.saturating_sub(self.missing.bytes);
        Ok(())
    }

    /// Collects the failures that still matter: those of shards that are not complete. Leaves out
    /// changed objects that another run of their shard has done, unless too many objects are
    /// missing to be listed.
    fn collect_failures(&mut self, shards: BTreeMap<u32, KnownShard>) {
        for known in shards.into_values().filter(|known| !known.done.is_complete()) {
            self.changed.extend(known.changed);
            self.failed.extend(known.failed);
        }
        if self.missing_objects.len() < MOST_NAMED {
            let missing = &self.missing_objects;
            self.changed.retain(|it| missing.contains(&it.location));
        }
        self.changed.sort_unstable_by(|a, b| a.location.cmp(&b.location));
        self.changed.dedup();
        self.changed.truncate(MOST_NAMED);
        self.failed.truncate(MOST_NAMED);
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
        if !self.incomplete_shards.is_empty() {
            lines.push(format!("shards to run again: {}", list(&self.incomplete_shards)));
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
        if self.destinations.len() > 1 {
            for ShardsOfDestination { destination, shards } in &self.destinations {
                let destination = destination.as_deref().unwrap_or("the cache");
                lines.push(format!("to {destination}: shards {}", list(shards)));
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
