//! Tests copies, skips and deletions of trees between local directories.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime};

use firstbyte_location::Location;
use firstbyte_store::{ReplaceKind, Store, StoreOptions};
use firstbyte_testkit::{Scripted, ScriptedReply, bytes, scratch, wait_limit};
use firstbyte_transfer::{
    Compare, CopyJob, Effect, EmptySource, Engine, Extras, Levels, NoObserver, Shard, TransferSettings, Tree,
    TreeNames,
};

fn engine(settings: TransferSettings) -> Engine {
    Engine::new(Store::new(StoreOptions::default()).unwrap(), settings)
}

fn tree(source: &Path, destination: &Path) -> Tree<'static> {
    Tree {
        source: Location::Local(source.to_owned()),
        names: TreeNames::Listed,
        destination: Location::Local(destination.to_owned()),
        beginning: String::new(),
        levels: Levels::All,
        select: &|_| true,
        bounds: Default::default(),
        shard: Shard::default(),
        effect: Effect::Apply,
    }
}

/// Creates `a.txt` and `a/x`, which are sorted differently as names and as paths, and `b`.
fn fill(root: &Path) {
    std::fs::create_dir_all(root.join("a")).unwrap();
    for (index, name) in ["a.txt", "a/x", "b"].iter().enumerate() {
        std::fs::write(root.join(name), bytes(index as u64, 1_000 + index)).unwrap();
    }
}

#[test]
fn a_second_sync_finds_nothing_to_do() {
    let (from, to) = (scratch(), scratch());
    fill(from.path());
    let first = engine(TransferSettings::default())
        .sync(&tree(from.path(), to.path()), Extras::Keep, &NoObserver)
        .unwrap();
    assert_eq!((first.objects, first.skipped, first.failures), (3, 0, 0));
    let second = engine(TransferSettings::default())
        .sync(&tree(from.path(), to.path()), Extras::Keep, &NoObserver)
        .unwrap();
    assert_eq!((second.objects, second.skipped, second.failures), (0, 3, 0));
}

#[test]
fn extras_are_deleted_only_if_requested() {
    let (from, to) = (scratch(), scratch());
    fill(from.path());
    std::fs::write(to.path().join("extra"), b"x").unwrap();
    let kept = engine(TransferSettings::default())
        .sync(&tree(from.path(), to.path()), Extras::Keep, &NoObserver)
        .unwrap();
    assert_eq!(kept.deleted, 0);
    let deleted = engine(TransferSettings::default())
        .sync(&tree(from.path(), to.path()), Extras::Delete(EmptySource::Refuse), &NoObserver)
        .unwrap();
    assert_eq!((deleted.deleted, deleted.skipped), (1, 3));
    assert!(!to.path().join("extra").exists() && to.path().join("a/x").exists());
}

#[test]
fn a_dry_run_touches_nothing() {
    let (from, to) = (scratch(), scratch());
    fill(from.path());
    std::fs::write(to.path().join("extra"), b"x").unwrap();
    let dry = Tree { effect: Effect::DryRun, ..tree(from.path(), to.path()) };
    let summary = engine(TransferSettings::default())
        .sync(&dry, Extras::Delete(EmptySource::Refuse), &NoObserver)
        .unwrap();
    assert_eq!((summary.objects, summary.deleted), (0, 0));
    assert_eq!(std::fs::read_dir(to.path()).unwrap().count(), 1);
}

#[test]
fn comparing_content_sees_what_times_do_not_tell() {
    let (from, to) = (scratch(), scratch());
    fill(from.path());
    let strict = || engine(TransferSettings { compare: Compare::Checksum, ..TransferSettings::default() });
    strict().sync(&tree(from.path(), to.path()), Extras::Keep, &NoObserver).unwrap();
    let modified = std::fs::metadata(from.path().join("b")).unwrap().modified().unwrap();
    std::fs::write(to.path().join("b"), bytes(99, 1_002)).unwrap();
    let file = std::fs::File::options().write(true).open(to.path().join("b")).unwrap();
    file.set_modified(modified).unwrap();
    let by_time = engine(TransferSettings::default())
        .sync(&tree(from.path(), to.path()), Extras::Keep, &NoObserver)
        .unwrap();
    assert_eq!((by_time.objects, by_time.skipped), (0, 3));
    let by_content = strict().sync(&tree(from.path(), to.path()), Extras::Keep, &NoObserver).unwrap();
    assert_eq!((by_content.objects, by_content.skipped), (1, 2));
    assert_eq!(std::fs::read(to.path().join("b")).unwrap(), bytes(2, 1_002));
}

fn write_at(path: &Path, content: &[u8], modified: SystemTime) {
    std::fs::write(path, content).unwrap();
    std::fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
}

#[test]
fn a_named_file_is_skipped_only_if_its_destination_has_the_same_bytes() {
    let root = scratch();
    let at = |name: &str| Location::Local(root.path().join(name));
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    for (name, content) in [("one", "mode=prod"), ("other", "mode=test"), ("same", "mode=prod")] {
        write_at(&root.path().join(name), content.as_bytes(), time);
    }
    let engine = engine(TransferSettings::default());
    assert!(!engine.is_unchanged(&at("one"), &at("other")).unwrap());
    assert!(engine.is_unchanged(&at("one"), &at("same")).unwrap());
    let jobs = ["other", "same"].map(|name| CopyJob {
        source: at("one"),
        destination: at(name),
        entry: None,
        over: ReplaceKind::File,
    });
    let summary = engine.copy_named(&mut jobs.into_iter().map(Ok), &NoObserver).unwrap();
    assert_eq!((summary.objects, summary.skipped), (1, 1));
    assert_eq!(std::fs::read(root.path().join("other")).unwrap(), b"mode=prod");
}

#[test]
fn an_edit_within_the_second_or_the_tick_of_the_copy_is_copied() {
    let (from, to) = (scratch(), scratch());
    let file = from.path().join("f");
    let at = |nanoseconds| SystemTime::UNIX_EPOCH + Duration::new(1_704_110_400, nanoseconds);
    let edits: [(&[u8], _); 5] = [
        (b"AAAA", at(0)),
        (b"BBBB", at(700_000_000)),
        (b"CCCC", at(0)),
        (b"DDDD", at(0) - Duration::from_millis(400)),
        (b"EEEE", at(120_000_000)),
    ];
    for (content, time) in edits.into_iter().chain([(&b"FFFF"[..], at(129_000_000))]) {
        write_at(&file, content, time);
        engine(TransferSettings::default())
            .sync(&tree(from.path(), to.path()), Extras::Keep, &NoObserver)
            .unwrap();
        assert_eq!(std::fs::read(to.path().join("f")).unwrap(), content);
    }
}

/// A barrier in a server that holds requests back until enough have arrived.
#[derive(Default)]
struct RequestBarrier {
    there: Mutex<usize>,
    changed: Condvar,
}

impl RequestBarrier {
    fn join(&self, wanted: usize) -> bool {
        let mut there = self.there.lock().unwrap();
        *there += 1;
        self.changed.notify_all();
        let waited = self.changed.wait_timeout_while(there, wait_limit(), |there| *there < wanted).unwrap();
        !waited.1.timed_out()
    }
}

#[test]
fn several_objects_are_compared_at_once() {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    let gathering = RequestBarrier::default();
    let server = Scripted::start(move |_, head| {
        if head.starts_with("GET / ") {
            let lines = NAMES.map(|name| format!("{{\"name\":\"{name}\",\"kind\":\"file\",\"size\":1}}\n"));
            return ScriptedReply::answer(
                "200 OK",
                &["content-type: application/x-ndjson"],
                lines.concat().as_bytes(),
            );
        }
        if head.starts_with("HEAD ") && !gathering.join(NAMES.len()) {
            return ScriptedReply::answer("404 Not Found", &[], b"");
        }
        let told = if head.starts_with("HEAD ") { &b""[..] } else { b"x" };
        ScriptedReply::raw("200 OK", &["content-length: 1", "etag: \"1\""], told)
    });
    let to = scratch();
    for name in NAMES {
        std::fs::write(to.path().join(name), b"x").unwrap();
    }
    let source = Location::parse(server.url().as_ref()).unwrap();
    let strict = engine(TransferSettings { compare: Compare::Checksum, ..TransferSettings::default() });
    let summary =
        strict.sync(&Tree { source, ..tree(to.path(), to.path()) }, Extras::Keep, &NoObserver).unwrap();
    assert_eq!((summary.skipped, summary.objects, summary.failures), (3, 0, 0), "{:?}", summary.failed);
}

#[test]
fn a_web_server_may_work_on_a_large_object_for_longer_than_on_others() {
    // A hundred requests allow one late write to be cut and sent again. With this many, the large
    // write could be cut.
    const SMALL: usize = 120;
    let (small, large) = (RequestBarrier::default(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&large);
    let server = Scripted::start(move |_, head| {
        if head.starts_with("PUT /large ") {
            counted.fetch_add(1, Ordering::Relaxed);
            small.join(SMALL + 1);
            // The delay is longer than all other requests take together, so the response to this
            // write is late.
            std::thread::sleep(Duration::from_secs(2));
        } else if head.starts_with("PUT ") {
            small.join(0);
        } else {
            return ScriptedReply::answer("404 Not Found", &[], b"");
        }
        ScriptedReply::answer("201 Created", &[], b"")
    });
    let from = scratch();
    for index in 0..SMALL {
        std::fs::write(from.path().join(format!("{index:03}")), bytes(index as u64, 100)).unwrap();
    }
    std::fs::write(from.path().join("large"), bytes(1, 9 << 20)).unwrap();
    let destination = Location::parse(format!("{}/", server.url()).as_ref()).unwrap();
    let to = Tree { destination, ..tree(from.path(), from.path()) };
    let summary = engine(TransferSettings::default()).copy_tree(&to, &NoObserver).unwrap();
    assert_eq!((summary.objects, summary.failures), (SMALL as u64 + 1, 0), "{:?}", summary.failed);
    assert_eq!(large.load(Ordering::Relaxed), 1);
}

#[test]
fn shards_copy_a_tree_between_them() {
    let (from, to) = (scratch(), scratch());
    for index in 0..40 {
        std::fs::write(from.path().join(format!("file-{index}")), bytes(index, 100)).unwrap();
    }
    let copied: u64 = (0..3)
        .map(|index| {
            let part = Tree { shard: Shard { index, count: 3 }, ..tree(from.path(), to.path()) };
            engine(TransferSettings::default()).copy_tree(&part, &NoObserver).unwrap().objects
        })
        .sum();
    assert_eq!(copied, 40);
    assert_eq!(std::fs::read_dir(to.path()).unwrap().count(), 40);
}

#[test]
fn one_failure_does_not_stop_the_others() {
    let (from, to) = (scratch(), scratch());
    fill(from.path());
    std::fs::create_dir(to.path().join("b")).unwrap();
    let summary =
        engine(TransferSettings::default()).copy_tree(&tree(from.path(), to.path()), &NoObserver).unwrap();
    assert_eq!((summary.objects, summary.failures), (2, 1));
    assert!(summary.failed[0].location.ends_with("/b"));
}
