//! Tests origins that answer in ways in which real servers seldom do.

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
