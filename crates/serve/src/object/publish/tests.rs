//! Tests publishing: many threads change names at once, and entries that are not files.

use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use super::*;
use crate::object::reserved::{self, Area};
use crate::object::staging::TemporaryFile;

fn put(root: &ServedRoot, path: &EntryPath, bytes: &[u8], condition: &Condition) -> Result<PublishedVersion> {
    let file = TemporaryFile::create(root, &EntryPath::default()).unwrap();
    file.file().write_all_at(bytes, 0).unwrap();
    crate::http::etag::stamp(file.file()).unwrap();
    publish_temporary(root, file, &EntryPath::default(), path, condition)
}

fn matching(identity: &EtagIdentity) -> Condition {
    Condition::default().and_is(Some(identity.etag()), None, None)
}

#[test]
fn of_many_writers_that_expect_one_version_exactly_one_succeeds() {
    let directory = tempfile::tempdir().unwrap();
    let root = ServedRoot::open(directory.path()).unwrap();
    let path = EntryPath::parse(b"a").unwrap();
    let mut version = put(&root, &path, b"0", &Condition::absent()).unwrap().identity;
    for round in 0..50 {
        let condition = matching(&version);
        let written: Vec<_> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..8)
                .map(|writer| {
                    let (root, path, condition) = (&root, &path, &condition);
                    scope.spawn(move || match writer {
                        0 => remove(root, path, RemovedKind::File, condition).map(|_| None),
                        _ => put(root, path, b"x", condition).map(|done| Some(done.identity)),
                    })
                })
                .collect();
            writers.into_iter().filter_map(|writer| writer.join().unwrap().ok()).collect()
        });
        assert_eq!(written.len(), 1, "round {round}");
        version = match written[0] {
            Some(identity) => identity,
            None => put(&root, &path, b"0", &Condition::absent()).unwrap().identity,
        };
    }
}

#[test]
fn writes_beside_removals_of_the_same_directory_never_fail() {
    let directory = tempfile::tempdir().unwrap();
    let root = ServedRoot::open(directory.path()).unwrap();
    let base = EntryPath::default();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let (root, base) = (&root, &base);
            scope.spawn(move || {
                let path = EntryPath::parse(format!("a/b/{writer}").as_bytes()).unwrap();
                for _ in 0..300 {
                    put(root, &path, b"x", &Condition::default()).unwrap();
                    remove(root, &path, RemovedKind::File, &Condition::default()).unwrap();
                    root.remove_empty_parents(&path, base);
                }
            });
        }
    });
    assert!(!directory.path().join("a").exists());
}

#[test]
fn a_version_is_never_named_like_an_earlier_one() {
    let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let root = ServedRoot::open(directory.path()).unwrap();
    let path = EntryPath::parse(b"a").unwrap();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..500 {
        let published = put(&root, &path, b"x", &Condition::default()).unwrap();
        assert!(seen.insert(published.identity.etag()));
    }
}

#[test]
fn a_directory_is_not_replaced_but_a_dangling_link_is() {
    let directory = tempfile::tempdir().unwrap();
    let root = ServedRoot::open(directory.path()).unwrap();
    std::fs::create_dir(directory.path().join("d")).unwrap();
    std::os::unix::fs::symlink("nowhere", directory.path().join("l")).unwrap();
    let path = |name: &str| EntryPath::parse(name.as_bytes()).unwrap();
    let over = put(&root, &path("d"), b"x", &Condition::default());
    assert!(matches!(over, Err(Error::Io(error)) if error.kind() == io::ErrorKind::IsADirectory));
    put(&root, &path("l"), b"x", &Condition::default()).unwrap();
    assert_eq!(std::fs::read(directory.path().join("l")).unwrap(), b"x");
    assert!(!remove(&root, &path("d"), RemovedKind::File, &Condition::default()).unwrap());
    assert!(remove(&root, &path("d"), RemovedKind::Directory, &Condition::default()).unwrap());
}

#[test]
fn publishing_to_another_file_system_copies_content_and_metadata() {
    let directory = tempfile::tempdir().unwrap();
    let root = ServedRoot::open(directory.path()).unwrap();
    let file = TemporaryFile::create(&root, &EntryPath::default()).unwrap();
    file.file().write_all_at(b"content", 0).unwrap();
    crate::http::etag::stamp(file.file()).unwrap();
    let tmp = reserved::open(&root, &EntryPath::default(), Area::Temporary).unwrap();
    let name = std::fs::read_dir(directory.path().join(".firstbyte/tmp"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .file_name();
    let finished = FinishedFile { directory: tmp.as_fd(), name: &name, file: file.file() };
    let parent = root.open_directory(&EntryPath::default()).unwrap();
    let made =
        copy_across(finished, &parent, ".x.firstbyte-part", OsStr::new("a"), RenameFlags::NOREPLACE).unwrap();
    assert_eq!(made.modified, EtagIdentity::from(&file.file().metadata().unwrap()).modified);
    assert_eq!(std::fs::read(directory.path().join("a")).unwrap(), b"content");
    let again = copy_across(finished, &parent, ".x.firstbyte-part", OsStr::new("a"), RenameFlags::NOREPLACE);
    assert!(matches!(again, Err(Error::Unmet(UnmetCondition::Different))));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
}

#[test]
fn a_dropped_file_leaves_nothing_and_a_published_one_replaces_only_if_allowed() {
    let directory = tempfile::tempdir().unwrap();
    let root = ServedRoot::open(directory.path()).unwrap();
    let (base, path) = (EntryPath::default(), EntryPath::parse(b"a/b").unwrap());
    let publish =
        |file: TemporaryFile, condition: &Condition| publish_temporary(&root, file, &base, &path, condition);
    drop(TemporaryFile::create(&root, &base).unwrap());
    assert_eq!(std::fs::read_dir(directory.path().join(".firstbyte/tmp")).unwrap().count(), 0);
    crate::object::reserved::tidy(&root, &base);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);

    let first = TemporaryFile::create(&root, &base).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&**first.file(), b"first", 0).unwrap();
    assert!(publish(first, &Condition::absent()).unwrap().replaced.is_none());
    let second = TemporaryFile::create(&root, &base).unwrap();
    assert!(matches!(publish(second, &Condition::absent()), Err(Error::Unmet(_))));
    assert_eq!(std::fs::read(directory.path().join("a/b")).unwrap(), b"first");
    publish(TemporaryFile::create(&root, &base).unwrap(), &Condition::default()).unwrap();
    assert_eq!(std::fs::read(directory.path().join("a/b")).unwrap(), b"");
}
