//! Read replies by splice: pages of the cached file go through a pipe to the kernel, which copies
//! them once.
//!
//! A reply from memory would copy the bytes twice. `fuser` replies from memory only, so the reply
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

/// Bytes of a read below which the calls cost more than the copy.
const MIN_READ: u32 = 64 << 10;
/// Bytes of the pipe: a slot for each page, and one for the header. The kernel rounds up to a power
/// of two, and allows any process a megabyte.
const PIPE_SIZE: usize = LARGEST_READ as usize + 4096;
/// Bytes of the header: the length with the header, an error number, the request's number.
const HEADER_SIZE: usize = 16;

/// A pipe that is empty.
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

thread_local! {
    /// One pipe per thread, so that replies never mix.
    static OWN: Cell<Option<Pipe>> = const { Cell::new(None) };
}

/// Replies by splice on the connection to the kernel.
#[derive(Default)]
pub(super) struct Splicing {
    device: OnceLock<OwnedFd>,
}

impl Splicing {
    /// Sets the connection. If its descriptor cannot be duplicated, replies are copied.
    pub(super) fn on(&self, device: BorrowedFd<'_>) {
        if let Ok(own) = device.try_clone_to_owned() {
            // No other code sets the device.
            let _ = self.device.set(own);
        }
    }

    /// Answers request `id` with the range that `lend` returns. Returns the length, or the reply if
    /// no byte was sent.
    pub(super) fn read(
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
            // The pipe is dropped with its content.
            tracing::debug!("a reply is copied: {error}");
            return Err(reply);
        }
        OWN.set(Some(pipe));
        // Dropping the reply would answer once more. It owns only a count of the connection's
        // users: the connection ends when it is unmounted, and its descriptor with the process.
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
        // The file was cut short by another program: the bytes may be zeros.
        if !file.is_whole() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match splice(&self.read, None, device, None, whole, none) {
            // The process that asked has gone.
            Err(Errno::NOENT) | Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
