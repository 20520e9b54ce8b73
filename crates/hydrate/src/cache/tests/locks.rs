//! Tests the order of locks that `lock` describes.

use std::thread;
use std::time::Duration;

use firstbyte_testkit::holds_within;

use super::*;

fn limited(dir: &Path, blocks: u64) -> Cache {
    Cache::open(dir, CacheLimits { size: Some(blocks * BLOCK), reserve: 0 }).unwrap()
}

#[test]
fn an_eviction_waits_for_no_version_that_another_process_opens() {
    let dir = scratch();
    let cache = limited(dir.path(), 20);
    let first = seeded(&cache, 1, 8 * BLOCK);
    fill_all(&first, 1);
    let map = &end_with(dir.path(), ".map")[0];
    let other = lock::LockFile::new(File::options().read(true).write(true).open(map).unwrap());
    assert!(lock::try_lock(&other, &lock::ENTRANCE, lock::LockMode::Exclusive).unwrap());
    let second = seeded(&cache, 2, 30 * BLOCK);
    lock::WAITS.set(0);
    (0..30).for_each(|block| _ = fill(&second, 2, block));
    assert_eq!(lock::WAITS.get(), 0);
    assert!(present(&second, 2).len() > 5 && present(&first, 1).len() == 8);
    drop(other);
    assert_ne!(fill(&second, 2, 0), FillOutcome::NoRoom);
}

#[test]
fn no_lock_is_held_while_room_is_made_for_a_new_version() {
    let dir = scratch();
    let cache = limited(dir.path(), 8);
    let first = seeded(&cache, 1, 8 * BLOCK);
    (0..7).for_each(|block| _ = fill(&first, 1, block));
    let evicting = cache.shared.evicting.lock();
    // The map alone needs more room than the cache has.
    let (other, size) = (cache.clone(), 2 << 30);
    let opening = thread::spawn(move || {
        let cached = seeded(&other, 2, size);
        (0..other.capacity() / BLOCK).for_each(|block| _ = fill(&cached, 2, block));
    });
    // While the thread waits for the eviction, no map may be locked exclusively.
    let is_locked = || {
        let maps = end_with(dir.path(), ".map");
        let free = |map: &PathBuf| {
            let file = lock::LockFile::new(File::options().read(true).write(true).open(map).unwrap());
            lock::try_lock(&file, &lock::OPEN, lock::LockMode::Shared).unwrap()
        };
        !maps.iter().all(free)
    };
    assert!(!holds_within(Duration::from_millis(300), is_locked), "a map is locked for itself");
    drop(evicting);
    opening.join().unwrap();
}
