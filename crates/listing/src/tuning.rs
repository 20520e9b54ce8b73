//! Decides how a file system is listed (threads, buffer size, splitting). Knows the file system by
//! its type in the list of mounts, or by its magic number.
//!
//! Measured on ext4 with a warm cache, the kernel takes 0.18 to 0.19 us per entry with any buffer
//! from 32 KiB to 10 MiB. 64 KiB stay in a processor's cache until they are printed. On a network
//! file system a listing waits for responses, so it has more threads, and larger buffers, which a
//! call may fill. The figures for network file systems are estimates, as [`SettingBasis`] records.

use std::fmt;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatFs};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::mounts;
use crate::options::{Detail, ListingOptions};

/// Place of a file system's data, which decides what limits a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystemReach {
    /// The data is in memory or on this machine's disks. Processors limit the speed of a listing.
    Local,
    /// The data is behind a network or another process. Waiting for responses limits the speed of a
    /// listing.
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

/// Meaning of the positions in a directory. The meaning decides whether a directory can be read
/// from several positions at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Positions {
    /// Hashes of the names, in order. A reading can start at any number.
    Hashes,
    /// Anything else.
    Opaque,
}

/// Condition under which the client of a network file system gets attributes together with names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attributes {
    /// The client always or never gets the attributes, whatever a program does.
    Fixed,
    /// The client gets the attributes as long as a program reads attributes of entries between two
    /// reads of the directory. A type is an attribute, on NFS 4 too. Since Linux 6.8 the client
    /// requests types there even with names alone ("NFS Client Updates for Linux 6.8", linux-nfs,
    /// January 2024), and reading attributes costs little.
    WhileRead,
}

/// A kind of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystemKind {
    /// Usual name, such as `ext4`.
    pub name: &'static str,
    /// Place of the data.
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

/// Magic number of every version of NFS. If the type in the list of mounts is unknown, NFS is
/// treated as its oldest version.
const NFS: u64 = 0x6969;

/// The file systems with settings of their own. Magic numbers are from the kernel's `linux/magic.h`
/// and the file systems' own sources.
const KNOWN: &[FileSystemKind] = &[
    FileSystemKind { positions: Positions::Hashes, ..local("ext4", 0xEF53) },
    local("tmpfs", 0x0102_1994),
    local("xfs", 0x5846_5342),
    local("btrfs", 0x9123_683E),
    local("overlayfs", 0x794C_7630),
    FileSystemKind { measured: true, ..remote("fuse", 0x6573_5546) },
    FileSystemKind { attributes: Attributes::WhileRead, measured: true, ..remote("nfs", NFS) },
    FileSystemKind { attributes: Attributes::WhileRead, measured: true, ..remote("nfs4", NFS) },
    remote("lustre", 0x0BD0_0BD0),
    remote("smb", 0xFF53_4D42),
    remote("smb2", 0xFE53_4D42),
    remote("ceph", 0x00C3_6400),
    remote("9p", 0x0102_1997),
    remote("gpfs", 0x4750_4653),
    remote("beegfs", 0x1983_0326),
    remote("afs", 0x5346_414F),
];

/// Stands for all other file systems. They are listed like local ones, which is the simplest way.
const UNKNOWN: FileSystemKind = FileSystemKind { measured: false, ..local("unknown", 0) };

/// Number of bytes that one call reads from a local directory.
const LOCAL_BUFFER: usize = 64 << 10;
/// Number of bytes that one call reads from a remote directory. With 16 threads and details, all
/// buffers together take less than 32 MiB.
const REMOTE_BUFFER: usize = 256 << 10;
/// Number of bytes of the first read from an NFS directory if only names are needed. Until this
/// read is full, the client requests attributes with the names (READDIRPLUS). After it, the client
/// requests only names if no program has read an entry's attributes. The responses then hold five
/// times as many names (docs/reference/listing.md).
const NFS_FIRST_READ: usize = 32 << 10;
/// Maximum number of threads on a local file system. With more, the locks of the kernel's directory
/// cache are the limit.
const LOCAL_THREADS: usize = 8;
/// Number of threads on a remote file system. They mostly wait for responses.
const REMOTE_THREADS: usize = 16;

/// Number of entries of which attributes are read between two reads of a directory. An NFS client
/// continues to request attributes if at least 8 were read (`NFS_READDIR_CACHE_USAGE_THRESHOLD` in
/// Linux's `fs/nfs/dir.c`).
const LOOKED_UP_ENTRIES: usize = 16;

/// Origin of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingBasis {
    /// The default for this file system, chosen by measurement.
    Measured,
    /// The default for this file system, which is an estimate.
    Unmeasured,
    /// Set by the caller's options.
    Asked,
}

/// Settings with which a listing reads directories, and their origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// The file system of the root. Other file systems below it are read with the same settings,
    /// except that each decides whether its large directories are split.
    pub file_system: FileSystemKind,
    /// Number of bytes that one call reads from a directory.
    pub buffer: usize,
    /// The origin of the buffer size.
    pub buffer_basis: SettingBasis,
    /// Maximum bytes of the first read of a directory.
    pub(crate) max_first_read_bytes: usize,
    /// Maximum number of threads.
    pub threads: usize,
    /// The origin of the number of threads.
    pub threads_basis: SettingBasis,
}

/// Finds a file system by its device or, if that is not listed, by `statfs`.
fn file_system(
    device: rustix::io::Result<u64>,
    statfs: impl FnOnce() -> rustix::io::Result<StatFs>,
) -> rustix::io::Result<FileSystemKind> {
    let mounted = mounts::type_of(device?);
    let known = mounted.as_deref().and_then(FileSystemKind::mounted_as);
    known.map_or_else(|| magic(statfs()).map(FileSystemKind::with_magic), Ok)
}

impl FileSystemKind {
    /// Finds the file system of an existing path. Sends no request for the type to the server of a
    /// network file system.
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

    /// Returns the file system that has this type in the list of mounts.
    fn mounted_as(kind: &str) -> Option<Self> {
        let name = match kind {
            "cifs" | "smb3" => "smb2",
            "overlay" => "overlayfs",
            // The type of a FUSE file system may have the program's name after a dot, such as
            // `fuse.sshfs`.
            kind if kind.starts_with("fuse") => "fuse",
            kind => kind,
        };
        KNOWN.iter().find(|known| known.name == name).copied()
    }

    /// Returns the file system with this magic number.
    fn with_magic(magic: u64) -> Self {
        // On some machines this field is signed. SMB's number is then sign-extended by 32 bits.
        let magic = magic & 0xFFFF_FFFF;
        KNOWN.iter().find(|known| known.magic == magic).copied().unwrap_or(UNKNOWN)
    }
}

/// Returns the magic number of a file system. 0 if a sandbox refuses the call.
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
    /// [`Error::Io`] if `root` does not exist.
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
            max_first_read_bytes: match options.detail {
                Detail::Bare if file_system.is_nfs() && options.buffer.is_none() => NFS_FIRST_READ,
                _ => usize::MAX,
            },
            threads: options.threads.map_or(threads, NonZeroUsize::get),
            threads_basis: basis(options.threads),
        }
    }

    /// True if several threads may read one directory of the root's file system from several
    /// positions.
    pub(crate) fn splits(&self) -> bool {
        self.file_system.positions == Positions::Hashes && self.threads > 1
    }

    /// Returns the number of entries of which an attribute must be read between two reads of a
    /// directory, so that attributes keep coming with the names. 0 if none is needed.
    pub(crate) fn attribute_reads(&self, detail: Detail) -> usize {
        let wants = match self.file_system.attributes {
            Attributes::Fixed => false,
            Attributes::WhileRead => detail != Detail::Bare,
        };
        if wants { LOOKED_UP_ENTRIES } else { 0 }
    }

    /// True if this position is the end of a directory on the root's file system. ext4 gives the
    /// maximum position to the last entry, and no name has it as a hash (`EXT4_HTREE_EOF_64BIT` in
    /// its `fs/ext4/ext4.h`). Recognising the end saves a call per directory.
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
        // The number as sign-extended on some machines.
        assert_eq!(FileSystemKind::with_magic(0xFFFF_FFFF_FE53_4D42).name, "smb2");
    }

    #[test]
    fn entries_are_looked_up_where_attributes_follow_lookups() {
        let looks = |kind, detail| {
            let options = ListingOptions { detail, ..ListingOptions::default() };
            Tuning::choose(FileSystemKind::mounted_as(kind).unwrap(), &options).attribute_reads(detail) > 0
        };
        let of = |kind| [Detail::Bare, Detail::Names, Detail::Size].map(|detail| looks(kind, detail));
        assert_eq!(of("nfs"), [false, true, true]);
        assert_eq!(of("nfs4"), [false, true, true]);
        assert_eq!(of("cifs"), [false; 3]);
    }
}
