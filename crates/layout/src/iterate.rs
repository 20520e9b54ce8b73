//! Iterates over all names of a layout.
//!
//! The origin, from which files move, is listed completely before the target. So a file that moves
//! during the iteration may be seen twice, but is never missed. If the conversion was reversed by
//! the end, the listing starts again in the other order.

use firstbyte_listing::{Batch, DirectoryReader};
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::error::Result;
use crate::gate::LayoutGate;
use crate::name_places::place_of_files;
use crate::protocol::FilePlace;
use crate::reserved;
use crate::root::LayoutRoot;
use crate::scheme::LayoutScheme;
use crate::tally::type_of;

/// Bytes of names read at once, for each directory level.
const BATCH: usize = 64 << 10;

/// Iterates over the names in a [`Layout`](super::Layout). After an error, the iterator continues
/// with the next entry or directory, and ends if the next place to list is unknown.
#[derive(Debug)]
pub struct Iter<'a> {
    root: &'a LayoutRoot,
    scheme: LayoutScheme,
    /// The direction in which files moved when `places` was chosen; `None` before the start.
    target: Option<FilePlace>,
    /// Places that are still to be listed. The next place is at the end.
    places: Vec<FilePlace>,
    /// The place being listed.
    place: FilePlace,
    /// The directories being read. Each is inside the previous one.
    open: Vec<OpenLevel>,
    /// True if the next place to list is unknown, because the layout file is not readable.
    has_failed: bool,
}

/// A directory being read.
#[derive(Debug)]
struct OpenLevel {
    reader: DirectoryReader,
    batch: Batch,
    position: usize,
    /// Path below the root with a `/` at its end; empty for the root.
    path: Vec<u8>,
    /// The hash digits in the path.
    digits: Vec<u8>,
}

impl<'a> Iter<'a> {
    pub(crate) fn new(root: &'a LayoutRoot, scheme: LayoutScheme) -> Self {
        Self {
            root,
            scheme,
            target: None,
            places: Vec::new(),
            place: FilePlace::Flat,
            open: Vec::new(),
            has_failed: false,
        }
    }

    /// Chooses the place to list next. False when both places have been listed.
    fn next_place(&mut self) -> Result<bool> {
        if self.places.is_empty() {
            let now = LayoutGate::enter(self.root)?
                .record
                .map_or(FilePlace::Flat, |record| place_of_files(record.state));
            if self.target.replace(now) == Some(now) {
                return Ok(false);
            }
            self.places = vec![now, now.other()];
        }
        self.place = self.places.pop().unwrap_or(FilePlace::Flat);
        self.enter(Vec::new(), Vec::new())?;
        Ok(true)
    }

    fn enter(&mut self, path: Vec<u8>, digits: Vec<u8>) -> Result<()> {
        match self.root.directory(&path) {
            Ok(fd) => {
                let (reader, batch) = (DirectoryReader::from(fd), Batch::new(BATCH));
                self.open.push(OpenLevel { reader, batch, position: 0, path, digits });
                Ok(())
            }
            Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(self.root.error(&path, error)),
        }
    }

    /// Takes one step in the innermost directory. Returns a name, or `None` if the step read a
    /// batch, or entered or left a directory.
    fn step(&mut self, mut open: OpenLevel) -> Result<Option<Vec<u8>>> {
        if open.position == open.batch.len() {
            let more =
                open.reader.read(&mut open.batch).map_err(|error| self.root.error(&open.path, error))?;
            if more {
                self.open.push(OpenLevel { position: 0, ..open });
            }
            return Ok(None);
        }
        let entry = open.batch.entry(open.position);
        let path = [&open.path, entry.name()].concat();
        let kind = type_of(self.root, &path, &entry);
        let level = self.place == FilePlace::Sharded && self.scheme.is_level(entry.name());
        let digits = [&open.digits, entry.name()].concat();
        let name = self.scheme.name_of(&open.digits, entry.name());
        let listed = (self.place == FilePlace::Sharded) != open.path.is_empty()
            && !reserved::is_reserved(entry.name());
        let deeper = level && open.digits.len() < self.scheme.digits();
        open.position += 1;
        self.open.push(open);
        match kind? {
            FileType::Directory if deeper => {
                self.enter([&path, b"/".as_slice()].concat(), digits).map(|()| None)
            }
            FileType::RegularFile => Ok(listed.then_some(name)),
            _ => Ok(None),
        }
    }
}

impl Iterator for Iter<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let step = match self.open.pop() {
                Some(open) => self.step(open),
                None if self.has_failed => return None,
                None => match self.next_place() {
                    Ok(true) => continue,
                    Ok(false) => return None,
                    Err(error) => {
                        self.has_failed = true;
                        Err(error)
                    }
                },
            };
            if let Some(item) = step.transpose() {
                return Some(item);
            }
        }
    }
}

/// True if the root has any entry.
pub(crate) fn has_entries(root: &LayoutRoot) -> Result<bool> {
    let mut pages = root.read(b"", BATCH)?;
    while let Some(batch) = pages.next()? {
        if !batch.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}
