//! Lists the objects that a job should fetch: one object, or every object below a location. The
//! lists are lazy.

use firstbyte_location::{ByteRange, Entry, EntryKind, Location, Version};
use firstbyte_store::{Links, ListOptions, Store};

use crate::error::Error;

/// An object that could not be fetched.
#[derive(Clone, Debug)]
pub struct HydrationFailure {
    /// The location of the object.
    pub location: Location,
    /// The reason.
    pub error: Error,
}

/// An object to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HydrationItem {
    /// The location of the object.
    pub location: Location,
    /// The version of the object, if a listing reported it. This saves a request.
    pub version: Option<Version>,
    /// The range to fetch; `None` for the whole object.
    pub range: Option<ByteRange>,
}

impl HydrationItem {
    /// Returns the number of wanted bytes if the item shows it before the object is opened;
    /// otherwise 0.
    pub(crate) fn listed_bytes(&self) -> u64 {
        let size = self.version.as_ref().and_then(|version| version.size);
        self.range.map_or(size.unwrap_or_default(), |range| range.len())
    }
}

/// The objects to fetch, as they are found. An `Err` is an object that cannot be fetched, or a
/// listing that has failed.
pub type HydrationList =
    Box<dyn Iterator<Item = std::result::Result<HydrationItem, HydrationFailure>> + Send>;

/// Returns the object at `location` in its current version, which takes one request. A directory,
/// device, socket or pipe is a failure.
#[expect(clippy::result_large_err, reason = "an item of a list, made once an object")]
pub fn one(store: &Store, location: &Location) -> std::result::Result<HydrationItem, HydrationFailure> {
    let failed = |error| HydrationFailure { location: location.clone(), error };
    let stat = store.stat(location).map_err(|error| failed(error.into()))?;
    let text = location.to_string();
    match stat.kind {
        EntryKind::Directory => return Err(failed(Error::Directory { location: text })),
        EntryKind::Other => return Err(failed(Error::Special { location: text })),
        EntryKind::File | EntryKind::Symlink => {}
    }
    Ok(HydrationItem { location: location.clone(), version: Some(stat.version), range: None })
}

/// Lists every object below `root` lazily, or `root` itself if it is an object.
#[must_use]
pub fn below(store: &Store, root: &Location) -> HydrationList {
    let root = root.clone();
    let options = ListOptions { recursive: true, links: Links::Follow, ..ListOptions::default() };
    let failed = |location: &Location, error: firstbyte_store::Error| HydrationFailure {
        location: location.clone(),
        error: error.into(),
    };
    match store.list(&root, &options) {
        Err(firstbyte_store::Error::NotFound { .. }) => Box::new(std::iter::once(one(store, &root))),
        Err(error) => Box::new(std::iter::once(Err(failed(&root, error)))),
        Ok(listing) => Box::new(listing.filter_map(move |entry| match entry {
            Ok(entry) if entry.kind != EntryKind::File => None,
            Ok(entry) => Some(Ok(HydrationItem {
                location: root.join(&entry.name),
                version: version(&entry),
                range: None,
            })),
            Err(error) => Some(Err(failed(&root, error))),
        })),
    }
}

/// Returns the version that a listing reports, if it identifies the content.
fn version(entry: &Entry) -> Option<Version> {
    let version = Version { size: entry.size, etag: Some(entry.etag.clone()?), ..Version::default() };
    version.if_match().is_some().then_some(version)
}
