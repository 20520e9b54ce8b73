//! Servers that keep a client busy or waiting for ever, each in one way.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use firstbyte_testkit::{Scripted, ScriptedReply};

/// Ways in which a server keeps its clients waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Accepts requests and never answers.
    Stalls,
    /// Sends a head and some bytes of the body, and then nothing more.
    StallsInTheBody,
    /// Sends one byte per second.
    Trickles,
    /// Closes each connection in the middle of the body.
    ClosesInTheBody,
    /// Closes each connection without a reply.
    Closes,
    /// Refuses every request, and asks the client to retry later.
    Refuses,
    /// Redirects every request to another URL of the same server.
    Redirects,
    /// Lists new names on every page, and every page has a next page.
    ListsForEver,
    /// Every directory that it lists contains another directory.
    NestsForEver,
    /// Does not accept connections, so a client waits while it connects.
    DoesNotAccept,
}

impl Trouble {
    pub const ALL: [Self; 10] = [
        Self::Stalls,
        Self::StallsInTheBody,
        Self::Trickles,
        Self::ClosesInTheBody,
        Self::Closes,
        Self::Refuses,
        Self::Redirects,
        Self::ListsForEver,
        Self::NestsForEver,
        Self::DoesNotAccept,
    ];
}

/// A running server of this kind. Dropping it ends the server.
pub struct Troubled {
    pub url: String,
    /// The server; `None` if the server does not accept connections.
    server: Option<Scripted>,
    /// For a server that does not accept connections: the listener, and the connections that fill
    /// its queue.
    _queue: Option<(TcpListener, Vec<TcpStream>)>,
}

impl Troubled {
    pub fn start(trouble: Trouble) -> Self {
        if trouble == Trouble::DoesNotAccept {
            return Self::full();
        }
        let server = Scripted::start(move |number, head| answer(trouble, number, head));
        Self { url: server.url().to_owned(), server: Some(server), _queue: None }
    }

    /// Returns the number of requests that the server has received so far.
    pub fn requests(&self) -> usize {
        self.server.as_ref().map_or(0, Scripted::count)
    }

    /// Makes a listener whose queue is full. The kernel drops further connection requests, which a
    /// client cannot distinguish from a slow network.
    fn full() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        let fill = || TcpStream::connect_timeout(&address, Duration::from_millis(200));
        let queue: Vec<TcpStream> = std::iter::from_fn(|| fill().ok()).take(64).collect();
        assert!(queue.len() < 64, "the queue is never full");
        Self { url: format!("http://{address}"), server: None, _queue: Some((listener, queue)) }
    }
}

fn answer(trouble: Trouble, number: usize, head: &str) -> ScriptedReply {
    let body = vec![b'x'; 1 << 20];
    let whole = || ScriptedReply::raw("200 OK", &["etag: \"v\"", "content-length: 1048576"], &body[..1000]);
    match trouble {
        Trouble::Stalls | Trouble::DoesNotAccept => ScriptedReply::Silence,
        Trouble::StallsInTheBody => whole(),
        Trouble::Trickles => match whole() {
            ScriptedReply::Send(bytes) => {
                ScriptedReply::Trickle { bytes, step: 1, pause: Duration::from_secs(1) }
            }
            other => other,
        },
        Trouble::ClosesInTheBody => whole().then_close(),
        Trouble::Closes => ScriptedReply::Close,
        Trouble::Refuses => ScriptedReply::answer("503 Slow Down", &["retry-after: 3600"], b""),
        Trouble::Redirects => {
            ScriptedReply::answer("302 Found", &[&format!("location: /{number}/"), "connection: close"], b"")
        }
        Trouble::ListsForEver if head.contains("list-type=2") => page(number, &names(number), number + 1),
        Trouble::NestsForEver if head.contains("list-type=2") => page(number, "", number + 1),
        Trouble::ListsForEver | Trouble::NestsForEver => {
            let links = "<a href=\"one/\">one/</a><a href=\"two/\">two/</a>";
            ScriptedReply::answer("200 OK", &["content-type: text/html"], links.as_bytes())
        }
    }
}

/// Returns a thousand keys that are greater than those of all earlier pages.
fn names(number: usize) -> String {
    let keys =
        (0..1000).map(|key| format!("<Contents><Key>p/{number:09}-{key:04}</Key><Size>1</Size></Contents>"));
    keys.collect()
}

/// Replies with a page of ListObjectsV2 whose next page is `next`, after a short delay as a real
/// server has.
pub fn page(_number: usize, contents: &str, next: usize) -> ScriptedReply {
    std::thread::sleep(Duration::from_millis(2));
    let body = format!(
        "<?xml version=\"1.0\"?><ListBucketResult>{contents}<IsTruncated>true</IsTruncated>\
         <NextContinuationToken>t{next}</NextContinuationToken></ListBucketResult>"
    );
    ScriptedReply::answer("200 OK", &["content-type: application/xml"], body.as_bytes())
}
