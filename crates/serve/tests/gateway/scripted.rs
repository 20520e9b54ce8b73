//! Tests origins that answer in ways in which real servers seldom do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use firstbyte_testkit::{Scripted, ScriptedReply};

use crate::client::S3;
use crate::origin::{Gateway, Plan, version};

/// Makes a reply whose length is not stated: in chunks, or up to the end of the connection.
fn of_unknown_length(chunked: bool, headers: &[&str], head: &str, content: &[u8]) -> ScriptedReply {
    let (framing, body) = match chunked {
        true => {
            let size = format!("{:x}\r\n", content.len());
            ("transfer-encoding: chunked", [size.as_bytes(), content, b"\r\n0\r\n\r\n"].concat())
        }
        false => ("connection: close", content.to_vec()),
    };
    let body = if head.starts_with("HEAD") { Vec::new() } else { body };
    let reply = ScriptedReply::raw("200 OK", &[headers, &[framing]].concat(), &body);
    if chunked { reply } else { reply.then_close() }
}

#[test]
fn an_object_of_unknown_length_is_a_stream_and_never_empty() {
    let content = version(4, 300_000);
    let date = "last-modified: Sun, 06 Nov 1994 08:49:37 GMT";
    for headers in [&[][..], &["etag: \"strong\""], &["etag: W/\"weak\""], &[date]] {
        for chunked in [true, false] {
            let body = content.clone();
            let sent = headers.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
            let origin = Scripted::start(move |_, head| {
                let sent: Vec<&str> = sent.iter().map(String::as_str).collect();
                of_unknown_length(chunked, &sent, head, &body)
            });
            let web = Gateway::of_web(&origin, Plan::default());
            let store = Gateway::of_store(&origin, &Plan::default());
            for (gateway, path) in [(&web, "/dir/x"), (&store, "/bucket/x")] {
                for api in ["", S3] {
                    for range in ["", "Range: bytes=10-19\r\n", "Range: bytes=400000-\r\n"] {
                        let found = gateway.get(path, &format!("{api}{range}"));
                        let case = format!("{path} {headers:?} {chunked} {api}{range}: {}", found.head);
                        assert_eq!(found.status, 200, "{case}{}", found.text());
                        assert!(found.body == content, "{case}: {} bytes", found.body.len());
                        assert_eq!(found.header("accept-ranges"), Some("none"), "{case}");
                    }
                    let head = gateway.ask("HEAD", path, api);
                    assert_eq!((head.status, head.header("content-length")), (200, None), "{}", head.head);
                }
            }
        }
    }
}

#[test]
fn a_list_states_no_size_that_the_origin_does_not_state() {
    let page = b"<html><title>Index of /dir/</title><h1>Index of /dir/</h1><a href=\"x\">x</a></html>";
    let origin = Scripted::start(move |_, head| match head.contains(" /dir/ ") {
        true => ScriptedReply::answer("200 OK", &["content-type: text/html"], page),
        false => of_unknown_length(true, &["content-type: text/csv"], head, b"content"),
    });
    let gateway = Gateway::of_web(&origin, Plan::default());
    let listed = gateway.get("/dir?list-type=2", S3).text();
    assert!(listed.contains("<Key>x</Key>") && !listed.contains("<Size>"), "{listed}");
    let rows = gateway.get("/dir/?format=ndjson", "").text();
    assert!(rows.contains("\"name\":\"x\"") && rows.contains("\"size\":null"), "{rows}");
    let shown = gateway.get("/dir/", "Accept: text/html\r\n").text();
    assert!(shown.contains("/dir/x\""), "{shown}");
}

/// An object store with versions of one object. The version `null` is overwritten in place after
/// its first read.
fn versioned_store() -> Scripted {
    let reads = AtomicUsize::new(0);
    Scripted::start(move |_, head| {
        let content: &[u8] = match head.contains("versionId=null") {
            true if reads.load(Ordering::SeqCst) == 0 => b"the null version",
            true => b"its overwritten content",
            false => b"the newest version",
        };
        if head.starts_with("GET") && head.contains("versionId=null") {
            reads.fetch_add(1, Ordering::SeqCst);
        }
        let tag = format!("etag: \"{}\"", content.len());
        let length = format!("content-length: {}", content.len());
        match head.starts_with("HEAD") {
            true => ScriptedReply::raw("200 OK", &[&tag, &length], b""),
            false => part_of(head, &[&tag], content),
        }
    })
}

/// Makes the reply to a GET: the range that `head` names, or the whole content.
fn part_of(head: &str, headers: &[&str], content: &[u8]) -> ScriptedReply {
    let range = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let (first, last) = value.trim().strip_prefix("bytes=")?.split_once('-')?;
        let range = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        name.eq_ignore_ascii_case("range").then_some(range)
    });
    let Some((first, last)) = range else { return ScriptedReply::answer("200 OK", headers, content) };
    let end = content.len().min(last + 1);
    let stated = format!("content-range: bytes {first}-{}/{}", end - 1, content.len());
    ScriptedReply::answer("206 Partial Content", &[headers, &[&stated]].concat(), &content[first..end])
}

#[test]
fn the_number_of_tags_is_the_origins() {
    let origin = Scripted::start(|_, head| {
        let headers = ["etag: \"e\"", "x-amz-tagging-count: 2"];
        match head.starts_with("HEAD") {
            true => ScriptedReply::raw("200 OK", &[&headers[..], &["content-length: 7"]].concat(), b""),
            false => part_of(head, &headers, b"content"),
        }
    });
    let gateway = Gateway::of_store(&origin, &Plan::default());
    for method in ["HEAD", "GET"] {
        assert_eq!(gateway.ask(method, "/bucket/k", S3).header("x-amz-tagging-count"), Some("2"), "{method}");
    }
}

#[test]
fn the_null_version_is_what_the_origin_has_of_it_and_not_the_newest_one() {
    let origin = versioned_store();
    let gateway = Gateway::of_store(&origin, &Plan { fresh: Duration::ZERO, ..Plan::default() });
    let null = gateway.get("/bucket/k?versionId=null", S3);
    assert_eq!(null.text(), "the null version");
    assert_eq!(null.header("x-amz-version-id"), Some("null"));
    assert_eq!(gateway.get("/bucket/k?versionId=null", S3).text(), "its overwritten content");
    assert_eq!(gateway.get("/bucket/k", S3).text(), "the newest version");
}

#[test]
fn a_store_without_versions_has_the_version_null_only() {
    let content = b"content";
    let origin = Scripted::start(move |_, head| match head.starts_with("HEAD") {
        true => ScriptedReply::raw("200 OK", &["etag: \"a\"", "content-length: 7"], b""),
        false => part_of(head, &["etag: \"a\""], content),
    });
    let gateway = Gateway::of_web(&origin, Plan::default());
    assert_eq!(gateway.get("/dir/k?versionId=null", S3).text(), "content");
    let other = gateway.get("/dir/k?versionId=7", S3);
    assert!(other.status == 404 && other.text().contains("NoSuchVersion"), "{}", other.text());
}

#[test]
fn a_version_that_is_deleted_at_the_origin_is_not_served_after_the_time_of_fresh() {
    let deleted = Arc::new(AtomicBool::new(false));
    let is_deleted = Arc::clone(&deleted);
    let origin = Scripted::start(move |_, head| {
        let headers = ["etag: \"a\"", "x-amz-version-id: v1"];
        match head.starts_with("HEAD") {
            _ if is_deleted.load(Ordering::SeqCst) => ScriptedReply::answer("404 Not Found", &[], b""),
            true => ScriptedReply::raw("200 OK", &[&headers[..], &["content-length: 7"]].concat(), b""),
            false => part_of(head, &headers, b"content"),
        }
    });
    let eager = Gateway::of_store(&origin, &Plan { fresh: Duration::ZERO, ..Plan::default() });
    let calm = Gateway::of_store(&origin, &Plan::default());
    for gateway in [&eager, &calm] {
        assert_eq!(gateway.get("/bucket/k?versionId=v1", S3).text(), "content");
    }
    deleted.store(true, Ordering::SeqCst);
    let gone = eager.get("/bucket/k?versionId=v1", S3);
    assert!(gone.status == 404 && gone.text().contains("NoSuchVersion"), "{}", gone.text());
    assert_eq!(calm.get("/bucket/k?versionId=v1", S3).text(), "content");
}

#[test]
fn an_object_that_the_origin_fails_for_does_not_take_others_down() {
    for status in ["500 Internal Server Error", "503 Service Unavailable", "429 Too Many Requests"] {
        let origin = Scripted::start(move |_, head| match head.starts_with("HEAD") {
            _ if head.contains("/bad") => ScriptedReply::answer(status, &[], b""),
            true => ScriptedReply::raw("200 OK", &["etag: \"a\"", "content-length: 7"], b""),
            false => part_of(head, &["etag: \"a\""], b"content"),
        });
        let gateway = Gateway::of_store(&origin, &Plan { fresh: Duration::ZERO, ..Plan::default() });
        assert_eq!(gateway.get("/bucket/known", "").status, 200);
        for api in ["", S3] {
            let bad = gateway.get("/bucket/bad", api);
            assert_eq!((bad.status, bad.header("retry-after")), (503, Some("5")), "{}", bad.text());
            for key in ["known", "new"] {
                let found = gateway.get(&format!("/bucket/{key}"), api);
                assert_eq!((found.status, found.text().as_str()), (200, "content"), "{status} {key}");
                assert_eq!(found.header("x-firstbyte-stale"), None, "{status} {key}");
            }
        }
    }
}

#[test]
fn a_permanent_refusal_of_the_origin_keeps_its_status_and_code() {
    let origin = Scripted::start(move |_, head| {
        let status =
            ["400 Bad Request", "405 Method Not Allowed", "410 Gone", "451 Unavailable For Legal Reasons"];
        let Some(status) = status.into_iter().find(|status| head.contains(&format!("/st{}", &status[..3])))
        else {
            let empty = b"<ListBucketResult><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>";
            return ScriptedReply::answer("200 OK", &["content-type: application/xml"], empty);
        };
        let body: &[u8] = match head.starts_with("HEAD") {
            true => b"",
            false => b"<Error><Code>InvalidRequest</Code><Message>m</Message></Error>",
        };
        ScriptedReply::answer(status, &["content-type: application/xml"], body)
    });
    let gateway = Gateway::of_store(&origin, &Plan::default());
    for (key, status, code) in [
        ("st400", 400, "<Code>InvalidRequest</Code>"),
        ("st405", 405, "<Code>InvalidRequest</Code>"),
        ("st410", 404, "<Code>NoSuchKey</Code>"),
        ("st451", 451, "<Code>UnavailableForLegalReasons</Code>"),
    ] {
        let refused = gateway.get(&format!("/bucket/{key}"), S3);
        assert!(refused.status == status && refused.text().contains(code), "{key}: {}", refused.text());
        assert_eq!(gateway.get(&format!("/bucket/{key}"), "").status, status, "{key}");
        assert_eq!(gateway.ask("HEAD", &format!("/bucket/{key}"), S3).status, status, "{key}");
    }
}
