//! Tests reads through the engine from real servers, with and without a cache: the bytes are right,
//! each block is fetched once, and no block is fetched without a request.

use std::sync::mpsc;

use firstbyte_hydrate::{BLOCK, Error, File, Handle, HydrationSettings, Hydrator};
use firstbyte_location::Location;
use firstbyte_testkit::{Backend, Subject, bytes, scratch, wait_limit};
use tempfile::TempDir;

const SEED: u64 = 4;
const BLOCK_LEN: usize = BLOCK as usize;

/// Place where fetched blocks are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockPlace {
    Cached,
    InMemory,
}

const BOTH_PLACES: [BlockPlace; 2] = [BlockPlace::Cached, BlockPlace::InMemory];

struct Setting {
    content: Vec<u8>,
    hydrator: Hydrator,
    file: File,
    _cache: TempDir,
}

fn place(subject: &Subject, name: &str, len: usize, kept: BlockPlace) -> Setting {
    let content = bytes(SEED, len);
    subject.place(name, &content);
    let cache = scratch();
    let dir = (kept == BlockPlace::Cached).then(|| cache.path().into());
    let settings = HydrationSettings { cache: dir, reserve: 0, ..HydrationSettings::default() };
    let hydrator = Hydrator::new(subject.store.clone(), settings).unwrap();
    let file = hydrator.open(&subject.at(name)).unwrap();
    Setting { content, hydrator, file, _cache: cache }
}

fn read(handle: &Handle, offset: u64, length: usize) -> Vec<u8> {
    let mut buffer = vec![0; length];
    let read = handle.read_at(&mut buffer, offset).unwrap();
    buffer.truncate(read);
    buffer
}

fn read_then(handle: &Handle, offset: u64, length: usize) -> Vec<u8> {
    let (send, receive) = mpsc::channel();
    handle.read_then(offset, length, Box::new(move |result| send.send(result.map(<[u8]>::to_vec)).unwrap()));
    receive.recv_timeout(wait_limit()).unwrap().unwrap()
}

fn read_all(handle: &Handle, step: usize) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let piece = read(handle, all.len() as u64, step);
        if piece.is_empty() {
            return all;
        }
        all.extend(piece);
    }
}

#[test]
fn every_store_reads_right_from_end_to_end_and_past_it() {
    for of in [Backend::Local, Backend::ServeS3, Backend::ServeHttp, Backend::Nginx] {
        let subject = Subject::start(of);
        for kept in BOTH_PLACES {
            for step in [1000, BLOCK_LEN, 3 * BLOCK_LEN + 17, 20 * BLOCK_LEN] {
                let setting = place(&subject, "data", 9 * BLOCK_LEN + 1234, kept);
                let handle = setting.file.handle();
                assert!(read_all(&handle, step) == setting.content, "{of:?} {kept:?} in steps of {step}");
                assert!(read_all(&handle, step) == setting.content, "{of:?} {kept:?} again");
                assert!(read_then(&handle, 5, setting.content.len()) == setting.content[5..]);
                assert!(read_then(&handle, setting.file.size(), 10).is_empty());
                assert!(read(&handle, u64::MAX - 3, 10).is_empty());
            }
        }
    }
}

#[test]
fn an_empty_object_has_no_bytes() {
    let subject = Subject::start(Backend::ServeS3);
    for kept in BOTH_PLACES {
        let Setting { file, .. } = &place(&subject, "empty", 0, kept);
        assert!(read(&file.handle(), 0, 100).is_empty());
        assert!(read_then(&file.handle(), 0, 100).is_empty());
    }
}

#[test]
fn a_random_read_costs_one_request_of_one_block() {
    let subject = Subject::start(Backend::ServeS3);
    for kept in BOTH_PLACES {
        let Setting { content, hydrator, file, .. } = &place(&subject, "data", 400 * BLOCK_LEN, kept);
        let handle = file.handle();
        let before = subject.store.counters();
        for (count, block) in [(1, 7_u64), (2, 300), (3, 120), (4, 11)] {
            let at = block * BLOCK + 4096;
            assert!(read(&handle, at, 4096) == content[at as usize..][..4096]);
            let now = subject.store.counters();
            assert_eq!(now.requests - before.requests, count);
            assert_eq!(now.received - before.received, count * BLOCK);
        }
        assert_eq!(hydrator.counters().demand_fetches, 4);
        assert_eq!(hydrator.counters().ahead_fetches, 0);
    }
}

#[test]
fn sixteen_readers_of_the_same_blocks_share_their_fetches() {
    let subject = Subject::start(Backend::ServeS3);
    for kept in BOTH_PLACES {
        let Setting { content, hydrator, file, .. } = &place(&subject, "data", 64 * BLOCK_LEN, kept);
        let received = subject.store.counters().received;
        std::thread::scope(|scope| {
            for reader in 0..16_u64 {
                scope.spawn(move || {
                    let handle = file.handle();
                    for turn in 0..64 {
                        // All readers begin with the same block. Then each reads all blocks, in an
                        // order of its own.
                        let block = turn * (2 * (reader % 8) + 1) % 64;
                        let at = (block * BLOCK) as usize;
                        assert!(read(&handle, block * BLOCK, BLOCK_LEN) == content[at..][..BLOCK_LEN]);
                    }
                });
            }
        });
        let received = subject.store.counters().received - received;
        // With a cache, a block that arrived for one reader is never requested for another. Without
        // one, a reader may overtake a fetch ahead, or fetch only the bytes of a random read, so
        // some blocks arrive twice.
        let most = if kept == BlockPlace::Cached { 64 } else { 96 };
        assert!((64 * BLOCK..=most * BLOCK).contains(&received), "{kept:?} {:?}", hydrator.counters());
    }
}

#[test]
fn an_overwritten_object_is_an_error_and_never_a_mixture() {
    for of in [Backend::ServeS3, Backend::ServeHttp, Backend::Local] {
        let subject = Subject::start(of);
        for kept in BOTH_PLACES {
            let Setting { content, hydrator, file, .. } = &place(&subject, "data", 64 * BLOCK_LEN, kept);
            let handle = file.handle();
            assert!(read(&handle, 0, 1000) == content[..1000]);
            let other = bytes(SEED + 1, content.len());
            subject.place("data", &other);
            let mut buffer = vec![0; 4096];
            for at in [20 * BLOCK, 21 * BLOCK, 40 * BLOCK] {
                let error = handle.read_at(&mut buffer, at).unwrap_err();
                assert!(matches!(error, Error::Changed { .. }), "{of:?}: {error}");
                assert!(!error.to_string().contains('\n'));
            }
            // Cached blocks of the old version stay readable, and a new open reads the new version.
            assert!(read(&handle, 1000, 1000) == content[1000..2000]);
            let new = hydrator.open(&subject.at("data")).unwrap();
            assert!(read(&new.handle(), 20 * BLOCK, 4096) == other[20 * BLOCK_LEN..][..4096]);
        }
    }
}

#[test]
fn cached_blocks_are_read_without_a_request_also_by_the_next_process() {
    let subject = Subject::start(Backend::ServeS3);
    let setting = place(&subject, "data", 40 * BLOCK_LEN + 5, BlockPlace::Cached);
    assert!(read_all(&setting.file.handle(), BLOCK_LEN) == setting.content);
    let settings =
        HydrationSettings { cache: Some(setting._cache.path().into()), ..HydrationSettings::default() };
    let (version, requests) = (setting.file.version().clone(), subject.store.counters().received);
    drop((setting.file, setting.hydrator));
    let next = Hydrator::new(subject.store.clone(), settings).unwrap();
    let file = next.file(&subject.at("data"), version);
    assert!(read_all(&file.handle(), BLOCK_LEN) == setting.content);
    assert_eq!(subject.store.counters().received, requests);
}

#[test]
fn without_room_in_the_cache_reads_continue_uncached() {
    let subject = Subject::start(Backend::ServeS3);
    let cache = scratch();
    let content = bytes(SEED, 200 * BLOCK_LEN);
    subject.place("data", &content);
    let dir = Some(cache.path().into());
    // One cache has no room at all. The other has room for some blocks, which are evicted when
    // other blocks are read.
    for cache_size in [0, 30 * BLOCK] {
        let settings = HydrationSettings {
            cache: dir.clone(),
            cache_size: Some(cache_size),
            reserve: 0,
            ..HydrationSettings::default()
        };
        let hydrator = Hydrator::new(subject.store.clone(), settings).unwrap();
        let file = hydrator.open(&subject.at("data")).unwrap();
        for step in [4096, 3 * BLOCK_LEN, 100 * BLOCK_LEN] {
            assert!(read_all(&file.handle(), step) == content, "{cache_size} in steps of {step}");
        }
        assert!(read_then(&file.handle(), 7, 64 * BLOCK_LEN) == content[7..][..64 * BLOCK_LEN]);
    }
}

#[test]
fn the_observer_sees_reads_in_order() {
    let subject = Subject::start(Backend::Local);
    let Setting { hydrator, file, .. } = &place(&subject, "data", 4 * BLOCK_LEN, BlockPlace::InMemory);
    let (send, receive) = mpsc::channel();
    let send = std::sync::Mutex::new(send);
    let observer =
        move |location: &Location, range| send.lock().unwrap().send((location.clone(), range)).unwrap();
    assert!(hydrator.observe(Box::new(observer)));
    let handle = file.handle();
    read(&handle, 3 * BLOCK, 100);
    read(&handle, 0, 50);
    let seen: Vec<_> = receive.try_iter().map(|(_, range)| (range.start, range.end)).collect();
    assert_eq!(seen, [(3 * BLOCK, 3 * BLOCK + 100), (0, 50)]);
}
