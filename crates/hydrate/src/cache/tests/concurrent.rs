//! Tests the cache with many threads, and with several instances on one directory, which behave
//! like processes.

use std::sync::atomic::AtomicU64;
use std::thread;

use super::*;

/// Returns the next pseudo-random number, and advances `state`.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
fn readers_never_see_a_hole_while_blocks_are_filled_and_evicted() {
    let dir = scratch();
    let limits = CacheLimits { size: Some(24 * BLOCK), reserve: 0 };
    let caches: Vec<_> = (0..2).map(|_| Cache::open(dir.path(), limits).unwrap()).collect();
    let hits = AtomicU64::new(0);
    thread::scope(|scope| {
        for worker in 0..8 {
            let (caches, hits) = (&caches, &hits);
            scope.spawn(move || {
                let versions: Vec<_> =
                    (0..2).map(|seed| seeded(&caches[worker % 2], seed, 30 * BLOCK - 7)).collect();
                let mut state = worker as u64;
                for _ in 0..1500 {
                    let seed = next(&mut state) % 2;
                    let cached = &versions[seed as usize];
                    let index = next(&mut state) % 30;
                    if is_right(cached, seed, index) {
                        hits.fetch_add(1, Ordering::Relaxed);
                    } else if let Some(_lease) = cached.lease(index..index + 1) {
                        fill(cached, seed, index);
                    }
                    assert!(cached.inner.shared.usage.used() <= 24 * BLOCK);
                }
            });
        }
    });
    assert!(hits.into_inner() > 1000);
    assert!(on_disk(dir.path()) <= 24 * BLOCK);
    assert_eq!(caches[0].verify().unwrap().wrong, 0);
    drop(caches);
    assert!(open_at(dir.path()).usage().used.unwrap() >= on_disk(dir.path()));
}

#[test]
fn versions_are_opened_closed_evicted_and_released_all_at_once() {
    let dir = scratch();
    let limits = CacheLimits { size: Some(20 * BLOCK), reserve: 0 };
    let caches: Vec<_> = (0..2).map(|_| Cache::open(dir.path(), limits).unwrap()).collect();
    thread::scope(|scope| {
        for worker in 0..6 {
            let caches = &caches;
            scope.spawn(move || {
                let mut state = worker as u64 + 100;
                for _ in 0..300 {
                    let seed = next(&mut state) % 12;
                    let cache = &caches[(next(&mut state) % 2) as usize];
                    if next(&mut state).is_multiple_of(20) {
                        cache.release(&location(&format!("s3://b/{seed}"))).unwrap();
                        continue;
                    }
                    // There may be no room if everything is in use.
                    let version =
                        cache.version(&location(&format!("s3://b/{seed}")), &strong(3 * BLOCK, "a"), None);
                    let Ok(cached) = version else { continue };
                    for index in 0..3 {
                        is_right(&cached, seed, index);
                        fill(&cached, seed, index);
                    }
                    if cached.has_all_blocks() {
                        cached.verify_complete().unwrap();
                    }
                    if let Some(backing) = cached.backing() {
                        let mut read = vec![0; 3 * BLOCK as usize];
                        let file = File::from(backing.as_fd().try_clone_to_owned().unwrap());
                        file.read_exact_at(&mut read, 0).unwrap();
                        assert!(read == bytes(seed, read.len()), "the file of {seed}");
                    }
                }
            });
        }
    });
    assert_eq!(caches[0].verify().unwrap().wrong, 0);
    assert_eq!(caches[1].usage().used, Some(on_disk(dir.path())));
}

#[test]
fn examining_a_version_does_not_prevent_its_recovery_after_a_restart() {
    let dir = scratch();
    let cache = open_at(dir.path());
    let cached = seeded(&cache, 1, BLOCK);
    cached.pin(Pin::Pinned);
    fill_all(&cached, 1);
    let paths = cached.inner.paths.clone();
    let map = dir.path().join(&paths.map);
    drop(cached);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                evict::remove(&cache.shared, &paths, Exempt::Pinned);
            }
        });
        for round in 0..2000 {
            wait_until_closed(&map);
            change_word(&map, 64, |boot| boot ^ 1);
            let cached = seeded(&cache, 1, BLOCK);
            let epoch = cached.inner.map.live().epoch.load(Ordering::Relaxed);
            if epoch != round + 1 {
                done.store(true, Ordering::Relaxed);
                panic!("epoch {epoch} after {round} restarts");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}
