//! Hands written data to the file system before a file gets its name, and reports any failure.
//! Called by all code that publishes files by a rename: copies, the server, layouts.
//!
//! NFS, SMB and FUSE keep writes until a file is closed. Only then, or by a sync, does a program
//! learn that the server's disk is full or its network gone (`close(2)`, "Dealing with error
//! returns from close()"). The standard library drops that error.

use std::fs::File;
use std::io;
use std::os::fd::IntoRawFd;

/// Writes back data as closing the file would, and keeps it open. Costs nothing on a local file
/// system, where a close writes nothing.
///
/// # Errors
/// Any error of a write since the last one that was reported.
pub fn flush(file: &File) -> io::Result<()> {
    let copy = file.try_clone()?.into_raw_fd();
    // SAFETY: the descriptor belongs to this function, which uses it for nothing else. Linux frees
    // it even if `close` fails.
    if unsafe { libc::close(copy) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
