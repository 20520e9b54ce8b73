//! Sends ranges of files: by sendfile(2) on plain TCP, by reading and encrypting on TLS.
//!
//! The socket never blocks, but the disk may. Before a part is sent, `preadv2` with `RWF_NOWAIT`
//! checks whether the part is in the page cache. If not, a blocking thread reads the part into the
//! page cache, so that a slow disk delays no other connection.
//!
//! The last bytes are sent only if the file is still the version that the head states. If another
//! program rewrites the file meanwhile, the response breaks off and never looks complete.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use firstbyte_location::{ByteRange, to_usize};
use firstbyte_pacing::Throttle;
use rustix::fs::Advice;
use rustix::io::{Errno, ReadWriteFlags};
use tokio::io::{AsyncWrite, Interest};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::http::connections::{self, Connections};
use crate::http::response::{BodyPiece, BodyPieces, FileContent};
use crate::http::wire::Transport;

/// Bytes that one connection sends before other connections get their turn. A socket buffer takes
/// less at once, so a fast reader is not slowed; yet a thousand connections take turns within a
/// second.
const TURN_BYTES: u64 = 1 << 20;

/// Bytes that are read and encrypted at once on TLS: sixteen records. A TLS connection needs this
/// much memory.
const TLS_PIECE: u64 = 256 << 10;

/// Bytes at the end of a range that are read but held back until the file's version has been
/// checked again. Small files are read whole, and sent in one call with the head.
const HELD_BACK_BYTES: u64 = 16 << 10;

/// Sends `head` and `content`.
pub(crate) async fn send_file(
    transport: &mut Transport,
    mut head: Vec<u8>,
    content: &FileContent,
    connections: &Connections,
    throttle: &Throttle,
) -> io::Result<()> {
    let stall = connections.limits.stall;
    let FileContent { file, range, .. } = content;
    if range.is_empty() {
        return send_bytes(transport, &head, FollowingBytes::Nothing, stall).await;
    }
    let end = ByteRange::new(range.end - range.len().min(HELD_BACK_BYTES), range.end);
    let is_small = end == *range && throttle.is_unlimited();
    if !is_small {
        send_bytes(transport, &head, FollowingBytes::More, stall).await?;
        send_range(transport, file, ByteRange::new(range.start, end.start), connections, throttle).await?;
        head.clear();
    }
    let held = head.len() as u64 + end.len();
    read_piece(file, end, connections, &mut head).await?;
    if head.len() as u64 != held {
        return Err(shrunk_error());
    }
    content.check_unchanged().inspect_err(|error| tracing::warn!(%error, "an answer broke off"))?;
    connections.metrics.copied_bytes.fetch_add(end.len(), Relaxed);
    send_throttled(transport, &head, stall, throttle).await
}

/// Sends `head` and all `pieces`, each as soon as it is available.
pub(crate) async fn send_pieces(
    transport: &mut Transport,
    head: Vec<u8>,
    mut pieces: Box<dyn BodyPieces>,
    connections: &Connections,
    throttle: &Throttle,
) -> io::Result<()> {
    let stall = connections.limits.stall;
    let mut remaining = pieces.length();
    send_bytes(transport, &head, FollowingBytes::More, stall).await?;
    while let Some(piece) =
        pieces.next().await.inspect_err(|error| tracing::warn!(%error, "an answer broke off"))?
    {
        match piece {
            BodyPiece::File(file, range) => {
                remaining = remaining.saturating_sub(range.len());
                send_range(transport, &file, range, connections, throttle).await?;
            }
            // A short piece is sent together with the next one, not in a packet of its own.
            BodyPiece::Bytes(bytes, None) if remaining > bytes.len() as u64 && throttle.is_unlimited() => {
                remaining -= bytes.len() as u64;
                send_bytes(transport, &bytes, FollowingBytes::More, stall).await?;
            }
            BodyPiece::Bytes(bytes, _held) => {
                remaining = remaining.saturating_sub(bytes.len() as u64);
                connections.metrics.copied_bytes.fetch_add(bytes.len() as u64, Relaxed);
                send_throttled(transport, &bytes, stall, throttle).await?;
            }
        }
    }
    match transport {
        Transport::Tls(_) => send_bytes(transport, b"", FollowingBytes::Nothing, stall).await,
        Transport::Plain(_) => Ok(()),
    }
}

/// Sends bytes in memory as fast as `throttle` allows.
pub(crate) async fn send_throttled(
    transport: &mut Transport,
    bytes: &[u8],
    stall: Duration,
    throttle: &Throttle,
) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let allowed = connections::wait_for(throttle, rest.len() as u64).await;
        let (piece, behind) = rest.split_at(to_usize(allowed));
        send_bytes(transport, piece, FollowingBytes::Nothing, stall).await?;
        rest = behind;
    }
    Ok(())
}

/// Returns the error for a file that became shorter than its announced length. The client must see
/// a broken response, not a short one.
fn shrunk_error() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file shrank while it was sent")
}

async fn send_range<F: AsFd + Send + Sync + ?Sized + 'static>(
    transport: &mut Transport,
    file: &Arc<F>,
    range: ByteRange,
    connections: &Connections,
    throttle: &Throttle,
) -> io::Result<()> {
    let stall = connections.limits.stall;
    let mut rest = range;
    let mut can_wait = true;
    while !rest.is_empty() {
        let allowed = connections::wait_for(throttle, rest.len().min(TURN_BYTES)).await;
        let part = ByteRange::at(rest.start, allowed);
        let sent = match transport {
            Transport::Plain(_) => {
                can_wait = can_wait && warm(file, part, connections).await?;
                let sent = step(transport, stall, |transport, context| {
                    poll_splice(transport.socket(), context, file.as_fd(), part)
                })
                .await?;
                connections.metrics.sendfile_bytes.fetch_add(sent, Relaxed);
                sent
            }
            Transport::Tls(_) => {
                let part = ByteRange::at(part.start, part.len().min(TLS_PIECE));
                let mut piece = Vec::new();
                read_piece(file, part, connections, &mut piece).await?;
                send_bytes(transport, &piece, FollowingBytes::More, stall).await?;
                connections.metrics.copied_bytes.fetch_add(piece.len() as u64, Relaxed);
                piece.len() as u64
            }
        };
        if sent == 0 {
            return Err(shrunk_error());
        }
        rest = rest.skip(sent);
        throttle.refund(allowed.saturating_sub(sent));
        // Yields only if there are other connections. With one connection, a yield would only wake
        // a second thread, on the client's processor.
        if !rest.is_empty() && connections.metrics.open.load(Relaxed) > 1 {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

/// Calls sendfile once, as soon as the socket accepts bytes.
fn poll_splice(
    stream: &TcpStream,
    context: &mut Context<'_>,
    file: BorrowedFd<'_>,
    part: ByteRange,
) -> Poll<io::Result<u64>> {
    let count = to_usize(part.len());
    poll_socket(stream, context, || {
        let mut offset = part.start;
        Ok(rustix::fs::sendfile(stream, file, Some(&mut offset), count)? as u64)
    })
}

/// Calls `send` as soon as the socket accepts bytes.
fn poll_socket<T>(
    stream: &TcpStream,
    context: &mut Context<'_>,
    mut send: impl FnMut() -> io::Result<T>,
) -> Poll<io::Result<T>> {
    loop {
        ready!(stream.poll_write_ready(context))?;
        match stream.try_io(Interest::WRITABLE, &mut send) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return Poll::Ready(done),
        }
    }
}

/// Polls a step of sending until it is done. Fails if the peer takes no byte for the time `stall`.
///
/// The socket accepts bytes again only when a third of its buffer is free, and the buffer may be
/// megabytes long. A slow peer may take longer than `stall` to free that third, so the step also
/// continues while the peer acknowledges bytes.
async fn step<T>(
    transport: &mut Transport,
    stall: Duration,
    mut poll: impl FnMut(&mut Transport, &mut Context<'_>) -> Poll<io::Result<T>>,
) -> io::Result<T> {
    let mut held = None;
    loop {
        let attempt = std::future::poll_fn(|context| poll(transport, context));
        let elapsed = match timeout(stall / 2, attempt).await {
            Ok(done) => return done,
            Err(elapsed) => elapsed,
        };
        let now = transport.unacknowledged()?;
        if held.replace(now).is_some_and(|before| now >= before) {
            return Err(elapsed.into());
        }
    }
}

/// Reads `part` into the page cache if it is not there. Returns false if reads of this file never
/// wait.
async fn warm<F: AsFd + Send + Sync + ?Sized + 'static>(
    file: &Arc<F>,
    part: ByteRange,
    connections: &Connections,
) -> io::Result<bool> {
    let Some(begin) = is_cached(file.as_fd(), part.start) else { return Ok(false) };
    if begin && is_cached(file.as_fd(), part.end - 1) == Some(true) {
        return Ok(true);
    }
    connections.metrics.cold_reads.fetch_add(1, Relaxed);
    let file = file.clone();
    let read = move || read_ahead(file.as_fd(), part);
    tokio::task::spawn_blocking(read).await.map_err(io::Error::other)??;
    Ok(true)
}

/// True if the byte at `offset` can be read without waiting. `None` if the file system cannot
/// report it: tmpfs, where reads never wait.
fn is_cached(file: BorrowedFd<'_>, offset: u64) -> Option<bool> {
    let mut byte = [0];
    let mut target = [IoSliceMut::new(&mut byte)];
    match rustix::io::preadv2(file, &mut target, offset, ReadWriteFlags::NOWAIT) {
        Err(Errno::OPNOTSUPP) => None,
        Err(Errno::AGAIN) => Some(false),
        _ => Some(true),
    }
}

/// Reads `part` into the page cache: announces all of it, then touches it at intervals, in order.
fn read_ahead(file: BorrowedFd<'_>, part: ByteRange) -> io::Result<()> {
    let length = std::num::NonZeroU64::new(part.len());
    rustix::fs::fadvise(file, part.start, length, Advice::WillNeed)?;
    // One byte every 128 KiB, the default read-ahead window, is enough to wait for the whole part.
    let mut byte = [0];
    for offset in (part.start..part.end).step_by(128 << 10).chain([part.end - 1]) {
        rustix::io::pread(file, &mut byte, offset)?;
    }
    Ok(())
}

/// Appends the bytes of `part` to `piece`. If they are not cached, a blocking thread waits for them
/// first.
async fn read_piece<F: AsFd + Send + Sync + ?Sized + 'static>(
    file: &Arc<F>,
    part: ByteRange,
    connections: &Connections,
    piece: &mut Vec<u8>,
) -> io::Result<()> {
    let start = piece.len();
    let end = start + to_usize(part.len());
    piece.resize(end, 0);
    let mut room = [IoSliceMut::new(&mut piece[start..])];
    let mut read = rustix::io::preadv2(file.as_fd(), &mut room, part.start, ReadWriteFlags::NOWAIT);
    if read != Ok(end - start) {
        warm(file, part, connections).await?;
        read = rustix::io::pread(file.as_fd(), &mut piece[start..], part.start);
    }
    piece.truncate(start + read?);
    Ok(())
}

/// Writes all `bytes`; each step may take the time `stall`. `follow` says whether more bytes
/// follow.
pub(crate) async fn send_bytes(
    transport: &mut Transport,
    bytes: &[u8],
    follow: FollowingBytes,
    stall: Duration,
) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let count = step(transport, stall, |transport, context| match (&*transport, follow) {
            (Transport::Plain(stream), FollowingBytes::More) => poll_socket(stream, context, || {
                Ok(rustix::net::send(stream, rest, rustix::net::SendFlags::MORE)?)
            }),
            _ => Pin::new(transport).poll_write(context, rest),
        });
        rest = &rest[count.await?..];
    }
    match (&*transport, follow) {
        (Transport::Plain(_), _) => Ok(()),
        (Transport::Tls(_), _) => {
            step(transport, stall, |transport, context| Pin::new(transport).poll_flush(context)).await
        }
    }
}

/// The bytes that the caller sends at once after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FollowingBytes {
    /// More bytes follow: the kernel may wait and send all in one packet.
    More,
    /// No bytes follow.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_ahead_past_holes_and_to_the_last_byte_works() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(300_001).unwrap();
        read_ahead(file.as_fd(), ByteRange::new(0, 300_001)).unwrap();
        assert_ne!(is_cached(file.as_fd(), 300_000), Some(false));
    }
}
