//! Tests that stored documents run in a separate origin, for every kind of request.

use firstbyte_serve::{Authentication, Config, ServerKeys, WritePolicy};

use crate::client::{Answer, Client, Fixture, serve};
use crate::signing::Signed;

fn documents(configure: impl FnOnce(&mut Config)) -> Fixture {
    let fixture = serve(configure);
    let at = |name: &str| fixture.directory.path().join("bucket").join(name);
    let script = "<script>alert(1)</script>";
    for name in ["page.html", "image.svg", "feed.xml", "notes.txt", "page.xhtml", "unknown"] {
        std::fs::write(at(name), script).unwrap();
    }
    fixture
}

#[track_caller]
fn is_fenced(answer: &Answer, what: &str) {
    let policy = answer.header("content-security-policy").unwrap_or_default();
    let own_page = policy.starts_with("default-src 'none'");
    assert!(policy.starts_with("sandbox") || own_page, "{what}: {} {}", answer.status, answer.head);
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{what}: {}", answer.head);
    assert!(!policy.contains("allow-same-origin"), "{what}: {policy}");
}

#[test]
fn every_way_to_a_stored_document_leads_to_an_origin_of_its_own() {
    let fixture = documents(|_| {});
    let mut client = Client::new(&fixture.server);
    let amz = "x-amz-date: 20260101T000000Z\r\n";
    for name in ["page.html", "image.svg", "feed.xml"] {
        let path = format!("/bucket/{name}");
        for (method, target, headers) in [
            ("GET", path.clone(), ""),
            ("HEAD", path.clone(), ""),
            ("GET", path.clone(), "Range: bytes=0-7\r\n"),
            ("GET", path.clone(), amz),
            ("HEAD", path.clone(), amz),
            ("GET", path.clone(), "x-amz-date: x\r\nRange: bytes=0-7\r\n"),
            ("GET", format!("{path}?x-id=GetObject"), ""),
            ("GET", format!("{path}?X-Amz-Signature=0"), ""),
        ] {
            let answer = client.ask(method, &target, headers, b"");
            assert_eq!(answer.status / 100, 2, "{method} {target}");
            is_fenced(&answer, &format!("{method} {target} {headers}"));
        }
    }
    let asked = "/bucket/notes.txt?x-id=GetObject&response-content-type=text/html";
    is_fenced(&client.ask("GET", asked, "", b""), asked);
    let stored = "x-amz-date: x\r\nContent-Type: application/xhtml+xml\r\n";
    assert_eq!(client.ask("PUT", "/bucket/stored.txt", stored, b"<html/>").status, 200);
    is_fenced(&client.ask("GET", "/bucket/stored.txt", amz, b""), "stored type, S3");
    is_fenced(&client.ask("GET", "/bucket/stored.txt", "", b""), "stored type, plain");
}

#[test]
fn errors_are_no_documents_of_this_origin_either() {
    let fixture = documents(|_| {});
    let mut client = Client::new(&fixture.server);
    for target in ["/bucket/missing?x-id=GetObject", "/missing?list-type=2", "/bucket?list-type=2"] {
        let answer = client.ask("GET", target, "", b"");
        assert_eq!(answer.header("content-type"), Some("application/xml"), "{target}");
        is_fenced(&answer, target);
    }
    for target in ["/missing", "/bucket/missing", "/.firstbyte/missing"] {
        let answer = client.ask("GET", target, "", b"");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{target}");
    }
}

#[test]
fn a_presigned_url_cannot_turn_a_stored_text_into_a_page_of_this_origin() {
    let keys = ServerKeys::parse("alice secret write\n").unwrap();
    let fixture = documents(|config| config.authentication = Authentication::Keys(keys));
    let mut client = Client::new(&fixture.server);
    let html = [("response-content-type", "text/html")];
    let url = Signed { query: &html, ..Signed::new("GET", "/bucket/notes.txt") }.presigned();
    let answer = client.ask("GET", &url, "", b"");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/html")));
    is_fenced(&answer, "presigned");
}

#[test]
fn on_a_read_only_server_without_keys_a_report_keeps_its_origin_and_a_chosen_type_does_not() {
    let fixture = documents(|config| config.writing = WritePolicy::Refused);
    let mut client = Client::new(&fixture.server);
    let report = client.ask("GET", "/bucket/page.html", "", b"");
    assert_eq!(report.header("content-security-policy"), None);
    assert_eq!(report.header("x-content-type-options"), Some("nosniff"));
    let chosen = "/bucket/notes.txt?x-id=GetObject&response-content-type=text/html";
    is_fenced(&client.ask("GET", chosen, "", b""), chosen);
}
