//! Files of a target and their pages: lists the files, finds the kind of their file system, counts
//! cached pages, evicts and reads files. Called by `bring` and `observe`.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, Advice};

use super::pages::{self, Method};

/// The kind of a file system, as it affects the caching of pages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// Its files' pages are in the page cache of the file itself.
    Plain,
    /// Pages may belong to another file below.
    Stacked,
    /// Its files exist only in memory (tmpfs, ramfs), so their pages are always resident.
    Memory,
    /// It has a cache of its own beside the page cache.
    OwnCache,
}

impl Kind {
    pub(super) fn of(file: &File) -> Self {
        // linux/magic.h; zfs is not in the kernel.
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

/// An open file, and the part of it that counts.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) kind: Kind,
    /// The part of the wanted range that the file has.
    pub(super) range: Range<u64>,
    /// Bytes that are allocated on the device.
    pub(super) allocated: u64,
    /// The device's number.
    pub(super) device: u64,
    /// True if mincore gives this process true answers.
    may_map: bool,
}

impl Opened {
    pub(super) fn open(path: &Path, range: Option<&Range<u64>>) -> io::Result<Self> {
        let file = File::open(path)?;
        let found = file.metadata()?;
        let all = 0..found.len();
        let part = range.map_or(all.clone(), |range| range.start.min(all.end)..range.end.min(all.end));
        let owns = found.uid() == rustix::process::geteuid().as_raw() || is_root();
        Ok(Self {
            kind: Kind::of(&file),
            range: part,
            allocated: found.blocks() * 512,
            device: found.dev(),
            may_map: owns || rustix::fs::access(path, Access::WRITE_OK).is_ok(),
            file,
        })
    }

    /// The length of the part that counts.
    pub(super) fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Bytes of it in the page cache.
    pub(super) fn resident(&self) -> io::Result<(u64, Method)> {
        if self.kind != Kind::Stacked
            && let Ok(bytes) = pages::by_cachestat(&self.file, &self.range)
        {
            return Ok((bytes, Method::Cachestat));
        }
        if !self.may_map {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "only its owner, root, or a process that may write it can see what is resident",
            ));
        }
        Ok((pages::by_mincore(&self.file, &self.range)?, Method::Mincore))
    }

    /// Asks the kernel to drop its pages. Those that are dirty or mapped stay.
    pub(super) fn evict(&self) -> io::Result<()> {
        rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed).map_err(io::Error::from)
    }

    /// Reads the part that counts, so that its pages are in the page cache.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<()> {
        let mut at = self.range.start;
        while at < self.range.end {
            let most = usize::try_from(self.range.end - at).unwrap_or(usize::MAX).min(buffer.len());
            match self.file.read_at(&mut buffer[..most], at) {
                Ok(0) => break,
                Ok(read) => at += read as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Whether this process may do what only root may.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The regular files among `paths` and below them, sorted. Links below a directory are not
/// followed.
pub(super) fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, (PathBuf, io::Error)> {
    let mut files = Vec::new();
    for path in paths {
        let found = fs::metadata(path).map_err(|error| (path.clone(), error))?;
        if found.is_dir() {
            below(path, &mut files)?;
        } else {
            files.push(path.clone());
        }
    }
    files.sort();
    files.dedup();
    Ok(files)
}

fn below(root: &Path, files: &mut Vec<PathBuf>) -> Result<(), (PathBuf, io::Error)> {
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).map_err(|error| (directory.clone(), error))? {
            let entry = entry.map_err(|error| (directory.clone(), error))?;
            let kind = entry.file_type().map_err(|error| (entry.path(), error))?;
            if kind.is_dir() {
                directories.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    Ok(())
}
