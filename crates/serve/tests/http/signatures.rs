//! Tests which parts of a request a signature must cover, and which signatures are accepted.

use firstbyte_serve::{Authentication, ServerKeys, SignatureVersions};
use time::OffsetDateTime;

use crate::client::{Answer, Client, Fixture, serve};
use crate::signing::{Form, Signed, form, form_version_2, http_date, presigned_version_2, version_2};

fn with_keys() -> Fixture {
    serve_accepting(SignatureVersions::V4Only)
}

fn serve_accepting(signatures: SignatureVersions) -> Fixture {
    let keys = ServerKeys::parse("alice secret write\n").unwrap();
    let fixture = serve(|config| {
        config.authentication = Authentication::Keys(keys);
        config.signatures = signatures;
    });
    std::fs::write(fixture.directory.path().join("bucket/private"), "TOP-SECRET").unwrap();
    fixture
}

fn is_refused(answer: &Answer) -> bool {
    answer.status == 403 && answer.text().contains("<Code>AccessDenied</Code>")
}

#[test]
fn the_holder_of_an_upload_url_cannot_copy_what_its_signer_may_read() {
    let fixture = with_keys();
    let mut client = Client::new(&fixture.server);
    let url = Signed::new("PUT", "/bucket/drop").presigned();
    let copy = client.ask("PUT", &url, "x-amz-copy-source: /bucket/private\r\n", b"");
    assert!(is_refused(&copy), "{} {}", copy.status, copy.text());
    assert!(copy.text().contains("headers present in the request which were not signed"), "{}", copy.text());
    assert!(!fixture.directory.path().join("bucket/drop").exists());
    let part =
        Signed { query: &[("partNumber", "1"), ("uploadId", "00")], ..Signed::new("PUT", "/bucket/drop") };
    let copy = client.ask("PUT", &part.presigned(), "x-amz-copy-source: /bucket/private\r\n", b"");
    assert!(is_refused(&copy), "{} {}", copy.status, copy.text());
    // The URL still allows the PUT for which it was made.
    assert_eq!(client.ask("PUT", &url, "", b"content").status, 200);
}

#[test]
fn no_amz_header_counts_that_the_signature_does_not_cover() {
    let fixture = with_keys();
    let mut client = Client::new(&fixture.server);
    for line in
        ["x-amz-meta-owner: mallory\r\n", "x-amz-copy-source: /bucket/private\r\n", "x-amz-acl: x\r\n"]
    {
        let url = Signed::new("PUT", "/bucket/drop").presigned();
        let answer = client.ask("PUT", &url, line, b"x");
        assert!(is_refused(&answer), "presigned, {line}: {} {}", answer.status, answer.text());
        let (target, signed) = Signed::new("PUT", "/bucket/drop").by_header();
        let answer = client.ask("PUT", &target, &format!("{signed}{line}"), b"x");
        assert!(is_refused(&answer), "by header, {line}: {} {}", answer.status, answer.text());
    }
    assert!(!fixture.directory.path().join("bucket/drop").exists());
    let headers = [("host", "localhost"), ("x-amz-meta-owner", "alice")];
    let with_owner = Signed { headers: &headers, ..Signed::new("PUT", "/bucket/drop") };
    let put = client.ask("PUT", &with_owner.presigned(), "x-amz-meta-owner: alice\r\n", b"x");
    assert_eq!(put.status, 200, "{}", put.text());
    let (target, signed) = with_owner.by_header();
    assert_eq!(client.ask("PUT", &target, &signed, b"x").status, 200);
}

#[test]
fn a_captured_signature_cannot_be_made_to_name_more_than_it_covers() {
    let fixture = with_keys();
    let mut client = Client::new(&fixture.server);
    let (target, signed) = Signed::new("PUT", "/bucket/drop").by_header();
    let source = "x-amz-copy-source: /bucket/private\r\n";
    for (from, to) in [
        ("AWS4-HMAC-SHA256", "Other"),
        ("x-amz-date,", "x-amz-date;x-amz-copy-source ,"),
        ("x-amz-date,", "x-amz-date;x-amz-copy-source\u{e9},"),
        ("host;", "host;\u{e9};"),
        ("Signature=", "SignedHeaders=host;x-amz-copy-source, Signature="),
    ] {
        let changed = signed.replacen(from, to, 1);
        let answer = client.ask("PUT", &target, &format!("{changed}{source}"), b"");
        assert_eq!(answer.status / 100, 4, "{to}: {}", answer.text());
        assert!(!fixture.directory.path().join("bucket/drop").exists(), "{to}");
    }
}

#[test]
fn the_hash_of_a_body_may_come_with_a_presigned_url_and_is_checked() {
    let fixture = with_keys();
    let mut client = Client::new(&fixture.server);
    let url = Signed::new("PUT", "/bucket/drop").presigned();
    let hash = "x-amz-content-sha256: 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881\r\n";
    assert_eq!(client.ask("PUT", &url, hash, b"x").status, 200);
    assert_eq!(client.ask("PUT", &url, hash, b"y").status / 100, 4);
    assert_eq!(std::fs::read(fixture.directory.path().join("bucket/drop")).unwrap(), b"x");
}

#[test]
fn a_signature_must_cover_the_host() {
    let fixture = with_keys();
    let mut client = Client::new(&fixture.server);
    let headers = [("range", "bytes=0-2")];
    let hostless = Signed { headers: &headers, ..Signed::new("GET", "/bucket/private") };
    let answer = client.ask("GET", &hostless.presigned(), "range: bytes=0-2\r\n", b"");
    assert!(is_refused(&answer), "{} {}", answer.status, answer.text());
    let (target, signed) = hostless.by_header();
    assert!(is_refused(&client.ask("GET", &target, &signed, b"")));
}

#[test]
fn a_url_is_good_for_a_week_at_most() {
    let fixture = with_keys();
    let mut client = Client::new(&fixture.server);
    for (expires, status) in [("604800", 200), ("604801", 400), ("31536000", 400)] {
        let signed = Signed { expires, ..Signed::new("GET", "/bucket/private") };
        let answer = client.ask("GET", &signed.presigned(), "", b"");
        assert_eq!(answer.status, status, "{expires}: {}", answer.text());
    }
}

#[test]
fn two_ways_of_signing_at_once_are_refused() {
    let fixture = with_keys();
    let mut client = Client::new(&fixture.server);
    let url = Signed::new("GET", "/bucket/private").presigned();
    let (_, signed) = Signed::new("GET", "/bucket/private").by_header();
    assert_eq!(client.ask("GET", &url, &signed, b"").status, 400);
}

#[test]
fn signature_version_2_is_accepted_only_if_configured_and_only_fresh() {
    let fixture = with_keys();
    let mut client = Client::new(&fixture.server);
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let fresh = version_2("GET", "/bucket/private", &http_date(0));
    let captured = version_2("GET", "/bucket/private", "Tue, 27 Mar 2007 19:36:42 GMT");
    let url = presigned_version_2("GET", "/bucket/private", now + 600);
    for lines in [&fresh, &captured] {
        let answer = client.ask("GET", "/bucket/private", lines, b"");
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(answer.text().contains("AWS4-HMAC-SHA256"), "{}", answer.text());
    }
    assert_eq!(client.ask("GET", &url, "", b"").status, 400);
}

#[test]
fn where_it_is_taken_signature_version_2_is_good_for_minutes_or_until_it_expires() {
    let fixture = serve_accepting(SignatureVersions::V2Too);
    let mut client = Client::new(&fixture.server);
    let now = OffsetDateTime::now_utc().unix_timestamp();
    for (date, status) in [
        (http_date(0), 200),
        (http_date(-600), 200),
        (http_date(-1200), 403),
        (http_date(1200), 403),
        ("Tue, 27 Mar 2007 19:36:42 GMT".to_owned(), 403),
    ] {
        let answer = client.ask("GET", "/bucket/private", &version_2("GET", "/bucket/private", &date), b"");
        assert_eq!(answer.status, status, "{date}: {}", answer.text());
    }
    for (expires, status) in [(now + 600, 200), (now - 10, 403)] {
        let url = presigned_version_2("GET", "/bucket/private", expires);
        assert_eq!(client.ask("GET", &url, "", b"").status, status, "{expires}");
    }
}

#[test]
fn a_form_signed_by_version_2_is_refused_like_any_other_request() {
    let fixture = with_keys();
    let (head, body) = form_version_2("bucket", "posted", "content");
    let answer = Client::new(&fixture.server).ask("POST", "/bucket?x-id=PostObject", &head, &body);
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(answer.text().contains("AWS4-HMAC-SHA256"), "{}", answer.text());
    assert!(!fixture.directory.path().join("bucket/posted").exists());
}

#[test]
fn a_date_with_odd_characters_is_refused_in_heads_urls_and_forms() {
    let keys = ServerKeys::parse("alice secret write\n").unwrap();
    let fixture = serve(|config| config.authentication = Authentication::Keys(keys));
    let credential = "alice/2026-1-7/us-east-1/s3/aws4_request";
    let signed = format!(
        "x-amz-date: 2026-1-7T0:00:0Z\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\n\
         Authorization: AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host;x-amz-date, Signature=00\r\n"
    );
    assert_eq!(Client::new(&fixture.server).ask("GET", "/bucket/f", &signed, b"").status, 400);
    let query =
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=00";
    for (credential, date) in
        [(credential, "20261127T000000Z"), ("alice/20261127/r/s3/aws4_request", "2026-1-7T0:00:0Z")]
    {
        let target = format!(
            "/bucket/f?{query}&X-Amz-Credential={}&X-Amz-Date={date}",
            credential.replace('/', "%2F")
        );
        assert_eq!(Client::new(&fixture.server).ask("GET", &target, "", b"").status, 400, "{target}");
        let fields = [
            ("key", "f"),
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", credential),
            ("X-Amz-Date", date),
            ("Policy", "e30="),
            ("X-Amz-Signature", "00"),
        ];
        let body = form(&fields, "content");
        assert_eq!(
            Client::new(&fixture.server).ask("POST", "/bucket", Form::HEAD, &body).status,
            400,
            "{date}"
        );
    }
}
