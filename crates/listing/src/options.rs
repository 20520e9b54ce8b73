//! The options of a listing: depth, links, file system boundaries, and the details of each entry.

use std::num::NonZeroUsize;

use rustix::fs::StatxFlags;

/// Depth of a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// The entries of the root alone.
    #[default]
    OneLevel,
    /// Also the entries of directories up to this many levels below the root; 0 is the root alone.
    Levels(u32),
    /// Everything below the root.
    Recursive,
}

impl Depth {
    /// True if the directories found in a directory `depth` levels below the root are entered.
    pub(crate) fn enters(self, depth: u32) -> bool {
        match self {
            Self::OneLevel => false,
            Self::Levels(levels) => depth < levels,
            Self::Recursive => true,
        }
    }
}

/// Treatment of symbolic links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Symlinks {
    /// Listed as a link, not followed.
    #[default]
    Report,
    /// Listed as its target. A dangling link is listed as a link. A link to a directory that
    /// contains it is listed but not entered, and adds an [`Error::Loop`](crate::Error::Loop) to
    /// the errors.
    Follow,
}

/// Whether a listing leaves the root's file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Boundary {
    /// File systems that are mounted below the root are listed too.
    #[default]
    Cross,
    /// A directory on another device is listed and not entered.
    Stay,
}

/// Detail to read for each entry. More than names costs a system call per entry. On a network file
/// system, less detail may save a request to the servers that hold the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Name and inode. The type is what the directory says, which may be `Unknown`: NFS gives
    /// types with names only if it gives all attributes. Where a listing enters directories, this
    /// is the same as `Names`.
    Bare,
    /// Name, inode and type.
    #[default]
    Names,
    /// Also size, modification and change times.
    Size,
    /// Also size, blocks, links and inode, from which disk usage is summed.
    Usage,
    /// Everything in [`InodeStat`](crate::InodeStat).
    Full,
}

impl Detail {
    /// True if every entry has an [`InodeStat`](crate::InodeStat).
    pub(crate) fn has_stats(self) -> bool {
        !matches!(self, Self::Bare | Self::Names)
    }

    pub(crate) fn mask(self) -> StatxFlags {
        match self {
            Self::Bare | Self::Names => StatxFlags::TYPE,
            Self::Size => StatxFlags::TYPE | StatxFlags::SIZE | StatxFlags::MTIME | StatxFlags::CTIME,
            Self::Usage => {
                StatxFlags::TYPE | StatxFlags::SIZE | StatxFlags::BLOCKS | StatxFlags::NLINK | StatxFlags::INO
            }
            Self::Full => StatxFlags::BASIC_STATS,
        }
    }
}

/// What to list, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListingOptions {
    /// Depth of the listing.
    pub depth: Depth,
    /// The treatment of symbolic links below the root. The root itself may be one.
    pub symlinks: Symlinks,
    /// Detail to read for each entry.
    pub detail: Detail,
    /// Whether to enter other file systems.
    pub boundary: Boundary,
    /// Bytes of one read of a directory, and of a [`Batch`](crate::Batch). `None`: chosen for the
    /// file system ([`Tuning`](crate::Tuning)).
    pub buffer: Option<NonZeroUsize>,
    /// Largest number of threads. `None`: chosen for the file system.
    pub threads: Option<NonZeroUsize>,
}

impl ListingOptions {
    /// Adds the types of entries if they are needed to find directories.
    pub(crate) fn with_types_to_enter(self) -> Self {
        match self.detail {
            Detail::Bare if self.depth.enters(0) => Self { detail: Detail::Names, ..self },
            _ => self,
        }
    }
}
