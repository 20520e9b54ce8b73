//! Tests the cache of small objects, which are packed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::*;
use crate::cache::packs::{RecordPlace, cost};

/// Returns the packed version of `s3://b/SEED`, whose bytes are determined by the seed.
fn small(cache: &Cache, seed: u64) -> Packed {
    cache.packed(&location(&format!("s3://b/{seed}")), &strong(size(seed), "a")).unwrap()
}

fn size(seed: u64) -> u64 {
    1 + seed * 977 % BLOCK
}

fn content(seed: u64) -> Vec<u8> {
    bytes(seed, usize::try_from(size(seed)).unwrap())
}

fn put(cache: &Cache, seed: u64) -> FillOutcome {
    small(cache, seed).fill(&content(seed), Exempt::Pinned)
}

/// Reads an object and asserts that its bytes are right. Returns whether the object is cached.
fn is_here(cache: &Cache, seed: u64) -> bool {
    let mut buffer = vec![0xEE; usize::try_from(size(seed)).unwrap() + 1];
    let read = small(cache, seed).read_at(&mut buffer, 0);
    assert!(read == 0 || buffer[..read] == content(seed), "object {seed}");
    read > 0
}

fn limited(dir: &Path, size: u64) -> Cache {
    Cache::open(dir, CacheLimits { size: Some(size), reserve: 0 }).unwrap()
}

/// Returns the files of packs or tables, by their suffix.
fn files(dir: &Path, suffix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.join("packs")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.to_str().unwrap().ends_with(suffix)).collect()
}

fn packs_on_disk(dir: &Path) -> u64 {
    let files = files(dir, ".pack").into_iter().chain(files(dir, ".table"));
    files.map(|path| fs::metadata(path).unwrap().blocks() * 512).sum()
}

/// Makes a closed directory look as if its last process had stopped in the way that `stop` says.
fn as_if(dir: &Path, stop: Stop) {
    let state = dir.join("packs/state");
    match stop {
        Stop::Clean => {}
        Stop::Kill => {
            as_if_killed(dir);
            wait_until_closed(&state);
            change_word(&state, 16, |_| 1);
        }
        Stop::PowerCut => {
            as_if_restarted(dir);
            wait_until_closed(&state);
            change_word(&state, 8, |boot| boot ^ 1);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Clean,
    Kill,
    PowerCut,
}

#[test]
fn an_object_is_read_as_it_was_put_by_every_instance_and_later() {
    let dir = scratch();
    let caches = [open_at(dir.path()), open_at(dir.path())];
    for seed in 0..40 {
        assert_eq!(put(&caches[(seed % 2) as usize], seed), FillOutcome::Kept);
        assert_eq!(put(&caches[0], seed), FillOutcome::Already);
    }
    assert!((0..40).all(|seed| caches.iter().all(|cache| is_here(cache, seed))));
    let mut part = [0; 100];
    assert_eq!(small(&caches[0], 7).read_at(&mut part, 1000), 100);
    assert!(part == content(7)[1000..1100]);
    assert_eq!(small(&caches[0], 7).read_at(&mut part, size(7) - 10), 10);
    assert_eq!(small(&caches[0], 7).read_at(&mut part, size(7)), 0);
    assert!(!is_here(&caches[0], 99));
    assert_eq!(end_with(dir.path(), ""), Vec::<PathBuf>::new(), "no object has files of its own");
    drop(caches);
    let cache = open_at(dir.path());
    assert!((0..40).all(|seed| is_here(&cache, seed)));
    assert_eq!(put(&cache, 50), FillOutcome::Kept);
    assert!(files(dir.path(), ".pack").len() <= 2, "packs are continued");
}

#[test]
fn only_small_objects_with_a_version_for_sure_are_packed() {
    let dir = scratch();
    let cache = open_at(dir.path());
    let packed = |version: &Version| cache.packed(&location("s3://b/k"), version).is_some();
    assert!(packed(&strong(0, "a")) && packed(&strong(1, "a")) && packed(&strong(BLOCK, "a")));
    assert!(!packed(&strong(BLOCK + 1, "a")));
    assert!(!packed(&Version { size: Some(5), last_modified: Some("Mon".into()), ..Version::default() }));
}

#[test]
fn status_release_and_pins_are_those_of_any_version() {
    let dir = scratch();
    let cache = open_at(dir.path());
    (0..10).for_each(|seed| assert_eq!(put(&cache, seed), FillOutcome::Kept));
    let other = cache.packed(&location("s3://b/3"), &strong(5, "b")).unwrap();
    assert_eq!(other.fill(b"other", Exempt::Pinned), FillOutcome::Kept);
    let found = cache.find(&location("s3://b/3")).unwrap();
    let mut sizes: Vec<_> = found.iter().map(|status| (status.size, status.here, status.state)).collect();
    sizes.sort_by_key(|found| found.0);
    assert_eq!(sizes, [(5, 5, VersionState::Hydrated), (size(3), size(3), VersionState::Hydrated)]);
    assert_eq!(cache.statuses().map(Result::unwrap).count(), 11);
    small(&cache, 4).pin(Pin::Pinned);
    assert_eq!(small(&cache, 4).status().unwrap().pin, Pin::Pinned);
    let released = cache.release(&location("s3://b/3")).unwrap();
    assert_eq!((released.versions, released.busy), (2, 0));
    assert!(!is_here(&cache, 3) && cache.find(&location("s3://b/3")).unwrap().is_empty());
    let released = cache.release_version(&location("s3://b/4"), &strong(size(4), "a")).unwrap();
    assert_eq!(released.versions, 1);
    assert_eq!(put(&cache, 4), FillOutcome::Kept);
    assert_eq!(small(&cache, 4).status().unwrap().pin, Pin::Unpinned, "the pin went with the release");
}

#[test]
fn an_object_is_complete_if_it_matches_the_checksum_of_the_store() {
    let dir = scratch();
    let cache = open_at(dir.path());
    let object = small(&cache, 1);
    assert_eq!(object.verify_complete().unwrap(), VersionVerification::Missing);
    object.set_checksum(Hasher::of(Algorithm::Sha256, &content(1)));
    assert_eq!(object.fill(&content(1), Exempt::Pinned), FillOutcome::Kept);
    assert!(object.is_complete(), "compared as it was put");
    let object = small(&cache, 2);
    assert_eq!(object.fill(&content(2), Exempt::Pinned), FillOutcome::Kept);
    assert!(!object.is_complete());
    assert_eq!(object.verify_complete().unwrap(), VersionVerification::Complete);
    assert!(small(&open_at(dir.path()), 2).is_complete());
    let object = small(&cache, 3);
    object.set_checksum(Hasher::of(Algorithm::Crc64Nvme, b"other"));
    assert_eq!(object.fill(&content(3), Exempt::Pinned), FillOutcome::Kept);
    assert!(!object.is_complete());
    let error = object.verify_complete().unwrap_err().to_string();
    assert!(error.starts_with("s3://b/3: CRC64NVME mismatch"), "{error}");
    assert!(!is_here(&cache, 3));
}

#[test]
fn a_pack_that_cannot_be_opened_keeps_its_records() {
    let dir = scratch();
    put(&limited(dir.path(), 1 << 30), 1);
    // A file with a second name is refused. So opening the pack fails, as it would without a free
    // descriptor.
    let second = dir.path().join("second");
    std::fs::hard_link(&files(dir.path(), ".pack")[0], &second).unwrap();
    let cache = limited(dir.path(), 1 << 30);
    assert!(!is_here(&cache, 1));
    assert_eq!(cache.verify().unwrap(), VerificationReport::default());
    std::fs::remove_file(second).unwrap();
    assert!(is_here(&cache, 1));
}

#[test]
fn a_damaged_record_is_found_dropped_and_put_again() {
    let dir = scratch();
    let cache = open_at(dir.path());
    (0..5).for_each(|seed| assert_eq!(put(&cache, seed), FillOutcome::Kept));
    let pack = File::options().read(true).write(true).open(&files(dir.path(), ".pack")[0]).unwrap();
    // The damage is in the content of the second record and in the header of the third.
    let second = cost(small(&cache, 0).record_length());
    let third = second + cost(small(&cache, 1).record_length());
    pack.write_all_at(b"damage", second + 900).unwrap();
    pack.write_all_at(b"damage", third + 2).unwrap();
    let used = exact_count(&cache);
    assert!(!is_here(&cache, 1) && !small(&cache, 1).is_present());
    assert_eq!(cache.verify().unwrap(), VerificationReport { versions: 4, corrupt: 0, blocks: 3, wrong: 1 });
    assert!(exact_count(&cache) < used);
    assert_eq!((put(&cache, 1), put(&cache, 2)), (FillOutcome::Kept, FillOutcome::Kept));
    assert!((0..5).all(|seed| is_here(&cache, seed)));
    assert_eq!(cache.verify().unwrap(), VerificationReport { versions: 5, corrupt: 0, blocks: 5, wrong: 0 });
}

#[test]
fn without_its_table_or_state_the_cache_starts_over() {
    let dir = scratch();
    for lost in [".table", "state", ".pack"] {
        let cache = open_at(dir.path());
        (0..20).for_each(|seed| _ = put(&cache, seed));
        drop(cache);
        wait_until_all_closed(dir.path());
        wait_until_closed(&dir.path().join("packs/state"));
        files(dir.path(), lost).iter().for_each(|path| fs::remove_file(path).unwrap());
        let cache = open_at(dir.path());
        assert!((0..20).all(|seed| !is_here(&cache, seed)), "without {lost}");
        (0..20).for_each(|seed| assert_eq!(put(&cache, seed), FillOutcome::Kept));
        assert!((0..20).all(|seed| is_here(&cache, seed)));
        (0..20).for_each(|seed| _ = cache.release(&location(&format!("s3://b/{seed}"))).unwrap());
    }
}

#[test]
fn the_table_grows_under_writers_removers_and_readers() {
    let dir = scratch();
    let caches: Vec<_> = (0..2).map(|_| open_at(dir.path())).collect();
    let tiny = |cache: &Cache, seed: u64| {
        cache.packed(&location(&format!("s3://b/{seed}")), &strong(8, "a")).unwrap()
    };
    thread::scope(|scope| {
        for worker in 0..4_u64 {
            let cache = &caches[(worker % 2) as usize];
            scope.spawn(move || {
                for seed in (worker..4000).step_by(4) {
                    assert_eq!(
                        tiny(cache, seed).fill(&seed.to_ne_bytes(), Exempt::Pinned),
                        FillOutcome::Kept
                    );
                    // Every eighth object is removed again, more than once if the table was
                    // replaced in between.
                    while seed % 8 == 7 && tiny(cache, seed).is_present() {
                        cache.release(&location(&format!("s3://b/{seed}"))).unwrap();
                    }
                }
            });
        }
    });
    for seed in 0..4000_u64 {
        let mut found = [0; 8];
        let read = tiny(&caches[0], seed).read_at(&mut found, 0);
        assert_eq!((read, u64::from_ne_bytes(found)), if seed % 8 == 7 { (0, 0) } else { (8, seed) });
    }
    assert_eq!(files(dir.path(), ".table").len(), 1, "replaced tables are removed");
    assert_eq!(
        caches[0].verify().unwrap(),
        VerificationReport { versions: 3500, corrupt: 0, blocks: 3500, wrong: 0 }
    );
    assert_eq!(exact_count(&caches[1]), packs_on_disk(dir.path()));
}

#[test]
fn a_writer_waits_while_another_process_replaces_the_table() {
    let dir = scratch();
    let (cache, other) = (open_at(dir.path()), open_at(dir.path()));
    let replacing = other.shared.packs.as_ref().unwrap().begin_replacing();
    thread::scope(|scope| {
        // The writer needs the first table, so it waits.
        let writer = scope.spawn(|| put(&cache, 1));
        thread::sleep(Duration::from_millis(300));
        assert!(!writer.is_finished());
        drop(replacing);
        assert_eq!(writer.join().unwrap(), FillOutcome::Kept);
    });
}

#[test]
fn the_least_recently_used_are_evicted_first_and_pinned_ones_stay() {
    let dir = scratch();
    let limit = 4 << 20;
    let cache = limited(dir.path(), limit);
    let mut stored = 0;
    for seed in 1..300 {
        if put(&cache, seed) == FillOutcome::Kept {
            stored += 1;
        }
        if seed == 2 {
            small(&cache, 2).pin(Pin::Pinned);
        }
        small(&cache, 3).touch();
        let used = cache.usage().used.unwrap();
        assert!(packs_on_disk(dir.path()) <= used && used <= limit, "{used} counted");
    }
    assert_eq!(stored, 299);
    assert!(is_here(&cache, 2) && is_here(&cache, 3) && is_here(&cache, 299));
    assert!(!is_here(&cache, 1) && !is_here(&cache, 4));
}

#[test]
fn small_and_large_versions_make_room_for_each_other() {
    let dir = scratch();
    let limit = 40 * BLOCK;
    let cache = limited(dir.path(), limit);
    (0..60).for_each(|seed| assert_eq!(put(&cache, seed), FillOutcome::Kept));
    let large = seeded(&cache, 1000, 30 * BLOCK);
    fill_all(&large, 1000);
    assert_eq!(present(&large, 1000).len(), 30);
    drop(large);
    (100..160).for_each(|seed| assert_eq!(put(&cache, seed), FillOutcome::Kept));
    assert!(cache.usage().used.unwrap() <= limit);
    assert!((150..160).all(|seed| is_here(&cache, seed)));
}

#[test]
fn a_limit_too_small_for_a_table_caches_nothing_and_fails_nothing() {
    let dir = scratch();
    for size in [0, 4096, 12 << 10] {
        let cache = limited(dir.path(), size);
        assert_eq!(put(&cache, 1), FillOutcome::NoRoom);
        assert!(!is_here(&cache, 1) && cache.usage().used.unwrap() <= size);
    }
}

#[test]
fn one_fetch_at_a_time_has_the_lease() {
    let dir = scratch();
    let caches = [open_at(dir.path()), open_at(dir.path())];
    let lease = small(&caches[0], 1).lease().unwrap();
    assert!(small(&caches[0], 1).lease().is_none() && small(&caches[1], 1).lease().is_none());
    assert!(small(&caches[1], 2).lease().is_some());
    drop(lease);
    assert!(small(&caches[1], 1).lease().is_some());
}

/// Environment variable with the directory of a child process and its first object.
const PART: &str = "FIRSTBYTE_PACKS_TEST";

#[test]
fn one_process_puts_objects() {
    let Some(part) = std::env::var_os(PART) else { return };
    let part = part.into_string().unwrap();
    let (first, dir) = part.split_once(' ').unwrap();
    let cache = limited(Path::new(dir), 64 << 20);
    for seed in first.parse().unwrap().. {
        if put(&cache, seed) == FillOutcome::Kept {
            println!("put {seed} ");
        }
    }
}

#[test]
fn two_hundred_kills_leave_no_wrong_object_and_lose_no_finished_one() {
    let dir = scratch();
    let mut total = 0;
    for kill in 0..200_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "cache::tests::packs::one_process_puts_objects", "--nocapture"])
            .env(PART, format!("{} {}", kill * 100_000, dir.path().display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(|line| line.ok());
        let first = lines.find(|line| line.contains("put"));
        thread::sleep(Duration::from_micros(kill % 20 * 150));
        child.kill().unwrap();
        child.wait().unwrap();
        let number = |line: String| line.split("put ").nth(1)?.split(' ').next()?.parse().ok();
        let finished: Vec<u64> = first.into_iter().chain(lines).filter_map(number).collect();
        total += finished.len();
        let cache = limited(dir.path(), 64 << 20);
        assert_eq!(cache.verify().unwrap().wrong, 0, "after kill {kill}");
        let used = exact_count(&cache);
        // If the cache was full, some objects may have been evicted.
        let room = used < 50 << 20;
        assert!(finished.iter().all(|seed| is_here(&cache, *seed) || !room), "after kill {kill}");
        assert!(packs_on_disk(dir.path()) <= used && used <= 64 << 20, "{used} counted");
        if kill % 10 == 9 {
            let all: Vec<_> = cache.statuses().map(Result::unwrap).collect();
            all.iter()
                .for_each(|status| _ = cache.release_version(&status.location, &status.version).unwrap());
            let tables: u64 = files(dir.path(), ".table")
                .iter()
                .map(|path| fs::metadata(path).unwrap().blocks() * 512)
                .sum();
            assert_eq!(exact_count(&cache), tables, "kills leave nothing else counted");
        }
    }
    assert!(total >= 200, "each is killed at work, and {total} objects were put");
}

#[derive(Clone, Debug)]
enum Step {
    Put {
        instance: usize,
        object: u64,
    },
    Read {
        instance: usize,
        object: u64,
    },
    Pin {
        instance: usize,
        object: u64,
    },
    Release {
        instance: usize,
        object: u64,
    },
    /// All instances end in the way that `stop` says. A power cut loses the records of the objects
    /// `lost`.
    Reopen {
        stop: Stop,
        lost: Vec<u64>,
    },
}

const OBJECT_COUNT: u64 = 12;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = (0..2_usize, 0..OBJECT_COUNT);
    let stop = prop_oneof![Just(Stop::Clean), Just(Stop::Kill), Just(Stop::PowerCut)];
    let lost = prop::collection::vec(0..OBJECT_COUNT, 0..4);
    let step = prop_oneof![
        8 => at.clone().prop_map(|(instance, object)| Step::Put { instance, object }),
        4 => at.clone().prop_map(|(instance, object)| Step::Read { instance, object }),
        1 => at.clone().prop_map(|(instance, object)| Step::Pin { instance, object }),
        2 => at.prop_map(|(instance, object)| Step::Release { instance, object }),
        1 => (stop, lost).prop_map(|(stop, lost)| Step::Reopen { stop, lost }),
    ];
    prop::collection::vec(step, 1..60)
}

/// Two instances on one directory, and the objects that must be cached, with the places of their
/// records.
struct World {
    dir: tempfile::TempDir,
    caches: Vec<Cache>,
    here: BTreeMap<u64, RecordPlace>,
}

impl World {
    fn run(&mut self, step: Step) {
        match step {
            Step::Put { instance, object } => {
                let stored = put(&self.caches[instance], object);
                let known = self.here.contains_key(&object);
                assert_eq!(stored, if known { FillOutcome::Already } else { FillOutcome::Kept });
                let place = small(&self.caches[instance], object).slot().unwrap().place;
                assert_eq!(*self.here.entry(object).or_insert(place), place);
            }
            Step::Read { instance, object } => {
                assert_eq!(is_here(&self.caches[instance], object), self.here.contains_key(&object));
            }
            Step::Pin { instance, object } => small(&self.caches[instance], object).pin(Pin::Pinned),
            Step::Release { instance, object } => {
                let released = self.caches[instance].release(&location(&format!("s3://b/{object}"))).unwrap();
                assert_eq!(released.versions, u64::from(self.here.remove(&object).is_some()));
            }
            Step::Reopen { stop, lost } => {
                self.caches.clear();
                as_if(self.dir.path(), stop);
                for object in lost.iter().filter(|_| stop == Stop::PowerCut) {
                    let Some(place) = self.here.remove(object) else { continue };
                    let path = self.dir.path().join(format!("packs/{}.pack", place.pack()));
                    let pack = File::options().write(true).open(path).unwrap();
                    pack.write_all_at(&vec![0; place.bytes() as usize], place.offset()).unwrap();
                }
                self.caches = vec![open_at(self.dir.path()), open_at(self.dir.path())];
                // Lost objects are noticed only when they are read.
                for object in 0..OBJECT_COUNT {
                    assert_eq!(is_here(&self.caches[0], object), self.here.contains_key(&object));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_packs_hold_the_objects_of_the_model(steps in steps()) {
        let dir = scratch();
        let caches = vec![open_at(dir.path()), open_at(dir.path())];
        let mut world = World { dir, caches, here: BTreeMap::new() };
        for step in steps {
            world.run(step);
        }
        let cache = world.caches[0].clone();
        for object in 0..OBJECT_COUNT {
            prop_assert_eq!(is_here(&cache, object), world.here.contains_key(&object));
        }
        prop_assert_eq!(cache.verify().unwrap().wrong, 0);
        prop_assert!(exact_count(&cache) >= packs_on_disk(world.dir.path()));
    }
}
