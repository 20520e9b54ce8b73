//! Tests the cache on disks that are full or read-only.

use std::process::Command;

use super::*;

/// A small file system in memory, which is unmounted when this value is dropped.
struct SmallFileSystem(tempfile::TempDir);

impl SmallFileSystem {
    fn new(options: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "cache-test"]).arg(dir.path()).status();
        assert!(mounted.unwrap().success(), "mounting a tmpfs needs root");
        Self(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

/// Fills the disk with a file.
fn fill_disk(path: &Path) {
    let file = File::create(path).unwrap();
    for at in 0.. {
        if file.write_all_at(&[1; 4096], at * 4096).is_err() {
            return;
        }
    }
}

#[test]
fn on_a_full_disk_blocks_replace_others_and_nothing_fails() {
    if firstbyte_testkit::lacks_root() {
        return;
    }
    let small = SmallFileSystem::new("size=4m");
    let dir = small.path().join("cache");
    let cache = open_at(&dir);
    let cached = seeded(&cache, 1, 5 << 40);
    // The blocks are far apart, so that each needs a page of the map.
    let mut kept = Vec::new();
    for index in (0..200).map(|step| step * 1000) {
        if fill(&cached, 1, index) == FillOutcome::Kept {
            assert!(is_right(&cached, 1, index));
            kept.push(index);
        }
    }
    assert!(kept.len() > 50, "{} kept", kept.len());
    kept.retain(|index| is_right(&cached, 1, *index));
    assert!(kept.len() > 10, "{} left", kept.len());
}

#[test]
fn on_a_disk_filled_by_others_nothing_is_cached_and_nothing_fails() {
    if firstbyte_testkit::lacks_root() {
        return;
    }
    let small = SmallFileSystem::new("size=4m");
    let dir = small.path().join("cache");
    let cache = open_at(&dir);
    let cached = seeded(&cache, 1, 5 << 40);
    cached.pin(Pin::Pinned);
    assert_eq!(fill(&cached, 1, 0), FillOutcome::Kept);
    let stuffing = small.path().join("other");
    fill_disk(&stuffing);
    assert_eq!(fill(&cached, 1, 1), FillOutcome::NoRoom);
    assert_eq!(fill(&cached, 1, 100_000), FillOutcome::NoRoom);
    // Simulates another program that fills the disk after the count has reported room.
    assert!(cached.inner.map.word_allocated(200_000).is_err() && cached.inner.map.word(200_000).is_none());
    assert!(is_right(&cached, 1, 0) && !is_right(&cached, 1, 100_000));
    assert!(cache.version(&location("s3://b/2"), &strong(1, "a"), None).is_err());
    drop((cached, cache));
    // The format file is cut short, and there is no room to write it again.
    fs::write(dir.join("format"), "firstbyte ca").unwrap();
    let cache = open_at(&dir);
    let cached = seeded(&cache, 1, 5 << 40);
    assert!(is_right(&cached, 1, 0));
    assert!(matches!(Cache::open(&small.path().join("new"), NO_LIMITS), Err(Error::Cache { .. })));
    fs::remove_file(stuffing).unwrap();
    assert_eq!(fill(&cached, 1, 100_000), FillOutcome::Kept);
}

#[test]
fn a_disk_without_inodes_refuses_a_version_although_the_count_allows_it() {
    if firstbyte_testkit::lacks_root() {
        return;
    }
    let small = SmallFileSystem::new("size=64m,nr_inodes=12");
    let cache = open_at(&small.path().join("cache"));
    let opened: Vec<_> = (0..10)
        .map(|seed| cache.version(&location(&format!("s3://b/{seed}")), &strong(BLOCK, "a"), None))
        .collect();
    assert!(opened.iter().any(Result::is_err) && opened.iter().any(Result::is_ok));
    let before = cache.usage().used.unwrap();
    assert_eq!(before, opened.iter().flatten().count() as u64 * block_map::page());
}

#[test]
fn the_reserve_is_left_free() {
    if firstbyte_testkit::lacks_root() {
        return;
    }
    let small = SmallFileSystem::new("size=16m");
    let reserve = 10 << 20;
    let cache = Cache::open(&small.path().join("cache"), CacheLimits { size: None, reserve }).unwrap();
    let cached = seeded(&cache, 1, 200 * BLOCK);
    for index in 0..200 {
        assert_eq!(fill(&cached, 1, index), FillOutcome::Kept, "block {index}");
        let stat = rustix::fs::statvfs(small.path()).unwrap();
        assert!(stat.f_bavail * stat.f_frsize >= reserve);
    }
    assert!(present(&cached, 1).len() > 10);
}

#[test]
fn a_directory_that_cannot_be_written_is_an_error() {
    if firstbyte_testkit::lacks_root() {
        return;
    }
    let small = SmallFileSystem::new("size=4m");
    let dir = small.path().join("cache");
    drop(open_at(&dir));
    let remount = |options| Command::new("mount").args(["-o", options]).arg(small.path()).status().unwrap();
    assert!(remount("remount,ro").success());
    let error = Cache::open(&dir, NO_LIMITS).unwrap_err();
    assert!(matches!(error, Error::Cache { .. }) && error.to_string().contains("Read-only"), "{error}");
}
