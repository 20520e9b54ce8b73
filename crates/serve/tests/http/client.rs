//! Starts a server over its own directory, and provides a client that writes raw requests and reads
//! raw responses.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use firstbyte_serve::{Config, RunningServer, Server, WritePolicy};
use firstbyte_testkit::wait_limit;

/// Header that marks a request as S3's.
pub(crate) const S3: &str = "x-amz-date: 20260101T000000Z\r\n";

pub(crate) struct Fixture {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) server: RunningServer,
}

pub(crate) fn serve(configure: impl FnOnce(&mut Config)) -> Fixture {
    serve_in(tempfile::tempdir().unwrap(), configure)
}

/// Starts a server over `directory`, which must be empty.
pub(crate) fn serve_in(directory: tempfile::TempDir, configure: impl FnOnce(&mut Config)) -> Fixture {
    std::fs::create_dir(directory.path().join("bucket")).unwrap();
    let mut config = Config::new(directory.path());
    config.writing = WritePolicy::Allowed;
    // Most tests need small parts.
    config.limits.smallest_part = 1;
    configure(&mut config);
    let server = Server::start(config).unwrap();
    Fixture { directory, server }
}

/// Makes pseudo-random bytes by a multiplicative generator, so that a wrong offset is detected.
pub(crate) fn content(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

pub(crate) struct Client<S = TcpStream> {
    pub(crate) stream: S,
    pub(crate) buffer: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

pub(crate) fn connect(server: &RunningServer) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(wait_limit())).unwrap();
    stream
}

impl Client {
    pub(crate) fn new(server: &RunningServer) -> Self {
        Self::over(connect(server))
    }

    /// True if the server has closed the connection. Does not wait.
    pub(crate) fn is_closed(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let next = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        next.map_or_else(|error| error.kind() != ErrorKind::WouldBlock, |bytes| bytes == 0)
    }
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub(crate) fn ask(&mut self, method: &str, target: &str, headers: &str, body: &[u8]) -> Answer {
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        self.send(
            format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{length}{headers}\r\n").as_bytes(),
        );
        self.send(body);
        self.answer(method == "HEAD")
    }

    pub(crate) fn fill(&mut self) -> usize {
        let mut piece = [0; 65536];
        let count = self.stream.read(&mut piece).unwrap();
        self.buffer.extend_from_slice(&piece[..count]);
        count
    }

    pub(crate) fn take(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count {
            assert_ne!(self.fill(), 0, "the connection ended early");
        }
        self.buffer.drain(..count).collect()
    }

    pub(crate) fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.take(end + 2);
                return String::from_utf8(line[..end].to_vec()).unwrap();
            }
            assert_ne!(self.fill(), 0, "the connection ended early");
        }
    }

    pub(crate) fn answer(&mut self, bodiless: bool) -> Answer {
        let status = self.line();
        let mut head = String::new();
        loop {
            match self.line() {
                line if line.is_empty() => break,
                line => head.push_str(&(line + "\n")),
            }
        }
        let status: u16 = status.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer { status, head, body: Vec::new() };
        if bodiless || status == 304 || status == 204 || status == 100 {
            return answer;
        }
        if answer.header("transfer-encoding").is_some() {
            loop {
                let size = usize::from_str_radix(&self.line(), 16).unwrap();
                answer.body.extend(self.take(size));
                self.line();
                if size == 0 {
                    return answer;
                }
            }
        }
        answer.body = self.take(answer.header("content-length").unwrap().parse().unwrap());
        answer
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.buffer.is_empty() && self.fill() == 0
    }
}

pub(crate) fn metric(client: &mut Client, name: &str) -> u64 {
    let text = client.ask("GET", "/.firstbyte/metrics", "", b"").text();
    let line = text.lines().find(|line| line.starts_with(&format!("firstbyte_{name} "))).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Returns the text of the first XML element `name` in an answer.
pub(crate) fn element(answer: &Answer, name: &str) -> Option<String> {
    let text = answer.text();
    let (_, behind) = text.split_once(&format!("<{name}>"))?;
    Some(behind.split_once('<')?.0.to_owned())
}
