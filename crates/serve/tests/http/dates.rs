//! Tests times that HTTP dates cannot express, from clients' metadata and set directly on files.

use std::time::{Duration, SystemTime};

use crate::client::{Client, Fixture, serve_in};

const S3: &str = "x-amz-date: 20260101T000000Z\r\n";

/// Starts a server on a file system with 64-bit times. ext4 would clamp the times.
fn serve_in_memory() -> Fixture {
    serve_in(tempfile::tempdir_in("/dev/shm").unwrap(), |_| {})
}

fn every_way_to_ask(client: &mut Client, last_modified: &str) {
    for (method, headers) in [("HEAD", S3), ("GET", S3), ("HEAD", ""), ("GET", "")] {
        let answer = client.ask(method, "/bucket/far", headers, b"");
        assert_eq!(answer.status, 200, "{method} {headers:?}");
        assert_eq!(answer.header("last-modified"), Some(last_modified), "{method} {headers:?}");
    }
    for target in ["/bucket?list-type=2", "/bucket?prefix=", "/bucket/?format=json", "/bucket/?format=ndjson"]
    {
        let answer = client.ask("GET", target, "", b"");
        assert_eq!(answer.status, 200, "{target}");
        assert!(answer.text().contains("far"), "{target}: {}", answer.text());
    }
    assert_eq!(client.ask("GET", "/bucket/", "Accept: text/html\r\n", b"").status, 200);
}

#[test]
fn an_object_from_the_far_future_is_read_and_listed() {
    let fixture = serve_in_memory();
    let mut client = Client::new(&fixture.server);
    for mtime in ["300000000000", "9223372036854775807", "300000000000.999999999"] {
        let sent = format!("{S3}x-amz-meta-mtime: {mtime}\r\n");
        assert_eq!(client.ask("PUT", "/bucket/far", &sent, b"content").status, 200, "{mtime}");
        every_way_to_ask(&mut client, "Fri, 31 Dec 9999 23:59:59 GMT");
        let answer = client.ask("HEAD", "/bucket/far", S3, b"");
        assert_eq!(answer.header("x-amz-meta-mtime"), Some(mtime));
    }
    let json = client.ask("GET", "/bucket/?format=json", "", b"").text();
    assert!(json.contains("9999-12-31T23:59:59"), "{json}");
}

#[test]
fn files_touched_into_the_far_future_and_past_are_read_and_listed() {
    let fixture = serve_in_memory();
    let path = fixture.directory.path().join("bucket/far");
    let far = Duration::from_secs(300_000_000_000);
    let future = SystemTime::UNIX_EPOCH + far;
    let past = SystemTime::UNIX_EPOCH - far;
    for (time, shown) in [(future, "Fri, 31 Dec 9999 23:59:59 GMT"), (past, "Thu, 01 Jan 1970 00:00:00 GMT")]
    {
        std::fs::write(&path, "content").unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        every_way_to_ask(&mut Client::new(&fixture.server), shown);
    }
}

#[test]
fn conditions_with_odd_dates_are_judged_or_ignored() {
    let fixture = serve_in_memory();
    let mut client = Client::new(&fixture.server);
    let sent = format!("{S3}x-amz-meta-mtime: 300000000000\r\n");
    assert_eq!(client.ask("PUT", "/bucket/far", &sent, b"content").status, 200);
    for date in ["Fri, 31 Dec 9999 23:59:59 GMT", "Thu, 01 Jan 0001 00:00:00 GMT", "Sat, 99 Zzz 99999", "-1"]
    {
        for name in ["If-Modified-Since", "If-Unmodified-Since", "If-Range"] {
            let status = client.ask("GET", "/bucket/far", &format!("{name}: {date}\r\n"), b"").status;
            assert!([200, 304, 412].contains(&status), "{name}: {date}: {status}");
        }
    }
    let same = "If-Modified-Since: Fri, 31 Dec 9999 23:59:59 GMT\r\n";
    assert_eq!(client.ask("GET", "/bucket/far", same, b"").status, 304);
}

#[test]
fn a_time_before_1970_is_kept_as_it_was_sent() {
    let fixture = serve_in_memory();
    let mut client = Client::new(&fixture.server);
    let sent = format!("{S3}x-amz-meta-mtime: -5.250000000\r\n");
    assert_eq!(client.ask("PUT", "/bucket/old", &sent, b"content").status, 200);
    let modified =
        std::fs::metadata(fixture.directory.path().join("bucket/old")).unwrap().modified().unwrap();
    assert_eq!(modified, SystemTime::UNIX_EPOCH - Duration::new(5, 250_000_000));
}
