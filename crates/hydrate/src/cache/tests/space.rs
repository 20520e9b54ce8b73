//! Tests the count of the space used, and eviction when there is no room.

use super::*;
use crate::settings::HydrationSettings;

fn limited(dir: &Path, size: u64) -> Cache {
    Cache::open(dir, CacheLimits { size: Some(size), reserve: 0 }).unwrap()
}

fn within(cache: &Cache, dir: &Path, limit: u64) {
    let (counted, real) = (cache.usage().used.unwrap(), on_disk(dir));
    assert!(real <= counted && counted <= limit, "{real} on disk, {counted} counted, {limit} allowed");
}

#[test]
fn the_count_is_what_the_disk_allocates() {
    let dir = scratch();
    let cache = open_at(dir.path());
    let versions: Vec<_> =
        (1..50).map(|seed| (seed, seeded(&cache, seed, 5 * BLOCK * seed % 7_000_000 + seed))).collect();
    // On a file system without extent lists, the count is too high by the bytes for such lists.
    let is_close = || {
        let (counted, real) = (cache.usage().used.unwrap(), on_disk(dir.path()));
        assert!(
            real <= counted && counted <= real + 49 * 2 * block_map::page(),
            "{real} on disk, {counted} counted"
        );
    };
    for (seed, cached) in &versions {
        fill_all(cached, *seed);
        is_close();
    }
    drop(versions);
    for seed in 1..50 {
        cache.release(&location(&format!("s3://b/{seed}"))).unwrap();
        is_close();
    }
    assert_eq!(cache.usage().used, Some(0));
}

#[test]
fn the_least_recently_opened_are_evicted_first_and_pinned_ones_stay() {
    let dir = scratch();
    let limit = 32 * BLOCK;
    let cache = limited(dir.path(), limit);
    for seed in 0..10 {
        let cached = seeded(&cache, seed, 3 * BLOCK);
        fill_all(&cached, seed);
        if seed == 1 {
            cached.pin(Pin::Pinned);
        }
        // Times are set by hand, because a clock of seconds is too coarse for a test.
        cached.inner.map.live().last_open.store(1000 + seed, Ordering::Relaxed);
    }
    let new = seeded(&cache, 10, 6 * BLOCK);
    fill_all(&new, 10);
    within(&cache, dir.path(), limit);
    let mut left: Vec<_> = cache.statuses().map(|status| status.unwrap().location.to_string()).collect();
    left.sort();
    assert!(left.contains(&"s3://b/1".to_owned()), "{left:?}");
    assert!(left.contains(&"s3://b/9".to_owned()), "{left:?}");
    assert!(!left.contains(&"s3://b/0".to_owned()) && !left.contains(&"s3://b/2".to_owned()), "{left:?}");
}

#[test]
fn a_file_larger_than_the_cache_evicts_its_own_blocks() {
    let dir = scratch();
    let limit = 16 * BLOCK;
    let cache = limited(dir.path(), limit);
    let cached = seeded(&cache, 1, 100 * BLOCK);
    for index in 0..100 {
        assert_eq!(fill(&cached, 1, index), FillOutcome::Kept, "block {index}");
        assert!(is_right(&cached, 1, index));
        within(&cache, dir.path(), limit);
    }
    let present = present(&cached, 1);
    assert!((8..16).contains(&present.len()), "{present:?}");
    assert!(!cached.has_all_blocks());
}

#[test]
fn eviction_passes_over_blocks_that_are_read_often() {
    let dir = scratch();
    let cache = limited(dir.path(), 32 * BLOCK);
    let cached = seeded(&cache, 1, 400 * BLOCK);
    let mut missed = 0;
    for index in 1..400 {
        assert_eq!(fill(&cached, 1, index), FillOutcome::Kept);
        if !is_right(&cached, 1, 0) {
            missed += 1;
            assert_eq!(fill(&cached, 1, 0), FillOutcome::Kept);
        }
    }
    // If blocks were evicted in the order in which they were filled, this block would be missing
    // every 28 blocks.
    assert!(missed <= 4, "{missed} times");
}

#[test]
fn pinned_versions_and_those_with_a_backing_are_not_evicted() {
    let dir = scratch();
    let cache = limited(dir.path(), 8 * BLOCK);
    let backed = seeded(&cache, 1, 3 * BLOCK);
    fill_all(&backed, 1);
    backed.verify_complete().unwrap();
    let backing = backed.backing().unwrap();
    let pinned = seeded(&cache, 2, 4 * BLOCK);
    pinned.pin(Pin::Pinned);
    fill_all(&pinned, 2);
    let other = seeded(&cache, 3, 3 * BLOCK);
    assert_eq!(fill(&other, 3, 0), FillOutcome::NoRoom);
    assert_eq!(present(&other, 3), Vec::<u64>::new());
    drop(backing);
    assert_eq!(fill(&other, 3, 0), FillOutcome::Kept);
    assert!(present(&backed, 1).len() < 3 && !backed.is_complete());
    assert_eq!(present(&pinned, 2).len(), 4);
}

#[test]
fn weak_versions_are_evicted_too() {
    let dir = scratch();
    let cache = limited(dir.path(), 8 * BLOCK);
    let weak = Version { size: Some(30 * BLOCK), last_modified: Some("Mon".into()), ..Version::default() };
    let cached = cache.version(&location("http://h/k"), &weak, None).unwrap();
    for index in 0..30 {
        assert_eq!(fill(&cached, 1, index), FillOutcome::Kept, "block {index}");
        assert!(is_right(&cached, 1, index) && cache.usage().used.unwrap() <= 8 * BLOCK);
    }
}

#[test]
fn a_limit_smaller_than_a_block_caches_nothing_and_fails_nothing() {
    let dir = scratch();
    let cache = limited(dir.path(), 64 << 10);
    let cached = seeded(&cache, 1, 3 * BLOCK);
    assert_eq!(fill(&cached, 1, 0), FillOutcome::NoRoom);
    assert!(limited(dir.path(), 0).version(&location("s3://b/2"), &strong(1, "a"), None).is_err());
}

#[test]
fn a_reserve_larger_than_the_disk_caches_nothing() {
    let dir = scratch();
    let cache = Cache::open(dir.path(), CacheLimits { size: None, reserve: u64::MAX }).unwrap();
    assert_eq!(cache.usage().room, 0);
    assert!(cache.version(&location("s3://b/1"), &strong(BLOCK, "a"), None).is_err());
}

#[test]
fn a_cache_in_memory_takes_half_of_the_jobs_memory_unless_its_size_is_stated() {
    let size = |directory: &str, memory_limit, cache_size| {
        let cache = Some(directory.into());
        let settings = HydrationSettings { cache, memory_limit, cache_size, ..HydrationSettings::default() };
        CacheLimits::of(&settings).size
    };
    let in_memory = "/dev/shm/made/later";
    assert_eq!(size(in_memory, Some(100), None), Some(50));
    assert_eq!(size(in_memory, Some(100), Some(70)), Some(70));
    assert_eq!(size(in_memory, None, None), None);
    assert_eq!(size("/proc/self", Some(100), None), None);
}

#[test]
fn a_smaller_limit_is_met_soon_after_opening() {
    let dir = scratch();
    let cache = open_at(dir.path());
    for seed in 0..100 {
        fill_all(&seeded(&cache, seed, 2 * BLOCK), seed);
    }
    drop(cache);
    let cache = limited(dir.path(), 50 * BLOCK);
    while cache.usage().used.unwrap() > 50 * BLOCK {
        std::thread::yield_now();
    }
    within(&cache, dir.path(), 50 * BLOCK);
    assert!(cache.statuses().count() >= 10);
}

#[test]
fn bytes_counted_by_killed_processes_are_subtracted() {
    let dir = scratch();
    let cache = open_at(dir.path());
    for seed in 0..10 {
        fill_all(&seeded(&cache, seed, 2 * BLOCK), seed);
    }
    let used = cache.usage().used.unwrap();
    drop(cache);
    change_word(&dir.path().join("usage"), 24, |used| used + 12_345_678);
    // After a clean close, the next process trusts the count. The count is wrong here, to show
    // that.
    let cache = open_at(dir.path());
    assert_eq!(cache.usage().used, Some(used + 12_345_678));
    drop(cache);
    as_if_killed(dir.path());
    assert_eq!(exact_count(&open_at(dir.path())), used);
    change_word(&dir.path().join("usage"), 24, |_| 0);
    as_if_restarted(dir.path());
    assert_eq!(exact_count(&open_at(dir.path())), used);
    fs::remove_file(dir.path().join("usage")).unwrap();
    let cache = open_at(dir.path());
    // The first fill waits until the recount has finished.
    fill_all(&seeded(&cache, 10, 2 * BLOCK), 10);
    assert_eq!(exact_count(&cache), on_disk(dir.path()));
}

#[test]
fn pinned_blocks_are_not_evicted_until_they_are_unpinned() {
    let dir = scratch();
    let cache = open_at(dir.path());
    let cached = seeded(&cache, 1, 4 * BLOCK);
    (0..3).for_each(|index| assert_eq!(fill(&cached, 1, index), FillOutcome::Kept));
    assert!(cached.pin_blocks(ByteRange::new(BLOCK, 4 * BLOCK)).is_none(), "the last is absent");
    let pinned = cached.pin_blocks(ByteRange::new(10, 2 * BLOCK)).unwrap();
    // A second instance on the same directory behaves like another process.
    let other = seeded(&open_at(dir.path()), 1, 4 * BLOCK);
    assert_eq!((cached.inner.evict(0..1), other.inner.evict(1..2)), (0, 0));
    assert_eq!(other.inner.evict(2..3), BLOCK);
    drop(pinned);
    assert_eq!(other.inner.evict(0..2), 2 * BLOCK);
    assert!(cached.pin_blocks(ByteRange::new(0, 1)).is_none());
}

#[test]
fn a_wrong_block_is_dropped_even_while_it_is_pinned() {
    let dir = scratch();
    let cached = seeded(&open_at(dir.path()), 1, BLOCK);
    fill_all(&cached, 1);
    let pinned = cached.pin_blocks(ByteRange::new(0, BLOCK)).unwrap();
    cached.inner.drop_blocks(0..1);
    assert!(!cached.is_present(0));
    let mut bytes = vec![0; block(&cached, 1, 0).len()];
    rustix::io::pread(&pinned, &mut bytes[..], 0).unwrap();
    assert!(bytes == block(&cached, 1, 0), "its reader sees no hole");
}
