//! The workload `list`: reads the names of a directory or prefix, with or without sizes and times.
//!
//! The accesses `path` and `mount` list as plain programs do: getdents64 by one thread, and lstat
//! for each entry if details are requested. The access `open` lists through firstbyte.

use std::fs;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use firstbyte_listing::{Batch, Depth, Detail, DirectoryReader, ListingOptions, scan};
use firstbyte_location::{EntryKind, Location};
use firstbyte_store::ListOptions;

use crate::access::Session;
use crate::job::{Error, Job, Metrics, Result, Watch};

/// Buffer for one getdents64, in bytes, as in the C library.
const DEFAULT_BUFFER_BYTES: u64 = 32 << 10;

pub(super) fn run(job: &Job, session: &Session<'_>, watch: &Watch) -> Result<Metrics> {
    let mut metrics = Metrics::new();
    let began = watch.seconds();
    let entries = match (session.root(), session.location()?) {
        (Some(root), _) => list_by_getdents(job, root)?,
        (None, Location::Local(root)) => list_by_firstbyte(job, &root)?,
        (None, _) => list_store(job, session, watch, &mut metrics)?,
    };
    watch.note(&mut metrics, "all_seconds");
    let seconds = watch.seconds() - began;
    if let Some(count) = job.count.filter(|count| *count != entries) {
        return Err(Error::target(&job.target, format!("{entries} names instead of {count}")));
    }
    metrics.insert("operations".into(), entries as f64);
    metrics.insert("operations_per_second".into(), entries as f64 / seconds);
    Ok(metrics)
}

/// Lists by getdents64 and lstat.
fn list_by_getdents(job: &Job, root: &Path) -> Result<u64> {
    let mut entries = 0;
    let mut waiting: Vec<PathBuf> = vec![root.to_owned()];
    let mut batch = Batch::new(job.buffer.map_or(DEFAULT_BUFFER_BYTES, |buffer| buffer.0) as usize);
    while let Some(directory) = waiting.pop() {
        let mut reader = DirectoryReader::open(&directory)?;
        while reader.read(&mut batch).map_err(Error::at(&directory))? {
            entries += batch.len() as u64;
            if !job.details && !job.recursive {
                continue;
            }
            for entry in batch.entries() {
                use std::os::unix::ffi::OsStrExt;
                let path = directory.join(std::ffi::OsStr::from_bytes(entry.name()));
                if job.details {
                    fs::symlink_metadata(&path).map_err(Error::at(&path))?;
                }
                if job.recursive && entry.kind() == EntryKind::Directory {
                    waiting.push(path);
                }
            }
        }
    }
    Ok(entries)
}

/// Lists a local directory by firstbyte.
fn list_by_firstbyte(job: &Job, root: &Path) -> Result<u64> {
    let options = ListingOptions {
        depth: if job.recursive { Depth::Recursive } else { Depth::OneLevel },
        detail: if job.details { Detail::Size } else { Detail::Names },
        buffer: job.buffer.and_then(|buffer| NonZeroUsize::new(buffer.0 as usize)),
        threads: job.concurrency.and_then(NonZeroUsize::new),
        ..ListingOptions::default()
    };
    let counts = scan(root, &options, || Count { entries: 0, failed: None })?;
    let mut entries = 0;
    for count in counts {
        if let Some(error) = count.failed {
            return Err(error.into());
        }
        entries += count.entries;
    }
    Ok(entries)
}

struct Count {
    entries: u64,
    failed: Option<firstbyte_listing::Error>,
}

impl firstbyte_listing::Visitor for Count {
    fn visit(&mut self, batch: &mut Batch) -> ControlFlow<()> {
        self.entries += batch.len() as u64;
        self.failed = batch.take_errors().pop();
        if self.failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Lists a store by firstbyte.
fn list_store(job: &Job, session: &Session<'_>, watch: &Watch, metrics: &mut Metrics) -> Result<u64> {
    if job.buffer.is_some() {
        return Err(Error::job("buffer is for local directories: a store answers in pages of its own"));
    }
    let requests = job.concurrency.and_then(NonZeroUsize::new);
    let options = ListOptions { recursive: job.recursive, requests, ..ListOptions::default() };
    let mut entries = 0;
    for entry in session.client()?.list(&job.target, &options)? {
        entry?;
        entries += 1;
        if entries == 1 {
            watch.note(metrics, "first_name_seconds");
        }
    }
    Ok(entries)
}
