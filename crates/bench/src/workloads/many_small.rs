//! The workload `many-small`: reads all objects of a directory or prefix completely, several at
//! once or one after another.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use firstbyte::OperandKind;

use super::one_big::read_all;
use super::{DEFAULT_BLOCK_BYTES, block};
use crate::access::{ListedObject, Session, add_summary, base_name, copy_all, destination, join};
use crate::data::{check_file, seed_of};
use crate::job::{Access, Error, ExpectedContent, Job, Latencies, Metrics, Order, Result, Watch};
use crate::threads::on_threads;

/// Default number of files that are read at once.
const DEFAULT_CONCURRENCY: usize = 16;

pub(super) fn run(job: &Job, session: &Session<'_>, watch: &Watch) -> Result<Metrics> {
    if job.access == Access::Cp {
        return copy(job, session, watch);
    }
    let mut metrics = Metrics::new();
    let found = chosen(job, session)?;
    watch.note(&mut metrics, "listed_seconds");
    let (bytes, latencies) = read(job, session, &found)?;
    watch.note(&mut metrics, "all_seconds");
    add_figures(job, &mut metrics, found.len() as u64, bytes)?;
    latencies.into_metrics(&mut metrics);
    Ok(metrics)
}

/// Lists the files of the target that the job selects.
fn chosen(job: &Job, session: &Session<'_>) -> Result<Vec<ListedObject>> {
    let mut found = session.list()?;
    if let Some(names) = &job.names {
        found.retain(|one| names.contains(&one.name));
    }
    match found.is_empty() {
        true => Err(Error::target(&job.target, "holds no file with such a name")),
        false => Ok(found),
    }
}

/// Reads all files. Each thread takes the next unread file.
fn read(job: &Job, session: &Session<'_>, found: &[ListedObject]) -> Result<(u64, Latencies)> {
    let next = AtomicUsize::new(0);
    let threads = match job.order {
        Order::Sequential => 1,
        Order::Parallel => job.concurrency.unwrap_or(DEFAULT_CONCURRENCY).min(found.len()),
    };
    let read = on_threads(threads, |_| {
        let (mut bytes, mut latencies) = (0, Latencies::default());
        while let Some(one) = found.get(next.fetch_add(1, Relaxed)) {
            bytes += latencies.time(|| read_one(job, session, one))?;
        }
        Ok((bytes, latencies))
    })?;
    let (bytes, latencies): (Vec<u64>, Vec<Latencies>) = read.into_iter().unzip();
    Ok((bytes.iter().sum(), latencies.into_iter().collect()))
}

/// Reads one file from start to end.
pub(super) fn read_one(job: &Job, session: &Session<'_>, found: &ListedObject) -> Result<u64> {
    let object = session.open_named(&found.name)?;
    if let Some(size) = found.size.filter(|size| *size != object.size()) {
        let what = format!("{} bytes, in the listing {size}", object.size());
        return Err(Error::target(object.place(), what));
    }
    let block =
        block(job, DEFAULT_BLOCK_BYTES).min(usize::try_from(object.size().max(1)).unwrap_or(usize::MAX));
    read_all(&object, 0..object.size(), block, &mut |_| Ok(()))
}

/// Copies by firstbyte, which is the measured work.
fn copy(job: &Job, session: &Session<'_>, watch: &Watch) -> Result<Metrics> {
    let client = session.client()?;
    let destination = destination(job)?;
    let mut metrics = Metrics::new();
    let (mut files, mut bytes) = (0, 0);
    if job.order == Order::Parallel && job.names.is_none() {
        let to = join(&destination.to_string_lossy(), "");
        let summary = copy_all(client, &join(&job.target, ""), &to, OperandKind::Tree)?;
        watch.note(&mut metrics, "all_seconds");
        add_summary(&summary, &mut metrics);
        (files, bytes) = (summary.objects, summary.bytes);
    } else {
        for one in chosen(job, session)? {
            let to = destination.join(&one.name);
            if let Some(above) = to.parent() {
                fs::create_dir_all(above).map_err(Error::at(above))?;
            }
            let (from, to) = (join(&job.target, &one.name), to.to_string_lossy());
            let summary = copy_all(client, &from, &to, OperandKind::Object)?;
            files += 1;
            bytes += summary.bytes;
        }
        watch.note(&mut metrics, "all_seconds");
    }
    check(job, destination)?;
    add_figures(job, &mut metrics, files, bytes)?;
    Ok(metrics)
}

/// Checks the delivered files.
pub(super) fn check(job: &Job, destination: &Path) -> Result<()> {
    let Some(ExpectedContent { seed, .. }) = job.expect else { return Ok(()) };
    for name in crate::access::names_below(destination)? {
        let path = destination.join(&name.name);
        let size = fs::metadata(&path).map_err(Error::at(&path))?.len();
        check_file(&path, size, seed_of(seed, base_name(&name.name)))?;
    }
    Ok(())
}

/// Adds the figures `files` and `bytes`. Error if the job expects another number of files.
pub(super) fn add_figures(job: &Job, metrics: &mut Metrics, files: u64, bytes: u64) -> Result<()> {
    if let Some(count) = job.count.filter(|count| *count != files) {
        return Err(Error::target(&job.target, format!("{files} files instead of {count}")));
    }
    metrics.insert("files".into(), files as f64);
    metrics.insert("bytes".into(), bytes as f64);
    Ok(())
}
