//! Tests copies of the object `PREFIX/`, which marks the copied prefix: it arrives like every other
//! key, or is reported as failed.

use crate::support::{engine, object, tree};

use std::collections::BTreeMap;
use std::sync::Mutex;

use firstbyte_location::Location;
use firstbyte_store::Metadata;
use firstbyte_testkit::{QuirkStore, scratch};
use firstbyte_transfer::{
    Check, ContentComparison, Difference, EmptySource, Engine, Extent, Extras, Move, NoObserver, Observer,
    Summary, TransferSettings, Tree,
};

/// Creates a store with a marker of this content, and with metadata, at `p/`, and an object below
/// `p/`.
fn store_with_marker(content: &[u8]) -> QuirkStore {
    let server = QuirkStore::start(&[]);
    let file = scratch();
    let path = file.path().join("marker");
    std::fs::write(&path, content).unwrap();
    let metadata = Metadata { user: BTreeMap::from([("owner".into(), "me".into())]), ..Metadata::default() };
    let settings = TransferSettings { metadata, ..TransferSettings::default() };
    engine(&server, settings).copy(&Location::Local(path), &object("p/"), &NoObserver).unwrap();
    server.insert("p/y", b"1");
    server
}

#[derive(Default)]
struct Differences(Mutex<Vec<Difference>>);

impl Observer for Differences {
    fn differs(&self, difference: &Difference) {
        self.0.lock().unwrap().push(difference.clone());
    }
}

fn differences(server: &QuirkStore, source: Location, destination: Location) -> Vec<Difference> {
    let told = Differences::default();
    let places = Check {
        source,
        destination,
        select: &|_| true,
        bounds: Default::default(),
        content: ContentComparison::Held,
    };
    engine(server, TransferSettings::default()).check(&places, &told).unwrap();
    told.0.into_inner().unwrap()
}

#[test]
fn from_store_to_store_the_marker_of_the_prefix_is_copied_compared_moved_and_deleted() {
    for content in [&b"12345"[..], b""] {
        type Verb = fn(&Engine, Tree<'static>) -> Summary;
        let verbs: [Verb; 3] = [
            |engine, tree| engine.copy_tree(&tree, &NoObserver).unwrap(),
            |engine, tree| engine.sync(&tree, Extras::Delete(EmptySource::Refuse), &NoObserver).unwrap(),
            |engine, tree| engine.move_tree(&Move { tree, extent: Extent::Whole }, &NoObserver).unwrap(),
        ];
        for (number, verb) in verbs.into_iter().enumerate() {
            let server = store_with_marker(content);
            server.insert("q/y", b"1");
            let missing = Difference::OnlySource(object("p/"));
            assert_eq!(differences(&server, object("p"), object("q")), [missing]);
            let summary = verb(&engine(&server, TransferSettings::default()), tree(object("p"), object("q")));
            assert_eq!(summary.failures, 0, "{:?}", summary.failed);
            let objects = server.objects();
            assert_eq!(objects.get("q/").map(Vec::as_slice), Some(content), "verb {number}");
            assert_eq!(server.headers("q/").unwrap()["x-amz-meta-owner"], "me");
            match number {
                2 => assert!(!objects.keys().any(|key| key.starts_with("p/")), "{:?}", objects.keys()),
                _ => assert_eq!(differences(&server, object("p"), object("q")), []),
            }
        }
        let server = store_with_marker(content);
        server.insert("r/y", b"1");
        let extra = tree(object("r"), object("p"));
        let summary = engine(&server, TransferSettings::default())
            .sync(&extra, Extras::Delete(EmptySource::Refuse), &NoObserver)
            .unwrap();
        assert_eq!(summary.deleted, 1);
        assert!(!server.objects().contains_key("p/"));
    }
}

#[test]
fn a_marker_with_content_cannot_be_a_directory_and_is_named() {
    for (content, failures) in [(&b"12345"[..], 1), (b"", 0)] {
        let server = store_with_marker(content);
        let to = scratch();
        let places = || tree(object("p"), Location::Local(to.path().join("new")));
        let engine = engine(&server, TransferSettings::default());
        for summary in [
            engine.copy_tree(&places(), &NoObserver).unwrap(),
            engine.sync(&places(), Extras::Delete(EmptySource::Refuse), &NoObserver).unwrap(),
            engine.move_tree(&Move { tree: places(), extent: Extent::Whole }, &NoObserver).unwrap(),
        ] {
            assert_eq!(summary.failures, failures, "{:?}", summary.failed);
            assert!(summary.failed.iter().all(|failure| failure.location == "s3://bucket/p/"));
        }
        assert_eq!(std::fs::read(to.path().join("new/y")).unwrap(), b"1");
        // The move keeps the marker if it could not copy it.
        assert_eq!(server.objects().contains_key("p/"), failures == 1);
    }
}

#[test]
fn a_marker_below_the_prefix_is_named_each_time_if_it_has_content() {
    let server = QuirkStore::start(&[]);
    for (key, content) in
        [("p/a", &b"1"[..]), ("p/d/", b"12345"), ("p/d/b", b"2"), ("p/e/", b""), ("p/e/c", b"3")]
    {
        server.insert(key, content);
    }
    let to = scratch();
    let places = || tree(object("p"), Location::Local(to.path().join("new")));
    let engine = engine(&server, TransferSettings::default());
    for _ in 0..2 {
        let summary = engine.sync(&places(), Extras::Delete(EmptySource::Refuse), &NoObserver).unwrap();
        let failed: Vec<&str> = summary.failed.iter().map(|failure| failure.location.as_str()).collect();
        assert_eq!(failed, ["s3://bucket/p/d/"]);
    }
    assert_eq!(std::fs::read(to.path().join("new/d/b")).unwrap(), b"2");
}

#[test]
fn a_local_directory_keeps_the_marker_of_its_copy_and_a_prefix_with_a_marker_alone_is_empty() {
    let server = store_with_marker(b"");
    let from = scratch();
    std::fs::write(from.path().join("y"), b"22").unwrap();
    let engine = engine(&server, TransferSettings::default());
    let up = tree(Location::Local(from.path().to_owned()), object("p"));
    let summary = engine.sync(&up, Extras::Delete(EmptySource::Refuse), &NoObserver).unwrap();
    assert_eq!((summary.deleted, summary.objects), (0, 1));
    server.remove("p/y");
    let refused =
        engine.sync(&tree(object("p"), object("q")), Extras::Delete(EmptySource::Refuse), &NoObserver);
    assert!(refused.is_err_and(|error| error.to_string().contains("is empty")));
}
