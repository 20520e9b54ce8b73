//! Tests reads by programs below mounts of every kind of location.

use crate::support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};

use firstbyte_testkit::{Backend, bytes};
use support::{Mounted, tree};

const PLACES: [Backend; 6] = [
    Backend::Local,
    Backend::ServeS3,
    Backend::ServeHttp,
    Backend::Nginx,
    Backend::Minio,
    Backend::Versitygw,
];

/// Returns files in directories. Their sizes are around those of a page, a block and a request.
fn files_of_all_sizes() -> BTreeMap<String, Vec<u8>> {
    let sizes = [0, 1, 4095, 4096, 4097, 131_071, 131_072, 131_073, 1_000_003, 3 << 20];
    let names = [
        "empty",
        "d/one",
        "d/e/f/almost",
        "page",
        "d/over",
        "ü b#c?%41",
        "block",
        "d/e/over",
        "large",
        "d/larger",
    ];
    names
        .iter()
        .zip(sizes)
        .zip(1..)
        .map(|((name, size), seed)| ((*name).to_owned(), bytes(seed, size)))
        .collect()
}

#[test]
fn every_file_of_every_place_reads_as_it_was_written() {
    for place in PLACES {
        let files = files_of_all_sizes();
        let mounted = Mounted::start(place, |subject| {
            files.iter().for_each(|(name, content)| subject.place(name, content))
        });
        let seen = tree(mounted.directory.path());
        assert_eq!(seen.keys().collect::<Vec<_>>(), files.keys().collect::<Vec<_>>(), "{place:?}");
        assert!(seen == files, "{place:?}: content differs");
    }
}

#[test]
fn files_are_found_by_name_without_a_listing() {
    for place in PLACES {
        let files = files_of_all_sizes();
        let mounted = Mounted::start(place, |subject| {
            files.iter().for_each(|(name, content)| subject.place(name, content))
        });
        for (name, content) in &files {
            assert_eq!(
                fs::metadata(mounted.path(name)).unwrap().size(),
                content.len() as u64,
                "{place:?} {name}"
            );
            assert!(mounted.read(name) == *content, "{place:?} {name}");
        }
        for missing in ["nothing", "d/nothing", "page/below", "d/e/f/g/h", "emp", "d/e/ove"] {
            assert!(!mounted.path(missing).exists(), "{place:?} {missing}");
        }
        assert!(mounted.path("d/e").is_dir());
    }
}

#[test]
fn any_range_reads_the_same_bytes() {
    let content = bytes(7, 2 << 20);
    let mounted = Mounted::start(Backend::ServeS3, |subject| subject.place("x", &content));
    let mut file = fs::File::open(mounted.path("x")).unwrap();
    let mut buffer = vec![0; 300_000];
    for (offset, length) in
        [(0, 1), (1, 4096), (131_000, 300_000), (2_097_151, 10), (1_000_000, 100_000), (3 << 20, 5)]
    {
        let expected = content.get(offset..).unwrap_or_default();
        let expected = &expected[..expected.len().min(length)];
        let mut read = 0;
        while read < expected.len() {
            read += file.read_at(&mut buffer[read..length], (offset + read) as u64).unwrap();
        }
        assert_eq!(file.read_at(&mut buffer[read..length], (offset + read) as u64).unwrap(), 0);
        assert!(&buffer[..read] == expected, "{offset} {length}");
    }
    file.seek(SeekFrom::End(-3)).unwrap();
    let mut end = Vec::new();
    file.read_to_end(&mut end).unwrap();
    assert_eq!(end, content[content.len() - 3..]);
}

#[test]
fn nothing_can_be_written() {
    let mounted = Mounted::start(Backend::ServeS3, |subject| subject.place("d/x", b"content"));
    let refused =
        |result: std::io::Result<()>| result.unwrap_err().kind() == std::io::ErrorKind::ReadOnlyFilesystem;
    assert!(refused(fs::write(mounted.path("d/x"), b"other")));
    assert!(refused(fs::write(mounted.path("new"), b"other")));
    assert!(refused(fs::remove_file(mounted.path("d/x"))));
    assert!(refused(fs::create_dir(mounted.path("e"))));
    assert!(refused(fs::rename(mounted.path("d/x"), mounted.path("y"))));
    assert_eq!(mounted.read("d/x"), b"content");
}
