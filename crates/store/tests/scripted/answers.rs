//! Tests responses over plain HTTP: a read returns every byte of the pinned version, or an error
//! with the reason.

use std::os::unix::fs::FileExt;
use std::time::Duration;

use firstbyte_location::{ByteRange, EntryKind, Location, Version};
use firstbyte_store::{
    Body, Cancel, Error, Get, ListOptions, Payload, PutOptions, Result, Store, StoreOptions,
};
use firstbyte_testkit::{Scripted, ScriptedReply};

use crate::server::{Server, Step, deadline, part, refusal, whole};

fn read(mut body: Body) -> Result<String> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 5];
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

fn get(script: Vec<Step>, get: &Get) -> Result<String> {
    let server = Server::start(script);
    server.store().get(&server.url("/x"), get).and_then(read)
}

fn one(text: String, get_: &Get) -> Result<String> {
    get(vec![Step::Close(text)], get_)
}

#[test]
fn the_error_of_a_truncated_body_has_the_number_of_missing_bytes() {
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc".to_owned();
    let Err(Error::Truncated { missing: 7, .. }) = one(cut.clone(), &Get::default()) else { panic!() };
    let server = Server::start(vec![Step::Close(cut)]);
    let mut body = server.store().get(&server.url("/x"), &Get::default()).unwrap();
    let sink = firstbyte_store::Sink::new(tempfile::tempfile().unwrap());
    let mut told = 0;
    let moved = body.write_to(&sink, 0, u64::MAX, &mut [0; 64], None, &mut |count| told += count);
    assert!(matches!(moved, Err(Error::Truncated { missing: 7, .. })), "{moved:?}");
    assert_eq!((told, sink.file().metadata().unwrap().len()), (3, 3));
}

#[test]
fn a_chunked_body_that_ends_early_or_late_is_an_error() {
    let chunked = |body: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
    assert_eq!(one(chunked("3\r\nabc\r\n0\r\n\r\n"), &Get::default()).unwrap(), "abc");
    assert!(matches!(one(chunked("3\r\nabc\r\n"), &Get::default()), Err(Error::Disconnected { .. })));
    assert!(matches!(one(chunked("z\r\n"), &Get::default()), Err(Error::Protocol { .. })));
    let part = |body: &str| {
        format!(
            "HTTP/1.1 206 P\r\nContent-Range: bytes 2-4/9\r\nTransfer-Encoding: chunked\r\n\r\n{body}0\r\n\r\n"
        )
    };
    assert_eq!(one(part("3\r\ncde\r\n"), &range(2, 5)).unwrap(), "cde");
    assert!(matches!(one(part("2\r\ncd\r\n"), &range(2, 5)), Err(Error::Truncated { missing: 1, .. })));
    assert!(matches!(one(part("4\r\ncdef\r\n"), &range(2, 5)), Err(Error::Protocol { .. })));
}

#[test]
fn a_range_other_than_the_requested_one_is_refused() {
    assert_eq!(one(part("bytes 2-4/9", "", "cde"), &range(2, 5)).unwrap(), "cde");
    assert_eq!(one(part("bytes 6-8/9", "", "ghi"), &range(6, 99)).unwrap(), "ghi");
    for (lie, body) in [
        ("bytes 1-3/9", "bcd"),
        ("bytes 2-3/9", "cd"),
        ("bytes 2-4/9", "cdefg"),
        ("bytes 2-4/3", "cde"),
        ("bytes 4-2/9", "cde"),
        ("bytes two", "cde"),
    ] {
        assert!(matches!(one(part(lie, "", body), &range(2, 5)), Err(Error::Protocol { .. })), "{lie}");
    }
}

#[test]
fn a_whole_object_in_response_to_a_range_is_accepted_only_from_its_start() {
    let server = Server::start(vec![Step::Close(whole("", "abcdef"))]);
    let body = server.store().get(&server.url("/x"), &range(0, 3)).unwrap();
    assert_eq!(body.range(), ByteRange::new(0, 6));
    assert_eq!(read(body).unwrap(), "abcdef");
    assert!(matches!(one(whole("", "abcdef"), &range(3, 6)), Err(Error::RangeIgnored { .. })));
}

#[test]
fn a_range_after_the_end_is_an_error() {
    let short = refusal("416 Range Not Satisfiable", "Content-Range: bytes */5\r\n", "no");
    let error = one(short, &range(7, 9)).unwrap_err();
    assert!(matches!(error, Error::PastEnd { start: 7, size: Some(5), .. }), "{error}");
    assert_eq!(error.kind(), firstbyte_store::FailureKind::BadInput);
    let false_refusal = refusal("416 Range Not Satisfiable", "Content-Range: bytes */5\r\n", "no");
    assert!(matches!(one(false_refusal, &range(2, 4)), Err(Error::RangeIgnored { .. })));
}

#[test]
fn a_changed_object_is_an_error_that_names_both_versions() {
    let pinned = Version { size: Some(6), etag: Some("\"a\"".into()), ..Version::default() };
    let asked = Get { version: Some(pinned), ..range(2, 4) };
    for found in [part("bytes 2-3/6", "ETag: \"b\"\r\n", "cd"), part("bytes 2-3/7", "ETag: \"a\"\r\n", "cd")]
    {
        let error = one(found, &asked).unwrap_err();
        assert!(matches!(error, Error::Changed { .. }), "{error}");
    }
    let server = Server::start(vec![
        Step::Keep(refusal("412 Precondition Failed", "", "")),
        Step::Close("HTTP/1.1 200 OK\r\nETag: \"new\"\r\nContent-Length: 6\r\n\r\n".to_owned()),
    ]);
    let error = server.store().get(&server.url("/x"), &asked).err().unwrap().to_string();
    assert!(server.heads()[0].contains("if-match: \"a\"\r\n"));
    assert!(error.contains("\"a\"") && error.contains("\"new\""), "{error}");
}

#[test]
fn two_tags_for_one_length_and_date_are_named_with_advice() {
    let date = "Last-Modified: Fri, 02 Jan 2026 03:04:05 GMT\r\n";
    let pinned = Version {
        size: Some(6),
        etag: Some("\"n0\"".into()),
        last_modified: Some("Fri, 02 Jan 2026 03:04:05 GMT".into()),
        ..Version::default()
    };
    let asked = Get { version: Some(pinned), ..range(2, 4) };
    let error = one(part("bytes 2-3/6", &format!("ETag: \"n1\"\r\n{date}"), "cd"), &asked).unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error}");
    assert!(error.to_string().contains("the ETag varies (\"n0\", \"n1\")"), "{error}");
    assert!(error.advice().unwrap().contains("firstbyte cat"), "{:?}", error.advice());
}

#[test]
fn a_server_that_refuses_its_own_tag_is_asked_without_a_condition_and_still_checked() {
    let server = Server::answering(|head| match head {
        _ if head.contains("if-match:") => refusal("412 Precondition Failed", "", ""),
        _ if head.starts_with("HEAD") => {
            "HTTP/1.1 200 OK\r\nETag: \"a\"\r\nContent-Length: 6\r\n\r\n".to_owned()
        }
        _ if head.contains("bytes=4-5") => part("bytes 4-5/6", "ETag: \"b\"\r\n", "ef"),
        _ => part("bytes 2-3/6", "ETag: \"a\"\r\n", "cd"),
    });
    let pinned = Version { size: Some(6), etag: Some("\"a\"".into()), ..Version::default() };
    for object in [server.url("/x"), Location::parse("s3://bucket/x".as_ref()).unwrap()] {
        let store = server.store();
        let before = server.heads().len();
        let get = |start, end| {
            let get = Get { version: Some(pinned.clone()), ..range(start, end) };
            store.get(&object, &get).and_then(read)
        };
        assert_eq!((get(2, 4).unwrap(), get(2, 4).unwrap()), ("cd".to_owned(), "cd".to_owned()));
        assert_eq!(server.heads().len() - before, 4, "a refusal, HEAD, and two reads without a condition");
        assert!(matches!(get(4, 6), Err(Error::Changed { .. })), "of another version");
    }
}

#[test]
fn a_response_with_the_beginning_of_the_range_is_followed_by_requests_for_the_rest() {
    let content = "abcdefghi";
    // The server sends two bytes at most per response, and has another version for offsets from
    // `changed` on.
    let start = |tag: &'static str, changed: usize| {
        Server::answering(move |head| {
            let (first, last) =
                head.split("bytes=").nth(1).unwrap().split("\r\n").next().unwrap().split_once('-').unwrap();
            let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap_or(8));
            let last = last.min(first + 1).min(8);
            let tag = if first >= changed { "ETag: \"other\"\r\n" } else { tag };
            part(&format!("bytes {first}-{last}/9"), tag, &content[first..=last])
        })
    };
    let tagged = start("ETag: \"a\"\r\n", 99);
    for (asked, want) in [((0, 9), content), ((2, 7), "cdefg"), ((4, 5), "e"), ((5, u64::MAX), "fghi")] {
        let body = tagged.store().get(&tagged.url("/x"), &range(asked.0, asked.1)).unwrap();
        assert_eq!(body.range().len(), want.len() as u64);
        assert_eq!(read(body).unwrap(), want);
    }
    let mut body = tagged.store().get(&tagged.url("/x"), &range(1, 8)).unwrap();
    let sink = firstbyte_store::Sink::new(tempfile::tempfile().unwrap());
    let mut reported = 0;
    body.write_to(&sink, 0, 6, &mut [0; 64], None, &mut |count| reported += count).unwrap();
    let mut written = [0; 6];
    sink.file().read_exact_at(&mut written, 0).unwrap();
    assert_eq!((&written, reported), (b"bcdefg", 6));
    // Two versions are never mixed. Content without a version is not continued, because the rest
    // could belong to other content.
    let changing = start("ETag: \"a\"\r\n", 4);
    let body = changing.store().get(&changing.url("/x"), &range(0, 9)).unwrap();
    assert!(matches!(read(body), Err(Error::Changed { .. })));
    let untagged = start("", 99);
    let error = untagged.store().get(&untagged.url("/x"), &range(0, 9)).err().unwrap();
    assert!(matches!(error, Error::Protocol { .. }), "{error}");
}

#[test]
fn a_read_from_a_silent_server_fails_after_the_deadline() {
    for text in
        [String::new(), "HTTP/1.1 200 OK\r\nContent-Le".to_owned(), whole("", "abc").replace("abc", "a")]
    {
        let error = get(vec![Step::Stall(text)], &Get::default()).unwrap_err();
        assert!(matches!(error, Error::TimedOut { after, .. } if after == deadline()), "{error}");
    }
}

#[test]
fn cancelling_ends_a_waiting_read() {
    let server = Server::start(vec![Step::Stall("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na".to_owned())]);
    let cancel = Cancel::new();
    let mut body =
        server.store().get(&server.url("/x"), &Get { cancel: cancel.clone(), ..Get::default() }).unwrap();
    assert_eq!(body.read(&mut [0; 1]).unwrap(), 1);
    let reader = std::thread::spawn(move || body.read(&mut [0; 8]));
    cancel.cancel();
    assert!(matches!(reader.join().unwrap(), Err(Error::Cancelled)));
    assert!(matches!(
        server.store().get(&server.url("/x"), &Get { cancel, ..Get::default() }),
        Err(Error::Cancelled)
    ));
}

#[test]
fn at_most_ten_redirects_are_followed() {
    let to = |target: &str| Step::Keep(refusal("302 Found", &format!("Location: {target}\r\n"), "moved"));
    let server = Server::start(vec![to("/b/c"), to("d?e"), Step::Close(whole("", "abc"))]);
    assert_eq!(server.store().get(&server.url("/x"), &Get::default()).and_then(read).unwrap(), "abc");
    let targets: Vec<_> =
        server.heads().iter().map(|head| head.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(targets, ["/x", "/b/c", "/b/d?e"]);
    let error = get((0..12).map(|_| to("/again")).collect(), &Get::default()).unwrap_err();
    assert!(error.to_string().contains("redirects"), "{error}");
    // If the target of a redirect is unreachable, only this object fails.
    let error = get(vec![to("http://127.0.0.1:1/x")], &Get::default()).unwrap_err();
    assert!(error.to_string().contains("redirected to 127.0.0.1:1"), "{error}");
    assert!(!error.concerns_store());
}

#[test]
fn a_request_on_a_closed_connection_is_sent_again() {
    let server = Server::start(vec![Step::Close(whole("", "abc")), Step::Close(whole("", "def"))]);
    let store = server.store();
    assert_eq!(store.get(&server.url("/x"), &Get::default()).and_then(read).unwrap(), "abc");
    assert_eq!(store.get(&server.url("/x"), &Get::default()).and_then(read).unwrap(), "def");
    // The close is seen before the second request is sent, or by that request.
    assert!(store.counters().retries <= 1);
}

#[test]
fn a_connection_is_reused_only_after_its_body_was_read_completely() {
    let server = Server::start(vec![
        Step::Keep(whole("", "abc")),
        Step::Keep(whole("", "def")),
        Step::Close(whole("", "ghi")),
    ]);
    let store = server.store();
    assert_eq!(store.get(&server.url("/1"), &Get::default()).and_then(read).unwrap(), "abc");
    drop(store.get(&server.url("/2"), &Get::default()).unwrap());
    assert_eq!(store.get(&server.url("/3"), &Get::default()).and_then(read).unwrap(), "ghi");
    assert_eq!((store.counters().requests, store.counters().retries), (3, 0));
}

#[test]
fn responses_that_are_not_http_are_refused() {
    for text in
        ["SSH-2.0-OpenSSH_9\r\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"]
    {
        let error = one(text.to_owned(), &Get::default()).unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{text}: {error}");
    }
}

#[test]
fn an_upload_is_retried_if_the_server_is_busy() {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(b"0123456789", 0).unwrap();
    let server = Server::start(vec![
        Step::Close(refusal("503 Busy", "Retry-After: 0\r\n", "")),
        Step::Close(whole("ETag: \"e\"\r\n", "")),
    ]);
    let payload = Payload::File(&file, ByteRange::new(2, 7));
    let written = server.store().put(&server.url("/up"), payload, &PutOptions::default()).unwrap();
    assert_eq!(written.version.etag.as_deref(), Some("\"e\""));
    assert_eq!(server.bodies(), ["23456", "23456"]);
}

#[test]
fn a_server_may_work_on_what_it_got_for_longer_than_the_deadline() {
    let server = Scripted::start(|_, _| {
        std::thread::sleep(deadline() + Duration::from_secs(1));
        ScriptedReply::answer("200 OK", &["ETag: \"e\""], b"")
    });
    let options = StoreOptions { read_deadline: deadline(), retries: 0, ..StoreOptions::default() };
    let store = Store::new(options).unwrap();
    let at = Location::parse(format!("{}/up", server.url()).as_ref()).unwrap();
    // The size of the payload adds four seconds to the deadline. The server takes one second.
    let payload = vec![7; 32 << 20];
    store.put(&at, Payload::Bytes(&payload), &PutOptions::default()).unwrap();
    // A few bytes add nothing to the deadline.
    let error = store.put(&at, Payload::Bytes(b"few"), &PutOptions::default()).unwrap_err();
    assert!(matches!(error, Error::TimedOut { after, .. } if after == deadline()), "{error}");
}

#[test]
fn the_password_of_a_url_is_sent_and_not_shown() {
    let server = Server::start(vec![Step::Close(refusal("401 Unauthorized", "", ""))]);
    let text = format!("http://user:secret@{}/x", server.address());
    let location = Location::parse(text.as_ref()).unwrap();
    let error = server.store().get(&location, &Get::default()).err().unwrap();
    assert!(matches!(error, Error::Denied { .. }) && !error.to_string().contains("secret"), "{error}");
    assert!(server.heads()[0].contains("authorization: Basic dXNlcjpzZWNyZXQ=\r\n"));
}

#[test]
fn directory_pages_of_other_servers_are_parsed_by_their_links() {
    let page = r#"<a href="../">../</a><A HREF=a%20b>x</A> <a href="sub/">sub/</a><a href="?C=N">n</a><a href="/elsewhere">e</a>
        <a href="https://example.org/">far</a><a href='q&amp;r'>q</a><a href="dir">dir</a>"#;
    let below = r#"<a href="/d">up</a><a href="deep">deep</a>"#;
    let server = Server::answering(move |head| {
        let html = |text| whole("Content-Type: text/html\r\n", text);
        match head.split(' ').nth(1).unwrap() {
            "/d/" => html(page),
            "/d/sub/" | "/d/dir/" if head.starts_with("GET") => html(below),
            "/d/dir/" => whole("Content-Type: text/html\r\n", ""),
            "/d/dir" => refusal("301 Moved Permanently", "Location: dir/\r\n", ""),
            _ => "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n".to_owned(),
        }
    });
    let options = ListOptions { recursive: true, ..ListOptions::default() };
    let entries: Result<Vec<_>> = server.store().list(&server.url("/d"), &options).unwrap().collect();
    let entries: Vec<_> = entries
        .unwrap()
        .into_iter()
        .map(|entry| (String::from_utf8(entry.name).unwrap(), entry.size))
        .collect();
    let wanted = ["a b", "dir/deep", "q&r", "sub/deep"].map(|name| (name.to_owned(), Some(7)));
    assert_eq!(entries, wanted);
}

#[test]
fn a_page_without_names_is_no_tree_and_within_a_tree_it_is_an_error_of_its_directory() {
    let listed = |pages: &'static [(&str, &str)], recursive| {
        let server = Server::answering(move |head| {
            let path = head.split(' ').nth(1).unwrap();
            match pages.iter().find(|(known, _)| *known == path) {
                Some((_, text)) => whole("Content-Type: text/html\r\n", text),
                None => whole("", ""),
            }
        });
        let options = ListOptions { recursive, ..ListOptions::default() };
        match server.store().list(&server.url("/"), &options) {
            Ok(listing) => listing.map(|entry| entry.map(|entry| entry.name).map_err(drop)).collect(),
            Err(_) => vec![Err(())],
        }
    };
    let name = |name: &str| Ok(name.as_bytes().to_vec());
    for recursive in [false, true] {
        assert_eq!(
            listed(&[("/", "<h1>Welcome</h1><a href='https://example.org/'>x</a>")], recursive),
            [Err(())]
        );
    }
    assert_eq!(listed(&[("/", "<title>Index of /</title>")], true), [Err(())]);
    assert_eq!(listed(&[("/", "<title>Index of /</title>")], false), []);
    const SITE: &[(&str, &str)] = &[
        ("/", "<a href=a/></a><a href=b></a><a href=c/></a>"),
        ("/a/", "<h1>Welcome</h1>"),
        ("/c/", "<title>Index of /c/</title>"),
    ];
    let site = listed(SITE, true);
    assert_eq!(site, [Err(()), name("b")]);
}

#[test]
fn a_directory_without_a_final_slash_is_recognised_by_its_redirect() {
    let server = Server::start(vec![
        Step::Keep(refusal("301 Moved Permanently", "Location: /dir/\r\n", "")),
        Step::Close(whole("Content-Type: text/html\r\n", "")),
        Step::Close(whole("Content-Type: text/html\r\n", "page")),
    ]);
    assert_eq!(server.store().stat(&server.url("/dir")).unwrap().kind, EntryKind::Directory);
    // A page without a redirect is a file.
    assert_eq!(server.store().stat(&server.url("/page")).unwrap().kind, EntryKind::File);
}

#[test]
fn listings_by_serve_have_sizes_and_times() {
    let lines = concat!(
        r#"{"name":"f","kind":"file","size":3,"modified":"2026-01-02T03:04:05Z"}"#,
        "\n",
        r#"{"name":"d","kind":"directory"}"#,
        "\n"
    );
    let server = Server::start(vec![Step::Close(whole("Content-Type: application/x-ndjson\r\n", lines))]);
    let entries: Result<Vec<_>> =
        server.store().list(&server.url("/"), &ListOptions::default()).unwrap().collect();
    let entries = entries.unwrap();
    assert_eq!(
        (entries[1].size, entries[1].modified.is_some(), entries[0].kind),
        (Some(3), true, EntryKind::Directory)
    );
}
