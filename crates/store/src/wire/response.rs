//! Reads the head of a response from a connection, and parses it.

use std::io;
use std::time::Duration;

use firstbyte_location::etag;

use super::connection::HttpConnection;
use crate::error::{EXPECTS_TLS, Error, HOST_ID, REQUEST_IDS, Result, Trace};
use crate::origin::Origin;

/// Maximum length of a response head, in bytes. S3 allows 2 KiB of user metadata, and other servers
/// send several KiB of cookies.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Number of header lines for which there is room on the stack. Few responses have more.
const USUAL_HEADERS: usize = 128;
/// Maximum number of header lines. 2 KiB of user metadata are up to 700 lines. curl reads 5,000.
const MAX_HEADERS: usize = 4096;
/// Maximum number of interim responses (1xx) before the final one.
const MAX_INTERIM: usize = 8;

/// The status line and headers of a response.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    pub(crate) reason: String,
    /// True for HTTP/1.1, false for HTTP/1.0.
    http11: bool,
    /// Time from the start of the request to the arrival of this head.
    pub(super) took: Duration,
    /// The headers: each a name in lower case, and a value.
    headers: Vec<(String, String)>,
}

/// The coding of a body for its transfer (RFC 9112, 6.1).
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TransferCoding {
    /// The bytes are sent as they are.
    None,
    Chunked,
    /// A coding that no request accepts, such as `gzip`. Its bytes are not those of the content.
    Unknown(String),
}

/// The reason why no head was read.
pub(super) enum ResponseHeadError {
    Io(io::Error),
    Malformed(Error),
    /// The server answered a request without TLS by a TLS alert.
    ExpectsTls,
}

/// Returns the parser of responses. It reads lines that HTTP/1.1 forbids and other clients read:
/// folded lines, which a user agent must accept (RFC 9112, 5.2), a blank before the colon, and
/// lines without a colon or with an illegal name, which are left out
/// (<https://github.com/seanmonstar/httparse/issues/37>,
/// <https://github.com/seanmonstar/httparse/issues/107>, as of 28 November 2026).
fn lenient() -> httparse::ParserConfig {
    let mut config = httparse::ParserConfig::default();
    config
        .allow_obsolete_multiline_headers_in_responses(true)
        .allow_spaces_after_header_name_in_responses(true)
        .ignore_invalid_headers_in_responses(true);
    config
}

/// Refuses a head if a line that determines the end of the body was left out.
fn check_framing(head: &[u8], parsed: &[httparse::Header<'_>]) -> std::result::Result<(), String> {
    for name in ["content-length", "transfer-encoding"] {
        let begins = |line: &[u8]| {
            line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()))
        };
        let lines = head.split(|&b| b == b'\n').filter(|line| begins(line)).count();
        let taken = parsed.iter().filter(|line| begins(line.name.as_bytes())).count();
        if lines > taken {
            return Err(format!("not HTTP: a malformed header {name}"));
        }
    }
    Ok(())
}

impl ResponseHeadError {
    /// Returns the error for a request to `origin`.
    pub(super) fn into_error(self, origin: &Origin) -> Error {
        match self {
            Self::Io(error) => Error::unreachable(origin, error.to_string(), error.raw_os_error()),
            Self::Malformed(error) => error,
            Self::ExpectsTls => Error::unreachable(origin, EXPECTS_TLS.to_owned(), None),
        }
    }
}

impl ResponseHead {
    /// Reads the head. Bytes of the body that arrive with the head stay in the connection's buffer.
    pub(super) fn read(
        connection: &mut HttpConnection,
        place: &str,
    ) -> std::result::Result<Self, ResponseHeadError> {
        let protocol = |detail: String| {
            ResponseHeadError::Malformed(Error::Protocol { location: place.to_owned(), detail, trace: None })
        };
        let mut interim = 0;
        loop {
            match Self::parse(connection.ahead()) {
                Ok(Some((head, length))) => {
                    connection.consume(length);
                    if head.status >= 200 || head.status == 101 {
                        return Ok(head);
                    }
                    interim += 1;
                    if interim > MAX_INTERIM {
                        return Err(protocol("too many interim responses".to_owned()));
                    }
                    continue;
                }
                Ok(None) => {}
                // A TLS alert record begins with these two bytes.
                Err(_) if connection.ahead().starts_with(&[0x15, 3]) => {
                    return Err(ResponseHeadError::ExpectsTls);
                }
                Err(detail) => return Err(protocol(detail)),
            }
            if connection.ahead().len() > MAX_HEAD_BYTES {
                return Err(protocol(format!("a head of more than {MAX_HEAD_BYTES} bytes")));
            }
            if connection.read_ahead().map_err(ResponseHeadError::Io)? == 0 {
                let closed = io::Error::new(io::ErrorKind::UnexpectedEof, "closed before the response");
                return Err(ResponseHeadError::Io(closed));
            }
        }
    }

    /// Parses a head. Returns the head and its length, or `None` if more bytes are needed.
    fn parse(bytes: &[u8]) -> std::result::Result<Option<(Self, usize)>, String> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let mut usual = [httparse::EMPTY_HEADER; USUAL_HEADERS];
        let mut many = Vec::new();
        let mut response = httparse::Response::new(&mut usual);
        let mut parsed = lenient().parse_response(&mut response, bytes);
        if parsed == Err(httparse::Error::TooManyHeaders) {
            many.resize(MAX_HEADERS, httparse::EMPTY_HEADER);
            response = httparse::Response::new(&mut many);
            parsed = lenient().parse_response(&mut response, bytes);
        }
        let length = match parsed {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(error) => return Err(format!("not HTTP: {error}")),
        };
        check_framing(&bytes[..length], response.headers)?;
        let text = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            // A folded line is one value (RFC 9112, 5.2).
            let lines: Vec<&str> = text.split(['\r', '\n']).map(str::trim).collect();
            lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
        };
        let headers =
            response.headers.iter().map(|line| (line.name.to_ascii_lowercase(), text(line.value))).collect();
        let head = Self {
            status: response.code.unwrap_or_default(),
            reason: response.reason.unwrap_or_default().to_owned(),
            http11: response.version == Some(1),
            took: Duration::ZERO,
            headers,
        };
        Ok(Some((head, length)))
    }

    /// Returns the value of the first header with this name, which must be in lower case.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the `ETag` as it is written, unless it has no value.
    pub(crate) fn etag(&self) -> Option<String> {
        self.get("etag").and_then(etag::stated).map(ToOwned::to_owned)
    }

    /// Returns the trace of the answered request, for an error.
    pub(crate) fn trace(&self) -> Trace {
        let identifier = |name: &str| self.get(name).and_then(Trace::identifier);
        Trace {
            status: Some(self.status),
            request_id: REQUEST_IDS.into_iter().find_map(identifier),
            host_id: identifier(HOST_ID),
            attempts: 1,
            took: self.took,
        }
    }

    /// Returns all headers, with names in lower case.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the same head with the name and value of each header replaced by the name and value
    /// that `rename` returns. Drops a header for which `rename` returns `None`.
    pub(crate) fn renamed<'a>(
        &'a self,
        rename: impl Fn(&'a str, &'a str) -> Option<(String, String)>,
    ) -> Self {
        let headers = self.headers().filter_map(|(name, value)| rename(name, value)).collect();
        Self { headers, reason: self.reason.clone(), ..*self }
    }

    /// Returns the value of `Content-Length`, if there is one. Two different values are an error.
    pub(crate) fn content_length(&self, place: &str) -> Result<Option<u64>> {
        let mut found = None;
        for (_, value) in self.headers.iter().filter(|(name, _)| name == "content-length") {
            let unusable = || Error::Protocol {
                location: place.to_owned(),
                detail: format!("content-length {value}"),
                trace: None,
            };
            let length: u64 = value
                .bytes()
                .all(|b| b.is_ascii_digit())
                .then(|| value.parse().ok())
                .flatten()
                .ok_or_else(unusable)?;
            if found.is_some_and(|other| other != length) {
                return Err(unusable());
            }
            found = Some(length);
        }
        Ok(found)
    }

    /// Returns the coding of the body for the transfer. A server that repeats the header has
    /// chunked the body once.
    pub(super) fn transfer_coding(&self) -> TransferCoding {
        let lines = self.headers.iter().filter(|(name, _)| name == "transfer-encoding");
        let codings: Vec<&str> = lines
            .flat_map(|(_, value)| value.split(','))
            .map(str::trim)
            .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"))
            .collect();
        match codings.iter().find(|coding| !coding.eq_ignore_ascii_case("chunked")) {
            Some(other) => TransferCoding::Unknown((*other).to_owned()),
            None if codings.is_empty() => TransferCoding::None,
            None => TransferCoding::Chunked,
        }
    }

    /// Returns true for the response by which HAProxy and nginx end a connection without a request
    /// in time (RFC 9110, 15.5.9; <https://github.com/ovh/svfs/issues/127>, as of 28 November
    /// 2026). On a reused connection, the response may have been sent before the request.
    pub(super) fn ends_idle_connection(&self) -> bool {
        self.status == 408 && !self.keeps_alive()
    }

    /// Returns true if the connection can be reused.
    pub(super) fn keeps_alive(&self) -> bool {
        let said = self.get("connection").unwrap_or_default().to_ascii_lowercase();
        if self.http11 { !said.contains("close") } else { said.contains("keep-alive") }
    }

    #[cfg(test)]
    pub(crate) fn from_text(text: &str) -> Self {
        Self::parse(text.as_bytes()).unwrap().unwrap().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_head_parses_with_names_in_lower_case_and_its_exact_length() {
        let text = b"HTTP/1.1 206 Partial Content\r\nETag: \"x\"\r\nContent-Length: 3\r\n\r\nabc";
        let (head, length) = ResponseHead::parse(text).unwrap().unwrap();
        assert_eq!((head.status, length), (206, text.len() - 3));
        assert_eq!(head.get("etag"), Some("\"x\""));
        assert_eq!(head.content_length("p").unwrap(), Some(3));
        assert!(head.keeps_alive());
    }

    #[test]
    fn lines_that_other_clients_read_are_read_or_left_out() {
        let head =
            |lines: &str| ResponseHead::parse(format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n").as_bytes());
        let get = |lines: &str, name: &str| head(lines).unwrap().unwrap().0.get(name).map(ToOwned::to_owned);
        assert_eq!(get("X-Long: one\r\n two\r\nETag: \"e\"", "x-long").as_deref(), Some("one two"));
        assert_eq!(get("Content-Length:\r\n 7", "content-length").as_deref(), Some("7"));
        assert_eq!(get("ETag : \"e\"", "etag").as_deref(), Some("\"e\""));
        for odd in ["no colon here", "a name: x", "(x): y"] {
            assert_eq!(get(&format!("{odd}\r\nETag: \"e\""), "etag").as_deref(), Some("\"e\""), "{odd}");
        }
        for odd in ["Content-Length 7", "Transfer-Encoding@: chunked", "content-length(): 7"] {
            assert!(head(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_head_has_thousands_of_lines_at_most() {
        let with = |count: usize| {
            let lines: String = (0..count).map(|at| format!("x-amz-meta-{at}: v\r\n")).collect();
            ResponseHead::parse(format!("HTTP/1.1 200 OK\r\n{lines}etag: \"e\"\r\n\r\n").as_bytes())
        };
        for count in [0, USUAL_HEADERS, USUAL_HEADERS * 5, MAX_HEADERS - 1] {
            assert_eq!(with(count).unwrap().unwrap().0.get("etag"), Some("\"e\""), "{count}");
        }
        assert!(with(MAX_HEADERS).unwrap_err().contains("not HTTP"));
    }

    #[test]
    fn only_chunks_are_decoded() {
        let of = |lines: &str| {
            ResponseHead::from_text(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n")).transfer_coding()
        };
        for lines in ["", "Transfer-Encoding: identity\r\n", "Transfer-Encoding:\r\n"] {
            assert_eq!(of(lines), TransferCoding::None, "{lines}");
        }
        let twice = "Transfer-Encoding: chunked\r\nTransfer-Encoding: Chunked\r\n";
        for lines in ["Transfer-Encoding: chunked\r\n", "Transfer-Encoding: identity, Chunked\r\n", twice] {
            assert_eq!(of(lines), TransferCoding::Chunked, "{lines}");
        }
        for (lines, coding) in [
            ("Transfer-Encoding: gzip, chunked\r\n", "gzip"),
            ("Transfer-Encoding: deflate\r\n", "deflate"),
            ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", "gzip"),
        ] {
            assert_eq!(of(lines), TransferCoding::Unknown(coding.to_owned()), "{lines}");
        }
    }

    #[test]
    fn differing_or_malformed_lengths_are_refused() {
        let with = |lines: &str| ResponseHead::from_text(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n"));
        assert!(with("Content-Length: 3\r\nContent-Length: 4\r\n").content_length("p").is_err());
        assert!(with("Content-Length: +3\r\n").content_length("p").is_err());
        assert!(with("Content-Length: 99999999999999999999\r\n").content_length("p").is_err());
        assert_eq!(with("").content_length("p").unwrap(), None);
    }

    #[test]
    fn http_1_0_connections_close_unless_kept_alive() {
        assert!(!ResponseHead::from_text("HTTP/1.0 200 OK\r\n\r\n").keeps_alive());
        assert!(ResponseHead::from_text("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n\r\n").keeps_alive());
        assert!(!ResponseHead::from_text("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").keeps_alive());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = ResponseHead::parse(&bytes);
            let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
            head.extend(bytes);
            let _ = ResponseHead::parse(&head);
        }
    }
}
