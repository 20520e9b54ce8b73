//! Defines the options of a listing: depth, links, file system boundaries, and the details of each
//! entry.

use std::num::NonZeroUsize;

use rustix::fs::StatxFlags;

/// Depth of a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// Only the entries of the root.
    #[default]
    OneLevel,
    /// The entries of the root, and of directories up to this many levels below it. 0 is the same
    /// as [`OneLevel`](Self::OneLevel).
    Levels(u32),
    /// All entries below the root.
    Recursive,
}

impl Depth {
    /// True if a listing enters the directories found in a directory `depth` levels below the root.
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
    /// A link is listed as a link and not followed.
    #[default]
    Report,
    /// A link is listed as its target. A dangling link is listed as a link. A link to a directory
    /// that contains the link is listed but not entered, and adds an
    /// [`Error::Loop`](crate::Error::Loop) to the errors.
    Follow,
}

/// Treatment of file systems that are mounted below the root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Boundary {
    /// File systems that are mounted below the root are listed too.
    #[default]
    Cross,
    /// A directory on another device is listed but not entered.
    Stay,
}

/// Details to read for each entry. Anything beyond names costs a system call per entry. On a
/// network file system, fewer details may save a request to the servers that hold the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Name and inode. The type is the one that the directory states, which may be `Unknown`: NFS
    /// returns types with names only if it returns all attributes. If the listing enters
    /// directories, this is the same as `Names`.
    Bare,
    /// Name, inode and type.
    #[default]
    Names,
    /// Name, inode, type, size, modification time and change time.
    Size,
    /// Name, inode, type, size, blocks and number of links, from which disk usage is computed.
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

/// Options of a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListingOptions {
    /// Depth of the listing.
    pub depth: Depth,
    /// Treatment of symbolic links below the root. The root itself may always be a link.
    pub symlinks: Symlinks,
    /// Detail to read for each entry.
    pub detail: Detail,
    /// Treatment of file systems that are mounted below the root.
    pub boundary: Boundary,
    /// Number of bytes to read from a directory at once, and size of a [`Batch`](crate::Batch).
    /// `None`: chosen for the file system ([`Tuning`](crate::Tuning)).
    pub buffer: Option<NonZeroUsize>,
    /// Maximum number of threads. `None`: chosen for the file system.
    pub threads: Option<NonZeroUsize>,
}

impl ListingOptions {
    /// Adds the types of entries if they are needed to find the directories to enter.
    pub(crate) fn with_types_to_enter(self) -> Self {
        match self.detail {
            Detail::Bare if self.depth.enters(0) => Self { detail: Detail::Names, ..self },
            _ => self,
        }
    }
}
