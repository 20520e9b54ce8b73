//! Wraps a non-blocking socket, and remembers what epoll last reported about it.

use std::io::{self, Read, Write};
use std::net::TcpStream;

/// A socket of a connection, to the client or to the server. epoll is edge-triggered, so `readable`
/// and `writable` stay true until a call would block.
#[derive(Debug)]
pub(crate) struct LinkSocket {
    pub(crate) stream: TcpStream,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// True if the peer has shut down its side. A short read then does not mean that the next read
    /// would block.
    pub(crate) ending: bool,
    /// True if the peer reset the connection, or never accepted it.
    pub(crate) broken: bool,
}

impl LinkSocket {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, readable: false, writable: false, ending: false, broken: false }
    }

    /// Reads the available bytes. Returns `None` if there are none yet, and 0 at the end of the
    /// stream.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.stream).read(buffer) {
            Ok(n) => {
                self.readable = n == buffer.len() || self.ending;
                Ok(Some(n))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes as many bytes as fit into the buffer of the socket. Returns their number.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match (&self.stream).write(bytes) {
            Ok(n) => Ok(n),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.writable = false;
                Ok(0)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }
}
