//! Lists local directory trees at the speed of the kernel, in constant memory, whatever their size.
//!
//! Directories are read with getdents64 straight into the buffer of a [`Batch`], which the caller
//! gets: nothing is allocated or copied for an entry. A directory is opened relative to its parent,
//! and no link is followed by default. The number of open directories is limited. The kind of an
//! entry comes with its name; other attributes cost a system call each and are read only on
//! request. An error at one entry is reported beside the entries, and the listing continues. An
//! entry that is removed during the listing is left out. A name that exists during the whole
//! listing is listed exactly once.
//!
//! Three interfaces list trees, from the fastest to the slowest: [`scan`] passes batches to
//! visitors on the threads that list; [`stream`] returns batches as an iterator; [`walk`] returns
//! entries one by one like the listing of a store, on request in a store's order. Two list one
//! directory: a [`DirectoryReader`] reads it on the calling thread, and an [`AheadDirectory`] on
//! threads that read the next entries ahead.

mod ahead;
mod batch;
mod bounds;
mod chain;
mod details;
mod dirent;
mod error;
mod flush;
mod mounts;
mod open;
mod options;
mod reader;
mod rename;
mod scan;
mod silly;
mod sorted;
mod spare;
mod split;
mod stat;
mod stream;
mod tuning;
mod walk;

pub use ahead::AheadDirectory;
pub use batch::{Batch, BatchDirectory, BatchEntry};
pub use bounds::{NameTest, WalkBounds};
pub use error::{Error, Result};
pub use flush::flush;
pub use options::{Boundary, Depth, Detail, ListingOptions, Symlinks};
pub use reader::DirectoryReader;
pub use rename::rename_exclusively;
pub use scan::{Scan, Visitor, scan};
pub use silly::is_silly_name;
pub use stat::{InodeStat, Time};
pub use stream::{BatchStream, stream};
pub use tuning::{FileSystemKind, FileSystemReach, SettingBasis, Tuning};
pub use walk::{EntryOrder, Walk, walk, walk_within};
