//! Maps a file into memory, shared with every process that maps it. Callers access it only through
//! atomics. Used for block maps and for the usage counters.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mapping. Pages that do not exist in the file must not be accessed: if the disk is full, the
/// kernel can report that only by a signal.
#[derive(Debug)]
pub(super) struct SharedMapping {
    base: NonNull<u8>,
    len: usize,
}

/// Types that may lie in a mapping.
///
/// # Safety
/// They consist of atomics, and every bit pattern is a valid value.
pub(super) unsafe trait Atomics {}

// SAFETY: an atomic integer.
unsafe impl Atomics for AtomicU64 {}

// SAFETY: the mapping is accessed through atomics only, and exists until the value is dropped.
unsafe impl Send for SharedMapping {}
// SAFETY: as above.
unsafe impl Sync for SharedMapping {}

impl SharedMapping {
    /// Maps the first `len` bytes of `file`.
    pub(super) fn new(file: impl AsFd, len: usize) -> io::Result<Self> {
        Self::of_range(file, 0, len)
    }

    /// Maps `len` bytes of `file` from `at`, a multiple of the page size.
    pub(super) fn of_range(file: impl AsFd, at: u64, len: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base = unsafe { mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, file, at)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, len })
    }

    /// The length of the mapping, bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The value at `offset`, whose page exists.
    pub(super) fn at<T: Atomics>(&self, offset: usize) -> &T {
        assert!(offset + size_of::<T>() <= self.len && offset.is_multiple_of(align_of::<T>()));
        // SAFETY: within the mapping and aligned, as asserted; `T` consists of atomics.
        unsafe { self.base.byte_add(offset).cast::<T>().as_ref() }
    }

    /// Lets the kernel read a byte from `source` to `offset`. A page that the file does not have is
    /// an error here, not a signal.
    pub(super) fn read_byte(&self, source: impl AsFd, offset: usize) -> io::Result<()> {
        assert!(offset < self.len);
        let source = source.as_fd().as_raw_fd();
        // SAFETY: within the mapping, as asserted. No reference to the byte exists.
        match unsafe { libc::read(source, self.base.byte_add(offset).as_ptr().cast(), 1) } {
            1 => Ok(()),
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; every reference into it borrows from `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
