//! The beginning of a block map: what it is of, and what changes while it is used.
//!
//! ```text
//! 0   magic and format (8), object's size (8), block's size (4), length of the text (4), CRC-32C of these and the text (4), 0 (4)
//! 32  what changes, each an atomic u64: see Live
//! 128 the text: see Identity; then, from the next multiple of 8 on, a word a block: see Entry
//! ```
//! Numbers are in the machine's own order: a cache is not carried to another kind of machine, and there it is corrupt.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU64;

use super::entry::crc;
use crate::BLOCK;

/// Raised when the meaning of a byte changes; maps of another format are started over.
const MAGIC: [u8; 8] = *b"fbmap\0\0\x01";
/// Where what changes begins.
pub(super) const LIVE_AT: usize = 32;
/// Where the text begins.
const TEXT_AT: usize = 128;
/// Longest text: a key of 1 KiB escaped, an `ETag`, and paths as long as the kernel takes them.
const LONGEST_TEXT: usize = 32 << 10;
/// Bytes of the map for each block.
pub(super) const WORD: u64 = 8;

/// The user wants this version to stay.
pub(super) const PINNED: u64 = 1;
/// Blocks were changed since the version was last opened by one alone; cleared when the last closes it.
pub(super) const DIRTY: u64 = 2;
/// All blocks are here, verified, and on the disk.
pub(super) const DURABLE: u64 = 4;

/// What changes, shared by all who have the version open.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct Live {
    /// Raised when the version is opened after an unclean stop: what was written before is verified when it is read.
    pub(super) epoch: AtomicU64,
    /// Raised between marking blocks absent and punching them, so that a reader knows that it may have read a hole.
    pub(super) generation: AtomicU64,
    /// [`PINNED`], [`DIRTY`], [`DURABLE`].
    pub(super) flags: AtomicU64,
    /// The stamp in which all blocks were here and verified, else 0.
    pub(super) complete: AtomicU64,
    /// The boot in which it was last opened.
    pub(super) boot: AtomicU64,
    /// Blocks here. Raised before a block is marked, so after a kill it may be too high until the next open.
    pub(super) present: AtomicU64,
    /// Bytes of disk that the shared usage counts for this version. Raised before they are taken.
    pub(super) charged: AtomicU64,
    /// When it was last opened, as a [`Moment`].
    pub(super) last_open: AtomicU64,
    /// Where eviction goes on.
    pub(super) hand: AtomicU64,
}

/// A map's header as it was when it was read.
#[derive(Debug)]
pub(super) struct Header {
    /// Bytes of the object.
    pub(super) size: u64,
    pub(super) text: Vec<u8>,
    pub(super) live: Live,
}

impl Header {
    /// Reads and checks one. `None` where the file is no map, or a torn one.
    pub(super) fn read(map: &File) -> io::Result<Option<Self>> {
        let mut fixed = [0; TEXT_AT];
        match map.read_exact_at(&mut fixed, 0) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let long = |at: usize| u64::from_ne_bytes(fixed[at..at + 8].try_into().unwrap_or_default());
        let short = |at: usize| u32::from_ne_bytes(fixed[at..at + 4].try_into().unwrap_or_default());
        let text_len = short(20) as usize;
        if fixed[..8] != MAGIC || u64::from(short(16)) != BLOCK || text_len > LONGEST_TEXT {
            return Ok(None);
        }
        let mut text = vec![0; text_len];
        if map.read_exact_at(&mut text, TEXT_AT as u64).is_err() || short(24) != check(&fixed[..24], &text) {
            return Ok(None);
        }
        let field = |index: usize| AtomicU64::new(long(LIVE_AT + index * 8));
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
        };
        Ok(Some(Self { size: long(8), text, live }))
    }

    /// The bytes of a new map for an object of `size` bytes, up to its first word; `None` where the text is too long.
    pub(super) fn to_bytes(size: u64, text: &[u8], boot: u64, charged: u64) -> Option<Vec<u8>> {
        if text.len() > LONGEST_TEXT {
            return None;
        }
        let mut bytes = vec![0; TEXT_AT];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&size.to_ne_bytes());
        bytes[16..20].copy_from_slice(&(BLOCK as u32).to_ne_bytes());
        bytes[20..24].copy_from_slice(&(text.len() as u32).to_ne_bytes());
        let crc = check(&bytes[..24], text);
        bytes[24..28].copy_from_slice(&crc.to_ne_bytes());
        bytes[LIVE_AT + 32..LIVE_AT + 40].copy_from_slice(&boot.to_ne_bytes());
        bytes[LIVE_AT + 48..LIVE_AT + 56].copy_from_slice(&charged.to_ne_bytes());
        bytes.extend_from_slice(text);
        bytes.resize(words_at(text), 0);
        Some(bytes)
    }

    /// Where the first word stands.
    pub(super) fn words_at(&self) -> usize {
        words_at(&self.text)
    }

    /// Length of the whole map.
    pub(super) fn map_len(&self) -> u64 {
        map_len(self.size, &self.text)
    }
}

/// Length of the map of an object of `size` bytes.
pub(super) fn map_len(size: u64, text: &[u8]) -> u64 {
    words_at(text) as u64 + size.div_ceil(BLOCK) * WORD
}

fn words_at(text: &[u8]) -> usize {
    (TEXT_AT + text.len()).next_multiple_of(WORD as usize)
}

fn check(fixed: &[u8], text: &[u8]) -> u32 {
    crc(&[fixed, text].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_back_and_any_changed_byte_of_what_is_fixed_is_noticed() {
        let file = tempfile::tempfile().unwrap();
        let bytes = Header::to_bytes(5 << 40, b"{}", 7, 4096).unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        let header = Header::read(&file).unwrap().unwrap();
        assert_eq!((header.size, header.text.as_slice(), header.words_at()), (5 << 40, &b"{}"[..], 136));
        assert_eq!(header.live.boot.into_inner(), 7);
        assert_eq!(header.live.charged.into_inner(), 4096);
        for at in (0..28).chain(128..130) {
            file.write_all_at(&[bytes[at] ^ 1], at as u64).unwrap();
            assert!(Header::read(&file).unwrap().is_none(), "byte {at}");
            file.write_all_at(&bytes[at..=at], at as u64).unwrap();
        }
        file.set_len(129).unwrap();
        assert!(Header::read(&file).unwrap().is_none());
    }
}
