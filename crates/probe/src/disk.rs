//! The local disk, where copies and the cache go: what it takes durably, and what it gives.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise, fdatasync, statvfs};
use serde::Serialize;

/// Bytes that are written at most.
const MOST: u64 = 512 << 20;

/// The part of the free space that is written at most.
const PART: u64 = 8;

/// A disk, in bytes and bytes per second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Disk {
    /// The directory.
    pub place: PathBuf,
    /// Written, with the final flush.
    pub write: f64,
    /// Read again, without the page cache as far as the file system allows it.
    pub read: f64,
    /// Bytes that this user may still write.
    pub free: u64,
}

/// Writes a file without a name for `time` and reads it again.
///
/// # Errors
/// The directory cannot be written, or is full.
pub(crate) fn measure(place: &Path, time: Duration) -> io::Result<Disk> {
    let free = statvfs(place).map(|fs| fs.f_frsize * fs.f_bavail)?;
    let most = MOST.min(free / PART);
    if most < 1 << 20 {
        return Err(io::Error::new(io::ErrorKind::StorageFull, "less than 8 MiB are free"));
    }
    let file = tempfile::tempfile_in(place)?;
    // Not one value: some file systems keep no blocks of zeros.
    let block: Vec<u8> =
        (0..1_u32 << 20).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let began = Instant::now();
    let mut written = 0;
    while written < most && began.elapsed() < time {
        file.write_all_at(&block, written)?;
        written += block.len() as u64;
    }
    fdatasync(&file)?;
    let write = written as f64 / began.elapsed().as_secs_f64();
    Ok(Disk { place: place.to_owned(), write, read: read(&file, written, time)?, free })
}

fn read(file: &File, length: u64, time: Duration) -> io::Result<f64> {
    fadvise(file, 0, NonZeroU64::new(length), Advice::DontNeed)?;
    let (mut buffer, mut done, began) = (vec![0; 1 << 20], 0, Instant::now());
    while done < length && began.elapsed() < time {
        done += file.read_at(&mut buffer, done)? as u64;
    }
    Ok(done as f64 / began.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_measured_and_nothing_stays() {
        let place = tempfile::tempdir().unwrap();
        let disk = measure(place.path(), Duration::from_millis(20)).unwrap();
        assert!(disk.write > 0.0 && disk.read > 0.0 && disk.free > 0, "{disk:?}");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        assert!(measure(&place.path().join("missing"), Duration::ZERO).is_err());
    }
}
