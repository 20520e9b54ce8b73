//! Tests stores that write an object's ETag in a listing in another form than in a response.

use crate::support::{engine, object, tree};

use firstbyte_location::Location;
use firstbyte_testkit::{Quirk, QuirkStore, scratch};
use firstbyte_transfer::{Check, ContentComparison, Extent, Move, NoObserver, TransferSettings};

#[test]
fn objects_are_copied_compared_and_moved_however_a_listing_writes_their_tags() {
    for quirk in [Quirk::BareTags, Quirk::CapitalTags] {
        let server = QuirkStore::start(&[quirk]);
        let engine = engine(&server, TransferSettings::default());
        for name in ["a", "b", "c"] {
            server.insert(&format!("t/{name}"), name.as_bytes());
        }
        let to = scratch();
        let down = tree(object("t"), Location::Local(to.path().to_owned()));
        let summary = engine.copy_tree(&down, &NoObserver).unwrap();
        assert_eq!((summary.objects, summary.failures), (3, 0), "{quirk:?}: {:?}", summary.failed);
        let summary = engine.copy_tree(&tree(object("t"), object("u")), &NoObserver).unwrap();
        assert_eq!((summary.objects, summary.failures), (3, 0), "{quirk:?}: {:?}", summary.failed);
        let places = Check {
            source: object("t"),
            destination: object("u"),
            select: &|_| true,
            bounds: Default::default(),
            content: ContentComparison::Held,
        };
        let summary = engine.check(&places, &NoObserver).unwrap();
        assert_eq!((summary.objects, summary.differences), (3, 0), "{quirk:?}");
        let moved = Move { tree: tree(object("t"), object("v")), extent: Extent::Whole };
        let summary = engine.move_tree(&moved, &NoObserver).unwrap();
        assert_eq!((summary.objects, summary.failures), (3, 0), "{quirk:?}: {:?}", summary.failed);
        assert_eq!(
            server.objects().into_keys().collect::<Vec<_>>(),
            ["u/a", "u/b", "u/c", "v/a", "v/b", "v/c"]
        );
    }
}
