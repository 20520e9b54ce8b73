//! Tests requests in forms that S3 and HTTP allow, but few clients send.

use std::fs;
use std::os::unix::fs::MetadataExt;

use firstbyte_serve::{Authentication, Config, ServerKeys};

use crate::client::{Answer, Client, Fixture, S3, element, serve};
use crate::signing::Signed;

fn with_keys(config: &mut Config) {
    config.authentication = Authentication::Keys(ServerKeys::parse("alice secret write\n").unwrap());
}

/// Sends an S3 request, signed if the server has keys.
fn s3(fixture: &Fixture, keys: bool, method: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
    let mut client = Client::new(&fixture.server);
    let plain = || headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<String>();
    if !keys {
        return client.ask(method, target, &format!("{S3}{}", plain()), b"");
    }
    let mut all = vec![("host", "localhost")];
    all.extend_from_slice(headers);
    all.sort_unstable();
    let (target, lines) = Signed { headers: &all, ..Signed::new(method, target) }.by_header();
    client.ask(method, &target, &lines, b"")
}

fn both_fixtures() -> [(bool, Fixture); 2] {
    [false, true].map(|keys| {
        let fixture = serve(|config| {
            if keys {
                with_keys(config)
            }
        });
        fs::write(fixture.directory.path().join("bucket/f"), "0123456789").unwrap();
        (keys, fixture)
    })
}

#[test]
fn a_malformed_range_is_ignored_and_head_with_a_range_answers_206() {
    for (keys, fixture) in both_fixtures() {
        for range in ["bytes=a-b", "bytes=5-2", "bytes=", "lines=0-1", "bytes=0-1,4-5"] {
            let answer = s3(&fixture, keys, "GET", "/bucket/f", &[("range", range)]);
            assert_eq!((answer.status, answer.text().as_str()), (200, "0123456789"), "{range}, keys: {keys}");
        }
        let part = s3(&fixture, keys, "GET", "/bucket/f", &[("range", "Bytes=2-3")]);
        assert_eq!((part.status, part.text().as_str()), (206, "23"));
        let head = s3(&fixture, keys, "HEAD", "/bucket/f", &[("range", "bytes=2-3")]);
        assert_eq!((head.status, head.header("content-range")), (206, Some("bytes 2-3/10")));
        assert_eq!(s3(&fixture, keys, "HEAD", "/bucket/f", &[]).status, 200);
        let beyond = s3(&fixture, keys, "GET", "/bucket/f", &[("range", "bytes=10-")]);
        assert_eq!(beyond.status, 416);
    }
}

#[test]
fn of_two_ranges_none_is_meant() {
    for (keys, fixture) in both_fixtures() {
        let lines = "range: bytes=0-1\r\nrange: bytes=4-5\r\n";
        let plain = if keys { "authorization: Basic YWxpY2U6c2VjcmV0\r\n" } else { "" };
        let mut client = Client::new(&fixture.server);
        let answer = client.ask("GET", "/bucket/f", &format!("{lines}{plain}"), b"");
        assert_eq!((answer.status, answer.text().as_str()), (200, "0123456789"));
        let (target, signed) = Signed::new("GET", "/bucket/f").by_header();
        let s3 = if keys { signed } else { S3.to_owned() };
        let answer = client.ask("GET", &target, &format!("{lines}{s3}"), b"");
        assert_eq!((answer.status, answer.text().as_str()), (200, "0123456789"));
    }
}

#[test]
fn a_put_below_a_file_is_a_conflict_and_the_host_of_an_absolute_target_counts() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    assert_eq!(client.ask("PUT", "/bucket/f", "", b"x").status, 201);
    assert_eq!(client.ask("PUT", "/bucket/f/g", "", b"x").status, 409);
    assert_eq!(client.ask("GET", "http://127.0.0.1/bucket/f", "", b"").status, 200);
    assert_eq!(client.ask("GET", "http://evil.example/bucket/f", "", b"").status, 403);
}

#[test]
fn conditions_are_understood_in_all_three_forms_of_a_date() {
    for (keys, fixture) in both_fixtures() {
        for (old, new) in [
            ("Sun, 13 Nov 1994 08:49:37 GMT", "Thu, 13 Nov 2064 08:49:37 GMT"),
            ("Sunday, 13-Nov-94 08:49:37 GMT", "Thursday, 13-Nov-64 08:49:37 GMT"),
            ("Sun Nov 13 08:49:37 1994", "Thu Nov 13 08:49:37 2064"),
        ] {
            let ask = |date| s3(&fixture, keys, "GET", "/bucket/f", &[("if-unmodified-since", date)]).status;
            assert_eq!((ask(old), ask(new)), (412, 200), "{old}, keys: {keys}");
            let plain = |date| {
                let line =
                    format!("If-Unmodified-Since: {date}\r\nAuthorization: Basic YWxpY2U6c2VjcmV0\r\n");
                Client::new(&fixture.server).ask("GET", "/bucket/f", &line, b"").status
            };
            assert_eq!((plain(old), plain(new)), (412, 200), "{old}, plain");
        }
        let ignored = s3(&fixture, keys, "GET", "/bucket/f", &[("if-unmodified-since", "yesterday")]);
        assert_eq!(ignored.status, 200);
    }
}

#[test]
fn every_directory_that_is_served_can_be_copied_from() {
    for (keys, fixture) in both_fixtures() {
        let directory = fixture.directory.path();
        for name in ["Data", "my_data", "ab", "-x", "1.2.3.4", "a b"] {
            fs::create_dir(directory.join(name)).unwrap();
            fs::write(directory.join(name).join("a key"), name).unwrap();
            let source = format!("/{}/a%20key", name.replace(' ', "%20"));
            let copied = s3(&fixture, keys, "PUT", "/bucket/copy", &[("x-amz-copy-source", &source)]);
            assert_eq!(copied.status, 200, "{name}, keys: {keys}: {}", copied.text());
            assert_eq!(fs::read_to_string(directory.join("bucket/copy")).unwrap(), name);
            let moved = s3(&fixture, keys, "PUT", "/Data/copy", &[("x-amz-copy-source", &source)]);
            assert_eq!(moved.status, 200, "{name}, keys: {keys}: {}", moved.text());
        }
        for (source, status) in [("/../f", 400), ("/Missing/f", 404), ("/.firstbyte/f", 400), ("Data", 400)] {
            let refused = s3(&fixture, keys, "PUT", "/bucket/copy", &[("x-amz-copy-source", source)]);
            assert_eq!(refused.status, status, "{source}: {}", refused.text());
        }
    }
}

#[test]
fn a_key_copies_only_from_what_it_may_read_whatever_the_name() {
    let keys = ServerKeys::parse("alice secret write bucket\n").unwrap();
    let fixture = serve(|config| config.authentication = Authentication::Keys(keys));
    fs::create_dir(fixture.directory.path().join("Data")).unwrap();
    fs::write(fixture.directory.path().join("Data/secret"), "TOP-SECRET").unwrap();
    let refused = s3(&fixture, true, "PUT", "/bucket/copy", &[("x-amz-copy-source", "/Data/secret")]);
    assert_eq!(refused.status, 403);
    assert!(!fixture.directory.path().join("bucket/copy").exists());
}

#[test]
fn keys_that_could_not_be_asked_for_are_not_listed_and_control_characters_are_encoded() {
    let fixture = serve(|_| {});
    let bucket = fixture.directory.path().join("bucket");
    let long = "n".repeat(250);
    let deep = bucket.join(&long).join(&long).join(&long).join(&long);
    fs::create_dir_all(&deep).unwrap();
    for name in ["n".repeat(20), "n".repeat(21)] {
        fs::write(deep.join(name), "").unwrap();
    }
    fs::write(bucket.join("a\u{1}b"), "").unwrap();
    let mut client = Client::new(&fixture.server);
    let listed = client.ask("GET", "/bucket?list-type=2&encoding-type=url", S3, b"").text();
    assert_eq!(listed.matches("<Key>").count(), 2, "{listed}");
    // If the response had an unescaped carriage return, a parser would read it as a line feed.
    fs::write(bucket.join("c\rd"), "").unwrap();
    let bare = client.ask("GET", "/bucket?list-type=2&prefix=c", S3, b"").text();
    assert!(bare.contains("<Key>c&#13;d</Key>"), "{bare}");
    fs::remove_file(bucket.join("c\rd")).unwrap();
    assert!(listed.contains("<Key>a%01b</Key>"), "{listed}");
    assert_eq!(client.ask("POST", "/bucket/a%01b?uploads", S3, b"").status, 200);
    let uploads = client.ask("GET", "/bucket?uploads&encoding-type=url&prefix=a%01", S3, b"");
    assert_eq!(element(&uploads, "Key").as_deref(), Some("a%01b"), "{}", uploads.text());
    assert_eq!(element(&uploads, "Prefix").as_deref(), Some("a%01"));
    assert_eq!(element(&uploads, "EncodingType").as_deref(), Some("url"));
}

#[test]
fn a_session_is_of_one_port_and_its_answers_are_for_no_other_user() {
    let fixture = serve(with_keys);
    let path = fixture.directory.path().join("bucket/f");
    fs::write(&path, "x").unwrap();
    let mut client = Client::new(&fixture.server);
    let welcome = client.ask("POST", "/.firstbyte/login", "", b"key=alice&secret=secret&next=/");
    let cookie = welcome.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let port = fixture.server.address().port();
    assert!(cookie.starts_with(&format!("firstbyte_session_{port}=")), "{cookie}");
    let session = format!("Cookie: firstbyte_session=old; {cookie}\r\n");
    let answer = client.ask("GET", "/bucket/f", &session, b"");
    assert_eq!((answer.status, answer.header("cache-control")), (200, Some("private")));
    let shared = [("cache-control", "public, max-age=60, s-maxage=9, Private")];
    assert_eq!(s3(&fixture, true, "PUT", "/bucket/g", &shared).status, 200);
    let answer = client.ask("GET", "/bucket/g", &session, b"");
    assert_eq!(answer.header("cache-control"), Some("private, max-age=60"));
    // S3 clients get the value exactly as it was stored.
    let stored = s3(&fixture, true, "GET", "/bucket/g", &[]);
    assert_eq!(stored.header("cache-control"), Some("public, max-age=60, s-maxage=9, Private"));
    assert!(fs::metadata(&path).unwrap().ino() > 0);
}

#[test]
fn what_a_delivery_network_adds_changes_no_answer() {
    let added = "X-Amz-Cf-Id: x\r\nX-Amz-Cf-Pop: y\r\n";
    let fixture = serve(with_keys);
    fs::write(fixture.directory.path().join("bucket/f"), "x").unwrap();
    let mut client = Client::new(&fixture.server);
    let basic = "Authorization: Basic YWxpY2U6c2VjcmV0\r\n";
    for (target, headers) in [
        ("/bucket/", format!("{basic}Accept: text/html\r\n")),
        ("/bucket/", basic.to_owned()),
        ("/bucket/f", basic.to_owned()),
        (&Signed::new("GET", "/bucket/f").presigned(), String::new()),
    ] {
        let without = client.ask("GET", target, &headers, b"");
        let with = client.ask("GET", target, &format!("{headers}{added}"), b"");
        assert_eq!((without.status, with.status), (200, 200), "{target}: {}", with.text());
        assert_eq!(without.body, with.body, "{target}");
    }
    let (target, lines) = Signed::new("PUT", "/bucket/new").by_header();
    assert_eq!(client.ask("PUT", &target, &format!("{lines}{added}"), b"x").status, 200);
}
