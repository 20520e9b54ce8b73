//! One connection: a socket, TLS over it where asked for, and the bytes read ahead of a head's end.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_location::ByteRange;

use super::request::{Request, SendError};
use super::tls::{self, Session};
use super::{Failed, Fault, trust};
use crate::{Cancel, Error};

/// How much of an answer is read at once while its head is looked for: a head with a small object behind it in one call,
/// and little to copy when a large one follows.
const HEAD_READ: usize = 16 << 10;
/// Step in which a file goes out through TLS.
const SEND_STEP: usize = 256 << 10;

/// A connection that carries one request at a time.
pub(crate) struct Connection {
    /// The socket; shared with the [`Cancel`] of the request under way.
    pub(crate) socket: Arc<TcpStream>,
    tls: Option<Box<Session>>,
    /// Bytes read past what was asked for; `consumed` of them were used.
    ahead: Vec<u8>,
    consumed: usize,
    /// Whether it has carried a request before.
    pub(crate) used: bool,
}

impl Connection {
    pub(crate) fn plain(socket: TcpStream) -> Self {
        Self { socket: Arc::new(socket), tls: None, ahead: Vec::new(), consumed: 0, used: false }
    }

    /// Agrees on TLS with the other end, within `deadline`.
    pub(crate) fn start_tls(
        &mut self,
        mut session: Session,
        request: &Request<'_>,
        deadline: Duration,
    ) -> Result<(), Failed> {
        if !request.cancel.register(&self.socket) {
            return Err(Error::Cancelled.into());
        }
        tls::handshake(&mut session, &self.socket, deadline).map_err(|error| {
            match error.get_ref().and_then(|cause| cause.downcast_ref()) {
                Some(rustls::Error::InvalidCertificate(cause)) => {
                    trust::refusal(request.origin.to_string(), cause).into()
                }
                Some(_) if !request.cancel.is_cancelled() => {
                    Failed::unreachable(request.origin, "TLS: ", &error)
                }
                // A connection lost here is tried again, as any lost one.
                _ => {
                    let fault = if timed_out(&error) { Fault::Silent } else { Fault::Other };
                    Failed { error: classify(&error, request.place, request.cancel, deadline), fault }
                }
            }
        })?;
        self.tls = Some(Box::new(session));
        Ok(())
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.tls.is_none()
    }

    /// Bytes read and not used yet.
    pub(crate) fn ahead(&self) -> &[u8] {
        &self.ahead[self.consumed..]
    }

    /// Marks `count` of the bytes ahead as used.
    pub(crate) fn consume(&mut self, count: usize) {
        self.consumed += count;
        if self.consumed == self.ahead.len() {
            self.ahead.clear();
            self.consumed = 0;
        }
    }

    /// Reads more bytes ahead; 0 at the end of the stream.
    pub(crate) fn read_ahead(&mut self) -> io::Result<usize> {
        let old = self.ahead.len();
        self.ahead.resize(old + HEAD_READ, 0);
        let read = read_from(&self.socket, self.tls.as_deref_mut(), &mut self.ahead[old..]);
        self.ahead.truncate(old + read.as_ref().copied().unwrap_or(0));
        read
    }

    /// Reads into `buffer`: first what was read ahead, then from the socket. 0 at the end of the stream.
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

    /// Sends a range of a file, by sendfile on plain TCP; as many bytes at once as `allow` says when it returns.
    pub(super) fn write_file(
        &mut self,
        file: &File,
        range: ByteRange,
        allow: &dyn Fn(u64) -> io::Result<u64>,
    ) -> Result<(), SendError> {
        let mut offset = range.start;
        let mut buffer = Vec::new();
        while offset < range.end {
            // The kernel moves at most 2 GiB a call.
            let end = offset + allow((range.end - offset).min(1 << 30))?;
            if !self.is_plain() || !self.send_file(file, &mut offset, end)? {
                buffer.resize(SEND_STEP, 0);
                self.copy_file(file, &mut offset, end, &mut buffer)?;
            }
        }
        Ok(())
    }

    /// Sends up to `end` by sendfile; false where that is not possible here.
    fn send_file(&self, file: &File, offset: &mut u64, end: u64) -> Result<bool, SendError> {
        use rustix::io::Errno;
        while *offset < end {
            let step = usize::try_from(end - *offset).unwrap_or(1 << 30);
            match rustix::fs::sendfile(&*self.socket, file, Some(offset), step) {
                Ok(0) => return Err(shrunk()),
                Ok(_) | Err(Errno::INTR) => {}
                // Some file systems cannot splice.
                Err(Errno::INVAL | Errno::NOSYS) => return Ok(false),
                // One call reads and writes. These can only be the file's: of a disk, or of a network file system.
                Err(error @ (Errno::IO | Errno::STALE)) => return Err(SendError::Payload(error.into())),
                Err(error) => return Err(SendError::Socket(error.into())),
            }
        }
        Ok(true)
    }

    /// Sends up to `end` through memory.
    fn copy_file(
        &mut self,
        file: &File,
        offset: &mut u64,
        end: u64,
        buffer: &mut [u8],
    ) -> Result<(), SendError> {
        while *offset < end {
            let want = buffer.len().min(usize::try_from(end - *offset).unwrap_or(buffer.len()));
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
    mut session: Option<&mut Session>,
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

/// Whether a socket's deadline ran out.
pub(crate) fn timed_out(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// What a failed read or write on a socket means to the caller.
pub(crate) fn classify(error: &io::Error, place: &str, cancel: &Cancel, deadline: Duration) -> Error {
    let location = place.to_owned();
    if cancel.is_cancelled() {
        Error::Cancelled
    } else if timed_out(error) {
        Error::TimedOut { location, after: deadline }
    } else {
        Error::Disconnected { location, detail: error.to_string() }
    }
}
