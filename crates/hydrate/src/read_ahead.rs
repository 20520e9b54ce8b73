//! Detects which reads of a handle are sequential, and decides how far ahead of them to fetch. Does
//! no I/O.
//!
//! A random reader gets only the blocks of its reads, and only the bytes of its reads once several
//! of them in a row had no neighbour. A sequential reader gets a window. While the reader still has
//! to wait, the window grows in proportion to the bytes that it has read. So the window reaches the
//! bandwidth-delay product of the link without a measurement, and the number of bytes fetched
//! without use is bounded by the number of bytes read.
//!
//! One handle may have several sequential readers, for example processes that map a file. The
//! readers are distinguished by position. Reads of one reader may arrive out of order by up to
//! [`SEGMENT`] bytes, because the kernel issues its read-ahead from several threads.

use std::ops::Range;

use firstbyte_pacing::{LONGEST_REQUEST, Proximity, SHORTEST_REQUEST, START, START_NEAR};

use crate::block::{BLOCK, SEGMENT};
use crate::block_table::AheadRange;

/// Maximum number of sequences that a handle remembers. The least recently read one is dropped.
const MAX_SEQUENCES: usize = 16;
/// Length of the first window, bytes, which a sequence gets when a second read continues it. The
/// window is small, because many readers stop after two reads.
const FIRST_WINDOW: u64 = 2 * BLOCK;
/// The window of a reader that waits, as a multiple of the bytes it has read. Each round trip makes
/// the window five times as wide. If a link with a round trip of 30 ms needs 64 MiB, its window is
/// that wide within 0.2 s.
pub(crate) const WINDOW_GROWTH: u64 = 4;
/// Length of a window, in bytes, from which on its requests are longer: it is split into fewer of
/// them, and to a near server they may exceed [`SHORT_REQUEST_LIMIT`]. The requests of a shorter
/// window stay short: another reader may need a block near the end of a long request, and would
/// fetch that block again instead of waiting.
const WIDE_WINDOW: u64 = LONGEST_REQUEST;
/// Maximum length of a request ahead of a reader, bytes, unless the server is near and the window
/// is wide. With longer requests, a window would consist of only a few requests, and the last one
/// would end at the rate of a single connection.
const SHORT_REQUEST_LIMIT: u64 = SHORTEST_REQUEST;
/// If the server is far, a request ahead of a reader has the bytes that one connection brings in a
/// second, divided by this number. So slower connections get shorter requests, and more of them at
/// once.
const SECOND_DIVISOR: u64 = 4;
/// Minimum length of a request ahead of a reader, bytes, unless less is left to read.
const MIN_REQUEST: u64 = SEGMENT / 2;
/// Number of consecutive reads outside of all sequences after which a reader counts as random.
const RANDOM_AFTER_READS: u32 = 8;

/// Returns the minimum number of requests in a window. If the server is far, no link that was
/// measured needed more than [`START`] long requests at once. More short requests are needed,
/// because each spends more of its time on the round trip. A near server (MinIO) gets few requests:
/// it spends up to 2 ms on each, in which it could send 4 MiB.
const fn requests(server: Proximity, is_wide: bool) -> u64 {
    let requests = match (server, is_wide) {
        (Proximity::Near, true) => START_NEAR,
        (Proximity::Near, false) | (Proximity::Unknown | Proximity::Far, true) => START,
        (Proximity::Unknown | Proximity::Far, false) => 2 * START,
    };
    requests as u64
}

/// Whether the bytes of a read were found in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundBytes {
    All,
    /// Some bytes are missing, so the read has to wait.
    Missing,
}

/// The sequential readers of one handle.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    size: u64,
    max_window: u64,
    server: Proximity,
    /// Bytes per second of one connection, if known.
    rate: Option<u64>,
    sequences: Vec<Sequence>,
    /// Number of reads so far.
    clock: u64,
    /// Number of reads since the last one that continued a sequence.
    unrelated: u32,
}

/// A sequence of reads, each of which begins where the previous one ended, or near that offset.
#[derive(Clone, Debug)]
struct Sequence {
    /// Start offset of the first read.
    begin: u64,
    /// Start offset of the latest read.
    start: u64,
    /// Offset at which the next read is expected.
    end: u64,
    /// End offset of the bytes that were read or fetched ahead.
    fetched_end: u64,
    /// Length of the window, bytes. 0 until the reader counts as sequential.
    window: u64,
    /// The value of [`ReadAhead::clock`] at the latest read.
    used: u64,
}

impl Sequence {
    /// Returns the window for a reader that has read up to `end` and waits.
    fn grown(&self) -> u64 {
        (self.end - self.begin).saturating_mul(WINDOW_GROWTH)
    }

    /// Returns whether a read belongs to this sequence. While the sequence has no window, the read
    /// must start within the latest read or right after it, and end after it.
    fn continues(&self, read: &Range<u64>) -> bool {
        if self.window == 0 {
            self.start < read.start && read.start <= self.end && read.end > self.end
        } else {
            read.start.saturating_add(SEGMENT) >= self.end && read.start <= self.fetched_end
        }
    }
}

impl ReadAhead {
    /// Creates the state for a file of `size` bytes. A window grows to at most `max_window` bytes.
    pub(crate) fn new(size: u64, max_window: u64) -> Self {
        Self {
            size,
            max_window,
            server: Proximity::Far,
            rate: None,
            sequences: Vec::new(),
            clock: 0,
            unrelated: 0,
        }
    }

    /// Updates the widest window, the distance of the server, and the rate of one connection.
    pub(crate) fn adapt(&mut self, max_window: u64, server: Proximity, rate: Option<u64>) {
        (self.max_window, self.server, self.rate) = (max_window, server, rate);
    }

    /// Returns whether a read is one of many random reads. If so, its neighbours are not expected
    /// to be read.
    pub(crate) fn is_random(&self, read: &Range<u64>) -> bool {
        self.unrelated >= RANDOM_AFTER_READS
            && !self.sequences.iter().any(|sequence| sequence.continues(read))
    }

    /// Records a read. Returns the range to fetch ahead of it, if there is one.
    pub(crate) fn note(&mut self, read: Range<u64>, found: FoundBytes) -> Option<AheadRange> {
        self.clock += 1;
        let Some(index) = self.sequences.iter().position(|sequence| sequence.continues(&read)) else {
            self.unrelated = self.unrelated.saturating_add(1);
            // A long read at the start of the file is assumed to be the first one of a sequential
            // reader.
            let is_first = read.start == 0 && read.end >= SEGMENT && found == FoundBytes::Missing;
            self.begin(read);
            return is_first.then(|| self.open_window()).flatten();
        };
        self.unrelated = 0;
        let sequence = &mut self.sequences[index];
        sequence.used = self.clock;
        sequence.start = read.start;
        sequence.end = sequence.end.max(read.end);
        sequence.window = match (sequence.window, found) {
            (window, FoundBytes::All) => window.max(FIRST_WINDOW),
            (window, FoundBytes::Missing) => window.max(FIRST_WINDOW).max(sequence.grown()),
        }
        .min(self.max_window);
        self.merge(index);
        self.extend()
    }

    /// Gives the last sequence the window of a reader that waits, and returns the range to fetch.
    fn open_window(&mut self) -> Option<AheadRange> {
        let most = self.max_window;
        let sequence = self.sequences.last_mut()?;
        sequence.window = sequence.grown().min(most);
        self.extend()
    }

    fn begin(&mut self, read: Range<u64>) {
        if self.sequences.len() == MAX_SEQUENCES
            && let Some(oldest) = (0..MAX_SEQUENCES).min_by_key(|index| self.sequences[*index].used)
        {
            self.sequences.swap_remove(oldest);
        }
        let Range { start, end } = read;
        self.sequences.push(Sequence {
            begin: start,
            start,
            end,
            fetched_end: end,
            window: 0,
            used: self.clock,
        });
    }

    /// Merges a sequence with the sequences whose ends it has reached. The merged sequence becomes
    /// the last of the list.
    fn merge(&mut self, index: usize) {
        let mut merged = self.sequences.swap_remove(index);
        self.sequences.retain(|other| {
            let met = merged.start <= other.end && other.end <= merged.end;
            if met {
                merged.fetched_end = merged.fetched_end.max(other.fetched_end);
                merged.window = merged.window.max(other.window);
                merged.begin = merged.begin.min(other.begin);
            }
            !met
        });
        self.sequences.push(merged);
    }

    /// Returns the part of the last sequence's window that was not fetched yet, if that part is
    /// long enough for a request.
    fn extend(&mut self) -> Option<AheadRange> {
        let sequence = self.sequences.last_mut()?;
        let is_wide = sequence.window >= WIDE_WINDOW;
        let longest = match (self.server, self.rate) {
            (Proximity::Near, _) if is_wide => LONGEST_REQUEST,
            (Proximity::Far, Some(rate)) => (rate / SECOND_DIVISOR).clamp(MIN_REQUEST, SHORT_REQUEST_LIMIT),
            _ => SHORT_REQUEST_LIMIT,
        };
        let segment = sequence.window / requests(self.server, is_wide);
        let segment = segment.clamp(MIN_REQUEST, longest).next_multiple_of(BLOCK);
        let start = sequence.fetched_end.max(sequence.end);
        let reach = sequence.end.saturating_add(sequence.window);
        let end = if reach >= self.size { self.size } else { reach / BLOCK * BLOCK };
        let least = if end == self.size { 1 } else { segment.min(sequence.window / 2) };
        if end.saturating_sub(start) < least.max(1) {
            return None;
        }
        sequence.fetched_end = end;
        Some(AheadRange { range: start..end, segment, reader: sequence.end })
    }
}

#[cfg(test)]
mod tests;
