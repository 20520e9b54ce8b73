//! One fetch: a ranged request over neighbouring blocks, read block by block.
//!
//! Memory is one block a thread, whatever the request's length. Blocks that have come stay when the rest fails, and only
//! the rest is asked for again.

mod tries;

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use firstbyte_location::{ByteRange, Location};
use firstbyte_pacing::Throttle;
use firstbyte_store::{Body, Cancel, Error as StoreError, Get};
use firstbyte_transfer::control::{Flight, Wait};

use crate::BLOCK;
use crate::cache::Spare;
use crate::crew::{Crew, STEP_BYTES};
use crate::here::{Keeping, Received, Stored, Turn};
use crate::inflight::{Class, Id};
use crate::job::Portion;
use crate::node::Node;

use tries::{Failed, GaveUp, Tries};

/// How often it is looked whether another process has brought a block: a fraction of a round trip.
const TURN: Duration = Duration::from_millis(3);
/// How long another process is waited for that brings nothing.
const LONGEST_TURN: Duration = Duration::from_secs(1);
/// Sleeps are cut into this, to notice that nobody waits any more.
pub(crate) const NAP: Duration = Duration::from_millis(20);

/// Blocks to bring.
pub(crate) struct Fetch {
    pub(crate) node: Arc<Node>,
    pub(crate) id: Id,
    pub(crate) class: Class,
    pub(crate) blocks: Range<u64>,
    /// Whether some of the blocks were another fetch's of this process before, which has the right to fetch them.
    pub(crate) took_over: bool,
    /// The handle whose reader is expected; once it has gone, nobody is.
    pub(crate) handle: Option<Weak<()>>,
    /// The job this is part of.
    pub(crate) portion: Option<Arc<Portion>>,
}

impl Fetch {
    pub(crate) fn bytes(&self) -> u64 {
        (self.blocks.end - self.blocks.start) * BLOCK
    }

    /// What stays where room has to be made for the blocks.
    fn spare(&self) -> Spare {
        self.portion.as_ref().map_or(Spare::Pinned, |portion| portion.spare())
    }

    /// Whether so many bytes of a block are all of it.
    fn check_whole(&self, come: u64, bytes: ByteRange) -> Result<(), StoreError> {
        let missing = bytes.len() - come;
        let location = || self.node.location.to_string();
        if missing == 0 { Ok(()) } else { Err(StoreError::Truncated { location: location(), missing }) }
    }

    /// Whether anybody will want the bytes.
    fn is_wanted(&self) -> bool {
        let expected = self.handle.as_ref().is_none_or(|handle| handle.strong_count() > 0);
        let asked = self.portion.as_ref().is_none_or(|portion| !portion.is_cancelled());
        (expected && asked) || self.node.latest_deadline(self.id).is_some()
    }
}

/// Brings the blocks of a fetch, or tells those who wait for them why not.
pub(crate) fn run(crew: &Arc<Crew>, fetch: Fetch, slot: usize, buffer: &mut Vec<u8>) {
    buffer.resize(BLOCK as usize, 0);
    let node = &fetch.node;
    node.started(fetch.id);
    if fetch.portion.as_ref().is_some_and(|portion| portion.is_to_learn()) {
        node.learn_checksum();
    }
    let inside = (fetch.class != Class::Background).then(|| crew.gate.enter());
    let mut tries = Tries::default();
    let mut turn = Waiting::new(&fetch);
    let result = loop {
        if !turn.has_come(buffer) && !node.rest(fetch.id).is_empty() && fetch.is_wanted() {
            continue;
        }
        let blocks = node.rest(fetch.id);
        if (blocks.is_empty() || !fetch.is_wanted()) && node.give_up(fetch.id, None) {
            break Ok(());
        }
        let mut attempt = Attempt { crew, fetch: &fetch, slot, buffer, progressed: false, refused: false };
        let result = attempt.bring(blocks, tries.cuts);
        let Attempt { progressed, refused, .. } = attempt;
        let Err(error) = result else { continue };
        if refused {
            // It comes through memory now.
            continue;
        }
        if let Failed::Store(StoreError::RangeIgnored { .. }) = error {
            node.come_whole();
            continue;
        }
        match tries.again(crew, &fetch, error, progressed) {
            Ok(()) => {}
            Err(GaveUp::NoHope(error)) => break Err(error),
            // Somebody may have come just now, and has a right to tries of its own.
            Err(GaveUp::Nobody(error)) if node.give_up(fetch.id, Some(&error)) => break Err(error),
            Err(GaveUp::Nobody(_)) => {}
        }
    };
    drop((inside, turn));
    crew.moved.fetch_add(STEP_BYTES, Ordering::Relaxed);
    if let Err(error) = &result {
        node.failed(fetch.id, error);
    }
    node.settle();
    if let Some(portion) = fetch.portion {
        portion.ended(result.err());
    }
}

/// The right to fetch, among the processes that share the cache.
struct Waiting<'a> {
    fetch: &'a Fetch,
    since: Instant,
    turn: Turn,
}

impl<'a> Waiting<'a> {
    fn new(fetch: &'a Fetch) -> Self {
        Self { fetch, since: Instant::now(), turn: Turn::Theirs }
    }

    /// Whether it is ours to fetch now. Else it has waited a moment, and taken what the other process has brought. One that
    /// takes too long is not waited for: the block comes twice then.
    fn has_come(&mut self, buffer: &mut [u8]) -> bool {
        if let Turn::Ours { .. } = self.turn {
            return true;
        }
        let node = &self.fetch.node;
        let at_once = self.fetch.took_over || self.since.elapsed() > LONGEST_TURN;
        self.turn = if at_once { Turn::Ours { _claim: None } } else { node.here.turn(&self.fetch.blocks) };
        if node.absorb(self.fetch.id, buffer) {
            // It makes progress.
            self.since = Instant::now();
        }
        let ours = matches!(self.turn, Turn::Ours { .. });
        if ours {
            node.has_turn(self.fetch.id);
        } else {
            std::thread::sleep(TURN);
        }
        ours
    }
}

struct Attempt<'a> {
    crew: &'a Crew,
    fetch: &'a Fetch,
    slot: usize,
    buffer: &'a mut [u8],
    progressed: bool,
    /// The cached file did not take a block that was on its way into it.
    refused: bool,
}

impl Attempt<'_> {
    /// One request, or one for each block of a local file: its version is checked only when a request's last byte has
    /// been read, and no block may be kept before.
    fn bring(&mut self, blocks: Range<u64>, cuts: u32) -> Result<(), Failed> {
        if let Location::Local(_) = self.fetch.node.location {
            return blocks.into_iter().try_for_each(|block| self.request(block..block + 1, cuts));
        }
        self.request(blocks, cuts)
    }

    fn request(&mut self, blocks: Range<u64>, cuts: u32) -> Result<(), Failed> {
        let cancel = Cancel::new();
        let crew = self.crew;
        let flight = crew.flights.begin(self.slot, Wait::Head, cancel.clone(), cuts);
        let result = self.read(blocks, cancel, &flight);
        let cut = flight.end(result.is_ok());
        result.map_err(|error| match error {
            _ if cut => Failed::Cut,
            // An answer that was cut at the very moment its head arrived says so only to its first reader.
            StoreError::Cancelled => Failed::Cut,
            error => Failed::Store(error),
        })
    }

    fn read(&mut self, blocks: Range<u64>, cancel: Cancel, flight: &Flight<'_>) -> Result<(), StoreError> {
        let node = &self.fetch.node;
        let range = node.here.bytes(&blocks);
        let stream = node.is_whole();
        // The whole in one answer may bring its checksum along, and is then asked for as such.
        let whole = stream || range.len() == node.size();
        let blocks = if stream { 0..blocks.end } else { blocks };
        let get = Get {
            range: (!whole).then_some(range),
            version: Some(node.version.clone()),
            cancel,
            checksum: whole && node.here.can_keep(),
            throttle: self.throttle().cloned().unwrap_or_default(),
        };
        node.shared.counters.fetched(self.fetch.class);
        let mut body = node.shared.store.get(&node.location, &get)?;
        flight.head_arrived(range.len());
        let hear = || if get.throttle.is_unlimited() { flight.heard() } else { flight.paused() };
        hear();
        if get.checksum {
            node.here.expect(body.stat().checksum.clone());
        }
        for block in blocks {
            let bytes = node.here.bytes(&(block..block + 1));
            let received = match stream {
                true => Received::No(Keeping::Untried),
                false => self.receive(&mut body, block, bytes)?,
            };
            let read = if received == Received::Yes { self.len(bytes) } else { self.fill(&mut body, bytes)? };
            self.progressed = true;
            self.crew.moved.fetch_add(bytes.len(), Ordering::Relaxed);
            if stream && !node.is_own(self.fetch.id, block) {
                hear();
                continue;
            }
            if let Received::No(keeping) = received {
                let stored = node.store(block, &self.buffer[..read], keeping, self.fetch.spare());
                if let (Stored::Held, Some(portion)) = (stored, &self.fetch.portion) {
                    portion.refused(&node.location);
                }
            }
            node.arrived(self.fetch.id, block, &self.buffer[..read], self.fetch.class);
            if let Some(portion) = &self.fetch.portion {
                portion.brought(bytes.len());
            }
            let is_wanted = self.fetch.class == Class::Demand || self.fetch.is_wanted();
            if !is_wanted || !node.is_needed(self.fetch.id) {
                break;
            }
            self.make_way(bytes.len(), flight);
            if stream {
                self.wait_for_readers(block + 1, flight);
            }
            hear();
        }
        Ok(())
    }

    /// Brings a block straight into the cached file, and from there into the buffer, where that can be. Not for a stream that
    /// cannot be asked for again: what is under way when the disk turns out to be full is lost.
    fn receive(&mut self, body: &mut Body, block: u64, bytes: ByteRange) -> Result<Received, StoreError> {
        if !body.can_bypass() {
            return Ok(Received::No(Keeping::Untried));
        }
        let (len, spare) = (self.len(bytes), self.fetch.spare());
        let received =
            self.fetch.node.here.receive(block, &mut self.buffer[..len], spare, |sink, at, scratch| {
                let moved = body.write_to(sink, at, bytes.len(), scratch, None, &mut |_| {})?;
                self.fetch.check_whole(moved, bytes)
            });
        self.refused = matches!(received, Err(StoreError::Io { .. }));
        received
    }

    /// Bytes of a block, as far as they fit the buffer.
    fn len(&self, bytes: ByteRange) -> usize {
        usize::try_from(bytes.len()).unwrap_or(0).min(self.buffer.len())
    }

    /// A stream that nothing but memory holds keeps close to its readers.
    fn wait_for_readers(&self, block: u64, flight: &Flight<'_>) {
        let node = &self.fetch.node;
        flight.paused();
        // As long as the file is open: this fetch is not its only owner then.
        while node.is_far_ahead(block) && Arc::strong_count(node) > 1 {
            std::thread::sleep(NAP / 4);
        }
    }

    /// Reads one block.
    fn fill(&mut self, body: &mut Body, bytes: ByteRange) -> Result<usize, StoreError> {
        let (want, mut done) = (self.len(bytes), 0);
        while done < want {
            match body.read(&mut self.buffer[done..want])? {
                0 => break,
                read => done += read,
            }
        }
        self.fetch.check_whole(done as u64, bytes)?;
        Ok(done)
    }

    /// The limits on the rate of a background fetch.
    fn throttle(&self) -> Option<&Throttle> {
        let background = self.fetch.class == Class::Background;
        self.fetch.portion.as_ref().filter(|_| background).map(|portion| portion.throttle())
    }

    /// Background work pauses for readers.
    fn make_way(&self, bytes: u64, flight: &Flight<'_>) {
        if self.fetch.class != Class::Background {
            return;
        }
        let gate = self.crew.gate.pass(bytes, Instant::now());
        if gate.is_zero() {
            return;
        }
        flight.paused();
        let start = Instant::now();
        loop {
            let left = gate.saturating_sub(start.elapsed());
            if left.is_zero() || self.crew.gate.is_clear(Instant::now()) || !self.fetch.is_wanted() {
                return;
            }
            std::thread::sleep(left.min(NAP / 4));
        }
    }
}
