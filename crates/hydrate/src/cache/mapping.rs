//! Maps a file into memory that all processes with the same file share. Callers access the memory
//! only through atomics. Used for block maps and for the usage counters.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mapped range of a file. A page must be allocated in the file before it is accessed: if the
/// disk is full, the kernel can report that only by a signal.
#[derive(Debug)]
pub(super) struct SharedMapping {
    base: NonNull<u8>,
    len: usize,
}

/// Types that may lie in a mapping.
///
/// # Safety
/// The type must consist of atomics, and every bit pattern must be a valid value.
pub(super) unsafe trait Atomics {}

// SAFETY: the type is an atomic integer.
unsafe impl Atomics for AtomicU64 {}

// SAFETY: the mapping is accessed through atomics only, and exists until the value is dropped.
unsafe impl Send for SharedMapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for SharedMapping {}

impl SharedMapping {
    /// Maps the first `len` bytes of `file`.
    pub(super) fn new(file: impl AsFd, len: usize) -> io::Result<Self> {
        Self::of_range(file, 0, len)
    }

    /// Maps `len` bytes of `file` from offset `at`, which must be a multiple of the page size.
    pub(super) fn of_range(file: impl AsFd, at: u64, len: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address of the new mapping.
        let base = unsafe { mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, file, at)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, len })
    }

    /// Returns the length of the mapping, bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the value at `offset`, whose page must exist.
    pub(super) fn at<T: Atomics>(&self, offset: usize) -> &T {
        assert!(offset + size_of::<T>() <= self.len && offset.is_multiple_of(align_of::<T>()));
        // SAFETY: the value is within the mapping and aligned, as asserted, and `T` consists of
        // atomics.
        unsafe { self.base.byte_add(offset).cast::<T>().as_ref() }
    }

    /// Lets the kernel write one byte, read from `source`, at `offset` of the mapping. If the
    /// mapped file has no page there, the call returns an error, where a store by this process
    /// would raise a signal.
    pub(super) fn write_byte_from(&self, source: impl AsFd, offset: usize) -> io::Result<()> {
        assert!(offset < self.len);
        let source = source.as_fd().as_raw_fd();
        // SAFETY: the byte is within the mapping, as asserted, and no reference to it exists.
        match unsafe { libc::read(source, self.base.byte_add(offset).as_ptr().cast(), 1) } {
            1 => Ok(()),
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and every reference into it borrows from
        // `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
