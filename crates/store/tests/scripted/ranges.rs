//! Tests refusals of ranges, and unusual responses to requests for a range. A 416 says nothing
//! about the content, and a partial response is read whatever the spelling of its range.

use firstbyte_location::{ByteRange, Location, Version};
use firstbyte_store::{Body, Error, Get, Result};

use crate::server::{Server, Step, part, refusal, whole};

const CONTENT: &str = "hello world";

fn read(mut body: Body) -> Result<String> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 64]);
    loop {
        match body.read(&mut buffer)? {
            0 => return Ok(String::from_utf8(bytes).unwrap()),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

fn range(start: u64, end: u64) -> Get {
    Get { range: Some(ByteRange::new(start, end)), ..Get::default() }
}

/// Reads a range over plain HTTP and from S3. `answer` is called with true if a range was
/// requested.
fn both(answer: fn(bool) -> String, get: &Get) -> [Result<String>; 2] {
    let server = Server::answering(move |head| match head.starts_with("HEAD") {
        true => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", CONTENT.len()),
        false => answer(head.contains("\r\nrange:")),
    });
    [server.url("/x"), Location::parse("s3://bucket/x".as_ref()).unwrap()]
        .map(|location| server.store().get(&location, get).and_then(read))
}

#[test]
fn a_refused_range_from_the_first_byte_is_followed_by_a_request_for_the_whole() {
    let refused: [fn(bool) -> String; 5] = [
        |ranged| answered(ranged, ""),
        |ranged| answered(ranged, "Content-Range: bytes */*\r\n"),
        |ranged| answered(ranged, "Content-Range: bytes */0\r\n"),
        |ranged| answered(ranged, "Content-Range: bytes */11\r\n"),
        |ranged| answered(ranged, "Content-Range: bytes 0-99/11\r\n"),
    ];
    fn answered(ranged: bool, line: &str) -> String {
        if ranged {
            refusal("416 Range Not Satisfiable", line, "no")
        } else {
            whole("ETag: \"e\"\r\n", CONTENT)
        }
    }
    for answer in refused {
        for read in both(answer, &range(0, 100)) {
            assert_eq!(read.unwrap(), CONTENT);
        }
    }
    let pinned = Version { size: Some(11), etag: Some("\"e\"".into()), ..Version::default() };
    for read in both(refused[0], &Get { version: Some(pinned), ..range(0, 100) }) {
        assert_eq!(read.unwrap(), CONTENT);
    }
}

#[test]
fn a_refused_range_of_an_empty_object_is_empty_because_the_whole_is() {
    for read in both(
        |ranged| if ranged { refusal("416 No", "Content-Range: bytes */0\r\n", "no") } else { whole("", "") },
        &range(0, 100),
    ) {
        assert_eq!(read.unwrap(), "");
    }
    // The server may refuse the whole object too.
    for read in both(|_| refusal("416 No", "", "no"), &range(0, 100)) {
        assert!(matches!(read, Err(Error::Protocol { .. })), "{read:?}");
    }
}

#[test]
fn a_refused_range_within_an_object_is_no_end_of_it() {
    let pinned = Version { size: Some(11), ..Version::default() };
    for read in both(|_| refusal("416 No", "", "no"), &Get { version: Some(pinned), ..range(5, 9) }) {
        assert!(matches!(read, Err(Error::RangeIgnored { .. })), "{read:?}");
    }
    for read in both(|_| refusal("416 No", "", "no"), &range(5, 9)) {
        assert!(matches!(read, Err(Error::PastEnd { start: 5, size: None, .. })), "{read:?}");
    }
}

#[test]
fn a_partial_response_in_another_spelling_is_read() {
    for text in ["Bytes 2-4/11", "bytes=2-4/11", "bytes  2-4/11", "2-4/11", "BYTES 2-4/*"] {
        let server = Server::start(vec![Step::Close(part(text, "", "llo"))]);
        let body = server.store().get(&server.url("/x"), &range(2, 5)).unwrap();
        assert_eq!(read(body).unwrap(), "llo", "{text}");
    }
}

#[test]
fn the_beginning_of_a_longer_partial_response_is_used_and_its_connection_is_not() {
    let server = Server::start(vec![
        Step::Keep(part("bytes 2-6/11", "ETag: \"e\"\r\n", "llo w")),
        Step::Close(part("bytes 2-4/11", "ETag: \"e\"\r\n", "llo")),
    ]);
    let store = server.store();
    for _ in 0..2 {
        let body = store.get(&server.url("/x"), &range(2, 5)).unwrap();
        assert_eq!(body.range(), ByteRange::new(2, 5));
        assert_eq!(read(body).unwrap(), "llo");
    }
    assert_eq!(store.counters().retries, 0);
}

#[test]
fn an_unusable_partial_response_from_the_first_byte_is_followed_by_a_request_for_the_whole() {
    let unusable: [fn(bool) -> String; 4] = [
        |ranged| {
            if ranged {
                "HTTP/1.1 206 P\r\nContent-Length: 2\r\n\r\nxx".to_owned()
            } else {
                whole("", CONTENT)
            }
        },
        |ranged| if ranged { part("lines 0-1/11", "", "xx") } else { whole("", CONTENT) },
        |ranged| if ranged { part("bytes 3-4/11", "", "lo") } else { whole("", CONTENT) },
        |ranged| if ranged { part("bytes 0-1/11", "", "xxx") } else { whole("", CONTENT) },
    ];
    for answer in unusable {
        for read in both(answer, &range(0, 5)) {
            assert_eq!(read.unwrap(), CONTENT);
        }
    }
}

#[test]
fn a_partial_response_to_a_request_for_the_whole_is_used_only_if_it_has_the_whole() {
    for read in both(|_| part("bytes 0-10/11", "", CONTENT), &Get::default()) {
        assert_eq!(read.unwrap(), CONTENT);
    }
    for read in both(|_| part("bytes 0-4/11", "", "hello"), &Get::default()) {
        assert!(matches!(read, Err(Error::Protocol { .. })), "{read:?}");
    }
}
