//! Tests the connection loop: sendfile, pipelining, bodies, limits, shutdown.

use std::time::Duration;

use firstbyte_serve::WritePolicy;
use firstbyte_testkit::{patience, until};

use crate::client::{Client, Fixture, content, metric, serve};

#[test]
fn every_get_leaves_by_sendfile_whatever_came_before_on_its_connection() {
    let fixture = serve(|_| {});
    let bytes = content(3_000_000);
    std::fs::write(fixture.directory.path().join("bucket/file"), &bytes).unwrap();
    let mut client = Client::new(&fixture.server);
    for _ in 0..3 {
        let before = metric(&mut client, "sendfile_bytes_total");
        assert_eq!(client.ask("HEAD", "/bucket/file", "", b"").header("content-length"), Some("3000000"));
        assert_eq!(client.ask("GET", "/bucket?list-type=2", "", b"").status, 200);
        assert_eq!(client.ask("PUT", "/bucket/other", "", b"small").status / 100, 2);
        assert_eq!(client.ask("GET", "/bucket/file", "", b"").body, bytes);
        let part = client.ask("GET", "/bucket/file", "Range: bytes=1000000-1999999\r\n", b"");
        assert_eq!(part.status, 206);
        assert_eq!(part.header("content-range"), Some("bytes 1000000-1999999/3000000"));
        assert_eq!(part.body, bytes[1_000_000..2_000_000]);
        let s3 =
            client.ask("GET", "/bucket/file", "Range: bytes=-7\r\nx-amz-date: 20260101T000000Z\r\n", b"");
        assert_eq!((s3.status, s3.body.as_slice()), (206, &bytes[2_999_993..]));
        // The two long responses are sent by sendfile except for their last 16 KiB, which are held
        // back until the version is checked again. All other bodies are shorter than 16 KiB.
        assert_eq!(metric(&mut client, "sendfile_bytes_total") - before, 4_000_000 - 2 * (16 << 10));
    }
}

#[test]
fn requests_sent_ahead_are_answered_in_order() {
    let fixture = serve(|_| {});
    for name in ["a", "b", "c"] {
        std::fs::write(fixture.directory.path().join(name), name.repeat(10)).unwrap();
    }
    let mut client = Client::new(&fixture.server);
    let requests: String = ["a", "b", "c"]
        .iter()
        .map(|name| format!("GET /{name} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        .collect();
    client.send(requests.as_bytes());
    for name in ["a", "b", "c"] {
        assert_eq!(client.answer(false).text(), name.repeat(10));
    }
}

#[test]
fn chunked_bodies_arrive_whole_and_a_cut_one_leaves_the_old_file() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    client.send(b"PUT /f HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(b"5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nTrailer: x\r\n\r\n");
    assert_eq!(client.answer(false).status, 201);
    let path = fixture.directory.path().join("f");
    assert_eq!(std::fs::read(&path).unwrap(), b"hello world");
    client.send(b"PUT /f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nonly this");
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.answer(false).status, 400);
    assert_eq!(std::fs::read(&path).unwrap(), b"hello world");
    let left: Vec<_> = std::fs::read_dir(fixture.directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("firstbyte-part")), "{left:?}");
}

#[test]
fn a_waiting_client_gets_100_continue_only_if_its_body_is_wanted() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    client.send(b"PUT /f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.answer(true).status, 100);
    client.send(b"hi");
    assert_eq!(client.answer(false).status, 201);
    let refusing = serve(|config| config.writing = WritePolicy::Refused);
    let mut client = Client::new(&refusing.server);
    client.send(b"PUT /f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.answer(false).status, 403);
    assert!(client.has_ended());
}

#[test]
fn a_client_that_sends_a_long_refused_body_to_its_end_reads_why_it_was_refused() {
    let fixture = serve(|_| {});
    let body = vec![0; 32 << 20];
    for headers in ["x-amz-tagging: a=b\r\n", "If-Match: \"x\"\r\n"] {
        let answer = Client::new(&fixture.server).ask("PUT", "/bucket/f", headers, &body);
        assert!(matches!(answer.status, 501 | 412), "{}", answer.text());
    }
}

#[test]
fn unfinished_heads_are_dropped_and_others_served_meanwhile() {
    let fixture = serve(|config| config.limits.head = patience(Duration::from_millis(80)));
    std::fs::write(fixture.directory.path().join("f"), "x").unwrap();
    let mut slow: Vec<Client> = (0..100).map(|_| Client::new(&fixture.server)).collect();
    for client in &mut slow {
        client.send(b"GET /f HTTP/1.1\r\nHost: loc");
    }
    assert_eq!(Client::new(&fixture.server).ask("GET", "/f", "", b"").status, 200);
    assert!(slow.iter_mut().all(Client::has_ended));
}

#[test]
fn malformed_heads_are_answered_and_the_connection_ends() {
    let fixture = serve(|_| {});
    for (bytes, status) in [
        (&b"nonsense\r\n\r\n"[..], 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    ] {
        let mut client = Client::new(&fixture.server);
        client.send(bytes);
        assert_eq!(client.answer(false).status, status);
        assert!(client.has_ended());
    }
}

#[test]
fn a_running_answer_is_finished_when_the_server_stops() {
    let Fixture { directory, server } = serve(|_| {});
    let bytes = content(20_000_000);
    std::fs::write(directory.path().join("big"), &bytes).unwrap();
    let mut client = Client::new(&server);
    let mut idle = Client::new(&server);
    assert_eq!(idle.ask("HEAD", "/big", "", b"").status, 200);
    client.send(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n");
    while client.buffer.is_empty() {
        client.fill();
    }
    let stopping = std::thread::spawn(move || server.stop());
    assert!(idle.has_ended());
    assert_eq!(client.answer(false).body, bytes);
    stopping.join().unwrap();
}

#[test]
fn an_idle_connection_makes_room_for_a_new_one() {
    let fixture = serve(|config| config.limits.connections = 3);
    std::fs::write(fixture.directory.path().join("f"), "x").unwrap();
    let mut idle: Vec<Client> = (0..3).map(|_| Client::new(&fixture.server)).collect();
    for client in &mut idle {
        assert_eq!(client.ask("GET", "/f", "", b"").status, 200);
    }
    for _ in 0..3 {
        let mut client = Client::new(&fixture.server);
        assert_eq!(client.ask("GET", "/f", "", b"").status, 200);
        idle.push(client);
    }
    // The connections that were idle for longest are closed. Which these are depends on the
    // server's threads, so only their number is checked.
    until("three connections are closed", || idle.iter().filter(|client| client.is_closed()).count() == 3);
}

#[test]
fn a_connection_with_a_running_request_makes_no_room() {
    let fixture = serve(|config| config.limits.connections = 3);
    std::fs::write(fixture.directory.path().join("f"), "x").unwrap();
    let mut busy = Client::new(&fixture.server);
    // The server has read this head when it asks for the body.
    busy.send(b"PUT /g HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(busy.answer(false).status, 100);
    for _ in 0..6 {
        assert_eq!(Client::new(&fixture.server).ask("GET", "/f", "", b"").status, 200);
    }
    busy.send(b"x");
    assert_eq!(busy.answer(false).status / 100, 2);
}

#[test]
fn room_that_was_made_meanwhile_closes_no_later_connection() {
    let fixture = serve(|config| config.limits.connections = 1);
    std::fs::write(fixture.directory.path().join("f"), "x").unwrap();
    for _ in 0..20 {
        // The second connection waits while the first one is busy. Then the first one ends.
        let mut first = Client::new(&fixture.server);
        first.send(b"PUT /g HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n");
        first.send(b"Expect: 100-continue\r\nConnection: close\r\n\r\n");
        assert_eq!(first.answer(false).status, 100);
        let mut second = Client::new(&fixture.server);
        first.send(b"x");
        assert_eq!(first.answer(false).status / 100, 2);
        drop(first);
        for _ in 0..3 {
            assert_eq!(second.ask("GET", "/f", "", b"").status, 200);
        }
    }
}

#[test]
fn a_slow_client_that_never_pauses_gets_the_whole_file() {
    let stall = patience(Duration::from_millis(400));
    let fixture = serve(|config| config.limits.stall = stall);
    let bytes = content(5_000_000);
    std::fs::write(fixture.directory.path().join("bucket/f"), &bytes).unwrap();
    let mut client = Client::new(&fixture.server);
    rustix::net::sockopt::set_socket_recv_buffer_size(&client.stream, 64 << 10).unwrap();
    client.send(b"GET /bucket/f HTTP/1.1\r\nHost: localhost\r\n\r\n");
    while client.buffer.len() < bytes.len() {
        // The server's socket buffer is so large that a third of it takes longer than the limit.
        std::thread::sleep(stall / 8);
        assert_ne!(client.fill(), 0, "cut after {} bytes", client.buffer.len());
    }
    assert!(client.answer(false).body == bytes);
}
