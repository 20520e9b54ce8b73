//! Parses directory records as the kernel writes them, and wraps getdents64.
//!
//! `struct linux_dirent64` is: inode (8 bytes), the position after this record (8), the record's
//! length (2), the type (1), the name with its zero byte, and padding to 8 bytes. The padding is
//! not cleared. A name therefore ends at the first zero byte among the record's last eight bytes.
//!
//! [`rustix::fs::RawDir`] reads the same records, but it owns its buffer, so every name would have
//! to be copied to outlive the next call.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// Number of bytes in a record before the name.
const HEAD_BYTES: usize = 19;

/// Smallest buffer for a call, in bytes: more than a record with the longest name that Linux itself
/// allows (255 bytes). A file system with longer names may return `EINVAL`; the caller then has to
/// provide a larger buffer.
pub(crate) const MIN_BUFFER_BYTES: usize = 1024;

/// One record: its fixed fields, and the position of its name in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raw {
    pub(crate) inode: u64,
    /// Position in the directory of the record after this one.
    pub(crate) next: i64,
    /// One of the kernel's `DT_` constants.
    pub(crate) kind: u8,
    pub(crate) name: usize,
    pub(crate) len: usize,
}

/// Fills `buffer` with the directory's next records. Returns their length in bytes, 0 at the end.
pub(crate) fn getdents(directory: impl AsFd, buffer: &mut [u8]) -> rustix::io::Result<usize> {
    let fd = directory.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `buffer.len()` bytes into the buffer, which is borrowed
    // exclusively.
    let read = unsafe { libc::syscall(libc::SYS_getdents64, fd, buffer.as_mut_ptr(), buffer.len()) };
    usize::try_from(read).map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// Iterator over the records in the filled part of a buffer.
pub(crate) struct DirentRecords<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Iterates over the records in `bytes[at..]`.
pub(crate) fn records(bytes: &[u8], at: usize) -> DirentRecords<'_> {
    DirentRecords { bytes, at }
}

impl Iterator for DirentRecords<'_> {
    /// An error is `EIO` for a malformed record, which only a damaged file system writes. It ends
    /// the iteration.
    type Item = rustix::io::Result<Raw>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return None;
        }
        let Some(raw) = parse(rest) else {
            self.at = self.bytes.len();
            return Some(Err(Errno::IO));
        };
        let (mut raw, length) = raw;
        raw.name = self.at + HEAD_BYTES;
        self.at += length;
        Some(Ok(raw))
    }
}

/// Parses the first record of `bytes`. Returns the record and its length in bytes. `None` if the
/// record is malformed.
#[inline]
fn parse(bytes: &[u8]) -> Option<(Raw, usize)> {
    let head = bytes.first_chunk::<HEAD_BYTES>()?;
    let inode = u64::from_ne_bytes(*head.first_chunk()?);
    let next = i64::from_ne_bytes(*head[8..].first_chunk()?);
    let length = usize::from(u16::from_ne_bytes([head[16], head[17]]));
    let record = bytes.get(..length)?;
    let from = HEAD_BYTES.max(length.checked_sub(8)?);
    let zero = record.get(from..)?.iter().position(|byte| *byte == 0)?;
    let len = from + zero - HEAD_BYTES;
    Some((Raw { inode, next, kind: head[18], name: HEAD_BYTES, len }, length))
}

#[cfg(test)]
mod tests;
