//! Tests hydration in the background: no block is fetched twice, and readers take precedence.

use std::path::Path;
use std::time::{Duration, Instant};

use firstbyte_hydrate::cache::{Cache, CacheLimits, Exempt, FillOutcome, VersionState};
use firstbyte_hydrate::wanted::{below, one};
use firstbyte_hydrate::{
    BLOCK, Error, HydrationFailure, HydrationItem, HydrationList, HydrationProgress, HydrationSettings,
    Hydrator,
};
use firstbyte_location::{ByteRange, Location};
use firstbyte_store::{Store, StoreOptions};
use firstbyte_testkit::{Backend, Scripted, ScriptedReply, Subject, bytes, scratch, wait_limit};
use tempfile::TempDir;

const BLOCK_LEN: usize = BLOCK as usize;

fn engine(subject: &Subject, settings: HydrationSettings) -> (Hydrator, TempDir) {
    let cache = scratch();
    let settings = HydrationSettings { cache: Some(cache.path().into()), reserve: 0, ..settings };
    (Hydrator::new(subject.store.clone(), settings).unwrap(), cache)
}

fn wanted(location: Location) -> HydrationItem {
    HydrationItem { location, version: None, range: None }
}

fn list(wanted: Vec<HydrationItem>) -> HydrationList {
    Box::new(wanted.into_iter().map(Ok))
}

fn finish(job: &firstbyte_hydrate::HydrationJob) -> HydrationProgress {
    let progress = job.wait(wait_limit());
    assert!(progress.is_over, "{progress:?}");
    progress
}

#[test]
fn files_are_fetched_whole_and_verified_and_a_missing_one_is_reported() {
    for of in [Backend::ServeS3, Backend::ServeHttp, Backend::Local] {
        let subject = Subject::start(of);
        let (hydrator, _cache) = engine(&subject, HydrationSettings::default());
        let sizes = [0, 1, BLOCK_LEN, 70 * BLOCK_LEN + 3, 100 * BLOCK_LEN];
        let contents: Vec<_> = (0..).zip(sizes).map(|(seed, size)| bytes(seed, size)).collect();
        let mut files = vec![wanted(subject.at("missing"))];
        for (index, content) in contents.iter().enumerate() {
            subject.place(&format!("f{index}"), content);
            files.push(wanted(subject.at(&format!("f{index}"))));
        }
        let progress = finish(&hydrator.hydrate(list(files), None).unwrap());
        assert_eq!((progress.files, progress.files_done), (6, 5), "{of:?} {progress:?}");
        assert!(
            matches!(&progress.failed[..], [HydrationFailure { location, .. }] if *location == subject.at("missing"))
        );
        let total: usize = sizes.iter().sum();
        assert_eq!(
            (progress.bytes, progress.bytes_here, progress.fetched),
            (total as u64, total as u64, total as u64)
        );
        let received = subject.store.counters().received;
        for (index, content) in contents.iter().enumerate() {
            let file = hydrator.open(&subject.at(&format!("f{index}"))).unwrap();
            let mut buffer = vec![0; content.len()];
            assert_eq!(file.handle().read_at(&mut buffer, 0).unwrap(), content.len());
            assert!(buffer == *content);
            assert_eq!(file.status().unwrap().state, VersionState::Hydrated, "{of:?} {index}");
            let is_packed = content.len() <= BLOCK_LEN;
            assert!(file.is_complete() && file.backing().is_some() != is_packed);
        }
        assert_eq!(subject.store.counters().received, received);
    }
}

#[test]
fn cached_blocks_are_not_fetched_again_and_ranges_fetch_only_their_blocks() {
    let subject = Subject::start(Backend::ServeS3);
    let (hydrator, _cache) = engine(&subject, HydrationSettings::default());
    subject.place("data", &bytes(1, 64 * BLOCK_LEN));
    let file = hydrator.open(&subject.at("data")).unwrap();
    file.handle().read_at(&mut [0; 10], 5 * BLOCK).unwrap();
    let range = Some(ByteRange::new(4 * BLOCK + 7, 9 * BLOCK + 7));
    let part = finish(
        &hydrator.hydrate(list(vec![HydrationItem { range, ..wanted(subject.at("data")) }]), None).unwrap(),
    );
    assert_eq!((part.bytes, part.bytes_here, part.fetched), (6 * BLOCK, 6 * BLOCK, 5 * BLOCK));
    assert_eq!(file.status().unwrap().here, 6 * BLOCK);
    let ranges = [20, 30].map(|block| HydrationItem {
        range: Some(ByteRange::new(block * BLOCK, (block + 1) * BLOCK)),
        ..wanted(subject.at("data"))
    });
    let two = finish(&hydrator.hydrate(list(ranges.into()), None).unwrap());
    assert_eq!((two.files, two.files_done, two.fetched), (1, 1, 2 * BLOCK), "ranges of one object");
    let all = finish(&hydrator.hydrate(list(vec![wanted(subject.at("data"))]), None).unwrap());
    assert_eq!((all.bytes, all.bytes_here, all.fetched), (64 * BLOCK, 64 * BLOCK, 56 * BLOCK));
}

#[test]
fn readers_do_not_wait_for_a_job_and_cancelling_it_keeps_cached_blocks() {
    let subject = Subject::start(Backend::ServeS3);
    // At this rate, the job would take minutes.
    let (hydrator, _cache) = engine(
        &subject,
        HydrationSettings { background_rate: Some(1 << 20), ..HydrationSettings::default() },
    );
    let content = bytes(2, 1024 * BLOCK_LEN);
    subject.place("data", &content);
    let file = hydrator.open(&subject.at("data")).unwrap();
    let job = hydrator.hydrate(list(vec![wanted(subject.at("data"))]), None).unwrap();
    let handle = file.handle();
    for turn in 0..200_u64 {
        let at = turn * 37 % 1024 * BLOCK;
        let mut buffer = [0; 4096];
        handle.read_at(&mut buffer, at).unwrap();
        assert!(buffer[..] == content[at as usize..][..4096]);
    }
    assert!(!job.progress().is_over);
    job.cancel();
    let progress = finish(&job);
    assert!(progress.files_done == 0 && progress.failed.is_empty());
    let here = file.status().unwrap().here;
    assert!(here >= 200 * BLOCK && here < content.len() as u64);
    let received = subject.store.counters().received;
    let (whole, _) = (hydrator.open(&subject.at("data")).unwrap(), job);
    let mut buffer = vec![0; content.len()];
    whole.handle().read_at(&mut buffer, 0).unwrap();
    assert!(buffer == content);
    assert!(subject.store.counters().received - received <= content.len() as u64 - here + 64 * BLOCK);
}

#[test]
fn a_limited_job_knows_its_totals_long_before_its_end() {
    let subject = Subject::start(Backend::ServeS3);
    let settings = HydrationSettings { background_rate: Some(1 << 20), ..HydrationSettings::default() };
    let (hydrator, _cache) = engine(&subject, settings);
    // At this rate, the job would take minutes.
    for number in 0..300 {
        subject.place(&format!("d/f{number:03}"), &bytes(number, 4 * BLOCK_LEN));
    }
    let job = hydrator.hydrate(below(&subject.store, &subject.at("d")), None).unwrap();
    let until = Instant::now() + wait_limit();
    let counted = loop {
        let progress = job.wait_for_more(Duration::from_millis(20));
        assert!(!progress.is_over && Instant::now() < until, "{progress:?}");
        if progress.totals_are_final {
            break progress;
        }
    };
    assert_eq!((counted.files, counted.bytes), (300, 1200 * BLOCK));
    assert!(counted.files_done < 200, "{counted:?}");
    job.cancel();
    finish(&job);
}

#[test]
fn a_reader_in_order_waits_for_what_a_job_brings() {
    for is_replayed in [false, true] {
        let subject = Subject::start(Backend::ServeS3);
        let (hydrator, _cache) = engine(&subject, HydrationSettings::default());
        let content = bytes(4, 512 * BLOCK_LEN);
        subject.place("data", &content);
        let file = hydrator.open(&subject.at("data")).unwrap();
        let handle = file.handle();
        let list = list(vec![wanted(subject.at("data"))]);
        let job = if is_replayed { hydrator.replay(list) } else { hydrator.hydrate(list, None) }.unwrap();
        let mut buffer = vec![0; BLOCK_LEN];
        for (at, want) in (0..).step_by(BLOCK_LEN).zip(content.chunks(BLOCK_LEN)) {
            handle.read_at(&mut buffer, at).unwrap();
            assert!(buffer == want);
        }
        finish(&job);
        let counters = hydrator.counters();
        assert!(counters.demand_fetches < 64, "{is_replayed} {counters:?}");
        let fetched = counters.demand_bytes + counters.ahead_bytes + counters.background_bytes;
        assert!(fetched < content.len() as u64 + 64 * BLOCK, "{is_replayed} {counters:?}");
    }
}

#[test]
fn without_room_hydration_fails() {
    let subject = Subject::start(Backend::ServeS3);
    subject.place("data", &bytes(3, 64 * BLOCK_LEN));
    let (hydrator, _cache) =
        engine(&subject, HydrationSettings { cache_size: Some(8 * BLOCK), ..HydrationSettings::default() });
    let progress = finish(&hydrator.hydrate(list(vec![wanted(subject.at("data"))]), None).unwrap());
    assert!(
        matches!(&progress.failed[..], [HydrationFailure { error: Error::NoRoom { .. }, .. }]),
        "{progress:?}"
    );
}

#[test]
fn an_object_without_length_or_version_fails_for_that_reason() {
    for (headers, is_expected) in [
        (&["etag: \"a\""][..], (|error| matches!(error, Error::NoLength { .. })) as fn(&Error) -> bool),
        (&[], |error| matches!(error, Error::NoLength { .. })),
        (&["content-length: 5"], |error| matches!(error, Error::Unversioned { .. })),
    ] {
        let lines = headers.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let origin = Scripted::start(move |_, head| {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let is_head = head.starts_with("HEAD");
            match lines.iter().any(|line| line.starts_with("content-length")) {
                true => ScriptedReply::raw("200 OK", &lines, if is_head { b"" } else { b"hello" }),
                false => {
                    let body: &[u8] = if is_head { b"" } else { b"5\r\nhello\r\n0\r\n\r\n" };
                    let lines = [&lines[..], &["transfer-encoding: chunked"]].concat();
                    ScriptedReply::raw("200 OK", &lines, body)
                }
            }
        });
        let cache = scratch();
        let settings = HydrationSettings {
            cache: Some(cache.path().into()),
            reserve: 0,
            ..HydrationSettings::default()
        };
        let store = Store::new(StoreOptions::default()).unwrap();
        let hydrator = Hydrator::new(store.clone(), settings).unwrap();
        let location = Location::parse(format!("{}/x", origin.url()).as_ref()).unwrap();
        let list = Box::new(std::iter::once(one(&store, &location)));
        let progress = finish(&hydrator.hydrate(list, None).unwrap());
        assert!(
            matches!(&progress.failed[..], [HydrationFailure { error, .. }] if is_expected(error)),
            "{headers:?} {progress:?}"
        );
    }
}

#[test]
fn a_panic_of_the_jobs_thread_ends_the_job_with_an_error() {
    let subject = Subject::start(Backend::ServeS3);
    let (hydrator, _cache) = engine(&subject, HydrationSettings::default());
    subject.place("data", &bytes(1, BLOCK_LEN));
    let mut items = vec![wanted(subject.at("data"))].into_iter();
    let list = Box::new(std::iter::from_fn(move || Some(Ok(items.next().expect("a panic of the test")))));
    let progress = finish(&hydrator.hydrate(list, None).unwrap());
    assert!(
        matches!(&progress.failed[..], [HydrationFailure { location, error: Error::Panicked { .. } }] if *location == subject.at("data")),
        "{progress:?}"
    );
}

/// Fills the cache with `content`, as if that were the content of the object at `location`.
fn fill_cache(subject: &Subject, location: &Location, cache: &Path, content: &[u8]) {
    let cache = Cache::open(cache, CacheLimits { size: None, reserve: 0 }).unwrap();
    let cache = cache.of_store(&subject.store.service_of(location));
    let version = subject.store.stat(location).unwrap().version;
    let cached = cache.version(location, &version, None).unwrap();
    for (index, block) in (0..).zip(content.chunks(BLOCK_LEN)) {
        assert_eq!(cached.fill(index, block, Exempt::Pinned), FillOutcome::Kept);
    }
}

#[test]
fn a_job_without_blocks_to_fetch_verifies_the_file() {
    let subject = Subject::start(Backend::ServeS3);
    let (hydrator, cache) = engine(&subject, HydrationSettings::default());
    let content = bytes(1, 3 * BLOCK_LEN + 5);
    subject.place("x", &content);
    fill_cache(&subject, &subject.at("x"), cache.path(), &content);
    let progress = finish(&hydrator.hydrate(list(vec![wanted(subject.at("x"))]), None).unwrap());
    assert_eq!((progress.files_done, progress.fetched, progress.failed.len()), (1, 0, 0));
    let file = hydrator.open(&subject.at("x")).unwrap();
    assert_eq!(file.status().unwrap().state, VersionState::Hydrated);
}

#[test]
fn a_file_with_a_wrong_checksum_fails_the_job() {
    let subject = Subject::start(Backend::ServeS3);
    let (hydrator, cache) = engine(&subject, HydrationSettings::default());
    subject.place("x", &bytes(1, 3 * BLOCK_LEN));
    assert!(subject.store.stat(&subject.at("x")).unwrap().checksum.is_some());
    fill_cache(&subject, &subject.at("x"), cache.path(), &bytes(2, 3 * BLOCK_LEN));
    let progress = finish(&hydrator.hydrate(list(vec![wanted(subject.at("x"))]), None).unwrap());
    assert!(
        matches!(&progress.failed[..], [HydrationFailure { error: Error::Checksum(_), .. }]),
        "{progress:?}"
    );
}
