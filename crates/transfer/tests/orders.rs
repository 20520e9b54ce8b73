//! Tests stores that list out of order: syncing, comparing and deleting must see all names.

use crate::support::{engine, object, tree};

use std::collections::BTreeMap;
use std::path::Path;

use firstbyte_location::Location;
use firstbyte_store::{EntryOrder, Error as StoreError, ListOptions, WalkBounds};
use firstbyte_testkit::{Quirk, QuirkStore, scratch};
use firstbyte_transfer::{
    Check, ContentComparison, Difference, Effect, EmptySource, Error, Extras, Levels, NoObserver, Observer,
    SourceLimits, Summary, TransferSettings,
};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

/// Quirks with which a listing is out of order, or does not start where requested.
const ORDERS: [Quirk; 5] = [
    Quirk::UnsortedPages,
    Quirk::UnsortedListing,
    Quirk::ListsByDirectories,
    Quirk::IgnoresStartAfter,
    Quirk::RepeatsKeys,
];

/// Names that are sorted differently as keys, by directories, and by their components.
const NAMES: [&str; 14] = [
    "a", "a b", "b/021", "b/022", "b-1", "b.c", "d0/0", "d1/0", "d1-a", "d1.c", "d2/0", "e/f/g", "e/f-g",
    "e-f",
];

/// Makes the destination equal to the source, and deletes names that only the destination has.
fn mirror(server: &QuirkStore, source: &Location, destination: &Location) -> Summary {
    let tree = tree(source.clone(), destination.clone());
    engine(server, TransferSettings::default())
        .sync(&tree, Extras::Delete(EmptySource::Refuse), &NoObserver)
        .unwrap()
}

/// Returns the objects under `prefix` of a store, by their names without the prefix.
fn stored(server: &QuirkStore, prefix: &str) -> BTreeMap<String, Vec<u8>> {
    let objects = server.objects().into_iter();
    objects.filter_map(|(key, content)| Some((key.strip_prefix(prefix)?.to_owned(), content))).collect()
}

fn write(root: &Path, name: &str, content: &[u8]) {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[derive(Default)]
struct Differences(Mutex<Vec<String>>);

impl Observer for Differences {
    fn differs(&self, difference: &Difference) {
        self.0.lock().unwrap().push(format!("{difference:?}"));
    }
}

fn differences(server: &QuirkStore, source: &Location, destination: &Location) -> Vec<String> {
    let (told, select) = (Differences::default(), |_: &[u8]| true);
    let places = Check {
        source: source.clone(),
        destination: destination.clone(),
        select: &select,
        bounds: Default::default(),
        content: ContentComparison::Held,
    };
    let summary = engine(server, TransferSettings::default()).check(&places, &told).unwrap();
    assert!(summary.ended.is_none(), "{:?}", summary.ended);
    let told = told.0.into_inner().unwrap();
    assert_eq!(summary.differences, told.len() as u64);
    assert!(summary.objects <= NAMES.len() as u64, "{} compared", summary.objects);
    told
}

#[test]
fn a_sync_that_deletes_loses_nothing_whatever_order_a_store_lists_in() {
    for quirk in ORDERS {
        for page in [1, 2, 5] {
            let what = format!("{}, {page} keys a page", quirk.name());
            let server = QuirkStore::start(&[quirk]);
            server.set_page(page);
            let local = scratch();
            for name in NAMES {
                write(local.path(), name, name.as_bytes());
                server.insert(&format!("t/{name}"), name.as_bytes());
            }
            for extra in ["b/0", "d1", "zz"] {
                server.insert(&format!("t/{extra}"), b"extra");
            }
            let (here, there) = (Location::Local(local.path().to_owned()), object("t"));
            let wanted = files(local.path());
            // An upload, so the destination is out of order.
            let summary = mirror(&server, &here, &there);
            assert_eq!((summary.failures, summary.deleted), (0, 3), "{what}: {:?}", summary.failed);
            assert!(summary.ended.is_none(), "{what}: {:?}", summary.ended);
            assert!(stored(&server, "t/") == wanted, "{what}: {:?}", server.objects().keys());
            // A download, so the source is out of order.
            for extra in ["b/0", "d1-b", "zz"] {
                write(local.path(), extra, b"extra");
            }
            let summary = mirror(&server, &there, &here);
            assert_eq!((summary.failures, summary.deleted), (0, 3), "{what}: {:?}", summary.failed);
            assert!(files(local.path()) == wanted, "{what}: {:?}", files(local.path()).keys());
            // A copy between two prefixes, so both sides are out of order.
            server.insert("u/b/0", b"extra");
            server.insert("u/d1-a", b"other");
            let summary = mirror(&server, &there, &object("u"));
            assert_eq!((summary.failures, summary.deleted), (0, 1), "{what}: {:?}", summary.failed);
            assert!(stored(&server, "u/") == wanted, "{what}: {:?}", server.objects().keys());
        }
    }
}

#[test]
fn a_check_reports_what_differs_once_and_nothing_else_whatever_order_a_store_lists_in() {
    for quirk in ORDERS {
        for page in [1, 2, 5] {
            let what = format!("{}, {page} keys a page", quirk.name());
            let server = QuirkStore::start(&[quirk]);
            server.set_page(page);
            let local = scratch();
            for name in NAMES {
                write(local.path(), name, name.as_bytes());
                server.insert(&format!("t/{name}"), name.as_bytes());
            }
            let (here, there) = (Location::Local(local.path().to_owned()), object("t"));
            for (one, other) in [(&here, &there), (&there, &here), (&there, &there)] {
                assert_eq!(differences(&server, one, other), [""; 0], "{what}");
            }
            server.remove("t/d1-a");
            server.insert("t/b.c", b"longer");
            assert_eq!(differences(&server, &here, &there).len(), 2, "{what}");
            assert_eq!(differences(&server, &there, &here).len(), 2, "{what}");
        }
    }
}

#[test]
fn trees_are_copied_moved_and_removed_whole_whatever_order_a_store_lists_in() {
    for quirk in ORDERS {
        for page in [1, 2, 5] {
            let what = format!("{}, {page} keys a page", quirk.name());
            let server = QuirkStore::start(&[quirk]);
            server.set_page(page);
            NAMES.iter().for_each(|name| server.insert(&format!("t/{name}"), name.as_bytes()));
            let wanted = stored(&server, "t/");
            let engine = engine(&server, TransferSettings::default());
            let local = scratch();
            let down = tree(object("t"), Location::Local(local.path().to_owned()));
            let summary = engine.copy_tree(&down, &NoObserver).unwrap();
            assert_eq!((summary.objects, summary.failures), (NAMES.len() as u64, 0), "{what}");
            assert!(files(local.path()) == wanted, "{what}: {:?}", files(local.path()).keys());
            let removal = firstbyte_transfer::Removal {
                root: object("t"),
                extent: firstbyte_transfer::Extent::Whole,
                beginning: String::new(),
                levels: Levels::All,
                select: &|_| true,
                bounds: WalkBounds::default(),
                effect: Effect::Apply,
            };
            let removed = engine.remove(&removal, &NoObserver).unwrap();
            assert!(removed.failures == 0 && removed.ended.is_none(), "{what}: {:?}", removed.failed);
            assert!(server.objects().is_empty(), "{what}: {:?}", server.objects().keys());
        }
    }
}

#[test]
fn an_ordered_listing_of_an_unsorted_store_is_in_order_from_its_second_time_on_or_fails() {
    for quirk in ORDERS {
        for page in [1, 2, 5] {
            let server = QuirkStore::start(&[quirk]);
            server.set_page(page);
            NAMES.iter().for_each(|name| server.insert(name, b"x"));
            let engine = engine(&server, TransferSettings::default());
            let mut wanted = NAMES.map(|name| name.as_bytes().to_vec());
            wanted.sort();
            for start_after in [None, Some("b.c".to_owned())] {
                let options = ListOptions {
                    recursive: true,
                    order: EntryOrder::Bytes,
                    start_after: start_after.clone(),
                    ..ListOptions::default()
                };
                let list = || -> Result<Vec<_>, StoreError> {
                    engine.store().list(&object(""), &options)?.map(|entry| Ok(entry?.name)).collect()
                };
                let first = list();
                assert!(!matches!(&first, Err(error) if !matches!(error, StoreError::Disordered { .. })));
                let found = first.or_else(|_| list()).unwrap();
                let after = start_after.unwrap_or_default().into_bytes();
                let wanted: Vec<_> = wanted.iter().filter(|name| **name > after).cloned().collect();
                assert_eq!(found, wanted, "{}, {page} keys a page", quirk.name());
            }
        }
    }
}

#[test]
fn a_filter_protects_at_the_destination_what_it_hides_at_the_source() {
    let hour = Duration::from_secs(3_600);
    let now = SystemTime::now();
    let before = |age: Duration| now.checked_sub(age);
    let limits = [
        ("least size", SourceLimits { least_size: Some(10), ..SourceLimits::default() }, "small"),
        ("greatest size", SourceLimits { greatest_size: Some(10), ..SourceLimits::default() }, "large"),
        ("least age", SourceLimits { modified_until: before(hour), ..SourceLimits::default() }, "new"),
        ("greatest age", SourceLimits { modified_since: before(hour), ..SourceLimits::default() }, "old"),
    ];
    let state = |name: &str| match name {
        "small" => (3, now - 2 * hour),
        "large" => (30, now - 2 * hour),
        "new" => (10, now),
        _ => (10, now - 3 * hour),
    };
    for (what, limits, protected) in limits {
        let server = QuirkStore::start(&[]);
        let (from, to) = (scratch(), scratch());
        write(from.path(), "kept", b"0123456789");
        for name in ["small", "large", "new", "old"] {
            let (size, modified) = state(name);
            let content = vec![b'x'; size];
            write(to.path(), &format!("d/{name}"), &content);
            let file = std::fs::File::options().write(true).open(to.path().join("d").join(name)).unwrap();
            file.set_modified(modified).unwrap();
            server.insert_at(&format!("t/d/{name}"), &content, modified);
        }
        let here = Location::Local(from.path().to_owned());
        for there in [Location::Local(to.path().to_owned()), object("t")] {
            let settings = TransferSettings { limits, ..TransferSettings::default() };
            let tree = tree(here.clone(), there);
            let summary = engine(&server, settings)
                .sync(&tree, Extras::Delete(EmptySource::Refuse), &NoObserver)
                .unwrap();
            assert_eq!(summary.failures, 0, "{what}: {:?}", summary.failed);
        }
        for left in [files(to.path()), stored(&server, "t/")] {
            let takes = |name: &&str| {
                let (size, modified) = state(name);
                !limits.take(Some(size as u64), Some(modified))
            };
            let wanted: Vec<_> = ["large", "new", "old", "small"].iter().filter(|name| takes(name)).collect();
            assert!(wanted.contains(&&protected), "{what}");
            let left: Vec<_> = left.keys().filter_map(|name| name.strip_prefix("d/")).collect();
            assert!(left.iter().eq(wanted), "{what}: {left:?} are left");
        }
    }
}

#[test]
fn a_directory_with_a_protected_file_is_not_replaced_by_a_file() {
    let (from, to) = (scratch(), scratch());
    write(from.path(), "d", b"0123456789");
    write(to.path(), "d/small", b"x");
    let server = QuirkStore::start(&[]);
    let settings = TransferSettings {
        limits: SourceLimits { least_size: Some(5), ..SourceLimits::default() },
        ..TransferSettings::default()
    };
    let places = tree(Location::Local(from.path().to_owned()), Location::Local(to.path().to_owned()));
    let summary =
        engine(&server, settings).sync(&places, Extras::Delete(EmptySource::Refuse), &NoObserver).unwrap();
    assert!(matches!(&summary.failed[..], [failure] if matches!(failure.error, Error::Invalid { .. })));
    assert_eq!(files(to.path()).into_keys().collect::<Vec<_>>(), ["d/small"]);
}
