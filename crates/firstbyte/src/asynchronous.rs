//! Extends the client for asynchronous programs of any runtime, with the traits of `futures`.
//!
//! A read blocks no thread: the thread that fetches the bytes wakes the reading task. Opening,
//! listing and copying each start a thread, which blocks. Dropping the future of a copy or the
//! stream of a listing ends its thread. Dropping the future of an open does not.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::future::Future;
use std::io::{self, SeekFrom};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use firstbyte_location::{Entry, Location};
use firstbyte_store::ListOptions;
use futures_core::Stream;
use futures_io::{AsyncRead, AsyncSeek};
use rustix_futex_sync::{Condvar, Mutex};

use crate::client::Client;
use crate::copy::Copy;
use crate::error::{Error, Result};
use crate::file::LazyFile;
use crate::receipt::Receipt;

/// Maximum number of entries that a listing reads ahead of its stream.
const MAX_ENTRIES_AHEAD: usize = 1000;

impl Client {
    /// Opens an object like [`open`](Self::open).
    ///
    /// ```no_run
    /// use futures::AsyncReadExt;
    ///
    /// # async fn read(client: firstbyte::Client) -> firstbyte::Result<()> {
    /// let mut file = client.open_async("s3://bucket/big.bam").await?;
    /// let mut head = [0; 4096];
    /// file.read_exact(&mut head).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn open_async(&self, location: impl AsRef<OsStr>) -> Task<AsyncFile> {
        let (client, location) = (self.clone(), location.as_ref().to_owned());
        Task::start(move || Ok(AsyncFile::new(client.open(location)?)), || {})
    }

    /// Lists the entries under `location` like [`list`](Self::list). Failures are items of the
    /// stream.
    ///
    /// ```no_run
    /// use futures::TryStreamExt;
    ///
    /// # async fn list(client: firstbyte::Client) -> firstbyte::Result<()> {
    /// let mut entries = client.list_async("s3://bucket/runs/", &Default::default());
    /// while let Some(entry) = entries.try_next().await? {
    ///     println!("{}", String::from_utf8_lossy(&entry.name));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn list_async(&self, location: impl AsRef<OsStr>, options: &ListOptions) -> EntryStream {
        let (client, location, options) = (self.clone(), location.as_ref().to_owned(), options.clone());
        let shared = Arc::new(Channel::default());
        let sender = Arc::clone(&shared);
        let run = move || {
            match client.list(location, &options) {
                Ok(mut entries) => {
                    while entries.next().is_some_and(|entry| sender.send(entry.map_err(Error::from))) {}
                }
                Err(error) => drop(sender.send(Err(error))),
            }
            sender.end();
        };
        if let Err(error) = std::thread::Builder::new().name("list".into()).spawn(run) {
            shared.send(Err(error.into()));
            shared.end();
        }
        EntryStream(shared)
    }

    /// Copies like [`cp`](Self::cp). Dropping the future stops the copy. Repeating the same copy
    /// resumes it.
    #[must_use]
    pub fn cp_async(
        &self,
        source: impl AsRef<OsStr>,
        destination: impl AsRef<OsStr>,
        copy: &Copy,
    ) -> Task<Receipt> {
        let (client, copy, stop) = (self.clone(), copy.clone(), copy.stop.clone());
        let (source, destination) = (source.as_ref().to_owned(), destination.as_ref().to_owned());
        Task::start(move || client.cp(source, destination, &copy), move || stop.stop())
    }
}

/// An object that is read asynchronously, one read at a time. To read in parallel, open the object
/// several times.
pub struct AsyncFile {
    file: LazyFile,
    position: u64,
    /// The offset of the read in progress, and the read.
    reading: Option<(u64, Arc<Mutex<PendingRead>>)>,
}

/// A read whose result comes from another thread.
#[derive(Default)]
struct PendingRead {
    answer: Option<Result<Vec<u8>>>,
    waker: Option<Waker>,
}

impl AsyncFile {
    /// Creates an asynchronous file from an open file.
    #[must_use]
    pub fn new(file: LazyFile) -> Self {
        Self { file, position: 0, reading: None }
    }

    /// Returns the location of the object.
    #[must_use]
    pub fn location(&self) -> &Location {
        self.file.location()
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.file.size()
    }

    /// Starts to read `length` bytes at the current position.
    fn begin(&self, length: usize) -> Arc<Mutex<PendingRead>> {
        let read = Arc::new(Mutex::new(PendingRead::default()));
        let answered = Arc::clone(&read);
        self.file.read_then(self.position, length, move |result| {
            let waker = {
                let mut read = answered.lock();
                read.answer = Some(result.map(<[u8]>::to_vec));
                read.waker.take()
            };
            wake(waker);
        });
        read
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl AsyncRead for AsyncFile {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if buffer.is_empty() || self.position >= self.file.size() {
            return Poll::Ready(Ok(0));
        }
        let position = self.position;
        // A read at another position is dropped: a seek has made it useless.
        let read = match self.reading.take() {
            Some((offset, read)) if offset == position => read,
            _ => self.begin(buffer.len()),
        };
        let answer = {
            let mut state = read.lock();
            if state.answer.is_none() {
                state.waker = Some(context.waker().clone());
            }
            state.answer.take()
        };
        let Some(answer) = answer else {
            self.reading = Some((position, read));
            return Poll::Pending;
        };
        let bytes = answer?;
        // The caller may have polled again with a smaller buffer.
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        self.position += count as u64;
        Poll::Ready(Ok(count))
    }
}

impl AsyncSeek for AsyncFile {
    fn poll_seek(mut self: Pin<&mut Self>, _: &mut Context<'_>, to: SeekFrom) -> Poll<io::Result<u64>> {
        Poll::Ready(crate::file::position_after(self.position, self.file.size(), to).inspect(|position| {
            self.position = *position;
        }))
    }
}

/// A future for a blocking call, which runs on a thread of its own.
pub struct Task<T> {
    state: Arc<Mutex<TaskState<T>>>,
    /// Called if the future is dropped before its result was taken, to end a copy.
    stop: Option<Box<dyn FnOnce() + Send>>,
}

struct TaskState<T> {
    result: Option<Result<T>>,
    waker: Option<Waker>,
}

impl<T: Send + 'static> Task<T> {
    fn start(
        call: impl FnOnce() -> Result<T> + Send + 'static,
        stop: impl FnOnce() + Send + 'static,
    ) -> Self {
        let state = Arc::new(Mutex::new(TaskState { result: None, waker: None }));
        let shared = Arc::clone(&state);
        let run = move || {
            let result = call();
            let waker = {
                let mut state = shared.lock();
                state.result = Some(result);
                state.waker.take()
            };
            wake(waker);
        };
        if let Err(error) = std::thread::Builder::new().name("call".into()).spawn(run) {
            state.lock().result = Some(Err(error.into()));
        }
        Self { state, stop: Some(Box::new(stop)) }
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let result = {
            let mut state = self.state.lock();
            if state.result.is_none() {
                state.waker = Some(context.waker().clone());
            }
            state.result.take()
        };
        match result {
            None => Poll::Pending,
            Some(result) => {
                self.stop = None;
                Poll::Ready(result)
            }
        }
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop();
        }
    }
}

/// The entries of a listing, in the order in which they arrive. Dropping the stream ends the
/// listing.
pub struct EntryStream(Arc<Channel>);

/// A bounded queue from the thread that lists to the task that reads.
#[derive(Default)]
struct Channel {
    state: Mutex<ChannelState>,
    /// Signalled when there is room again, or the reader has been dropped.
    room: Condvar,
}

#[derive(Default)]
struct ChannelState {
    entries: VecDeque<Result<Entry>>,
    waker: Option<Waker>,
    is_over: bool,
    is_unread: bool,
}

impl Channel {
    /// Waits for room and queues an entry. Returns false if the reader has been dropped.
    fn send(&self, entry: Result<Entry>) -> bool {
        let is_full = |state: &mut ChannelState| state.entries.len() >= MAX_ENTRIES_AHEAD && !state.is_unread;
        let mut state = self.room.wait_while(self.state.lock(), is_full);
        state.entries.push_back(entry);
        let waker = state.waker.take();
        let is_read = !state.is_unread;
        drop(state);
        wake(waker);
        is_read
    }

    fn end(&self) {
        let waker = {
            let mut state = self.state.lock();
            state.is_over = true;
            state.waker.take()
        };
        wake(waker);
    }
}

impl Stream for EntryStream {
    type Item = Result<Entry>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut state = self.0.state.lock();
        match state.entries.pop_front() {
            Some(entry) => {
                self.0.room.notify_one();
                Poll::Ready(Some(entry))
            }
            None if state.is_over => Poll::Ready(None),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for EntryStream {
    fn drop(&mut self) {
        self.0.state.lock().is_unread = true;
        self.0.room.notify_one();
    }
}
