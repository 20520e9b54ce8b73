//! A client that writes requests to a socket and says when the server went away instead of failing.

use firstbyte_testkit::wait_limit;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Makes a request one of S3's.
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

    /// The text of the first XML element `name`.
    pub(crate) fn element(&self, name: &str) -> Option<String> {
        elements(&self.text(), name).into_iter().next()
    }
}

/// The texts of all XML elements `name`, tags without their quotes.
pub(crate) fn elements(text: &str, name: &str) -> Vec<String> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let behind = text.split(&open).skip(1);
    behind
        .filter_map(|rest| Some(rest.split_once(&close)?.0.replace("&quot;", "").replace('"', "")))
        .collect()
}

/// A kept connection, made anew after it broke.
#[derive(Debug)]
pub(crate) struct Client {
    server: SocketAddr,
    stream: Option<TcpStream>,
}

impl Client {
    pub(crate) fn new(server: SocketAddr) -> Self {
        Self { server, stream: None }
    }

    /// One request and its answer; an error says that the connection broke and the outcome is
    /// unknown.
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
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                let stream = TcpStream::connect(self.server)?;
                stream.set_read_timeout(Some(wait_limit()))?;
                stream.set_nodelay(true)?;
                none.insert(stream)
            }
        };
        let length = body.len();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes())?;
        // In two pieces, so that other requests come in between.
        let (first, second) = body.split_at(length / 2);
        stream.write_all(first)?;
        stream.write_all(second)?;
        answer(stream, method == "HEAD")
    }
}

fn answer(stream: &mut TcpStream, bodiless: bool) -> io::Result<Answer> {
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

fn fill(stream: &mut TcpStream, into: &mut Vec<u8>) -> io::Result<()> {
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
