//! Blocks of remote objects in firstbyte's cache on disk. Runs the verbs `release`, `hydrate` and
//! `status` of the measured binary. Called by `bring` and `observe`.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::spec::{CachedObject, Tools};
use crate::error::{Error, Result};
use crate::process::exit_description;

/// Sums over the output of `status` for some objects.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Blocks {
    /// Bytes in the cache.
    pub(super) cached: u64,
    /// Total size of the objects that the cache knows.
    pub(super) size: u64,
    /// Number of incomplete objects, including named objects that the cache does not know.
    pub(super) incomplete: u64,
    /// Number of objects wholly in the cache.
    pub(super) hydrated: u64,
}

/// A line of `status`.
#[derive(Deserialize)]
struct Row {
    state: String,
    bytes_here: u64,
    size: Option<u64>,
}

/// Releases all blocks of an object. A missing cache directory holds no blocks.
pub(super) fn release(object: &CachedObject, tools: &Tools) -> Result<()> {
    if is_absent_or_empty(&object.cache) {
        return Ok(());
    }
    run(&["release"], object, tools).map(drop)
}

/// Hydrates an object completely.
pub(super) fn hydrate(object: &CachedObject, tools: &Tools) -> Result<()> {
    run(&["hydrate", "--wait"], object, tools).map(drop)
}

/// Reads the state of the objects in the cache.
pub(super) fn status(objects: &[CachedObject], tools: &Tools) -> Result<Blocks> {
    let mut sum = Blocks::default();
    for object in objects {
        if is_absent_or_empty(&object.cache) {
            sum.incomplete += 1;
            continue;
        }
        let text = run(&["status"], object, tools)?;
        let mut rows = 0;
        for line in text.lines() {
            let row: Row = serde_json::from_str(line).map_err(|error| Error::Prepare {
                command: format!("firstbyte status {}", object.location),
                what: format!("it printed what cannot be read: {error}"),
            })?;
            rows += 1;
            sum.cached += row.bytes_here;
            sum.size += row.size.unwrap_or(0);
            if row.state == "hydrated" {
                sum.hydrated += 1;
            } else {
                sum.incomplete += 1;
            }
        }
        // For a prefix, `status` prints only objects that the cache knows.
        sum.incomplete += u64::from(rows == 0);
    }
    Ok(sum)
}

/// True if `directory` does not exist or is empty.
fn is_absent_or_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).map_or(true, |mut names| names.next().is_none())
}

/// Runs a verb on an object and returns its output.
fn run(verb: &[&str], object: &CachedObject, tools: &Tools) -> Result<String> {
    let mut command = Command::new(&tools.firstbyte);
    command.arg("--json").args(&tools.options).args(verb).arg("--cache").arg(&object.cache);
    if object.location.ends_with('/') {
        command.arg("--recursive");
    }
    command.arg(&object.location).envs(tools.env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null());
    let output = command.output().map_err(Error::file(&tools.firstbyte))?;
    if !output.status.success() {
        let command = format!("firstbyte {} {}", verb[0], object.location);
        return Err(Error::Prepare { command, what: exit_description(&output) });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
