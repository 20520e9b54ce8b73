//! Tests rights of web pages from other origins, with a browser's requests.

use firstbyte_serve::{Authentication, Cors, Origins, ServerKeys};

use crate::client::{Answer, Client, Fixture, S3, serve};

const READS: &str = "https://reads.example";
const WRITES: &str = "http://writes.example:3000";

fn listing() -> Fixture {
    let of = |origin: &str| Origins::Listed(vec![origin.to_owned()]);
    let fixture = serve(|config| config.cors = Cors { read: of(READS), write: of(WRITES) });
    std::fs::write(fixture.directory.path().join("bucket/f"), "x").unwrap();
    fixture
}

fn preflight(fixture: &Fixture, origin: &str, method: &str, names: &str) -> Answer {
    let names =
        if names.is_empty() { String::new() } else { format!("Access-Control-Request-Headers: {names}\r\n") };
    let headers = format!("Origin: {origin}\r\nAccess-Control-Request-Method: {method}\r\n{names}");
    Client::new(&fixture.server).ask("OPTIONS", "/bucket/k", &headers, b"")
}

fn list<'a>(answer: &'a Answer, name: &str) -> Vec<&'a str> {
    answer.header(name).map_or(Vec::new(), |value| value.split(',').map(str::trim).collect())
}

#[test]
fn a_preflight_is_answered_with_the_names_that_it_asks_for() {
    let fixture = listing();
    let names =
        "x-amz-date,x-amz-content-sha256,x-amz-meta-run,amz-sdk-invocation-id,content-md5,authorization";
    let answer = preflight(&fixture, WRITES, "PUT", names);
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("access-control-allow-origin"), Some(WRITES));
    assert_eq!(list(&answer, "access-control-allow-headers"), names.split(',').collect::<Vec<_>>());
    assert!(list(&answer, "access-control-allow-methods").contains(&"PUT"));
    assert!(answer.head.contains("vary: origin"));
    let reading = preflight(&fixture, READS, "GET", "range");
    assert_eq!(list(&reading, "access-control-allow-headers"), ["range"]);
    assert_eq!(list(&reading, "access-control-allow-methods"), ["GET", "HEAD"]);
    assert_eq!(preflight(&fixture, READS, "GET", "").header("access-control-allow-headers"), None);
    // Values that are not header names are not sent back.
    assert_eq!(
        list(&preflight(&fixture, READS, "GET", "a b, ok, (x)"), "access-control-allow-headers"),
        ["ok"]
    );
    for other in ["https://other.example", "null", "https://writes.example:3000", "http://writes.example"] {
        let answer = preflight(&fixture, other, "PUT", "x-amz-date");
        assert_eq!(answer.header("access-control-allow-origin"), None, "{other}");
        assert_eq!(answer.header("access-control-allow-headers"), None, "{other}");
    }
}

#[test]
fn origins_for_reading_read_and_those_for_writing_do_both() {
    let fixture = listing();
    let mut client = Client::new(&fixture.server);
    for (origin, allowed) in [(READS, 403), (WRITES, 200), ("https://other.example", 403)] {
        let put = client.ask("PUT", "/bucket/new", &format!("{S3}Origin: {origin}\r\n"), b"x");
        assert_eq!(put.status, allowed, "{origin}");
        let delete = client.ask("DELETE", "/bucket/gone", &format!("Origin: {origin}\r\n"), b"");
        assert_eq!(delete.status == 403, allowed == 403, "{origin}: {}", delete.status);
    }
    for origin in [READS, WRITES] {
        let get = client.ask("GET", "/bucket/f", &format!("Origin: {origin}\r\n"), b"");
        assert_eq!(get.header("access-control-allow-origin"), Some(origin));
        assert!(get.header("access-control-allow-credentials").is_none());
    }
}

#[test]
fn what_an_s3_client_reads_of_an_answer_is_exposed() {
    let fixture = listing();
    let mut client = Client::new(&fixture.server);
    let origin = format!("{S3}Origin: {WRITES}\r\n");
    let put = client.ask("PUT", "/bucket/new", &format!("{origin}x-amz-meta-run: 7\r\n"), b"x");
    assert!(list(&put, "access-control-expose-headers").contains(&"etag"));
    let get = client.ask("GET", "/bucket/new", &format!("{origin}Range: bytes=0-0\r\n"), b"");
    let exposed = list(&get, "access-control-expose-headers");
    for name in
        ["etag", "content-length", "content-range", "last-modified", "x-amz-meta-run", "accept-ranges"]
    {
        assert!(exposed.contains(&name), "{name}: {exposed:?}");
    }
}

#[test]
fn every_answer_says_that_it_depends_on_the_origin() {
    let fixture = listing();
    let mut client = Client::new(&fixture.server);
    for (method, target, headers) in [
        ("GET", "/bucket/f", String::new()),
        ("GET", "/bucket/missing", S3.to_owned()),
        ("GET", "/", "Accept: text/html\r\n".to_owned()),
        ("GET", "/bucket/f", "Origin: https://other.example\r\n".to_owned()),
        ("PUT", "/bucket/f", "Origin: https://other.example\r\n".to_owned()),
        ("OPTIONS", "/", String::new()),
    ] {
        let answer = client.ask(method, target, &headers, b"");
        let varies = answer.head.lines().any(|line| line.starts_with("vary: ") && line.contains("origin"));
        assert!(varies, "{method} {target}: {}", answer.head);
    }
}

#[test]
fn every_origin_may_write_only_where_a_key_decides() {
    let any = || Cors { read: Origins::Any, write: Origins::Any };
    let mut config = firstbyte_serve::Config::new(tempfile::tempdir().unwrap().path());
    config.cors = any();
    assert!(firstbyte_serve::Server::start(config).unwrap_err().to_string().contains("--auth"));
    let fixture = serve(|config| {
        config.cors = any();
        config.authentication = Authentication::Keys(ServerKeys::parse("alice secret write\n").unwrap());
    });
    let mut client = Client::new(&fixture.server);
    // HTTP Basic with alice:secret.
    let basic = "Authorization: Basic YWxpY2U6c2VjcmV0\r\nOrigin: https://x.example\r\n";
    let put = client.ask("PUT", "/bucket/f", basic, b"x");
    assert_eq!((put.status, put.header("access-control-allow-origin")), (201, Some("*")));
}
