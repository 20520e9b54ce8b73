//! The workload `mapped`: maps the object and reads the first byte of every page, as BLAST reads
//! its volumes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::access::{Session, names_below};
use crate::data::first_difference;
use crate::job::{Error, ExpectedContent, Job, Metrics, Result, Watch};
use crate::threads::on_threads;

/// Bytes between two reads, the smallest page size.
const PAGE_BYTES: usize = 4096;

pub(super) fn run(job: &Job, session: &Session<'_>, watch: &Watch) -> Result<Metrics> {
    let path = session.object_path()?;
    let files: Vec<PathBuf> = match path.is_dir() {
        true => names_below(&path)?.into_iter().map(|one| path.join(one.name)).collect(),
        false => vec![path],
    };
    let mut bytes = 0;
    for file in &files {
        bytes += touch_all(job, file, files.len() == 1)?;
    }
    let mut metrics = Metrics::new();
    watch.note(&mut metrics, "all_seconds");
    metrics.insert("files".into(), files.len() as f64);
    metrics.insert("bytes".into(), bytes as f64);
    Ok(metrics)
}

/// Reads the first byte of every page of a file. Each thread reads its own part. Returns the length
/// of the file.
fn touch_all(job: &Job, path: &Path, is_object: bool) -> Result<u64> {
    let file = File::open(path).map_err(Error::at(path))?;
    let length = fs::metadata(path).map_err(Error::at(path))?.len();
    if length == 0 {
        return Ok(0);
    }
    let mapping = Mapping::new(&file, length as usize).map_err(Error::at(path))?;
    let pages = (length as usize).div_ceil(PAGE_BYTES);
    let threads = job.concurrency.unwrap_or(1).min(pages);
    let seed = job.expect.map(|ExpectedContent { seed, .. }| match (is_object, path.file_name()) {
        (false, Some(name)) => crate::data::seed_of(seed, &name.to_string_lossy()),
        _ => seed,
    });
    let wrong = on_threads(threads, |thread| {
        let share = pages.div_ceil(threads);
        Ok((thread * share..((thread + 1) * share).min(pages)).find_map(|page| {
            let byte = mapping.byte(page * PAGE_BYTES);
            first_difference(seed?, (page * PAGE_BYTES) as u64, &[byte])
        }))
    })?;
    match wrong.into_iter().flatten().next() {
        None => Ok(length),
        offset => Err(Error::Content { place: path.display().to_string(), offset }),
    }
}

/// A file mapped for reading.
struct Mapping {
    start: *mut u8,
    length: usize,
}

impl Mapping {
    fn new(file: &File, length: usize) -> std::io::Result<Self> {
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory in use.
        let start = unsafe { mmap(null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, 0)? };
        Ok(Self { start: start.cast(), length })
    }

    fn byte(&self, at: usize) -> u8 {
        assert!(at < self.length);
        // SAFETY: the byte lies in the mapping, which lives as long as `self`. Another process may
        // change the file meanwhile, so the read is volatile. If the file is truncated below this
        // byte, SIGBUS ends the process, which the engine sees as a failed run.
        unsafe { self.start.add(at).read_volatile() }
    }
}

// SAFETY: the mapping is only read, and never moves.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping has this length, and no reference into it is left.
        let _ = unsafe { munmap(self.start.cast(), self.length) };
    }
}
