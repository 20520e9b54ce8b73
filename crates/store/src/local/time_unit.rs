//! Finds the unit in which a file system stores modification times, by setting a time and reading
//! it back. No system call returns the unit: `statfs` knows neither the inode size of ext4 nor the
//! disk behind an SMB server. `beneath` calls this module.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::errno;
use super::name::{partial_name, random_name};
use super::resolve::stat_at;

/// A time that only fine units can store: its seconds are odd, and its fraction needs nanoseconds.
const TIME_TO_SET: Duration = Duration::new(1_700_000_001, 123_456_789);
/// Units of file systems, coarsest first: two seconds (FAT), one second (HFS+, small inodes of
/// ext4), 10 ms (exFAT), milliseconds, microseconds, 100 ns (NTFS, SMB).
const UNITS: [Duration; 6] = [
    Duration::from_secs(2),
    Duration::from_secs(1),
    Duration::from_millis(10),
    Duration::from_millis(1),
    Duration::from_micros(1),
    Duration::from_nanos(100),
];

/// Creates a file in the directory, sets its time and reads it back, and removes the file.
pub(super) fn find(directory: &OwnedFd) -> Result<Duration, Errno> {
    // Listings omit this name.
    let name = partial_name(&random_name("".as_ref()).map_err(|error| errno(&error))?);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(directory, &name, flags, Mode::from_raw_mode(0o600))?);
    let set = file.set_modified(SystemTime::UNIX_EPOCH + TIME_TO_SET);
    drop(file);
    let kept = stat_at(directory, &name);
    rustix::fs::unlinkat(directory, &name, AtFlags::empty())?;
    set.map_err(|error| errno(&error))?;
    let kept = kept?;
    let seconds = u64::try_from(kept.st_mtime).map_err(|_| Errno::RANGE)?;
    Ok(unit_of(Duration::new(seconds, u32::try_from(kept.st_mtime_nsec).unwrap_or_default())))
}

/// Returns the coarsest unit of which `kept` is a multiple, or one nanosecond.
fn unit_of(kept: Duration) -> Duration {
    let is_multiple = |unit: &Duration| kept.as_nanos().is_multiple_of(unit.as_nanos());
    UNITS.into_iter().find(is_multiple).unwrap_or(Duration::from_nanos(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_that_of_the_time_that_was_kept() {
        let kept = |seconds: u64, nanoseconds| unit_of(Duration::new(1_700_000_000 + seconds, nanoseconds));
        assert_eq!([kept(0, 0), kept(2, 0)], [Duration::from_secs(2); 2]);
        assert_eq!(kept(1, 0), Duration::from_secs(1));
        assert_eq!([kept(1, 120_000_000), kept(1, 130_000_000)], [Duration::from_millis(10); 2]);
        assert_eq!(kept(1, 123_456_700), Duration::from_nanos(100));
        assert_eq!(unit_of(TIME_TO_SET), Duration::from_nanos(1));
    }

    #[test]
    fn a_directory_is_as_it_was_before() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = OwnedFd::from(File::open(scratch.path()).unwrap());
        assert!(find(&directory).unwrap() <= Duration::from_secs(2));
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}
