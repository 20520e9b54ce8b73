//! For tests: an API on loopback that gives answers in an order of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a request may be waited for: a test whose request does not come fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// The bodies that such an API was sent.
pub(crate) type Served = JoinHandle<Vec<Value>>;

/// Gives these answers, a status and a body, one after another. Returns the endpoint.
pub(crate) fn serve(answers: &[(u16, &str)]) -> (String, Served) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let answers: Vec<(u16, String)> =
        answers.iter().map(|(status, body)| (*status, (*body).to_owned())).collect();
    let api = thread::spawn(move || {
        answers.into_iter().map(|(status, body)| one(&listener, status, &body)).collect()
    });
    (endpoint, api)
}

fn one(listener: &TcpListener, status: u16, body: &str) -> Value {
    let mut reader = BufReader::new(accepted(listener));
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).unwrap() > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut sent = vec![0; length];
    reader.read_exact(&mut sent).unwrap();
    let head =
        format!("HTTP/1.1 {status} Status\r\nx-amzn-errortype: SomeException:\r\nconnection: close\r\n");
    let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    reader.get_mut().write_all(answer.as_bytes()).unwrap();
    serde_json::from_slice(&sent).unwrap()
}

fn accepted(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let until = Instant::now() + PATIENCE;
    loop {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(false).unwrap();
            return stream;
        }
        assert!(Instant::now() < until, "no request came");
        thread::sleep(Duration::from_millis(2));
    }
}
