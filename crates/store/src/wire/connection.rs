//! Reads and writes one connection to a server: a socket, optional TLS, and a buffer of bytes read
//! ahead.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_location::{ByteRange, to_usize};

use super::tls::{self, TlsSession};
use super::{FailedRequest, Fault, trust};
use crate::cancel::Cancel;
use crate::error::Error;
use crate::limits::{BUFFER, RECORD};
use crate::origin::Origin;
use crate::syscall_refusal::is_refusal;

/// The reason why a request was not sent completely.
#[derive(Debug)]
pub(super) enum SendError {
    /// The connection failed.
    Socket(io::Error),
    /// The file of the payload has become shorter, or cannot be read.
    Payload(io::Error),
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

/// A connection that carries one request at a time.
pub(crate) struct HttpConnection {
    /// The socket, shared with the [`Cancel`] of the current request.
    pub(crate) socket: Arc<TcpStream>,
    tls: Option<Box<TlsSession>>,
    /// Bytes read ahead. The first `consumed` of them have been used.
    ahead: Vec<u8>,
    consumed: usize,
    /// True if the connection has carried an earlier request.
    pub(crate) is_used: bool,
}

impl HttpConnection {
    pub(crate) fn plain(socket: TcpStream) -> Self {
        Self { socket: Arc::new(socket), tls: None, ahead: Vec::new(), consumed: 0, is_used: false }
    }

    /// Performs the TLS handshake within `deadline`.
    pub(crate) fn start_tls(
        &mut self,
        mut session: TlsSession,
        origin: &Origin,
        place: &str,
        cancel: &Cancel,
        deadline: Duration,
    ) -> Result<(), FailedRequest> {
        if !cancel.register(&self.socket) {
            return Err(Error::Cancelled.into());
        }
        tls::handshake(&mut session, &self.socket, deadline).map_err(|error| {
            match error.get_ref().and_then(|cause| cause.downcast_ref()) {
                Some(rustls::Error::InvalidCertificate(cause)) => {
                    trust::refusal(origin.to_string(), cause).into()
                }
                Some(_) if !cancel.is_cancelled() => FailedRequest::unreachable(origin, "TLS: ", &error),
                // The connection was lost during the handshake. The request is retried like any
                // other.
                _ => {
                    let fault = if is_timeout(&error) { Fault::Silent } else { Fault::Other };
                    FailedRequest { error: classify(&error, place, cancel, deadline), fault }
                }
            }
        })?;
        self.tls = Some(Box::new(session));
        Ok(())
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.tls.is_none()
    }

    /// Returns whether an idle connection is open and nothing was received on it. Servers send
    /// bodies with HEAD (<https://github.com/mar10/wsgidav/issues/123>), bodies longer than stated,
    /// and 408 on idle connections. Go closes such a connection too (`net/http/transport.go`:
    /// "Unsolicited response received on idle HTTP channel"; as of 28 November 2026). Bytes that
    /// arrive after the next request was sent cannot be distinguished from its response.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let is_silent = |socket: &TcpStream| {
            use rustix::net::{RecvFlags, recv};
            matches!(
                recv(socket, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT),
                Err(rustix::io::Errno::AGAIN)
            )
        };
        self.ahead().is_empty()
            && match &mut self.tls {
                None => is_silent(&self.socket),
                Some(session) => tls::is_quiet(session, &self.socket, is_silent),
            }
    }

    /// Returns the bytes read ahead and not used.
    pub(crate) fn ahead(&self) -> &[u8] {
        &self.ahead[self.consumed..]
    }

    /// Marks `count` of the bytes read ahead as used.
    pub(crate) fn consume(&mut self, count: usize) {
        self.consumed += count;
        if self.consumed == self.ahead.len() {
            self.ahead.clear();
            self.consumed = 0;
        }
    }

    /// Reads more bytes ahead. Returns 0 at the end of the stream.
    pub(crate) fn read_ahead(&mut self) -> io::Result<usize> {
        let old = self.ahead.len();
        self.ahead.resize(old + RECORD, 0);
        let read = read_from(&self.socket, self.tls.as_deref_mut(), &mut self.ahead[old..]);
        self.ahead.truncate(old + read.as_ref().copied().unwrap_or(0));
        read
    }

    /// Reads into `buffer`: first the bytes read ahead, then from the socket. Returns 0 at the end
    /// of the stream.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let ready = self.ahead();
        if ready.is_empty() {
            return read_from(&self.socket, self.tls.as_deref_mut(), buffer);
        }
        let count = ready.len().min(buffer.len());
        buffer[..count].copy_from_slice(&ready[..count]);
        self.consume(count);
        Ok(count)
    }

    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            None => (&*self.socket).write_all(bytes),
            Some(session) => {
                let mut socket = &*self.socket;
                let mut stream = rustls::Stream::new(&mut **session, &mut socket);
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }

    /// Sends a range of a file, by sendfile if the connection has no TLS. `allow` waits for the
    /// rate limit, and returns the size of the next piece.
    pub(super) fn write_file(
        &mut self,
        file: &File,
        range: ByteRange,
        allow: &dyn Fn(u64) -> io::Result<u64>,
    ) -> Result<(), SendError> {
        let mut offset = range.start;
        let mut buffer = Vec::new();
        while offset < range.end {
            let end = offset + allow(range.end - offset)?;
            if !self.is_plain() || !self.send_file(file, &mut offset, end)? {
                buffer.resize(BUFFER, 0);
                self.copy_file(file, &mut offset, end, &mut buffer)?;
            }
        }
        Ok(())
    }

    /// Sends the file up to the offset `end` by sendfile. Returns false if sendfile is not
    /// supported.
    fn send_file(&self, file: &File, offset: &mut u64, end: u64) -> Result<bool, SendError> {
        use rustix::io::Errno;
        while *offset < end {
            let step = to_usize(end - *offset);
            match rustix::fs::sendfile(&*self.socket, file, Some(offset), step) {
                Ok(0) => return Err(shrunk()),
                Ok(_) | Err(Errno::INTR) => {}
                // The file system does not support splice.
                Err(error) if is_refusal(error) => return Ok(false),
                // sendfile reads the file and writes to the socket. These errors can come only from
                // reading the file, on a disk or a network file system.
                Err(error @ (Errno::IO | Errno::STALE)) => return Err(SendError::Payload(error.into())),
                Err(error) => return Err(SendError::Socket(error.into())),
            }
        }
        Ok(true)
    }

    /// Sends the file up to the offset `end` through memory.
    fn copy_file(
        &mut self,
        file: &File,
        offset: &mut u64,
        end: u64,
        buffer: &mut [u8],
    ) -> Result<(), SendError> {
        while *offset < end {
            let want = buffer.len().min(to_usize(end - *offset));
            let read = file.read_at(&mut buffer[..want], *offset).map_err(SendError::Payload)?;
            if read == 0 {
                return Err(shrunk());
            }
            self.write_all(&buffer[..read])?;
            *offset += read as u64;
        }
        Ok(())
    }
}

fn shrunk() -> SendError {
    SendError::Payload(io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the file became shorter while it was sent",
    ))
}

fn read_from(
    mut socket: &TcpStream,
    mut session: Option<&mut TlsSession>,
    buffer: &mut [u8],
) -> io::Result<usize> {
    loop {
        let read = match &mut session {
            None => socket.read(buffer),
            Some(session) => tls::read(session, socket, buffer),
        };
        match read {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Returns true if an error means that the deadline of a socket has passed.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Converts the error of a socket.
pub(crate) fn classify(error: &io::Error, place: &str, cancel: &Cancel, deadline: Duration) -> Error {
    let location = place.to_owned();
    if cancel.is_cancelled() {
        Error::Cancelled
    } else if is_timeout(error) {
        Error::TimedOut { location, after: deadline, trace: None }
    } else {
        Error::Disconnected { location, detail: error.to_string(), trace: None }
    }
}
