//! One open directory, read a buffer at a time.

use std::ffi::{CStr, OsStr};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use firstbyte_location::{Entry, Kind};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, StatxFlags};
use rustix::io::Errno;

use crate::{Detail, Error, Options, Result, Symlinks};

/// Some 2,000 entries of usual names a system call. A larger buffer gains nothing on warm ext4 (measured up to
/// 10 MiB), a smaller one costs calls.
const BUFFER: usize = 64 << 10;

/// What identifies a directory.
pub(crate) type Identity = (u64, u64);

/// A directory being read.
pub(crate) struct Directory {
    fd: OwnedFd,
    /// Path from the root with a `/` at its end; empty for the root itself.
    prefix: Vec<u8>,
}

impl Directory {
    /// Opens `name` relative to `at`. A link is followed only where the walk follows links.
    pub(crate) fn open(at: impl AsFd, name: &[u8], symlinks: Symlinks) -> rustix::io::Result<Self> {
        let mut flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if symlinks == Symlinks::Report {
            flags |= OFlags::NOFOLLOW;
        }
        let fd = rustix::fs::openat(at, name, flags, Mode::empty())?;
        Ok(Self { fd, prefix: [name, b"/"].concat() })
    }

    /// The root of a walk, whose entries are named from here.
    pub(crate) fn root(path: &Path) -> rustix::io::Result<Self> {
        let root = Self::open(rustix::fs::CWD, path.as_os_str().as_bytes(), Symlinks::Follow)?;
        Ok(Self { prefix: Vec::new(), ..root })
    }

    /// Its name below the root; empty for the root itself.
    pub(crate) fn name(&self) -> &[u8] {
        self.prefix.strip_suffix(b"/").unwrap_or_default()
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    pub(crate) fn identity(&self) -> rustix::io::Result<Identity> {
        rustix::fs::fstat(&self.fd).map(|stat| (stat.st_dev, stat.st_ino))
    }

    /// Appends the next buffer of entries to `found`; false when there are no more.
    pub(crate) fn read(
        &self,
        root: &Path,
        options: Options,
        found: &mut Vec<Result<Entry>>,
    ) -> rustix::io::Result<bool> {
        let mut buffer = Vec::<u8>::with_capacity(BUFFER);
        let mut entries = RawDir::new(&self.fd, aligned(buffer.spare_capacity_mut()));
        let mut more = false;
        while let Some(entry) = entries.next() {
            let entry = entry?;
            more = true;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                found.extend(self.describe(root, options, entry.file_name(), entry.file_type()));
            }
            if entries.is_buffer_empty() {
                break;
            }
        }
        Ok(more)
    }

    /// The entry called `name`, or nothing if it is gone by now.
    fn describe(&self, root: &Path, options: Options, name: &CStr, kind: FileType) -> Option<Result<Entry>> {
        let mut entry = Entry {
            name: [&self.prefix, name.to_bytes()].concat(),
            kind: kind_of(kind),
            size: None,
            modified: None,
            etag: None,
            storage_class: None,
        };
        let follow = options.symlinks == Symlinks::Follow;
        let known = kind != FileType::Unknown && !(follow && kind == FileType::Symlink);
        if known && options.detail == Detail::Names {
            return Some(Ok(entry));
        }
        let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let mask = StatxFlags::TYPE | StatxFlags::SIZE | StatxFlags::MTIME;
        match rustix::fs::statx(&self.fd, name, flags, mask) {
            Ok(stat) => {
                entry.kind = kind_of(FileType::from_raw_mode(stat.stx_mode.into()));
                entry.size = (entry.kind == Kind::File).then_some(stat.stx_size);
                entry.modified = time(stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec);
                Some(Ok(entry))
            }
            Err(Errno::NOENT) if !self.is_dangling(name, follow) => None,
            Err(error) => Some(Err(at(root, &entry.name, error))),
        }
    }

    /// Whether a name that leads nowhere is a link that is there itself.
    fn is_dangling(&self, name: &CStr, follow: bool) -> bool {
        follow && rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }
}

/// An error at `name` below `root`.
pub(crate) fn at(root: &Path, name: &[u8], source: impl Into<io::Error>) -> Error {
    Error::Io { path: below(root, name), source: source.into() }
}

/// The path of `name` below `root`.
pub(crate) fn below(root: &Path, name: &[u8]) -> PathBuf {
    if name.is_empty() { root.to_owned() } else { root.join(OsStr::from_bytes(name)) }
}

/// The part of a buffer that starts where a directory entry may: on 8 bytes.
fn aligned(buffer: &mut [MaybeUninit<u8>]) -> &mut [MaybeUninit<u8>] {
    let skip = buffer.as_ptr().align_offset(8);
    &mut buffer[skip..]
}

fn kind_of(kind: FileType) -> Kind {
    match kind {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        _ => Kind::Other,
    }
}

/// A file's time; seconds count down before 1970, nanoseconds always up.
fn time(seconds: i64, nanos: u32) -> Option<SystemTime> {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    second?.checked_add(Duration::from_nanos(nanos.into()))
}
