//! Sends the replies to reads by splice: pages of the cached file go through a pipe to the kernel,
//! which copies them once.
//!
//! A reply from memory would copy the bytes twice. `fuser` can only reply from memory, so the reply
//! is built here: a header, then the bytes.

use std::cell::Cell;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use firstbyte_hydrate::PinnedBlocks;
use firstbyte_location::{ByteRange, to_usize};
use fuser::{ReplyData, RequestId};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use super::LARGEST_READ;

/// Length, in bytes, of the shortest read that is answered by splice. The system calls of splice
/// take longer than a copy of a shorter reply from memory.
const MIN_READ: u32 = 64 << 10;
/// Size of the pipe, bytes: a slot for each page of the read, and one for the header. The kernel
/// rounds this up to a power of two, and allows any process a pipe of 1 MiB.
const PIPE_SIZE: usize = LARGEST_READ as usize + 4096;
/// Length of the header, bytes: total length, error number, and number of the request.
const HEADER_SIZE: usize = 16;

/// A pipe. It is empty between two replies.
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

thread_local! {
    /// One pipe for each thread, so that replies never mix.
    static OWN: Cell<Option<Pipe>> = const { Cell::new(None) };
}

/// Sends replies by splice on the connection to the kernel.
#[derive(Default)]
pub(super) struct ReplySplicer {
    device: OnceLock<OwnedFd>,
}

impl ReplySplicer {
    /// Sets the connection. If its file descriptor cannot be duplicated, replies are copied.
    pub(super) fn set_connection(&self, device: BorrowedFd<'_>) {
        if let Ok(own) = device.try_clone_to_owned() {
            // Setting cannot fail, because no other code sets the device.
            let _ = self.device.set(own);
        }
    }

    /// Answers request `id` with the range that `lend` returns. Returns the length of the range. If
    /// no byte was sent, returns `reply`, so that the caller can send it from memory.
    pub(super) fn answer_read(
        &self,
        id: RequestId,
        reply: ReplyData,
        size: u32,
        lend: impl FnOnce() -> Option<(PinnedBlocks, ByteRange)>,
    ) -> Result<u64, ReplyData> {
        let Some(device) = self.device.get().filter(|_| size >= MIN_READ) else { return Err(reply) };
        let Some(pipe) = OWN.take().or_else(|| Pipe::new().ok()) else { return Err(reply) };
        let Some((file, range)) = lend() else {
            OWN.set(Some(pipe));
            return Err(reply);
        };
        if let Err(error) = pipe.answer(device, id, &file, range) {
            // The pipe is dropped, because it may not be empty.
            tracing::debug!("a reply is copied: {error}");
            return Err(reply);
        }
        OWN.set(Some(pipe));
        // Dropping `reply` would answer the request a second time, so it is forgotten. That leaks
        // only a reference to the connection. The connection ends anyway when it is unmounted, and
        // its descriptor is closed when the process ends.
        std::mem::forget(reply);
        Ok(range.len())
    }
}

impl Pipe {
    fn new() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setpipe_size(&write, PIPE_SIZE)?;
        Ok(Self { read, write })
    }

    /// Answers request `id` with `range` of `file`, on `device`.
    fn answer(
        &self,
        device: &OwnedFd,
        id: RequestId,
        file: &PinnedBlocks,
        range: ByteRange,
    ) -> io::Result<()> {
        let whole = HEADER_SIZE + to_usize(range.len());
        let mut header = [0; HEADER_SIZE];
        header[..4].copy_from_slice(&u32::try_from(whole).map_err(io::Error::other)?.to_ne_bytes());
        header[8..].copy_from_slice(&id.0.to_ne_bytes());
        rustix::io::write(&self.write, &header)?;
        let (mut at, none) = (range.start, SpliceFlags::empty());
        while at < range.end {
            let left = to_usize(range.end - at);
            if splice(file, Some(&mut at), &self.write, None, left, SpliceFlags::NONBLOCK)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        // The file was cut short by another program, so the bytes may be zeros.
        if !file.is_whole() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match splice(&self.read, None, device, None, whole, none) {
            // The process that made the request has ended.
            Err(Errno::NOENT) | Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
