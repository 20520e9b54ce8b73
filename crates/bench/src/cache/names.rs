//! Computes the bytes that a cold listing reads from a device, and reads names into memory. The
//! kernel does not report which names it caches, so the bytes read prove a cold listing. Called by
//! `cache` and `bring`.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::unreadable;
use crate::error::Result;
use crate::mounts::{self, Mounts};

/// File systems on which a first listing of a directory reads as many bytes as its reported size.
const EXACT_DIRECTORY_SIZES: [&str; 3] = ["ext2", "ext3", "ext4"];

/// Returns the bytes that a first listing of `directories` and all below them reads from a device.
/// `None` if a directory is on another file system than [`EXACT_DIRECTORY_SIZES`].
pub(super) fn listing_bytes(directories: &[PathBuf]) -> Result<Option<u64>> {
    let mounts = Mounts::current().unwrap_or_default();
    let has_exact_size = |directory: &PathBuf| {
        let mount = mounts.of(&mounts::real(directory));
        mount.is_some_and(|mount| {
            EXACT_DIRECTORY_SIZES.contains(&mount.kind.as_str()) && mount.device.starts_with("/dev/")
        })
    };
    if directories.is_empty() || !directories.iter().all(has_exact_size) {
        return Ok(None);
    }
    let mut sum = 0;
    visit(directories, |directory| {
        sum += fs::metadata(directory)?.size();
        Ok(())
    })?;
    Ok(Some(sum))
}

/// Lists `directories` and all below them, so that the kernel caches their names. Returns the
/// number of names.
pub(super) fn read(directories: &[PathBuf]) -> Result<u64> {
    visit(directories, |_| Ok(()))
}

/// Writes back the file systems of `directories`: dirty metadata cannot be dropped.
pub(super) fn write_back(directories: &[PathBuf]) -> Result<()> {
    for directory in directories {
        let synced = File::open(directory).and_then(|opened| Ok(rustix::fs::syncfs(&opened)?));
        synced.map_err(|error| unreadable(directory, &error))?;
    }
    Ok(())
}

/// Calls `act` for each directory. Returns the number of names in all of them.
fn visit(directories: &[PathBuf], mut act: impl FnMut(&Path) -> std::io::Result<()>) -> Result<u64> {
    let mut count = 0;
    let mut waiting = directories.to_vec();
    while let Some(directory) = waiting.pop() {
        let mut list = || {
            act(&directory)?;
            for entry in fs::read_dir(&directory)? {
                let entry = entry?;
                count += 1;
                if entry.file_type()?.is_dir() {
                    waiting.push(entry.path());
                }
            }
            Ok(())
        };
        list().map_err(|error| unreadable(&directory, &error))?;
    }
    Ok(count)
}
