//! A block map in memory: the header and the words of all blocks, shared by every process that maps the file.
//!
//! The file is sparse: at 5 TiB it is 320 MiB long, of which pages exist only where blocks are here. A page that does not
//! exist is neither read nor written through the mapping, since the kernel can then only send a signal when the disk is
//! full: readers ask where data is, writers allocate first. That the file is made shorter by others meanwhile is out of scope.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::header::{Header, LIVE_AT, Live, WORD, map_len};
use super::lock::Lockable;
use crate::BLOCK;

/// A mapped block map.
#[derive(Debug)]
pub(super) struct Map {
    file: Arc<Lockable>,
    base: NonNull<u8>,
    len: usize,
    words_at: usize,
    blocks: u64,
    /// A bit for each page known to exist. Pages never go while the map is open.
    known: Vec<AtomicU64>,
}

// SAFETY: the mapping is only ever reached through atomics, and lives until the value is dropped.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

/// Bytes of a page: what the kernel allocates behind a mapping, and so what a map grows by.
pub(super) fn page() -> u64 {
    rustix::param::page_size() as u64
}

/// Bytes counted for each page of the map: its own, and two pages of the file system's list of where the blocks lie,
/// at 16 bytes a block if each lies apart, in nodes half full.
pub(super) fn page_cost() -> u64 {
    3 * page()
}

/// Bytes counted for a new version.
pub(super) fn first_cost(header_len: usize, blocks: u64) -> u64 {
    // So few stand in the inode itself, on ext4, and more elsewhere.
    const IN_INODE: u64 = 4;
    let list = if blocks > IN_INODE { page_cost() - page() } else { 0 };
    first_pages(header_len) + list
}

/// Bytes that a new map takes on disk.
fn first_pages(header_len: usize) -> u64 {
    (header_len as u64 + WORD).next_multiple_of(page())
}

/// Writes a new map into `file`, which is empty.
pub(super) fn write_new(file: &File, size: u64, text: &[u8], header: &[u8]) -> io::Result<()> {
    file.set_len(map_len(size, text))?;
    // Whole pages: the mapping is written to later, all over the page.
    allocate(file, 0..first_pages(header.len()))?;
    file.write_all_at(header, 0)
}

/// Makes sure that pages exist. Where a file system cannot say so we go on: few of them run full behind a mapping.
fn allocate(file: &File, range: Range<u64>) -> io::Result<()> {
    match fallocate(file, FallocateFlags::KEEP_SIZE, range.start, range.end - range.start) {
        Err(rustix::io::Errno::OPNOTSUPP) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Map {
    /// Maps `file`, whose header has been read.
    pub(super) fn new(file: Arc<Lockable>, header: &Header) -> io::Result<Self> {
        let len = usize::try_from(header.map_len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // SAFETY: a new mapping at a place of the kernel's choice; its length is the file's.
        let base = unsafe {
            mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)?
        };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let pages = len.div_ceil(rustix::param::page_size());
        let known: Vec<AtomicU64> = (0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let map =
            Self { file, base, len, words_at: header.words_at(), blocks: header.size.div_ceil(BLOCK), known };
        for index in 0..(first_pages(map.words_at) / page()).min(pages as u64) {
            map.set_known(index);
        }
        Ok(map)
    }

    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    pub(super) fn live(&self) -> &Live {
        // SAFETY: the header's pages exist, `Live` is atomics only, and 32 is a multiple of their alignment.
        unsafe { self.base.byte_add(LIVE_AT).cast::<Live>().as_ref() }
    }

    /// The word of `block`; `None` where its page does not exist, so that the block is not here.
    pub(super) fn word(&self, block: u64) -> Option<&AtomicU64> {
        let at = self.at(block);
        let page = at as u64 / page();
        if !self.is_known(page) {
            self.exists(page).then(|| self.set_known(page))?;
        }
        Some(self.word_at(at))
    }

    /// The word of `block`, whose page is allocated now if it was not; and whether it was not.
    pub(super) fn word_allocated(&self, block: u64) -> io::Result<(&AtomicU64, bool)> {
        let at = self.at(block);
        let index = at as u64 / page();
        let mut new = false;
        if self.word(block).is_none() {
            allocate(&self.file, index * page()..(index + 1) * page())?;
            new = self.set_known(index);
        }
        Ok((self.word_at(at), new))
    }

    /// The first block after `block` whose word stands in another page.
    pub(super) fn next_page(&self, block: u64) -> u64 {
        let end = (self.at(block) as u64 / page() + 1) * page();
        ((end - self.words_at as u64) / WORD).max(block + 1)
    }

    /// The first block after `block`, whose page does not exist, that stands in one which may; else the number of blocks.
    pub(super) fn after_hole(&self, block: u64) -> u64 {
        let next = self.next_page(block).min(self.blocks);
        let start = self.words_at as u64 + next * WORD;
        match seek(&self.file, SeekFrom::Data(start)) {
            Ok(data) => (data.max(start) - self.words_at as u64).div_ceil(WORD).min(self.blocks),
            Err(_) => self.blocks,
        }
    }

    /// Has the kernel bring the map to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn at(&self, block: u64) -> usize {
        assert!(block < self.blocks, "block {block} of {}", self.blocks);
        self.words_at + (block * WORD) as usize
    }

    fn word_at(&self, at: usize) -> &AtomicU64 {
        // SAFETY: `at` is that of a block of this map, so within it, and a multiple of 8; its page exists.
        unsafe { self.base.byte_add(at).cast::<AtomicU64>().as_ref() }
    }

    fn is_known(&self, page: u64) -> bool {
        self.known[(page / 64) as usize].load(Ordering::Relaxed) & 1 << (page % 64) != 0
    }

    /// Whether it was not known before.
    fn set_known(&self, page: u64) -> bool {
        let bit = 1 << (page % 64);
        self.known[(page / 64) as usize].fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Whether another process has allocated the page, or we in an earlier open.
    fn exists(&self, index: u64) -> bool {
        let start = index * page();
        // The file's own position is used by nobody else.
        seek(&self.file, SeekFrom::Data(start)).is_ok_and(|data| data < start + page())
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; all references into it borrow from `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
