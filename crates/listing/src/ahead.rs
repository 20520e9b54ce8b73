//! Reads one directory ahead, in the directory's own order: threads read the next entries while the
//! caller uses the current ones.
//!
//! A directory that can be read from several positions at once is split into parts. Each thread
//! takes the next part that no other thread has taken. The caller gets the parts in order, as from
//! a single reader. The number of waiting parts, and of waiting batches in each part, is bounded.
//! So memory is constant, whatever the length of the directory and the speed of the caller.
//!
//! The threads end at the end of the directory, or after the [`AheadDirectory`] is dropped.
//! [`AheadDirectory::end`] waits for them, so their descriptors are closed when it returns.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{Builder, JoinHandle};

use rustix_futex_sync::Mutex;

use crate::batch::{Batch, RecordDecision};
use crate::open::reopen;
use crate::options::ListingOptions;
use crate::reader::DirectoryReader;
use crate::spare::SpareBatches;
use crate::split::{self, DirectoryPart};
use crate::tuning::Tuning;

/// Number of batches of one part that may wait for the caller. They hold a part with names of usual
/// length, so its thread can continue with the next part.
const MAX_WAITING_BATCHES: usize = 16;
/// Maximum number of parts. The caller gets them in order, so with smaller parts threads wait less.
/// Each planned part takes 100 bytes.
const MAX_PARTS: u64 = 4096;

/// The error message if the parts of a directory do not fit together; see [`split`].
const DISORDERED_MESSAGE: &str =
    "the file system gave positions out of order; what was listed may lack names or have some twice";

/// A message from the thread that reads a part: a batch, an error, or `None` at the end.
type Message = io::Result<Option<Batch>>;

/// A directory whose entries are read before the caller requests them.
#[derive(Debug)]
pub struct AheadDirectory {
    /// The parts, in order.
    parts: Receiver<Receiver<Message>>,
    /// The part that the caller is receiving.
    part: Option<Receiver<Message>>,
    /// True after an error. Later entries are not returned, because they would leave a gap.
    failed: bool,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// The state that the threads share.
#[derive(Debug)]
struct Shared {
    /// The descriptor from which the first part is read. For each other part, the directory is
    /// opened again.
    directory: OwnedFd,
    left: Mutex<PendingParts>,
    spare: SpareBatches,
}

/// The parts that no thread has taken yet.
#[derive(Debug)]
struct PendingParts {
    /// `None` stands for the whole directory, if the directory is not split.
    parts: VecDeque<Option<DirectoryPart>>,
    /// Passes the receiver of each part's messages to the caller, in the order of the parts. `None`
    /// once every part has a thread, or the reading has ended.
    receivers: Option<SyncSender<Receiver<Message>>>,
}

impl AheadDirectory {
    /// Size of a batch in bytes, about 2,000 entries with names of usual length. A batch stays in a
    /// processor's cache while its entries are processed.
    pub const BUFFER: usize = 64 << 10;

    /// Starts threads that continue to read from the position of `reader`.
    ///
    /// # Errors
    /// No thread could be started. The error is the unchanged reader.
    pub fn new(reader: DirectoryReader) -> Result<Self, DirectoryReader> {
        let (parts, most) = plan(&reader);
        let threads = most.min(parts.len());
        let (receivers, parts_in_order) = sync_channel(threads);
        let spare = SpareBatches::new(Self::BUFFER, MAX_WAITING_BATCHES * threads);
        let left = Mutex::new(PendingParts { parts, receivers: Some(receivers) });
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
        Ok(Self { parts: parts_in_order, part: None, failed: false, shared, threads })
    }

    /// Waits for the next entries; `None` at the directory's end.
    ///
    /// # Errors
    /// The operating system's code. After an error, further calls return `None`.
    pub fn wait(&mut self) -> io::Result<Option<Batch>> {
        while !self.failed {
            if self.part.is_none() {
                self.part = self.parts.recv().ok();
            }
            let Some(part) = &self.part else { return Ok(None) };
            if let Some(next) = self.take_message(part.recv().unwrap_or_else(|_| Err(thread_ended_early()))) {
                return next;
            }
        }
        Ok(None)
    }

    /// Returns the next entries as [`wait`](Self::wait) does, or `None` if they have not been read
    /// yet.
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
                Err(TryRecvError::Disconnected) => Err(thread_ended_early()),
            };
            if let Some(next) = self.take_message(message) {
                return Some(next);
            }
        }
        Some(Ok(None))
    }

    /// Converts a message to a result for the caller. `None` if the message ends a part.
    fn take_message(&mut self, message: Message) -> Option<io::Result<Option<Batch>>> {
        self.failed = message.is_err();
        if !matches!(message, Ok(Some(_))) {
            self.part = None;
        }
        match message {
            Ok(None) => None,
            message => Some(message),
        }
    }

    /// Takes back a batch, so that its memory is reused.
    pub fn recycle(&self, batch: Batch) {
        self.shared.spare.give(batch);
    }

    /// Ends the threads, each after its current system call. Returns the reader, whose position is
    /// undefined.
    pub fn end(self) -> Option<DirectoryReader> {
        let Self { parts, part, shared, threads, .. } = self;
        // A thread ends when the receiver of its part is dropped.
        drop((parts, part));
        shared.left.lock().parts.clear();
        for thread in threads {
            let _ = thread.join();
        }
        Arc::into_inner(shared).map(|shared| shared.directory.into())
    }
}

/// Splits the rest of a directory into parts. Returns them and the number of threads to start.
fn plan(reader: &DirectoryReader) -> (VecDeque<Option<DirectoryPart>>, usize) {
    let tuning = Tuning::of_open(reader, &ListingOptions::default());
    let Some(tuning) = tuning.ok().filter(Tuning::splits) else { return ([None].into(), 1) };
    let parts = split::plan(reader.as_fd(), reader.so_far, reader.next, MAX_PARTS);
    if parts.is_empty() {
        ([None].into(), 1)
    } else {
        (parts.into_iter().map(Some).collect(), tuning.threads)
    }
}

fn thread_ended_early() -> io::Error {
    io::Error::other("the thread that read it ended before the directory did")
}

impl Shared {
    /// Runs a thread: reads parts until no part is left, a read fails, or the receiver is dropped.
    fn work(&self) {
        while let Some((part, batches)) = self.next() {
            let end = self.read(part, &batches).map(|()| None);
            let failed = end.is_err();
            if batches.send(end).is_err() || failed {
                return self.left.lock().finish();
            }
        }
    }

    /// Takes the next part that no thread has taken. Returns the part, and the sender for its
    /// batches.
    fn next(&self) -> Option<(Option<DirectoryPart>, SyncSender<Message>)> {
        let mut left = self.left.lock();
        let part = left.parts.pop_front();
        let (sender, receiver) = sync_channel(MAX_WAITING_BATCHES);
        // Sent while the lock is held, to keep the order. If the channel is full, the other threads
        // would have to wait too.
        match (part, &left.receivers) {
            (Some(part), Some(receivers)) if receivers.send(receiver).is_ok() => Some((part, sender)),
            _ => {
                left.finish();
                None
            }
        }
    }

    /// Reads a part to its end, or until its receiver is dropped.
    fn read(&self, mut part: Option<DirectoryPart>, batches: &SyncSender<Message>) -> io::Result<()> {
        let mut reader = self.begin(part.as_ref())?;
        loop {
            let mut batch = self.spare.take();
            let more = reader.read_selected(&mut batch, |raw, name| match &mut part {
                None => Ok(RecordDecision::Entry),
                Some(part) => part.take(raw, name, &self.directory),
            })?;
            if batch.is_empty() {
                self.spare.give(batch);
            } else if batches.send(Ok(Some(batch))).is_err() {
                return Ok(());
            }
            if !more || part.as_ref().is_some_and(DirectoryPart::is_over) {
                break;
            }
        }
        if part.is_some_and(|part| !part.joins(&self.directory)) {
            return Err(io::Error::other(DISORDERED_MESSAGE));
        }
        Ok(())
    }

    /// Returns a reader that is positioned at the start of `part`.
    fn begin(&self, part: Option<&DirectoryPart>) -> io::Result<DirectoryReader> {
        match part.filter(|part| !part.is_first()) {
            Some(part) => {
                let own = reopen(&self.directory)?;
                part.begin(&own)?;
                Ok(own.into())
            }
            None => Ok(DirectoryReader::from(self.directory.try_clone()?)),
        }
    }
}

impl PendingParts {
    /// Prevents threads from starting further parts.
    fn finish(&mut self) {
        self.parts.clear();
        self.receivers = None;
    }
}
