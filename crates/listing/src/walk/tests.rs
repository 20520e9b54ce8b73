use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use firstbyte_location::EntryKind;

use super::*;
use crate::options::{Boundary, Depth, Detail};

const TREE: ListingOptions = ListingOptions {
    depth: Depth::Recursive,
    symlinks: Symlinks::Report,
    detail: Detail::Size,
    boundary: Boundary::Cross,
    buffer: None,
    threads: None,
};

fn sorted(root: &Path, options: ListingOptions) -> Walk {
    walk(root, EntryOrder::Bytes, &options).unwrap()
}

fn tree(names: &[&str]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for name in names {
        let path = root.path().join(name);
        if name.ends_with('/') {
            fs::create_dir_all(path).unwrap();
        } else {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
    }
    root
}

fn names(walk: Walk) -> Vec<String> {
    walk.map(|entry| {
        let entry = entry.unwrap();
        let slash = if entry.kind == EntryKind::Directory { "/" } else { "" };
        String::from_utf8(entry.name).unwrap() + slash
    })
    .collect()
}

#[test]
fn sorted_names_come_in_the_order_of_an_object_store() {
    let root = tree(&["a/b", "a.txt", "a0", "a/a!/x", "a/a", "b/", "a!"]);
    let found = names(sorted(root.path(), TREE));
    assert_eq!(found, ["a!", "a.txt", "a/", "a/a", "a/a!/", "a/a!/x", "a/b", "a0", "b/"]);
    let mut sorted = found.clone();
    sorted.sort();
    assert_eq!(found, sorted);
}

#[test]
fn unsorted_and_sorted_walks_find_the_same_names_of_a_tree_larger_than_a_buffer() {
    let wanted: Vec<String> = (0..6000).map(|n| format!("d{}/{}-{n}", n % 7, "x".repeat(60))).collect();
    let root = tree(&wanted.iter().map(String::as_str).collect::<Vec<_>>());
    let plain = ListingOptions { detail: Detail::Names, ..TREE };
    let unsorted = names(walk(root.path(), EntryOrder::Any, &plain).unwrap());
    assert_eq!(unsorted.len(), 6007);
    let sorted = names(sorted(root.path(), TREE));
    assert!(sorted.is_sorted());
    assert_eq!(BTreeSet::from_iter(unsorted), BTreeSet::from_iter(sorted));
}

#[test]
fn one_level_shows_directories_and_does_not_enter_them() {
    let root = tree(&["a", "d/x"]);
    assert_eq!(names(sorted(root.path(), ListingOptions { depth: Depth::OneLevel, ..TREE })), ["a", "d/"]);
}

#[test]
fn size_and_time_are_given_on_request_and_a_name_need_not_be_utf8() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join(std::ffi::OsStr::from_bytes(b"\xff\xfe"));
    fs::write(&path, b"12345").unwrap();
    let entry = sorted(root.path(), TREE).next().unwrap().unwrap();
    assert_eq!((entry.name.as_slice(), entry.size), (&b"\xff\xfe"[..], Some(5)));
    assert_eq!(entry.modified.unwrap(), fs::metadata(&path).unwrap().modified().unwrap());
    let plain = ListingOptions { detail: Detail::Names, ..TREE };
    assert_eq!(sorted(root.path(), plain).next().unwrap().unwrap().size, None);
}

#[test]
fn times_before_1970_keep_their_fraction() {
    let root = tree(&["old"]);
    let time = std::time::UNIX_EPOCH - std::time::Duration::new(86_400, 250_000_000);
    fs::File::open(root.path().join("old")).unwrap().set_modified(time).unwrap();
    assert_eq!(sorted(root.path(), TREE).next().unwrap().unwrap().modified, Some(time));
}

#[test]
fn links_are_reported_or_followed_and_a_loop_and_a_dangling_link_are_named() {
    let root = tree(&["d/x"]);
    symlink("..", root.path().join("d/loop")).unwrap();
    symlink("nowhere", root.path().join("dangling")).unwrap();
    symlink("d/x", root.path().join("file")).unwrap();
    let kinds = |entry: Entry| (String::from_utf8(entry.name).unwrap(), entry.kind);
    let reported: Vec<_> = sorted(root.path(), TREE).map(|entry| kinds(entry.unwrap())).collect();
    let links = reported.iter().filter(|(_, kind)| *kind == EntryKind::Symlink).count();
    assert_eq!(links, 3, "{reported:?}");

    let follow = ListingOptions { symlinks: Symlinks::Follow, ..TREE };
    let (good, bad): (Vec<_>, Vec<_>) = sorted(root.path(), follow).partition(Result::is_ok);
    let good: Vec<_> = good.into_iter().map(|entry| kinds(entry.unwrap())).collect();
    assert!(
        good.contains(&("file".into(), EntryKind::File)) && good.contains(&("d/x".into(), EntryKind::File)),
        "{good:?}"
    );
    let bad: Vec<String> = bad.into_iter().map(|error| error.err().unwrap().to_string()).collect();
    assert_eq!(bad.len(), 2, "{bad:?}");
    assert!(bad[0].contains("d/loop") && bad[1].contains("dangling"), "{bad:?}");
}

#[test]
fn two_links_to_one_directory_are_no_loop() {
    let root = tree(&["d/x"]);
    symlink("d", root.path().join("e")).unwrap();
    symlink("d", root.path().join("f")).unwrap();
    let follow = ListingOptions { symlinks: Symlinks::Follow, ..TREE };
    assert_eq!(names(sorted(root.path(), follow)), ["d/", "d/x", "e/", "e/x", "f/", "f/x"]);
}

#[test]
fn a_failing_directory_is_a_value_and_the_rest_goes_on() {
    let root = tree(&["a/x", "b/x", "c/x"]);
    let mut found: Vec<Result<Entry>> = Vec::new();
    // A file replaces a listed directory. Unlike a missing permission, this fails for root too.
    for entry in sorted(root.path(), TREE) {
        if let Ok(entry) = &entry
            && entry.name == b"b"
        {
            fs::remove_dir_all(root.path().join("b")).unwrap();
            fs::write(root.path().join("b"), "").unwrap();
        }
        found.push(entry);
    }
    assert_eq!(found.iter().filter(|entry| entry.is_ok()).count(), 5);
    let errors: Vec<String> = found.into_iter().filter_map(|e| e.err().map(|e| e.to_string())).collect();
    assert!(errors.len() == 1 && errors[0].contains("/b: "), "{errors:?}");
}

#[test]
fn a_directory_that_vanishes_is_left_out() {
    let root = tree(&["a/x", "b/x"]);
    let mut walk = sorted(root.path(), TREE);
    assert_eq!(walk.next().unwrap().unwrap().name, b"a");
    fs::remove_dir_all(root.path().join("a")).unwrap();
    let rest: Vec<_> = walk.map(|entry| entry.unwrap().name).collect();
    assert_eq!(rest, [b"b".to_vec(), b"b/x".to_vec()]);
}

#[test]
fn a_root_that_is_missing_or_a_file_is_an_error_that_names_it() {
    let root = tree(&["file"]);
    for name in ["missing", "file"] {
        let error = walk(&root.path().join(name), EntryOrder::Bytes, &TREE).err().unwrap();
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn a_chain_of_directories_deeper_than_the_descriptor_limit_is_listed() {
    let deep = "d/".repeat(1500);
    let root = tree(&[&deep]);
    let before = fs::read_dir("/proc/self/fd").unwrap().count();
    let walk = sorted(root.path(), TREE);
    let mut most = 0;
    let mut count = 0;
    for entry in walk {
        entry.unwrap();
        count += 1;
        most = most.max(fs::read_dir("/proc/self/fd").unwrap().count());
    }
    assert_eq!(count, 1500);
    // Under plain `cargo test`, other tests of this process open descriptors at the same time.
    assert!(most < before + 100, "{before} descriptors before, {most} in the walk");
}
