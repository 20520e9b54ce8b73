//! Fetches files before they are opened: the next file of a series (`series`), the files that
//! follow an opened file in its directory (`siblings`), and the files that belong to an opened file
//! (`family`). The file system owns this value, and reports opened files and completely read
//! listings to it.

mod family;
mod series;
mod siblings;

use std::sync::Arc;

use firstbyte_hydrate::{HydrationItem, Hydrator};
use firstbyte_location::{ByteRange, Strength};

use crate::child::Child;
use crate::directory::KnownDirectories;
use crate::inodes::{name_of, parent};
use crate::options::MountOptions;
use crate::source::MountSource;
use crate::source::join;
use family::Families;
use series::Series;
use siblings::Siblings;

/// Decides which files to fetch ahead, and fetches them.
pub(crate) struct Prefetch {
    source: Arc<MountSource>,
    hydrator: Hydrator,
    directories: Arc<KnownDirectories>,
    series: Series,
    siblings: Siblings,
    families: Families,
    /// True if there is a cache that keeps fetched blocks.
    is_enabled: bool,
    /// Maximum length of a file for which an open waits, bytes.
    eager: u64,
}

impl Prefetch {
    pub(crate) fn new(
        source: Arc<MountSource>,
        hydrator: Hydrator,
        directories: Arc<KnownDirectories>,
        options: &MountOptions,
    ) -> Self {
        let is_enabled = hydrator.cache().is_some();
        Self {
            source,
            hydrator,
            directories,
            series: Series::default(),
            siblings: Siblings::default(),
            families: Families::default(),
            is_enabled,
            eager: options.eager,
        }
    }

    /// Records that the listing of a directory was read to its end.
    pub(crate) fn note_listing_read(&self, path: &[u8]) {
        self.siblings.note_listing_read(path);
    }

    /// Returns whether an open of a file of `size` bytes waits until the whole file is cached.
    pub(crate) fn is_eager(&self, size: u64) -> bool {
        (1..=self.eager).contains(&size)
    }

    /// Records that the file at `path` is opened. Returns the path of the file that is likely to be
    /// opened next, unless that path was returned before.
    pub(crate) fn next_in_series(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.series.open(path)
    }

    /// Returns the file at `path`, if it exists and opens wait for files of its length. The file
    /// must have a strong version: the cache would drop the content of any other version before the
    /// file is opened.
    pub(crate) fn wanted(&self, path: &[u8]) -> Option<HydrationItem> {
        let directory = parent(path);
        let name = name_of(path);
        let known = self.directories.snapshot_around(directory, name);
        let listed = match &known {
            // All names are known, so a name that is not among them has no file.
            Some(known) => Some(&*known.listed()[known.position(name)?].child),
            None => None,
        };
        let version = self.source.version(directory, name, listed)?;
        let pinned = version.strength() == Strength::Strong;
        let fits = pinned && version.size.is_some_and(|size| self.is_eager(size));
        fits.then(|| HydrationItem {
            location: self.source.location(path),
            version: Some(version),
            range: None,
        })
    }

    /// Fetches a range of an object, and keeps its file open. `range` chooses the range by the
    /// length of the object, which must be known.
    fn fetch(&self, path: &[u8], child: &Child, range: impl FnOnce(u64) -> Option<ByteRange>) {
        let Some(version) = self.source.version(path, &child.name, Some(child)) else { return };
        let Some(range) = version.size.and_then(range) else { return };
        let file = self.hydrator.file(&self.source.location(&join(path, &child.name)), version);
        // The bytes stay in the cache. If the fetch fails, the read that needs the bytes reports
        // the error.
        file.prefetch(range, &self.siblings.interest());
        self.siblings.hold(file);
    }
}
