//! Decodes the chunked transfer coding (RFC 9112, 7.1).
//!
//! Only size lines and trailers pass through the buffer of the connection. Data is read directly
//! into the caller's buffer.

use std::io;

use firstbyte_location::to_usize;

use super::connection::HttpConnection;

/// Maximum length of a size line or trailer line, in bytes. Sizes have up to 16 digits, and
/// extensions are rare and short.
const MAX_LINE_BYTES: usize = 4096;
/// Maximum number of trailer lines.
const MAX_TRAILERS: usize = 64;

/// The position within the coding.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Chunked {
    /// Before a size line.
    #[default]
    Size,
    /// Within a chunk that has this number of remaining bytes.
    Data(u64),
    /// After the last chunk and the trailers.
    Done,
}

impl Chunked {
    /// Reads into `buffer`. Returns 0 after the last chunk.
    pub(super) fn read(&mut self, connection: &mut HttpConnection, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if *self == Self::Size {
            let size = parse_size(&line(connection)?)?;
            *self = Self::Data(size);
            if size == 0 {
                skip_trailers(connection)?;
                *self = Self::Done;
            }
        }
        let Self::Data(left) = self else { return Ok(0) };
        let want = buffer.len().min(to_usize(*left));
        let read = connection.read(&mut buffer[..want])?;
        if read == 0 {
            return Err(early_end());
        }
        *left -= read as u64;
        if *left == 0 {
            if !line(connection)?.is_empty() {
                return Err(malformed("no line end after a chunk"));
            }
            *self = Self::Size;
        }
        Ok(read)
    }
}

fn skip_trailers(connection: &mut HttpConnection) -> io::Result<()> {
    for _ in 0..MAX_TRAILERS {
        if line(connection)?.is_empty() {
            return Ok(());
        }
    }
    Err(malformed("too many trailers"))
}

fn line(connection: &mut HttpConnection) -> io::Result<Vec<u8>> {
    loop {
        let ahead = connection.ahead();
        if let Some(end) = ahead.iter().position(|&b| b == b'\n') {
            let line = ahead[..end].strip_suffix(b"\r").unwrap_or(&ahead[..end]).to_vec();
            connection.consume(end + 1);
            return Ok(line);
        }
        if ahead.len() > MAX_LINE_BYTES {
            return Err(malformed("a chunk line that does not end"));
        }
        if connection.read_ahead()? == 0 {
            return Err(early_end());
        }
    }
}

fn parse_size(line: &[u8]) -> io::Result<u64> {
    let digits = line.split(|&b| b == b';').next().unwrap_or_default().trim_ascii();
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
    text.and_then(|text| u64::from_str_radix(text, 16).ok())
        .ok_or_else(|| malformed("a chunk size that is not a number"))
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn early_end() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "closed within a chunked body")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    fn decode(sent: &[u8], step: usize) -> io::Result<Vec<u8>> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        sender.write_all(sent).unwrap();
        drop(sender);
        let mut connection = HttpConnection::plain(listener.accept().unwrap().0);
        let (mut state, mut out, mut buffer) = (Chunked::default(), Vec::new(), vec![0; step]);
        loop {
            match state.read(&mut connection, &mut buffer)? {
                0 => return Ok(out),
                read => out.extend_from_slice(&buffer[..read]),
            }
        }
    }

    #[test]
    fn chunks_with_extensions_and_trailers_decode_in_steps_of_any_size() {
        for step in [1, 2, 3, 100] {
            let sent = b"4;x=y\r\nwiki\r\n5\r\npedia\r\n0\r\nDigest: x\r\n\r\n";
            assert_eq!(decode(sent, step).unwrap(), b"wikipedia");
        }
    }

    #[test]
    fn a_truncated_body_is_an_error() {
        let sent = b"4\r\nwiki\r\n5\r\npedia\r\n0\r\n\r\n";
        for cut in 0..sent.len() {
            assert!(decode(&sent[..cut], 100).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn sizes_that_are_not_numbers_are_refused() {
        for sent in [&b"\r\nx"[..], b"-1\r\nx", b"g\r\nx", b"11111111111111111\r\nx", b"1\r\nab\r\n0\r\n\r\n"]
        {
            assert_eq!(decode(sent, 10).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}
