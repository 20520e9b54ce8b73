//! Decides how a file system is listed (threads, buffer size, splitting), from the type of the file
//! system, which its magic number gives.
//!
//! Measured on warm ext4, a buffer from 32 KiB to 10 MiB makes no difference to the kernel (0.18 to
//! 0.19 us an entry); 64 KiB stay in a core's cache until they are printed. On a network file
//! system a listing waits for answers, so it has more threads, and larger buffers, which a call may
//! fill. Those figures are estimates, not measurements, and [`Basis`] records that.

use std::fmt;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::StatFs;
use rustix::io::Errno;

use crate::{Error, Options, Result};

/// How far away a file system's data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// In memory or on this machine's disks: a listing is bound by processors.
    Local,
    /// Behind a network or another process: a listing is bound by answers.
    Remote,
}

/// What the positions in a directory are. This decides whether it can be read from several at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Positions {
    /// Hashes of the names, in order: any number is a place to start from.
    Hashes,
    /// Anything else.
    Opaque,
}

/// A kind of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Its usual name.
    pub name: &'static str,
    /// How far its data is.
    pub reach: Reach,
    magic: u64,
    positions: Positions,
    measured: bool,
}

const fn local(name: &'static str, magic: u64) -> FileSystem {
    FileSystem { name, reach: Reach::Local, magic, positions: Positions::Opaque, measured: true }
}

const fn remote(name: &'static str, magic: u64) -> FileSystem {
    FileSystem { name, reach: Reach::Remote, magic, positions: Positions::Opaque, measured: false }
}

/// Magic numbers are from the kernel's `linux/magic.h` and the file systems' own sources.
const KNOWN: &[FileSystem] = &[
    FileSystem { positions: Positions::Hashes, ..local("ext4", 0xEF53) },
    local("tmpfs", 0x0102_1994),
    local("xfs", 0x5846_5342),
    local("btrfs", 0x9123_683E),
    local("overlayfs", 0x794C_7630),
    FileSystem { measured: true, ..remote("fuse", 0x6573_5546) },
    remote("nfs", 0x6969),
    remote("lustre", 0x0BD0_0BD0),
    remote("smb", 0xFF53_4D42),
    remote("smb2", 0xFE53_4D42),
    remote("ceph", 0x00C3_6400),
    remote("9p", 0x0102_1997),
    remote("gpfs", 0x4750_4653),
    remote("beegfs", 0x1983_0326),
    remote("afs", 0x5346_414F),
];

/// One that is not known is treated as local: the plainest way.
const UNKNOWN: FileSystem = FileSystem { measured: false, ..local("unknown", 0) };

/// Bytes a local directory is read by at once.
const LOCAL_BUFFER: usize = 64 << 10;
/// Bytes a remote directory is read by at once. With 16 threads and details this stays below 32 MiB
/// in all.
const REMOTE_BUFFER: usize = 256 << 10;
/// Threads on a local file system at most. Beyond this the locks of the kernel's directory cache
/// bind.
const LOCAL_THREADS: usize = 8;
/// Threads that wait for a remote one's answers.
const REMOTE_THREADS: usize = 16;

/// The origin of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The default for this file system, measured to be good.
    Measured,
    /// The default for this file system, not measured yet.
    Unmeasured,
    /// Set by the caller's options.
    Asked,
}

/// How a listing reads directories, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// The file system of the root. Other file systems below it are read the same way.
    pub file_system: FileSystem,
    /// Bytes a directory is read by at once.
    pub buffer: usize,
    /// The origin of the buffer size.
    pub buffer_basis: Basis,
    /// Threads at most.
    pub threads: usize,
    /// The origin of the number of threads.
    pub threads_basis: Basis,
}

/// The number of a file system; 0 in a sandbox that refuses the question.
fn magic(found: rustix::io::Result<StatFs>) -> rustix::io::Result<u64> {
    match found {
        Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(0),
        found => Ok(found?.f_type as u64),
    }
}

impl Tuning {
    /// The tuning of a listing of `root` with these options.
    ///
    /// # Errors
    /// [`Error::Io`] if there is no such root.
    pub fn of(root: &Path, options: &Options) -> Result<Self> {
        let magic = magic(rustix::fs::statfs(root)).map_err(|error| Error::at(root, b"", error))?;
        Ok(Self::choose(magic, options))
    }

    pub(crate) fn of_open(root: impl AsFd, options: &Options) -> rustix::io::Result<Self> {
        Ok(Self::choose(magic(rustix::fs::fstatfs(root))?, options))
    }

    fn choose(magic: u64, options: &Options) -> Self {
        // The type of this field is signed on some machines: SMB's numbers would come with 32 more
        // bits.
        let magic = magic & 0xFFFF_FFFF;
        let file_system = KNOWN.iter().find(|known| known.magic == magic).copied().unwrap_or(UNKNOWN);
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let (buffer, threads) = match file_system.reach {
            Reach::Local => (LOCAL_BUFFER, processors.min(LOCAL_THREADS)),
            Reach::Remote => (REMOTE_BUFFER, REMOTE_THREADS),
        };
        let default = if file_system.measured { Basis::Measured } else { Basis::Unmeasured };
        let basis = |asked: Option<NonZeroUsize>| if asked.is_some() { Basis::Asked } else { default };
        Self {
            file_system,
            buffer: options.buffer.map_or(buffer, NonZeroUsize::get),
            buffer_basis: basis(options.buffer),
            threads: options.threads.map_or(threads, NonZeroUsize::get),
            threads_basis: basis(options.threads),
        }
    }

    /// Whether several threads may read one directory of the root's file system from several
    /// positions.
    pub(crate) fn splits(&self) -> bool {
        self.file_system.positions == Positions::Hashes && self.threads > 1
    }

    /// Whether this position is the end of a directory on the root's file system. ext4 gives this
    /// position to the last entry, and no name hashes to it (`EXT4_HTREE_EOF_64BIT` in its
    /// `fs/ext4/ext4.h`). This saves a call per directory.
    pub(crate) fn is_end(&self, position: i64) -> bool {
        self.file_system.positions == Positions::Hashes && position == i64::MAX
    }
}

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = |basis| match basis {
            Basis::Measured => "measured",
            Basis::Unmeasured => "not measured on it",
            Basis::Asked => "asked for",
        };
        write!(
            f,
            "{}: buffer {} KiB ({}), threads {} ({})",
            self.file_system.name,
            self.buffer.div_ceil(1024),
            why(self.buffer_basis),
            self.threads,
            why(self.threads_basis)
        )?;
        if self.splits() {
            f.write_str(", large directories from several positions")?;
        }
        Ok(())
    }
}
