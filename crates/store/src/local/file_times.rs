//! Sets modification times, and finds which times a file system can store, by setting times and
//! reading them back. No system call returns the unit or the range: `statfs` knows neither the
//! inode size of ext4 nor the disk behind an SMB server. `partial` and `beneath` call this module.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Mode, OFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;

use super::errno;
use super::name::{partial_name, random_name};
use super::resolve::stat_at;

/// A time that only fine units can store: its seconds are odd, and its fraction needs nanoseconds.
const TIME_TO_SET: Timespec = Timespec { tv_sec: 1_700_000_001, tv_nsec: 123_456_789 };
/// Seconds before and after 1970 that no file system of a disk can store. The kernel replaces them
/// by the first and the last time that the file system can store (`timestamp_truncate`).
const UNSTORABLE_SECONDS: i64 = 1 << 40;
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

/// The modification times that a file system can store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredTimes {
    /// The unit of the times.
    pub unit: Duration,
    /// The earliest time, in seconds since 1970.
    pub earliest: i64,
    /// The latest time, in seconds since 1970.
    pub latest: i64,
}

impl StoredTimes {
    /// The times that a host with SSH can store: whole seconds since 1970 in 32 bits
    /// (draft-ietf-secsh-filexfer-02, 5).
    pub const HOST: Self = Self { unit: Duration::from_secs(1), earliest: 0, latest: u32::MAX as i64 };

    /// Returns the whole seconds since 1970 that are stored for a time. The time is rounded down.
    /// Outside of the range, the first or the last time is stored.
    #[cfg(feature = "sftp")]
    pub(crate) fn seconds(self, time: SystemTime) -> i64 {
        timespec(time).tv_sec.clamp(self.earliest, self.latest)
    }
}

/// Sets the modification time of a file. The access time is set too, to its present value: the
/// high-level interface of libfuse 2 drops a change of one time alone and reports success
/// (github.com/libfuse/libfuse issue 603, read on 2026-11-28).
///
/// # Errors
/// The errors of the system calls.
pub fn set_modified(file: &File, modified: SystemTime) -> std::io::Result<()> {
    Ok(set_time(file, timespec(modified))?)
}

/// Converts a time. Seconds are rounded down.
pub(super) fn timespec(time: SystemTime) -> Timespec {
    let whole = |since: Duration| i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => Timespec { tv_sec: whole(since), tv_nsec: since.subsec_nanos().into() },
        Err(before) => match before.duration() {
            before if before.subsec_nanos() == 0 => Timespec { tv_sec: -whole(before), tv_nsec: 0 },
            before => Timespec {
                tv_sec: -whole(before) - 1,
                tv_nsec: (1_000_000_000 - before.subsec_nanos()).into(),
            },
        },
    }
}

/// Sets the modification time, and leaves the access time.
pub(super) fn set_time(file: impl AsFd, modified: Timespec) -> Result<(), Errno> {
    let times = both_times(&rustix::fs::fstat(&file)?, modified);
    rustix::fs::futimens(file, &times)
}

/// Returns the times to set for a file with the attributes `there`.
pub(super) fn both_times(there: &Stat, modified: Timespec) -> Timestamps {
    let accessed =
        Timespec { tv_sec: there.st_atime, tv_nsec: i64::try_from(there.st_atime_nsec).unwrap_or_default() };
    Timestamps { last_access: accessed, last_modification: modified }
}

/// Sets the modification time of a file that is being written.
///
/// # Errors
/// `EOPNOTSUPP` if the file system has reported success without setting the time.
pub(super) fn set_and_check(file: &File, modified: SystemTime) -> Result<(), Errno> {
    let wanted = timespec(modified);
    set_time(file, wanted)?;
    let kept = rustix::fs::fstat(file)?.st_mtime;
    // Nearly all file systems can store the times of this range. A time outside of it may have been
    // replaced by the first or the last time of the file system.
    let is_usual = USUAL_SECONDS.contains(&wanted.tv_sec);
    if is_usual && kept.abs_diff(wanted.tv_sec) > UNITS[0].as_secs() { Err(Errno::OPNOTSUPP) } else { Ok(()) }
}

/// The times that every usual file system can store, in seconds since 1970: from 1980 (FAT) to 2038
/// (small inodes of ext4), less a day for time zones.
pub const USUAL_SECONDS: std::ops::Range<i64> = 315_619_200..2_147_397_247;

/// Creates a file in the directory, sets its times and reads them back, and removes the file.
pub(super) fn measure_stored_times(directory: &OwnedFd) -> Result<StoredTimes, Errno> {
    // Listings omit this name.
    let name = partial_name(&random_name("".as_ref()).map_err(|error| errno(&error))?);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(directory, &name, flags, Mode::from_raw_mode(0o600))?);
    let kept = |seconds| {
        let far = Timespec { tv_sec: seconds, tv_nsec: 0 };
        set_time(&file, far).and_then(|()| stat_at(directory, &name)).map_or(seconds, |found| found.st_mtime)
    };
    let (earliest, latest) = (kept(-UNSTORABLE_SECONDS), kept(UNSTORABLE_SECONDS));
    let found = set_time(&file, TIME_TO_SET);
    drop(file);
    let found = found.and_then(|()| stat_at(directory, &name));
    rustix::fs::unlinkat(directory, &name, AtFlags::empty())?;
    let found = found?;
    let seconds = u64::try_from(found.st_mtime).map_err(|_| Errno::RANGE)?;
    let kept = Duration::new(seconds, u32::try_from(found.st_mtime_nsec).unwrap_or_default());
    Ok(StoredTimes { unit: unit_of(kept), earliest, latest })
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
        assert_eq!(kept(1, 123_456_789), Duration::from_nanos(1));
    }

    #[test]
    fn measuring_stored_times_leaves_no_file() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = OwnedFd::from(File::open(scratch.path()).unwrap());
        let found = measure_stored_times(&directory).unwrap();
        assert!(found.unit <= Duration::from_secs(2) && found.earliest < found.latest, "{found:?}");
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_time_is_set_to_the_nanosecond_also_before_1970_and_the_access_time_stays() {
        let file = tempfile::tempfile().unwrap();
        let accessed = file.metadata().unwrap().accessed().unwrap();
        let after = SystemTime::UNIX_EPOCH + Duration::new(1_600_000_001, 123_456_789);
        let before = SystemTime::UNIX_EPOCH - Duration::new(5, 250_000_000);
        for time in [after, before, SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH - Duration::from_secs(3)] {
            set_modified(&file, time).unwrap();
            let metadata = file.metadata().unwrap();
            assert_eq!((metadata.modified().unwrap(), metadata.accessed().unwrap()), (time, accessed));
        }
    }
}
