//! Reads and writes the map file of a cached version: a header, then one word for each block.
//!
//! ```text
//! 0    magic and format (8), object size (8), block size (4), length of the text (4),
//!      CRC-32C of these and the text (4), zero (4)
//! 32   mutable fields, each an atomic u64: see `Live`
//! 128  the text: see `CachedIdentity`; then, from the next multiple of 8, a word for each block:
//!      bit 63 present | bit 62 referenced | bits 32..62 stamp | bits 0..32 CRC-32C of the block
//! ```
//! Numbers are in native byte order, so a cache that is copied to a machine with the other byte
//! order is corrupt there. The file is sparse: the map of an object of 5 TiB is 320 MiB long, but
//! a page of the map exists only if some of its words were written. Readers check which pages
//! exist, and writers allocate a page before they use it.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crc_fast::CrcAlgorithm;
use firstbyte_location::to_usize;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::lock::LockFile;
use super::mapping::{Atomics, SharedMapping};
use crate::block::BLOCK;

/// Magic number and format of a map. The format changes with the meaning of any byte. A map of
/// another format is discarded and created again.
const MAGIC: [u8; 8] = *b"fbmap\0\0\x01";
const LIVE_OFFSET: usize = 32;
const TEXT_OFFSET: usize = 128;
/// Number of bytes that the first read of a header covers. Most headers end within them, because
/// their texts are short.
const HEADER_READ_SIZE: usize = 1024;
/// Maximum length of the text, bytes: an escaped key of 1 KiB, an `ETag`, and paths up to the
/// kernel's limit.
const MAX_TEXT_LENGTH: usize = 32 << 10;
/// Length of the word that the map keeps for each block, bytes.
const WORD_SIZE: u64 = 8;

/// Flag: the user has exempted the version from eviction.
pub(super) const PINNED: u64 = 1;
/// Flag: blocks have changed since a process last initialized the version (see the module `open`).
/// The last process that closes the version clears the flag.
pub(super) const DIRTY: u64 = 2;
/// Flag: all blocks are present, verified and synced to disk.
pub(super) const DURABLE: u64 = 4;

/// Bit that is set in every generation. A map that was cut short before the end of the generation
/// field loses this bit, because a cut turns the rest of the mapped page into zeros.
pub(super) const INTACT: u64 = 1 << 63;

/// The word of an absent block: zero, as read from a hole in the map.
pub(super) const ABSENT: u64 = 0;
const PRESENT: u64 = 1 << 63;
/// Bit that readers set and eviction clears (the CLOCK algorithm).
pub(super) const REFERENCED: u64 = 1 << 62;
const STAMP_SHIFT: u32 = 32;
const STAMP_MASK: u32 = (1 << 30) - 1;

/// The mutable fields, shared by all processes that have the version open.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct Live {
    /// Incremented when the version is opened after an unclean stop. Blocks from earlier epochs are
    /// verified when they are read.
    pub(super) epoch: AtomicU64,
    /// Incremented after blocks are marked absent and before they are punched. So a reader can
    /// detect that it may have read a hole. [`INTACT`] is always set.
    pub(super) generation: AtomicU64,
    /// [`PINNED`], [`DIRTY`], [`DURABLE`].
    pub(super) flags: AtomicU64,
    /// The stamp under which all blocks were present and verified. 0 if they never were.
    pub(super) complete: AtomicU64,
    /// Number of the boot ([`boot`](super::clock::boot)) during which a process last initialized
    /// the version (see the module `open`).
    pub(super) boot: AtomicU64,
    /// Number of present blocks. Incremented before a block is marked present, so after a kill the
    /// number may be too high until the next open.
    pub(super) present: AtomicU64,
    /// Bytes of disk that the usage counters include for this version. Raised before the bytes are
    /// used.
    pub(super) charged: AtomicU64,
    /// The time at which the version was last opened, as a [`Timestamp`](super::Timestamp).
    pub(super) last_open: AtomicU64,
    /// The block at which eviction continues.
    pub(super) hand: AtomicU64,
    /// The inode of the data file. If another file was put in the place of the data file, the words
    /// of this map do not describe its bytes.
    pub(super) data: AtomicU64,
}

// SAFETY: all fields are atomics.
unsafe impl Atomics for Live {}

/// Identifies the boot and the epoch in which a block was written or last verified. A block with
/// the current stamp is trusted; any other block is first checked against its CRC. A stamp has 30
/// bits, so an old stamp that equals the current one by chance is as unlikely as a wrong block with
/// the right CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(u32);

impl Stamp {
    pub(super) fn new(boot: u64, epoch: u64) -> Self {
        let hash = xxh3_64_with_seed(&epoch.to_le_bytes(), boot);
        Self((hash >> 34) as u32 & STAMP_MASK)
    }

    /// Returns the stamp as a number that is never 0.
    pub(super) fn as_number(self) -> u64 {
        u64::from(self.0) | 1 << STAMP_SHIFT
    }
}

/// The word of one block, which holds the block's state and is read and changed atomically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockWord(pub(super) u64);

impl BlockWord {
    /// Creates the word of a block that was just written. The block starts as referenced, so the
    /// first pass of eviction spares it even if the reader for which it was fetched has not come
    /// yet.
    pub(super) fn new(crc: u32, stamp: Stamp) -> Self {
        Self(PRESENT | REFERENCED | u64::from(stamp.0) << STAMP_SHIFT | u64::from(crc))
    }

    pub(super) fn is_present(self) -> bool {
        self.0 & PRESENT != 0
    }

    pub(super) fn is_referenced(self) -> bool {
        self.0 & REFERENCED != 0
    }

    pub(super) fn has(self, stamp: Stamp) -> bool {
        (self.0 >> STAMP_SHIFT) as u32 & STAMP_MASK == stamp.0
    }

    pub(super) fn crc(self) -> u32 {
        self.0 as u32
    }
}

/// Returns the CRC-32C of a block.
pub(super) fn crc(block: &[u8]) -> u32 {
    // The library returns every CRC in 64 bits, of which a CRC-32 fills the lower half.
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, block) as u32
}

/// A copy of a map's header.
#[derive(Debug)]
pub(super) struct MapHeader {
    /// Length of the object, bytes.
    pub(super) size: u64,
    pub(super) text: Vec<u8>,
    pub(super) live: Live,
}

impl MapHeader {
    /// Reads and checks the header. Returns `None` if the file is not a map or is incomplete.
    pub(super) fn read(map: &File) -> io::Result<Option<Self>> {
        let mut first = [0; HEADER_READ_SIZE];
        let read = read_up_to(map, &mut first)?;
        let Some(fixed) = first[..read].first_chunk::<TEXT_OFFSET>() else { return Ok(None) };
        let long = |at: usize| u64::from_ne_bytes(fixed[at..at + 8].try_into().unwrap_or_default());
        let short = |at: usize| u32::from_ne_bytes(fixed[at..at + 4].try_into().unwrap_or_default());
        let text_len = short(20) as usize;
        if fixed[..8] != MAGIC || u64::from(short(16)) != BLOCK || text_len > MAX_TEXT_LENGTH {
            return Ok(None);
        }
        let text = match first[..read].get(TEXT_OFFSET..TEXT_OFFSET + text_len) {
            Some(text) => text.to_vec(),
            None => {
                let mut text = vec![0; text_len];
                if map.read_exact_at(&mut text, TEXT_OFFSET as u64).is_err() {
                    return Ok(None);
                }
                text
            }
        };
        if short(24) != check(&fixed[..24], &text) {
            return Ok(None);
        }
        let field = |index: usize| AtomicU64::new(long(LIVE_OFFSET + index * 8));
        let live = Live {
            epoch: field(0),
            generation: field(1),
            flags: field(2),
            complete: field(3),
            boot: field(4),
            present: field(5),
            charged: field(6),
            last_open: field(7),
            hand: field(8),
            data: field(9),
        };
        Ok(Some(Self { size: long(8), text, live }))
    }

    /// Returns the bytes of a new map up to its first word, for an object of `size` bytes whose
    /// data file has the inode `data`. Returns `None` if the text is too long.
    pub(super) fn to_bytes(size: u64, text: &[u8], boot: u64, charged: u64, data: u64) -> Option<Vec<u8>> {
        if text.len() > MAX_TEXT_LENGTH {
            return None;
        }
        let mut bytes = vec![0; TEXT_OFFSET];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&size.to_ne_bytes());
        bytes[16..20].copy_from_slice(&(BLOCK as u32).to_ne_bytes());
        bytes[20..24].copy_from_slice(&(text.len() as u32).to_ne_bytes());
        let crc = check(&bytes[..24], text);
        bytes[24..28].copy_from_slice(&crc.to_ne_bytes());
        for (index, value) in [(1, INTACT), (4, boot), (6, charged), (9, data)] {
            let at = LIVE_OFFSET + index * size_of::<u64>();
            bytes[at..at + size_of::<u64>()].copy_from_slice(&value.to_ne_bytes());
        }
        bytes.extend_from_slice(text);
        bytes.resize(words_at(text), 0);
        Some(bytes)
    }

    /// Returns the length of the whole map, bytes.
    pub(super) fn map_len(&self) -> u64 {
        map_len(self.size, &self.text)
    }
}

/// Reads from the start of a file until the buffer is full or the file ends. Returns the number of
/// bytes read.
fn read_up_to(file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Returns the length of a file. `fstat` is the fastest of the calls that report it.
pub(super) fn length(file: &File) -> io::Result<u64> {
    Ok(rustix::fs::fstat(file)?.st_size.cast_unsigned())
}

/// Returns the length of the map of an object of `size` bytes.
fn map_len(size: u64, text: &[u8]) -> u64 {
    words_at(text) as u64 + size.div_ceil(BLOCK) * WORD_SIZE
}

/// Returns the offset of the first word.
fn words_at(text: &[u8]) -> usize {
    (TEXT_OFFSET + text.len()).next_multiple_of(to_usize(WORD_SIZE))
}

fn check(fixed: &[u8], text: &[u8]) -> u32 {
    crc(&[fixed, text].concat())
}

/// Returns the length of a page, bytes. The kernel allocates a mapped file in whole pages.
pub(super) fn page() -> u64 {
    rustix::param::page_size() as u64
}

/// Returns the bytes to count for each page of the map: the page itself, and two pages for the file
/// system's extent list (16 bytes per extent, each block in an extent of its own, nodes half full).
pub(super) fn page_cost() -> u64 {
    3 * page()
}

/// Returns the bytes of disk to count for a new version: its map's first pages and, for more than a
/// few blocks, the data file's extent list.
pub(super) fn first_cost(header_len: usize, blocks: u64) -> u64 {
    // Number of extents that ext4 stores in the inode. Other file systems store more.
    const IN_INODE: u64 = 4;
    let list = if blocks > IN_INODE { page_cost() - page() } else { 0 };
    first_pages(header_len) + list
}

/// Returns the bytes that a new map uses on disk.
fn first_pages(header_len: usize) -> u64 {
    (header_len as u64 + WORD_SIZE).next_multiple_of(page())
}

/// Writes a new map into `file`, which must be empty.
pub(super) fn write_new(file: &File, size: u64, text: &[u8], header: &[u8]) -> io::Result<()> {
    file.set_len(map_len(size, text))?;
    // Whole pages are allocated, because any byte of them may be written through the mapping.
    allocate(file, 0..first_pages(header.len()))?;
    file.write_all_at(header, 0)
}

/// Allocates the pages of `range` without changing the length of the file, so that a later store
/// into a mapping cannot fail for lack of space. Returns success on file systems that do not
/// support this: they rarely fill up between a check of the space and the store.
pub(super) fn allocate(file: &File, range: Range<u64>) -> io::Result<()> {
    match fallocate(file, FallocateFlags::KEEP_SIZE, range.start, range.end - range.start) {
        Err(rustix::io::Errno::OPNOTSUPP) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The block map of an open version, mapped into memory and shared by every process that has the
/// version open.
#[derive(Debug)]
pub(super) struct BlockMap {
    file: Arc<LockFile>,
    mapping: SharedMapping,
    words_at: usize,
    blocks: u64,
    /// One bit for each page that is known to exist. No page is removed while the map is open.
    known_pages: Vec<AtomicU64>,
}

impl BlockMap {
    /// Maps `file`, whose header is `header`.
    pub(super) fn new(file: Arc<LockFile>, header: &MapHeader) -> io::Result<Self> {
        let len = usize::try_from(header.map_len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mapping = SharedMapping::new(&*file, len)?;
        let pages = len.div_ceil(rustix::param::page_size());
        let known_pages: Vec<AtomicU64> = (0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let words_at = words_at(&header.text);
        let map = Self { file, mapping, words_at, blocks: header.size.div_ceil(BLOCK), known_pages };
        for index in 0..(first_pages(words_at) / page()).min(pages as u64) {
            map.set_known(index);
        }
        Ok(map)
    }

    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    pub(super) fn live(&self) -> &Live {
        self.mapping.at(LIVE_OFFSET)
    }

    /// Returns the word of `block`. Returns `None` if the page of the word does not exist, which
    /// means that the block is absent.
    pub(super) fn word(&self, block: u64) -> Option<&AtomicU64> {
        let at = self.offset(block);
        let page = at as u64 / page();
        if !self.is_known(page) {
            self.exists(page).then(|| self.set_known(page))?;
        }
        Some(self.mapping.at(at))
    }

    /// Returns the word of `block`, and whether its page had to be allocated.
    pub(super) fn word_allocated(&self, block: u64) -> io::Result<(&AtomicU64, bool)> {
        let at = self.offset(block);
        let index = at as u64 / page();
        let mut new = false;
        if self.word(block).is_none() {
            allocate(&self.file, index * page()..(index + 1) * page())?;
            new = self.set_known(index);
        }
        Ok((self.mapping.at(at), new))
    }

    /// Returns the first block after `block` whose word is on another page.
    pub(super) fn next_page(&self, block: u64) -> u64 {
        let end = (self.offset(block) as u64 / page() + 1) * page();
        ((end - self.words_at as u64) / WORD_SIZE).max(block + 1)
    }

    /// Returns the first block after `block` whose page may exist, or the number of blocks. The
    /// page of `block` must not exist.
    pub(super) fn after_hole(&self, block: u64) -> u64 {
        let next = self.next_page(block).min(self.blocks);
        let start = self.words_at as u64 + next * WORD_SIZE;
        match seek(&self.file, SeekFrom::Data(start)) {
            Ok(data) => (data.max(start) - self.words_at as u64).div_ceil(WORD_SIZE).min(self.blocks),
            Err(_) => self.blocks,
        }
    }

    /// Returns the words on existing pages, each with its block.
    pub(super) fn words(&self) -> impl Iterator<Item = (u64, &AtomicU64)> {
        let mut next = 0;
        std::iter::from_fn(move || {
            while next < self.blocks {
                let block = next;
                match self.word(block) {
                    Some(word) => {
                        next = block + 1;
                        return Some((block, word));
                    }
                    None => next = self.after_hole(block),
                }
            }
            None
        })
    }

    /// Counts the blocks that are marked present.
    pub(super) fn count_present(&self) -> u64 {
        let is_present = |word: &AtomicU64| BlockWord(word.load(Ordering::Relaxed)).is_present();
        self.words().filter(|(_, word)| is_present(word)).count() as u64
    }

    /// Returns whether the file of the map still has the length that it had when it was mapped.
    pub(super) fn is_whole(&self) -> bool {
        let is_marked = self.live().generation.load(Ordering::Acquire) & INTACT != 0;
        is_marked && length(&self.file).is_ok_and(|length| length == self.mapping.len() as u64)
    }

    /// Syncs the map to disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Returns the offset of the word of `block`.
    fn offset(&self, block: u64) -> usize {
        assert!(block < self.blocks, "block {block} of {}", self.blocks);
        self.words_at + to_usize(block * WORD_SIZE)
    }

    fn is_known(&self, page: u64) -> bool {
        self.known_pages[to_usize(page / 64)].load(Ordering::Relaxed) & 1 << (page % 64) != 0
    }

    /// Records that a page exists. Returns whether that was unknown before.
    fn set_known(&self, page: u64) -> bool {
        let bit = 1 << (page % 64);
        self.known_pages[to_usize(page / 64)].fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Returns whether another process, or an earlier open, has allocated the page.
    fn exists(&self, index: u64) -> bool {
        let start = index * page();
        // Seeking is safe, because no other module uses the file's position.
        seek(&self.file, SeekFrom::Data(start)).is_ok_and(|data| data < start + page())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_header_is_read_back_and_any_changed_fixed_byte_is_noticed() {
        let file = tempfile::tempfile().unwrap();
        let bytes = MapHeader::to_bytes(5 << 40, b"{}", 7, 4096, 9).unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        let header = MapHeader::read(&file).unwrap().unwrap();
        assert_eq!((header.size, header.text.as_slice(), words_at(&header.text)), (5 << 40, &b"{}"[..], 136));
        assert_eq!(header.live.boot.into_inner(), 7);
        assert_eq!(header.live.charged.into_inner(), 4096);
        assert_eq!((header.live.generation.into_inner(), header.live.data.into_inner()), (INTACT, 9));
        for at in (0..28).chain(128..130) {
            file.write_all_at(&[bytes[at] ^ 1], at as u64).unwrap();
            assert!(MapHeader::read(&file).unwrap().is_none(), "byte {at}");
            file.write_all_at(&bytes[at..=at], at as u64).unwrap();
        }
        file.set_len(129).unwrap();
        assert!(MapHeader::read(&file).unwrap().is_none());
    }

    proptest! {
        #[test]
        fn a_word_holds_its_crc_and_stamp(crc: u32, boot: u64, epoch: u64) {
            let stamp = Stamp::new(boot, epoch);
            let word = BlockWord::new(crc, stamp);
            prop_assert!(word.is_present() && word.is_referenced() && word.has(stamp));
            prop_assert_eq!(word.crc(), crc);
            prop_assert!(!BlockWord(word.0 & !REFERENCED).is_referenced());
            prop_assert!(BlockWord(word.0 & !REFERENCED).has(stamp));
            prop_assert!(!BlockWord(ABSENT).is_present());
        }

        #[test]
        fn another_boot_or_epoch_has_another_stamp(boot: u64, epoch in 0_u64..1 << 40) {
            prop_assert_ne!(Stamp::new(boot, epoch), Stamp::new(boot, epoch + 1));
            prop_assert_ne!(Stamp::new(boot, epoch), Stamp::new(!boot, epoch));
        }
    }
}
