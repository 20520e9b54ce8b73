//! Encodes and decodes the record of one object in a pack.
//!
//! ```text
//! 0    magic (8), CRC-32C of all that follows (4), length of the text (4), of the content (4),
//!      zero (12)
//! 32   the text: see `CachedIdentity`; then the content
//! ```
//! Numbers are in native byte order. A record begins at a multiple of [`ALIGNMENT`], so that its
//! pages can be punched without changing other records.

use std::fs::File;
use std::os::unix::fs::FileExt;

use firstbyte_location::to_usize;

use super::super::block_map::crc;
use super::place::{ALIGNMENT, RecordPlace};

const MAGIC: [u8; 8] = *b"fbrecd\0\x01";
const CRC_FROM: usize = 12;
const TEXT_OFFSET: usize = 32;

/// Returns the bytes of disk that a record of `length` bytes takes.
pub(in super::super) fn cost(length: usize) -> u64 {
    (length as u64).next_multiple_of(ALIGNMENT)
}

/// A record that was read and whose CRC is right.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct PackRecord<'a> {
    pub(in super::super) text: &'a [u8],
    pub(in super::super) content: &'a [u8],
}

impl<'a> PackRecord<'a> {
    /// Returns the length of a record with a text and a content of these lengths, bytes.
    pub(in super::super) fn length(text: usize, content: usize) -> usize {
        TEXT_OFFSET + text + content
    }

    /// Encodes a record.
    pub(in super::super) fn encode(text: &[u8], content: &[u8]) -> Vec<u8> {
        let mut record = Vec::with_capacity(Self::length(text.len(), content.len()));
        record.extend(MAGIC);
        record.extend([0; 4]);
        record.extend((text.len() as u32).to_ne_bytes());
        record.extend((content.len() as u32).to_ne_bytes());
        record.resize(TEXT_OFFSET, 0);
        record.extend(text);
        record.extend(content);
        let crc = crc(&record[CRC_FROM..]);
        record[CRC_FROM - 4..CRC_FROM].copy_from_slice(&crc.to_ne_bytes());
        record
    }

    /// Decodes the record at the start of `bytes`. Returns `None` if the record is not as it was
    /// written.
    fn decode(bytes: &'a [u8]) -> Option<Self> {
        let number = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let text_end = TEXT_OFFSET.checked_add(number(12)? as usize)?;
        let end = text_end.checked_add(number(16)? as usize)?;
        let whole = bytes.get(..end)?;
        let is_right = whole.starts_with(&MAGIC) && crc(&whole[CRC_FROM..]) == number(8)?;
        is_right.then(|| Self { text: &whole[TEXT_OFFSET..text_end], content: &whole[text_end..] })
    }
}

/// Reads the record at `place`. Returns `None` if the record is not as it was written.
pub(super) fn read<'a>(file: &File, place: RecordPlace, buffer: &'a mut Vec<u8>) -> Option<PackRecord<'a>> {
    let most = to_usize(place.bytes());
    if buffer.len() < most {
        buffer.resize(most, 0);
    }
    let mut read = 0;
    // The last record of a pack ends at the end of the file, which may be before the next multiple
    // of the alignment.
    while read < most {
        match file.read_at(&mut buffer[read..most], place.offset() + read as u64) {
            Ok(0) => break,
            Ok(bytes) => read += bytes,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    PackRecord::decode(&buffer[..read])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_not_at_all_if_a_bit_changed() {
        let (text, content) = (b"{\"location\":\"s3://b/k\"}".as_slice(), vec![7; 5000]);
        let buffer = PackRecord::encode(text, &content);
        assert_eq!(buffer.len(), PackRecord::length(text.len(), content.len()));
        let mut padded = buffer.clone();
        padded.resize(8192, 0);
        let record = PackRecord::decode(&padded).unwrap();
        assert_eq!((record.text, record.content), (text, content.as_slice()));
        for at in (0..20).chain([40, 3000, buffer.len() - 1]) {
            let mut damaged = buffer.clone();
            damaged[at] ^= 4;
            assert!(PackRecord::decode(&damaged).is_none(), "byte {at}");
        }
        assert!(PackRecord::decode(&buffer[..buffer.len() - 1]).is_none());
        assert!(PackRecord::decode(&[0; 4096]).is_none());
        assert!(PackRecord::decode(&[]).is_none());
    }
}
