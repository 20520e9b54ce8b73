//! Moves bytes from a socket to a file through a pipe in the kernel, without copying them into this
//! process.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use firstbyte_location::to_usize;
use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, splice};

use crate::limits::BUFFER;
use crate::sink::Sink;
use crate::syscall_refusal::is_refusal;

/// Size of the pipe, in bytes. 1 GiB from `serve`, which uses sendfile, takes 0.396 s with 256 KiB,
/// 0.368 s with 512 KiB, and 0.356 s with 1 MiB. All pipes of an unprivileged user may have 64 MiB
/// in total (`/proc/sys/fs/pipe-user-pages-soft`), and up to 80 threads have one pipe each. If the
/// kernel refuses this size, the pipe has 64 KiB.
const PIPE_BYTES: usize = 512 << 10;

pub(super) enum SpliceError {
    /// The socket or the file does not support splice. No bytes were moved.
    Impossible,
    Socket(io::Error),
    File(io::Error),
}

thread_local! {
    /// An empty pipe that is kept between two calls, because creating a pipe takes three system
    /// calls.
    static SPARE_PIPE: RefCell<Option<(OwnedFd, OwnedFd)>> = const { RefCell::new(None) };
}

/// Moves up to `limit` bytes. Returns the number of bytes moved, which is 0 at the end of the
/// stream. After a failure, the pipe may contain bytes, and is closed.
pub(super) fn to_file(
    socket: &TcpStream,
    sink: &Sink,
    offset: u64,
    limit: u64,
) -> Result<usize, SpliceError> {
    let (read_end, write_end) = pipe().map_err(|_| SpliceError::Impossible)?;
    let want = to_usize(limit).min(PIPE_BYTES);
    let flags = SpliceFlags::MOVE | SpliceFlags::MORE;
    let filled = loop {
        match splice(socket, None, &write_end, None, want, flags) {
            Ok(count) => break count,
            Err(Errno::INTR) => {}
            Err(error) if is_refusal(error) => return Err(SpliceError::Impossible),
            Err(error) => return Err(SpliceError::Socket(error.into())),
        }
    };
    let (_lock, file) = (sink.lock_writes(), sink.file());
    let mut at = offset;
    let end = offset + filled as u64;
    while at < end {
        let left = to_usize(end - at);
        match splice(&read_end, None, file, Some(&mut at), left, flags) {
            Ok(0) => return Err(SpliceError::File(io::ErrorKind::WriteZero.into())),
            Ok(_) | Err(Errno::INTR) => {}
            // The file system does not support splice. So the bytes in the pipe are copied through
            // memory.
            Err(error) if is_refusal(error) => {
                drain(&read_end, file, &mut at, end).map_err(SpliceError::File)?;
            }
            Err(error) => return Err(SpliceError::File(error.into())),
        }
    }
    SPARE_PIPE.set(Some((read_end, write_end)));
    Ok(filled)
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    if let Some(pipe) = SPARE_PIPE.take() {
        return Ok(pipe);
    }
    let (read_end, write_end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // If the call fails, the pipe keeps its default size.
    let _ = rustix::pipe::fcntl_setpipe_size(&write_end, PIPE_BYTES);
    Ok((read_end, write_end))
}

fn drain(read_end: &OwnedFd, file: &File, at: &mut u64, end: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    let mut step = vec![0; BUFFER];
    while *at < end {
        let want = step.len().min(to_usize(end - *at));
        let read = rustix::io::read(read_end, &mut step[..want])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.write_all_at(&step[..read], *at)?;
        *at += read as u64;
    }
    Ok(())
}
