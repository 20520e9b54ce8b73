//! Parses the head of a request, by httparse and within bounds, and determines the framing of its
//! body.
//!
//! A head that two implementations could read differently (both lengths, two lengths, unusual
//! transfer codings) is refused: an attacker could use it to smuggle a request past a proxy.

use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

/// Maximum length of a head, in bytes. S3 allows keys of 1,024 bytes, each byte percent-encoded,
/// and 8 KiB of metadata.
pub(crate) const MAX_HEAD_BYTES: usize = 64 << 10;

/// Maximum number of headers.
const MAX_HEADERS: usize = 100;

/// A parsed request head.
#[derive(Debug)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The path as sent, percent-encoded. It starts with `/` or is `*`.
    pub path: String,
    /// The text after `?`, or empty.
    pub query: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The framing of the body.
    pub framing: Framing,
    /// The fate of the connection after this request.
    pub persistence: Persistence,
    /// True if the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// The minor version: 1 for HTTP/1.1, which allows chunked answers, or 0 for 1.0.
    pub minor_version: u8,
    /// The length of the head in bytes.
    pub length: usize,
}

/// How a request body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Content of this many bytes; 0 for no body.
    Length(u64),
    /// Chunks, the last of which is empty.
    Chunked,
}

/// The fate of a connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// The connection may carry another request.
    KeepAlive,
    /// The connection ends after this request.
    Close,
}

/// The reason for which a head is refused. The connection ends after the response.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestHeadError {
    /// Not HTTP/1.x, or ambiguous.
    #[error("bad request: {0}")]
    Malformed(&'static str),
    /// Longer than 64 KiB, or more than 100 headers.
    #[error("the request head is longer than 64 KiB or has more than 100 headers")]
    TooLarge,
    /// A transfer coding other than `chunked`.
    #[error("only the transfer coding `chunked` is understood")]
    UnknownCoding,
}

impl RequestHeadError {
    /// Returns the status of the response.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::UnknownCoding => StatusCode::NOT_IMPLEMENTED,
        }
    }
}

/// Parses the head at the start of `bytes`. `None` if more bytes are needed.
///
/// # Errors
/// The head is malformed, too large, or uses an unknown transfer coding.
pub fn parse_head(bytes: &[u8]) -> Result<Option<RequestHead>, RequestHeadError> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let length = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() >= MAX_HEAD_BYTES => {
            return Err(RequestHeadError::TooLarge);
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(RequestHeadError::TooLarge),
        Err(_) => return Err(RequestHeadError::Malformed("this is not HTTP/1.x")),
    };
    if length > MAX_HEAD_BYTES {
        return Err(RequestHeadError::TooLarge);
    }
    if has_bare_line_feed(&bytes[..length]) {
        return Err(RequestHeadError::Malformed("a line ends without a carriage return"));
    }
    let minor_version = parsed.version.unwrap_or(1);
    let method = Method::from_bytes(parsed.method.unwrap_or_default().as_bytes())
        .map_err(|_| RequestHeadError::Malformed("the method"))?;
    let Target { authority, path, query } = Target::parse(parsed.path.unwrap_or_default())?;
    let mut map = HeaderMap::with_capacity(parsed.headers.len());
    for header in parsed.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes())
            .map_err(|_| RequestHeadError::Malformed("a header's name"))?;
        let value = HeaderValue::from_bytes(header.value)
            .map_err(|_| RequestHeadError::Malformed("a header's value"))?;
        map.append(name, value);
    }
    if map.get_all(HOST).iter().count() > 1 || (minor_version == 1 && !map.contains_key(HOST)) {
        return Err(RequestHeadError::Malformed("there must be exactly one Host header"));
    }
    if let Some(authority) = authority {
        // RFC 9112, section 3.2.2: the target's host replaces the header `Host`.
        map.insert(HOST, authority);
    }
    let framing = framing(&map, minor_version)?;
    let persistence = persistence(&map, minor_version);
    let expects_continue = minor_version == 1
        && map.get(EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
        && framing != Framing::Length(0);
    Ok(Some(RequestHead {
        method,
        path,
        query,
        headers: map,
        framing,
        persistence,
        expects_continue,
        minor_version,
        length,
    }))
}

/// True if a line of the head ends in a bare line feed. httparse accepts that; a proxy may not.
fn has_bare_line_feed(head: &[u8]) -> bool {
    let mut before = 0;
    head.iter().any(|byte| std::mem::replace(&mut before, *byte) != b'\r' && *byte == b'\n')
}

/// The parts of a request target.
struct Target {
    /// The host of the absolute form, which is meant for proxies.
    authority: Option<HeaderValue>,
    path: String,
    query: String,
}

impl Target {
    fn parse(text: &str) -> Result<Self, RequestHeadError> {
        let absolute = text.split_once("://").filter(|(scheme, _)| {
            scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
        });
        let (authority, target) = match absolute {
            Some((_, rest)) => {
                let (authority, target) =
                    rest.find(['/', '?', '#']).map_or((rest, ""), |at| rest.split_at(at));
                let authority = HeaderValue::from_str(authority).ok().filter(|_| !authority.contains('@'));
                (Some(authority.ok_or(RequestHeadError::Malformed("the target's host"))?), target)
            }
            None => (None, text),
        };
        let is_empty = absolute.is_some() && !target.starts_with('/');
        if !target.starts_with('/') && target != "*" && !is_empty {
            return Err(RequestHeadError::Malformed("the target must start with `/`"));
        }
        let target = target.split('#').next().unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = if is_empty { "/" } else { path };
        Ok(Self { authority, path: path.to_owned(), query: query.to_owned() })
    }
}

fn framing(headers: &HeaderMap, minor_version: u8) -> Result<Framing, RequestHeadError> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let length = lengths.next();
    if lengths.next().is_some() {
        return Err(RequestHeadError::Malformed("more than one Content-Length"));
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        if length.is_some() || codings.next().is_some() || minor_version == 0 {
            return Err(RequestHeadError::Malformed("the body's length is ambiguous"));
        }
        let chunked = coding.as_bytes().eq_ignore_ascii_case(b"chunked");
        return if chunked { Ok(Framing::Chunked) } else { Err(RequestHeadError::UnknownCoding) };
    }
    let Some(length) = length else { return Ok(Framing::Length(0)) };
    let digits =
        length.to_str().ok().filter(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()));
    let length = digits.and_then(|text| text.parse().ok());
    length.map(Framing::Length).ok_or(RequestHeadError::Malformed("Content-Length must be a number"))
}

fn persistence(headers: &HeaderMap, minor_version: u8) -> Persistence {
    let has = |token: &str| {
        let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|item| item.trim().eq_ignore_ascii_case(token))
    };
    if has("close") || (minor_version == 0 && !has("keep-alive")) {
        Persistence::Close
    } else {
        Persistence::KeepAlive
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head(text: &str) -> Result<Option<RequestHead>, RequestHeadError> {
        parse_head(text.as_bytes())
    }

    #[test]
    fn a_head_is_read_once_it_is_whole() {
        let text = "GET /a%20b?x=1 HTTP/1.1\r\nHost: h\r\n\r\n";
        assert!(head(&text[..text.len() - 1]).unwrap().is_none());
        let head = head(text).unwrap().unwrap();
        assert_eq!((head.path.as_str(), head.query.as_str()), ("/a%20b", "x=1"));
        assert_eq!(head.length, text.len());
        assert_eq!(head.framing, Framing::Length(0));
        assert_eq!(head.persistence, Persistence::KeepAlive);
    }

    #[test]
    fn ambiguous_bodies_are_refused() {
        for lines in [
            "Content-Length: 1\r\nContent-Length: 2",
            "Content-Length: 1\r\nTransfer-Encoding: chunked",
            "Content-Length: +1",
            "Content-Length: 1, 1",
            "Content-Length: 99999999999999999999",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
            "Host: second",
            "A: b\nContent-Length: 1",
            "A: b\r\n folded",
            "A : b",
            "A: b\rc",
        ] {
            let text = format!("PUT / HTTP/1.1\r\nHost: h\r\n{lines}\r\n\r\n");
            assert!(matches!(head(&text), Err(RequestHeadError::Malformed(_))), "{lines}");
        }
        let text = "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n";
        assert_eq!(head(text).unwrap_err(), RequestHeadError::UnknownCoding);
    }

    #[test]
    fn heads_beyond_the_bounds_are_refused() {
        let many = format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "A: b\r\n".repeat(101));
        assert_eq!(head(&many).unwrap_err(), RequestHeadError::TooLarge);
        let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(MAX_HEAD_BYTES));
        assert_eq!(head(&long).unwrap_err(), RequestHeadError::TooLarge);
    }

    #[test]
    fn old_clients_close_unless_they_ask_otherwise() {
        let old = head("GET / HTTP/1.0\r\n\r\n").unwrap().unwrap();
        assert_eq!(old.persistence, Persistence::Close);
        let kept = head("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").unwrap().unwrap();
        assert_eq!(kept.persistence, Persistence::KeepAlive);
        let absolute =
            head("GET http://h:1/p?q HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n").unwrap().unwrap();
        assert_eq!((absolute.path.as_str(), absolute.query.as_str()), ("/p", "q"));
        assert_eq!(absolute.persistence, Persistence::Close);
    }

    #[test]
    fn the_host_of_an_absolute_target_counts_whatever_the_header_says() {
        for (target, path, query) in
            [("http://a:1/p?q", "/p", "q"), ("HTTP://a:1", "/", ""), ("https://a:1?q", "/", "q")]
        {
            let head = head(&format!("GET {target} HTTP/1.1\r\nHost: b\r\n\r\n")).unwrap().unwrap();
            assert_eq!((head.path.as_str(), head.query.as_str()), (path, query), "{target}");
            assert_eq!(head.headers[HOST], "a:1", "{target}");
        }
        assert!(head("GET http://user@a/ HTTP/1.1\r\nHost: b\r\n\r\n").is_err());
        assert!(head("GET ftp://a/ HTTP/1.1\r\nHost: b\r\n\r\n").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
            let _ = parse_head(&bytes);
        }

        #[test]
        fn a_prefix_of_a_good_head_is_never_refused(path in "/[a-z0-9%/]{0,60}", cut in 0usize..200) {
            let text = format!("GET {path} HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1\r\n\r\n");
            let cut = cut.min(text.len());
            prop_assert!(parse_head(&text.as_bytes()[..cut]).is_ok());
        }
    }
}
