//! Copies bytes between open files: inside the kernel if possible, otherwise through memory. Called
//! by copies, by uploads, and when a file is published on another file system.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use firstbyte_location::{ByteRange, to_usize};

use crate::object::writer::{ByteDigest, WriteAt};

/// Copies `range` of `from` to `offset` of `to`, inside the kernel if possible. Blocking.
pub(crate) fn copy_range(from: &File, range: ByteRange, to: &File, offset: u64) -> io::Result<()> {
    let (mut rest, mut offset) = (range, offset);
    while !rest.is_empty() {
        let (mut source, mut target) = (rest.start, offset);
        let count = to_usize(rest.len());
        let copied = match rustix::fs::copy_file_range(from, Some(&mut source), to, Some(&mut target), count)
        {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(copied) => copied as u64,
            // The files are on different file systems, or their file system does not support the
            // call.
            Err(_) => return copy_digesting(from, rest, to, offset, &mut ()),
        };
        rest = rest.skip(copied);
        offset += copied;
    }
    Ok(())
}

/// Copies through memory, so that `digest` gets every byte. Blocking.
pub(crate) fn copy_digesting(
    from: &File,
    range: ByteRange,
    to: &(impl WriteAt + ?Sized),
    offset: u64,
    digest: &mut impl ByteDigest,
) -> io::Result<()> {
    let mut offset = offset;
    read_range(from, range, |bytes| {
        to.write_all_at(bytes, offset)?;
        digest.update(bytes);
        offset += bytes.len() as u64;
        Ok(())
    })
}

/// Passes `range` of `from` to `see`, piece by piece. Blocking.
pub(crate) fn read_range(
    from: &File,
    range: ByteRange,
    mut see: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut rest = range;
    while !rest.is_empty() {
        let most = to_usize(rest.len()).min(buffer.len());
        let count = from.read_at(&mut buffer[..most], rest.start)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        see(&buffer[..count])?;
        rest = rest.skip(count as u64);
    }
    Ok(())
}
