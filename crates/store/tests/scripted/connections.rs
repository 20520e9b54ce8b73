//! Tests the end of a body, and bytes that belong to no request. Content of one object is never
//! taken for the content of another, and a cut body is never taken for a whole one.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use firstbyte_location::{ByteRange, Location, Version};
use firstbyte_store::{Body, Error, Get, Payload, PutOptions, Result, Signing, Store, StoreOptions};

use crate::server::{Server, Step, refusal, whole};

fn read(mut body: Body) -> Result<String> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 64]);
    loop {
        match body.read(&mut buffer)? {
            0 => return Ok(String::from_utf8(bytes).unwrap()),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

/// A server that sends `late` after its first answer, on request, and confirms that.
struct LateServer {
    url: String,
    send: Sender<()>,
    sent: Receiver<()>,
}

impl LateServer {
    fn start(first: &'static str, late: &'static str, others: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let ((send, wanted), (confirm, sent)) = (channel(), channel());
        std::thread::spawn(move || {
            let mut connections = listener.incoming();
            let first_connection = connections.next().unwrap().unwrap();
            head(&first_connection);
            (&first_connection).write_all(first.as_bytes()).unwrap();
            wanted.recv().unwrap();
            (&first_connection).write_all(late.as_bytes()).unwrap();
            confirm.send(()).unwrap();
            for connection in connections.map_while(std::result::Result::ok) {
                head(&connection);
                (&connection).write_all(others.as_bytes()).unwrap();
            }
        });
        Self { url, send, sent }
    }

    /// Sends the late bytes. On loopback they have arrived when the call that sends them returns.
    fn send_late_bytes(&self) {
        self.send.send(()).unwrap();
        self.sent.recv().unwrap();
    }

    fn store(&self) -> Store {
        let options = StoreOptions {
            endpoint_url: Some(self.url.clone()),
            region: Some("here-1".to_owned()),
            signing: Signing::Anonymous,
            retries: 0,
            ..StoreOptions::default()
        };
        Store::new(options).unwrap()
    }
}

fn head(connection: &TcpStream) {
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap() > 2 {
        line.clear();
    }
}

const SECOND: &str = "HTTP/1.1 200 OK\r\nETag: \"k1\"\r\nContent-Length: 5\r\n\r\nright";

#[test]
fn bytes_on_an_idle_connection_are_never_the_answer_to_the_next_request() {
    let evil = "HTTP/1.1 200 OK\r\nETag: \"evil\"\r\nContent-Length: 5\r\n\r\nEVIL!";
    let timeout = "HTTP/1.1 408 Request Time-out\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    for late in [evil, timeout, "body of the HEAD", "\r\n"] {
        let server = LateServer::start("HTTP/1.1 200 OK\r\nContent-Length: 58\r\n\r\n", late, SECOND);
        let store = server.store();
        let object = |key: &str| Location::parse(format!("s3://bucket/{key}").as_ref()).unwrap();
        store.stat(&object("k0")).unwrap();
        server.send_late_bytes();
        let body = store.get(&object("k1"), &Get::default()).unwrap();
        assert_eq!(body.stat().version.etag.as_deref(), Some("\"k1\""), "{late}");
        assert_eq!(read(body).unwrap(), "right");
    }
}

#[test]
fn an_answer_that_is_no_http_or_408_on_a_reused_connection_is_asked_for_again() {
    for odd in ["no HTTP\r\n".to_owned(), refusal("408 Request Time-out", "Connection: close\r\n", "")] {
        let server = Server::start(vec![
            Step::Keep(whole("", "abc")),
            Step::Close(odd.clone()),
            Step::Close(whole("", "def")),
        ]);
        let options = StoreOptions { retries: 0, ..StoreOptions::default() };
        let store = Store::new(options).unwrap();
        assert_eq!(store.get(&server.url("/1"), &Get::default()).and_then(read).unwrap(), "abc");
        assert_eq!(store.get(&server.url("/2"), &Get::default()).and_then(read).unwrap(), "def", "{odd}");
    }
}

#[test]
fn an_upload_is_retried_after_a_408_and_a_425() {
    let server = Server::start(vec![
        Step::Close(refusal("408 Request Time-out", "", "")),
        Step::Close(refusal("425 Too Early", "", "")),
        Step::Close(whole("ETag: \"e\"\r\n", "")),
    ]);
    server.store().put(&server.url("/x"), Payload::Bytes(b"abc"), &PutOptions::default()).unwrap();
}

#[test]
fn a_body_without_a_length_has_the_length_that_was_known_before() {
    let close = |body: &str| Step::Close(format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{body}"));
    let chunked = |body: &str| {
        let length = body.len();
        Step::Close(format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"
        ))
    };
    let version = Some(Version { size: Some(6), ..Version::default() });
    let get = |step, version: &Option<Version>| {
        let server = Server::start(vec![step]);
        let get = Get { version: version.clone(), ..Get::default() };
        let body = server.store().get(&server.url("/x"), &get).unwrap();
        (body.is_open_ended(), read(body))
    };
    assert!(matches!(get(close("abcdef"), &version), (false, Ok(text)) if text == "abcdef"));
    assert!(matches!(get(close("abcd"), &version), (false, Err(Error::Truncated { missing: 2, .. }))));
    assert!(matches!(get(close("abcdefg"), &version), (false, Err(Error::Protocol { .. }))));
    assert!(matches!(get(chunked("abcd"), &version), (false, Err(Error::Truncated { missing: 2, .. }))));
    assert!(matches!(get(chunked("abcdef"), &version), (false, Ok(_))));
    assert!(matches!(get(close("abcd"), &None), (true, Ok(_))), "nothing shows the end");
    assert!(matches!(get(chunked("abcd"), &None), (false, Ok(_))));
}

#[test]
fn every_request_asks_for_unencoded_bytes() {
    let server = Server::answering(|head| match head.contains("accept-encoding: identity\r\n") {
        true => whole("", "plain"),
        false => whole("Content-Encoding: gzip\r\n", "gzip"),
    });
    for location in [server.url("/x"), Location::parse("s3://bucket/x".as_ref()).unwrap()] {
        let get = Get { range: Some(ByteRange::new(0, 100)), ..Get::default() };
        assert_eq!(server.store().get(&location, &get).and_then(read).unwrap(), "plain");
        assert_eq!(server.store().stat(&location).unwrap().size(), Some(5));
    }
}

#[test]
fn an_etag_without_a_value_is_no_version() {
    for line in ["ETag: \"\"", "ETag:", "ETag: W/\"\""] {
        let server =
            Server::start(vec![Step::Close(whole(&format!("{line}\r\nx-amz-version-id:\r\n"), "abc"))]);
        let body = server.store().get(&server.url("/x"), &Get::default()).unwrap();
        assert_eq!((&body.stat().version.etag, &body.stat().version.version_id), (&None, &None), "{line}");
    }
    let server = Server::answering(|_| whole("ETag: \"\"\r\n", ""));
    let written =
        server.store().put(&server.url("/x"), Payload::Bytes(b"abc"), &PutOptions::default()).unwrap();
    assert_eq!(written.version.etag, None);
}
