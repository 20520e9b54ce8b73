//! Keeps the files of a very large directory in many small directories, without an index: a hash
//! layout.
//!
//! The directory of a file is computed from the file's name alone ([`LayoutScheme`]), so a file is
//! found without a listing. By default, no directory holds more than some hundreds of files. A flat
//! directory becomes a layout in place, by renames ([`shard()`]), and back ([`unshard()`]), while
//! programs that go through [`Layout`] read, write and delete. A layout holds regular files. Other
//! entries of its directory are ignored and never changed. `protocol` has the rules that make this
//! safe. The file `.firstbyte-layout` in the root records the shape of a layout.
//!
//! Programs that write while a conversion runs must use this interface. The files of other programs
//! may be moved while these programs use them, and [`check()`] finds files that other programs left
//! in the wrong place.

mod access;
mod check;
mod error;
mod gate;
mod iterate;
mod layout_request;
mod lock;
mod name_places;
mod protocol;
mod put;
mod record;
mod reserved;
mod root;
mod scheme;
mod shard;
mod spread;
mod stage;
mod survey;
mod tally;
mod unshard;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use firstbyte_location::DestinationName;
use rustix::buffer::spare_capacity;
use rustix::fs::Stat;
use rustix::io::Errno;

use gate::LayoutGate;
use name_places::NamePlaces;
use protocol::FilePlace;
use record::LayoutRecord;
use root::LayoutRoot;

pub use check::{Checked, LayoutFinding, Mend, Trouble, check};
pub use error::{Error, Result};
pub use iterate::Iter;
pub use layout_request::LayoutRequest;
pub use record::LayoutState;
pub use scheme::{DigitSource, LayoutScheme, Leaf, SchemeError};
pub use shard::shard;
pub use survey::{Survey, survey, survey_back};
pub use tally::{Converted, LayoutFailure};
pub use unshard::unshard;

/// Data that is on stable storage when a write returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LayoutDurability {
    /// No sync: a power cut may lose files that were just written.
    #[default]
    None,
    /// The file's content and name are synced.
    Full,
}

/// An open layout. Any number of threads and processes may use the same layout at once.
///
/// An open layout follows conversions by other processes. If a conversion makes the directory flat
/// again, the layout can still be used; files are then read and written in the root.
#[derive(Debug)]
pub struct Layout {
    root: LayoutRoot,
    scheme: LayoutScheme,
    durability: LayoutDurability,
}

impl Layout {
    /// Opens the layout in the directory `root`.
    ///
    /// # Errors
    /// [`Error::Missing`] if the directory is not a layout. [`Error::Newer`], [`Error::Malformed`],
    /// [`Error::Io`].
    pub fn open(root: &Path) -> Result<Self> {
        let root = LayoutRoot::open(root)?;
        let scheme = LayoutGate::layout(&root)?.scheme;
        Ok(Self { root, scheme, durability: LayoutDurability::None })
    }

    /// Makes an empty layout, and its directory if that does not exist.
    ///
    /// # Errors
    /// [`Error::NotEmpty`] if the directory has entries. [`Error::Io`].
    pub fn create(root: &Path, scheme: LayoutScheme) -> Result<Self> {
        root::make_root(root)?;
        let root = LayoutRoot::open(root)?;
        if iterate::has_entries(&root)? {
            return Err(Error::NotEmpty { root: root.path().to_owned() });
        }
        gate::establish(&root, LayoutRecord { scheme, state: LayoutState::Sharded })?;
        Ok(Self { root, scheme, durability: LayoutDurability::None })
    }

    /// Sets the durability of writes.
    #[must_use]
    pub fn with_durability(self, durability: LayoutDurability) -> Self {
        Self { durability, ..self }
    }

    /// Returns the root directory, as the caller gave it.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Returns the shape of the layout.
    #[must_use]
    pub fn scheme(&self) -> LayoutScheme {
        self.scheme
    }

    /// Returns the path where the file `name` belongs. The file need not exist.
    ///
    /// # Errors
    /// [`Error::Name`] if the layout cannot hold the name.
    pub fn path(&self, name: &[u8]) -> Result<PathBuf> {
        self.places(name).map(|places| self.root.join(places.path(FilePlace::Sharded)))
    }

    /// Finds the path where the file `name` is now. `None` if the file does not exist. While a
    /// conversion runs, the file may move before the caller opens the path. A caller that does not
    /// find the file there must call this again, or use [`open_file`](Self::open_file).
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Io`].
    pub fn find(&self, name: &[u8]) -> Result<Option<PathBuf>> {
        let places = self.places(name)?;
        protocol::find_file(&places, |place| {
            let path = places.path(place);
            Ok(self.root.has_file(path)?.then(|| self.root.join(path)))
        })
    }

    /// True if the file `name` exists.
    ///
    /// # Errors
    /// The same as for [`find`](Self::find).
    pub fn exists(&self, name: &[u8]) -> Result<bool> {
        self.find(name).map(|found| found.is_some())
    }

    /// Opens the file `name` for reading.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the file does not exist. [`Error::Name`], [`Error::Io`].
    pub fn open_file(&self, name: &[u8]) -> Result<File> {
        self.open_regular(name).map(|(file, _)| file)
    }

    /// Returns the content of the file `name`.
    ///
    /// # Errors
    /// The same as for [`open_file`](Self::open_file).
    pub fn get(&self, name: &[u8]) -> Result<Vec<u8>> {
        for _ in 1..root::ATTEMPTS {
            let (file, stat) = self.open_regular(name)?;
            match read(&file, &stat) {
                // Another machine has replaced the file since it was opened, so the read is
                // repeated.
                Err(error) if error.raw_os_error() == Some(Errno::STALE.raw_os_error()) => {}
                content => return content.map_err(|error| self.root.error(name, error)),
            }
        }
        Err(self.root.error(name, Errno::STALE))
    }

    fn open_regular(&self, name: &[u8]) -> Result<(File, Stat)> {
        let places = self.places(name)?;
        let found = protocol::find_file(&places, |place| self.root.regular(places.path(place)))?;
        found.ok_or_else(|| Error::NotFound { path: self.root.join(places.path(FilePlace::Sharded)) })
    }

    /// Removes the file `name`. False if the file did not exist.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Io`].
    pub fn delete(&self, name: &[u8]) -> Result<bool> {
        protocol::delete(&self.places(name)?)
    }

    /// Iterates over all names, in no particular order and in constant memory. A name that exists
    /// during the whole iteration is returned at least once. It may be returned twice if a
    /// conversion moves its file.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter::new(&self.root, self.scheme)
    }

    /// Counts the files by listing all names.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn count(&self) -> Result<u64> {
        self.iter().try_fold(0, |count, name| name.map(|_| count + 1))
    }

    fn places<'a>(&'a self, name: &'a [u8]) -> Result<NamePlaces<'a>> {
        NamePlaces::new(&self.root, self.scheme, name)
    }
}

impl<'a> IntoIterator for &'a Layout {
    type Item = Result<Vec<u8>>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Finds the path where the file `name` is now. `None` if the file does not exist. The directory
/// may be flat, a layout, or in conversion between the two.
///
/// # Errors
/// The errors of [`Layout::open`] and [`Layout::find`], except that the directory need not be a
/// layout.
pub fn find(root: &Path, name: &[u8]) -> Result<Option<PathBuf>> {
    if DestinationName::check(name).is_err() {
        let name = String::from_utf8_lossy(name).into_owned();
        return Err(Error::Name { name, why: scheme::NO_NAME });
    }
    loop {
        match Layout::open(root) {
            Err(Error::Missing { .. }) => {}
            layout => return layout?.find(name),
        }
        let flat = LayoutRoot::open(root)?;
        let found = flat.has_file(name)?;
        // If there is still no layout file, no file has moved since the first check for the layout
        // file.
        if found || LayoutGate::enter(&flat)?.record.is_none() {
            return Ok(found.then(|| flat.join(name)));
        }
    }
}

/// Reads the whole content of a file.
fn read(file: &File, stat: &Stat) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    // Reserves the known length and one more byte, so that the end is reached without a
    // reallocation.
    let length = usize::try_from(stat.st_size).unwrap_or_default().saturating_add(1);
    content.try_reserve_exact(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
    loop {
        match rustix::io::read(file, spare_capacity(&mut content)) {
            Ok(0) => return Ok(content),
            Ok(_) => content.try_reserve(1).map_err(|_| io::ErrorKind::OutOfMemory)?,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests;
