//! Implements `cp`, `sync`, and the copies of many objects at once for the fsspec file system.
//! Ctrl-C stops a copy. A later run of the same copy resumes it.

use std::path::PathBuf;
use std::time::Instant;

use firstbyte::copy_rules::{refuse_into_itself, refuse_to_delete_source};
use firstbyte::filter::{Filter, RuleEffect};
use firstbyte::receipt::FailedItem;
use firstbyte::{Copy, Error, OperandKind, Receipt};
use firstbyte_location::Location;
use firstbyte_store::{Checksum, Durability, Store, StoreCounts};
use firstbyte_transfer::{
    CopyJob, Effect, EmptySource, Extras, Failure, Levels, NoObserver, ReplaceKind, Shard, Stop, Summary,
    TransferSettings, Tree, TreeNames,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::arguments::{LocationArgument, PathArgument, RateArgument};
use crate::client::{CacheUse, PyClient};
use crate::error::{failure, failure_at};
use crate::progress::{ByteProgress, run_with_progress};
use crate::wait::interruptible;

/// Copies an object or a tree. Returns the outcome.
#[expect(clippy::too_many_arguments, reason = "each is an argument in Python")]
#[pyfunction]
pub(crate) fn cp<'py>(
    py: Python<'py>,
    client: &PyClient,
    source: PathArgument,
    destination: PathArgument,
    recursive: bool,
    checksum: Option<&str>,
    limit_rate: Option<RateArgument>,
    patterns: Vec<(bool, String)>,
    progress: Option<Py<PyAny>>,
) -> PyResult<CopyOutcome<'py>> {
    let [source, destination] = [source.0, destination.0];
    let run = client.route.begin_run(py, CacheUse::Unused, &[&source, &destination])?;
    let engine = run.engine.clone();
    let copy = Copy {
        depth: if recursive { OperandKind::Tree } else { OperandKind::Object },
        checksum: checksum
            .map(Checksum::parse)
            .transpose()
            .map_err(|e| PyValueError::new_err(e.to_string()))?,
        limit_rate: limit_rate.map(|rate| rate.0),
        filter: filter(patterns),
        stop: Stop::default(),
    };
    let (stop, from, to) = (copy.stop.clone(), source.clone(), destination.clone());
    let start = RunStart::of(engine.store());
    let work = move |observer: &ByteProgress| engine.cp_observed(&from, &to, &copy, observer);
    let summary = run_with_progress(py, progress, || stop.stop(), work)?;
    let summary = summary.map_err(|error| failure_at_either(py, &error, [&source, &destination]))?;
    let [source, destination] = [source, destination].map(|place| place.to_string_lossy().into_owned());
    let mut receipt = Receipt { left_out: Some(0), ..Receipt::new("cp", source, Some(destination)) };
    receipt.add(&summary);
    run.settle(&mut receipt);
    outcome(py, receipt, &start, summary.failures, with_locations(summary.failed))
}

/// Makes the objects below the destination equal to those below the source. Returns the outcome.
/// `extras` says whether objects that only the destination has are deleted, and whether an empty
/// source may delete all of them.
#[pyfunction]
pub(crate) fn sync<'py>(
    py: Python<'py>,
    client: &PyClient,
    source: PathArgument,
    destination: PathArgument,
    extras: (bool, bool),
    patterns: Vec<(bool, String)>,
    limit_rate: Option<RateArgument>,
) -> PyResult<CopyOutcome<'py>> {
    let [source, destination] = [source.0, destination.0];
    let places = [&source, &destination];
    let refused = |error: Error| failure_at_either(py, &error, places);
    let parse = |path: &PathBuf| Location::parse(path.as_os_str()).map_err(|error| refused(error.into()));
    let (from, to) = (parse(&source)?, parse(&destination)?);
    refuse_into_itself(&from, &to).map_err(refused)?;
    let (extras, deleted) = match extras {
        (false, _) => (Extras::Keep, None),
        (true, false) => (Extras::Delete(EmptySource::Refuse), Some(0)),
        (true, true) => (Extras::Delete(EmptySource::Allow), Some(0)),
    };
    if deleted.is_some() {
        refuse_to_delete_source(&from, &to).map_err(refused)?;
    }
    let run = client.route.begin_run(py, CacheUse::Unused, &places)?;
    let (stop, copies) = (Stop::default(), run.engine.copies().clone());
    let limit_rate = limit_rate.map(|rate| rate.0).or(copies.limit_rate);
    let settings = TransferSettings { stop: stop.clone(), limit_rate, ..copies };
    let (engine, filter) = (run.engine.transfers(settings), filter(patterns));
    let start = RunStart::of(engine.store());
    let work = move || {
        let select = |name: &[u8]| filter.takes(name);
        let (names, levels, shard) = (TreeNames::Listed, Levels::All, Shard::default());
        let (beginning, select, effect) = (String::new(), &select, Effect::Apply);
        let bounds = filter.bounds();
        let tree =
            Tree { source: from, names, destination: to, beginning, levels, select, bounds, shard, effect };
        engine.sync(&tree, extras, &NoObserver)
    };
    let mut summary = interruptible(py, || stop.stop(), work)?.map_err(|error| refused(error.into()))?;
    if let Some(error) = summary.ended.take() {
        return Err(refused(error.into()));
    }
    let [source, destination] = places.map(|place| place.to_string_lossy().into_owned());
    let receipt = Receipt::new("sync", source, Some(destination));
    let mut receipt = Receipt { left_out: Some(0), deleted, ..receipt };
    receipt.add(&summary);
    run.settle(&mut receipt);
    outcome(py, receipt, &start, summary.failures, with_locations(summary.failed))
}

/// Makes a filter from patterns, in their order. A pattern marked `true` includes; the others
/// exclude.
pub(crate) fn filter(patterns: Vec<(bool, String)>) -> Filter {
    let mut filter = Filter::default();
    for (included, pattern) in patterns {
        filter.push(if included { RuleEffect::Include } else { RuleEffect::Exclude }, &pattern);
    }
    filter
}

/// Copies or moves objects. Each source goes to exactly the destination in its pair. Returns the
/// sources that failed, with their errors.
#[pyfunction]
#[pyo3(signature = (client, pairs, moves=false))]
pub(crate) fn copy_many<'py>(
    py: Python<'py>,
    client: &PyClient,
    pairs: Vec<(LocationArgument, LocationArgument)>,
    moves: bool,
) -> PyResult<Bound<'py, PyList>> {
    let engine = client.route.uncached_client(py)?;
    let stop = Stop::default();
    let durability = if moves { Durability::Full } else { engine.copies().durability };
    let settings = TransferSettings { stop: stop.clone(), durability, ..engine.copies().clone() };
    let engine = engine.transfers(settings);
    let jobs = pairs.into_iter().map(|(source, destination)| (source.0, destination.0));
    let jobs: Vec<CopyJob> = jobs
        .map(|(source, destination)| CopyJob { source, destination, entry: None, over: ReplaceKind::File })
        .collect();
    let done = interruptible(
        py,
        || stop.stop(),
        move || match <[CopyJob; 1]>::try_from(jobs) {
            Ok([job]) if moves => engine.move_many(&mut std::iter::once(Ok(job)), &NoObserver),
            Err(jobs) if moves => engine.move_many(&mut jobs.into_iter().map(Ok), &NoObserver),
            // A single object is copied by itself, so that its chunks move in parallel.
            Ok([job]) => engine.copy(&job.source, &job.destination, &NoObserver).or_else(|error| {
                let failed = vec![Failure { location: job.source.to_string(), error }];
                Ok(Summary { failed, ..Summary::default() })
            }),
            Err(jobs) => engine.copy_many(&mut jobs.into_iter().map(Ok), &NoObserver),
        },
    )?;
    let mut summary = done.map_err(|error| failure(py, &error.into(), None))?;
    if let Some(error) = summary.ended.take() {
        return Err(failure(py, &error.into(), None));
    }
    errors(py, with_locations(summary.failed))
}

/// Makes the exception. Its file name is the one of `places` with which the error's message begins.
pub(crate) fn failure_at_either(py: Python<'_>, error: &Error, places: [&PathBuf; 2]) -> PyErr {
    let line = error.to_string();
    let places = places.into_iter().filter_map(|place| Location::parse(place.as_os_str()).ok());
    failure(py, error, places.into_iter().find(|place| line.starts_with(&place.to_string())).as_ref())
}

/// Outcome of a verb for Python: the receipt as JSON, the number of failures, and the first
/// failures as (location, OSError).
pub(crate) type CopyOutcome<'py> = (String, u64, Bound<'py, PyList>);

/// The time at which a run began, and the requests of its store until then.
pub(crate) struct RunStart {
    time: Instant,
    store: Store,
    counts: StoreCounts,
}

impl RunStart {
    pub(crate) fn of(store: &Store) -> Self {
        Self { time: Instant::now(), store: store.clone(), counts: store.counters() }
    }

    /// Adds the requests of the run, including those of lookups, and the resources of the process
    /// to a receipt.
    fn finish(&self, receipt: &mut Receipt) {
        let counts = self.store.counters();
        receipt.requests = counts.requests - self.counts.requests;
        receipt.retries = counts.retries - self.counts.retries;
        receipt.finish(self.time);
    }
}

/// Completes a receipt with its failures, requests and resources, and makes the outcome.
pub(crate) fn outcome<'py>(
    py: Python<'py>,
    mut receipt: Receipt,
    start: &RunStart,
    failures: u64,
    failed: Vec<(String, Error)>,
) -> PyResult<CopyOutcome<'py>> {
    let line = |(location, error): &(String, Error)| {
        FailedItem::new(location.clone(), error.to_string(), error.kind(), error.trace())
    };
    receipt.failed = failed.iter().map(line).collect();
    start.finish(&mut receipt);
    let text = serde_json::to_string(&receipt).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((text, failures, errors(py, failed)?))
}

fn errors(py: Python<'_>, failed: Vec<(String, Error)>) -> PyResult<Bound<'_, PyList>> {
    let failed = failed.into_iter().map(|(location, error)| {
        let error = failure_at(py, &error, Some(&location)).into_value(py);
        (location, error)
    });
    PyList::new(py, failed.collect::<Vec<_>>())
}

pub(crate) fn with_locations(failed: Vec<Failure>) -> Vec<(String, Error)> {
    failed.into_iter().map(|Failure { location, error }| (location, Error::from(error))).collect()
}
