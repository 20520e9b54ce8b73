//! Reads attributes that a directory does not state about its entries, by one system call for each
//! entry that needs them.

use std::ffi::CStr;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, StatxFlags};
use rustix::io::Errno;

use crate::batch::Batch;
use crate::bounds::WalkBounds;
use crate::error::{Error, below};
use crate::options::{Detail, Symlinks};
use crate::stat::InodeStat;
use crate::tuning::FileSystemReach;

/// The details to read, and the directory of the entries.
pub(crate) struct Details<'a, D> {
    pub(crate) directory: &'a D,
    /// Prefix of the paths in errors.
    pub(crate) root: &'a Path,
    pub(crate) symlinks: Symlinks,
    pub(crate) detail: Detail,
    pub(crate) reach: FileSystemReach,
    pub(crate) bounds: &'a WalkBounds,
}

impl<D: AsFd> Details<'_, D> {
    /// Adds details to the entries from `first` on, which must all be in one directory. Removes
    /// entries whose file no longer exists, and links that the caller refuses.
    pub(crate) fn add(&self, batch: &mut Batch, first: usize) {
        let mut errors = Vec::new();
        batch.complete_entries(
            first,
            self.detail.has_stats(),
            |kind| self.is_needed(kind),
            |path, name, kind, stat| {
                match self.stat(name, kind) {
                    Ok(found) => {
                        let target = FileType::from_raw_mode(found.mode.into());
                        if self.refuses(path, name, kind, target) {
                            let path = below(self.root, &[path, name.to_bytes()].concat());
                            errors.push(Error::Refused { path });
                            return None;
                        }
                        *stat = Some(found);
                        Some(target)
                    }
                    Err(Errno::NOENT) => None,
                    Err(error) => {
                        if self.bounds.reports_errors_of_entry(&[path, name.to_bytes()].concat(), kind) {
                            errors.push(self.error(path, name, error));
                        }
                        // The entry exists, so it is kept, with the type that the directory states.
                        Some(kind)
                    }
                }
            },
        );
        batch.errors.append(&mut errors);
    }

    fn is_needed(&self, kind: FileType) -> bool {
        self.detail.has_stats()
            || (kind == FileType::Unknown && self.detail != Detail::Bare)
            || (kind == FileType::Symlink && self.symlinks == Symlinks::Follow)
    }

    /// True if the entry is a link whose target the caller refuses.
    #[inline]
    fn refuses(&self, path: &[u8], name: &CStr, kind: FileType, target: FileType) -> bool {
        if self.bounds.refused.is_none() || self.symlinks == Symlinks::Report {
            return false;
        }
        let is_link = match kind {
            FileType::Symlink => true,
            FileType::Unknown => rustix::fs::statat(self.directory, name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink),
            _ => false,
        };
        is_link && self.bounds.refuses_link(&[path, name.to_bytes()].concat(), target)
    }

    #[inline]
    fn stat(&self, name: &CStr, kind: FileType) -> rustix::io::Result<InodeStat> {
        let ask = |flags| InodeStat::read(self.directory, name, flags, self.detail, self.reach);
        if self.symlinks == Symlinks::Report || !matches!(kind, FileType::Unknown | FileType::Symlink) {
            return ask(AtFlags::SYMLINK_NOFOLLOW);
        }
        match ask(AtFlags::empty()) {
            // The entry no longer exists, or it is a dangling link.
            Err(Errno::NOENT) => ask(AtFlags::SYMLINK_NOFOLLOW),
            found => found,
        }
    }

    fn error(&self, path: &[u8], name: &CStr, error: Errno) -> Error {
        let path = below(self.root, &[path, name.to_bytes()].concat());
        Error::Io { path, source: error.into() }
    }
}

/// Reads a cached attribute of `count` entries from `first` on. Because of this, an NFS client
/// continues to request attributes together with names. The client already has these entries'
/// attributes, so no server is asked.
pub(crate) fn read_attributes(batch: &Batch, first: usize, count: usize, directory: impl AsFd) {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    for entry in (first..batch.len()).take(count).map(|index| batch.entry(index)) {
        let _ = rustix::fs::statx(&directory, entry.c_name(), flags, StatxFlags::MODE);
    }
}
