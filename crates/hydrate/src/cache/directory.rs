//! The directory itself: its format, its parts, and the names in them.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::open::Paths;
use super::usage::Contents;
use crate::{Error, Result};

/// The format written here, and the newest read.
const FORMAT: u32 = 1;
/// What the format file begins with.
const TITLE: &str = "firstbyte cache ";
/// Where named versions lie.
pub(super) const OBJECTS: &str = "objects";
/// An empty one removed, a missing one made, a look at it; and as much again where others do the same.
const ATTEMPTS: usize = 6;
/// Where versions lie between being made and losing their name.
pub(super) const TEMPORARY: &str = "temporary";
/// Directories in [`OBJECTS`]: two hex digits.
pub(super) const SHARDS: u64 = 256;

/// Makes what is missing, and refuses what is not ours to use.
pub(super) fn prepare(dir: &Path) -> Result<()> {
    let make = |path: &Path| DirBuilder::new().recursive(true).mode(0o700).create(path);
    make(dir).map_err(Error::cache(dir, "cannot make the cache directory"))?;
    let path = dir.join("format");
    for _ in 0..ATTEMPTS {
        let mut text = String::new();
        let read = File::open(&path).and_then(|file| file.take(64).read_to_string(&mut text));
        match read {
            // A power cut before it reached the disk: what is beside it tells its own format.
            Ok(0) => drop(fs::remove_file(&path)),
            Ok(_) => {
                check(dir, &path, &text)?;
                for part in [OBJECTS, TEMPORARY] {
                    let part = dir.join(part);
                    make(&part).map_err(Error::cache(&part, "cannot make the cache directory"))?;
                }
                return Ok(());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                write_format(dir, &path).map_err(Error::cache(dir, "cannot write to the cache directory"))?;
            }
            Err(error) => return Err(Error::cache(&path, "cannot read the cache's format")(error)),
        }
    }
    Err(Error::cache(&path, "cannot write the cache's format")(io::ErrorKind::NotFound.into()))
}

fn check(dir: &Path, path: &Path, text: &str) -> Result<()> {
    match text.strip_prefix(TITLE).and_then(|rest| rest.trim_end().parse().ok()) {
        Some(found) if found > FORMAT => Err(Error::Newer { path: dir.to_owned(), found, known: FORMAT }),
        Some(_) => Ok(()),
        None => {
            let error =
                io::Error::new(io::ErrorKind::InvalidData, "it is no firstbyte cache; use another directory");
            Err(Error::cache(path, "cannot use the cache directory")(error))
        }
    }
}

/// Whole or not at all: written beside, then linked, which leaves one that another process has made meanwhile.
fn write_format(dir: &Path, path: &Path) -> io::Result<()> {
    let beside = dir.join(format!("format.{}.{}", std::process::id(), unique()));
    let written =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside).and_then(|mut file| {
            // In one call, and not synced, which takes longer than the rest of a mount.
            file.write_all(format!("{TITLE}{FORMAT}\n").as_bytes())?;
            fs::hard_link(&beside, path)
        });
    let _ = fs::remove_file(&beside);
    match written {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Where a version goes that loses its name at once.
pub(super) fn temporary(dir: &Path) -> Result<Paths> {
    let name = format!("{}.{}.map", std::process::id(), unique());
    Ok(Paths::of_map(dir.join(TEMPORARY).join(name)))
}

/// A number this process has not had.
fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The directory of shard `index`.
pub(super) fn shard(objects: &Path, index: u64) -> PathBuf {
    objects.join(format!("{:02x}", index % SHARDS))
}

/// Whether there are versions: a look at the first names.
pub(super) fn contents(dir: &Path) -> Contents {
    match fs::read_dir(dir.join(OBJECTS)).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Contents::Nothing,
        _ => Contents::Something,
    }
}

/// The maps in one shard, in no order. A shard that is not there has none.
pub(super) fn maps(shard: &Path) -> io::Result<Vec<OsString>> {
    let entries = match fs::read_dir(shard) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
    names.filter(|name| name.as_ref().map_or(true, |name| name.as_bytes().ends_with(b".map"))).collect()
}
