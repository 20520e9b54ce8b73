//! Measures the local disk, which stores copies and the cache: durable writes, and reads.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use firstbyte_store::Cancel;
use rustix::fs::{Advice, fadvise, fdatasync, statvfs};
use serde::Serialize;

/// Maximum number of bytes to write.
const MAX_WRITTEN: u64 = 512 << 20;

/// Divisor of the free space: at most the quotient is written.
const FREE_DIVISOR: u64 = 8;

/// The rates of a disk, in bytes per second, and its free space.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiskRates {
    /// The measured directory.
    pub place: PathBuf,
    /// Rate of writing. Includes the final flush.
    pub write: f64,
    /// Rate of reading the written bytes. The page cache is bypassed if the file system allows
    /// that.
    pub read: f64,
    /// Number of bytes that this user can still write.
    pub free: u64,
}

/// Writes an unnamed file for `time`, and reads the file.
///
/// # Errors
/// The directory is not writable or is full.
pub(crate) fn measure(place: &Path, time: Duration, cancel: &Cancel) -> io::Result<DiskRates> {
    let free = statvfs(place).map(|fs| fs.f_frsize * fs.f_bavail)?;
    let most = MAX_WRITTEN.min(free / FREE_DIVISOR);
    if most < 1 << 20 {
        return Err(io::Error::new(io::ErrorKind::StorageFull, "less than 8 MiB are free"));
    }
    let file = tempfile::tempfile_in(place)?;
    // The bytes vary, because some file systems do not store blocks of zeros.
    let block: Vec<u8> =
        (0..1_u32 << 20).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let began = Instant::now();
    let mut written = 0;
    while written < most && began.elapsed() < time {
        if cancel.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        file.write_all_at(&block, written)?;
        written += block.len() as u64;
    }
    fdatasync(&file)?;
    let write = written as f64 / began.elapsed().as_secs_f64();
    Ok(DiskRates { place: place.to_owned(), write, read: read(&file, written, time)?, free })
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
        let disk = measure(place.path(), Duration::from_millis(20), &Cancel::new()).unwrap();
        assert!(disk.write > 0.0 && disk.read > 0.0 && disk.free > 0, "{disk:?}");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        assert!(measure(&place.path().join("missing"), Duration::ZERO, &Cancel::new()).is_err());
    }
}
