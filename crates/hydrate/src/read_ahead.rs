//! Detects which reads of a handle are sequential, and how far ahead of them to fetch. Pure.
//!
//! A random reader gets only the blocks of its reads, and after some reads without a neighbour only
//! their bytes. A sequential reader gets a window, which grows in proportion to the bytes read
//! while the reader still has to wait. So the window reaches the bandwidth-delay product of the
//! link without a measurement of it, and the bytes fetched for nothing are bounded by the bytes
//! read. One handle may have several sequential readers, for
//! example processes that map a file; they are distinguished by position. Reads of one reader may
//! arrive out of order, because the kernel issues its read-ahead from several threads, but by no
//! more than [`SEGMENT`].

use std::ops::Range;

use firstbyte_pacing::{LONGEST_REQUEST, Proximity, SHORTEST_REQUEST, START, START_NEAR};

use crate::block::{BLOCK, SEGMENT};
use crate::block_table::Ahead;

/// Sequences remembered by a handle; the least recently read is dropped.
const MOST_SEQUENCES: usize = 16;
/// The window after the first continuation: small, because many readers stop here.
const FIRST: u64 = 2 * BLOCK;
/// Window of a reader that waits, as a multiple of the bytes it has read: each round trip makes it
/// five times as wide, so a link of 30 ms that needs 64 MiB has it within 0.2 s.
pub(crate) const GROWTH: u64 = 4;
/// From this width on, requests depend on the distance of the server. In a narrower window they
/// stay small: other readers may need a block far into a request, and would fetch it again instead
/// of waiting.
const WIDE: u64 = LONGEST_REQUEST;
/// The longest request ahead of a reader of a far server. In longer ones the window would be few
/// requests, and the last of them would end alone, at the rate of one connection.
const LONGEST_FAR: u64 = SHORTEST_REQUEST;
/// The part of a long transfer's request that a reader of a far server asks for: a quarter of a
/// second, since a window is to hold many.
const FAR_REQUESTS: u64 = 4;
/// The shortest request ahead of a reader, unless less is left.
const SHORTEST: u64 = SEGMENT / 2;
/// Reads in a row that continue no other, after which a reader counts as random.
const RANDOM: u32 = 8;

/// The number of requests in a window, at least. Far from the server, no link measured needed more
/// than [`START`] at once if they are long. Short ones spend more of their time on the round trip.
/// A near server (MinIO) spends up to 2 ms on each, in which it sends 4 MiB.
const fn requests(server: Proximity, is_wide: bool) -> u64 {
    let requests = match (server, is_wide) {
        (Proximity::Near, true) => START_NEAR,
        (Proximity::Near, false) | (Proximity::Unknown | Proximity::Far, true) => START,
        (Proximity::Unknown | Proximity::Far, false) => 2 * START,
    };
    requests as u64
}

/// Whether a read found all its bytes present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    All,
    /// The read has to wait.
    Missing,
}

/// The sequential readers of one handle.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    size: u64,
    most_window: u64,
    server: Proximity,
    /// Bytes of the longest request, by the rate of one.
    longest: u64,
    sequences: Vec<Sequence>,
    clock: u64,
    /// Reads since the last one that continued a sequence.
    unrelated: u32,
}

#[derive(Clone, Debug)]
struct Sequence {
    begin: u64,
    /// Start of the latest read.
    start: u64,
    /// The offset at which the next read is expected.
    end: u64,
    /// The end of the bytes read or fetched ahead.
    ahead: u64,
    window: u64,
    used: u64,
}

impl Sequence {
    /// The window of a reader that has read so far and waits.
    fn grown(&self) -> u64 {
        (self.end - self.begin).saturating_mul(GROWTH)
    }

    /// Whether a read belongs to this sequence. Until it has a window, only an exact continuation
    /// does.
    fn continues(&self, read: &Range<u64>) -> bool {
        if self.window == 0 {
            self.start < read.start && read.start <= self.end && read.end > self.end
        } else {
            read.start.saturating_add(SEGMENT) >= self.end && read.start <= self.ahead
        }
    }
}

impl ReadAhead {
    /// For a file of `size` bytes. Windows grow to `most_window` bytes.
    pub(crate) fn new(size: u64, most_window: u64) -> Self {
        Self {
            size,
            most_window,
            server: Proximity::Far,
            longest: LONGEST_FAR,
            sequences: Vec::new(),
            clock: 0,
            unrelated: 0,
        }
    }

    /// Updates the widest window, the distance of the server, and the length of a long request.
    pub(crate) fn adapt(&mut self, most_window: u64, server: Proximity, longest: u64) {
        (self.most_window, self.server, self.longest) = (most_window, server, longest);
    }

    /// Whether a read is one of many at random: nothing of what is next to it is expected to be
    /// read.
    pub(crate) fn is_random(&self, read: &Range<u64>) -> bool {
        self.unrelated >= RANDOM && !self.sequences.iter().any(|sequence| sequence.continues(read))
    }

    /// Records a read. Returns what to fetch ahead of it.
    pub(crate) fn note(&mut self, read: Range<u64>, found: Found) -> Option<Ahead> {
        self.clock += 1;
        let Some(index) = self.sequences.iter().position(|sequence| sequence.continues(&read)) else {
            self.unrelated = self.unrelated.saturating_add(1);
            // A long read of the beginning is taken for the first of a sequential reader.
            let is_first = read.start == 0 && read.end >= SEGMENT && found == Found::Missing;
            self.begin(read);
            return is_first.then(|| self.open_window()).flatten();
        };
        self.unrelated = 0;
        let sequence = &mut self.sequences[index];
        sequence.used = self.clock;
        sequence.start = read.start;
        sequence.end = sequence.end.max(read.end);
        sequence.window = match (sequence.window, found) {
            (window, Found::All) => window.max(FIRST),
            (window, Found::Missing) => window.max(FIRST).max(sequence.grown()),
        }
        .min(self.most_window);
        self.merge(index);
        self.extend()
    }

    /// Gives the last sequence the window of a reader that waits.
    fn open_window(&mut self) -> Option<Ahead> {
        let most = self.most_window;
        let sequence = self.sequences.last_mut()?;
        sequence.window = sequence.grown().min(most);
        self.extend()
    }

    fn begin(&mut self, read: Range<u64>) {
        if self.sequences.len() == MOST_SEQUENCES
            && let Some(oldest) = (0..MOST_SEQUENCES).min_by_key(|index| self.sequences[*index].used)
        {
            self.sequences.swap_remove(oldest);
        }
        let Range { start, end } = read;
        self.sequences.push(Sequence { begin: start, start, end, ahead: end, window: 0, used: self.clock });
    }

    /// Merges a sequence with those it has reached. The result is the last of the list.
    fn merge(&mut self, index: usize) {
        let mut merged = self.sequences.swap_remove(index);
        self.sequences.retain(|other| {
            let met = merged.start <= other.end && other.end <= merged.end;
            if met {
                merged.ahead = merged.ahead.max(other.ahead);
                merged.window = merged.window.max(other.window);
                merged.begin = merged.begin.min(other.begin);
            }
            !met
        });
        self.sequences.push(merged);
    }

    /// The part of the last sequence's window that was not yet fetched, if it is enough for a
    /// request.
    fn extend(&mut self) -> Option<Ahead> {
        let sequence = self.sequences.last_mut()?;
        let is_wide = sequence.window >= WIDE;
        let longest = match self.server {
            Proximity::Near if is_wide => LONGEST_REQUEST,
            // Connections of a lower rate each bring a shorter part, and more of them run at once.
            Proximity::Far => (self.longest / FAR_REQUESTS).clamp(SHORTEST, LONGEST_FAR),
            _ => LONGEST_FAR,
        };
        let segment = sequence.window / requests(self.server, is_wide);
        let segment = segment.clamp(SHORTEST, longest).next_multiple_of(BLOCK);
        let start = sequence.ahead.max(sequence.end);
        let reach = sequence.end.saturating_add(sequence.window);
        let end = if reach >= self.size { self.size } else { reach / BLOCK * BLOCK };
        let least = if end == self.size { 1 } else { segment.min(sequence.window / 2) };
        if end.saturating_sub(start) < least.max(1) {
            return None;
        }
        sequence.ahead = end;
        Some(Ahead { range: start..end, segment, reader: sequence.end })
    }
}

#[cfg(test)]
mod tests;
