//! Implements `rm`, `mv`, `check` and `presign`. They work like the command line's verbs, but never
//! ask for confirmation. Receipts have the fields of the command line's receipts.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firstbyte::copy_rules::{Destination, ParsedSource, Wildcards};
use firstbyte::filter::Filter;
use firstbyte::moved::{is_moved, moved_tree};
use firstbyte::{Error, OperandKind, Receipt};
use firstbyte_location::{EntryKind, Location};
use firstbyte_store::{Cancel, Durability, Error as StoreError, Presign, PresignMethod, WalkBounds};
use firstbyte_transfer::{
    Check, ContentComparison, CopyJob, Difference, Effect, Engine, Extent, Failure, Levels, Move, NoObserver,
    Observer, Removal, ReplaceKind, Shard, Stop, Summary, TransferSettings, Tree, TreeNames,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rustix_futex_sync::Mutex;

use crate::arguments::{LocationArgument, PathArgument, number};
use crate::client::{CacheUse, PyClient};
use crate::copy::{CopyOutcome, RunStart, failure_at_either, filter, outcome, with_locations};
use crate::error::failure;
use crate::progress::{ByteProgress, run_with_progress};
use crate::wait::interruptible;

/// Makes an engine for `client` that `stop` ends.
fn engine(py: Python<'_>, client: &PyClient, stop: &Stop) -> PyResult<Engine> {
    let client = client.route.uncached_client(py)?;
    let settings = TransferSettings { stop: stop.clone(), ..client.copies().clone() };
    Ok(client.transfers(settings))
}

/// Deletes an object or, with `recursive`, everything below a location. Returns the outcome.
#[pyfunction]
pub(crate) fn rm<'py>(
    py: Python<'py>,
    client: &PyClient,
    location: LocationArgument,
    recursive: bool,
) -> PyResult<CopyOutcome<'py>> {
    let LocationArgument(location) = location;
    let stop = Stop::default();
    let engine = engine(py, client, &stop)?;
    let (start, root) = (RunStart::of(engine.store()), location.clone());
    let removed = interruptible(py, || stop.stop(), move || remove(&engine, &root, recursive))?;
    let mut summary = removed.map_err(|error| failure(py, &error, Some(&location)))?;
    if let Some(error) = summary.ended.take() {
        return Err(failure(py, &error.into(), Some(&location)));
    }
    let receipt = Receipt::new("rm", location.to_string(), None);
    let mut receipt = Receipt { deleted: Some(0), ..receipt };
    receipt.add(&summary);
    outcome(py, receipt, &start, summary.failures, with_locations(summary.failed))
}

fn remove(engine: &Engine, root: &Location, recursive: bool) -> firstbyte::Result<Summary> {
    let directory = || Error::Directory { location: root.to_string() };
    let store = engine.store();
    let (is_one, is_tree) = match root {
        // For a link, the link itself is deleted, whatever its target is.
        Location::Local(path) if path.file_name().is_none() => {
            let why = "rm refuses this name; name the directory itself".into();
            return Err(Error::Operand { operand: root.to_string(), why });
        }
        Location::Local(path) => match path.symlink_metadata() {
            Ok(found) => (!found.is_dir(), found.is_dir()),
            Err(source) => {
                return Err(StoreError::Io { location: root.to_string(), source }.into());
            }
        },
        Location::Http(_) => (true, false),
        Location::Object(object) if object.key.is_empty() => (false, true),
        Location::Object(_) => {
            let is_one = match store.stat_object(root) {
                Ok(_) => true,
                Err(StoreError::NotFound { .. }) => false,
                Err(error) => return Err(error.into()),
            };
            (is_one, (recursive || !is_one) && store.has_below(root)?)
        }
        Location::Sftp(_) => {
            let kind = store.kind_of_name(root)?;
            (kind != EntryKind::Directory, kind == EntryKind::Directory)
        }
    };
    if is_tree && !recursive {
        return Err(directory());
    }
    if !is_one && !is_tree {
        return Err(StoreError::NotFound { location: root.to_string(), trace: None }.into());
    }
    let mut summary = Summary::default();
    if is_tree {
        let removal = Removal {
            root: root.clone(),
            extent: Extent::Whole,
            beginning: String::new(),
            levels: Levels::All,
            select: &|_| true,
            bounds: WalkBounds::default(),
            effect: Effect::Apply,
        };
        summary = engine.remove(&removal, &NoObserver)?;
    }
    if is_one {
        store.delete(root)?;
        summary.deleted += 1;
    }
    Ok(summary)
}

/// Moves an object or, with `recursive`, a tree. Returns the outcome.
#[pyfunction]
pub(crate) fn mv<'py>(
    py: Python<'py>,
    client: &PyClient,
    source: PathArgument,
    destination: PathArgument,
    recursive: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<CopyOutcome<'py>> {
    let [source, destination] = [source.0, destination.0];
    let stop = Stop::default();
    let run = client.route.begin_run(py, CacheUse::Unused, &[&source, &destination])?;
    let durability = Durability::Full;
    let settings = TransferSettings { stop: stop.clone(), durability, ..run.engine.copies().clone() };
    let engine = run.engine.transfers(settings);
    let start = RunStart::of(engine.store());
    let (from, to) = (source.clone(), destination.clone());
    let depth = if recursive { OperandKind::Tree } else { OperandKind::Object };
    let work = move |observer: &ByteProgress| move_operand(&engine, &from, &to, depth, observer);
    let summary = run_with_progress(py, progress, || stop.stop(), work)?;
    let mut summary = summary.map_err(|error| failure_at_either(py, &error, [&source, &destination]))?;
    if let Some(error) = summary.ended.take() {
        return Err(failure_at_either(py, &error.into(), [&source, &destination]));
    }
    let [source, destination] = [source, destination].map(|place| place.to_string_lossy().into_owned());
    let mut receipt = Receipt { left_out: Some(0), ..Receipt::new("mv", source, Some(destination)) };
    receipt.add(&summary);
    run.settle(&mut receipt);
    outcome(py, receipt, &start, summary.failures, with_locations(summary.failed))
}

fn move_operand(
    engine: &Engine,
    source: &Path,
    destination: &Path,
    depth: OperandKind,
    observer: &dyn Observer,
) -> firstbyte::Result<Summary> {
    let texts = [source.as_os_str().to_owned()];
    let destination = Destination::parse(destination.as_os_str(), &texts, Wildcards::Off)?;
    let parsed = ParsedSource::parse(source.as_os_str(), depth, Wildcards::Off, engine.store());
    let store = engine.store();
    if depth == OperandKind::Tree && moved_tree(&parsed, source.as_os_str(), &destination, store).is_some() {
        return Ok(Summary::default());
    }
    let parsed = parsed?;
    let target = parsed.target(&destination)?;
    let (root, extent) = match parsed {
        ParsedSource::Object(location @ Location::Http(_)) => {
            let why = "mv cannot delete on a web server; use cp".into();
            return Err(Error::Operand { operand: location.to_string(), why });
        }
        ParsedSource::Object(location) => {
            let job = CopyJob {
                source: location.clone(),
                destination: target,
                entry: None,
                over: ReplaceKind::File,
            };
            let mut jobs = std::iter::once(Ok::<_, Failure>(job));
            let mut summary = engine.move_many(&mut jobs, observer)?;
            let is_missing = |failure: &Failure| {
                matches!(failure.error, firstbyte_transfer::Error::Store(StoreError::NotFound { .. }))
            };
            return match summary.failed.pop() {
                Some(failed) if is_missing(&failed) && engine.store().has_below(&location)? => {
                    Err(Error::Directory { location: location.to_string() })
                }
                Some(failed) => Err(failed.error.into()),
                None => Ok(summary),
            };
        }
        ParsedSource::Tree { root, name: Some(_) } => (root, Extent::Whole),
        ParsedSource::Tree { root, name: None } | ParsedSource::Glob { base: root, .. } => {
            (root, Extent::Contents)
        }
    };
    if extent == Extent::Whole && engine.rename(&root, &target)? {
        return Ok(Summary { objects: 1, ..Summary::default() });
    }
    let tree = Tree {
        source: root,
        names: TreeNames::Listed,
        destination: target,
        beginning: String::new(),
        levels: Levels::All,
        select: &|_| true,
        bounds: Default::default(),
        shard: Shard::default(),
        effect: Effect::Apply,
    };
    let (root, target) = (tree.source.clone(), tree.destination.clone());
    match engine.move_tree(&Move { tree, extent }, observer) {
        Err(_) if is_moved(engine.store(), &root, &target) => Ok(Summary::default()),
        moved => Ok(moved?),
    }
}

/// Collects differences.
#[derive(Default)]
struct Differences(Mutex<Vec<Difference>>);

impl Observer for Differences {
    fn differs(&self, difference: &Difference) {
        self.0.lock().push(difference.clone());
    }
}

/// Compares two locations. Returns the outcome, and the differences as JSON.
#[pyfunction]
pub(crate) fn check<'py>(
    py: Python<'py>,
    client: &PyClient,
    source: PathArgument,
    destination: PathArgument,
    content: bool,
    patterns: Vec<(bool, String)>,
) -> PyResult<(CopyOutcome<'py>, String)> {
    let [source, destination] = [source.0, destination.0];
    let stop = Stop::default();
    let engine = engine(py, client, &stop)?;
    let filter = filter(patterns);
    let found = Arc::new(Differences::default());
    let (start, observer) = (RunStart::of(engine.store()), Arc::clone(&found));
    let (from, to) = (source.clone(), destination.clone());
    let content = if content { ContentComparison::Read } else { ContentComparison::Held };
    let compared = interruptible(
        py,
        || stop.stop(),
        move || compare(&engine, &from, &to, content, &filter, &*observer),
    )?;
    let mut summary = compared.map_err(|error| failure_at_either(py, &error, [&source, &destination]))?;
    if let Some(error) = summary.ended.take() {
        return Err(failure_at_either(py, &error.into(), [&source, &destination]));
    }
    let [source, destination] = [source, destination].map(|place| place.to_string_lossy().into_owned());
    let receipt = Receipt::new("check", source, Some(destination));
    let mut receipt = Receipt { differences: Some(0), ..receipt };
    receipt.add(&summary);
    let rows = found.0.lock();
    let rows: Vec<_> = rows.iter().map(Difference::to_json).collect();
    let text = serde_json::to_string(&rows).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((outcome(py, receipt, &start, summary.failures, with_locations(summary.failed))?, text))
}

fn compare(
    engine: &Engine,
    source: &Path,
    destination: &Path,
    content: ContentComparison,
    filter: &Filter,
    observer: &dyn Observer,
) -> firstbyte::Result<Summary> {
    let select = |name: &[u8]| filter.takes(name);
    let to = destination.as_os_str();
    match ParsedSource::parse(source.as_os_str(), OperandKind::Tree, Wildcards::Off, engine.store())? {
        ParsedSource::Object(source) => {
            let destination = ParsedSource::Object(source.clone()).target(&Destination::of(to, false)?)?;
            let check = Check { source, destination, select: &select, bounds: filter.bounds(), content };
            Ok(engine.check_object(&check, observer)?)
        }
        ParsedSource::Tree { root: source, .. } | ParsedSource::Glob { base: source, .. } => {
            let destination = Location::parse(to)?;
            // A missing location is an error, unlike an empty one.
            engine.store().stat(&destination)?;
            let check = Check { source, destination, select: &select, bounds: filter.bounds(), content };
            Ok(engine.check(&check, observer)?)
        }
    }
}

/// Makes a URL by which anyone can read one object, or with `put` write it, for some seconds.
#[pyfunction]
pub(crate) fn presign(
    py: Python<'_>,
    client: &PyClient,
    location: LocationArgument,
    expires: &Bound<'_, PyAny>,
    put: bool,
) -> PyResult<String> {
    let LocationArgument(location) = location;
    let expires = Duration::from_secs(number("expires", expires)?);
    if expires.is_zero() || expires > Presign::LONGEST {
        return Err(PyValueError::new_err("expires: 1 second to 7 days are possible"));
    }
    let method = if put { PresignMethod::Put } else { PresignMethod::Get };
    let engine = client.route.uncached_client(py)?;
    let cancel = Cancel::new();
    let (store, at) = (engine.store().scoped(&cancel), location.clone());
    let sign = move || store.presign(&at, &Presign { method, expires });
    let made = interruptible(py, || cancel.cancel(), sign)?;
    Ok(made.map_err(|error| failure(py, &error.into(), Some(&location)))?.url)
}
