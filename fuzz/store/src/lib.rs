//! Stand-in for the store: the names that journals and locks import from it. Compiling the store
//! itself takes minutes.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::time::Duration;

pub use firstbyte_location::{Algorithm, Checksum, Hasher};

/// A short wait.
pub const SHORT_WAIT: Duration = Duration::from_millis(5);

/// Empties a file.
pub fn truncate(file: &File) -> io::Result<()> {
    file.set_len(0)
}

/// Returns the hidden name of an unfinished file. Unlike the store's function, does not shorten the
/// name.
pub fn unfinished_name(name: &OsStr, suffix: &str) -> OsString {
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(suffix);
    hidden
}
