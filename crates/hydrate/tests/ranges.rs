//! Tests reads of many ranges, reads over several blocks, and hints: the bytes are right, and the
//! requests are few. The store counts requests and bytes, so no test depends on timing.

use std::time::Duration;

use firstbyte_hydrate::{BLOCK, Error, File, Handle, HydrationSettings, Hydrator, MOST_HINTED};
use firstbyte_location::ByteRange;
use firstbyte_store::Error as StoreError;
use firstbyte_testkit::{Backend, Subject, bytes, count, scratch, until};
use tempfile::TempDir;

const SEED: u64 = 12;
const BLOCK_LEN: usize = BLOCK as usize;
/// Length of a request before the server has been measured, bytes.
const REQUEST: u64 = 1 << 20;

struct Setting {
    content: Vec<u8>,
    subject: Subject,
    hydrator: Hydrator,
    file: File,
    _cache: TempDir,
}

/// Creates an object on a server. Returns two settings, one with a cache and one without.
fn settings_with_and_without_cache(len: usize) -> impl Iterator<Item = Setting> {
    [true, false].into_iter().map(move |cached| {
        let subject = Subject::start(Backend::ServeS3);
        let content = bytes(SEED, len);
        subject.place("data", &content);
        let cache = scratch();
        let dir = cached.then(|| cache.path().into());
        let settings = HydrationSettings { cache: dir, reserve: 0, ..HydrationSettings::default() };
        let hydrator = Hydrator::new(subject.store.clone(), settings).unwrap();
        let file = hydrator.open(&subject.at("data")).unwrap();
        Setting { content, subject, hydrator, file, _cache: cache }
    })
}

impl Setting {
    /// Runs an action. Returns the number of requests and of received bytes that it caused.
    fn cost(&self, of: impl FnOnce()) -> (u64, u64) {
        let before = self.subject.store.counters();
        of();
        let now = self.subject.store.counters();
        (now.requests - before.requests, now.received - before.received)
    }

    /// Reads ranges in one call, and compares each with the content.
    fn check(&self, handle: &Handle, ranges: &[(u64, usize)]) {
        let mut memory: Vec<Vec<u8>> = ranges.iter().map(|(_, length)| vec![0xa5; *length]).collect();
        let counts = read_ranges(handle, ranges, &mut memory).unwrap();
        for (((offset, length), buffer), count) in ranges.iter().zip(&memory).zip(counts) {
            let start = (*offset as usize).min(self.content.len());
            let end = start.saturating_add(*length).min(self.content.len());
            assert_eq!(count, end - start, "{offset} {length}");
            assert!(buffer[..count] == self.content[start..end], "{offset} {length}");
            assert!(buffer[count..].iter().all(|byte| *byte == 0xa5), "written past the end");
        }
    }
}

fn read_ranges(
    handle: &Handle,
    ranges: &[(u64, usize)],
    memory: &mut [Vec<u8>],
) -> Result<Vec<usize>, Error> {
    let buffers = memory.iter_mut().map(Vec::as_mut_slice);
    let mut wanted: Vec<(u64, &mut [u8])> = ranges.iter().map(|(offset, _)| *offset).zip(buffers).collect();
    handle.read_ranges_while(&mut wanted, Duration::MAX, &mut || true)
}

/// A generator of pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn a_read_over_blocks_is_one_request_and_a_long_one_is_cut() {
    for setting in settings_with_and_without_cache(100 * BLOCK_LEN) {
        let handle = setting.file.handle();
        let crossing = setting.cost(|| setting.check(&handle, &[(3 * BLOCK - 10, 20)]));
        assert_eq!(crossing, (1, 2 * BLOCK), "two blocks");
        let mut buffer = vec![0; 3 * BLOCK_LEN];
        let at = 10 * BLOCK + 100;
        let several = setting.cost(|| assert_eq!(handle.read_at(&mut buffer, at).unwrap(), 3 * BLOCK_LEN));
        assert!(buffer == setting.content[at as usize..][..buffer.len()]);
        assert_eq!(several, (1, 4 * BLOCK));
        drop(handle);
        // A request has between a quarter of a MiB and 4 MiB, and 72 blocks are 9 MiB.
        let long = setting.cost(|| setting.check(&setting.file.handle(), &[(20 * BLOCK, 72 * BLOCK_LEN)]));
        assert_eq!(long.1, 72 * BLOCK);
        assert!((3..=36).contains(&long.0), "{long:?}");
    }
}

#[test]
fn a_caller_that_reads_in_pieces_says_how_much_it_wants() {
    for setting in settings_with_and_without_cache(20 * BLOCK_LEN) {
        let handle = setting.file.handle();
        let mut buffer = vec![0; BLOCK_LEN];
        for at in [BLOCK, 2 * BLOCK] {
            let read = handle.read_at_while(&mut buffer, at, 2 * BLOCK_LEN, Duration::MAX, &mut || true);
            assert_eq!(read.unwrap(), BLOCK_LEN);
            assert!(buffer == setting.content[at as usize..][..BLOCK_LEN]);
            let counters = setting.hydrator.counters();
            // The first read must start no request ahead. The second read may start one, on which
            // no reader waits.
            let ahead = if at == BLOCK { counters.ahead_fetches } else { 0 };
            assert!(counters.demand_fetches + ahead <= at / BLOCK, "both blocks at once: {counters:?}");
        }
    }
}

#[test]
fn neighbours_share_requests_and_distant_ranges_have_their_own() {
    for setting in settings_with_and_without_cache(100 * BLOCK_LEN) {
        let handle = setting.file.handle();
        let near: Vec<(u64, usize)> = (0..8).map(|block| (block * BLOCK + 7, 100)).collect();
        assert_eq!(setting.cost(|| setting.check(&handle, &near)), (1, REQUEST));
        let far = [(90 * BLOCK, 10), (20 * BLOCK, 10), (60 * BLOCK, 10)];
        assert_eq!(setting.cost(|| setting.check(&handle, &far)), (3, 3 * BLOCK));
    }
    for setting in settings_with_and_without_cache(20 * BLOCK_LEN) {
        // Fetching the block between the two ranges costs less than another request.
        let cost = setting.cost(|| setting.check(&setting.file.handle(), &[(0, 10), (2 * BLOCK, 10)]));
        assert_eq!(cost, (1, 3 * BLOCK));
    }
}

#[test]
fn a_random_reader_without_a_cache_requests_its_bytes_alone() {
    const LEN: usize = 70_000;
    for setting in settings_with_and_without_cache(200 * BLOCK_LEN) {
        let handle = setting.file.handle();
        let read = |number: u64| {
            let at = (number * 37 % 50) * 4 * BLOCK + 100_001;
            let mut buffer = vec![0; LEN];
            let cost = setting.cost(|| assert_eq!(handle.read_at(&mut buffer, at).unwrap(), LEN));
            assert!(buffer == setting.content[at as usize..][..LEN], "{number}");
            cost
        };
        let has_cache = setting.file.status().is_some();
        // Each read spans two blocks. The first eight reads may fetch both blocks whole: until
        // then, a read of a neighbouring block may still follow.
        assert_eq!((0..8).map(read).max(), Some((1, 2 * BLOCK)));
        let expected = if has_cache { 2 * BLOCK } else { LEN as u64 };
        assert!((8..20).map(read).all(|cost| cost == (1, expected)));
        // After a read of an adjacent block, whole blocks are useful again.
        let mut next = vec![0; BLOCK_LEN / 2];
        let at = (19 * 37 % 50) * 4 * BLOCK + 100_001 + LEN as u64;
        assert_eq!(handle.read_at(&mut next, at).unwrap(), next.len());
        assert!(next == setting.content[at as usize..][..next.len()]);
        drop(handle);
    }
}

#[test]
fn random_readers_of_the_same_blocks_all_get_their_bytes() {
    let reads = count("FIRSTBYTE_READS", 2400) / 4;
    for setting in settings_with_and_without_cache(24 * BLOCK_LEN + 999) {
        let handle = setting.file.handle();
        let size = setting.content.len() as u64;
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let (setting, handle) = (&setting, &handle);
                scope.spawn(move || {
                    let mut random = Random(seed);
                    for _ in 0..reads {
                        let mut buffer = vec![0; BLOCK_LEN / 2 + random.below(3 * BLOCK) as usize];
                        let at = random.below(size);
                        let read = handle.read_at(&mut buffer, at).unwrap();
                        assert_eq!(read, buffer.len().min((size - at) as usize));
                        assert!(buffer[..read] == setting.content[at as usize..][..read], "{at} {read}");
                    }
                });
            }
        });
    }
}

#[test]
fn odd_ranges_are_read_as_far_as_there_are_bytes() {
    for setting in settings_with_and_without_cache(5 * BLOCK_LEN + 77) {
        let size = setting.content.len() as u64;
        let handle = setting.file.handle();
        setting.check(&handle, &[]);
        setting.check(&handle, &[(0, 0), (size, 10), (u64::MAX, 10), (u64::MAX - 1, 0)]);
        setting.check(&handle, &[(size - 5, 100), (size - 1, 1), (0, 2 * size as usize)]);
        setting.check(&handle, &[(100, 300_000), (50, 100), (100, 300_000), (200_000, 1), (0, 1)]);
    }
}

#[test]
fn very_many_ranges_take_few_requests() {
    for setting in settings_with_and_without_cache(256 * BLOCK_LEN) {
        let mut random = Random(1);
        let size = setting.content.len() as u64;
        let ranges: Vec<(u64, usize)> =
            (0..100_000).map(|_| (random.below(size), random.below(200) as usize)).collect();
        let (requests, received) = setting.cost(|| setting.check(&setting.file.handle(), &ranges));
        assert!(requests <= size / (REQUEST / 4), "{requests}");
        assert_eq!(received, size);
    }
}

#[test]
fn random_ranges_agree_with_the_content() {
    let reads = count("FIRSTBYTE_READS", 2400);
    for setting in settings_with_and_without_cache(64 * BLOCK_LEN + 999) {
        let size = setting.content.len() as u64;
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let setting = &setting;
                scope.spawn(move || {
                    let mut random = Random(seed);
                    for turn in 0..reads / 8 {
                        let handle = setting.file.handle();
                        let longest = 1 << random.below(20);
                        let ranges: Vec<(u64, usize)> = (0..random.below(20))
                            .map(|_| (random.below(size + 100), random.below(longest) as usize))
                            .collect();
                        if turn % 3 == 0 {
                            let hinted: Vec<ByteRange> =
                                ranges.iter().map(|(at, len)| ByteRange::at(*at, *len as u64)).collect();
                            handle.prefetch(&hinted);
                        }
                        setting.check(&handle, &ranges);
                        if turn % 50 == 49
                            && let Some(cache) = setting.hydrator.cache()
                        {
                            cache.release(setting.file.location()).unwrap();
                        }
                    }
                });
            }
        });
    }
}

#[test]
fn an_object_that_changes_between_two_ranges_is_stale() {
    for setting in settings_with_and_without_cache(64 * BLOCK_LEN) {
        let handle = setting.file.handle();
        setting.check(&handle, &[(0, 100), (20 * BLOCK, 100)]);
        setting.subject.place("data", &bytes(SEED + 1, setting.content.len()));
        let ranges = [(0, 100), (40 * BLOCK, 100)];
        let mut memory = vec![vec![0; 100]; 2];
        let error = read_ranges(&handle, &ranges, &mut memory).unwrap_err();
        assert!(matches!(error, Error::Changed { .. }), "{error}");
    }
}

#[test]
fn a_cancelled_read_ends_and_leaves_the_memory_to_its_owner() {
    for setting in settings_with_and_without_cache(64 * BLOCK_LEN) {
        let handle = setting.file.handle();
        let mut memory = vec![0; setting.content.len()];
        let mut wanted = [(0, memory.as_mut_slice())];
        let cancelled = handle.read_ranges_while(&mut wanted, Duration::ZERO, &mut || false);
        // The read may have ended before `go_on` was called.
        if let Err(error) = cancelled {
            assert!(
                matches!(&error, Error::Store(cause) if matches!(**cause, StoreError::Cancelled)),
                "{error}"
            );
        }
        memory.fill(7);
        setting.check(&handle, &[(0, setting.content.len())]);
        assert!(memory.iter().all(|byte| *byte == 7));
    }
}

#[test]
fn a_hint_fetches_ranges_before_they_are_read() {
    for setting in settings_with_and_without_cache(200 * BLOCK_LEN) {
        let handle = setting.file.handle();
        let hinted = [ByteRange::at(150 * BLOCK, 10), ByteRange::at(7 * BLOCK - 5, 10), ByteRange::at(5, 0)];
        handle.prefetch(&hinted);
        until("the hinted blocks", || setting.hydrator.counters().ahead_bytes >= 3 * BLOCK);
        let cost = setting.cost(|| setting.check(&handle, &[(150 * BLOCK, 10), (7 * BLOCK - 5, 10)]));
        assert_eq!(cost, (0, 0));
    }
}

#[test]
fn a_hint_of_very_many_ranges_queues_few_requests() {
    for setting in settings_with_and_without_cache(1 << 20) {
        // The hinted bytes do not exist: the version claims this length, but there is no such
        // object.
        let mut version = setting.file.version().clone();
        version.size = Some(1 << 40);
        let file = setting.hydrator.file(&setting.subject.at("none"), version);
        let handle = file.handle();
        let hinted: Vec<ByteRange> = (0..100_000).map(|index| ByteRange::at(index << 23, 100)).collect();
        handle.prefetch(&hinted);
        drop(handle);
        assert!(setting.hydrator.counters().ahead_fetches <= MOST_HINTED);
    }
}
