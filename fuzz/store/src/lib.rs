//! The names that journals and locks take from the store: compiling the store takes minutes.

use std::ffi::{OsStr, OsString};
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

/// Returns the hidden name of an unfinished file. Unlike the store's, it is not cut.
pub fn unfinished_name(name: &OsStr, suffix: &str) -> OsString {
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(suffix);
    hidden
}
