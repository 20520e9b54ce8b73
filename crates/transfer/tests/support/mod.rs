//! Creates engines, locations and trees for tests with a store that has quirks.

use firstbyte_location::{Entry, EntryKind, Location};
use firstbyte_store::{Signing, Store, StoreOptions};
use firstbyte_testkit::QuirkStore;
use firstbyte_transfer::{Effect, Engine, Levels, Shard, TransferSettings, Tree, TreeNames};

/// Creates an engine whose S3 service is `server`.
pub(crate) fn engine(server: &QuirkStore, settings: TransferSettings) -> Engine {
    let options = StoreOptions {
        endpoint_url: Some(server.url().to_owned()),
        region: Some("here-1".to_owned()),
        signing: Signing::Anonymous,
        ..StoreOptions::default()
    };
    Engine::new(Store::new(options).unwrap(), settings)
}

/// Returns the location of an object or a prefix in the bucket of the test store.
pub(crate) fn object(name: &str) -> Location {
    Location::parse(format!("s3://bucket/{name}").as_ref()).unwrap()
}

/// Creates a tree without filters, for a run that makes changes.
pub(crate) fn tree(source: Location, destination: Location) -> Tree<'static> {
    Tree {
        source,
        names: TreeNames::Listed,
        destination,
        beginning: String::new(),
        levels: Levels::All,
        select: &|_| true,
        bounds: Default::default(),
        shard: Shard::default(),
        effect: Effect::Apply,
    }
}

/// Creates the entry of a file without a name, for a listing of given names.
pub(crate) fn file() -> Entry {
    Entry {
        name: Vec::new(),
        kind: EntryKind::File,
        size: None,
        modified: None,
        changed: None,
        etag: None,
        storage_class: None,
        version: None,
    }
}
