//! Decides how a file system is listed (threads, buffer size, splitting), from the type of the file
//! system: as it is mounted, or by its magic number.
//!
//! Measured on warm ext4, a buffer from 32 KiB to 10 MiB makes no difference to the kernel (0.18 to
//! 0.19 us an entry); 64 KiB stay in a core's cache until they are printed. On a network file
//! system a listing waits for answers, so it has more threads, and larger buffers, which a call may
//! fill. Those figures are estimates, not measurements, and [`SettingBasis`] records that.

use std::fmt;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatFs};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::mounts;
use crate::options::{Detail, ListingOptions};

/// Distance of a file system's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystemReach {
    /// In memory or on this machine's disks: a listing is bound by processors.
    Local,
    /// Behind a network or another process: a listing is bound by waiting for responses.
    Remote,
}

impl FileSystemReach {
    /// Returns the reach of an open file or directory; `Local` if it cannot be determined.
    #[must_use]
    pub fn of(file: impl AsFd) -> Self {
        Tuning::of_open(file, &ListingOptions::default())
            .map_or(Self::Local, |tuning| tuning.file_system.reach)
    }
}

/// Meaning of the positions in a directory. It decides whether several can be read from at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Positions {
    /// Hashes of the names, in order: a read can start at any number.
    Hashes,
    /// Anything else.
    Opaque,
}

/// When the client of a network file system gets attributes with names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attributes {
    /// Always or never, whatever a program does.
    Fixed,
    /// As long as a program looks at entries between two reads. A type is an attribute, on
    /// NFS 4 too: Linux requests it with names alone since 6.8 ("NFS Client Updates for Linux 6.8",
    /// linux-nfs, January 2024), and looking costs little there.
    IfLooked,
}

/// A kind of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystemKind {
    /// Usual name, such as `ext4`.
    pub name: &'static str,
    /// Distance of the data.
    pub reach: FileSystemReach,
    magic: u64,
    positions: Positions,
    attributes: Attributes,
    measured: bool,
}

const fn local(name: &'static str, magic: u64) -> FileSystemKind {
    let (positions, attributes) = (Positions::Opaque, Attributes::Fixed);
    FileSystemKind { name, reach: FileSystemReach::Local, magic, positions, attributes, measured: true }
}

const fn remote(name: &'static str, magic: u64) -> FileSystemKind {
    FileSystemKind { reach: FileSystemReach::Remote, measured: false, ..local(name, magic) }
}

/// Magic number of every version of NFS. Without the type as mounted, NFS is treated as its oldest
/// version.
const NFS: u64 = 0x6969;

/// Magic numbers are from the kernel's `linux/magic.h` and the file systems' own sources.
const KNOWN: &[FileSystemKind] = &[
    FileSystemKind { positions: Positions::Hashes, ..local("ext4", 0xEF53) },
    local("tmpfs", 0x0102_1994),
    local("xfs", 0x5846_5342),
    local("btrfs", 0x9123_683E),
    local("overlayfs", 0x794C_7630),
    FileSystemKind { measured: true, ..remote("fuse", 0x6573_5546) },
    FileSystemKind { attributes: Attributes::IfLooked, measured: true, ..remote("nfs", NFS) },
    FileSystemKind { attributes: Attributes::IfLooked, measured: true, ..remote("nfs4", NFS) },
    remote("lustre", 0x0BD0_0BD0),
    remote("smb", 0xFF53_4D42),
    remote("smb2", 0xFE53_4D42),
    remote("ceph", 0x00C3_6400),
    remote("9p", 0x0102_1997),
    remote("gpfs", 0x4750_4653),
    remote("beegfs", 0x1983_0326),
    remote("afs", 0x5346_414F),
];

/// Stands for all other file systems, which are listed like local ones: the simplest way.
const UNKNOWN: FileSystemKind = FileSystemKind { measured: false, ..local("unknown", 0) };

/// Bytes of one read of a local directory.
const LOCAL_BUFFER: usize = 64 << 10;
/// Bytes of one read of a remote directory. With 16 threads and details all buffers stay below 32
/// MiB.
const REMOTE_BUFFER: usize = 256 << 10;
/// Bytes of the first read of an NFS directory if only names are needed. The client requests
/// attributes with the names (READDIRPLUS) until this read is full, and then names alone, if no
/// program has looked at an entry meanwhile. Those responses hold five times as many names
/// (docs/reference/listing.md).
const NFS_FIRST_READ: usize = 32 << 10;
/// Largest number of threads on a local file system. Beyond it the locks of the kernel's directory
/// cache are the limit.
const LOCAL_THREADS: usize = 8;
/// Threads on a remote file system. They mostly wait for responses.
const REMOTE_THREADS: usize = 16;

/// Entries to look at between two reads of a directory: more than the 8 for which an NFS client
/// continues to request attributes (`NFS_READDIR_CACHE_USAGE_THRESHOLD` in Linux's `fs/nfs/dir.c`).
const LOOKS: usize = 16;

/// The origin of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingBasis {
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
    pub file_system: FileSystemKind,
    /// Bytes of one read of a directory.
    pub buffer: usize,
    /// The origin of the buffer size.
    pub buffer_basis: SettingBasis,
    /// Most bytes of the first read of a directory.
    pub(crate) first_read: usize,
    /// Largest number of threads.
    pub threads: usize,
    /// The origin of the number of threads.
    pub threads_basis: SettingBasis,
}

/// Finds a file system by its device, else by `statfs`.
fn file_system(
    device: rustix::io::Result<u64>,
    statfs: impl FnOnce() -> rustix::io::Result<StatFs>,
) -> rustix::io::Result<FileSystemKind> {
    let mounted = mounts::type_of(device?);
    let known = mounted.as_deref().and_then(FileSystemKind::mounted_as);
    known.map_or_else(|| magic(statfs()).map(FileSystemKind::with_magic), Ok)
}

impl FileSystemKind {
    /// Finds the file system of an existing path. The server of a network file system is not asked
    /// for the type.
    ///
    /// # Errors
    /// [`Error::Io`] if there is no such path.
    pub fn of(path: &Path) -> Result<Self> {
        Tuning::of(path, &ListingOptions::default()).map(|tuning| tuning.file_system)
    }

    /// True for NFS of any version.
    #[must_use]
    pub fn is_nfs(&self) -> bool {
        self.magic == NFS
    }

    /// The file system that is mounted with this type.
    fn mounted_as(kind: &str) -> Option<Self> {
        let name = match kind {
            "cifs" | "smb3" => "smb2",
            "overlay" => "overlayfs",
            // The name of a FUSE program follows after a dot: `fuse.sshfs`.
            kind if kind.starts_with("fuse") => "fuse",
            kind => kind,
        };
        KNOWN.iter().find(|known| known.name == name).copied()
    }

    /// The file system with this number.
    fn with_magic(magic: u64) -> Self {
        // The type of this field is signed on some machines: SMB's numbers would come with 32 more
        // bits.
        let magic = magic & 0xFFFF_FFFF;
        KNOWN.iter().find(|known| known.magic == magic).copied().unwrap_or(UNKNOWN)
    }
}

/// Returns the magic number of a file system; 0 in a sandbox that refuses the call.
fn magic(found: rustix::io::Result<StatFs>) -> rustix::io::Result<u64> {
    match found {
        Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(0),
        found => Ok(found?.f_type as u64),
    }
}

impl Tuning {
    /// Chooses the tuning for a listing of `root` with these options.
    ///
    /// # Errors
    /// [`Error::Io`] if there is no such root.
    pub fn of(root: &Path, options: &ListingOptions) -> Result<Self> {
        let device = rustix::fs::statat(CWD, root, AtFlags::empty()).map(|stat| stat.st_dev);
        let found = file_system(device, || rustix::fs::statfs(root));
        let file_system = found.map_err(|error| Error::at(root, b"", error))?;
        Ok(Self::choose(file_system, options))
    }

    pub(crate) fn of_open(root: impl AsFd, options: &ListingOptions) -> rustix::io::Result<Self> {
        let device = rustix::fs::fstat(&root).map(|stat| stat.st_dev);
        let file_system = file_system(device, || rustix::fs::fstatfs(&root))?;
        Ok(Self::choose(file_system, options))
    }

    fn choose(file_system: FileSystemKind, options: &ListingOptions) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let (buffer, threads) = match file_system.reach {
            FileSystemReach::Local => (LOCAL_BUFFER, processors.min(LOCAL_THREADS)),
            FileSystemReach::Remote => (REMOTE_BUFFER, REMOTE_THREADS),
        };
        let default = if file_system.measured { SettingBasis::Measured } else { SettingBasis::Unmeasured };
        let basis = |asked: Option<NonZeroUsize>| if asked.is_some() { SettingBasis::Asked } else { default };
        Self {
            file_system,
            buffer: options.buffer.map_or(buffer, NonZeroUsize::get),
            buffer_basis: basis(options.buffer),
            first_read: match options.detail {
                Detail::Bare if file_system.is_nfs() && options.buffer.is_none() => NFS_FIRST_READ,
                _ => usize::MAX,
            },
            threads: options.threads.map_or(threads, NonZeroUsize::get),
            threads_basis: basis(options.threads),
        }
    }

    /// Whether several threads may read one directory of the root's file system from several
    /// positions.
    pub(crate) fn splits(&self) -> bool {
        self.file_system.positions == Positions::Hashes && self.threads > 1
    }

    /// Returns the number of entries to look at before a directory's next read, so that attributes
    /// keep coming with the names.
    pub(crate) fn looks(&self, detail: Detail) -> usize {
        let wants = match self.file_system.attributes {
            Attributes::Fixed => false,
            Attributes::IfLooked => detail != Detail::Bare,
        };
        if wants { LOOKS } else { 0 }
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
            SettingBasis::Measured => "measured",
            SettingBasis::Unmeasured => "not measured on it",
            SettingBasis::Asked => "asked for",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ext4_is_read_from_several_positions() {
        let splitting: Vec<_> = KNOWN
            .iter()
            .filter(|known| known.positions == Positions::Hashes)
            .map(|known| known.name)
            .collect();
        assert_eq!(splitting, ["ext4"]);
    }

    #[test]
    fn a_file_system_is_known_by_its_type_as_mounted_and_by_its_number() {
        let mounted = |kind| FileSystemKind::mounted_as(kind).map(|known| known.name);
        let found =
            ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "fuse", "overlay", "lustre", "proc"].map(mounted);
        let wanted = ["nfs", "nfs4", "smb2", "smb2", "fuse", "fuse", "overlayfs", "lustre"].map(Some);
        assert_eq!((&found[..8], found[8]), (&wanted[..], None));
        assert_eq!(FileSystemKind::with_magic(NFS).name, "nfs");
        // As a signed 32-bit number comes on some machines.
        assert_eq!(FileSystemKind::with_magic(0xFFFF_FFFF_FE53_4D42).name, "smb2");
    }

    #[test]
    fn entries_are_looked_up_where_attributes_follow_lookups() {
        let looks = |kind, detail| {
            let options = ListingOptions { detail, ..ListingOptions::default() };
            Tuning::choose(FileSystemKind::mounted_as(kind).unwrap(), &options).looks(detail) > 0
        };
        let of = |kind| [Detail::Bare, Detail::Names, Detail::Size].map(|detail| looks(kind, detail));
        assert_eq!(of("nfs"), [false, true, true]);
        assert_eq!(of("nfs4"), [false, true, true]);
        assert_eq!(of("cifs"), [false; 3]);
    }
}
