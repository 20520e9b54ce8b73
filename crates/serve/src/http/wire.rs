//! Holds a connection's transport and read buffer, and reads request bodies through them.
//!
//! While a handler runs, the [`HttpWire`] is in a slot that its [`WireBody`] shares. The handler
//! reads the body straight from the socket. Afterwards the connection loop takes the wire out of
//! the slot, so a body that outlives its request finds the slot empty and fails.

use std::ffi::c_int;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use firstbyte_location::to_usize;
use rustix::ioctl;
use rustix_futex_sync::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_rustls::server::TlsStream;

use crate::http::chunks::{BodyElement, ChunkDialect, Chunks};
use crate::http::head::Framing;

/// Maximum number of body bytes in one piece. It is so large that a write to disk outweighs the
/// task switch, and so small that a thousand uploads stay within memory.
pub(crate) const BODY_PIECE: usize = 128 << 10;

/// Bytes reserved in the buffer for the lines between chunks.
const LINE_ROOM: usize = 4096;

/// The ioctl for the number of unacknowledged bytes of a socket (asm-generic/ioctls.h, `TIOCOUTQ`).
const SIOCOUTQ: ioctl::Opcode = 0x5411;

/// The connection that carries the bytes.
#[derive(Debug)]
pub(crate) enum Transport {
    /// Plain TCP: sendfile sends files.
    Plain(TcpStream),
    /// TLS: files are read and encrypted.
    Tls(Box<TlsStream<TcpStream>>),
}

/// A transport, and the bytes that were read from it but not used.
#[derive(Debug)]
pub(crate) struct HttpWire {
    pub(crate) transport: Transport,
    pub(crate) buffer: BytesMut,
    body: BodyProgress,
    /// True if the client waits for `100 Continue`.
    awaits_continue: bool,
}

/// The position of the wire in the request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyProgress {
    /// The wire is after the end of the body.
    Done,
    /// The number of bytes that are still to come.
    Data(u64),
    /// The wire is in a chunked body.
    Chunked(Chunks),
    /// An error has occurred. The end of the body is unknown, so later bytes must not be taken for
    /// a request.
    Broken,
}

impl HttpWire {
    pub(crate) fn new(transport: Transport) -> Self {
        Self { transport, buffer: BytesMut::new(), body: BodyProgress::Done, awaits_continue: false }
    }

    /// Begins a request whose body has this framing.
    pub(crate) fn begin_body(&mut self, framing: Framing, awaits_continue: bool) {
        self.body = match framing {
            Framing::Length(0) => BodyProgress::Done,
            Framing::Length(left) => BodyProgress::Data(left),
            Framing::Chunked => BodyProgress::Chunked(Chunks::new(ChunkDialect::Http)),
        };
        self.awaits_continue = awaits_continue;
    }

    /// True if the body was read to its end, so that the next request can follow. False after an
    /// error in the body.
    pub(crate) fn body_is_done(&self) -> bool {
        self.body == BodyProgress::Done
    }

    /// True if reading the body failed, so that its end is unknown.
    pub(crate) fn body_is_broken(&self) -> bool {
        self.body == BodyProgress::Broken
    }

    /// True if the client still waits for 100 Continue. If so, the client may never send the body.
    pub(crate) fn awaits_continue(&self) -> bool {
        self.awaits_continue
    }

    /// Reads more bytes into the buffer. Returns 0 at the end of the stream.
    pub(crate) fn poll_fill(&mut self, context: &mut Context<'_>, room: usize) -> Poll<io::Result<usize>> {
        self.buffer.reserve(room);
        let spare = self.buffer.spare_capacity_mut();
        let most = spare.len().min(room);
        let mut target = ReadBuf::uninit(&mut spare[..most]);
        ready!(self.transport.poll_read(context, &mut target))?;
        let count = target.filled().len();
        // SAFETY: `poll_read` initialised exactly the `count` bytes after the buffer's length.
        unsafe { self.buffer.set_len(self.buffer.len() + count) };
        Poll::Ready(Ok(count))
    }

    /// Returns the next piece of the body, empty at its end. After an error, all calls fail.
    pub(crate) fn poll_body(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let piece = ready!(self.poll_piece(context));
        if piece.is_err() {
            self.body = BodyProgress::Broken;
        }
        Poll::Ready(piece)
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        if self.awaits_continue && self.buffer.is_empty() {
            let line = b"HTTP/1.1 100 Continue\r\n\r\n";
            // No other bytes are being sent, so this short line fits into the socket's buffer.
            ready!(Pin::new(&mut self.transport).poll_write(context, line))?;
            ready!(Pin::new(&mut self.transport).poll_flush(context))?;
        }
        self.awaits_continue = false;
        loop {
            match self.body {
                BodyProgress::Done => return Poll::Ready(Ok(Bytes::new())),
                BodyProgress::Broken => {
                    return Poll::Ready(Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "the body is broken",
                    )));
                }
                BodyProgress::Data(left) => {
                    let piece = ready!(self.poll_data(context, left))?;
                    let left = left - piece.len() as u64;
                    self.body = if left == 0 { BodyProgress::Done } else { BodyProgress::Data(left) };
                    return Poll::Ready(Ok(piece));
                }
                BodyProgress::Chunked(mut chunks) => {
                    // Trailers are ignored; they have no use here.
                    let next = chunks.next(&mut self.buffer, |_| Ok(()))?;
                    self.body = BodyProgress::Chunked(chunks);
                    match next {
                        BodyElement::Data(left) => {
                            let piece = ready!(self.poll_data(context, left))?;
                            chunks.record_moved(piece.len() as u64);
                            self.body = BodyProgress::Chunked(chunks);
                            return Poll::Ready(Ok(piece));
                        }
                        BodyElement::End => self.body = BodyProgress::Done,
                        BodyElement::More => {
                            if ready!(self.poll_fill(context, LINE_ROOM))? == 0 {
                                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                            }
                        }
                    }
                }
            }
        }
    }

    /// Returns up to `left` bytes: all that arrive without waiting, but at least one byte.
    fn poll_data(&mut self, context: &mut Context<'_>, left: u64) -> Poll<io::Result<Bytes>> {
        let wanted = to_usize(left).min(BODY_PIECE);
        while self.buffer.len() < wanted {
            let missing = wanted - self.buffer.len();
            match self.poll_fill(context, missing) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending if self.buffer.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        let count = wanted.min(self.buffer.len());
        Poll::Ready(Ok(self.buffer.split_to(count).freeze()))
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl Transport {
    /// Makes closing the connection a reset. To a client of HTTP/1.0 the close is the end of the
    /// body, so a body that breaks off must not end that way.
    pub(crate) fn reset_when_closed(&self) {
        // If this fails, the connection is broken already.
        let _ = self.socket().set_zero_linger();
    }

    /// Returns the socket below.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }

    /// Returns the number of sent bytes that the peer has not acknowledged.
    pub(crate) fn unacknowledged(&self) -> io::Result<c_int> {
        // SAFETY: SIOCOUTQ writes one int for a TCP socket (tcp(7)).
        let count = unsafe { ioctl::ioctl(self.socket(), ioctl::Getter::<SIOCOUTQ, c_int>::new()) };
        Ok(count?)
    }

    fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        AsyncRead::poll_read(Pin::new(self), context, buffer)
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// Holds the wire while a handler runs.
pub(crate) type WireSlot = Arc<Mutex<Option<HttpWire>>>;

/// A request body still on the wire.
#[derive(Debug)]
pub(crate) struct WireBody {
    slot: WireSlot,
    length: Option<u64>,
    stall: Duration,
    deadline: Option<Pin<Box<Sleep>>>,
    received: u64,
}

impl WireBody {
    pub(crate) fn new(slot: WireSlot, length: Option<u64>, stall: Duration) -> Self {
        Self { slot, length, stall, deadline: None, received: 0 }
    }

    /// Returns the announced length in bytes. `None` if it was not announced.
    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }

    pub(crate) fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let polled = match self.slot.lock().as_mut() {
            Some(wire) => wire.poll_body(context),
            None => return Poll::Ready(Some(Err(io::ErrorKind::NotConnected.into()))),
        };
        match polled {
            Poll::Ready(Ok(piece)) if piece.is_empty() => Poll::Ready(None),
            Poll::Ready(Ok(piece)) => {
                self.received += piece.len() as u64;
                if let Some(deadline) = &mut self.deadline {
                    deadline.as_mut().reset(Instant::now() + self.stall);
                }
                Poll::Ready(Some(Ok(piece)))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Some(Err(error))),
            Poll::Pending => {
                let stall = self.stall;
                let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(stall)));
                ready!(deadline.as_mut().poll(context));
                let reason = "the client stopped sending";
                Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, reason))))
            }
        }
    }
}
