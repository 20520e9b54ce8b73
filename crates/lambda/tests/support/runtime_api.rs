//! Implements the Runtime API of AWS Lambda for one environment: `next`, `response`, `error`.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use firstbyte_testkit::{count, patience, wait_limit};
use serde_json::Value;

/// A message that the function sent.
pub enum Reply {
    Answer(Value),
    Error(Value),
}

#[derive(Default)]
struct State {
    /// Bodies of events, each with its timeout in milliseconds.
    events: VecDeque<(String, u128)>,
    replies: VecDeque<Reply>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

pub struct RuntimeApi {
    address: String,
    shared: Arc<Shared>,
}

impl RuntimeApi {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared::default());
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, shared) = (stream.unwrap(), Arc::clone(&serving));
                // The thread ends when the function closes its connection.
                std::thread::spawn(move || while answer(&stream, &shared).is_some() {});
            }
        });
        Self { address, shared }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends an event to the function, and does not wait for the answer.
    pub fn send(&self, event: &Value, timeout: Duration) {
        self.shared.state.lock().unwrap().events.push_back((event.to_string(), timeout.as_millis()));
        self.shared.changed.notify_all();
    }

    /// Sends an event to the function. `None` if no answer arrived before the deadline and a grace
    /// period after it.
    pub fn invoke(&self, event: &Value, timeout: Duration) -> Option<Reply> {
        // The time that the function takes to start does not count towards its first event.
        let starts = Instant::now() + wait_limit();
        self.send(event, timeout);
        let mut state = self.shared.state.lock().unwrap();
        while !state.events.is_empty() {
            assert!(Instant::now() < starts, "it asks for no event");
            state = self.shared.changed.wait_timeout(state, Duration::from_secs(1)).unwrap().0;
        }
        // On a busy machine a function may wait for a processor. `make soak` sets this grace period
        // to 0.
        let usual = patience(Duration::from_millis(1_250)).as_millis().try_into().unwrap();
        let grace = Duration::from_millis(count("FIRSTBYTE_GRACE_MS", usual));
        let ends = Instant::now() + timeout + grace;
        while state.replies.is_empty() && Instant::now() < ends {
            let left = ends.saturating_duration_since(Instant::now());
            state = self.shared.changed.wait_timeout(state, left).unwrap().0;
        }
        state.replies.pop_front()
    }
}

/// Answers one request. `None` if the connection was closed.
fn answer(stream: &TcpStream, shared: &Shared) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    reader.read_line(&mut request).ok().filter(|read| *read > 0)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let value = || serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{error}: {request}"));
    let path = request.split(' ').nth(1)?;
    let reply = if path.ends_with("/invocation/next") {
        return send_next(stream, shared);
    } else if path.ends_with("/response") {
        Reply::Answer(value())
    } else {
        Reply::Error(value())
    };
    let mut state = shared.state.lock().unwrap();
    state.replies.push_back(reply);
    shared.changed.notify_all();
    let mut stream = stream;
    stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").ok()
}

fn send_next(mut stream: &TcpStream, shared: &Shared) -> Option<()> {
    let mut state = shared.state.lock().unwrap();
    let (event, timeout) = loop {
        if let Some(event) = state.events.pop_front() {
            break event;
        }
        state = shared.changed.wait(state).unwrap();
    };
    shared.changed.notify_all();
    drop(state);
    let deadline = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() + timeout;
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nlambda-runtime-aws-request-id: 1\r\n\
         lambda-runtime-deadline-ms: {deadline}\r\nlambda-runtime-invoked-function-arn: arn:test\r\n\
         lambda-runtime-trace-id: Root=1\r\ncontent-length: {}\r\n\r\n",
        event.len()
    );
    stream.write_all(format!("{head}{event}").as_bytes()).ok()
}
