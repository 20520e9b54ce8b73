//! Implements [`DiskSteps`] with system calls, for the two places of one name in the file system.

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::gate::LayoutGate;
use crate::protocol::{DiskSteps, FilePlace, MoveResult, move_file};
use crate::record::{LayoutRecord, LayoutState};
use crate::root::{ATTEMPTS, LayoutRoot, file_type};
use crate::scheme::LayoutScheme;
use crate::stage::StagedFile;

/// A name in a layout, and its two places.
pub(crate) struct NamePlaces<'a> {
    root: &'a LayoutRoot,
    scheme: LayoutScheme,
    flat: &'a [u8],
    sharded: Vec<u8>,
    /// The new file to install, if the operation is a write.
    staged: Option<&'a StagedFile<'a>>,
}

impl<'a> NamePlaces<'a> {
    /// Computes the places of `name`.
    ///
    /// # Errors
    /// [`Error::Name`] if the layout cannot hold the name.
    pub(crate) fn new(root: &'a LayoutRoot, scheme: LayoutScheme, name: &'a [u8]) -> Result<Self> {
        let mut sharded = Vec::with_capacity(name.len() + 16);
        scheme.place(name, &mut sharded)?;
        Ok(Self { root, scheme, flat: name, sharded, staged: None })
    }

    /// Treats two given paths below the root as the two places of one name.
    pub(crate) fn between(
        root: &'a LayoutRoot,
        scheme: LayoutScheme,
        flat: &'a [u8],
        sharded: &[u8],
    ) -> Self {
        Self { root, scheme, flat, sharded: sharded.to_vec(), staged: None }
    }

    /// Adds the new file to install.
    pub(crate) fn with_staged(self, staged: &'a StagedFile<'a>) -> Self {
        Self { staged: Some(staged), ..self }
    }

    /// Returns the path of `place` below the root.
    pub(crate) fn path(&self, place: FilePlace) -> &[u8] {
        match place {
            FilePlace::Flat => self.flat,
            FilePlace::Sharded => &self.sharded,
        }
    }

    /// Checks that an entry is a regular file. A layout neither moves nor replaces other entries.
    fn check_is_file(&self, place: FilePlace, stat: &Stat) -> Result<()> {
        match file_type(stat) {
            FileType::RegularFile => Ok(()),
            FileType::Directory => Err(self.root.error(self.path(place), Errno::ISDIR)),
            _ => Err(Error::NoFile { path: self.root.join(self.path(place)) }),
        }
    }

    /// Calls `rename`. If it fails because directories above `to` are missing, makes them and calls
    /// it again. False if there is no file to rename.
    fn with_directories(&self, to: &[u8], mut rename: impl FnMut() -> Result<bool>) -> Result<bool> {
        for _ in 0..ATTEMPTS {
            if rename()? {
                return Ok(true);
            }
            if self.root.make_above(to)? == 0 {
                return rename();
            }
        }
        Err(self.root.error(to, Errno::NOENT))
    }
}

impl DiskSteps for NamePlaces<'_> {
    type Error = Error;

    fn gated<T>(&self, work: impl FnOnce(FilePlace) -> Result<T>) -> Result<T> {
        let gate = LayoutGate::enter(self.root)?;
        self.root.refresh_above(&self.sharded);
        match gate.record {
            None => work(FilePlace::Flat),
            Some(record) if record.scheme == self.scheme => work(place_of_files(record.state)),
            Some(LayoutRecord { scheme: found, .. }) => {
                let root = self.root.path().to_owned();
                Err(Error::Differs { root, found, wanted: self.scheme })
            }
        }
    }

    fn rename_exclusively(&self, from: FilePlace, to: FilePlace) -> Result<Option<MoveResult>> {
        // Usually no conversion is running, so there is no file at the origin. A stat shows this at
        // less cost than a failing rename.
        let Some(stat) = self.root.stat(self.path(from))? else { return Ok(Some(MoveResult::Absent)) };
        self.check_is_file(from, &stat)?;
        let (from, to) = (self.path(from), self.path(to));
        let mut outcome = None;
        self.with_directories(to, || {
            outcome = self.root.rename_exclusively(from, to).map_err(|error| self.root.error(to, error))?;
            Ok(outcome != Some(MoveResult::Absent))
        })?;
        Ok(outcome)
    }

    fn link(&self, from: FilePlace, to: FilePlace) -> Result<MoveResult> {
        let (from, to) = (self.path(from), self.path(to));
        let mut outcome = MoveResult::Absent;
        self.with_directories(to, || {
            outcome = self.root.link(from, to).map_err(|error| self.root.error(to, error))?;
            Ok(outcome != MoveResult::Absent)
        })?;
        Ok(outcome)
    }

    fn are_one_file(&self, from: FilePlace, to: FilePlace) -> Result<Option<bool>> {
        // Another machine may have moved the file after this machine cached both names.
        [from, to].into_iter().for_each(|place| self.root.refresh_above(self.path(place)));
        let Some(from) = self.root.stat(self.path(from))? else { return Ok(None) };
        let target = self.root.stat(self.path(to))?;
        let is_one = target.is_some_and(|to| (to.st_dev, to.st_ino) == (from.st_dev, from.st_ino));
        // Two spellings of one name are not two names: without the first, no name would be left.
        Ok(Some(is_one && self.root.is_listed(self.path(to))?))
    }

    fn install(&self, place: FilePlace) -> Result<()> {
        let to = self.path(place);
        if let Some(stat) = self.root.stat(to)? {
            self.check_is_file(place, &stat)?;
        }
        let staged = self.staged.ok_or_else(|| self.root.error(to, Errno::NOENT))?;
        let renamed = self.with_directories(to, || staged.rename(to))?;
        if renamed { Ok(()) } else { Err(self.root.error(to, Errno::NOENT)) }
    }

    fn remove(&self, place: FilePlace) -> Result<bool> {
        let path = self.path(place);
        Ok(self.root.has_file(path)? && self.root.remove(path)?)
    }
}

/// Returns the place where the files are in this state, or to which they move.
pub(crate) fn place_of_files(state: LayoutState) -> FilePlace {
    match state {
        LayoutState::Sharding | LayoutState::Sharded => FilePlace::Sharded,
        LayoutState::Unsharding => FilePlace::Flat,
    }
}

impl LayoutRoot {
    /// Moves a file from one path to another, unless `to` exists.
    pub(crate) fn move_exclusively(
        &self,
        scheme: LayoutScheme,
        from: &[u8],
        to: &[u8],
    ) -> Result<MoveResult> {
        move_file(&NamePlaces::between(self, scheme, from, to), FilePlace::Flat, FilePlace::Sharded)
    }
}
