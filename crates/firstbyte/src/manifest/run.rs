//! Runs one worker on its shard: passes the shard's objects to the transfer engine or to hydration,
//! and records which of them are done.
//!
//! Each source of the manifest is a run of its own, on a tree with the shard's names. Only a few
//! objects are in flight, whatever the size of the shard, and each done object takes one bit.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::iter::Peekable;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use firstbyte_hydrate::{HydrationFailure as HydrateFailure, HydrationItem, HydrationList};
use firstbyte_location::{Entry, EntryKind, Location, Strength, Version};
use firstbyte_store::{Error as StoreError, Listing, differing_texts};
use firstbyte_transfer::{
    Action, Effect, Engine, Error as TransferError, Failure, Levels, Observer, Shard, Summary, Tree,
    TreeNames,
};
use rustix_futex_sync::Mutex;

use super::choice::ShardChoice;
use super::table::{ManifestRow, Rows};
use super::{Manifest, version};
use crate::environment::VariableLookup;
use crate::error::Result;
use crate::shard_receipt::{Changed, DoneObjects, ShardReceipt};

/// A shard of a manifest, and how much of it is done.
pub struct ShardRun {
    manifest: Manifest,
    shard: Shard,
    marks: Arc<Mutex<ObjectMarks>>,
}

/// Where a shard is copied.
#[derive(Clone, Copy, Debug)]
pub enum ShardTarget<'a> {
    /// To where `cp -r SRC DST` would copy each source.
    Copy(&'a OsStr),
    /// To the given location, which takes the contents of each source, as with `sync SRC DST`.
    Contents(&'a Location),
}

impl ShardRun {
    /// Opens the shard `choice` of the manifest at `path`.
    ///
    /// # Errors
    /// [`Error::Manifest`](crate::Error::Manifest), and a shard that the manifest does not have.
    pub fn open(path: &Path, choice: ShardChoice, lookup: VariableLookup<'_>) -> Result<Self> {
        let manifest = Manifest::open(path)?;
        let shard = choice.of_manifest(&manifest, lookup)?;
        let marks = ObjectMarks::of(manifest.totals(shard.index).objects);
        Ok(Self { manifest, shard, marks: Arc::new(Mutex::new(marks)) })
    }

    /// Returns the manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the shard.
    #[must_use]
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// Returns the sources, in the form in which a receipt names them.
    #[must_use]
    pub fn sources(&self) -> String {
        let roots = self.manifest.header.sources.iter().map(|source| source.root.as_str());
        roots.collect::<Vec<_>>().join(" ")
    }

    /// Copies the shard. Calls `report` with the outcome of each source; `report` returns whether
    /// to continue.
    ///
    /// # Errors
    /// The destination cannot be used, or the manifest cannot be read.
    pub fn copy(
        &self,
        engine: &Engine,
        target: ShardTarget<'_>,
        effect: Effect,
        observer: &dyn Observer,
        report: &mut dyn FnMut(firstbyte_transfer::Result<Summary>) -> bool,
    ) -> Result<()> {
        let destination = match target {
            ShardTarget::Copy(text) => Some(self.manifest.destination(text)?),
            ShardTarget::Contents(_) => None,
        };
        let mut trees = Vec::new();
        for source in &self.manifest.header.sources {
            let to = match (&destination, target) {
                (Some(destination), _) => source.target(destination)?,
                (None, ShardTarget::Contents(location)) => location.clone(),
                (None, ShardTarget::Copy(text)) => Location::parse(text)?,
            };
            trees.push((source.location()?, to));
        }
        let feed = Arc::new(Mutex::new(self.feed()?));
        let observer = MarkingObserver { inner: observer, marks: &self.marks };
        for (place, (root, destination)) in trees.into_iter().enumerate() {
            let entries = SourceEntries {
                feed: Arc::clone(&feed),
                source: place as u32,
                root: root.clone(),
                marks: Arc::clone(&self.marks),
            };
            if !entries.has_any() {
                continue;
            }
            let entries = Mutex::new(Some(entries));
            let open = || {
                let taken = entries.lock().take();
                Ok(Listing::of(taken.into_iter().flatten()))
            };
            let tree = Tree {
                source: root,
                names: TreeNames::Given(&open),
                destination,
                beginning: String::new(),
                levels: Levels::All,
                select: &|_| true,
                bounds: Default::default(),
                shard: Shard::default(),
                effect,
            };
            if !report(engine.copy_tree(&tree, &observer)) {
                break;
            }
        }
        Ok(())
    }

    /// Lists the objects of the shard for hydration.
    ///
    /// # Errors
    /// The manifest cannot be read.
    #[expect(clippy::result_large_err, reason = "an item of a list, made once an object")]
    pub fn wanted(&self) -> Result<HydrationList> {
        Ok(Box::new(self.feed()?.map(|row| match row {
            Ok((_, row)) => {
                let (location, version) = row_parts(&row).map_err(|error| wanted_failure(&row, error))?;
                let version = Some(version).filter(|version| version.strength() > Strength::None);
                Ok(HydrationItem { location, version, range: None })
            }
            Err(error) => {
                let location = Location::Local("the manifest".into());
                let source = StoreError::Io { location: location.to_string(), source: error };
                Err(HydrateFailure { location, error: source.into() })
            }
        })))
    }

    /// Records the end of a hydration: all objects that have not failed are done. Must not be
    /// called after a hydration that was stopped. When that is run again, it finds the blocks that
    /// were cached.
    ///
    /// # Errors
    /// The manifest cannot be read.
    pub fn hydrated(&self, failed: &[HydrateFailure]) -> Result<()> {
        let not_done: HashSet<&Location> = failed.iter().map(|failure| &failure.location).collect();
        let mut marks = self.marks.lock();
        for failure in failed {
            if let firstbyte_hydrate::Error::Changed { expected, found, .. } = &failure.error {
                marks.changed(failure.location.to_string(), expected.clone(), found.clone());
            }
        }
        for row in self.feed()? {
            let (place, row) = row.map_err(|error| self.manifest.error(&error.to_string()))?;
            if row_parts(&row).is_ok_and(|(location, _)| !not_done.contains(&location)) {
                marks.done.insert(place);
            }
        }
        Ok(())
    }

    /// Creates the receipt of the shard as far as it is done.
    #[must_use]
    pub fn receipt(&self) -> ShardReceipt {
        let marks = self.marks.lock();
        ShardReceipt {
            manifest: self.manifest.header.id.clone(),
            index: self.shard.index,
            count: self.shard.count,
            objects: self.manifest.totals(self.shard.index).objects,
            done: marks.done.to_text(),
            changed: marks.changed.clone(),
            firstbyte: env!("CARGO_PKG_VERSION").into(),
        }
    }

    fn feed(&self) -> Result<Feed> {
        Ok(Feed { rows: self.manifest.rows(Some(self.shard.index))?.peekable(), place: 0 })
    }
}

/// The states of a shard's objects.
struct ObjectMarks {
    done: DoneObjects,
    /// Objects that were passed on and are not finished, with their positions in the shard.
    in_flight: HashMap<Location, u64>,
    changed: Vec<Changed>,
}

impl ObjectMarks {
    fn of(objects: u64) -> Self {
        Self { done: DoneObjects::none(objects), in_flight: HashMap::new(), changed: Vec::new() }
    }

    fn finish(&mut self, location: &Location) {
        if let Some(place) = self.in_flight.remove(location) {
            self.done.insert(place);
        }
    }

    fn changed(&mut self, location: String, expected: String, found: String) {
        if self.changed.len() < Summary::LISTED_FAILURES {
            self.changed.push(Changed { location, expected, found });
        }
    }
}

/// An observer that records which objects are done or have failed, and passes all events on to
/// another observer.
struct MarkingObserver<'a> {
    inner: &'a dyn Observer,
    marks: &'a Mutex<ObjectMarks>,
}

impl Observer for MarkingObserver<'_> {
    fn expected(&self, objects: u64, bytes: u64) {
        self.inner.expected(objects, bytes);
    }

    fn listed(&self) {
        self.inner.listed();
    }

    fn began(&self, source: &Location) {
        self.inner.began(source);
    }

    fn started(&self, source: &Location, bytes: u64) {
        self.inner.started(source, bytes);
    }

    fn moved(&self, bytes: u64) {
        self.inner.moved(bytes);
    }

    fn finished(&self, source: &Location, destination: &Location, bytes: u64) {
        self.marks.lock().finish(source);
        self.inner.finished(source, destination, bytes);
    }

    fn skipped(&self, source: &Location) {
        self.marks.lock().finish(source);
        self.inner.skipped(source);
    }

    fn made_directory(&self, source: &Location) {
        self.marks.lock().finish(source);
        self.inner.made_directory(source);
    }

    fn failed(&self, failure: &Failure) {
        let mut marks = self.marks.lock();
        if let Ok(location) = Location::parse(OsStr::new(&failure.location)) {
            marks.in_flight.remove(&location);
        }
        if let TransferError::Replaced { expected, found, .. } = &failure.error {
            let (expected, found) = differing_texts(expected, found);
            marks.changed(failure.location.clone(), expected, found);
        }
        drop(marks);
        self.inner.failed(failure);
    }

    fn planned(&self, action: &Action) {
        self.inner.planned(action);
    }
}

/// Reads the rows of a shard, and counts their positions.
struct Feed {
    rows: Peekable<Rows>,
    place: u64,
}

impl Iterator for Feed {
    type Item = io::Result<(u64, ManifestRow)>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.rows.next()?;
        let place = self.place;
        self.place += 1;
        Some(row.map(|row| (place, row)))
    }
}

/// The entries of one source. All sources are read from the same feed, one after the other.
struct SourceEntries {
    feed: Arc<Mutex<Feed>>,
    source: u32,
    root: Location,
    marks: Arc<Mutex<ObjectMarks>>,
}

impl SourceEntries {
    /// Returns the next row of this source. Skips rows that an earlier source has left.
    fn next_row(&self) -> Option<io::Result<(u64, ManifestRow)>> {
        let mut feed = self.feed.lock();
        loop {
            match feed.rows.peek()? {
                Ok(row) if row.source > self.source => return None,
                Ok(row) if row.source < self.source => drop(feed.next()),
                _ => return feed.next(),
            }
        }
    }

    fn has_any(&self) -> bool {
        let mut feed = self.feed.lock();
        loop {
            match feed.rows.peek() {
                Some(Ok(row)) if row.source < self.source => drop(feed.next()),
                Some(Ok(row)) => return row.source == self.source,
                // The run that reads the row reports the error.
                Some(Err(_)) => return true,
                None => return false,
            }
        }
    }
}

impl Iterator for SourceEntries {
    type Item = firstbyte_store::Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        let (place, row) = match self.next_row()? {
            Ok(row) => row,
            Err(source) => return Some(Err(StoreError::Io { location: "the manifest".into(), source })),
        };
        Some(entry(&row, &self.root).inspect(|entry| {
            self.marks.lock().in_flight.insert(self.root.join(&entry.name), place);
        }))
    }
}

impl Manifest {
    /// Iterates over all objects in the order of the file, with their planned sizes and versions.
    /// The entries have no names.
    ///
    /// # Errors
    /// The manifest cannot be read. If a row is damaged, its item is an error.
    pub fn objects(&self) -> io::Result<impl Iterator<Item = io::Result<(Location, Entry)>> + Send + use<>> {
        let rows = self.rows(None).map_err(io::Error::other)?;
        Ok(rows.map(|row| {
            let row = row?;
            let (location, version) = row_parts(&row).map_err(io::Error::other)?;
            Ok((location, described(&row, version, Vec::new())))
        }))
    }
}

/// Converts a row to an entry, as a listing of `root` would contain it.
fn entry(row: &ManifestRow, root: &Location) -> firstbyte_store::Result<Entry> {
    let (location, version) = row_parts(row)?;
    let name = location.name_below(root).ok_or_else(|| damaged(row, "it does not lie below its source"))?;
    Ok(described(row, version, name))
}

fn described(row: &ManifestRow, version: Version, name: Vec<u8>) -> Entry {
    Entry {
        size: Some(row.size),
        modified: row.modified.and_then(time_of),
        etag: version.etag.clone(),
        version: Some(Box::new(version)),
        ..Entry::named(name, EntryKind::File)
    }
}

fn row_parts(row: &ManifestRow) -> firstbyte_store::Result<(Location, Version)> {
    let location = Location::parse(OsStr::new(&row.location)).map_err(|error| damaged(row, &error.why))?;
    let version = version::parse(&row.version, row.size)
        .ok_or_else(|| damaged(row, &format!("`{}` is no version", row.version)))?;
    Ok((location, version))
}

fn damaged(row: &ManifestRow, why: &str) -> StoreError {
    let source = io::Error::new(io::ErrorKind::InvalidData, format!("in the manifest: {why}"));
    StoreError::Io { location: row.location.clone(), source }
}

fn wanted_failure(row: &ManifestRow, error: StoreError) -> HydrateFailure {
    HydrateFailure { location: Location::Local(row.location.clone().into()), error: error.into() }
}

/// Converts microseconds since 1970 to a time.
fn time_of(micros: i64) -> Option<SystemTime> {
    let distance = Duration::from_micros(micros.unsigned_abs());
    if micros < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(distance)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(distance)
    }
}
