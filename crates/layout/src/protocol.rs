//! Defines the rules by which files are moved while they are used: the order of steps for each
//! operation.
//!
//! A file is in one of two places: flat in the root, or sharded in its directory. A conversion
//! moves files one way, from their *origin* to their *target*, while any number of readers, writers
//! and deleters work. The rules:
//!
//! 1. A move never overwrites a file. Only a writer that replaces a file does.
//! 2. A search looks at flat, then at sharded. If the file is at neither, it may have moved from
//!    sharded to flat in between. So it counts as missing only after the search has looked at flat,
//!    sharded and flat again *under the gate*.
//! 3. Under the gate the target cannot change, because a conversion must hold the gate exclusively
//!    before it reverses. So during a search under the gate, a file moves at most once and only in
//!    one direction, and looking three times finds it.
//! 4. Writers write only at the target, under the gate. A writer that replaces a file first moves
//!    the old file to the target, then renames the new file over it. So there are never two files
//!    of one name.
//! 5. Deleters remove the file at the origin and then at the target, under the gate. If the file
//!    moves in between, it is removed at the target.
//!
//! The rules are written against [`DiskSteps`], because they have two users: the file system, and a
//! model of it. The model tries all interleavings of several actors, each of which may be killed at
//! any step (`protocol/model.rs`).

/// One of the two places of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum FilePlace {
    /// In the root.
    Flat,
    /// In its directory.
    Sharded,
}

impl FilePlace {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Flat => Self::Sharded,
            Self::Sharded => Self::Flat,
        }
    }
}

/// Result of an attempt to move a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MoveResult {
    /// The file is at the target now.
    Done,
    /// There is no file at the origin.
    Absent,
    /// Another file is at the target. Both files are unchanged.
    Taken,
}

/// Steps on one name. Each step is atomic for other processes.
pub(crate) trait DiskSteps {
    type Error;

    /// Calls `work` with the target. The target cannot change until `work` returns.
    fn gated<T>(&self, work: impl FnOnce(FilePlace) -> Result<T, Self::Error>) -> Result<T, Self::Error>;

    /// Renames the file at `from` to its name at `to`, unless a file at `to` exists. `None` if the
    /// file system does not support such a rename.
    fn rename_exclusively(&self, from: FilePlace, to: FilePlace) -> Result<Option<MoveResult>, Self::Error>;

    /// Gives the file at `from` a second name at `to`, unless a file at `to` exists.
    fn link(&self, from: FilePlace, to: FilePlace) -> Result<MoveResult, Self::Error>;

    /// True if the names at both places are the same file. `None` if there is no file at `from`.
    fn are_one_file(&self, from: FilePlace, to: FilePlace) -> Result<Option<bool>, Self::Error>;

    /// Gives the new file its name at `place`, replacing a file that is there.
    fn install(&self, place: FilePlace) -> Result<(), Self::Error>;

    /// Removes the file at `place`. False if there was none.
    fn remove(&self, place: FilePlace) -> Result<bool, Self::Error>;
}

/// Moves a file by one rename. If the file system cannot do that, adds the new name and then
/// removes the old one. If the process is killed in between, the file has two names, which the next
/// attempt recognises.
pub(crate) fn move_file<D: DiskSteps>(
    disk: &D,
    from: FilePlace,
    to: FilePlace,
) -> Result<MoveResult, D::Error> {
    if let Some(moved) = disk.rename_exclusively(from, to)? {
        return Ok(moved);
    }
    let linked = match disk.link(from, to)? {
        MoveResult::Taken => match disk.are_one_file(from, to)? {
            Some(true) => MoveResult::Done,
            Some(false) => MoveResult::Taken,
            None => MoveResult::Absent,
        },
        linked => linked,
    };
    if linked == MoveResult::Done {
        disk.remove(from)?;
    }
    Ok(linked)
}

/// Finds a file: calls `open_at` with each place, first flat and then sharded, until a call returns
/// a result. Before the file counts as missing, calls it with flat, sharded and flat again under
/// the gate.
pub(crate) fn find_file<D: DiskSteps, T>(
    disk: &D,
    mut open_at: impl FnMut(FilePlace) -> Result<Option<T>, D::Error>,
) -> Result<Option<T>, D::Error> {
    if let Some(found) = first_of(&[FilePlace::Flat, FilePlace::Sharded], &mut open_at)? {
        return Ok(Some(found));
    }
    disk.gated(|_| first_of(&[FilePlace::Flat, FilePlace::Sharded, FilePlace::Flat], &mut open_at))
}

fn first_of<T, E>(
    places: &[FilePlace],
    open_at: &mut impl FnMut(FilePlace) -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    places.iter().find_map(|place| open_at(*place).transpose()).transpose()
}

/// Creates or replaces a file.
pub(crate) fn put<D: DiskSteps>(disk: &D) -> Result<(), D::Error> {
    disk.gated(|target| {
        // Two files of one name exist only if one of them was written by a program that does not
        // use the layout. Both are replaced.
        if move_file(disk, target.other(), target)? == MoveResult::Taken {
            disk.remove(target.other())?;
        }
        disk.install(target)
    })
}

/// Removes a file. False if it did not exist.
pub(crate) fn delete<D: DiskSteps>(disk: &D) -> Result<bool, D::Error> {
    disk.gated(|target| {
        let at_origin = disk.remove(target.other())?;
        Ok(disk.remove(target)? || at_origin)
    })
}

#[cfg(test)]
mod model;
