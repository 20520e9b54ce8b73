//! Implements an HTTP server whose responses a test scripts. Real servers cannot be configured to
//! misbehave like this.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix_futex_sync::Mutex;

/// Reaction to one request.
#[derive(Clone, Debug)]
pub enum ScriptedReply {
    /// Sends these bytes, head and body, and keeps the connection open.
    Send(Vec<u8>),
    /// Sends these bytes and closes the connection. If the head states a greater length, this
    /// truncates the body.
    SendAndClose(Vec<u8>),
    /// Sends these bytes in pieces, with a pause after each.
    Trickle {
        /// All bytes to send.
        bytes: Vec<u8>,
        /// Number of bytes in each piece.
        step: usize,
        /// The pause after each piece.
        pause: Duration,
    },
    /// Sends nothing and keeps the connection open.
    Silence,
    /// Closes the connection without a response.
    Close,
}

impl ScriptedReply {
    /// Makes a response from `status` (such as `206 Partial Content`), header lines and body. Adds
    /// the correct `Content-Length`.
    #[must_use]
    pub fn answer(status: &str, headers: &[&str], body: &[u8]) -> Self {
        let length = format!("content-length: {}", body.len());
        Self::raw(status, &[headers, &[length.as_str()]].concat(), body)
    }

    /// Works like [`answer`](Self::answer), but adds no header, so that `Content-Length` may be
    /// wrong.
    #[must_use]
    pub fn raw(status: &str, headers: &[&str], body: &[u8]) -> Self {
        let mut bytes = format!("HTTP/1.1 {status}\r\n").into_bytes();
        for header in headers {
            bytes.extend_from_slice(header.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(body);
        Self::Send(bytes)
    }

    /// Adds a header line after the status line.
    pub(crate) fn with_header(self, line: &str) -> Self {
        let add = |mut bytes: Vec<u8>| {
            if let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") {
                bytes.splice(end + 2..end + 2, format!("{line}\r\n").into_bytes());
            }
            bytes
        };
        match self {
            Self::Send(bytes) => Self::Send(add(bytes)),
            Self::SendAndClose(bytes) => Self::SendAndClose(add(bytes)),
            Self::Trickle { bytes, step, pause } => {
                // The bytes grow, so `step` grows too, to keep the number of pieces.
                let (pieces, bytes) = (bytes.len().div_ceil(step.max(1)), add(bytes));
                let step = bytes.len().div_ceil(pieces.max(1));
                Self::Trickle { bytes, step, pause }
            }
            other => other,
        }
    }

    /// Closes the connection after sending the same bytes.
    #[must_use]
    pub fn then_close(self) -> Self {
        match self {
            Self::Send(bytes) => Self::SendAndClose(bytes),
            other => other,
        }
    }
}

/// A request that the server has received.
#[derive(Clone, Debug)]
pub struct Received {
    /// The request line and the header lines.
    pub head: String,
    /// The body. Of a recorded request, only the first 64 KiB.
    pub body: Vec<u8>,
}

/// Maximum number of bytes of a body that are recorded.
const MAX_RECORDED_BODY_BYTES: u64 = 64 << 10;

/// A script that gets the number and the head of each request.
type HeadScript = dyn Fn(usize, &str) -> ScriptedReply + Send + Sync;

/// Decides how the server reacts to a request.
enum Script {
    /// Gets the number and the head of a request. Requests are recorded.
    Heads(Box<HeadScript>),
    /// Gets a request with its whole body. Requests are not recorded.
    Bodies(Box<dyn Fn(&Received) -> ScriptedReply + Send + Sync>),
}

/// A server whose script decides the reaction to each request.
pub struct Scripted {
    url: String,
    state: Arc<ScriptState>,
}

struct ScriptState {
    script: Script,
    listener: TcpListener,
    /// Requests in order of arrival.
    requests: Mutex<Vec<Received>>,
    count: AtomicUsize,
    open: Mutex<Option<Vec<TcpStream>>>,
}

impl Scripted {
    /// Starts a server. `script` gets a request's number, from 0, and its head.
    ///
    /// # Panics
    /// There is no port to listen on.
    #[must_use]
    pub fn start(script: impl Fn(usize, &str) -> ScriptedReply + Send + Sync + 'static) -> Self {
        Self::with(Script::Heads(Box::new(script)))
    }

    /// Starts a server whose script gets whole requests, which are not recorded.
    pub(crate) fn start_with_bodies(
        script: impl Fn(&Received) -> ScriptedReply + Send + Sync + 'static,
    ) -> Self {
        Self::with(Script::Bodies(Box::new(script)))
    }

    fn with(script: Script) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let state = Arc::new(ScriptState {
            script,
            listener,
            requests: Mutex::default(),
            count: AtomicUsize::new(0),
            open: Mutex::new(Some(Vec::new())),
        });
        let accepting = Arc::clone(&state);
        thread::spawn(move || accepting.accept());
        Self { url, state }
    }

    /// Returns the URL of the server, without a `/` at the end.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the number of requests.
    #[must_use]
    pub fn count(&self) -> usize {
        self.state.count.load(Ordering::Relaxed)
    }

    /// Returns the recorded requests.
    #[must_use]
    pub fn requests(&self) -> Vec<Received> {
        self.state.requests.lock().clone()
    }

    /// Returns the heads of the recorded requests.
    #[must_use]
    pub fn heads(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| request.head).collect()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        let open = self.state.open.lock().take();
        for connection in open.unwrap_or_default() {
            // The call fails if the client has already closed the connection.
            let _ = connection.shutdown(Shutdown::Both);
        }
        // The connection wakes the accepting thread, which then ends.
        if let Ok(address) = self.state.listener.local_addr() {
            let _ = TcpStream::connect(address);
        }
    }
}

impl ScriptState {
    fn accept(self: Arc<Self>) {
        while let Ok((connection, _)) = self.listener.accept() {
            match (self.open.lock().as_mut(), connection.try_clone()) {
                (Some(open), Ok(clone)) => open.push(clone),
                _ => return,
            }
            let state = Arc::clone(&self);
            // Errors of a connection concern only the client under test.
            thread::spawn(move || drop(state.converse(connection)));
        }
    }

    fn converse(&self, connection: TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(connection.try_clone()?);
        let mut connection = connection;
        let kept = match &self.script {
            Script::Heads(_) => MAX_RECORDED_BODY_BYTES,
            Script::Bodies(_) => u64::MAX,
        };
        while let Some(request) = read_request(&mut reader, kept)? {
            match self.reply(request) {
                ScriptedReply::Send(bytes) => connection.write_all(&bytes)?,
                ScriptedReply::SendAndClose(bytes) => {
                    connection.write_all(&bytes)?;
                    return connection.shutdown(Shutdown::Both);
                }
                ScriptedReply::Trickle { bytes, step, pause } => {
                    for piece in bytes.chunks(step.max(1)) {
                        connection.write_all(piece)?;
                        thread::sleep(pause);
                    }
                }
                ScriptedReply::Silence => {}
                ScriptedReply::Close => return connection.shutdown(Shutdown::Both),
            }
        }
        Ok(())
    }

    fn reply(&self, request: Received) -> ScriptedReply {
        match &self.script {
            Script::Bodies(script) => script(&request),
            Script::Heads(script) => {
                let head = request.head.clone();
                self.requests.lock().push(request);
                script(self.count.fetch_add(1, Ordering::SeqCst), &head)
            }
        }
    }
}

/// Reads the next request with at most `kept` bytes of its body. `None` if the connection ends.
fn read_request(reader: &mut BufReader<TcpStream>, kept: u64) -> io::Result<Option<Received>> {
    let mut head = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if line == "\r\n" {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
        head.push_str(&line);
    }
    let mut body = Vec::new();
    let mut rest = reader.take(length);
    rest.by_ref().take(kept).read_to_end(&mut body)?;
    io::copy(&mut rest, &mut io::sink())?;
    Ok(Some(Received { head, body }))
}
