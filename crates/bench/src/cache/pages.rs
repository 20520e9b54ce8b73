//! Counts how many bytes of a file are in the page cache, by cachestat(2) or mincore(2). All unsafe
//! code of [`cache`](super) is here. Called by `files`.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use rustix::mm::{MapFlags, ProtFlags};

/// The system call that counted the pages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Method {
    /// Linux 6.5 and later.
    Cachestat,
    /// Slower, for older kernels. Also counts pages of stacked file systems.
    Mincore,
}

impl Method {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Cachestat => "cachestat",
            Self::Mincore => "mincore",
        }
    }
}

/// The number of `cachestat`, equal on all architectures.
const SYS_CACHESTAT: libc::c_long = 451;
/// Bytes mapped for one call of mincore; a multiple of every page size.
const MINCORE_WINDOW_BYTES: u64 = 1 << 30;

/// `struct cachestat_range` of linux/mman.h.
#[repr(C)]
struct CachestatRange {
    off: u64,
    len: u64,
}

/// `struct cachestat` of linux/mman.h, in pages.
#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cache: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Counts the bytes of `range` in the page cache, in whole pages, at most the length of the range.
pub(super) fn by_cachestat(file: &File, range: &Range<u64>) -> io::Result<u64> {
    let length = range.end.saturating_sub(range.start);
    if length == 0 {
        // The kernel would take a length of 0 as "to the end".
        return Ok(0);
    }
    let asked = CachestatRange { off: range.start, len: length };
    let mut found = Cachestat::default();
    // SAFETY: both structures have the kernel's layout and live through the call, which writes
    // `found` only. The descriptor is open.
    let result =
        unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const asked, &raw mut found, 0) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((found.cache * page_size()).min(length))
}

/// Counts cached bytes through mappings of the file. The caller must own the file or be able to
/// write it: to other processes the kernel reports every page as resident.
pub(super) fn by_mincore(file: &File, range: &Range<u64>) -> io::Result<u64> {
    let page = page_size();
    let first = range.start / page * page;
    let mut pages = 0;
    let mut at = first;
    while at < range.end {
        let length = (range.end - at).min(MINCORE_WINDOW_BYTES);
        pages += mapped_pages(file, at, length)?;
        at += length;
    }
    Ok((pages * page).min(range.end.saturating_sub(range.start)))
}

fn mapped_pages(file: &File, offset: u64, length: u64) -> io::Result<u64> {
    let bytes = usize::try_from(length).map_err(io::Error::other)?;
    let count = usize::try_from(length.div_ceil(page_size())).map_err(io::Error::other)?;
    let mut resident = vec![0_u8; count];
    // SAFETY: the kernel chooses the address, so no other mapping is replaced. The mapping is never
    // dereferenced.
    let start = unsafe {
        rustix::mm::mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::PRIVATE, file, offset)
    }?;
    // SAFETY: `start` and `bytes` are the mapping made above, and `resident` has a byte for each of
    // its pages.
    let result = unsafe { libc::mincore(start, bytes, resident.as_mut_ptr()) };
    let outcome = if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: no other code uses the mapping.
    unsafe { rustix::mm::munmap(start, bytes) }?;
    outcome?;
    // The other bits are reserved.
    Ok(resident.iter().filter(|page| **page & 1 == 1).count() as u64)
}

fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn cachestat_and_mincore_agree_on_a_partly_resident_file() {
        let file = tempfile::tempfile_in("/var/tmp").unwrap();
        file.write_all_at(&vec![1; 1 << 20], 0).unwrap();
        file.sync_all().unwrap();
        let both = |range: Range<u64>| {
            let mincore = by_mincore(&file, &range).unwrap();
            assert_eq!(by_cachestat(&file, &range).unwrap_or(mincore), mincore, "{range:?}");
            mincore
        };
        assert_eq!(both(0..1 << 20), 1 << 20);
        assert_eq!(both(5000..9000), 4000);
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        assert_eq!(both(0..1 << 20), 0);
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
        file.read_at(&mut [0; 100], 70_000).unwrap();
        let some = both(0..1 << 20);
        assert!((1..1 << 20).contains(&some), "{some}");
        assert_eq!((both(0..0), both(0..4096)), (0, 0));
    }
}
