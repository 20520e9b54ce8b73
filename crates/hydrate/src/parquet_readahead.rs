//! Recognizes a reader of some columns of a Parquet file, and predicts which parts of the file it
//! reads next. Does no I/O.
//!
//! Such a reader reads the footer, and then the same columns of one row group after the other.
//! Between them lie the columns that it does not read, so its reads are not sequential. Once the
//! reader has read a column in one row group, it is expected to read the same column in the
//! following groups. As with sequential readers, the number of bytes that are fetched without use
//! is bounded by the number of bytes read. Called by [`Handle`](crate::Handle).

mod footer;

use firstbyte_location::ByteRange;

use crate::read_ahead::WINDOW_GROWTH;

pub(crate) use footer::ColumnChunk;

/// The last bytes of a Parquet file, which follow the length of the footer.
const MAGIC: &[u8; 4] = b"PAR1";
/// Length of the end of a Parquet file, bytes: the footer's length and the magic.
pub(crate) const FOOTER_END_BYTES: usize = 8;
/// Maximum length of a footer that is parsed, bytes.
const MAX_FOOTER: u64 = 16 << 20;

/// Knowledge about a file and its reader.
#[derive(Debug, Default)]
pub(crate) enum Columns {
    /// The end of the file has not been read yet.
    #[default]
    Unknown,
    /// The file is a Parquet file whose footer is in this range and has not been completely read
    /// yet.
    Footer(ByteRange),
    /// The file is a Parquet file whose footer has been read.
    Known(ColumnScan),
    /// The file is not a Parquet file, or cannot be parsed.
    Other,
}

impl Columns {
    /// Returns whether the reads need not be reported, because the file has no columns to predict.
    pub(crate) fn is_other(&self) -> bool {
        matches!(self, Self::Other)
    }

    /// Examines the last `bytes` of a file of `size` bytes.
    pub(crate) fn note_end(&mut self, bytes: &[u8], size: u64) {
        let Self::Unknown = self else { return };
        *self = Self::Other;
        if let Some((rest, MAGIC)) = bytes.split_last_chunk()
            && let Some((_, length)) = rest.split_last_chunk()
        {
            let length = u64::from(u32::from_le_bytes(*length));
            let end = size - FOOTER_END_BYTES as u64;
            if (1..=MAX_FOOTER.min(end)).contains(&length) {
                *self = Self::Footer(ByteRange::new(end - length, end));
            }
        }
    }

    /// Returns the range of the footer, if `read` contains a part of it and it has not been parsed
    /// yet.
    pub(crate) fn unparsed_footer_in(&self, read: ByteRange) -> Option<ByteRange> {
        match self {
            Self::Footer(footer) if !footer.intersect(read).is_empty() => Some(*footer),
            _ => None,
        }
    }

    /// Parses the footer.
    pub(crate) fn parse(&mut self, footer: &[u8], size: u64) {
        let chunks = footer::parse(footer)
            .filter(|chunks| !chunks.is_empty() && chunks.iter().all(|chunk| chunk.range.end <= size));
        *self = chunks.map_or(Self::Other, |chunks| Self::Known(ColumnScan::new(chunks)));
    }

    /// Records a read. Returns the ranges to fetch ahead, which have at most `most` bytes in total.
    pub(crate) fn note(&mut self, read: ByteRange, most: u64) -> Vec<ByteRange> {
        match self {
            Self::Known(scan) => scan.note(read, most),
            _ => Vec::new(),
        }
    }
}

/// A reader of some columns of a Parquet file.
#[derive(Debug)]
pub(crate) struct ColumnScan {
    /// The column chunks, in order of their offsets.
    chunks: Vec<ColumnChunk>,
    states: Vec<ColumnState>,
    /// Indices into `chunks`, in order of row groups and then columns.
    order: Vec<usize>,
    /// For each column, whether the reader has read it.
    used: Vec<bool>,
    /// Total length of the chunks that were read, bytes.
    read_bytes: u64,
    /// Total length of the chunks that were fetched ahead and have not been read yet, bytes.
    unread_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnState {
    Fresh,
    Ahead,
    Read,
}

impl ColumnScan {
    fn new(mut chunks: Vec<ColumnChunk>) -> Self {
        chunks.sort_by_key(|chunk| chunk.range.start);
        let mut order: Vec<usize> = (0..chunks.len()).collect();
        order.sort_by_key(|index| (chunks[*index].group, chunks[*index].column));
        let columns = chunks.iter().map(|chunk| chunk.column + 1).max().unwrap_or(0);
        let states = vec![ColumnState::Fresh; chunks.len()];
        Self { chunks, states, order, used: vec![false; columns], read_bytes: 0, unread_bytes: 0 }
    }

    fn note(&mut self, read: ByteRange, most: u64) -> Vec<ByteRange> {
        let first = self.chunks.partition_point(|chunk| chunk.range.start < read.start);
        let mut group = None;
        for index in first..self.chunks.len() {
            let ColumnChunk { range, group: of, column } = self.chunks[index];
            if range.end > read.end {
                break;
            }
            match std::mem::replace(&mut self.states[index], ColumnState::Read) {
                ColumnState::Read => continue,
                ColumnState::Ahead => self.unread_bytes -= range.len(),
                ColumnState::Fresh => {}
            }
            self.read_bytes += range.len();
            self.used[column] = true;
            group = group.max(Some(of));
        }
        group.map_or_else(Vec::new, |group| self.expect(group, most))
    }

    /// Returns the chunks of used columns to fetch ahead, beginning with row group `group`.
    fn expect(&mut self, group: usize, most: u64) -> Vec<ByteRange> {
        let limit = self.read_bytes.saturating_mul(WINDOW_GROWTH).min(most);
        let from = self.order.partition_point(|index| self.chunks[*index].group < group);
        let mut ranges = Vec::new();
        for index in &self.order[from..] {
            let ColumnChunk { range, column, .. } = self.chunks[*index];
            if !self.used[column] || self.states[*index] != ColumnState::Fresh {
                continue;
            }
            if self.unread_bytes + range.len() > limit {
                break;
            }
            self.states[*index] = ColumnState::Ahead;
            self.unread_bytes += range.len();
            ranges.push(range);
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Returns a scan of ten row groups, each with five columns of 1 MiB.
    fn scan() -> ColumnScan {
        let chunk = |index: u64| ColumnChunk {
            range: ByteRange::at(4 + index * MIB, MIB),
            group: usize::try_from(index / 5).unwrap(),
            column: usize::try_from(index % 5).unwrap(),
        };
        ColumnScan::new((0..50).map(chunk).collect())
    }

    fn at(group: u64, column: u64) -> ByteRange {
        ByteRange::at(4 + (group * 5 + column) * MIB, MIB)
    }

    #[test]
    fn the_columns_that_were_read_are_expected_of_later_row_groups() {
        let mut scan = scan();
        assert_eq!(scan.note(at(0, 2), 64 * MIB), [at(1, 2), at(2, 2), at(3, 2), at(4, 2)]);
        let more = scan.note(at(0, 4), 64 * MIB);
        assert_eq!(more, [at(1, 4), at(2, 4), at(3, 4), at(4, 4)], "no more than in proportion");
        assert_eq!(scan.note(at(0, 4), 64 * MIB), [], "nothing is new");
        assert_eq!(scan.note(at(1, 2), 64 * MIB).first(), Some(&at(5, 2)));
        assert_eq!(scan.note(ByteRange::at(4 + 7 * MIB + 1, MIB), 64 * MIB), [], "a part of a chunk");
    }

    #[test]
    fn what_is_fetched_ahead_is_bounded_by_memory_and_by_what_was_read() {
        let mut scan = scan();
        let (mut read, mut ahead) = (0, 0);
        for group in 0..10 {
            for column in [1, 3] {
                let range = at(group, column);
                read += range.len();
                ahead += scan.note(range, 6 * MIB).iter().map(|range| range.len()).sum::<u64>();
                assert!(scan.unread_bytes <= 6 * MIB && scan.unread_bytes <= read * WINDOW_GROWTH);
            }
        }
        assert!(ahead <= read, "no chunk of another column: {ahead} of {read}");
    }

    #[test]
    fn a_file_of_another_kind_is_left_alone() {
        for end in [&b"12345678"[..], b"PAR1", b"\xff\xff\xff\xffPAR1", b"\0\0\0\0PAR1", b""] {
            let mut columns = Columns::default();
            columns.note_end(end, 1 << 30);
            assert!(columns.is_other(), "{end:?}");
        }
    }
}
