//! Tests changes that a listing alone does not show, and copies that are found unchanged without a
//! request.

use crate::support::{engine, object, tree};

use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

use firstbyte_location::Location;
use firstbyte_testkit::{Quirk, QuirkStore, scratch};
use firstbyte_transfer::{Compare, Extras, NoObserver, Summary, TransferSettings};

const HOUR: Duration = Duration::from_secs(3_600);

fn here(path: &Path) -> Location {
    Location::Local(path.to_owned())
}

/// Copies missing and changed objects. Returns the summary, and the number of requests for single
/// objects.
fn sync(server: &QuirkStore, source: Location, destination: Location) -> (Summary, usize) {
    let tree = tree(source, destination);
    let before = server.requests().len();
    let summary = engine(server, TransferSettings::default()).sync(&tree, Extras::Keep, &NoObserver).unwrap();
    assert!(summary.failures == 0 && summary.ended.is_none(), "{:?}", summary.failed);
    let requests = server.requests().split_off(before);
    let asked = requests.iter().filter(|request| request.starts_with("HEAD")).count();
    (summary, asked)
}

fn write(path: &Path, content: &[u8], modified: SystemTime) {
    std::fs::write(path, content).unwrap();
    File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
}

fn modified(path: &Path) -> SystemTime {
    std::fs::metadata(path).unwrap().modified().unwrap()
}

/// Uploads a file to an object that has the file's modification time in its metadata.
fn upload(server: &QuirkStore, path: &Path, key: &str) {
    engine(server, TransferSettings::default()).copy(&here(path), &object(key), &NoObserver).unwrap();
}

#[test]
fn an_edit_in_the_second_of_the_upload_is_copied_and_an_unchanged_file_is_not() {
    for quirk in [None, Some(Quirk::ClockAhead), Some(Quirk::ClockBehind)] {
        let server = QuirkStore::start(quirk.as_slice());
        let local = scratch();
        let file = local.path().join("f");
        for content in [b"one", b"two", b"two", b"six"] {
            let is_new = server.objects().get("t/f").is_none_or(|stored| stored != content);
            if is_new {
                std::fs::write(&file, content).unwrap();
            }
            let (summary, _) = sync(&server, here(local.path()), object("t"));
            assert_eq!((summary.objects, summary.skipped), (is_new.into(), (!is_new).into()), "{quirk:?}");
            assert!(server.objects()["t/f"] == content, "{quirk:?}");
        }
    }
}

#[test]
fn a_file_that_was_replaced_by_an_older_one_of_its_length_is_copied() {
    let server = QuirkStore::start(&[]);
    let local = scratch();
    let file = local.path().join("f");
    let now = SystemTime::now();
    write(&file, b"new", now - HOUR);
    sync(&server, here(local.path()), object("t"));
    write(&file, b"old", now - 9 * HOUR);
    let (summary, asked) = sync(&server, here(local.path()), object("t"));
    assert_eq!((summary.objects, asked), (1, 1));
    assert_eq!(server.objects()["t/f"], b"old");
    let (summary, _) = sync(&server, here(local.path()), object("t"));
    assert_eq!((summary.objects, summary.skipped), (0, 1));
}

#[test]
fn an_object_without_a_time_of_its_own_is_judged_by_its_date() {
    let server = QuirkStore::start(&[]);
    let local = scratch();
    let now = SystemTime::now();
    write(&local.path().join("f"), b"one", now - HOUR);
    server.insert_at("t/f", b"two", now);
    let (summary, asked) = sync(&server, here(local.path()), object("t"));
    assert_eq!((summary.skipped, asked), (1, 1));
    write(&local.path().join("f"), b"one", now + HOUR);
    assert_eq!(sync(&server, here(local.path()), object("t")).0.objects, 1);
    // The copy has the time of the file, which is in the future.
    assert_eq!(sync(&server, here(local.path()), object("t")).0.skipped, 1);
}

#[test]
fn objects_that_are_younger_than_their_files_are_not_asked_for() {
    let server = QuirkStore::start(&[]);
    let local = scratch();
    write(&local.path().join("f"), b"one", SystemTime::now() - HOUR);
    // The inode change time of the file is now. The object gets a slightly later date, as if it had
    // been uploaded after that.
    server.insert_at("t/f", b"one", SystemTime::now() + Duration::from_secs(3));
    std::thread::sleep(Duration::from_millis(1_100));
    let (summary, asked) = sync(&server, here(local.path()), object("t"));
    assert_eq!((summary.skipped, summary.objects, asked), (1, 0, 0));
}

#[test]
fn a_tree_that_was_copied_from_a_store_is_found_unchanged_without_a_request_for_an_object() {
    let server = QuirkStore::start(&[]);
    let (from, to) = (scratch(), scratch());
    // One object has the modification time of its file in its metadata, the other has none.
    write(&from.path().join("a"), b"one", SystemTime::now() - 9 * HOUR);
    upload(&server, &from.path().join("a"), "t/a");
    server.set_written("t/a", SystemTime::now() - HOUR);
    server.insert_at("t/b", b"two", SystemTime::now() - HOUR);
    assert_eq!(sync(&server, object("t"), here(to.path())).0.objects, 2);
    let (summary, asked) = sync(&server, object("t"), here(to.path()));
    assert_eq!((summary.objects, summary.skipped, asked), (0, 2, 0));
    let (summary, asked) = sync(&server, object("t"), object("u"));
    assert_eq!((summary.objects, asked), (2, asked));
    let (summary, asked) = sync(&server, object("t"), object("u"));
    assert_eq!((summary.objects, summary.skipped, asked), (0, 2, 0));
}

#[test]
fn an_object_that_was_replaced_in_the_second_of_its_download_is_copied_again() {
    let server = QuirkStore::start(&[]);
    let (from, to) = (scratch(), scratch());
    let file = from.path().join("f");
    for content in [b"one", b"two", b"six"] {
        std::fs::write(&file, content).unwrap();
        upload(&server, &file, "t/f");
        assert_eq!(sync(&server, object("t"), here(to.path())).0.objects, 1);
        assert_eq!(std::fs::read(to.path().join("f")).unwrap(), content);
        assert_eq!(sync(&server, object("t"), object("u")).0.objects, 1);
        assert_eq!(server.objects()["u/f"], content);
    }
}

#[test]
fn two_edits_within_a_second_are_copied_between_files_too() {
    let server = QuirkStore::start(&[]);
    let (from, to) = (scratch(), scratch());
    let file = from.path().join("f");
    let second = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    for (nanoseconds, content) in [(1, b"one"), (999_999_999, b"two"), (500_000_001, b"six")] {
        write(&file, content, second + Duration::from_nanos(nanoseconds));
        assert_eq!(sync(&server, here(from.path()), here(to.path())).0.objects, 1, "{nanoseconds}");
        assert_eq!(std::fs::read(to.path().join("f")).unwrap(), content);
        assert_eq!(sync(&server, here(from.path()), here(to.path())).0.skipped, 1, "{nanoseconds}");
        let update = TransferSettings { compare: Compare::Newer, ..TransferSettings::default() };
        assert!(!engine(&server, update).is_wanted(&here(&file), &here(&to.path().join("f"))).unwrap());
    }
}

#[test]
fn a_time_that_this_file_system_would_have_kept_is_a_change() {
    let server = QuirkStore::start(&[]);
    let (from, to) = (scratch(), scratch());
    let (file, copy) = (from.path().join("f"), to.path().join("f"));
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
    write(&file, b"one", time);
    for kept in [0, 120_000_000, 123_000_000, 123_456_000, 123_456_700] {
        write(&copy, b"one", SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, kept));
        assert_eq!(sync(&server, here(from.path()), here(to.path())).0.objects, 1, "{kept}");
        assert_eq!(modified(&copy), modified(&file));
        assert_eq!(sync(&server, here(from.path()), here(to.path())).0.skipped, 1, "{kept}");
    }
    write(&copy, b"one", SystemTime::UNIX_EPOCH + Duration::new(1_700_000_001, 0));
    assert_eq!(sync(&server, here(from.path()), here(to.path())).0.objects, 1);
}
