//! A server that gives the answers of a script, one a request, in order.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use firstbyte_location::Location;
use firstbyte_store::{Options, Signing, Store};

/// What to do with one request.
pub(crate) enum Step {
    /// Send these bytes and wait for the next request on the connection.
    Keep(String),
    /// Send these bytes and close.
    Close(String),
    /// Send these bytes and then nothing, for longer than the client's deadline.
    Stall(String),
}

/// A request as it came: head in full, body as text.
pub(crate) struct Seen {
    pub head: String,
    pub body: String,
}

pub(crate) struct Server {
    pub address: SocketAddr,
    pub seen: Receiver<Seen>,
}

/// Silence the clients of these tests bear.
pub(crate) const DEADLINE: Duration = Duration::from_millis(300);

impl Server {
    pub(crate) fn start(script: Vec<Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, seen) = channel();
        std::thread::spawn(move || {
            let mut steps = script.into_iter().peekable();
            while steps.peek().is_some() {
                let Ok((socket, _)) = listener.accept() else { return };
                serve(&socket, &mut steps, &sender);
            }
        });
        Self { address, seen }
    }

    pub(crate) fn url(&self, path: &str) -> Location {
        Location::parse(format!("http://{}{path}", self.address).as_ref()).unwrap()
    }

    /// A store that reaches this server, as S3 too, and does not wait long for anything.
    pub(crate) fn store(&self) -> Store {
        let options = Options {
            endpoint_url: Some(format!("http://{}", self.address)),
            region: Some("here-1".to_owned()),
            signing: Signing::Anonymous,
            read_deadline: DEADLINE,
            retries: 2,
            ..Options::default()
        };
        Store::new(options).unwrap()
    }
}

fn serve(mut socket: &TcpStream, steps: &mut impl Iterator<Item = Step>, sender: &Sender<Seen>) {
    let mut reader = BufReader::new(socket);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |n| n.parse().unwrap());
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let _ = sender.send(Seen { head, body: String::from_utf8_lossy(&body).into_owned() });
        let Some(step) = steps.next() else { return };
        let (text, ends, stalls) = match step {
            Step::Keep(text) => (text, false, false),
            Step::Close(text) => (text, true, false),
            Step::Stall(text) => (text, true, true),
        };
        // A client that has seen enough may be gone.
        let _ = socket.write_all(text.as_bytes());
        if stalls {
            std::thread::sleep(DEADLINE * 3);
        }
        if ends {
            return;
        }
    }
}

/// A whole object.
pub(crate) fn whole(headers: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
}

/// A part of one.
pub(crate) fn part(content_range: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Range: {content_range}\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
}

/// A refusal.
pub(crate) fn refusal(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
}
