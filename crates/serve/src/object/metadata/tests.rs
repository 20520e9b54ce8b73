//! Tests of object metadata, on a file system with extended attributes.

use super::*;

#[test]
fn a_change_by_another_program_invalidates_stored_metadata() {
    let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let path = directory.path().join("object");
    std::fs::write(&path, "content").unwrap();
    let kept = ObjectMetadata {
        content_type: Some("text/x".into()),
        user: vec![("mtime".into(), "1700000000.25".into())],
        ..ObjectMetadata::default()
    };
    let file = File::options().read(true).write(true).open(&path).unwrap();
    kept.write(&file).unwrap();
    let modified = file.metadata().unwrap().modified().unwrap();
    assert_eq!(modified, SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 250_000_000));
    assert_eq!(ObjectMetadata::read(&file), kept);
    std::fs::write(&path, "CONTENT").unwrap();
    assert_eq!(ObjectMetadata::read(&file), ObjectMetadata::default());
}

fn object(directory: &std::path::Path) -> File {
    let path = directory.join("object");
    std::fs::write(&path, "content").unwrap();
    File::options().read(true).write(true).open(&path).unwrap()
}

#[test]
fn metadata_within_the_limits_is_kept_whole() {
    let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let file = object(directory.path());
    let user: Vec<_> = (0..40).map(|number| (format!("k{number:02}"), "v".repeat(48))).collect();
    let kept = ObjectMetadata {
        content_type: Some("text/x".into()),
        expires: Some("Wed, 21 Oct 2037 07:28:00 GMT".into()),
        user,
        checksums: ChecksumValues::from([(firstbyte_location::Algorithm::Crc64Nvme, "rosUhgp5mIg=".into())]),
        parts: PartLengths::new(std::iter::repeat_n(0, 9_999).chain([7])),
        ..ObjectMetadata::default()
    };
    kept.check().unwrap();
    kept.write(&file).unwrap();
    record_published(&file, &EtagIdentity::from(&file.metadata().unwrap()));
    assert_eq!(ObjectMetadata::read(&file), kept);
}

#[test]
fn metadata_beyond_the_limits_is_refused() {
    let of =
        |length| ObjectMetadata { user: vec![("k".into(), "v".repeat(length))], ..ObjectMetadata::default() };
    assert_eq!(of(2047).check(), Ok(()));
    assert_eq!(of(2048).check(), Err(MetadataRefusal::TooLarge));
    let other = ObjectMetadata { cache_control: Some("c".repeat(2049)), ..ObjectMetadata::default() };
    assert_eq!(other.check(), Err(MetadataRefusal::TooLarge));
}

#[test]
fn values_that_are_invalid_in_headers_are_refused() {
    let user = |name: &str, value: &str| ObjectMetadata {
        user: vec![(name.into(), value.into())],
        ..ObjectMetadata::default()
    };
    for metadata in [
        user("k", "a\r\nSet-Cookie: x"),
        user("k", "a\0"),
        user("k\n", "a"),
        user("k x", "a"),
        ObjectMetadata { content_type: Some("text/x\r\n".into()), ..ObjectMetadata::default() },
        ObjectMetadata { content_disposition: Some("a\nb".into()), ..ObjectMetadata::default() },
    ] {
        assert_eq!(metadata.check(), Err(MetadataRefusal::NoHeader), "{metadata:?}");
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let refused = metadata.write(&object(directory.path())).unwrap_err();
        assert_eq!(MetadataRefusal::of(&refused), Some(MetadataRefusal::NoHeader));
    }
    assert_eq!(user("k", "a\tb \u{e9}").check(), Ok(()));
}

#[test]
fn a_directory_keeps_metadata_whatever_entries_come_and_go() {
    let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let open = File::open(directory.path()).unwrap();
    let kept = ObjectMetadata { user: vec![("mode".into(), "16877".into())], ..ObjectMetadata::default() };
    kept.write_directory(&open).unwrap();
    std::fs::write(directory.path().join("entry"), "x").unwrap();
    assert_eq!(ObjectMetadata::read(&open), kept);
    ObjectMetadata::default().write_directory(&open).unwrap();
    assert_eq!(ObjectMetadata::read(&open), ObjectMetadata::default());
}

#[test]
fn metadata_that_the_file_system_cannot_store_is_refused_and_never_dropped() {
    let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let file = object(directory.path());
    let large = ObjectMetadata {
        user: vec![("k".into(), "v".repeat(MAX_ATTRIBUTE_BYTES))],
        ..ObjectMetadata::default()
    };
    let refused = large.write(&file).unwrap_err();
    assert_eq!(MetadataRefusal::of(&refused), Some(MetadataRefusal::TooLarge), "{refused}");
}

#[test]
fn without_attributes_a_write_succeeds_only_if_no_requested_metadata_is_lost() {
    let plain = ObjectMetadata {
        content_type: Some("text/x".into()),
        user: vec![("mtime".into(), "1700000000".into())],
        ..ObjectMetadata::default()
    };
    let described = ObjectMetadata { user: vec![("k".into(), "v".into())], ..ObjectMetadata::default() };
    let encoded = ObjectMetadata { content_encoding: Some("gzip".into()), ..ObjectMetadata::default() };
    plain.without_attribute(Errno::NOTSUP, 100).unwrap();
    for metadata in [described, encoded] {
        let refused = metadata.without_attribute(Errno::NOTSUP, 100).unwrap_err();
        assert_eq!(MetadataRefusal::of(&refused), Some(MetadataRefusal::NoAttributes));
    }
    let full = plain.without_attribute(Errno::NOSPC, 100).unwrap_err();
    assert_eq!((full.kind(), MetadataRefusal::of(&full)), (io::ErrorKind::StorageFull, None));
    assert!(plain.without_attribute(Errno::ACCESS, 100).is_err());
}

#[test]
fn only_part_boundaries_are_dropped_if_space_is_short() {
    let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let file = object(directory.path());
    let kept = ObjectMetadata {
        user: vec![("k".into(), "v".into())],
        parts: PartLengths::new(0..20_000),
        ..ObjectMetadata::default()
    };
    kept.write(&file).unwrap();
    assert_eq!(ObjectMetadata::read(&file), ObjectMetadata { parts: PartLengths::default(), ..kept });
}

#[test]
fn a_copy_on_another_file_system_has_the_metadata() {
    let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let (file, copy) = (object(directory.path()), tempfile::tempfile_in(directory.path()).unwrap());
    let kept = ObjectMetadata { user: vec![("k".into(), "v".into())], ..ObjectMetadata::default() };
    kept.write(&file).unwrap();
    copy.set_len(7).unwrap();
    carry_over(&file, &copy).unwrap();
    assert_eq!(ObjectMetadata::read(&copy), kept);
    assert_eq!(copy.metadata().unwrap().modified().unwrap(), file.metadata().unwrap().modified().unwrap());
}

#[test]
fn part_lengths_that_do_not_match_the_object_are_ignored() {
    assert!(
        PartLengths::new([]).are_of(9)
            && PartLengths::new([4, 4, 1]).are_of(9)
            && PartLengths(vec![(10_000, 2)]).are_of(20_000)
    );
    let odd = [vec![(1, 8)], vec![(9, 1), (1, 1)], vec![(u32::MAX, 0), (1, 9)], vec![(2, u64::MAX), (1, 9)]];
    for runs in odd.into_iter().chain([vec![(10_001, 0), (1, 9)], vec![(0, 9); 20_000]]) {
        assert!(!PartLengths(runs).are_of(9));
    }
    let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let file = object(directory.path());
    let tampered = ObjectMetadata {
        parts: PartLengths(vec![(u32::MAX, 0), (u32::MAX, 0)]),
        ..ObjectMetadata::default()
    };
    tampered.write(&file).unwrap();
    assert!(ObjectMetadata::read(&file).parts.is_empty());
}

#[test]
fn part_lengths_give_the_range_of_each_part() {
    let parts = PartLengths::new([5, 5, 3]);
    let ranges: Vec<_> = parts.ranges().map(|range| (range.start, range.end)).collect();
    assert_eq!((parts.count(), ranges), (3, vec![(0, 5), (5, 10), (10, 13)]));
    assert!(PartLengths::new([]).is_empty());
}
