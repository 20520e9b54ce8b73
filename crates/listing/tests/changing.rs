//! Tests that names which exist all the time are listed exactly once, while other names are added
//! and removed.

mod support;

use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use firstbyte_listing::{Detail, EntryOrder, ListingOptions, walk};
use firstbyte_testkit::lacks_root;
use support::mount::Mounted;
use support::{FoundNames, TREE, ahead};

/// Number of files that stay: enough for ext4 to be read from several positions.
const PERMANENT_FILES: usize = 60_000;

/// Lists `root` repeatedly while other names are added and removed.
fn list_while_it_changes(root: &Path) {
    for number in 0..PERMANENT_FILES {
        File::create(root.join(format!("stays-{number}"))).unwrap();
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for half in 0..2 {
            let over = &over;
            scope.spawn(move || add_and_remove_names(root, half, over));
        }
        let listed = std::panic::catch_unwind(|| {
            for round in 0..6 {
                let detail = if round % 2 == 0 { Detail::Names } else { Detail::Size };
                check(FoundNames::below(root, &ListingOptions { detail, ..TREE }));
            }
            let mut sorted = FoundNames::default();
            for entry in walk(root, EntryOrder::Bytes, &TREE).unwrap() {
                *sorted.names.entry(entry.unwrap().name).or_default() += 1;
            }
            check(sorted);
            for _ in 0..4 {
                let mut read = FoundNames::default();
                for name in ahead(root) {
                    *read.names.entry(name).or_default() += 1;
                }
                check(read);
            }
        });
        over.store(true, Ordering::Relaxed);
        listed.unwrap();
    });
}

fn add_and_remove_names(root: &Path, half: u32, over: &AtomicBool) {
    for number in 0.. {
        let name = |number: u32| root.join(format!("goes-{half}-{number}"));
        fs::create_dir(name(number)).unwrap();
        File::create(name(number).join("inside")).unwrap();
        if number >= 100 {
            fs::remove_dir_all(name(number - 100)).unwrap();
        }
        if over.load(Ordering::Relaxed) {
            break;
        }
    }
}

fn check(found: FoundNames) {
    assert!(found.errors.is_empty(), "{:?}", found.errors);
    let stayed: Vec<u32> =
        found.names.iter().filter(|(name, _)| name.starts_with(b"stays-")).map(|(_, times)| *times).collect();
    assert_eq!(stayed.len(), PERMANENT_FILES);
    assert!(stayed.iter().all(|times| *times == 1), "{} doubled", stayed.iter().filter(|n| **n > 1).count());
}

#[test]
fn in_the_temporary_directory() {
    let root = tempfile::tempdir().unwrap();
    list_while_it_changes(root.path());
}

#[test]
fn on_ext4_and_tmpfs() {
    if !lacks_root() {
        list_while_it_changes(Mounted::image("ext4", &["mkfs.ext4", "-q", "-N", "100000"]).path());
        list_while_it_changes(Mounted::tmpfs().path());
    }
}
