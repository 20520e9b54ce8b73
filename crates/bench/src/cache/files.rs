//! Files of a target and their pages: lists the files, finds the kind of their file system, counts
//! cached pages, evicts and reads files. Called by `bring` and `observe`.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, Advice};

use super::pages::{self, Method};
use super::spec::Spec;
use super::unreadable;
use crate::error::Result;
use crate::walk::{UnreadPath, files_below};

/// The kind of a file system, as it affects the caching of pages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// Pages are cached with the file itself.
    Plain,
    /// Pages may be cached with a file of a lower file system.
    Stacked,
    /// Files exist only in memory (tmpfs, ramfs), so their pages are always resident.
    Memory,
    /// The file system has a cache in addition to the page cache.
    OwnCache,
}

impl Kind {
    pub(super) fn of(file: &File) -> Self {
        // Magic numbers of linux/magic.h, and of zfs, which is not in the kernel.
        const MEMORY: [u64; 3] = [0x0102_1994, 0x8584_58F6, 0x9584_58F6];
        const STACKED: [u64; 3] = [0x794C_7630, 0xF15F, 0x6573_5546];
        const OWN_CACHE: [u64; 1] = [0x2FC1_2FC1];
        let Ok(found) = rustix::fs::fstatfs(file) else { return Self::Plain };
        let magic = found.f_type.cast_unsigned() & 0xFFFF_FFFF;
        match magic {
            magic if MEMORY.contains(&magic) => Self::Memory,
            magic if STACKED.contains(&magic) => Self::Stacked,
            magic if OWN_CACHE.contains(&magic) => Self::OwnCache,
            _ => Self::Plain,
        }
    }
}

#[derive(Debug)]
pub(super) struct OpenedFile {
    pub(super) file: File,
    pub(super) kind: Kind,
    /// Length in bytes.
    pub(super) bytes: u64,
    /// Bytes allocated on the device.
    pub(super) allocated: u64,
    /// Device number.
    pub(super) device: u64,
    /// True if mincore reports the real residency of the file's pages to this process.
    may_use_mincore: bool,
}

impl OpenedFile {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let found = file.metadata()?;
        let user = rustix::process::geteuid();
        let owns = found.uid() == user.as_raw() || user.is_root();
        Ok(Self {
            kind: Kind::of(&file),
            bytes: found.len(),
            allocated: found.blocks() * 512,
            device: found.dev(),
            may_use_mincore: owns || rustix::fs::access(path, Access::WRITE_OK).is_ok(),
            file,
        })
    }

    /// Counts the file's bytes in the page cache.
    pub(super) fn resident(&self) -> io::Result<(u64, Method)> {
        if self.kind != Kind::Stacked
            && let Ok(bytes) = pages::by_cachestat(&self.file, &(0..self.bytes))
        {
            return Ok((bytes, Method::Cachestat));
        }
        if !self.may_use_mincore {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "only its owner, root, or a process that may write it can see what is resident",
            ));
        }
        Ok((pages::by_mincore(&self.file, &(0..self.bytes))?, Method::Mincore))
    }

    /// Asks the kernel to drop the file's pages. Dirty and mapped pages stay.
    pub(super) fn evict(&self) -> io::Result<()> {
        rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed).map_err(io::Error::from)
    }

    /// Reads the file into the page cache.
    pub(super) fn read(&self) -> io::Result<()> {
        io::copy(&mut &self.file, &mut io::sink()).map(drop)
    }
}

/// Lists the `paths` that are not directories, and the regular files below those that are, sorted.
/// Links below a directory are not followed.
pub(super) fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let failed = |(path, error): UnreadPath| unreadable(&path, &error);
    let mut files = Vec::new();
    for path in paths {
        if fs::metadata(path).map_err(|error| failed((path.clone(), error)))?.is_dir() {
            let is_file = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
            files.extend(files_below(path).map_err(failed)?.into_iter().filter(is_file));
        } else {
            files.push(path.clone());
        }
    }
    files.sort();
    files.dedup();
    Ok(files)
}

/// Lists the files of the block caches.
pub(super) fn files_of_block_caches(spec: &Spec) -> Result<Vec<PathBuf>> {
    let caches = spec.objects.iter().map(|object| object.cache.clone());
    expand(&caches.filter(|directory| directory.is_dir()).collect::<Vec<_>>())
}
