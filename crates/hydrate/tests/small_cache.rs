//! Tests hydration into a cache that is too small: the job ends, the files that fit are cached, and
//! no fetched block is discarded. Bytes are counted on the network.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use firstbyte_hydrate::cache::{Cache, CacheLimits, VersionState};
use firstbyte_hydrate::{
    BLOCK, Error, HydrationFailure, HydrationItem, HydrationList, HydrationProgress, HydrationSettings,
    Hydrator,
};
use firstbyte_testkit::{Backend, Subject, bytes, scratch, until, wait_limit};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
const BLOCK_LEN: usize = BLOCK as usize;

fn engine(subject: &Subject, cache: &TempDir, cache_size: u64) -> Hydrator {
    let settings = HydrationSettings {
        cache: Some(cache.path().into()),
        cache_size: Some(cache_size),
        reserve: 0,
        ..HydrationSettings::default()
    };
    Hydrator::new(subject.store.clone(), settings).unwrap()
}

fn wanted(subject: &Subject, names: &[String]) -> HydrationList {
    let found = |name: &String| HydrationItem { location: subject.at(name), version: None, range: None };
    Box::new(names.iter().map(found).collect::<Vec<_>>().into_iter().map(Ok))
}

/// Hydrates `names`, and asserts that the job ends.
fn hydrate(hydrator: &Hydrator, subject: &Subject, names: &[String]) -> HydrationProgress {
    let job = hydrator.hydrate(wanted(subject, names), None).unwrap();
    let progress = job.wait(wait_limit());
    assert!(progress.is_over, "the job does not end: {progress:?}");
    progress
}

/// Stores `count` objects of `size` bytes on the server. Returns their names.
fn place_objects(subject: &Subject, prefix: &str, count: u64, size: usize) -> Vec<String> {
    let name = |seed: u64| {
        let name = format!("{prefix}{seed:04}");
        subject.place(&name, &bytes(seed, size));
        name
    };
    (0..count).map(name).collect()
}

/// Returns how many of `names` are completely cached. Opens no version, because that may evict
/// another one.
fn hydrated(hydrator: &Hydrator, subject: &Subject, names: &[String]) -> u64 {
    let whole = |name: &&String| {
        let found = hydrator.cache().unwrap().find(&subject.at(name)).unwrap();
        found.iter().any(|status| status.state == VersionState::Hydrated)
    };
    names.iter().filter(whole).count() as u64
}

fn received_bytes(subject: &Subject) -> u64 {
    subject.store.counters().received
}

#[test]
fn a_version_that_was_released_and_fetched_again_is_verified_again() {
    let subject = Subject::start(Backend::ServeS3);
    let cache = scratch();
    let hydrator = engine(&subject, &cache, 64 * MIB);
    let names = place_objects(&subject, "f", 1, 3 * BLOCK_LEN + 5);
    // The file stays open, like a file of a mount that programs have open.
    let file = hydrator.open(&subject.at(&names[0])).unwrap();
    for round in 0..3 {
        let progress = hydrate(&hydrator, &subject, &names);
        assert_eq!((progress.files_done, progress.failed.len()), (1, 0), "round {round}");
        assert!(file.backing().is_some(), "round {round}");
        hydrator.cache().unwrap().release(file.location()).unwrap();
        assert!(file.backing().is_none());
    }
    // Readers fetch these blocks, and no job does.
    let mut buffer = vec![0; 3 * BLOCK_LEN + 5];
    file.handle().read_at(&mut buffer, 0).unwrap();
    assert!(buffer == bytes(0, buffer.len()));
    until("it is verified", || file.backing().is_some());
}

#[test]
fn files_that_do_not_fit_are_reported_and_not_fetched() {
    for (count, size, cache_size, least) in
        [(100, MIB as usize, 8 * MIB, 6), (200, 1 << 10, 40 << 10, 3), (60, BLOCK_LEN + 1, 2 * MIB, 6)]
    {
        let subject = Subject::start(Backend::ServeS3);
        let cache = scratch();
        let hydrator = engine(&subject, &cache, cache_size);
        let names = place_objects(&subject, "f", count, size);
        let before = received_bytes(&subject);
        let progress = hydrate(&hydrator, &subject, &names);
        let fetched = received_bytes(&subject) - before;
        let here = hydrated(&hydrator, &subject, &names);
        assert!(progress.files_done >= least, "{size}: {} done", progress.files_done);
        assert_eq!(progress.files_done + progress.failed.len() as u64, count, "{size}");
        assert!(progress.failed.iter().all(|failure| matches!(failure.error, Error::NoRoom { .. })));
        assert_eq!(here, progress.files_done, "what the job says is done is here ({size})");
        // Each file costs one request, whose response has a head of less than 1,500 bytes.
        let heads = 1500 * count;
        assert!(fetched <= progress.files_done * size as u64 + heads, "{size}: {fetched} bytes on the wire");
        // In a second job the cached files stay in the cache, and no other file replaces them.
        let before = received_bytes(&subject);
        let again = hydrate(&hydrator, &subject, &names[..here as usize]);
        assert_eq!((again.files_done, again.fetched), (here, 0), "{size}");
        assert!(received_bytes(&subject) - before <= heads);
    }
}

#[test]
fn a_job_evicts_files_used_before_it() {
    let subject = Subject::start(Backend::ServeS3);
    let cache = scratch();
    let hydrator = engine(&subject, &cache, 4 * MIB);
    let (first, second) =
        (place_objects(&subject, "a", 3, MIB as usize), place_objects(&subject, "b", 3, MIB as usize));
    for names in [&first, &second, &first] {
        let progress = hydrate(&hydrator, &subject, names);
        assert_eq!((progress.files_done, progress.failed.len()), (3, 0), "{progress:?}");
        assert_eq!(hydrated(&hydrator, &subject, names), 3);
    }
}

#[test]
fn a_file_larger_than_the_cache_is_refused_before_its_first_byte() {
    let subject = Subject::start(Backend::ServeS3);
    let cache = scratch();
    let hydrator = engine(&subject, &cache, 4 * MIB);
    let small = place_objects(&subject, "small", 1, MIB as usize);
    let large = place_objects(&subject, "large", 1, 40 * MIB as usize);
    assert_eq!(hydrate(&hydrator, &subject, &small).files_done, 1);
    let before = received_bytes(&subject);
    let progress = hydrate(&hydrator, &subject, &large);
    assert!(matches!(&progress.failed[0].error, Error::NoRoom { .. }), "{progress:?}");
    assert!(
        received_bytes(&subject) - before < 10_000,
        "{} bytes on the wire",
        received_bytes(&subject) - before
    );
    assert_eq!(hydrated(&hydrator, &subject, &small), 1, "nothing had to go for it");
}

#[test]
fn one_reader_of_a_file_larger_than_the_cache_fetches_each_byte_once() {
    let subject = Subject::start(Backend::ServeS3);
    let cache = scratch();
    let hydrator = engine(&subject, &cache, 4 * MIB);
    let names = place_objects(&subject, "large", 1, 40 * MIB as usize);
    let content = bytes(0, 40 * MIB as usize);
    let file = hydrator.open(&subject.at(&names[0])).unwrap();
    let handle = file.handle();
    let before = received_bytes(&subject);
    let mut buffer = vec![0; 100_000];
    for (index, expected) in content.chunks(buffer.len()).enumerate() {
        let read = handle.read_at(&mut buffer, (index * expected.len().max(100_000)) as u64).unwrap();
        assert!(buffer[..read] == *expected);
    }
    let fetched = received_bytes(&subject) - before;
    assert!(fetched <= 44 * MIB, "{fetched} bytes on the wire");
}

#[test]
fn two_processes_that_share_a_small_cache_both_end() {
    let subject = Subject::start(Backend::ServeS3);
    let cache = scratch();
    let names =
        [place_objects(&subject, "a", 40, MIB as usize), place_objects(&subject, "b", 40, MIB as usize)];
    // Each engine opens its own instance of the cache on the same directory, like a separate
    // process.
    let engines = [engine(&subject, &cache, 8 * MIB), engine(&subject, &cache, 8 * MIB)];
    let before = received_bytes(&subject);
    let done: u64 = std::thread::scope(|scope| {
        let run = |index: usize| {
            let (engine, names, subject) = (&engines[index], &names[index], &subject);
            scope.spawn(move || hydrate(engine, subject, names).files_done)
        };
        let (one, other) = (run(0), run(1));
        one.join().unwrap() + other.join().unwrap()
    });
    let fetched = received_bytes(&subject) - before;
    assert!(done >= 3, "{done} done");
    assert!(fetched <= 24 * MIB, "{fetched} bytes on the wire for {done} files");
}

#[test]
fn a_job_whose_files_are_released_meanwhile_ends() {
    let subject = Subject::start(Backend::ServeS3);
    let cache = scratch();
    let hydrator = engine(&subject, &cache, 64 * MIB);
    let names = place_objects(&subject, "f", 1, 16 * MIB as usize);
    let file = hydrator.open(&subject.at(&names[0])).unwrap();
    let job = hydrator.hydrate(wanted(&subject, &names), Some(16 * MIB)).unwrap();
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(20));
        hydrator.cache().unwrap().release(file.location()).unwrap();
    }
    let progress = job.wait(wait_limit());
    assert!(progress.is_over, "{progress:?}");
    assert!(progress.failed.iter().all(lost_to_a_release), "{progress:?}");
    assert!(progress.fetched <= 33 * MIB, "{progress:?}");
    let done = progress.files_done == 1 && progress.failed.is_empty();
    assert!(done == file.backing().is_some(), "{progress:?}");
}

/// Returns whether a file failed because it was released again and again although the cache had
/// room.
fn lost_to_a_release(failure: &HydrationFailure) -> bool {
    matches!(failure.error, Error::Released { .. })
}

#[test]
fn a_job_that_loses_its_files_to_releases_without_a_pause_does_not_say_that_there_is_no_room() {
    for (count, size) in [(1, 16 * MIB as usize), (200, 10_000)] {
        let subject = Subject::start(Backend::ServeS3);
        let cache = scratch();
        let hydrator = engine(&subject, &cache, 64 * MIB);
        let names = place_objects(&subject, "f", count, size);
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Relaxed) {
                    for name in &names {
                        hydrator.cache().unwrap().release(&subject.at(name)).unwrap();
                    }
                }
            });
            for _ in 0..3 {
                let job = hydrator.hydrate(wanted(&subject, &names), None).unwrap();
                let progress = job.wait(wait_limit());
                // The flag is set before the assertion, because the other thread must end even if
                // the assertion fails.
                let right = progress.is_over && progress.failed.iter().all(lost_to_a_release);
                ended.fetch_or(!right, Relaxed);
                assert!(right, "{size}: {progress:?}");
            }
            ended.store(true, Relaxed);
        });
    }
}

#[test]
fn a_cache_without_room_refuses_and_reads_continue() {
    let subject = Subject::start(Backend::ServeS3);
    let cache = scratch();
    let hydrator = engine(&subject, &cache, 0);
    let names = place_objects(&subject, "f", 5, 2 * BLOCK_LEN);
    let progress = hydrate(&hydrator, &subject, &names);
    assert_eq!((progress.files_done, progress.failed.len()), (0, 5));
    let mut buffer = vec![0; 2 * BLOCK_LEN];
    hydrator.open(&subject.at(&names[0])).unwrap().handle().read_at(&mut buffer, 0).unwrap();
    assert!(buffer == bytes(0, buffer.len()));
    let taken = Cache::open(cache.path(), CacheLimits { size: None, reserve: 0 }).unwrap().usage().used;
    assert_eq!(taken, Some(0));
}
