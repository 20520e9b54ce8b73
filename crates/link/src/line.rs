//! Carries one direction of a connection: reads bytes at the allowed rate, delays them by half a
//! round trip, and writes them.
//!
//! A line buffers up to twice the bytes that arrive during its delay of half a round trip, and two
//! pieces. If the receiver is slower, the line reads only one more piece. Then the buffers of the
//! sender fill up, as on a real network.

use std::collections::VecDeque;
use std::net::Shutdown;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use firstbyte_location::to_usize;

use crate::config::LinkConfig;
use crate::end::LinkSocket;
use crate::pace::WirePace;
use crate::rate::LinkRate;

/// Rate that a line without a rate carries at any round trip of up to a third of a second. It only
/// decides how many bytes the line holds.
const UNLIMITED_RATE: LinkRate = LinkRate::bytes_per_second(400_000_000);

/// Smallest and largest bandwidth-delay product of a line without a rate, in bytes. With the
/// largest, a receiver that is slower than its sender takes 128 MiB of memory.
const UNLIMITED_PRODUCT_BYTES: RangeInclusive<u64> = (4 << 20)..=(64 << 20);

/// Maximum number of unused buffers that are kept for reuse. An active link needs tens of buffers.
const SPARE_BUFFERS: usize = 64;

/// An element in the queue of a line.
#[derive(Debug)]
enum Load {
    Bytes {
        buffer: Vec<u8>,
        length: usize,
    },
    /// The sender will send no more bytes.
    End,
    /// The connection ends here.
    Cut(ConnectionEnd),
}

/// Way in which a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    Close,
    Reset,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    Now,
    At(Instant),
    /// The line cannot be read until more bytes arrive or the line has room again.
    No,
}

#[derive(Debug, Default)]
pub(crate) struct Delivered {
    pub(crate) bytes: usize,
    /// Time at which the next bytes are due. `None` if the line is empty or waits for the receiver.
    pub(crate) next: Option<Instant>,
    pub(crate) ending: Option<ConnectionEnd>,
}

/// Read buffers for reuse.
#[derive(Debug)]
pub(crate) struct SpareBuffers {
    buffers: Vec<Vec<u8>>,
    size: usize,
}

impl SpareBuffers {
    /// Returns a pool whose buffers hold the largest read on this link.
    pub(crate) fn new(config: &LinkConfig) -> Self {
        let largest = WirePace::new(highest_rate(config), Instant::now()).piece();
        Self { buffers: Vec::new(), size: to_usize(largest) }
    }

    fn take(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_else(|| vec![0; self.size])
    }

    fn give(&mut self, buffer: Vec<u8>) {
        if buffer.len() == self.size && self.buffers.len() < SPARE_BUFFERS {
            self.buffers.push(buffer);
        }
    }
}

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct DelayLine {
    queue: VecDeque<(Instant, Load)>,
    /// Number of bytes of the first queue element that were already written.
    written: usize,
    held_bytes: usize,
    max_held_bytes: usize,
    delay: Duration,
    pace: WirePace,
    /// Time before which nothing is read.
    pub(crate) opens_at: Instant,
    /// True if nothing more is read, because the sender has ended or the connection was cut.
    ended: bool,
    /// True once the end of the stream was delivered.
    pub(crate) finished: bool,
}

/// Returns the highest rate that a connection of this link can have. `None` if no rate is limited.
fn highest_rate(config: &LinkConfig) -> Option<LinkRate> {
    let total = config.burst.map(|burst| burst.rate).or(config.rate);
    total.into_iter().chain(config.per_connection).min()
}

impl DelayLine {
    pub(crate) fn new(config: &LinkConfig, opens_at: Instant, now: Instant) -> Self {
        let delay = config.rtt / 2;
        let (least, most) = UNLIMITED_PRODUCT_BYTES.into_inner();
        let unlimited = || UNLIMITED_RATE.bytes_in(delay).clamp(least, most);
        let product = highest_rate(config).map_or_else(unlimited, |rate| rate.bytes_in(delay));
        let piece = WirePace::new(highest_rate(config), now).piece();
        // Twice the product, so that the line can catch up after a late wake-up on a busy machine.
        let max_held_bytes = to_usize(product.saturating_add(piece).saturating_mul(2));
        let pace = WirePace::new(config.per_connection, now);
        Self {
            queue: VecDeque::new(),
            written: 0,
            held_bytes: 0,
            max_held_bytes,
            delay,
            pace,
            opens_at,
            ended: false,
            finished: false,
        }
    }

    /// Returns when `source` can be read for `destination`: the line must have room, and the rates
    /// of the line and the link must allow the read.
    pub(crate) fn ready(
        &mut self,
        source: &LinkSocket,
        destination: &LinkSocket,
        shared: &mut WirePace,
        now: Instant,
    ) -> Readiness {
        let room = if destination.writable {
            self.max_held_bytes
        } else {
            to_usize(self.pace.piece().min(shared.piece()))
        };
        if self.ended || !source.readable || self.held_bytes >= room {
            return Readiness::No;
        }
        if self.opens_at > now {
            return Readiness::At(self.opens_at);
        }
        match self.pace.busy_until(now).or_else(|| shared.busy_until(now)) {
            Some(free_at) => Readiness::At(free_at),
            None => Readiness::Now,
        }
    }

    /// Reads one piece, of up to `limit` bytes, from `source`. `change` may alter the bytes.
    /// Returns the number of bytes read.
    pub(crate) fn take(
        &mut self,
        source: &mut LinkSocket,
        limit: u64,
        shared: &mut WirePace,
        spare: &mut SpareBuffers,
        now: Instant,
        change: impl FnOnce(&mut [u8]),
    ) -> usize {
        let mut buffer = spare.take();
        let limit = to_usize(limit.min(self.pace.piece()).min(shared.piece())).min(buffer.len());
        let length = match source.read(&mut buffer[..limit]) {
            Ok(Some(0)) => {
                self.end(Load::End, now);
                0
            }
            Ok(length) => length.unwrap_or(0),
            Err(error) => {
                tracing::debug!(%error, "a side of the link broke off");
                self.end(Load::Cut(ConnectionEnd::Reset), now);
                0
            }
        };
        if length == 0 {
            spare.give(buffer);
            return 0;
        }
        self.pace.send(length, now);
        shared.send(length, now);
        change(&mut buffer[..length]);
        if length < buffer.len() / 8 {
            // A small message, such as a request, need not occupy a whole buffer.
            let small = buffer[..length].to_vec();
            spare.give(std::mem::replace(&mut buffer, small));
        }
        self.held_bytes += length;
        self.queue.push_back((now + self.delay, Load::Bytes { buffer, length }));
        length
    }

    /// Sends the last bytes that were read once more.
    pub(crate) fn repeat_last(&mut self, now: Instant) {
        if let Some((_, Load::Bytes { buffer, length })) = self.queue.back() {
            let (buffer, length) = (buffer[..*length].to_vec(), *length);
            self.held_bytes += length;
            self.queue.push_back((now + self.delay, Load::Bytes { buffer, length }));
        }
    }

    /// Ends the connection after the bytes that were read so far.
    pub(crate) fn cut(&mut self, ending: ConnectionEnd, now: Instant) {
        self.end(Load::Cut(ending), now);
    }

    fn end(&mut self, load: Load, now: Instant) {
        self.ended = true;
        self.queue.push_back((now + self.delay, load));
    }

    /// Returns true if the line has ended, and everything was delivered.
    pub(crate) fn is_drained(&self) -> bool {
        self.ended && self.queue.is_empty()
    }

    /// Ends a round of sending: see [`WirePace::end_round`].
    pub(crate) fn end_round(&mut self) {
        self.pace.end_round();
    }

    /// Writes the bytes that are due. If the receiver has closed, ends the connection; bytes
    /// written before count as delivered.
    pub(crate) fn deliver(
        &mut self,
        destination: &mut LinkSocket,
        spare: &mut SpareBuffers,
        now: Instant,
    ) -> Delivered {
        let mut delivered = Delivered::default();
        while let Some((due, load)) = self.queue.front() {
            if *due > now {
                delivered.next = Some(*due);
                break;
            }
            match load {
                Load::Bytes { buffer, length } if destination.writable => {
                    let Ok(n) = destination.write(&buffer[self.written..*length]) else {
                        delivered.ending = Some(ConnectionEnd::Reset);
                        break;
                    };
                    self.written += n;
                    delivered.bytes += n;
                    if self.written < *length {
                        continue;
                    }
                    self.held_bytes -= *length;
                    self.written = 0;
                    if let Some((_, Load::Bytes { buffer, .. })) = self.queue.pop_front() {
                        spare.give(buffer);
                    }
                }
                Load::Bytes { .. } => break,
                Load::End => {
                    // The call fails if the receiver has already closed, which epoll reports.
                    let _ = destination.stream.shutdown(Shutdown::Write);
                    self.finished = true;
                    self.queue.pop_front();
                }
                Load::Cut(ending) => {
                    delivered.ending = Some(*ending);
                    break;
                }
            }
        }
        delivered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_far_link_without_a_rate_holds_the_bytes_of_its_delay() {
        let held = |rtt: u64| {
            let mut config = LinkConfig::new(([127, 0, 0, 1], 0).into(), "127.0.0.1:1");
            config.rtt = Duration::from_millis(rtt);
            let now = Instant::now();
            DelayLine::new(&config, now, now).max_held_bytes as f64
        };
        for rtt in [1, 30, 200, 300] {
            let delay = rtt as f64 / 2e3;
            assert!(held(rtt) / delay >= 2.0 * 400e6, "{rtt} ms");
        }
        // A round trip of an hour holds no more.
        assert!(held(3_600_000) < 140e6);
    }
}
