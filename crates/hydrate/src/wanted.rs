//! What is to be brought here, found lazily: one object, everything below a location, what is to stay.

use firstbyte_location::{ByteRange, Entry, Kind, Location, Version};
use firstbyte_store::{ListOptions, Store};

use crate::Error;
use crate::cache::{Cache, Pin};
use crate::job::Failure;

/// What to bring here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The object.
    pub location: Location,
    /// Its version, where a listing has told it: saves a request.
    pub version: Option<Version>,
    /// The bytes wanted; all where none are given.
    pub range: Option<ByteRange>,
}

/// What is wanted, as it is found. An `Err` is an object that cannot be had, or a listing that broke off.
pub type WantedList = Box<dyn Iterator<Item = std::result::Result<Wanted, Failure>> + Send>;

/// The object at `location` in the version that is there now (one request). A directory is a failure.
#[expect(clippy::result_large_err, reason = "an item of a list, made once an object")]
pub fn one(store: &Store, location: &Location) -> std::result::Result<Wanted, Failure> {
    let failed = |error| Failure { location: location.clone(), error };
    let stat = store.stat(location).map_err(|error| failed(error.into()))?;
    if stat.kind == Kind::Directory {
        return Err(failed(Error::Directory { location: location.to_string() }));
    }
    Ok(Wanted { location: location.clone(), version: Some(stat.version), range: None })
}

/// Every object below `root`, as it is listed; `root` itself where it is one.
#[must_use]
pub fn below(store: &Store, root: &Location) -> WantedList {
    let (root, options) = (root.clone(), ListOptions { recursive: true, ..ListOptions::default() });
    let failed = |location: &Location, error: firstbyte_store::Error| Failure {
        location: location.clone(),
        error: error.into(),
    };
    match store.list(&root, &options) {
        Err(firstbyte_store::Error::NotFound { .. }) => Box::new(std::iter::once(one(store, &root))),
        Err(error) => Box::new(std::iter::once(Err(failed(&root, error)))),
        Ok(listing) => Box::new(listing.filter_map(move |entry| match entry {
            Ok(entry) if entry.kind != Kind::File => None,
            Ok(entry) => {
                Some(Ok(Wanted { location: root.join(&entry.name), version: version(&entry), range: None }))
            }
            Err(error) => Some(Err(failed(&root, error))),
        })),
    }
}

/// The same, each pinned before its first block comes, so that none of them goes again while the others come.
#[must_use]
#[expect(clippy::result_large_err, reason = "an item of a list, made once an object")]
pub fn pinned(list: WantedList, cache: &Cache, store: &Store) -> WantedList {
    let (cache, store) = (cache.clone(), store.clone());
    Box::new(list.map(move |wanted| {
        let wanted = wanted?;
        let failed = |error| Failure { location: wanted.location.clone(), error };
        let version = match &wanted.version {
            Some(version) => version.clone(),
            None => store.stat(&wanted.location).map_err(|error| failed(error.into()))?.version,
        };
        cache.version(&wanted.location, &version, None).map_err(failed)?.pin(Pin::Pinned);
        Ok(Wanted { version: Some(version), ..wanted })
    }))
}

/// The version a listing tells, where that pins the content.
fn version(entry: &Entry) -> Option<Version> {
    let version = Version { size: entry.size, etag: Some(entry.etag.clone()?), ..Version::default() };
    version.if_match().is_some().then_some(version)
}
