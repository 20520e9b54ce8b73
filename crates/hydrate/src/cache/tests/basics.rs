//! Tests the cache with one process and one version.

use super::*;

#[test]
fn blocks_are_read_as_they_were_filled_and_the_gap_ends_a_read() {
    let dir = scratch();
    let cache = open_at(dir.path());
    let size = 3 * BLOCK + 100;
    let cached = seeded(&cache, 1, size);
    let whole = bytes(1, usize::try_from(size).unwrap());
    let mut buffer = vec![0; whole.len() + 10];
    assert_eq!(cached.read_at(&mut buffer, 0), 0);
    assert_eq!(fill(&cached, 1, 1), FillOutcome::Kept);
    assert_eq!(fill(&cached, 1, 3), FillOutcome::Kept);
    assert_eq!(fill(&cached, 1, 3), FillOutcome::Already);
    assert_eq!(cached.next_missing(0), Some(0));
    assert_eq!(cached.next_missing(1), Some(2));
    assert_eq!(cached.next_missing(3), None);
    let start = BLOCK + 5;
    assert_eq!(cached.read_at(&mut buffer, start), usize::try_from(BLOCK - 5).unwrap());
    assert_eq!(buffer[..100], whole[usize::try_from(start).unwrap()..][..100]);
    assert_eq!(fill(&cached, 1, 2), FillOutcome::Kept);
    assert_eq!(cached.read_at(&mut buffer, start), whole.len() - usize::try_from(start).unwrap());
    assert_eq!(cached.read_at(&mut buffer, size), 0);
    assert!(!cached.has_all_blocks());
    assert_eq!(cached.status().unwrap().state, VersionState::Partial);
    assert_eq!(cached.verify_complete().unwrap(), VersionVerification::Missing);
    assert_eq!(fill(&cached, 1, 0), FillOutcome::Kept);
    assert_eq!(cached.read_at(&mut buffer, 0), whole.len());
    assert!(buffer[..whole.len()] == whole);
}

#[test]
fn a_version_is_complete_if_it_matches_the_checksum_of_the_store() {
    let dir = scratch();
    let cache = open_at(dir.path());
    // The object is large enough to be synced.
    let size = 5 << 20;
    let whole = bytes(1, size);
    let cached = seeded(&cache, 1, size as u64);
    fill_all(&cached, 1);
    assert!(cached.has_all_blocks() && !cached.is_complete() && cached.backing().is_none());
    cached.set_checksum(Hasher::of(Algorithm::Sha256, &whole));
    assert_eq!(cached.verify_complete().unwrap(), VersionVerification::Complete);
    let mut read = vec![0; size];
    File::from(cached.backing().unwrap().as_fd().try_clone_to_owned().unwrap())
        .read_exact_at(&mut read, 0)
        .unwrap();
    assert!(read == whole);
    drop(cached);
    let status = cache.find(&location("s3://b/1")).unwrap();
    assert_eq!((status.len(), status[0].here, status[0].state), (1, size as u64, VersionState::Hydrated));

    let cached = seeded(&cache, 2, size as u64);
    fill_all(&cached, 2);
    cached.set_checksum(Hasher::of(Algorithm::Crc64Nvme, &whole));
    let error = cached.verify_complete().unwrap_err().to_string();
    assert!(error.starts_with("s3://b/2: CRC64NVME mismatch"), "{error}");
    assert_eq!(present(&cached, 2), Vec::<u64>::new());
}

#[test]
fn a_large_version_is_verified_in_parts_with_one_checksum_over_all() {
    let dir = scratch();
    let cache = open_at(dir.path());
    let size = (37 << 20) + 4321;
    for (seed, algorithm) in
        [Algorithm::Crc64Nvme, Algorithm::Crc32c, Algorithm::Sha256].into_iter().enumerate()
    {
        let seed = seed as u64;
        let cached = seeded(&cache, seed, size as u64);
        fill_all(&cached, seed);
        cached.set_checksum(Hasher::of(algorithm, &bytes(seed, size)));
        assert_eq!(cached.verify_complete().unwrap(), VersionVerification::Complete, "{algorithm}");
    }
}

#[test]
fn a_version_filled_in_two_opens_is_verified_against_one_checksum() {
    let dir = scratch();
    let size = (37 << 20) + 4321;
    let algorithms = [Algorithm::Crc64Nvme, Algorithm::Crc32c, Algorithm::Sha256];
    for (seed, algorithm, other) in
        (0..).zip(algorithms).flat_map(|(seed, algorithm)| [(seed, algorithm, 0), (seed + 10, algorithm, 1)])
    {
        let cached = seeded(&open_at(dir.path()), seed, size as u64);
        let last = cached.blocks();
        (100..200).for_each(|index| assert_eq!(fill(&cached, seed, index), FillOutcome::Kept));
        drop(cached);
        let cached = seeded(&open_at(dir.path()), seed, size as u64);
        // The checksum is set after some blocks were filled: it may come with a later response.
        (0..50).rev().for_each(|index| assert_eq!(fill(&cached, seed, index), FillOutcome::Kept));
        cached.set_checksum(Hasher::of(algorithm, &bytes(seed + other, size)));
        (200..last)
            .chain((50..100).rev())
            .for_each(|index| assert_eq!(fill(&cached, seed, index), FillOutcome::Kept));
        assert_eq!(cached.verify_complete().is_ok(), other == 0, "{algorithm}");
        assert_eq!(cached.is_complete(), other == 0, "{algorithm}");
    }
}

#[test]
fn a_block_that_fails_in_transfer_leaves_nothing_behind() {
    let dir = scratch();
    let cache = open_at(dir.path());
    let cached = seeded(&cache, 1, 300 * BLOCK);
    assert_eq!(fill(&cached, 1, 0), FillOutcome::Kept);
    let (used, disk) = (exact_count(&cache), on_disk(dir.path()));
    let half = vec![7; usize::try_from(BLOCK / 2).unwrap()];
    let received = cached.receive(1, &mut vec![0; 2 * half.len()], Exempt::Pinned, |sink, at, _| {
        sink.write_all_at(&half, at).unwrap();
        Err(StoreError::Cancelled)
    });
    assert!(matches!(received, Some(Err(StoreError::Cancelled))));
    assert_eq!(present(&cached, 1), [0]);
    assert_eq!((exact_count(&cache), on_disk(dir.path())), (used, disk));
    // The other blocks remain verified.
    (1..300).for_each(|index| assert_eq!(fill(&cached, 1, index), FillOutcome::Kept));
    assert_eq!(cached.inner.verified.lock().runs(cached.inner.generation()).len(), 1);
    assert_eq!(cached.verify_complete().unwrap(), VersionVerification::Complete);
}

#[test]
fn a_block_in_transfer_can_be_filled_by_another_thread() {
    let dir = scratch();
    let cache = open_at(dir.path());
    let (cached, other) = (seeded(&cache, 1, 600 * BLOCK), seeded(&open_at(dir.path()), 1, 600 * BLOCK));
    let half = vec![7; usize::try_from(BLOCK / 2).unwrap()];
    // The two blocks are on different pages of the map. One is filled by the same process, the
    // other by another.
    for (index, filler) in [(0, &cached), (550, &other)] {
        let mut buffer = vec![0; 2 * half.len()];
        let received = cached.receive(index, &mut buffer, Exempt::Pinned, |sink, at, _| {
            sink.write_all_at(&half, at).unwrap();
            assert_eq!(filler.fill(index, &block(&cached, 1, index), Exempt::Pinned), FillOutcome::Kept);
            Err(StoreError::Cancelled)
        });
        assert!(received.unwrap().is_err() && is_right(&cached, 1, index), "the other thread's block stays");
        let next = index + 1;
        let received = cached.receive(next, &mut buffer, Exempt::Pinned, |sink, at, _| {
            assert_eq!(filler.fill(next, &block(&cached, 1, next), Exempt::Pinned), FillOutcome::Kept);
            sink.write_all_at(&block(&cached, 1, next), at).unwrap();
            Ok(())
        });
        assert_eq!(received.unwrap().unwrap(), FillOutcome::Already);
        assert!(buffer == block(&cached, 1, next));
    }
    assert_eq!(present(&other, 1), [0, 1, 550, 551]);
    assert_eq!(cached.status().unwrap().here, 4 * BLOCK);
    let used = exact_count(&cache);
    assert!(used >= on_disk(dir.path()), "{used} of {}", on_disk(dir.path()));
}

#[test]
fn a_file_that_returns_other_bytes_than_were_written_is_noticed() {
    let cached = seeded(&open_at(scratch().path()), 1, 3 * BLOCK);
    fill_all(&cached, 1);
    let mut right = block(&cached, 1, 2);
    cached.inner.compare_written(2, &right).unwrap();
    *right.last_mut().unwrap() ^= 1;
    assert!(cached.inner.compare_written(2, &right).is_err());
}

#[test]
fn an_empty_object_is_complete_at_once() {
    let dir = scratch();
    let cache = open_at(dir.path());
    let cached = seeded(&cache, 1, 0);
    assert_eq!((cached.read_at(&mut [0; 4], 0), cached.next_missing(0)), (0, None));
    assert!(cached.has_all_blocks() && cached.backing().is_some());
    assert_eq!(cached.verify_complete().unwrap(), VersionVerification::Complete);
    assert_eq!(cached.status().unwrap().state, VersionState::Hydrated);
}

#[test]
fn a_sparse_version_of_five_tebibytes_uses_only_its_blocks() {
    let dir = scratch();
    let cache = open_at(dir.path());
    let cached = seeded(&cache, 1, 5 << 40);
    let blocks = cached.blocks();
    let some = [0, 1, 511, 512, 12_345_678, blocks / 2, blocks - 1];
    for index in some {
        assert_eq!(fill(&cached, 1, index), FillOutcome::Kept);
    }
    drop((cached, cache));
    as_if_killed(dir.path());
    let cache = open_at(dir.path());
    let cached = seeded(&cache, 1, 5 << 40);
    assert!(some.iter().all(|index| is_right(&cached, 1, *index)));
    assert_eq!(cached.next_missing(0), Some(2));
    assert_eq!(cached.next_missing(blocks - 1), None);
    assert_eq!(cached.status().unwrap().here, 7 * BLOCK);
    assert!(on_disk(dir.path()) <= 7 * BLOCK + 8 * block_map::page());
    assert_eq!(cached.verify_complete().unwrap(), VersionVerification::Missing);
}

#[test]
fn versions_of_one_location_are_separate_and_released_together() {
    let dir = scratch();
    let cache = open_at(dir.path());
    let place = location("s3://b/k");
    let open = |etag| cache.version(&place, &strong(BLOCK, etag), None).unwrap();
    let (old, new) = (open("old"), open("new"));
    fill_all(&old, 1);
    assert_eq!(present(&new, 1), Vec::<u64>::new());
    fill_all(&new, 2);
    assert_eq!((present(&old, 1), present(&new, 2)), (vec![0], vec![0]));
    let other = seeded(&cache, 3, BLOCK);
    fill_all(&other, 3);
    drop((old, new, other));
    assert_eq!(cache.find(&place).unwrap().len(), 2);
    assert_eq!(cache.release_version(&place, &strong(BLOCK, "old")).unwrap().versions, 1);
    assert_eq!(cache.find(&place).unwrap()[0].version, strong(BLOCK, "new"));
    assert_eq!(cache.release(&place).unwrap().versions, 1);
    assert_eq!(cache.find(&place).unwrap(), []);
    let left: Vec<_> = cache.statuses().map(|status| status.unwrap().location).collect();
    assert_eq!(left, [location("s3://b/3")]);
}

#[test]
fn an_open_version_is_released_block_by_block_unless_it_has_a_backing() {
    let dir = scratch();
    let cache = open_at(dir.path());
    let cached = seeded(&cache, 1, 600 * BLOCK + 1);
    fill_all(&cached, 1);
    cached.pin(Pin::Pinned);
    cached.verify_complete().unwrap();
    let backing = cached.backing().unwrap();
    assert_eq!(cache.release(&location("s3://b/1")).unwrap(), Released { busy: 1, ..Released::default() });
    assert_eq!(present(&cached, 1).len(), 601);
    drop(backing);
    let released = cache.release(&location("s3://b/1")).unwrap();
    assert_eq!((released.versions, released.bytes), (1, 600 * BLOCK + 4096));
    assert_eq!(present(&cached, 1), Vec::<u64>::new());
    assert!(!cached.is_complete() && cached.backing().is_none());
    let status = cached.status().unwrap();
    assert_eq!((status.state, status.pin), (VersionState::Released, Pin::Unpinned));
}

#[test]
fn a_weak_version_is_removed_when_it_is_closed() {
    let dir = scratch();
    let cache = open_at(dir.path());
    let weak = Version { size: Some(3 * BLOCK), last_modified: Some("Mon".into()), ..Version::default() };
    let open = || cache.version(&location("http://h/k"), &weak, None).unwrap();
    let (cached, other) = (open(), open());
    fill_all(&cached, 1);
    assert_eq!(present(&cached, 1), [0, 1, 2]);
    assert_eq!(present(&other, 1), Vec::<u64>::new());
    assert_eq!(cached.verify_complete().unwrap(), VersionVerification::Complete);
    assert!(cached.backing().is_some());
    assert!(cache.usage().used.unwrap() >= 3 * BLOCK);
    assert_eq!(fs::read_dir(dir.path().join("temporary")).unwrap().count(), 0);
    drop((cached, other));
    assert_eq!(cache.usage().used, Some(0));
    assert_eq!(cache.statuses().count(), 0);
    let unknown = Version::default();
    assert!(cache.version(&location("http://h/k"), &unknown, None).is_err());
}

#[test]
fn a_version_without_blocks_is_removed_when_it_is_closed() {
    let dir = scratch();
    let cache = open_at(dir.path());
    drop(seeded(&cache, 1, 1 << 30));
    assert_eq!((end_with(dir.path(), ""), cache.usage().used), (vec![], Some(0)));
    seeded(&cache, 1, 1 << 30).pin(Pin::Pinned);
    assert_eq!(cache.find(&location("s3://b/1")).unwrap()[0].pin, Pin::Pinned);
}

#[test]
fn blocks_are_leased_to_one_fetch_at_a_time() {
    let dir = scratch();
    let (cache, other) = (open_at(dir.path()), open_at(dir.path()));
    let (here, there) = (seeded(&cache, 1, 100 * BLOCK), seeded(&other, 1, 100 * BLOCK));
    let lease = here.lease(10..20).unwrap();
    assert!(here.lease(19..21).is_none() && there.lease(0..11).is_none());
    let beside = there.lease(20..30).unwrap();
    assert!(here.lease(25..26).is_none());
    drop((lease, beside));
    assert!(here.lease(0..100).is_some());
    assert!(there.lease(0..100).is_some());
}

#[test]
fn stores_with_the_same_bucket_key_size_and_tag_are_kept_apart() {
    let dir = scratch();
    let cache = open_at(dir.path());
    let stores = ["", "http://one:9000", "http://other:9000"].map(|endpoint| cache.of_store(endpoint));
    let place = location("s3://b/k");
    let large = stores.each_ref().map(|cache| cache.version(&place, &strong(3 * BLOCK, "a"), None).unwrap());
    let small = stores.each_ref().map(|cache| cache.packed(&place, &strong(5, "a")).unwrap());
    for (seed, (large, small)) in (1..).zip(large.iter().zip(&small)) {
        assert!(present(large, seed).is_empty() && !small.is_present());
        fill_all(large, seed);
        assert_eq!(small.fill(&bytes(seed, 5), Exempt::Pinned), FillOutcome::Kept);
    }
    for (seed, (large, small)) in (1..).zip(large.iter().zip(&small)) {
        assert_eq!(present(large, seed), [0, 1, 2]);
        assert!(small.with_content(|content| content == bytes(seed, 5)).unwrap());
    }
    drop(large);
    assert_eq!(cache.find(&place).unwrap().len(), 6);
    let of_other = stores[2].status_of(&place, &strong(5, "a")).unwrap();
    assert_eq!(cache.release_found(&of_other).unwrap().versions, 1);
    assert!(stores[2].status_of(&place, &strong(5, "a")).is_none());
    assert!(stores[1].status_of(&place, &strong(5, "a")).is_some());
    assert_eq!(stores[0].release(&place).unwrap().versions, 5);
    assert_eq!(cache.of_store("http://one:9000/").shared.dir.path(), dir.path());
}
