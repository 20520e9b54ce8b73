//! Finds the column chunks of a Parquet file in its footer, which is the `FileMetaData` of
//! `parquet.thrift` in Thrift's compact protocol. Everything else in the footer is skipped.
//!
//! Footers come from servers, so they are not trusted: lengths are checked before memory is
//! allocated, and nesting is bounded.

use firstbyte_location::{ByteRange, to_usize};

/// The chunk of one column in one row group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ColumnChunk {
    pub(crate) range: ByteRange,
    pub(crate) group: usize,
    pub(crate) column: usize,
}

/// Maximum number of column chunks in a footer. A footer with more chunks is not parsed.
const MAX_CHUNKS: usize = 1 << 16;
/// Maximum nesting of values that are skipped. Deeper nesting is an error.
const MAX_NESTING: u32 = 16;

// Types of values in the compact protocol.
const STOP: u8 = 0;
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

// Field ids in parquet.thrift.
const ROW_GROUPS: i64 = 4;
const COLUMNS: i64 = 1;
const META_DATA: i64 = 3;
const COMPRESSED_SIZE: i64 = 7;
const DATA_PAGE: i64 = 9;
const DICTIONARY_PAGE: i64 = 11;

/// Parses the column chunks of a footer. Returns `None` if the footer is damaged, has too many
/// chunks, or has columns in other files.
pub(super) fn parse(footer: &[u8]) -> Option<Vec<ColumnChunk>> {
    let mut input = Input { bytes: footer };
    let mut chunks = Vec::new();
    input.fields(|input, id, kind| match (id, kind) {
        (ROW_GROUPS, LIST) => input.structs(|input, group| {
            input.fields(|input, id, kind| match (id, kind) {
                (COLUMNS, LIST) => input.structs(|input, column| {
                    let range = chunk_range(input)?;
                    chunks.push(ColumnChunk { range, group, column });
                    (chunks.len() <= MAX_CHUNKS).then_some(())
                }),
                _ => input.skip(kind, 0),
            })
        }),
        _ => input.skip(kind, 0),
    })?;
    Some(chunks)
}

/// Parses the byte range of a `ColumnChunk`.
fn chunk_range(input: &mut Input<'_>) -> Option<ByteRange> {
    let (mut size, mut data, mut dictionary) = (None, None, None);
    input.fields(|input, id, kind| match (id, kind) {
        (META_DATA, STRUCT) => input.fields(|input, id, kind| {
            let place = match (id, kind) {
                (COMPRESSED_SIZE, I64) => &mut size,
                (DATA_PAGE, I64) => &mut data,
                (DICTIONARY_PAGE, I64) => &mut dictionary,
                _ => return input.skip(kind, 0),
            };
            *place = Some(input.integer()?);
            Some(())
        }),
        _ => input.skip(kind, 0),
    })?;
    let data = u64::try_from(data?).ok()?;
    // If there is no dictionary, some writers set its offset to 0.
    let dictionary = dictionary.and_then(|at| u64::try_from(at).ok()).filter(|at| *at > 0);
    Some(ByteRange::at(dictionary.map_or(data, |at| at.min(data)), u64::try_from(size?).ok()?))
}

/// The bytes of a footer that have not been parsed yet.
struct Input<'a> {
    bytes: &'a [u8],
}

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// Parses a signed integer in zigzag encoding.
    fn integer(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }

    fn advance(&mut self, count: u64) -> Option<()> {
        self.bytes = self.bytes.get(to_usize(count)..)?;
        Some(())
    }

    /// Calls `field` with the id and type of each field of a struct. `field` has to consume the
    /// value.
    fn fields(&mut self, mut field: impl FnMut(&mut Self, i64, u8) -> Option<()>) -> Option<()> {
        let mut id = 0_i64;
        loop {
            let head = self.byte()?;
            let kind = head & 0x0f;
            if kind == STOP {
                return Some(());
            }
            id = match head >> 4 {
                0 => self.integer()?,
                delta => id.checked_add(i64::from(delta))?,
            };
            field(self, id, kind)?;
        }
    }

    /// Parses the header of a list or set. Returns the number of elements and their type.
    fn list_header(&mut self) -> Option<(u64, u8)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            short => u64::from(short),
        };
        // Each element takes at least one byte, so a larger count is an error.
        (count <= self.bytes.len() as u64).then_some((count, head & 0x0f))
    }

    /// Calls `element` with the index of each struct of a list. `element` has to consume the
    /// struct.
    fn structs(&mut self, mut element: impl FnMut(&mut Self, usize) -> Option<()>) -> Option<()> {
        let (count, kind) = self.list_header()?;
        if kind != STRUCT && count > 0 {
            return None;
        }
        (0..to_usize(count)).try_for_each(|index| element(self, index))
    }

    fn skip(&mut self, kind: u8, depth: u32) -> Option<()> {
        if depth > MAX_NESTING {
            return None;
        }
        match kind {
            TRUE | FALSE => Some(()),
            BYTE => self.advance(1),
            DOUBLE => self.advance(8),
            BINARY => {
                let length = self.varint()?;
                self.advance(length)
            }
            LIST | SET => {
                let (count, kind) = self.list_header()?;
                // In a list, a boolean takes one byte.
                let kind = if kind <= FALSE { BYTE } else { kind };
                (0..count).try_for_each(|_| self.skip(kind, depth + 1))
            }
            MAP => {
                let count = self.varint()?;
                if count == 0 {
                    return Some(());
                }
                let kinds = self.byte()?;
                let whole = |kind| if kind <= FALSE { BYTE } else { kind };
                (0..count).try_for_each(|_| {
                    self.skip(whole(kinds >> 4), depth + 1)?;
                    self.skip(whole(kinds & 0x0f), depth + 1)
                })
            }
            STRUCT => self.fields(|input, _, kind| input.skip(kind, depth + 1)),
            _ if (BYTE..=I64).contains(&kind) => self.varint().map(drop),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Encodes a field whose id is `delta` more than that of the previous field.
    fn field(delta: u8, kind: u8, value: &[u8]) -> Vec<u8> {
        [&[delta << 4 | kind], value].concat()
    }

    fn integer(value: u64) -> Vec<u8> {
        let (mut rest, mut bytes) = (value << 1, Vec::new());
        while rest >= 0x80 {
            bytes.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
            rest >>= 7;
        }
        bytes.push(u8::try_from(rest).unwrap());
        bytes
    }

    /// Returns a footer with a version, one row group of two columns, and fields that are skipped.
    fn footer() -> Vec<u8> {
        let column = |dictionary: Option<u64>, data: u64, size: u64| {
            let mut meta = field(1, 5, &integer(1));
            meta.extend(field(2, LIST, &[0x18, 3, b'a', b'b', b'c']));
            meta.extend(field(4, I64, &integer(size)));
            meta.extend(field(2, I64, &integer(data)));
            meta.extend(dictionary.map_or_else(Vec::new, |at| field(2, I64, &integer(at))));
            meta.push(STOP);
            [field(2, I64, &integer(4)), field(1, STRUCT, &meta), vec![STOP]].concat()
        };
        let columns = [vec![0x2c], column(Some(4), 30, 300), column(None, 304, 1000)].concat();
        let group = [field(1, LIST, &columns), field(1, I64, &integer(9)), vec![STOP]].concat();
        let groups = [vec![0x1c], group].concat();
        [field(1, 5, &integer(2)), field(3, LIST, &groups), field(1, TRUE, &[]), vec![STOP]].concat()
    }

    #[test]
    fn chunks_begin_with_their_dictionary() {
        let chunk = |range, column| ColumnChunk { range, group: 0, column };
        let expected = [chunk(ByteRange::new(4, 304), 0), chunk(ByteRange::new(304, 1304), 1)];
        assert_eq!(parse(&footer()).unwrap(), expected);
    }

    #[test]
    fn a_footer_that_is_cut_anywhere_is_refused() {
        let footer = footer();
        for length in 0..footer.len() {
            assert_eq!(parse(&footer[..length]), None, "{length}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_a_result(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            parse(&bytes);
        }

        #[test]
        fn a_damaged_byte_ends_in_a_result(at in 0..footer().len(), byte: u8) {
            let mut footer = footer();
            footer[at] = byte;
            parse(&footer);
        }
    }
}
