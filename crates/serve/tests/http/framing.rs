//! Tests the boundaries of requests: no part of a body may be read as a request.

use crate::client::{Client, Fixture, serve};

/// Starts a server with a file that a smuggled request would delete.
fn with_victim() -> Fixture {
    let fixture = serve(|_| {});
    std::fs::write(fixture.directory.path().join("victim"), "x").unwrap();
    fixture
}

const SMUGGLED: &str = "DELETE /victim HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Sends `bytes`, which contain two requests. Checks that the first gets `status` and that the
/// connection closes without an answer to the second.
#[track_caller]
fn one_answer_then_closed(bytes: &str, status: u16) {
    let fixture = with_victim();
    let mut client = Client::new(&fixture.server);
    client.send(bytes.as_bytes());
    let answer = client.answer(false);
    assert_eq!(answer.status, status, "{bytes:?}: {}", answer.text());
    assert_eq!(answer.header("connection"), Some("close"), "{bytes:?}");
    assert!(client.has_ended(), "{bytes:?}: answered again: {:?}", String::from_utf8_lossy(&client.buffer));
    assert!(
        fixture.directory.path().join("victim").exists(),
        "{bytes:?}: the smuggled request was carried out"
    );
    assert!(!fixture.directory.path().join("f").exists(), "{bytes:?}: half a body became a file");
}

#[test]
fn after_a_malformed_chunk_the_rest_is_no_request() {
    for line in [
        "3f\n",
        "-3f\r\n",
        "0x3f\r\n",
        "3f,\r\n",
        "+3\r\n",
        " 3\r\n",
        "3 \r\n",
        "\r\n",
        "3;a\rb\r\n",
        "fffffffffffffffff\r\n",
        "3;a\nb\r\n",
    ] {
        for method in ["PUT /f", "GET /victim", "POST /.firstbyte/login", "POST /victim"] {
            let head = format!("{method} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
            let bytes = format!("{head}{line}0\r\n\r\n{SMUGGLED}");
            let fixture = with_victim();
            let mut client = Client::new(&fixture.server);
            client.send(bytes.as_bytes());
            let answer = client.answer(false);
            assert_eq!(answer.header("connection"), Some("close"), "{method} {line:?}: {}", answer.status);
            assert!(client.has_ended(), "{method} {line:?}: answered again");
            assert!(fixture.directory.path().join("victim").exists(), "{method} {line:?}");
            assert!(!fixture.directory.path().join("f").exists(), "{method} {line:?}");
        }
    }
}

#[test]
fn after_a_malformed_chunk_end_or_trailer_the_rest_is_no_request() {
    let head = "PUT /f HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    for body in [
        "3\r\nabcd\r\n0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "3\r\nabc0\r\n\r\n",
        "0\r\nno colon\r\n\r\n",
        "0\r\nA: b\n\r\n",
        "0\r\nA: b\rc\r\n\r\n",
        "0\r\nA: b\r\n folded\r\n\r\n",
        "0\r\nA : b\r\n\r\n",
        "0\r\n\n",
    ] {
        one_answer_then_closed(&format!("{head}{body}{SMUGGLED}"), 400);
    }
    let endless = "A: b\r\n".repeat(20_000);
    one_answer_then_closed(&format!("{head}0\r\n{endless}\r\n{SMUGGLED}"), 400);
}

#[test]
fn a_malformed_body_of_an_s3_request_ends_the_connection_too() {
    let head =
        "PUT /bucket/f HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nx-amz-date: x\r\n\r\n";
    for line in ["3f\n", "-3f\r\n", "0x3f\r\n", "3f,\r\n"] {
        one_answer_then_closed(&format!("{head}{line}0\r\n\r\n{SMUGGLED}"), 400);
    }
}

#[test]
fn heads_that_two_servers_could_read_differently_are_refused() {
    for lines in [
        "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length : 5\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding: chunked\r\n folded\r\n",
        "X: a\r\n folded: b\r\n",
        "X: a\nContent-Length: 5\r\n",
        "X: a\n",
        "X: a\rb\r\n",
        "X: a\r\r\n",
        "X: a\0b\r\n",
    ] {
        let head = format!("PUT /f HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n0\r\n\r\n{SMUGGLED}");
        one_answer_then_closed(&head, 400);
    }
    one_answer_then_closed(&format!("GET /victim HTTP/1.1\nHost: localhost\n\n{SMUGGLED}"), 400);
    let coded = "PUT /f HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n";
    one_answer_then_closed(&format!("{coded}{SMUGGLED}"), 501);
}

#[test]
fn a_body_that_was_never_asked_for_is_no_request() {
    let head = "PUT /.firstbyte HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n";
    let length = SMUGGLED.len();
    let fixture = with_victim();
    let mut client = Client::new(&fixture.server);
    client.send(format!("{head}Content-Length: {length}\r\n\r\n{SMUGGLED}").as_bytes());
    let answer = client.answer(false);
    assert_eq!(answer.status, 404, "{}", answer.text());
    assert!(client.has_ended());
    assert!(fixture.directory.path().join("victim").exists());
}

#[test]
fn a_well_formed_body_left_unread_keeps_the_connection_in_step() {
    let fixture = with_victim();
    let mut client = Client::new(&fixture.server);
    for body in ["3;name=\"value\"\r\nabc\r\n0\r\nTrailer: x\r\n\r\n", "00003 ; x\r\nabc\r\n000\r\n\r\n"] {
        let head = "GET /victim HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
        client.send(format!("{head}{body}").as_bytes());
        assert_eq!(client.answer(false).text(), "x");
    }
    assert_eq!(client.ask("GET", "/victim", "", b"").text(), "x");
}
