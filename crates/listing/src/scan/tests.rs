use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use firstbyte_location::EntryKind;

use super::*;
use crate::options::{Depth, Detail};

#[test]
fn every_name_of_a_wide_and_deep_tree_is_shown_once_whatever_the_threads_and_the_buffer() {
    let root = tempfile::tempdir().unwrap();
    let mut wanted = BTreeSet::new();
    for wide in 0..40 {
        let mut path = format!("d{wide}");
        for deep in 0..6 {
            fs::create_dir(root.path().join(&path)).unwrap();
            wanted.insert(path.clone());
            for file in 0..30 {
                let name = format!("{path}/{}{file}", "n".repeat(deep * 20));
                fs::write(root.path().join(&name), "").unwrap();
                wanted.insert(name);
            }
            path.push_str("/deeper");
        }
    }
    for (threads, buffer) in [(1, 1024), (1, 1 << 20), (2, 4096), (8, 1024), (8, 64 << 10)] {
        let options = ListingOptions {
            depth: Depth::Recursive,
            threads: threads.try_into().ok(),
            buffer: buffer.try_into().ok(),
            ..ListingOptions::default()
        };
        let found = scan(root.path(), &options, Names::default).unwrap();
        let found: Vec<String> = found.into_iter().flat_map(|names| names.0).collect();
        assert_eq!(found.len(), wanted.len(), "{threads} threads, {buffer} bytes");
        assert_eq!(BTreeSet::from_iter(found), wanted, "{threads} threads, {buffer} bytes");
    }
}

#[test]
fn visitors_run_in_the_working_directory_of_the_process_which_never_changes() {
    let root = tempfile::tempdir().unwrap();
    for directory in 0..20 {
        fs::create_dir(root.path().join(format!("d{directory}"))).unwrap();
        for file in 0..100 {
            fs::write(root.path().join(format!("d{directory}/{file}")), "ab").unwrap();
        }
    }
    let here = std::env::current_dir().unwrap();
    let options = ListingOptions {
        depth: Depth::Recursive,
        detail: Detail::Usage,
        threads: 2.try_into().ok(),
        buffer: 4096.try_into().ok(),
        ..ListingOptions::default()
    };
    assert!(Scan::open(root.path(), &options).unwrap().changes_directory(), "not a local file system");
    let sizes = AtomicU64::new(0);
    let sum = || {
        assert_eq!(std::env::current_dir().unwrap(), here);
        |batch: &mut Batch| {
            assert!(batch.errors().is_empty(), "{:?}", batch.errors());
            assert_eq!(std::env::current_dir().unwrap(), here);
            let files = batch
                .entries()
                .filter_map(|entry| entry.stat())
                .filter(|stat| stat.kind() == EntryKind::File);
            sizes.fetch_add(files.map(|stat| stat.size).sum(), Ordering::Relaxed);
            ControlFlow::Continue(())
        }
    };
    scan(root.path(), &options, sum).unwrap();
    assert_eq!(sizes.into_inner(), 20 * 100 * 2);
    assert_eq!(std::env::current_dir().unwrap(), here);
}

#[test]
fn a_directory_the_visitor_does_not_enter_is_listed_and_not_read() {
    let root = tempfile::tempdir().unwrap();
    for name in ["in/deep/x", "in/y", "out/deep/x"] {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let options = ListingOptions { depth: Depth::Recursive, ..ListingOptions::default() };
    let found = scan(root.path(), &options, || SelectiveVisitor(Names::default())).unwrap();
    let found: BTreeSet<String> = found.into_iter().flat_map(|chosen| chosen.0.0).collect();
    assert_eq!(found, ["in", "in/deep", "in/deep/x", "in/y", "out"].map(String::from).into());
}

#[test]
fn a_directorys_own_file_system_decides_whether_it_is_split() {
    let (disk, memory) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
    let options = ListingOptions { threads: 2.try_into().ok(), ..ListingOptions::default() };
    for root in [&disk, &memory] {
        let scan = Scan::open(root.path(), &options).unwrap();
        let worker = Worker::new(&scan, 0, Names::default(), ThreadCwd::shared());
        for below in [&disk, &memory] {
            let open = Arc::new(DirectoryHandle::root(below.path(), &Arc::default()).unwrap());
            let cursor = DirectoryCursor::new(open, Vec::new(), 1, false, None);
            assert_eq!(worker.splits(&cursor), Tuning::of(below.path(), &options).unwrap().splits());
        }
    }
}

/// Visitor that enters only directories whose path begins with `i`.
struct SelectiveVisitor(Names);

impl Visitor for SelectiveVisitor {
    fn visit(&mut self, batch: &mut Batch) -> ControlFlow<()> {
        self.0.visit(batch)
    }

    fn enters(&self, directory: &[u8], name: &[u8]) -> bool {
        [directory, name].concat().starts_with(b"i")
    }
}

#[derive(Default)]
struct Names(Vec<String>);

impl Visitor for Names {
    fn visit(&mut self, batch: &mut Batch) -> ControlFlow<()> {
        assert!(batch.errors().is_empty(), "{:?}", batch.errors());
        for directory in batch.directories() {
            let path = String::from_utf8(directory.path().to_vec()).unwrap();
            self.0.extend(
                directory.entries().map(|entry| path.clone() + std::str::from_utf8(entry.name()).unwrap()),
            );
        }
        ControlFlow::Continue(())
    }
}
