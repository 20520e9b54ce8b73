//! Decides whether a copy has the modification time of its source. File systems store times in
//! different units and ranges, so the two times of a copy may differ.
//!
//! The times that a local destination can store are determined once for each file system, by
//! creating and removing a file, and only if the answer depends on them. With them, the test is
//! exact: the two times may differ only by the rounding of that file system. A host with SSH stores
//! whole seconds ([`StoredTimes::HOST`]). Elsewhere (a dry run, a web server, an object's
//! metadata), the unit is guessed from the copy's time. [`compare`](crate::compare),
//! [`named`](crate::named) and [`sync`](crate::sync) call this.

use std::time::SystemTime;

use firstbyte_location::{Entry, FileIdentity, Location, directory_of};
use firstbyte_store::{Beneath, Stat, StoredTimes, USUAL_SECONDS, unix_nanoseconds};

use crate::job::{Effect, Tree, as_path};

/// The modification time of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceTime {
    pub(crate) modified: SystemTime,
    /// True if a protocol, a header or the file system may have rounded the time down.
    may_be_rounded: bool,
}

impl SourceTime {
    /// Returns a time that may have been rounded.
    pub(crate) fn rounded(modified: SystemTime) -> Self {
        Self { modified, may_be_rounded: true }
    }

    /// Returns the time of a listed entry below `source`.
    pub(crate) fn of(source: &Location, entry: &Entry) -> Option<Self> {
        let changed = entry.changed.filter(|_| source.as_local().is_some());
        Some(Self::with_changed(entry.modified?, changed))
    }

    /// Returns the time of an object or file that was looked up.
    pub(crate) fn of_stat(stat: &Stat) -> Option<Self> {
        Some(Self::with_changed(stat.modified?, stat.version.file.and_then(FileIdentity::changed)))
    }

    /// Combines a modification time with the inode change time, if known. If the change time has a
    /// finer unit than 10 ms, the source's file system has not rounded the modification time. A
    /// change time in units of 10 ms proves nothing, because older kernels store such change times
    /// on FAT.
    fn with_changed(modified: SystemTime, changed: Option<SystemTime>) -> Self {
        let is_fine = changed.is_some_and(|changed| TimeUnit::of(changed) < TimeUnit::HUNDREDTH);
        Self { modified, may_be_rounded: !is_fine }
    }
}

/// Returns the times that the file system of a tree's destination can store below `name`. Returns
/// `None` in a dry run, because the test writes a file.
pub(crate) fn stored_times(tree: &Tree<'_>, root: &Beneath, name: &[u8]) -> Option<StoredTimes> {
    if tree.effect == Effect::DryRun { None } else { root.stored_times(as_path(name)) }
}

/// Returns the times that the file system of a file can store. `None` for objects.
pub(crate) fn stored_times_at(location: &Location) -> Option<StoredTimes> {
    if let Location::Sftp(_) = location {
        return Some(StoredTimes::HOST);
    }
    let path = location.as_local()?;
    Beneath::new(directory_of(path), None).stored_times(path.file_name()?.as_ref())
}

/// Returns whether a copy has the modification time of its source. A file system may store the time
/// in a coarser unit, rounded down or to the nearest (Samba's `round_timespec`), or replace it by
/// the first or last time that it can store. `stored` is called only if the answer depends on it.
/// If the source's time has a coarser unit than the copy's, a protocol or header may have rounded
/// it down.
pub(crate) fn is_same(
    source: SourceTime,
    copy: SystemTime,
    stored: impl FnOnce() -> Option<StoredTimes>,
) -> bool {
    let after = unix_nanoseconds(source.modified) - unix_nanoseconds(copy);
    if after == 0 {
        return true;
    }
    let is_near = after.unsigned_abs() < TimeUnit::LONGEST.0.unsigned_abs();
    let rounded = TimeUnit::of(source.modified);
    if is_near && source.may_be_rounded && rounded > TimeUnit::of(copy) {
        return rounded.count(source.modified) == rounded.count(copy);
    }
    if !is_near && !is_unusual(source.modified) {
        return false;
    }
    let stored = stored();
    if is_unusual(source.modified) && stored.is_some_and(|stored| is_limit(source, copy, stored)) {
        return true;
    }
    let unit = stored.map_or(TimeUnit::of(copy), |stored| TimeUnit(stored.unit.as_nanos().cast_signed()));
    // The copy's time was rounded down or to the nearest unit.
    is_near && (-unit.0 / 2..unit.0).contains(&after)
}

/// Returns whether a time is outside of the range that every file system can store.
fn is_unusual(time: SystemTime) -> bool {
    i64::try_from(whole_seconds(time)).is_ok_and(|seconds| !USUAL_SECONDS.contains(&seconds))
}

/// Returns whether the copy has the first or last time that its file system can store, in place of
/// the source's time.
fn is_limit(source: SourceTime, copy: SystemTime, stored: StoredTimes) -> bool {
    let (from, to) = (whole_seconds(source.modified), whole_seconds(copy));
    let (earliest, latest) = (stored.earliest.into(), stored.latest.into());
    (from < earliest && to == earliest) || (from > latest && to == latest)
}

/// A unit of modification times, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TimeUnit(i128);

impl TimeUnit {
    const HUNDREDTH: Self = Self(10_000_000);
    const SECOND: Self = Self(1_000_000_000);
    /// The unit of FAT, two seconds.
    const LONGEST: Self = Self(2_000_000_000);

    /// Returns the largest usual unit of which a time is a multiple: seconds, 10 ms (exFAT),
    /// milliseconds, microseconds, 100 ns (NTFS), or nanoseconds.
    fn of(time: SystemTime) -> Self {
        let units = [1_000_000_000, 10_000_000, 1_000_000, 1_000, 100];
        let nanoseconds = unix_nanoseconds(time);
        Self(units.into_iter().find(|unit| nanoseconds.rem_euclid(*unit) == 0).unwrap_or(1))
    }

    /// Returns the number of whole units from 1970 to a time, rounded down.
    fn count(self, time: SystemTime) -> i128 {
        unix_nanoseconds(time).div_euclid(self.0)
    }
}

/// Returns the whole seconds since 1970, rounded down.
pub(crate) fn whole_seconds(time: SystemTime) -> i128 {
    TimeUnit::SECOND.count(time)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const YEAR: u64 = 31_557_600;

    fn at(seconds: u64, nanoseconds: u32) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000 + seconds, nanoseconds)
    }

    fn stored(unit: u64) -> StoredTimes {
        StoredTimes { unit: Duration::from_nanos(unit), earliest: 315_532_800, latest: 2_147_483_647 }
    }

    /// Returns whether a copy with the time `copy` is the same as a file with the time 13.617283945
    /// s.
    fn is_same_as_source(copy: SystemTime, unit: Option<u64>) -> bool {
        is_same(SourceTime::rounded(at(13, 617_283_945)), copy, || unit.map(stored))
    }

    #[test]
    fn a_copy_has_its_sources_time_in_the_unit_of_its_file_system() {
        let fat = Some(2_000_000_000);
        assert!(
            is_same_as_source(at(12, 0), fat)
                && is_same_as_source(at(14, 0), fat)
                && !is_same_as_source(at(10, 0), fat)
                && !is_same_as_source(at(16, 0), fat)
        );
        let second = Some(1_000_000_000);
        for unit in [None, second] {
            assert!(
                is_same_as_source(at(13, 0), unit)
                    && is_same_as_source(at(14, 0), unit)
                    && !is_same_as_source(at(12, 0), unit)
            );
        }
        for unit in [None, Some(100)] {
            assert!(
                is_same_as_source(at(13, 617_283_900), unit) && !is_same_as_source(at(13, 617_283_800), unit)
            );
        }
        assert!(
            is_same_as_source(at(13, 617_283_945), None) && !is_same_as_source(at(13, 617_283_944), None)
        );
        // A protocol has rounded the source's time down to whole seconds.
        let rounded = |copy| is_same(SourceTime::rounded(at(5, 0)), copy, || None);
        assert!(rounded(at(5, 999)) && !rounded(at(4, 999)));
    }

    #[test]
    fn an_edit_within_a_second_is_a_change_if_the_file_system_stores_nanoseconds() {
        for copy in [at(13, 0), at(14, 0), at(13, 617_000_000), at(13, 610_000_000), at(13, 617_283_900)] {
            assert!(!is_same_as_source(copy, Some(1)), "{copy:?}");
        }
        // The source's time has whole seconds, and its change time shows that none was rounded.
        let source = |changed| SourceTime::with_changed(at(5, 0), Some(changed));
        assert!(!is_same(source(at(7, 1_234_567)), at(5, 999), || Some(stored(1))));
        assert!(is_same(source(at(7, 120_000_000)), at(5, 999), || Some(stored(1))));
    }

    #[test]
    fn a_time_out_of_the_range_of_a_file_system_is_its_first_or_last_time() {
        let since = |years: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(years * YEAR);
        let second = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let same = |source, copy| is_same(SourceTime::rounded(source), copy, || Some(stored(1)));
        assert!(same(since(70), second(2_147_483_647)) && same(second(1), second(315_532_800)));
        assert!(!same(since(70), second(315_532_800)) && !same(since(70), since(69)));
        assert!(!same(since(60), second(2_147_483_647)));
    }

    #[test]
    fn no_times_are_looked_for_if_they_decide_nothing() {
        for copy in [at(13, 617_283_945), at(11, 0), at(1_000, 0)] {
            is_same(SourceTime::rounded(at(13, 617_283_945)), copy, || panic!("{copy:?}"));
        }
    }
}
