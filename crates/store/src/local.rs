//! Files on mounted file systems: pinned by identity, written beside the destination, put in place by rename.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::{Metadata, Result};

/// What is on stable storage when a write is reported done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// What the kernel likes: a power cut may lose files just written, never tear one that was there (the default).
    #[default]
    None,
    /// The bytes: `fdatasync` before the rename (large files), one `syncfs` per batch (many small ones).
    Data,
    /// Bytes, names and metadata: as `Data`, and the directory too.
    Full,
}

/// A file being written beside its destination, under `.NAME.firstbyte-part`. It is exclusively locked while open, so two writers of one destination do not
/// mix; it stays there when dropped uncommitted, to be resumed, unless discarded.
pub struct LocalFile {}

impl LocalFile {
    /// Opens or creates the partial file for `destination`.
    ///
    /// # Errors
    /// [`Io`](crate::Error::Io): no such directory, read-only, a directory is there, another writer holds it (`WouldBlock`).
    pub fn open(_destination: &Path) -> Result<Self> { panic!() }

    /// The file, for positioned writes.
    pub fn file(&self) -> &File { panic!() }

    /// Where the partial file lies.
    pub fn path(&self) -> &PathBuf { panic!() }

    /// Sets mtime and what else of `metadata` a file can carry, makes it durable as asked and renames it over the destination.
    ///
    /// # Errors
    /// [`Io`](crate::Error::Io); the destination is then as it was.
    pub fn commit(self, _metadata: &Metadata, _durability: Durability) -> Result<()> { panic!() }

    /// Removes it.
    ///
    /// # Errors
    /// [`Io`](crate::Error::Io).
    pub fn discard(self) -> Result<()> { panic!() }
}
