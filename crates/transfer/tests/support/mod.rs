//! Engines, locations and trees of a store with quirks, for the tests of whole trees.

use firstbyte_location::Location;
use firstbyte_store::{Options, Signing, Store};
use firstbyte_testkit::QuirkStore;
use firstbyte_transfer::{Effect, Engine, Levels, Names, Settings, Shard, Tree};

/// An engine whose S3 service is `server`.
pub(crate) fn engine(server: &QuirkStore, settings: Settings) -> Engine {
    let options = Options {
        endpoint_url: Some(server.url().to_owned()),
        region: Some("here-1".to_owned()),
        signing: Signing::Anonymous,
        ..Options::default()
    };
    Engine::new(Store::new(options).unwrap(), settings)
}

/// An object in the bucket of the store, or a prefix.
pub(crate) fn object(name: &str) -> Location {
    Location::parse(format!("s3://bucket/{name}").as_ref()).unwrap()
}

/// A whole tree, for a run that makes changes.
pub(crate) fn tree(source: Location, destination: Location) -> Tree<'static> {
    Tree {
        source,
        names: Names::Listed,
        destination,
        beginning: String::new(),
        levels: Levels::All,
        select: &|_| true,
        shard: Shard::default(),
        effect: Effect::Apply,
    }
}
