//! The names that journals and locks take from the store: compiling the store takes minutes.

use std::fs::File;
use std::io;
use std::time::Duration;

pub use firstbyte_location::{Algorithm, Checksum, Hasher};

/// A short wait.
pub const SHORT_WAIT: Duration = Duration::from_millis(5);

/// Empties a file.
pub fn empty(file: &File) -> io::Result<()> {
    file.set_len(0)
}
