//! A server that misbehaves as told: what no honest server can be made to do.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// What is done with one request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// These bytes, head and body, and the connection stays open.
    Send(Vec<u8>),
    /// These bytes, then the connection is closed: a body cut short, where the head promised more.
    SendAndClose(Vec<u8>),
    /// These bytes, a few at a time with a pause after each.
    Trickle {
        /// All of them.
        bytes: Vec<u8>,
        /// How many at a time.
        step: usize,
        /// The pause.
        pause: Duration,
    },
    /// Nothing at all, and the connection stays open.
    Silence,
    /// The connection is closed unanswered.
    Hang,
}

impl Reply {
    /// An answer of `status` (`206 Partial Content`) with these header lines and body; its true length is added.
    #[must_use]
    pub fn answer(status: &str, headers: &[&str], body: &[u8]) -> Self {
        let length = format!("content-length: {}", body.len());
        Self::raw(status, &[headers, &[length.as_str()]].concat(), body)
    }

    /// As [`answer`](Self::answer), with nothing added: lengths may lie.
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

    /// The same bytes, then the connection is closed.
    #[must_use]
    pub fn then_close(self) -> Self {
        match self {
            Self::Send(bytes) => Self::SendAndClose(bytes),
            other => other,
        }
    }
}

type Script = dyn Fn(usize, &str) -> Reply + Send + Sync;

/// A server that answers each request as its script says.
pub struct Scripted {
    url: String,
    state: Arc<State>,
}

struct State {
    script: Box<Script>,
    listener: TcpListener,
    /// Heads of the requests so far, in the order they came.
    heads: Mutex<Vec<String>>,
    count: AtomicUsize,
    open: Mutex<Option<Vec<TcpStream>>>,
}

impl Scripted {
    /// Starts a server. `script` is given a request's number, from 0, and its head.
    ///
    /// # Panics
    /// When there is no port to listen on.
    #[must_use]
    pub fn start(script: impl Fn(usize, &str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let state = Arc::new(State {
            script: Box::new(script),
            listener,
            heads: Mutex::default(),
            count: AtomicUsize::new(0),
            open: Mutex::new(Some(Vec::new())),
        });
        let accepting = Arc::clone(&state);
        thread::spawn(move || accepting.accept());
        Self { url, state }
    }

    /// Its URL, without a `/` at the end.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The heads of the requests so far.
    #[must_use]
    pub fn heads(&self) -> Vec<String> {
        self.state.heads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        let open = self.state.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        for connection in open.unwrap_or_default() {
            // The client may have closed it first.
            let _ = connection.shutdown(Shutdown::Both);
        }
        // Wakes the thread that accepts, which then finds that it is over.
        if let Ok(address) = self.state.listener.local_addr() {
            let _ = TcpStream::connect(address);
        }
    }
}

impl State {
    fn accept(self: Arc<Self>) {
        while let Ok((connection, _)) = self.listener.accept() {
            match (self.open.lock().unwrap_or_else(PoisonError::into_inner).as_mut(), connection.try_clone())
            {
                (Some(open), Ok(clone)) => open.push(clone),
                _ => return,
            }
            let state = Arc::clone(&self);
            // A connection that breaks is over; who cares is the client under test.
            thread::spawn(move || drop(state.converse(connection)));
        }
    }

    fn converse(&self, connection: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(connection.try_clone()?);
        let mut connection = connection;
        while let Some(head) = read_request(&mut reader)? {
            self.heads.lock().unwrap_or_else(PoisonError::into_inner).push(head.clone());
            match (self.script)(self.count.fetch_add(1, Ordering::SeqCst), &head) {
                Reply::Send(bytes) => connection.write_all(&bytes)?,
                Reply::SendAndClose(bytes) => {
                    connection.write_all(&bytes)?;
                    return connection.shutdown(Shutdown::Both);
                }
                Reply::Trickle { bytes, step, pause } => {
                    for piece in bytes.chunks(step.max(1)) {
                        connection.write_all(piece)?;
                        thread::sleep(pause);
                    }
                }
                Reply::Silence => {}
                Reply::Hang => return connection.shutdown(Shutdown::Both),
            }
        }
        Ok(())
    }
}

/// The head of the next request, its body read away; `None` at the end of the connection.
fn read_request(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<String>> {
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
    std::io::copy(&mut std::io::Read::take(reader, length), &mut std::io::sink())?;
    Ok(Some(head))
}
