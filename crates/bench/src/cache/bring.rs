//! Establishes a cache state: evicts or reads files, releases or hydrates objects. Returns the
//! actions as sentences, for the evidence. `observe` checks the result. Called by
//! [`prepare`](super::prepare).

use std::fs;
use std::path::PathBuf;

use crate::error::Result;
use crate::result::CacheState;

use super::files::{Kind, OpenedFile, expand, files_of_block_caches};
use super::names;
use super::objects;
use super::spec::{Spec, Tools};
use super::tolerance::tolerance;
use super::unreadable;

/// Largest number of reads of a file to make it resident. If memory is too small for the file, more
/// do not help.
const MAX_READ_PASSES: usize = 3;

/// Establishes the state, and returns the actions taken.
pub(super) fn establish(spec: &Spec, tools: &Tools) -> Result<Vec<String>> {
    let mut done = Vec::new();
    match spec.state {
        CacheState::Any => {}
        CacheState::Cold => make_cold(spec, tools, &mut done)?,
        CacheState::Warm => make_warm(spec, tools, &mut done)?,
        CacheState::Hydrated => make_hydrated(spec, tools, &mut done)?,
    }
    Ok(done)
}

fn make_cold(spec: &Spec, tools: &Tools, done: &mut Vec<String>) -> Result<()> {
    for object in &spec.objects {
        objects::release(object, tools)?;
    }
    if !spec.objects.is_empty() {
        done.push(format!("done: {} objects released", spec.objects.len()));
    }
    let paths = expand(&spec.files)?;
    write_back(&paths)?;
    let evicted = evict(&paths)?;
    if !paths.is_empty() {
        done.push(format!("done: {} files written back and evicted (fadvise)", paths.len()));
    }
    names::write_back(&spec.names)?;
    let stays = evicted.resident > tolerance(evicted.total);
    if stays || !spec.names.is_empty() {
        // 1 drops pages; 3 also drops names and attributes. Both affect the whole machine.
        let what = if spec.names.is_empty() { "1" } else { "3" };
        match fs::write("/proc/sys/vm/drop_caches", what) {
            Ok(()) => done.push(format!("done: drop_caches {what}")),
            Err(error) => done.push(format!("not done: drop_caches {what}: {error}; only root can do that")),
        }
    }
    Ok(())
}

/// Sums over the files that can be evicted: bytes still resident, and all bytes.
struct EvictionSum {
    resident: u64,
    total: u64,
}

fn evict(paths: &[PathBuf]) -> Result<EvictionSum> {
    let mut sum = EvictionSum { resident: 0, total: 0 };
    for path in paths {
        let failed = |error| unreadable(path, &error);
        let opened = OpenedFile::open(path).map_err(failed)?;
        // Files in memory (tmpfs) cannot be evicted: memory is their storage.
        if opened.kind != Kind::Memory {
            opened.evict().map_err(failed)?;
            sum.total += opened.bytes;
            // An unknown count does not justify `drop_caches`, which affects the whole machine.
            sum.resident += opened.resident().map_or(0, |(bytes, _)| bytes);
        }
    }
    Ok(sum)
}

/// Writes dirty pages back, once for each file system: a dirty page cannot be evicted.
fn write_back(paths: &[PathBuf]) -> Result<()> {
    let mut devices = Vec::new();
    for path in paths {
        let failed = |error| unreadable(path, &error);
        let opened = OpenedFile::open(path).map_err(failed)?;
        if !devices.contains(&opened.device) {
            devices.push(opened.device);
            rustix::fs::syncfs(&opened.file).map_err(|error| failed(error.into()))?;
        }
    }
    Ok(())
}

fn make_warm(spec: &Spec, tools: &Tools, done: &mut Vec<String>) -> Result<()> {
    make_hydrated(spec, tools, done)?;
    make_resident(&expand(&spec.files)?, done)?;
    if !spec.names.is_empty() {
        let count = names::read(&spec.names)?;
        done.push(format!("done: {count} names read"));
    }
    // An object without a path is warm if its blocks are in the page cache.
    make_resident(&files_of_block_caches(spec)?, done)
}

fn make_resident(paths: &[PathBuf], done: &mut Vec<String>) -> Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    for pass in 1..=MAX_READ_PASSES {
        let mut missing = 0;
        for path in paths {
            let failed = |error| unreadable(path, &error);
            let opened = OpenedFile::open(path).map_err(failed)?;
            let resident = |opened: &OpenedFile| opened.resident().map_or(0, |(bytes, _)| bytes);
            if resident(&opened) < opened.bytes {
                opened.read().map_err(failed)?;
                missing += opened.bytes - resident(&opened);
            }
        }
        if missing == 0 {
            done.push(format!("done: {} files read in {pass} passes", paths.len()));
            return Ok(());
        }
    }
    done.push(format!(
        "done: {} files read {MAX_READ_PASSES} times, without all of them staying",
        paths.len()
    ));
    Ok(())
}

fn make_hydrated(spec: &Spec, tools: &Tools, done: &mut Vec<String>) -> Result<()> {
    for object in &spec.objects {
        objects::hydrate(object, tools)?;
    }
    if !spec.objects.is_empty() {
        done.push(format!("done: {} objects hydrated", spec.objects.len()));
    }
    Ok(())
}
