//! Parses chunked bodies, HTTP's own and `aws-chunked`: finds the boundaries of sizes, data and
//! trailers.
//!
//! Does no I/O: `http::wire` and the bodies of S3 requests fill the buffer and move the data. Input
//! that two implementations could read differently is an error. After an error nothing more is
//! parsed, because the end of the body is unknown and the bytes after it must not be taken for a
//! request.

use std::io;

use bytes::{Buf, BytesMut};
use firstbyte_location::to_usize;

/// Maximum length in bytes of a line between chunks: a size with its extensions, or a trailer.
const MAX_LINE_BYTES: usize = 4096;

/// Maximum total size of trailers in bytes, equal to the limit of a head.
const MAX_TRAILER_BYTES: usize = crate::http::head::MAX_HEAD_BYTES;

/// The variant of the chunked encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkDialect {
    /// `Transfer-Encoding: chunked`, RFC 9112 section 7.1.
    Http,
    /// `Content-Encoding: aws-chunked`. A trailer may end in a bare line feed, as the AWS
    /// documentation shows it.
    Aws,
}

/// A line between the data of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkLine<'a> {
    /// The start of a chunk, with the text after `;`. The last chunk is empty.
    Size { extension: &'a [u8] },
    /// A trailer.
    Trailer { name: &'a [u8], value: &'a [u8] },
}

/// The next element of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyElement {
    /// Unknown until more bytes arrive.
    More,
    /// This many bytes of data follow. The caller moves them and reports each move to
    /// [`Chunks::record_moved`].
    Data(u64),
    /// The end of the body.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecoderState {
    Size,
    Data(u64),
    DataEnd,
    Trailers(usize),
    Ended,
    Broken,
}

/// The position of a reader in a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunks {
    dialect: ChunkDialect,
    state: DecoderState,
}

impl Chunks {
    /// Starts at the beginning of a body.
    pub(crate) fn new(dialect: ChunkDialect) -> Self {
        Self { dialect, state: DecoderState::Size }
    }

    /// Removes lines from the front of `buffer`, up to the next data, and passes each to `see`.
    ///
    /// # Errors
    /// `InvalidData` if the body is malformed, or the error of `see`; all later calls fail too.
    pub(crate) fn next(
        &mut self,
        buffer: &mut BytesMut,
        see: impl FnMut(ChunkLine<'_>) -> io::Result<()>,
    ) -> io::Result<BodyElement> {
        let next = self.step(buffer, see);
        if next.is_err() {
            self.state = DecoderState::Broken;
        }
        next
    }

    /// Reports that `count` bytes of the current data were moved.
    pub(crate) fn record_moved(&mut self, count: u64) {
        if let DecoderState::Data(left) = self.state {
            let left = left.saturating_sub(count);
            self.state = if left == 0 { DecoderState::DataEnd } else { DecoderState::Data(left) };
        }
    }

    /// True if the body is complete when the connection ends here. S3 clients omit the empty line
    /// after the trailers of `aws-chunked`.
    pub(crate) fn may_end_here(&self) -> bool {
        self.dialect == ChunkDialect::Aws && matches!(self.state, DecoderState::Trailers(_))
    }

    fn step(
        &mut self,
        buffer: &mut BytesMut,
        mut see: impl FnMut(ChunkLine<'_>) -> io::Result<()>,
    ) -> io::Result<BodyElement> {
        loop {
            match self.state {
                DecoderState::Broken => return Err(broken("the body was malformed before")),
                DecoderState::Ended => return Ok(BodyElement::End),
                DecoderState::Data(left) => return Ok(BodyElement::Data(left)),
                DecoderState::Size | DecoderState::DataEnd | DecoderState::Trailers(_) => {}
            }
            let Some(end) = buffer.iter().position(|byte| *byte == b'\n') else {
                return if buffer.len() > MAX_LINE_BYTES {
                    Err(broken("a line is too long"))
                } else {
                    Ok(BodyElement::More)
                };
            };
            if end > MAX_LINE_BYTES {
                return Err(broken("a line is too long"));
            }
            self.state = self.after_line(&buffer[..end], &mut see)?;
            buffer.advance(end + 1);
        }
    }

    /// Returns the state after `line`, which is given without its line feed.
    fn after_line(
        &self,
        line: &[u8],
        see: &mut impl FnMut(ChunkLine<'_>) -> io::Result<()>,
    ) -> io::Result<DecoderState> {
        let in_trailers = matches!(self.state, DecoderState::Trailers(_));
        let line = match line.strip_suffix(b"\r") {
            Some(line) => line,
            None if in_trailers && self.dialect == ChunkDialect::Aws => line,
            None => return Err(broken("a line ends without a carriage return")),
        };
        match self.state {
            DecoderState::Size => {
                let (size, extension) = chunk_size(line)?;
                see(ChunkLine::Size { extension })?;
                Ok(if size == 0 { DecoderState::Trailers(0) } else { DecoderState::Data(size) })
            }
            DecoderState::DataEnd if line.is_empty() => Ok(DecoderState::Size),
            DecoderState::DataEnd => Err(broken("a chunk is longer than it says")),
            DecoderState::Trailers(_) if line.is_empty() => Ok(DecoderState::Ended),
            DecoderState::Trailers(seen) if seen + line.len() > MAX_TRAILER_BYTES => {
                Err(broken("there are too many trailers"))
            }
            DecoderState::Trailers(seen) => {
                let (name, value) = split_trailer(line)?;
                see(ChunkLine::Trailer { name, value })?;
                // Each line also counts its CRLF, so that many very short trailers reach the limit
                // too.
                Ok(DecoderState::Trailers(seen + line.len() + 2))
            }
            state => Ok(state),
        }
    }
}

fn broken(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("malformed chunked body: {what}"))
}

/// Parses a chunk-size line into the size and the extensions after `;`.
fn chunk_size(line: &[u8]) -> io::Result<(u64, &[u8])> {
    if line.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
        return Err(broken("a control character stands in a chunk's line"));
    }
    let (digits, extension) = match line.iter().position(|byte| *byte == b';') {
        // RFC 9112 allows blanks before `;` and nowhere else.
        Some(at) => (line[..at].trim_ascii_end(), &line[at + 1..]),
        None => (line, &line[line.len()..]),
    };
    let is_hex = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| is_hex);
    text.and_then(|text| u64::from_str_radix(text, 16).ok())
        .map(|size| (size, extension))
        .ok_or_else(|| broken("a chunk's size is not a hexadecimal number"))
}

/// Splits a trailer into name and value. Folded lines, blanks around a name and control characters
/// are errors.
fn split_trailer(line: &[u8]) -> io::Result<(&[u8], &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':').ok_or_else(|| broken("a trailer has no colon"))?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    let is_token = !name.is_empty()
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte));
    if !is_token || value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
        return Err(broken("a trailer's name or value cannot stand there"));
    }
    Ok((name, value))
}

/// Decodes the chunked body at the start of `bytes`, feeding the decoder `piece` bytes at a time.
/// Returns the content and the encoded length, or `None` if the body is incomplete.
///
/// # Errors
/// `InvalidData` if the body is malformed.
pub fn decode_chunked(
    dialect: ChunkDialect,
    bytes: &[u8],
    piece: usize,
) -> io::Result<Option<(Vec<u8>, usize)>> {
    let mut chunks = Chunks::new(dialect);
    let (mut buffer, mut content, mut given) = (BytesMut::new(), Vec::new(), 0);
    loop {
        match chunks.next(&mut buffer, |_| Ok(()))? {
            BodyElement::End => return Ok(Some((content, given - buffer.len()))),
            BodyElement::Data(left) if !buffer.is_empty() => {
                let count = to_usize(left).min(buffer.len());
                content.extend_from_slice(&buffer.split_to(count));
                chunks.record_moved(count as u64);
            }
            BodyElement::Data(_) | BodyElement::More => {
                let end = bytes.len().min(given.saturating_add(piece.max(1)));
                if end == given {
                    return Ok(None);
                }
                buffer.extend_from_slice(&bytes[given..end]);
                given = end;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(pieces: &[Vec<u8>]) -> Vec<u8> {
        let mut coded = Vec::new();
        for piece in pieces {
            coded.extend_from_slice(format!("{:x};ext=1\r\n", piece.len()).as_bytes());
            coded.extend_from_slice(piece);
            coded.extend_from_slice(b"\r\n");
        }
        coded.extend_from_slice(b"0\r\nx-amz-checksum-crc32: AAAAAA==\r\n\r\n");
        coded
    }

    #[test]
    fn chunk_sizes_are_hexadecimal_and_nothing_else() {
        assert_eq!(chunk_size(b"1aF").unwrap(), (0x1af, &b""[..]));
        assert_eq!(chunk_size(b"10;chunk-signature=abc").unwrap(), (16, &b"chunk-signature=abc"[..]));
        assert_eq!(chunk_size(b"10 \t;x").unwrap(), (16, &b"x"[..]));
        for bad in [&b""[..], b"0x10", b"+1", b"-1", b"1 2", b" 1", b"1 ", b"1,", b"1;\r", b";1"] {
            assert!(chunk_size(bad).is_err(), "{bad:?}");
        }
        assert!(chunk_size(b"fffffffffffffffff").is_err());
        assert_eq!(chunk_size(b"ffffffffffffffff").unwrap().0, u64::MAX);
    }

    #[test]
    fn after_an_error_every_call_fails() {
        let mut chunks = Chunks::new(ChunkDialect::Http);
        let mut buffer = BytesMut::from(&b"3f\n0\r\n\r\n"[..]);
        assert!(chunks.next(&mut buffer, |_| Ok(())).is_err());
        let mut well_formed = BytesMut::from(&b"0\r\n\r\n"[..]);
        assert!(chunks.next(&mut well_formed, |_| Ok(())).is_err());
    }

    #[test]
    fn only_an_s3_trailer_may_end_in_a_bare_line_feed() {
        let coded = b"1\r\nx\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\n\r\n";
        assert_eq!(decode_chunked(ChunkDialect::Aws, coded, 1).unwrap(), Some((b"x".to_vec(), coded.len())));
        assert!(decode_chunked(ChunkDialect::Http, coded, 1).is_err());
        assert!(decode_chunked(ChunkDialect::Aws, b"1\nx\r\n0\r\n\r\n", 1).is_err());
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded_however_it_is_cut(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..50), 0..6),
            behind in proptest::collection::vec(any::<u8>(), 0..20),
            piece in 1usize..40,
        ) {
            let coded = encode(&pieces);
            let sent = [coded.as_slice(), &behind].concat();
            for dialect in [ChunkDialect::Http, ChunkDialect::Aws] {
                let decoded = decode_chunked(dialect, &sent, piece).unwrap();
                prop_assert_eq!(decoded, Some((pieces.concat(), coded.len())));
                for cut in 0..coded.len() {
                    prop_assert_eq!(decode_chunked(dialect, &coded[..cut], piece).unwrap(), None);
                }
            }
        }

        #[test]
        fn any_bytes_are_judged_alike_however_they_are_cut(
            bytes in proptest::collection::vec(
                prop_oneof![4 => Just(b'\r'), 4 => Just(b'\n'), 4 => Just(b'0'), 2 => Just(b'3'),
                    1 => Just(b';'), 1 => Just(b':'), 1 => Just(b' '), 2 => any::<u8>()],
                0..80,
            ),
            piece in 1usize..20,
        ) {
            for dialect in [ChunkDialect::Http, ChunkDialect::Aws] {
                let whole = decode_chunked(dialect, &bytes, usize::MAX).map_err(|error| error.kind());
                let cut = decode_chunked(dialect, &bytes, piece).map_err(|error| error.kind());
                prop_assert_eq!(&whole, &cut);
                if let Ok(Some((content, length))) = whole {
                    prop_assert!(content.len() < length && length <= bytes.len());
                }
            }
        }
    }
}
