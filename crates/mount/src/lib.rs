//! A read-only file system over a location: an S3 bucket or prefix, an HTTP server's directory, a local or network one.
//!
//! The kernel's requests (`fuse`) become operations in our own types (`filesystem`) on inodes (`tree`), each of which is one
//! version of one object, so that whatever the kernel keeps of it never goes stale. Bytes come from the hydration engine;
//! this crate decides what is asked of it: who is open, how the kernel may read (`opens`), what is likely to be read next
//! (`siblings`, `series`). Names come from listings as they arrive (`stream`), and are believed for a stated time (`directory`).
//! Nothing that waits for a network runs on a thread that takes requests (`waiters`), and nothing waits for ever.

mod child;
mod control;
mod directory;
mod error;
mod filesystem;
mod fuse;
mod inode;
mod jobs;
mod metrics;
mod mount;
mod mountpoint;
mod name;
mod opens;
mod operations;
mod options;
mod paths;
mod reader;
mod record;
mod series;
mod shadow;
mod siblings;
mod source;
mod stream;
mod streams;
mod tree;
mod waiters;
mod xattr;

pub use control::{Control, attribute};
pub use error::{Error, Result};
pub use mount::Mount;
pub use mountpoint::{Ending, unmount};
pub use options::{Access, Occupied, Options};
pub use record::{Reads, recorded};
