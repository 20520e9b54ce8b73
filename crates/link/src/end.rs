//! A non-blocking socket and what is known of it without asking.

use std::io::{self, Read, Write};
use std::net::TcpStream;

/// One of the two sockets, with what epoll last said of it (edges: true until a call would block).
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) stream: TcpStream,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The peer has said that nothing more will come: a short read is no sign that the next would block.
    pub(crate) ending: bool,
    /// The peer reset the connection, or never accepted it.
    pub(crate) broken: bool,
}

impl End {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, readable: false, writable: false, ending: false, broken: false }
    }

    /// Reads what is there; `None` where nothing is, 0 at the end.
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

    /// Writes what fits; 0 where nothing does.
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
