//! Tests that listings return the same names as `find`, byte for byte, on every kind of file
//! system.

mod support;

use std::path::Path;

use firstbyte_link::{SlowFs, SlowFsConfig};
use firstbyte_listing::{Detail, EntryOrder, ListingOptions, walk};
use firstbyte_testkit::lacks_root;
use support::mount::Mounted;
use support::{FoundNames, TREE, ahead, find, in_order, make_tree};

/// Number of files in the flat directory: enough for ext4 to be read from several positions.
const FLAT_FILES: u32 = 80_000;

/// Lists a tree by every method, and compares the names with those that `find` prints.
fn compare(name: &str, root: &Path) {
    let wanted = find(root);
    assert!(!wanted.is_empty());
    let check = |how: &str, found: Vec<Vec<u8>>| {
        let missing: Vec<_> =
            wanted.iter().filter(|name| found.binary_search(name).is_err()).take(5).collect();
        assert!(missing.is_empty(), "{name}, {how}: missing {missing:?}");
        assert!(found == wanted, "{name}, {how}: {} names, find has {}", found.len(), wanted.len());
    };
    for threads in [1, 2, 5] {
        for detail in [Detail::Names, Detail::Full] {
            let options = ListingOptions { threads: threads.try_into().ok(), detail, ..TREE };
            check(&format!("{threads} threads, {detail:?}"), FoundNames::below(root, &options).exact());
        }
    }
    let mut sorted: Vec<_> =
        walk(root, EntryOrder::Bytes, &TREE).unwrap().map(|entry| entry.unwrap().name).collect();
    sorted.sort();
    check("sorted", sorted);
    // In an overlay, the files are in the upper directory.
    let flat =
        ["flat", "upper/flat"].map(|flat| root.join(flat)).into_iter().find(|flat| flat.is_dir()).unwrap();
    assert!(ahead(&flat) == in_order(&flat), "{name}, read ahead: other names, or in another order");
}

fn make_and_compare(mounted: &Mounted, flat: u32) {
    make_tree(mounted.path(), flat);
    compare(mounted.name, mounted.path());
}

#[test]
fn names_are_those_of_find_on_the_temporary_directory() {
    let root = tempfile::tempdir().unwrap();
    make_tree(root.path(), FLAT_FILES);
    compare("temporary directory", root.path());
}

#[test]
fn names_are_those_of_find_on_ext4_with_and_without_an_index() {
    if !lacks_root() {
        make_and_compare(&Mounted::image("ext4", &["mkfs.ext4", "-q", "-N", "100000"]), FLAT_FILES);
        let plain = ["mkfs.ext4", "-q", "-N", "10000", "-O", "^dir_index"];
        make_and_compare(&Mounted::image("ext4 without index", &plain), 8_000);
    }
}

#[test]
fn names_are_those_of_find_on_xfs_and_btrfs() {
    if !lacks_root() {
        make_and_compare(&Mounted::image("xfs", &["mkfs.xfs", "-q"]), 20_000);
        make_and_compare(&Mounted::image("btrfs", &["mkfs.btrfs", "-q"]), 20_000);
    }
}

#[test]
fn names_are_those_of_find_on_tmpfs_and_overlay() {
    if !lacks_root() {
        let tmpfs = Mounted::tmpfs();
        let overlay = Mounted::overlay(&tmpfs);
        make_and_compare(&overlay, 20_000);
        drop(overlay);
        compare("tmpfs", tmpfs.path());
    }
}

#[test]
fn names_are_those_of_find_through_fuse() {
    if !lacks_root() {
        let source = tempfile::tempdir().unwrap();
        make_tree(source.path(), 3_000);
        let at = tempfile::tempdir().unwrap();
        let mounted = SlowFs::start(&SlowFsConfig::new(source.path(), [at.path()])).unwrap();
        compare("fuse", at.path());
        assert!(mounted.counters()[0].requests > 3_000);
    }
}
