//! Hands written data to the file system before a file gets its name, and reports any failure.
//! Called by all code that publishes files by a rename: copies, the server, layouts.
//!
//! NFS, SMB and FUSE keep written data in memory until the file is closed or synced. Only then does
//! a program learn that the server's disk is full or its network is down (`close(2)`, "Dealing with
//! error returns from close()"). The standard library ignores an error of `close`.

use std::fs::File;
use std::io;
use std::os::fd::IntoRawFd;

/// Writes back data as closing the file would, and keeps the file open. Writes nothing on a local
/// file system, where closing a file writes no data.
///
/// # Errors
/// Any error of an earlier write that has not been reported yet.
pub fn flush(file: &File) -> io::Result<()> {
    let copy = file.try_clone()?.into_raw_fd();
    // SAFETY: the descriptor belongs to this function, which does not use it again. Linux frees the
    // descriptor even if `close` fails.
    if unsafe { libc::close(copy) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
