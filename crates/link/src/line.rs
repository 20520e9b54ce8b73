//! One direction of a connection: paced where bytes are taken, held for half a round trip, written when that is over.
//!
//! What a line holds is bounded by twice its bandwidth-delay product. When the receiver does not keep up it holds no more
//! than one burst beyond what was on its way already, and the sender feels it: its bytes stay in its own buffers.

use std::collections::VecDeque;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use crate::end::End;
use crate::pace::Pace;
use crate::{LinkConfig, Rate};

/// What is taken at once: 2 ms worth, so that a paced line is smooth on the scale of the shortest round trips of
/// interest; between a packet and what amortises a system call.
const BURST: Duration = Duration::from_millis(2);
const BURST_BYTES: std::ops::RangeInclusive<u64> = 1460..=(128 << 10);

/// What an unlimited line may hold for each direction: 10 ms at 400 MB/s, more than loopback needs.
const UNLIMITED_HOLD: u64 = 4 << 20;

/// Buffers kept for reuse: a link at work needs tens, and never gives back what one that is idle would miss.
const SPARE_BUFFERS: usize = 64;

/// What travels along a line.
#[derive(Debug)]
enum Load {
    Bytes {
        buffer: Vec<u8>,
        length: usize,
    },
    /// The sender will send no more.
    End,
    /// The connection ends here, one way or the other.
    Cut(Ending),
}

/// How a connection ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Close,
    Reset,
}

/// Whether a line can take bytes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    Now,
    At(Instant),
    /// Not before something else happens: bytes arrive, or the line empties.
    No,
}

/// What came of delivering.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    pub(crate) bytes: usize,
    /// When more is due, unless the receiver is what it waits for.
    pub(crate) next: Option<Instant>,
    pub(crate) ending: Option<Ending>,
}

/// Buffers of one burst each, for reuse.
#[derive(Debug)]
pub(crate) struct Spare {
    buffers: Vec<Vec<u8>>,
    burst: usize,
}

impl Spare {
    pub(crate) fn new(burst: usize) -> Self {
        Self { buffers: Vec::new(), burst }
    }

    fn take(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_else(|| vec![0; self.burst])
    }

    fn give(&mut self, buffer: Vec<u8>) {
        if buffer.len() == self.burst && self.buffers.len() < SPARE_BUFFERS {
            self.buffers.push(buffer);
        }
    }
}

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct Line {
    queue: VecDeque<(Instant, Load)>,
    /// Of the first in the queue, how much the receiver has.
    written: usize,
    held: usize,
    hold_at_most: usize,
    burst: usize,
    delay: Duration,
    pace: Pace,
    /// Nothing is taken before this.
    pub(crate) opens_at: Instant,
    /// Nothing more is taken: the sender ended, or the connection was cut.
    ended: bool,
    /// The end was delivered.
    pub(crate) finished: bool,
}

/// What one read takes at most on a link like this.
pub(crate) fn burst(config: &LinkConfig) -> usize {
    let most = slowest(config).map_or(*BURST_BYTES.end(), |rate| rate.bytes_in(BURST));
    usize::try_from(most.clamp(*BURST_BYTES.start(), *BURST_BYTES.end())).expect("at most 128 KiB")
}

fn slowest(config: &LinkConfig) -> Option<Rate> {
    config.rate.into_iter().chain(config.per_connection).min()
}

impl Line {
    pub(crate) fn new(config: &LinkConfig, opens_at: Instant, now: Instant) -> Self {
        let (burst, delay) = (burst(config), config.rtt / 2);
        let product = slowest(config).map_or(UNLIMITED_HOLD, |rate| rate.bytes_in(delay));
        // Twice, so that a wake-up that comes late on a busy machine finds room for what it has to make good.
        let hold_at_most =
            usize::try_from(product).unwrap_or(usize::MAX).saturating_add(burst).saturating_mul(2);
        let pace = Pace::new(config.per_connection, now);
        Self {
            queue: VecDeque::new(),
            written: 0,
            held: 0,
            hold_at_most,
            burst,
            delay,
            pace,
            opens_at,
            ended: false,
            finished: false,
        }
    }

    /// Whether bytes of `source` can be taken for `destination`, as far as this line and the wire it shares go.
    pub(crate) fn ready(
        &mut self,
        source: &End,
        destination: &End,
        shared: &mut Pace,
        now: Instant,
    ) -> Ready {
        let room = if destination.writable { self.hold_at_most } else { self.burst };
        if self.ended || !source.readable || self.held >= room {
            return Ready::No;
        }
        if self.opens_at > now {
            return Ready::At(self.opens_at);
        }
        match self.pace.busy_until(now).or_else(|| shared.busy_until(now)) {
            Some(free_at) => Ready::At(free_at),
            None => Ready::Now,
        }
    }

    /// Takes up to `limit` bytes and one burst from `source`; `change` may alter them. Returns how many were taken.
    pub(crate) fn take(
        &mut self,
        source: &mut End,
        limit: u64,
        shared: &mut Pace,
        spare: &mut Spare,
        now: Instant,
        change: impl FnOnce(&mut [u8]),
    ) -> usize {
        let mut buffer = spare.take();
        let limit = self.burst.min(usize::try_from(limit).unwrap_or(usize::MAX));
        let length = match source.read(&mut buffer[..limit]) {
            Ok(Some(0)) => {
                self.end(Load::End, now);
                0
            }
            Ok(length) => length.unwrap_or(0),
            Err(error) => {
                tracing::debug!(%error, "a side of the link broke off");
                self.end(Load::Cut(Ending::Reset), now);
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
            // A request or an acknowledgement: it need not occupy a whole burst's buffer while it travels.
            let small = buffer[..length].to_vec();
            spare.give(std::mem::replace(&mut buffer, small));
        }
        self.held += length;
        self.queue.push_back((now + self.delay, Load::Bytes { buffer, length }));
        length
    }

    /// Sends the last `length` bytes taken once more.
    pub(crate) fn repeat_last(&mut self, now: Instant) {
        if let Some((_, Load::Bytes { buffer, length })) = self.queue.back() {
            let (buffer, length) = (buffer[..*length].to_vec(), *length);
            self.held += length;
            self.queue.push_back((now + self.delay, Load::Bytes { buffer, length }));
        }
    }

    /// Ends the connection behind what was taken so far.
    pub(crate) fn cut(&mut self, ending: Ending, now: Instant) {
        self.end(Load::Cut(ending), now);
    }

    fn end(&mut self, load: Load, now: Instant) {
        self.ended = true;
        self.queue.push_back((now + self.delay, load));
    }

    /// Whether all that will ever travel here has arrived.
    pub(crate) fn drained(&self) -> bool {
        self.ended && self.queue.is_empty()
    }

    /// Ends a round of sending.
    pub(crate) fn end_round(&mut self) {
        self.pace.end_round();
    }

    /// Writes what is due. A receiver that is gone ends the connection; what it took before counts as delivered.
    pub(crate) fn deliver(&mut self, destination: &mut End, spare: &mut Spare, now: Instant) -> Delivered {
        let mut delivered = Delivered::default();
        while let Some((due, load)) = self.queue.front() {
            if *due > now {
                delivered.next = Some(*due);
                break;
            }
            match load {
                Load::Bytes { buffer, length } if destination.writable => {
                    let Ok(n) = destination.write(&buffer[self.written..*length]) else {
                        delivered.ending = Some(Ending::Reset);
                        break;
                    };
                    self.written += n;
                    delivered.bytes += n;
                    if self.written < *length {
                        continue;
                    }
                    self.held -= *length;
                    self.written = 0;
                    if let Some((_, Load::Bytes { buffer, .. })) = self.queue.pop_front() {
                        spare.give(buffer);
                    }
                }
                Load::Bytes { .. } => break,
                Load::End => {
                    // The receiver may have gone already; then its own end says so.
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
