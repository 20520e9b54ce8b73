//! Implements a client that writes raw requests, and reports the loss of the server as an error.

use std::io::{self, Read, Write};

use firstbyte_testkit::wait_limit;
use sha2::{Digest as _, Sha256};

use crate::server::Server;
use crate::signing::{KEY, SECRET, Signed};

/// A connection to the server.
pub(crate) trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// A header that marks a request as S3's.
pub(crate) const S3: &str = "x-amz-date: 20260101T000000Z\r\n";

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn etag(&self) -> String {
        self.header("etag").unwrap_or_default().trim_matches('"').to_owned()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the text of the first XML element `name`.
    pub(crate) fn element(&self, name: &str) -> Option<String> {
        elements(&self.text(), name).into_iter().next()
    }
}

/// Returns the texts of all XML elements `name`. Quotes, which entity tags have, are removed.
pub(crate) fn elements(text: &str, name: &str) -> Vec<String> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let behind = text.split(&open).skip(1);
    behind
        .filter_map(|rest| Some(rest.split_once(&close)?.0.replace("&quot;", "").replace('"', "")))
        .collect()
}

/// A client with one kept-alive connection, which is replaced when it breaks.
pub(crate) struct Client<'a> {
    server: &'a Server,
    stream: Option<Box<dyn Stream>>,
    /// Number of requests sent so far, which selects the coding of the next body.
    sent: usize,
}

impl<'a> Client<'a> {
    pub(crate) fn new(server: &'a Server) -> Self {
        Self { server, stream: None, sent: 0 }
    }

    /// Sends one request and returns its response. An error means that the connection broke and the
    /// outcome is unknown.
    pub(crate) fn ask(
        &mut self,
        method: &str,
        target: &str,
        headers: &str,
        body: &[u8],
    ) -> io::Result<Answer> {
        let done = self.exchange(method, target, headers, body);
        if done.is_err() {
            self.stream = None;
        }
        done
    }

    fn exchange(&mut self, method: &str, target: &str, headers: &str, body: &[u8]) -> io::Result<Answer> {
        self.sent += 1;
        let message = match &self.server.security {
            None => Message { target: target.to_owned(), lines: headers.to_owned(), body: body.to_vec() },
            Some(_) => Message::by_key(method, target, headers, body, self.sent),
        };
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => none.insert(self.server.connect()?),
        };
        let Message { target, lines, body } = message;
        let length = body.len();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{lines}\r\n"
        );
        stream.write_all(head.as_bytes())?;
        // The body is sent in two pieces, so that requests of other clients can arrive in between.
        let (first, second) = body.split_at(length / 2);
        stream.write_all(first)?;
        stream.write_all(second)?;
        stream.flush()?;
        answer(&mut **stream, method == "HEAD")
    }
}

/// The parts of a request on the wire.
struct Message {
    target: String,
    lines: String,
    body: Vec<u8>,
}

impl Message {
    /// Signs an S3 request. With `turn`, the body of a PUT alternates between signed chunks, a
    /// payload that is not signed, and a payload whose hash is signed. A request that is not S3's
    /// sends the key by HTTP Basic.
    fn by_key(method: &str, target: &str, headers: &str, body: &[u8], turn: usize) -> Self {
        let Some(rest) = headers.strip_prefix(S3) else {
            use base64::Engine as _;
            let pair = base64::prelude::BASE64_STANDARD.encode(format!("{KEY}:{SECRET}"));
            let lines = format!("{headers}Authorization: Basic {pair}\r\n");
            return Self { target: target.to_owned(), lines, body: body.to_vec() };
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let query: Vec<(&str, &str)> = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
        let signed = Signed { query: &query, ..Signed::new(method, path) };
        if turn.is_multiple_of(3) && method == "PUT" && body.len() > 2 {
            let length = body.len().to_string();
            let headers = [("host", "localhost"), ("x-amz-decoded-content-length", length.as_str())];
            let signed = Signed { headers: &headers, ..signed };
            let (target, lines, mut chain) = signed.with_payload("STREAMING-AWS4-HMAC-SHA256-PAYLOAD");
            let (first, second) = body.split_at(body.len() / 3);
            let pieces = [first, second, b""];
            let body: Vec<u8> = pieces.iter().flat_map(|piece| chain.chunk(piece)).collect();
            let lines = format!("{lines}Content-Encoding: aws-chunked\r\n{rest}");
            return Self { target, lines, body: [&body[..], b"\r\n"].concat() };
        }
        let hash = hex::encode(Sha256::digest(body));
        let payload = if turn % 3 == 1 { "UNSIGNED-PAYLOAD" } else { hash.as_str() };
        let (target, lines, _) = signed.with_payload(payload);
        Self { target, lines: format!("{lines}{rest}"), body: body.to_vec() }
    }
}

fn answer(stream: &mut dyn Stream, bodiless: bool) -> io::Result<Answer> {
    let mut got = Vec::new();
    let end = loop {
        if let Some(end) = got.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        fill(stream, &mut got)?;
    };
    let head = String::from_utf8_lossy(&got[..end]).into_owned();
    let status =
        head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    let mut answer = Answer { status, head, body: got.split_off(end + 4) };
    if bodiless || status == 204 || status == 304 {
        return Ok(answer);
    }
    if answer.header("transfer-encoding").is_some() {
        while !answer.body.ends_with(b"0\r\n\r\n") {
            fill(stream, &mut answer.body)?;
        }
        return Ok(answer);
    }
    let length = answer.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    while answer.body.len() < length {
        fill(stream, &mut answer.body)?;
    }
    Ok(answer)
}

fn fill(stream: &mut dyn Stream, into: &mut Vec<u8>) -> io::Result<()> {
    let mut piece = [0; 16 << 10];
    match stream.read(&mut piece) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(count) => {
            into.extend_from_slice(&piece[..count]);
            Ok(())
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            panic!("no answer for {:?}", wait_limit())
        }
        Err(error) => Err(error),
    }
}
