//! Tests runs whose source leads to their own destination, by links.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use firstbyte_location::{Entry, Location};
use firstbyte_store::{Listing, Store, StoreOptions};
use firstbyte_testkit::scratch;
use firstbyte_transfer::{
    Effect, EmptySource, Engine, Extras, NoObserver, Observer, Summary, TransferSettings, Tree, TreeNames,
};

use crate::support;

const DELETE: Extras = Extras::Delete(EmptySource::Refuse);

fn src_to_dst(root: &Path) -> Tree<'static> {
    support::tree(Location::Local(root.join("src")), Location::Local(root.join("dst")))
}

fn engine() -> Engine {
    Engine::new(Store::new(StoreOptions::default()).unwrap(), TransferSettings::default())
}

fn sync(tree: &Tree<'_>, extras: Extras) -> Summary {
    engine().sync(tree, extras, &NoObserver).unwrap()
}

/// Writes files, and makes their directories. A name that ends in `/` is an empty directory.
fn plant(root: &Path, names: &[&str]) {
    for name in names {
        let path = root.join(name);
        match name.strip_suffix('/') {
            Some(_) => fs::create_dir_all(path).unwrap(),
            None => {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, name).unwrap();
            }
        }
    }
}

fn is_planted(root: &Path, name: &str) -> bool {
    fs::read(root.join(name)).is_ok_and(|content| content == name.as_bytes())
}

#[test]
fn a_sync_does_not_delete_the_target_of_a_link_of_its_source() {
    for (link, target) in [
        ("z", "dst/old"),
        ("a", "dst/old"),
        ("deep/z", "dst/old"),
        ("data", "dst/shared"),
        ("data", "dst"),
        ("data", "again/shared"),
        ("old2", "dst/shared/one"),
    ] {
        let root = scratch();
        plant(root.path(), &["src/b", "src/deep/", "dst/old", "dst/shared/one"]);
        symlink(root.path().join("dst"), root.path().join("again")).unwrap();
        symlink(root.path().join(target), root.path().join("src").join(link)).unwrap();
        let listed = src_to_dst(root.path());
        let names = || {
            let entries = [link, "b"].map(|name| Entry { name: name.into(), ..support::file() });
            Ok(Listing::of(entries.into_iter().map(Ok)))
        };
        let given = Tree { names: TreeNames::Given(&names), ..src_to_dst(root.path()) };
        let dry = Tree { effect: Effect::DryRun, ..src_to_dst(root.path()) };
        for tree in [dry, listed, given] {
            let summary = sync(&tree, DELETE);
            let report = format!("{link} -> {target}: {:?}", summary.failed);
            assert_eq!(summary.deleted, 0, "{report}");
            assert!(summary.failures > 0 && report.contains("leads to the destination"), "{report}");
            assert!(
                is_planted(root.path(), "dst/old") && is_planted(root.path(), "dst/shared/one"),
                "{report}"
            );
        }
        assert_eq!(fs::read_to_string(root.path().join("dst/b")).unwrap(), "src/b");
    }
}

#[test]
fn a_link_to_its_own_copy_or_to_another_place_is_followed_and_extras_are_deleted() {
    let root = scratch();
    plant(root.path(), &["src/b", "dst/big/one", "dst/old", "elsewhere/two"]);
    for (link, target) in [("big", "dst/big"), ("far", "elsewhere")] {
        symlink(root.path().join(target), root.path().join("src").join(link)).unwrap();
    }
    let summary = sync(&src_to_dst(root.path()), DELETE);
    assert_eq!((summary.deleted, summary.failures), (1, 0), "{:?}", summary.failed);
    assert!(is_planted(root.path(), "dst/big/one") && !root.path().join("dst/old").exists());
    assert_eq!(fs::read_to_string(root.path().join("dst/far/two")).unwrap(), "elsewhere/two");
}

#[test]
fn a_link_to_the_destination_or_to_a_directory_that_holds_it_does_not_make_the_copy_grow() {
    for (link, target) in [("l", "dst"), ("l", "dst/sub"), ("sub/l", "dst/sub"), ("l", ".")] {
        let root = scratch();
        plant(root.path(), &["src/f", "src/sub/g", "dst/sub/"]);
        symlink(root.path().join(target), root.path().join("src").join(link)).unwrap();
        let entries = || walk(&root.path().join("dst"));
        let mut counts = Vec::new();
        for _ in 0..2 {
            engine().copy_tree(&src_to_dst(root.path()), &NoObserver).unwrap();
            sync(&src_to_dst(root.path()), Extras::Keep);
            counts.push(entries());
        }
        assert_eq!(counts[0], counts[1], "{link} -> {target}");
    }
}

fn walk(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { 1 + walk(&path) } else { 1 }).sum()
}

/// Counts the copies that completed while the extra file was still there.
struct Watch<'a>(&'a Path, AtomicU64);

impl Observer for Watch<'_> {
    fn finished(&self, _source: &Location, _destination: &Location, _bytes: u64) {
        self.1.fetch_add(u64::from(self.0.exists()), Ordering::Relaxed);
    }
}

#[test]
fn extras_are_deleted_after_the_copies_and_a_directory_after_what_it_held() {
    let root = scratch();
    plant(root.path(), &["src/y", "src/z", "dst/a/b/c", "dst/a/d", "dst/x"]);
    // A file of the destination is in the place of a directory of the source.
    plant(root.path(), &["src/m/n", "dst/m"]);
    let extra = root.path().join("dst/a/b/c");
    let watch = Watch(&extra, AtomicU64::new(0));
    let summary = engine().sync(&src_to_dst(root.path()), DELETE, &watch).unwrap();
    assert_eq!((summary.objects, summary.deleted, summary.failures), (3, 4, 0), "{:?}", summary.failed);
    assert_eq!(watch.1.into_inner(), 3);
    let mut left: Vec<_> =
        fs::read_dir(root.path().join("dst")).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["m", "y", "z"]);
}
