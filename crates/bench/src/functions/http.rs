//! HTTP/1.1 for the two APIs of the host: requests with small bodies, responses in one piece.
//!
//! Connections are kept alive, each with its own thread. httparse parses the heads. The server
//! listens only on loopback, and refuses a request that a web page could have sent. Called by the
//! Runtime API and the Invoke API.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Longest head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Longest body of a request, in bytes. The APIs themselves allow less.
const MAX_BODY_BYTES: u64 = 32 << 20;
/// Largest number of headers of a request.
const MAX_HEADERS: usize = 100;
/// Interval at which a listener checks whether to stop, in nanoseconds.
const STOP_CHECK_NANOSECONDS: i64 = 50_000_000;

/// A request to one of the two APIs.
#[derive(Debug, Default)]
pub(super) struct ApiRequest {
    pub(super) method: String,
    /// The path without its query.
    pub(super) path: String,
    /// Headers, with their names in lower case.
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl ApiRequest {
    /// Returns the value of a header; `name` is in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A response of one of the two APIs.
#[derive(Debug)]
pub(super) struct ApiAnswer {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
}

impl ApiAnswer {
    /// Makes a response with a JSON body.
    pub(super) fn json(status: u16, body: &serde_json::Value) -> Self {
        Self { status, headers: Vec::new(), body: body.to_string().into_bytes() }
    }
}

/// Function that answers a request.
pub(super) type Handler = Arc<dyn Fn(ApiRequest) -> ApiAnswer + Send + Sync>;

/// Starts a thread that accepts connections on `listener` until `stop` is true. Each connection is
/// answered in a thread of its own, which does not look at `stop`.
pub(super) fn serve(listener: TcpListener, stop: Arc<AtomicBool>, handler: Handler) -> io::Result<()> {
    let accept = move || {
        while !stop.load(Ordering::Relaxed) {
            let mut ready = [PollFd::new(&listener, PollFlags::IN)];
            let wait = Timespec { tv_sec: 0, tv_nsec: STOP_CHECK_NANOSECONDS };
            if !matches!(poll(&mut ready, Some(&wait)), Ok(1..)) {
                continue;
            }
            let Ok((socket, _)) = listener.accept() else { continue };
            let handler = Arc::clone(&handler);
            // If no thread can be started, the connection closes.
            let _ = thread::Builder::new()
                .name("connection".into())
                .spawn(move || serve_connection(socket, &handler));
        }
    };
    thread::Builder::new().name("listener".into()).spawn(accept).map(drop)
}

/// Answers the requests of one connection.
fn serve_connection(socket: TcpStream, handler: &Handler) {
    let _ = socket.set_nodelay(true);
    let mut connection = Connection(BufReader::new(socket));
    loop {
        let answer = match connection.request() {
            Ok(Some(request)) if request.header("origin").is_some() || !is_local(&request) => {
                ApiAnswer::json(403, &serde_json::json!({ "message": "requests of web pages are refused" }))
            }
            Ok(Some(request)) => handler(request),
            Ok(None) => return,
            Err(error) => {
                let answer = ApiAnswer::json(400, &serde_json::json!({ "message": error.to_string() }));
                let _ = connection.send(&answer, "close");
                return;
            }
        };
        if connection.send(&answer, "keep-alive").is_err() {
            return;
        }
    }
}

/// True if the `Host` of a request is this machine. A web page can point only its own name at this
/// address.
fn is_local(request: &ApiRequest) -> bool {
    let host = request.header("host").unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    ["localhost", "[::1]"].contains(&name) || name.starts_with("127.")
}

struct Connection(BufReader<TcpStream>);

impl Connection {
    /// Reads the next request; `None` at the end of the connection.
    fn request(&mut self) -> io::Result<Option<ApiRequest>> {
        if self.0.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.append(&mut self.line(MAX_HEAD_BYTES - head.len())?);
        }
        let mut request = parse_head(&head)?;
        if request.header("expect").is_some_and(|expect| expect.eq_ignore_ascii_case("100-continue")) {
            self.0.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        request.body = match (request.header("transfer-encoding"), request.header("content-length")) {
            (Some(coding), None) if coding.eq_ignore_ascii_case("chunked") => self.chunks()?,
            (None, Some(length)) => {
                self.bytes(length.parse().map_err(|_| malformed_error("content-length is no number"))?)?
            }
            (None, None) => Vec::new(),
            _ => return Err(malformed_error("transfer-encoding and content-length")),
        };
        Ok(Some(request))
    }

    /// Reads the next line with its end, at most `most` bytes.
    fn line(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.0.by_ref().take(most as u64).read_until(b'\n', &mut line)?;
        if line.last() == Some(&b'\n') {
            Ok(line)
        } else {
            Err(malformed_error("an incomplete or too long head"))
        }
    }

    /// Reads the next `length` bytes.
    fn bytes(&mut self, length: u64) -> io::Result<Vec<u8>> {
        if length > MAX_BODY_BYTES {
            return Err(malformed_error("the body is too long"));
        }
        let mut bytes = Vec::new();
        self.0.by_ref().take(length).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == length { Ok(bytes) } else { Err(malformed_error("an incomplete body")) }
    }

    /// Reads a chunked body and skips its trailers.
    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line(MAX_HEAD_BYTES)?;
            let Ok(httparse::Status::Complete((_, size))) = httparse::parse_chunk_size(&line) else {
                return Err(malformed_error("a chunk without its size"));
            };
            if size == 0 {
                break;
            }
            body.append(&mut self.bytes(size.min(MAX_BODY_BYTES + 1))?);
            self.bytes(2)?;
            if body.len() as u64 > MAX_BODY_BYTES {
                return Err(malformed_error("the body is too long"));
            }
        }
        while self.line(MAX_HEAD_BYTES)? != b"\r\n" {}
        Ok(body)
    }

    fn send(&mut self, answer: &ApiAnswer, connection: &str) -> io::Result<()> {
        let mut text = format!("HTTP/1.1 {} {}\r\n", answer.status, reason(answer.status));
        text += &format!("content-length: {}\r\nconnection: {connection}\r\n", answer.body.len());
        if !answer.headers.iter().any(|(name, _)| *name == "content-type") {
            text += "content-type: application/json\r\n";
        }
        for (name, value) in &answer.headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += "\r\n";
        self.0.get_mut().write_all(&[text.as_bytes(), &answer.body].concat())
    }
}

/// Parses the head of a request.
fn parse_head(head: &[u8]) -> io::Result<ApiRequest> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    parsed.parse(head).map_err(|error| malformed_error(&error.to_string()))?;
    let target = parsed.path.unwrap_or_default();
    let owned = |header: &httparse::Header<'_>| {
        (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).into_owned())
    };
    Ok(ApiRequest {
        method: parsed.method.unwrap_or_default().to_owned(),
        path: target.split('?').next().unwrap_or_default().to_owned(),
        headers: parsed.headers.iter().map(owned).collect(),
        body: Vec::new(),
    })
}

fn malformed_error(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        202 => "Accepted",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        _ => "Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(sent: &[u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let echo = |request: ApiRequest| ApiAnswer {
            status: 200,
            headers: vec![("x-path", request.path)],
            body: request.body,
        };
        serve(listener, Arc::clone(&stop), Arc::new(echo)).unwrap();
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(sent).unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        stop.store(true, Ordering::Relaxed);
        answer
    }

    #[test]
    fn bodies_of_both_framings_are_read_on_one_connection() {
        let answer = exchange(
            b"POST /a?b HTTP/1.1\r\nHost: 127.0.0.1:1\r\nContent-Length: 3\r\n\r\noneGET /c HTTP/1.1\r\nhost: localhost\r\n\
            Transfer-Encoding: chunked\r\n\r\n2\r\ntw\r\n1\r\no\r\n0\r\nTrailer: 1\r\n\r\n",
        );
        let found: Vec<&str> = answer.split("HTTP/1.1 200 OK\r\n").skip(1).collect();
        assert_eq!(found.len(), 2, "{answer}");
        assert!(found[0].contains("x-path: /a\r\n") && found[0].ends_with("\r\n\r\none"), "{answer}");
        assert!(found[1].contains("x-path: /c\r\n") && found[1].ends_with("\r\n\r\ntwo"), "{answer}");
    }

    #[test]
    fn malformed_requests_and_requests_of_web_pages_are_refused() {
        for (sent, status) in [
            ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n", "403"),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", "400"),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nshort", "400"),
            ("nonsense\r\n\r\n", "400"),
        ] {
            let answer = exchange(sent.as_bytes());
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{sent:?}: {answer}");
        }
    }
}
