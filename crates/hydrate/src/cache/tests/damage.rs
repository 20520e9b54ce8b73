//! Tests the cache after kills, power cuts, and damage by other programs.

use super::*;

/// Replaces blocks by holes, as a power cut does to pages that had not reached the disk.
fn lose_blocks(dir: &Path, blocks: &[u64]) {
    for data in end_with(dir, ".data") {
        let file = File::options().write(true).open(data).unwrap();
        let zeros = vec![0; BLOCK as usize];
        blocks.iter().for_each(|block| file.write_all_at(&zeros, block * BLOCK).unwrap());
    }
}

#[test]
fn after_a_power_cut_lost_blocks_are_absent_and_others_present() {
    let dir = scratch();
    let cache = open_at(dir.path());
    let cached = seeded(&cache, 1, 10 * BLOCK);
    fill_all(&cached, 1);
    assert_eq!(cached.verify_complete().unwrap(), VersionVerification::Complete);
    drop((cached, cache));
    lose_blocks(dir.path(), &[2, 3, 9]);
    as_if_restarted(dir.path());
    let cache = open_at(dir.path());
    let cached = seeded(&cache, 1, 10 * BLOCK);
    assert!(!cached.is_complete() && cached.backing().is_none(), "it was too small to be synced");
    assert_eq!(present(&cached, 1), [0, 1, 4, 5, 6, 7, 8]);
    assert_eq!(cached.verify_complete().unwrap(), VersionVerification::Missing);
    assert!([2, 3, 9].into_iter().all(|index| fill(&cached, 1, index) == FillOutcome::Kept));
    assert_eq!(cached.verify_complete().unwrap(), VersionVerification::Complete);
}

#[test]
fn after_a_power_cut_completion_finds_lost_blocks_that_were_not_read() {
    let dir = scratch();
    let cache = open_at(dir.path());
    fill_all(&seeded(&cache, 1, 10 * BLOCK), 1);
    drop(cache);
    lose_blocks(dir.path(), &[0, 5]);
    as_if_restarted(dir.path());
    let cache = open_at(dir.path());
    let cached = seeded(&cache, 1, 10 * BLOCK);
    assert!(cached.has_all_blocks());
    assert_eq!(cached.verify_complete().unwrap(), VersionVerification::Missing);
    assert!(!cached.has_all_blocks());
    assert_eq!(present(&cached, 1), [1, 2, 3, 4, 6, 7, 8, 9]);
}

#[test]
fn completion_of_a_large_version_finds_a_lost_last_block() {
    let dir = scratch();
    let cache = open_at(dir.path());
    fill_all(&seeded(&cache, 1, 300 * BLOCK), 1);
    drop(cache);
    lose_blocks(dir.path(), &[299]);
    as_if_restarted(dir.path());
    let cached = seeded(&open_at(dir.path()), 1, 300 * BLOCK);
    assert_eq!(cached.verify_complete().unwrap(), VersionVerification::Missing);
    assert_eq!(present(&cached, 1), (0..299).collect::<Vec<_>>());
}

#[test]
fn completion_reads_blocks_of_an_earlier_open_again() {
    let dir = scratch();
    let first = seeded(&open_at(dir.path()), 1, 10 * BLOCK);
    (0..5).for_each(|index| assert_eq!(fill(&first, 1, index), FillOutcome::Kept));
    let cached = seeded(&open_at(dir.path()), 1, 10 * BLOCK);
    (5..10).for_each(|index| assert_eq!(fill(&cached, 1, index), FillOutcome::Kept));
    lose_blocks(dir.path(), &[3]);
    assert_eq!(cached.verify_complete().unwrap(), VersionVerification::Missing);
    assert_eq!(present(&cached, 1), [0, 1, 2, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn a_synced_version_is_complete_after_a_restart_until_blocks_are_removed() {
    let dir = scratch();
    let size = 64 * BLOCK;
    let cache = open_at(dir.path());
    let cached = seeded(&cache, 1, size);
    fill_all(&cached, 1);
    cached.verify_complete().unwrap();
    drop((cached, cache));
    as_if_restarted(dir.path());
    let cache = open_at(dir.path());
    let cached = seeded(&cache, 1, size);
    assert!(cached.is_complete() && cached.backing().is_some());
    assert_eq!(present(&cached, 1).len(), 64);
    assert_eq!(cached.inner.evict(0..1), BLOCK);
    assert!(!cached.is_complete());
    assert_eq!(present(&cached, 1).len(), 63);
    drop((cached, cache));
    lose_blocks(dir.path(), &[5]);
    as_if_restarted(dir.path());
    assert_eq!(
        present(&seeded(&open_at(dir.path()), 1, size), 1).len(),
        62,
        "it is no longer trusted as a whole"
    );
}

#[test]
fn after_a_kill_blocks_are_verified_and_kept() {
    let dir = scratch();
    let cache = open_at(dir.path());
    fill_all(&seeded(&cache, 1, 5 * BLOCK), 1);
    drop(cache);
    as_if_killed(dir.path());
    // A kill loses no blocks. These blocks are lost by hand, to show that blocks are verified.
    lose_blocks(dir.path(), &[1]);
    let cache = open_at(dir.path());
    assert_eq!(present(&seeded(&cache, 1, 5 * BLOCK), 1), [0, 2, 3, 4]);
}

#[test]
fn verification_of_the_cache_drops_blocks_changed_by_other_programs() {
    let dir = scratch();
    let cache = open_at(dir.path());
    for seed in 1..4 {
        fill_all(&seeded(&cache, seed, 5 * BLOCK + 1), seed);
    }
    let open = seeded(&cache, 1, 5 * BLOCK + 1);
    lose_blocks(dir.path(), &[4]);
    fs::write(dir.path().join("objects/00junk.map"), "junk").unwrap();
    let report = cache.verify().unwrap();
    assert_eq!(report, VerificationReport { versions: 3, corrupt: 0, blocks: 15, wrong: 3 });
    assert_eq!(present(&open, 1), [0, 1, 2, 3, 5]);
    assert_eq!(cache.verify().unwrap(), VerificationReport { versions: 3, corrupt: 0, blocks: 15, wrong: 0 });
}

#[test]
fn an_unfinished_version_is_not_corrupt_and_one_without_its_header_is() {
    let dir = scratch();
    let cache = open_at(dir.path());
    fill_all(&seeded(&cache, 1, 3 * BLOCK), 1);
    let (map, data) = (end_with(dir.path(), ".map"), end_with(dir.path(), ".data"));
    fs::write(&map[0], []).unwrap();
    assert_eq!(cache.verify().unwrap().corrupt, 1, "there are blocks");
    let file = File::options().write(true).truncate(true).open(&data[0]).unwrap();
    file.set_len(3 * BLOCK).unwrap();
    assert_eq!(cache.verify().unwrap(), VerificationReport::default());
    fs::remove_file(&data[0]).unwrap();
    assert_eq!(cache.verify().unwrap(), VerificationReport::default());
}

#[test]
fn counters_that_were_cut_short_are_counted_again() {
    let dir = scratch();
    let cache = open_at(dir.path());
    let cached = seeded(&cache, 1, 3 * BLOCK);
    fill_all(&cached, 1);
    File::options().write(true).open(dir.path().join("usage")).unwrap().set_len(7).unwrap();
    // A second instance on the same directory behaves like another process. The first one has not
    // noticed the damage.
    let other = open_at(dir.path());
    until("the blocks are counted", || other.usage().used.is_some_and(|used| used >= on_disk(dir.path())));
    assert_eq!(present(&seeded(&other, 1, 3 * BLOCK), 1), [0, 1, 2]);
}

/// Cuts the only file with this suffix short, as another program would.
fn cut(dir: &Path, suffix: &str, length: u64) {
    let found = end_with(dir, suffix);
    File::options().write(true).open(&found[0]).unwrap().set_len(length).unwrap();
}

#[test]
fn a_file_that_was_cut_short_is_not_used_until_it_is_closed_and_then_made_anew() {
    let dir = scratch();
    let cache = open_at(dir.path());
    let cached = seeded(&cache, 1, 5 * BLOCK);
    (0..4).for_each(|block| assert_eq!(fill(&cached, 1, block), FillOutcome::Kept));
    cut(dir.path(), ".data", BLOCK + 7);
    assert_eq!(fill(&cached, 1, 4), FillOutcome::NoRoom);
    assert_eq!(present(&cached, 1), Vec::<u64>::new());
    assert!(!cached.is_present(0) && cached.backing().is_none());
    assert_eq!(cached.verify_complete().unwrap(), VersionVerification::Missing);
    let error = cache.version(&location("s3://b/1"), &strong(5 * BLOCK, "a"), None).unwrap_err();
    assert!(error.to_string().contains("it is corrupt, and in use"), "{error}");
    drop(cached);
    let cached = seeded(&cache, 1, 5 * BLOCK);
    fill_all(&cached, 1);
    assert_eq!(present(&cached, 1), [0, 1, 2, 3, 4]);
}

#[test]
fn a_write_behind_a_cut_shows_no_reader_zeros() {
    let dir = scratch();
    let (cache, other) = (open_at(dir.path()), open_at(dir.path()));
    let (cached, reader) = (seeded(&cache, 1, 6 * BLOCK), seeded(&other, 1, 6 * BLOCK));
    (0..3).for_each(|block| assert_eq!(fill(&cached, 1, block), FillOutcome::Kept));
    let mut buffer = block(&cached, 1, 4);
    let bytes = buffer.clone();
    let received = cached.receive(4, &mut buffer, Exempt::Pinned, |sink, at, _| {
        cut(dir.path(), ".data", 7);
        sink.write_all_at(&bytes, at).unwrap();
        // The writer has not noticed the cut yet.
        assert_eq!(present(&reader, 1), Vec::<u64>::new());
        Ok(())
    });
    assert!(received.unwrap().is_err());
    assert_eq!(present(&cached, 1), Vec::<u64>::new());
}

#[test]
fn the_last_block_does_not_hide_a_cut() {
    for cut_at in [0, 7, 3 * BLOCK, 4 * BLOCK + 5000] {
        let dir = scratch();
        let cache = open_at(dir.path());
        let cached = seeded(&cache, 1, 4 * BLOCK + 9000);
        (0..4).for_each(|block| assert_eq!(fill(&cached, 1, block), FillOutcome::Kept));
        let bytes = block(&cached, 1, 4);
        let written = cached.inner.write(4, Exempt::Pinned, || {
            cut(dir.path(), ".data", cut_at);
            let put = cached.inner.put(4, &bytes);
            put.map_err(|source| StoreError::Io { location: String::new(), source })?;
            Ok(&bytes)
        });
        assert!(written.is_err());
        assert_eq!(present(&cached, 1), Vec::<u64>::new(), "cut at {cut_at}");
    }
    let dir = scratch();
    let cached = seeded(&open_at(dir.path()), 1, 5 * BLOCK);
    let mut buffer = block(&cached, 1, 4);
    let received = cached.receive(4, &mut buffer, Exempt::Pinned, |_, _, _| unreachable!());
    assert!(received.is_none(), "bytes from a socket would make the file long again");
}

#[test]
fn a_block_that_is_on_its_way_during_a_cut_is_refused_whatever_others_write() {
    let dir = scratch();
    let (cache, other) = (open_at(dir.path()), open_at(dir.path()));
    let (cached, writer) = (seeded(&cache, 1, 6 * BLOCK), seeded(&other, 1, 6 * BLOCK));
    let mut buffer = block(&cached, 1, 2);
    let bytes = buffer.clone();
    let received = cached.receive(2, &mut buffer, Exempt::Pinned, |sink, at, _| {
        sink.write_all_at(&bytes, at).unwrap();
        cut(dir.path(), ".data", at + 100);
        // Another process fills blocks behind the cut. It either notices the cut or makes the file
        // longer.
        for block in [5, 3] {
            fill(&writer, 1, block);
        }
        Ok(())
    });
    assert!(received.unwrap().is_err());
    assert_eq!(present(&cached, 1), Vec::<u64>::new());
    assert_eq!(present(&writer, 1), Vec::<u64>::new());
}

#[test]
fn a_map_that_was_cut_short_is_not_used_even_where_its_page_remains() {
    for length in [33, 41, 47, 60, 140] {
        let dir = scratch();
        let cache = open_at(dir.path());
        let cached = seeded(&cache, 1, 5 * BLOCK);
        (0..4).for_each(|block| assert_eq!(fill(&cached, 1, block), FillOutcome::Kept));
        let before = cached.inner.generation();
        cut(dir.path(), ".map", length);
        assert_eq!(fill(&cached, 1, 4), FillOutcome::NoRoom, "cut at {length}");
        assert_eq!(present(&cached, 1), Vec::<u64>::new(), "cut at {length}");
        assert_eq!(cached.inner.is_generation(before), length > 48, "cut at {length}");
    }
}

#[test]
fn a_new_version_leaves_the_data_of_one_whose_map_is_gone() {
    let dir = scratch();
    let cache = open_at(dir.path());
    let cached = seeded(&cache, 1, 3 * BLOCK);
    fill_all(&cached, 1);
    // The map is removed first, as when a user removes the files or empties the cache.
    fs::remove_file(&end_with(dir.path(), ".map")[0]).unwrap();
    let anew = seeded(&cache, 1, 3 * BLOCK);
    assert_eq!(present(&anew, 1), Vec::<u64>::new());
    assert_eq!(present(&cached, 1), [0, 1, 2], "its own file");
    fill_all(&anew, 1);
    assert_eq!(present(&anew, 1), [0, 1, 2]);
}

#[test]
fn data_that_was_put_in_the_place_of_a_maps_own_is_not_trusted() {
    let dir = scratch();
    let size = 64 * BLOCK;
    let cache = open_at(dir.path());
    let cached = seeded(&cache, 1, size);
    fill_all(&cached, 1);
    assert_eq!(cached.verify_complete().unwrap(), VersionVerification::Complete);
    let replace = || {
        let data = end_with(dir.path(), ".data");
        let new = data[0].with_extension("new");
        File::create(&new).unwrap().set_len(size).unwrap();
        fs::rename(new, &data[0]).unwrap();
    };
    replace();
    let error = cache.version(&location("s3://b/1"), &strong(size, "a"), None).unwrap_err();
    assert!(error.to_string().contains("its data was replaced"), "{error}");
    assert_eq!(present(&cached, 1).len(), 64);
    drop(cached);
    let cached = seeded(&cache, 1, size);
    assert!(!cached.is_complete());
    assert_eq!(present(&cached, 1), Vec::<u64>::new());
}

#[test]
fn a_process_that_comes_late_to_an_upgrade_removes_nothing() {
    let dir = scratch();
    let cache = open_at(dir.path());
    let cached = seeded(&cache, 1, 3 * BLOCK);
    fill_all(&cached, 1);
    directory::upgrade(&cache.shared.dir).unwrap();
    assert_eq!(end_with(dir.path(), ".map").len(), 1);
    let _lock = cache.shared.dir.try_lock().unwrap().unwrap();
    let error = directory::upgrade(&cache.shared.dir).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut, "another process empties it");
}

#[test]
fn damaged_files_are_started_over() {
    let dir = scratch();
    type Damage = fn(&Path, &Path);
    let damages: [Damage; 7] = [
        |map, _| File::options().write(true).open(map).unwrap().set_len(200).unwrap(),
        |map, _| File::options().write(true).open(map).unwrap().set_len(0).unwrap(),
        |map, _| change_word(map, 8, |size| size + 1),
        |map, _| change_word(map, 136, |text| text ^ 4),
        |map, _| fs::write(map, vec![0; 8192]).unwrap(),
        |_, data| fs::remove_file(data).unwrap(),
        |_, data| File::options().write(true).open(data).unwrap().set_len(BLOCK).unwrap(),
    ];
    for (index, damage) in damages.into_iter().enumerate() {
        let cache = open_at(dir.path());
        fill_all(&seeded(&cache, 1, 3 * BLOCK), 1);
        let (map, data) = (end_with(dir.path(), ".map"), end_with(dir.path(), ".data"));
        damage(&map[0], &data[0]);
        assert_eq!(cache.statuses().filter(Result::is_err).count(), 0);
        cache.verify().unwrap();
        let cached = seeded(&cache, 1, 3 * BLOCK);
        assert_eq!(present(&cached, 1), Vec::<u64>::new(), "damage {index}");
        fill_all(&cached, 1);
        assert_eq!(present(&cached, 1), [0, 1, 2], "damage {index}");
        assert_eq!(cached.verify_complete().unwrap(), VersionVerification::Complete);
        drop(cached);
        cache.release(&location("s3://b/1")).unwrap();
    }
}

#[test]
fn a_corrupt_version_that_is_in_use_is_an_error() {
    let dir = scratch();
    let cache = open_at(dir.path());
    let _cached = seeded(&cache, 1, 3 * BLOCK);
    change_word(&end_with(dir.path(), ".map")[0], 8, |size| size + 1);
    let error = cache.version(&location("s3://b/1"), &strong(3 * BLOCK, "a"), None).unwrap_err();
    assert!(error.to_string().contains("it is corrupt, and in use"), "{error}");
}

#[test]
fn a_directory_of_a_newer_or_unknown_format_is_refused() {
    let dir = scratch();
    drop(open_at(dir.path()));
    let format = dir.path().join("format");
    assert_eq!(fs::read_to_string(&format).unwrap(), "firstbyte cache 3\n");
    fs::write(&format, "firstbyte cache 4\n").unwrap();
    let error = Cache::open(dir.path(), NO_LIMITS).unwrap_err();
    assert!(matches!(error, Error::Newer { found: 4, known: 3, .. }), "{error}");
    fs::write(&format, "hello").unwrap();
    let error = Cache::open(dir.path(), NO_LIMITS).unwrap_err().to_string();
    assert!(error.contains("not a firstbyte cache"), "{error}");
    let error = Cache::open(&format, NO_LIMITS).unwrap_err();
    assert!(matches!(error, Error::Cache { .. }), "{error}");
}

#[test]
fn a_directory_with_other_contents_does_not_become_a_cache_and_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;

    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    for (name, is_own) in
        [("important", true), ("objects", true), ("upload-00ff.json", false), ("lost+found", false)]
    {
        let dir = scratch();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(dir.path().join(name), "content").unwrap();
        let opened = Cache::open(dir.path(), NO_LIMITS);
        if is_own {
            assert!(opened.unwrap_err().to_string().contains("is not empty"), "{name}");
            let names: Vec<_> =
                fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!((mode(dir.path()), names), (0o755, vec![name.into()]));
        } else {
            drop(opened.unwrap());
            assert_eq!(mode(dir.path()), 0o700, "{name}");
        }
    }
}

#[test]
fn a_cache_directory_that_was_removed_is_named() {
    let dir = scratch();
    let path = dir.path().join("cache");
    let cache = open_at(&path);
    fs::remove_dir_all(&path).unwrap();
    let location = Location::parse("s3://b/k".as_ref()).unwrap();
    let version = Version { size: Some(5 << 20), etag: Some("\"1\"".into()), ..Version::default() };
    let error = cache.version(&location, &version, None).unwrap_err().to_string();
    assert!(
        error.contains(path.to_str().unwrap()) && error.contains("it was removed while in use"),
        "{error}"
    );
}

#[test]
fn a_format_file_that_is_empty_or_cut_short_is_written_again() {
    let dir = scratch();
    fill_all(&seeded(&open_at(dir.path()), 1, BLOCK), 1);
    let format = dir.path().join("format");
    for length in 0..="firstbyte cache ".len() {
        fs::write(&format, &"firstbyte cache 3\n"[..length]).unwrap();
        assert_eq!(present(&seeded(&open_at(dir.path()), 1, BLOCK), 1), [0]);
        assert_eq!(fs::read_to_string(&format).unwrap(), "firstbyte cache 3\n");
    }
}

#[test]
fn a_directory_of_an_older_format_is_emptied_and_is_of_the_new_one() {
    let dir = scratch();
    let cache = open_at(dir.path());
    fill_all(&seeded(&cache, 1, 3 * BLOCK), 1);
    let small = cache.packed(&location("s3://b/2"), &strong(5, "a")).unwrap();
    assert_eq!(small.fill(b"small", Exempt::Pinned), FillOutcome::Kept);
    drop((small, cache));
    let format = dir.path().join("format");
    for older in ["firstbyte cache 1\n", "firstbyte cache 2\n"] {
        fs::write(&format, older).unwrap();
        let cache = open_at(dir.path());
        assert_eq!(fs::read_to_string(&format).unwrap(), "firstbyte cache 3\n");
        assert_eq!((cache.statuses().count(), end_with(dir.path(), "")), (0, vec![]));
        assert_eq!(exact_count(&cache), 0);
    }
}

#[test]
fn opening_reads_no_objects() {
    let dir = scratch();
    drop(open_at(dir.path()));
    // Reading the directories of objects fails, because one of them is a file.
    fs::write(dir.path().join("objects/00"), "").unwrap();
    let cache = open_at(dir.path());
    assert_eq!(cache.statuses().filter(Result::is_err).count(), 1);
}
