//! Reads one directory ahead, in the directory's own order: threads read the next entries while the
//! caller uses the current ones.
//!
//! A directory that can be read from several positions at once is split into parts. Each thread
//! takes the next part that no thread has. The caller gets the parts in order, as from a single
//! reader. The number of waiting parts, and of waiting batches in each, is bounded. So memory
//! depends neither on the length of the directory nor on the speed of the caller.
//!
//! The threads end at the end of the directory, or after the [`Ahead`] is dropped. [`Ahead::end`]
//! waits for them, so their descriptors are closed when it returns.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{Builder, JoinHandle};

use rustix_futex_sync::Mutex;

use crate::batch::{Batch, Take};
use crate::open::again;
use crate::options::Options;
use crate::reader::Reader;
use crate::spare::Spare;
use crate::split::{self, Part};
use crate::tuning::Tuning;

/// Batches of a part that wait to be taken: a whole part of usual names, so that a thread can
/// continue with the next one.
const WAITING: usize = 16;
/// Parts at most. They come in order, so the smaller they are, the less has to wait; it takes 100
/// bytes to plan one.
const PARTS: u64 = 4096;

/// The error message if the parts of a directory do not join; see [`split`].
const DISORDERED: &str =
    "the file system gave positions out of order; what was listed may lack names or have some twice";

/// A message from the thread that reads a part: a batch, an error, or `None` at the end.
type Message = io::Result<Option<Batch>>;

/// A directory whose entries are read before they are asked for.
#[derive(Debug)]
pub struct Ahead {
    /// The parts in their order.
    parts: Receiver<Receiver<Message>>,
    /// The one that is being taken.
    part: Option<Receiver<Message>>,
    /// True after an error: entries after it would leave a gap.
    failed: bool,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// The state that the threads share.
#[derive(Debug)]
struct Shared {
    /// The first part is read from this descriptor. For each other part the directory is opened
    /// again.
    directory: OwnedFd,
    left: Mutex<Left>,
    spare: Spare,
}

/// The parts that no thread reads yet.
#[derive(Debug)]
struct Left {
    /// A directory that is not split is one part, without bounds.
    parts: VecDeque<Option<Part>>,
    /// Gone once all parts are.
    order: Option<SyncSender<Receiver<Message>>>,
}

impl Ahead {
    /// Bytes of a batch, some 2,000 entries of usual names: what stays in a core's cache while it
    /// is worked on.
    pub const BUFFER: usize = 64 << 10;

    /// Starts threads that continue to read from the position of `reader`.
    ///
    /// # Errors
    /// No thread can be started; the reader is returned as it was.
    pub fn new(reader: Reader) -> Result<Self, Reader> {
        let (parts, most) = plan(&reader);
        let threads = most.min(parts.len());
        let (order, ordered) = sync_channel(threads);
        let spare = Spare::new(Self::BUFFER, WAITING * threads);
        let left = Mutex::new(Left { parts, order: Some(order) });
        let shared = Arc::new(Shared { directory: reader.into(), left, spare });
        let start = |_| {
            let shared = Arc::clone(&shared);
            Builder::new().name("firstbyte-read".into()).spawn(move || shared.work()).ok()
        };
        let threads: Vec<_> = (0..threads).map_while(start).collect();
        if threads.is_empty() {
            let shared = Arc::into_inner(shared).expect("no thread has the other half");
            return Err(shared.directory.into());
        }
        Ok(Self { parts: ordered, part: None, failed: false, shared, threads })
    }

    /// Waits for the next entries; `None` at the directory's end.
    ///
    /// # Errors
    /// The operating system's code. After an error the result is `None`.
    pub fn wait(&mut self) -> io::Result<Option<Batch>> {
        while !self.failed {
            if self.part.is_none() {
                self.part = self.parts.recv().ok();
            }
            let Some(part) = &self.part else { return Ok(None) };
            if let Some(next) = self.deal_with(part.recv().unwrap_or_else(|_| Err(died()))) {
                return next;
            }
        }
        Ok(None)
    }

    /// The same if it is here already.
    pub fn ready(&mut self) -> Option<io::Result<Option<Batch>>> {
        while !self.failed {
            if self.part.is_none() {
                match self.parts.try_recv() {
                    Ok(part) => self.part = Some(part),
                    Err(TryRecvError::Empty) => return None,
                    Err(TryRecvError::Disconnected) => return Some(Ok(None)),
                }
            }
            let message = match self.part.as_ref()?.try_recv() {
                Ok(message) => message,
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => Err(died()),
            };
            if let Some(next) = self.deal_with(message) {
                return Some(next);
            }
        }
        Some(Ok(None))
    }

    /// Converts a message for the receiver of batches; `None` if the message ends a part.
    fn deal_with(&mut self, message: Message) -> Option<io::Result<Option<Batch>>> {
        self.failed = message.is_err();
        if !matches!(message, Ok(Some(_))) {
            self.part = None;
        }
        match message {
            Ok(None) => None,
            message => Some(message),
        }
    }

    /// Gives a batch back, for its memory to be used again.
    pub fn recycle(&self, batch: Batch) {
        self.shared.spare.give(batch);
    }

    /// Ends the threads; each after the system call it is in. The reader stands anywhere.
    pub fn end(self) -> Option<Reader> {
        let Self { parts, part, shared, threads, .. } = self;
        // A thread ends when its receiver is gone.
        drop((parts, part));
        shared.left.lock().parts.clear();
        for thread in threads {
            let _ = thread.join();
        }
        Arc::into_inner(shared).map(|shared| shared.directory.into())
    }
}

/// The parts of what `reader` has still to read, and how many threads are of use.
fn plan(reader: &Reader) -> (VecDeque<Option<Part>>, usize) {
    let tuning = Tuning::of_open(reader, &Options::default());
    let Some(tuning) = tuning.ok().filter(Tuning::splits) else { return ([None].into(), 1) };
    let parts = split::plan(reader.as_fd(), reader.so_far, reader.next, PARTS);
    if parts.is_empty() {
        ([None].into(), 1)
    } else {
        (parts.into_iter().map(Some).collect(), tuning.threads)
    }
}

fn died() -> io::Error {
    io::Error::other("the thread that read it ended before the directory did")
}

impl Shared {
    /// A thread: reads parts until there are no more, or the receiver is gone.
    fn work(&self) {
        while let Some((part, batches)) = self.next() {
            let end = self.read(part, &batches).map(|()| None);
            let failed = end.is_err();
            if batches.send(end).is_err() || failed {
                return self.left.lock().finish();
            }
        }
    }

    /// The next part that no thread reads, and where its batches go.
    fn next(&self) -> Option<(Option<Part>, SyncSender<Message>)> {
        let mut left = self.left.lock();
        let part = left.parts.pop_front();
        let (sender, receiver) = sync_channel(WAITING);
        // Sent under the lock, so that they come in order; with too many before it, all threads
        // have to wait anyway.
        match (part, &left.order) {
            (Some(part), Some(order)) if order.send(receiver).is_ok() => Some((part, sender)),
            _ => {
                left.finish();
                None
            }
        }
    }

    /// Reads a part to its end, or until its receiver is gone.
    fn read(&self, mut part: Option<Part>, batches: &SyncSender<Message>) -> io::Result<()> {
        let mut reader = self.begin(part.as_ref())?;
        loop {
            let mut batch = self.spare.take();
            let more = reader.read_those(&mut batch, |raw, name| match &mut part {
                None => Ok(Take::Entry),
                Some(part) => part.take(raw, name, &self.directory),
            })?;
            if batch.is_empty() {
                self.spare.give(batch);
            } else if batches.send(Ok(Some(batch))).is_err() {
                return Ok(());
            }
            if !more || part.as_ref().is_some_and(Part::is_over) {
                break;
            }
        }
        if part.is_some_and(|part| !part.joins(&self.directory)) {
            return Err(io::Error::other(DISORDERED));
        }
        Ok(())
    }

    /// Returns a reader that is positioned at the start of `part`.
    fn begin(&self, part: Option<&Part>) -> io::Result<Reader> {
        match part.filter(|part| !part.is_first()) {
            Some(part) => {
                let own = again(&self.directory)?;
                part.begin(&own)?;
                Ok(own.into())
            }
            None => Ok(Reader::from(self.directory.try_clone()?)),
        }
    }
}

impl Left {
    /// Lets nothing more be begun.
    fn finish(&mut self) {
        self.parts.clear();
        self.order = None;
    }
}
