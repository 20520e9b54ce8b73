//! Tests the host names of requests, and buckets in host names.

use std::fs;

use firstbyte_serve::{Authentication, Config, ServerKeys, SignatureVersions};

use crate::client::{Answer, Client, Fixture, S3, element, serve};
use crate::signing::{Signed, http_date, version_2};

/// Starts a server with the buckets `one` and `two`, each with one object.
fn two_buckets(configure: impl FnOnce(&mut Config)) -> Fixture {
    let fixture = serve(configure);
    for bucket in ["one", "two"] {
        fs::create_dir(fixture.directory.path().join(bucket)).unwrap();
        fs::write(fixture.directory.path().join(bucket).join("old"), format!("of {bucket}")).unwrap();
    }
    fixture
}

fn with_keys(config: &mut Config) {
    config.authentication = Authentication::Keys(ServerKeys::parse("alice secret write\n").unwrap());
}

fn ask(fixture: &Fixture, method: &str, host: &str, target: &str, headers: &str, body: &[u8]) -> Answer {
    let mut client = Client::new(&fixture.server);
    let length = body.len();
    let head =
        format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n{headers}\r\n");
    client.send(head.as_bytes());
    client.send(body);
    client.answer(method == "HEAD")
}

/// Sends a request signed for `host`.
fn ask_signed(
    fixture: &Fixture,
    method: &str,
    host: &str,
    target: &str,
    query: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let (target, lines) =
        Signed { query, headers: &[("host", host)], ..Signed::new(method, target) }.by_header();
    ask(fixture, method, host, &target, &lines, body)
}

#[test]
fn a_bucket_in_an_unknown_host_name_reaches_no_other_bucket() {
    for keys in [false, true] {
        let fixture = two_buckets(|config| {
            if keys {
                with_keys(config)
            }
        });
        for host in ["one.localhost", "one.s3.example:9000", "one"] {
            let send = |method: &str, target: &str, body: &[u8]| match keys {
                true => ask_signed(&fixture, method, host, target, &[], body),
                false => ask(&fixture, method, host, target, S3, body),
            };
            assert_eq!(send("PUT", "/two/new", b"x").status, 400, "{host}");
            assert_eq!(send("DELETE", "/two/old", b"").status, 400, "{host}");
            let listed = send("GET", "/", b"");
            assert_eq!((listed.status, element(&listed, "Code").as_deref()), (400, Some("InvalidRequest")));
            assert!(listed.text().contains("--host-style"), "{}", listed.text());
            assert_eq!(ask(&fixture, "PUT", host, "/two/new", "", b"x").status, 403, "plain, {host}");
            assert_eq!(ask(&fixture, "GET", host, "/.firstbyte/metrics", "", b"").status, 403);
        }
        let two = fixture.directory.path().join("two");
        assert!(!two.join("new").exists() && two.join("old").exists());
    }
}

#[test]
fn every_name_and_address_of_the_server_is_answered() {
    let fixture = two_buckets(|config| {
        config.names = vec!["Files.lab.example".to_owned()];
        config.host_style = vec!["s3.lab.example".to_owned()];
    });
    for host in
        ["LOCALHOST:8080", "localhost.", "[::1]:1", "192.0.2.7", "files.LAB.example", "s3.lab.example:1"]
    {
        assert_eq!(ask(&fixture, "GET", host, "/one/old", "", b"").text(), "of one", "{host}");
    }
    let mut client = Client::new(&fixture.server);
    client.send(b"GET /one/old HTTP/1.0\r\n\r\n");
    assert_eq!(client.answer(false).text(), "of one");
    assert_eq!(ask(&fixture, "GET", "\u{e9}.example", "/one/old", "", b"").status, 403);
}

#[test]
fn an_announced_domain_serves_the_bucket_in_front_of_it() {
    for base in ["", "/base"] {
        let fixture = two_buckets(|config| {
            config.host_style = vec!["S3.lab.example".to_owned()];
            config.base_path = base.to_owned();
        });
        let host = "one.s3.lab.example:9000";
        let target = |path: &str| format!("{base}{path}");
        assert_eq!(ask(&fixture, "GET", host, &target("/old"), "", b"").text(), "of one");
        assert_eq!(ask(&fixture, "PUT", host, &target("/two/new"), S3, b"x").status, 200);
        assert_eq!(fs::read(fixture.directory.path().join("one/two/new")).unwrap(), b"x");
        let listed = ask(&fixture, "GET", host, &target("/?list-type=2"), "", b"");
        assert_eq!(element(&listed, "Key").as_deref(), Some("old"), "{}", listed.text());
        assert_eq!(ask(&fixture, "DELETE", host, &target("/old"), "", b"").status, 204);
        assert!(fixture.directory.path().join("two/old").exists());
        let buckets = ask(&fixture, "GET", "s3.lab.example:9000", &target("/"), S3, b"");
        assert!(buckets.text().contains("ListAllMyBucketsResult"), "{}", buckets.text());
        let none = ask(&fixture, "GET", "three.s3.lab.example", &target("/old"), "", b"");
        assert_eq!(element(&none, "Code").as_deref(), Some("NoSuchBucket"));
        // This host name is only for S3, so neither pages nor counters are served there.
        assert_ne!(ask(&fixture, "GET", host, &target("/.firstbyte/metrics"), "", b"").status, 200);
    }
}

#[test]
fn signatures_cover_the_host_name_with_its_bucket() {
    let fixture = two_buckets(|config| {
        with_keys(config);
        config.host_style = vec!["s3.lab.example".to_owned()];
        config.signatures = SignatureVersions::V2Too;
    });
    let host = "one.s3.lab.example";
    assert_eq!(ask_signed(&fixture, "GET", host, "/old", &[], b"").text(), "of one");
    assert_eq!(ask_signed(&fixture, "PUT", host, "/new", &[], b"x").status, 200);
    let listed = ask_signed(&fixture, "GET", host, "/", &[("list-type", "2"), ("prefix", "o")], b"");
    assert_eq!(element(&listed, "Key").as_deref(), Some("old"), "{}", listed.text());
    let url = Signed { headers: &[("host", host)], ..Signed::new("GET", "/old") }.presigned();
    assert_eq!(ask(&fixture, "GET", host, &url, "", b"").text(), "of one");
    // The request is signed for bucket one, but sent for bucket two.
    assert_eq!(ask(&fixture, "GET", "two.s3.lab.example", &url, "", b"").status, 403);
    assert_eq!(ask(&fixture, "GET", host, "/old", "", b"").status, 403, "without a signature");
    let second = version_2("GET", "/one/old", &http_date(0));
    assert_eq!(ask(&fixture, "GET", host, "/old", &second, b"").text(), "of one");
}
