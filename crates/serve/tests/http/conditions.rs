//! Tests conditional writes and removals over S3: their responses, and that they are atomic.

use crate::client::{Client, S3, content, element, serve};
use crate::uploads::{begin, complete, part};

const ABSENT: &str = "If-None-Match: *\r\n";

fn put(client: &mut Client, key: &str, headers: &str, body: &[u8]) -> (u16, String) {
    let answer = client.ask("PUT", &format!("/bucket/{key}"), &format!("{S3}{headers}"), body);
    (answer.status, answer.header("etag").unwrap_or_default().to_owned())
}

fn bound(etag: &str) -> String {
    format!("If-Match: {etag}\r\n")
}

#[test]
fn completing_an_upload_keeps_its_conditions() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let uploaded = |client: &mut Client, key: &str| {
        let id = begin(client, key);
        let etag = part(client, key, &id, 1, &content(1000));
        (id, etag)
    };
    let (id, tag) = uploaded(&mut client, "missing");
    let refused = complete(&mut client, "missing", &id, &[(1, &tag)], &bound("\"x\""));
    assert_eq!((refused.status, element(&refused, "Code").as_deref()), (404, Some("NoSuchKey")));
    assert_eq!(complete(&mut client, "missing", &id, &[(1, &tag)], ABSENT).status, 200);

    let (_, etag) = put(&mut client, "key", "", b"old");
    let (id, tag) = uploaded(&mut client, "key");
    for condition in [ABSENT, &bound("\"x\"")] {
        let refused = complete(&mut client, "key", &id, &[(1, &tag)], condition);
        assert_eq!((refused.status, element(&refused, "Code").as_deref()), (412, Some("PreconditionFailed")));
    }
    assert_eq!(client.ask("GET", "/bucket/key", "", b"").body, b"old");
    assert_eq!(complete(&mut client, "key", &id, &[(1, &tag)], &bound(&etag)).status, 200);
    assert!(client.ask("GET", "/bucket/key", "", b"").body == content(1000));
}

#[test]
fn a_removal_bound_to_a_version_spares_every_other() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let (_, etag) = put(&mut client, "key", "", b"one");
    let delete = |client: &mut Client, key: &str, condition: &str| {
        client.ask("DELETE", &format!("/bucket/{key}"), &format!("{S3}{condition}"), b"").status
    };
    assert_eq!(delete(&mut client, "key", &bound("\"x\"")), 412);
    assert_eq!(delete(&mut client, "key", "x-amz-if-match-size: 4\r\n"), 412);
    let past = "x-amz-if-match-last-modified-time: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    assert_eq!(delete(&mut client, "key", past), 412);
    assert_eq!(client.ask("GET", "/bucket/key", "", b"").body, b"one");
    assert_eq!(delete(&mut client, "missing", &bound("*")), 404);
    for expected in ["x-amz-if-match-size: 4\r\n", past] {
        assert_eq!(delete(&mut client, "missing", expected), 204, "{expected}");
        assert_eq!(delete(&mut client, "missing", &format!("{}{expected}", bound("*"))), 404, "{expected}");
    }
    assert_eq!(delete(&mut client, "missing", ""), 204);
    assert_eq!(delete(&mut client, "key", &format!("{}x-amz-if-match-size: 3\r\n", bound(&etag))), 204);
    assert_eq!(client.ask("GET", "/bucket/key", "", b"").status, 404);
}

#[test]
fn a_removal_of_many_judges_each_by_its_own_condition() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let (_, etag) = put(&mut client, "bound", "", b"one");
    put(&mut client, "changed", "", b"two");
    put(&mut client, "free", "", b"three");
    let etag = etag.replace('"', "&quot;");
    let objects = [
        format!("<Object><Key>bound</Key><ETag>{etag}</ETag></Object>"),
        format!("<Object><Key>changed</Key><ETag>{etag}</ETag></Object>"),
        "<Object><Key>changed</Key><Size>7</Size></Object>".to_owned(),
        format!("<Object><Key>missing</Key><ETag>{etag}</ETag></Object>"),
        "<Object><Key>free</Key></Object>".to_owned(),
    ];
    let body = format!("<Delete>{}</Delete>", objects.concat());
    let answer = client.ask("POST", "/bucket?delete", S3, body.as_bytes()).text();
    assert_eq!(answer.matches("<Deleted>").count(), 2, "{answer}");
    assert_eq!(answer.matches("<Code>PreconditionFailed</Code>").count(), 2, "{answer}");
    assert_eq!(answer.matches("<Code>NoSuchKey</Code>").count(), 1, "{answer}");
    assert_eq!(client.ask("GET", "/bucket/changed", "", b"").body, b"two");
    assert_eq!(client.ask("GET", "/bucket/bound", "", b"").status, 404);
}

#[test]
fn a_copy_keeps_the_conditions_on_its_destination() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    put(&mut client, "source", "", b"new");
    let (_, etag) = put(&mut client, "key", "", b"old");
    let mut copy = |condition: &str| {
        put(&mut client, "key", &format!("x-amz-copy-source: /bucket/source\r\n{condition}"), b"").0
    };
    assert_eq!((copy(ABSENT), copy(&bound("\"x\""))), (412, 412));
    assert_eq!((copy(&bound(&etag)), copy(&bound(&etag))), (200, 412));
}

/// Sends all requests up to their last byte or line end, then sends the rest of each, so that the
/// server completes the requests at nearly the same time.
fn race(fixture: &crate::client::Fixture, requests: &[(&str, String)]) -> Vec<u16> {
    let mut clients: Vec<Client> = requests.iter().map(|_| Client::new(&fixture.server)).collect();
    for (client, (method, headers)) in clients.iter_mut().zip(requests) {
        let length = if *method == "PUT" { "Content-Length: 2\r\n" } else { "" };
        let head = format!("{method} /bucket/key HTTP/1.1\r\nHost: localhost\r\n{length}{headers}");
        client.send(head.as_bytes());
    }
    for (client, (method, _)) in clients.iter_mut().zip(requests) {
        let rest: &[u8] = if *method == "PUT" { b"\r\nx" } else { b"" };
        client.send(rest);
    }
    for (client, (method, _)) in clients.iter_mut().zip(requests) {
        let rest: &[u8] = if *method == "PUT" { b"y" } else { b"\r\n" };
        client.send(rest);
    }
    clients.iter_mut().map(|client| client.answer(false).status).collect()
}

#[test]
fn of_writers_bound_to_one_version_exactly_one_succeeds_whatever_protocol_it_speaks() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    for round in 0..100 {
        let (_, etag) = put(&mut client, "key", "", b"first");
        let bound = bound(&etag);
        let requests: Vec<(&str, String)> = (0..8)
            .map(|number| match number {
                0 => ("DELETE", format!("{S3}{bound}")),
                1 => ("DELETE", bound.clone()),
                2..5 => ("PUT", bound.clone()),
                _ => ("PUT", format!("{S3}{bound}")),
            })
            .collect();
        let statuses = race(&fixture, &requests);
        let done = statuses.iter().filter(|status| **status < 300).count();
        assert_eq!(done, 1, "round {round}: {statuses:?}");
    }
}
