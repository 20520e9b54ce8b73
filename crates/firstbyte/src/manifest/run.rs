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
use firstbyte_store::{Error as StoreError, Listing, Store, differing_texts};
use firstbyte_transfer::{
    Action, Effect, Engine, Error as TransferError, Failure, Levels, Observer, Shard, Summary, Tree,
    TreeNames,
};
use rustix_futex_sync::Mutex;

use super::choice::ShardChoice;
use super::common_target::CommonTarget;
use super::table::{ManifestRow, Rows};
use super::{CHANGED, Manifest, version};
use crate::copy_rules::Destination;
use crate::environment::VariableLookup;
use crate::error::{Error, Result};
use crate::shard_receipt::{Changed, DoneObjects, ShardReceipt};

/// A shard of a manifest, and how much of it is done.
pub struct ShardRun {
    manifest: Manifest,
    shard: Shard,
    marks: Arc<Mutex<ObjectMarks>>,
}

/// Destination of a shard.
#[derive(Clone, Copy, Debug)]
pub enum ShardTarget<'a> {
    /// Each source is copied to where `cp -r SRC DST` would copy it.
    Copy(&'a OsStr),
    /// The contents of each source are copied to the given location, as with `sync SRC DST`.
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

    /// Copies the shard. Calls `report` with the outcome of each source that has objects in the
    /// shard; `report` returns whether to continue.
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
        let destination = self.destination(target)?;
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
                sources: self.manifest.header.sources.len() as u32,
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

    /// Parses the destination of a copy; `None` if the location is given. Refuses a manifest in
    /// which two objects have a common target, and several sources for a given location.
    fn destination(&self, target: ShardTarget<'_>) -> Result<Option<Destination>> {
        let header = &self.manifest.header;
        if let Some(CommonTarget { first, second }) = &header.common_target {
            let why =
                format!("{first} and {second}: both would be copied to the same name, one over the other");
            return Err(Error::Overlap { why, advice: "plan them separately".into() });
        }
        match (target, header.sources.len()) {
            (ShardTarget::Copy(text), _) => self.manifest.destination(text).map(Some),
            (ShardTarget::Contents(_), ..2) => Ok(None),
            (ShardTarget::Contents(_), sources) => {
                let why = format!("sync takes one source, and this has {sources}; use cp");
                Err(Error::Option { name: "manifest".into(), why })
            }
        }
    }

    /// Lists the objects of the shard for hydration from `store`.
    ///
    /// # Errors
    /// The manifest cannot be read.
    #[expect(clippy::result_large_err, reason = "an item of a list, made once an object")]
    pub fn wanted(&self, store: &Store) -> Result<HydrationList> {
        let store = store.clone();
        Ok(Box::new(self.feed()?.map(move |row| match row {
            Ok((_, row)) => {
                let (location, version) = row_parts(&row).map_err(|error| wanted_failure(&row, error))?;
                if row.size == 0
                    && let Err(error) = still_empty(&store, &location, &version)
                {
                    return Err(HydrateFailure { location, error: error.into() });
                }
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
    /// called after a hydration that was stopped. A hydration that is run again finds the blocks
    /// that were cached.
    ///
    /// # Errors
    /// The manifest cannot be read.
    pub fn hydrated(&self, failed: &[HydrateFailure]) -> Result<()> {
        let not_done: HashSet<&Location> = failed.iter().map(|failure| &failure.location).collect();
        let mut marks = self.marks.lock();
        for failure in failed {
            if let firstbyte_hydrate::Error::Changed { expected, found, .. } = &failure.error {
                marks.record_changed(failure.location.to_string(), expected.clone(), found.clone());
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
        let index = self.shard.index;
        Ok(Feed { rows: self.manifest.rows(move |shard| shard == index)?.peekable(), place: 0 })
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

    fn record_changed(&mut self, location: String, expected: String, found: String) {
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
            marks.record_changed(failure.location.clone(), expected, found);
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
    /// The index of this source, and the number of all sources.
    source: u32,
    sources: u32,
    root: Location,
    marks: Arc<Mutex<ObjectMarks>>,
}

impl SourceEntries {
    /// Returns the next row of this source. A row that is out of place is an error, because no
    /// source would copy it.
    fn next_row(&self) -> Option<io::Result<(u64, ManifestRow)>> {
        let mut feed = self.feed.lock();
        let source = match feed.rows.peek()? {
            Ok(row) => row.source,
            Err(_) => return feed.next(),
        };
        if (self.source + 1..self.sources).contains(&source) {
            return None;
        }
        let row = feed.next();
        if source == self.source {
            return row;
        }
        let what = format!("a row of source {source} is out of place: {CHANGED}");
        Some(Err(io::Error::new(io::ErrorKind::InvalidData, what)))
    }

    /// Returns true if the next row is of this source or out of place. The run that reads the row
    /// reports the error.
    fn has_any(&self) -> bool {
        match self.feed.lock().rows.peek() {
            Some(Ok(row)) => row.source <= self.source || row.source >= self.sources,
            Some(Err(_)) => true,
            None => false,
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
        let rows = self.rows(|_| true).map_err(io::Error::other)?;
        Ok(rows.map(|row| {
            let row = row?;
            let (location, version) = row_parts(&row).map_err(io::Error::other)?;
            Ok((location, make_entry(&row, version, Vec::new())))
        }))
    }
}

/// Converts a row to an entry, as a listing of `root` would contain it.
fn entry(row: &ManifestRow, root: &Location) -> firstbyte_store::Result<Entry> {
    let (location, version) = row_parts(row)?;
    let name = location
        .name_below(root)
        .ok_or_else(|| damaged_row_error(row, "it does not lie below its source"))?;
    Ok(make_entry(row, version, name))
}

fn make_entry(row: &ManifestRow, version: Version, name: Vec<u8>) -> Entry {
    Entry {
        size: Some(row.size),
        modified: row.modified.and_then(time_of),
        etag: version.etag.clone(),
        version: Some(Box::new(version)),
        ..Entry::named(name, EntryKind::File)
    }
}

fn row_parts(row: &ManifestRow) -> firstbyte_store::Result<(Location, Version)> {
    let location =
        Location::parse(OsStr::new(&row.location)).map_err(|error| damaged_row_error(row, &error.why))?;
    let version = version::parse(&row.version, row.size)
        .ok_or_else(|| damaged_row_error(row, &format!("`{}` is no version", row.version)))?;
    Ok((location, version))
}

/// Checks the version of an empty object. Nothing of it is fetched, so nothing else would notice
/// that it was removed or changed.
fn still_empty(store: &Store, location: &Location, version: &Version) -> firstbyte_store::Result<()> {
    let found = store.stat_object(location)?.version;
    if version.agrees_with(&found) {
        return Ok(());
    }
    let (location, expected) = (location.to_string(), Box::new(version.clone()));
    Err(StoreError::Changed { location, expected, found: Box::new(found), trace: None })
}

fn damaged_row_error(row: &ManifestRow, why: &str) -> StoreError {
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

#[cfg(test)]
mod tests {
    use super::super::tests::written;
    use super::*;

    /// Reads the rows of both sources as a run does. Returns the number of objects and the errors.
    fn read(rows: &[(u32, u32)]) -> (usize, Vec<String>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m");
        written(&path, rows, &[rows.len() as u64]);
        let run = ShardRun::open(&path, "0/1".parse().unwrap(), &|_| None).unwrap();
        let feed = Arc::new(Mutex::new(run.feed().unwrap()));
        let (mut objects, mut errors) = (0, Vec::new());
        for source in 0..2 {
            let root = Location::parse(OsStr::new(&format!("s3://b/{source}"))).unwrap();
            let (feed, marks) = (Arc::clone(&feed), Arc::clone(&run.marks));
            let entries = SourceEntries { feed, source, sources: 2, root, marks };
            if !entries.has_any() {
                continue;
            }
            for entry in entries {
                match entry {
                    Ok(_) => objects += 1,
                    Err(error) => {
                        errors.push(error.to_string());
                        break;
                    }
                }
            }
        }
        (objects, errors)
    }

    #[test]
    fn no_row_is_left_out_silently() {
        assert_eq!(read(&[(0, 0), (0, 0), (1, 0)]), (3, vec![]));
        for wrong in [&[(1, 0), (0, 0)][..], &[(0, 0), (5, 0), (0, 0)], &[(0, 0), (1, 0), (0, 0)]] {
            let (objects, errors) = read(wrong);
            assert!(objects < wrong.len() && !errors.is_empty(), "{wrong:?}: {objects} {errors:?}");
            assert!(errors.iter().all(|error| error.contains("out of place")), "{errors:?}");
        }
    }
}
