//! Tests that errors during a listing are reported together with the names, and that the listing
//! continues.

mod support;

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::ops::ControlFlow;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use firstbyte_listing::{Batch, Boundary, Depth, Detail, EntryOrder, ListingOptions, Symlinks, scan, walk};
use firstbyte_testkit::{lacks_root, unprivileged};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use support::mount::Mounted;
use support::{FoundNames, TREE};

fn tree(directories: &[&str]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), Permissions::from_mode(0o755)).unwrap();
    for directory in directories {
        fs::create_dir_all(root.path().join(directory)).unwrap();
        fs::write(root.path().join(directory).join("file"), "12345").unwrap();
    }
    root
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn names(found: &FoundNames) -> Vec<String> {
    found.names.keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

#[test]
fn a_directory_that_may_not_be_read_is_listed_and_named_as_an_error() {
    let root = tree(&["a", "closed", "z"]);
    mode(&root.path().join("closed"), 0);
    let found = unprivileged(|| FoundNames::below(root.path(), &TREE));
    assert_eq!(names(&found), ["a", "a/file", "closed", "z", "z/file"]);
    assert_eq!(found.errors.len(), 1);
    assert!(found.errors[0].contains("closed: Permission denied"), "{:?}", found.errors);
    let sorted = unprivileged(|| walk(root.path(), EntryOrder::Bytes, &TREE).unwrap().collect::<Vec<_>>());
    assert_eq!((sorted.len(), sorted.iter().filter(|entry| entry.is_err()).count()), (6, 1));
    mode(&root.path().join("closed"), 0o755);
}

#[test]
fn names_whose_details_may_not_be_read_are_listed_each_with_its_error() {
    let root = tree(&["listable"]);
    // The owner gets no search permission either, because the owner may be the user of the test.
    mode(&root.path().join("listable"), 0o444);
    let plain = unprivileged(|| FoundNames::below(root.path(), &TREE));
    assert_eq!((names(&plain), plain.errors.len()), (vec!["listable".into(), "listable/file".into()], 0));
    let full = ListingOptions { detail: Detail::Full, ..TREE };
    let found = unprivileged(|| FoundNames::below(root.path(), &full));
    assert_eq!(names(&found), ["listable", "listable/file"]);
    assert!(found.errors.len() == 1 && found.errors[0].contains("listable/file: "), "{:?}", found.errors);
    mode(&root.path().join("listable"), 0o755);
}

#[test]
fn a_root_that_is_missing_or_no_directory_or_closed_is_an_error() {
    let root = tree(&["closed"]);
    mode(&root.path().join("closed"), 0);
    for (name, why) in [("missing", "No such file"), ("closed/file", "Permission"), ("closed", "Permission")]
    {
        let error = unprivileged(|| {
            scan(&root.path().join(name), &TREE, FoundNames::default).unwrap_err().to_string()
        });
        assert!(error.contains(name) && error.contains(why), "{error}");
    }
    mode(&root.path().join("closed"), 0o755);
    let error = scan(&root.path().join("closed/file"), &TREE, FoundNames::default).unwrap_err().to_string();
    assert!(error.contains("Not a directory"), "{error}");
}

#[test]
fn entries_that_vanish_during_a_listing_are_left_out_without_an_error() {
    let directories: Vec<String> = (0..50).map(|n| format!("d{n}")).collect();
    let root = tree(&directories.iter().map(String::as_str).collect::<Vec<_>>());
    let one = ListingOptions { threads: 1.try_into().ok(), detail: Detail::Full, ..TREE };
    let errors = scan(root.path(), &one, || {
        let mut removed = false;
        let root = root.path();
        CountingVisitor(0, move || {
            if !removed {
                directories_below(root).for_each(|path| fs::remove_dir_all(path).unwrap());
                removed = true;
            }
        })
    });
    assert_eq!(errors.unwrap().iter().map(|tally| tally.0).sum::<usize>(), 0);
    assert_eq!(directories_below(root.path()).count(), 0);
}

fn directories_below(root: &Path) -> impl Iterator<Item = std::path::PathBuf> {
    fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path())
}

/// A visitor that counts errors and calls a function for every batch.
struct CountingVisitor<F>(usize, F);

impl<F: FnMut()> firstbyte_listing::Visitor for CountingVisitor<F> {
    fn visit(&mut self, batch: &mut Batch) -> ControlFlow<()> {
        self.0 += batch.errors().len();
        (self.1)();
        ControlFlow::Continue(())
    }
}

#[test]
fn followed_links_lead_on_and_one_that_leads_back_is_an_error() {
    let root = tree(&["a/b", "other"]);
    symlink("..", root.path().join("a/b/back")).unwrap();
    symlink("../other", root.path().join("a/aside")).unwrap();
    symlink("nowhere", root.path().join("dangling")).unwrap();
    symlink("itself", root.path().join("itself")).unwrap();
    let found = FoundNames::below(root.path(), &ListingOptions { symlinks: Symlinks::Follow, ..TREE });
    let wanted = [
        "a",
        "a/aside",
        "a/aside/file",
        "a/b",
        "a/b/back",
        "a/b/file",
        "dangling",
        "itself",
        "other",
        "other/file",
    ];
    assert_eq!(names(&found), wanted);
    let mut errors = found.errors;
    errors.sort();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(
        errors[0].contains("a/b/back: a symbolic link back") && errors[1].contains("itself: "),
        "{errors:?}"
    );
    let reported = FoundNames::below(root.path(), &TREE);
    assert_eq!((reported.names.len(), reported.errors.len()), (9, 0));
}

#[test]
fn levels_below_the_asked_depth_are_not_entered() {
    let root = tree(&["a/b/c/d"]);
    let at = |depth| names(&FoundNames::below(root.path(), &ListingOptions { depth, ..TREE }));
    assert_eq!(at(Depth::OneLevel), ["a"]);
    assert_eq!(at(Depth::Levels(0)), ["a"]);
    assert_eq!(at(Depth::Levels(2)), ["a", "a/b", "a/b/c"]);
    assert_eq!(at(Depth::Recursive).len(), 5);
}

#[test]
fn a_mount_point_is_listed_and_entered_only_where_that_is_asked_for() {
    if !lacks_root() {
        let mounted = Mounted::tmpfs();
        fs::write(mounted.path().join("inside"), "").unwrap();
        let above = mounted.path().parent().unwrap();
        assert_eq!(names(&FoundNames::below(above, &TREE)), ["mounted", "mounted/inside"]);
        let stay = ListingOptions { boundary: Boundary::Stay, ..TREE };
        assert_eq!(names(&FoundNames::below(above, &stay)), ["mounted"]);
        let sorted: Vec<_> =
            walk(above, EntryOrder::Bytes, &stay).unwrap().map(|entry| entry.unwrap().name).collect();
        assert_eq!(sorted, [b"mounted"]);
    }
}

#[test]
fn a_visitor_that_breaks_off_ends_the_listing() {
    let directories: Vec<String> = (0..500).map(|n| format!("d{n}")).collect();
    let root = tree(&directories.iter().map(String::as_str).collect::<Vec<_>>());
    let small = ListingOptions { buffer: 1024.try_into().ok(), threads: 3.try_into().ok(), ..TREE };
    let visits = scan(root.path(), &small, || {
        let mut visits = 0;
        move |_: &mut Batch| {
            visits += 1;
            assert!(visits < 3, "visited again after breaking off");
            ControlFlow::Break(())
        }
    });
    assert!(visits.is_ok());
}

#[test]
fn a_tree_far_deeper_than_a_path_may_be_long_is_listed() {
    const LEVELS: usize = 3000;
    let root = tempfile::tempdir().unwrap();
    let mut at = openat(CWD, root.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..LEVELS {
        mkdirat(&at, "deeper", Mode::RWXU).unwrap();
        at = openat(&at, "deeper", OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let found: BTreeSet<usize> =
        FoundNames::below(root.path(), &TREE).exact().into_iter().map(|name| name.len()).collect();
    assert_eq!(found.len(), LEVELS);
    assert_eq!(found.last(), Some(&(LEVELS * 7 - 1)));
    let sorted =
        walk(root.path(), EntryOrder::Bytes, &ListingOptions { detail: Detail::Size, ..TREE }).unwrap();
    assert_eq!(sorted.filter(Result::is_ok).count(), LEVELS);
    // `rm` removes the tree, because the standard library would hold one descriptor per level.
    assert!(Command::new("rm").arg("-rf").arg(root.path().join("deeper")).status().unwrap().success());
}
