//! Lists local directory trees at the speed of the kernel, in constant memory, whatever their size.
//!
//! Directories are read with getdents64 straight into the buffer of a [`Batch`], which is what
//! the caller sees: nothing is allocated or copied for an entry. A directory is opened
//! relative to the one it was found in, and no link is followed unless asked; how many stay open
//! has a cap. The kind of an entry comes with its name; what it does not tell costs a system call
//! each and is fetched only when asked for. What goes wrong in one place is a value beside the
//! entries, and the listing continues. What vanishes while it is listed is left out, as if it had
//! gone a moment earlier. A name that is there all the while is listed exactly once.
//!
//! Four ways in, from the fastest to the plainest: [`scan`] shows batches to visitors on the
//! threads that list, [`stream`] hands them out as an iterator, [`walk`] gives a store's entries
//! one by one, in a store's order if need be, and a [`Reader`] reads one directory and does nothing
//! else; [`Ahead`] is one whose next entries threads read already.

mod ahead;
mod batch;
mod chain;
mod details;
mod dirent;
mod error;
mod open;
mod options;
mod reader;
mod scan;
mod sorted;
mod spare;
mod split;
mod stat;
mod stream;
mod tuning;
mod walk;

pub use ahead::Ahead;
pub use batch::{Batch, Directory, Entry};
pub use error::{Error, Result};
pub use options::{Boundary, Depth, Detail, Options, Symlinks};
pub use reader::Reader;
pub use scan::{Visitor, scan};
pub use stat::{Stat, Time};
pub use stream::{Stream, stream};
pub use tuning::{Basis, FileSystem, Reach, Tuning};
pub use walk::{Order, Walk, walk};
