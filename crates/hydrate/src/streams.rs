//! Which reads of a handle go on where an earlier one ended, and how far ahead of them to fetch.
//!
//! Pure: told each read, it says which bytes to fetch before they are asked for. A reader who jumps about gets nothing
//! but the blocks of its reads. One who goes on gets a window, which grows with what was read as long as the reader still
//! has to wait: that finds what the link needs (the product of its rate and its round trip) without knowing either, and
//! bounds what is fetched in vain by what was read. Several places read in turn
//! in one handle, as by processes that have mapped a file, are told apart by position.
//!
//! Assumes that reads of one stream may overtake each other (a kernel reading ahead issues them from several threads),
//! but not by more than [`REORDER`].

use std::ops::Range;

use firstbyte_transfer::control::Distance;

use crate::BLOCK;
use crate::requests::cut;

/// Streams a handle remembers; the one not read for longest gives way. Programs that read more places of one file at
/// once have not been met.
const MOST: usize = 16;
/// The window after the first continuation: two blocks, so that a reader who stops here has cost little.
const FIRST: u64 = 2 * BLOCK;
/// Width of a window that readers wait for, over what they have read: each round trip makes it five times as wide, so at
/// 30 ms a link that needs 64 MiB has it within 0.2 s.
const GROWTH: u64 = 4;
/// How far behind the foremost read of a stream another may arrive and belong to it.
const REORDER: u64 = 1 << 20;
/// The smallest request of a window: at 40 MB/s a connection it lasts as long as the round trip it pays for.
const SEGMENT: u64 = 1 << 20;

/// A window so wide belongs to a reader who goes on. In a narrower one others may be about, and who wants a block far into a
/// request fetches it by himself instead of waiting: so requests stay small there, wherever the server is.
const WIDE: u64 = 32 << 20;

/// Whether a read found all its bytes here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Yes.
    All,
    /// It has to wait.
    Missing,
}

/// Bytes to fetch ahead of a reader, in requests of `segment` bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) range: Range<u64>,
    pub(crate) segment: u64,
    /// Where the reader is.
    pub(crate) reader: u64,
}

/// The streams of one handle.
#[derive(Debug)]
pub(crate) struct Streams {
    size: u64,
    most_window: u64,
    distance: Distance,
    streams: Vec<Stream>,
    clock: u64,
}

#[derive(Clone, Debug)]
struct Stream {
    /// Where the stream began.
    begin: u64,
    /// Start of the latest read.
    start: u64,
    /// Where the next read is expected.
    end: u64,
    /// Bytes up to here have been read or asked for ahead.
    ahead: u64,
    window: u64,
    used: u64,
}

impl Stream {
    /// Whether a read is of this stream. Until a window is open only a seamless continuation is.
    fn continues(&self, read: &Range<u64>) -> bool {
        if self.window == 0 {
            self.start < read.start && read.start <= self.end && read.end > self.end
        } else {
            read.start.saturating_add(REORDER) >= self.end && read.start <= self.ahead
        }
    }
}

impl Streams {
    /// No streams yet, over a file of `size` bytes; windows grow to `most_window` bytes.
    pub(crate) fn new(size: u64, most_window: u64) -> Self {
        Self { size, most_window, distance: Distance::Far, streams: Vec::new(), clock: 0 }
    }

    /// No window is wider than this from now on, and requests are cut for a server so far away.
    pub(crate) fn adapt(&mut self, most_window: u64, distance: Distance) {
        (self.most_window, self.distance) = (most_window, distance);
    }

    /// Takes note of a read; returns what to fetch ahead of it.
    pub(crate) fn note(&mut self, read: Range<u64>, found: Found) -> Option<Ahead> {
        self.clock += 1;
        let Some(index) = self.streams.iter().position(|stream| stream.continues(&read)) else {
            self.begin(read);
            return None;
        };
        let stream = &mut self.streams[index];
        stream.used = self.clock;
        stream.start = read.start;
        stream.end = stream.end.max(read.end);
        stream.window = match (stream.window, found) {
            (0, _) => FIRST,
            (window, Found::All) => window,
            (window, Found::Missing) => window.max((stream.end - stream.begin).saturating_mul(GROWTH)),
        }
        .min(self.most_window);
        self.merge(index);
        self.extend()
    }

    fn begin(&mut self, read: Range<u64>) {
        if self.streams.len() == MOST
            && let Some(oldest) = (0..MOST).min_by_key(|index| self.streams[*index].used)
        {
            self.streams.swap_remove(oldest);
        }
        let Range { start, end } = read;
        self.streams.push(Stream { begin: start, start, end, ahead: end, window: 0, used: self.clock });
    }

    /// A stream that has run into where another one is goes on as one with it. The result is the last of the list.
    fn merge(&mut self, index: usize) {
        let mut merged = self.streams.swap_remove(index);
        self.streams.retain(|other| {
            let met = merged.start <= other.end && other.end <= merged.end;
            if met {
                merged.ahead = merged.ahead.max(other.ahead);
                merged.window = merged.window.max(other.window);
                merged.begin = merged.begin.min(other.begin);
            }
            !met
        });
        self.streams.push(merged);
    }

    /// What the last stream's window reaches beyond what was asked for already, once that makes a request.
    fn extend(&mut self) -> Option<Ahead> {
        let stream = self.streams.last_mut()?;
        let distance = if stream.window < WIDE { Distance::Far } else { self.distance };
        let (requests, largest) = cut(distance);
        let segment = (stream.window / requests).clamp(SEGMENT, largest).next_multiple_of(BLOCK);
        let start = stream.ahead.max(stream.end);
        let reach = stream.end.saturating_add(stream.window);
        let end = if reach >= self.size { self.size } else { reach / BLOCK * BLOCK };
        let least = if end == self.size { 1 } else { segment.min(stream.window / 2) };
        if end.saturating_sub(start) < least.max(1) {
            return None;
        }
        stream.ahead = end;
        Some(Ahead { range: start..end, segment, reader: stream.end })
    }
}

#[cfg(test)]
mod tests;
