//! Tests that requests for unsupported features are refused, whether a header or the query asks for
//! them. No partly executed request replaces an object.

use firstbyte_serve::{Authentication, ServerKeys, SignatureVersions};

use crate::client::{Client, Fixture, S3, element, serve};
use crate::signing::{Signed, presigned_version_2};
use crate::uploads::begin;

fn with_keys(signatures: SignatureVersions) -> Fixture {
    serve(|config| {
        config.authentication = Authentication::Keys(ServerKeys::parse("alice secret write\n").unwrap());
        config.signatures = signatures;
    })
}

const REFUSED: [(&str, &str); 9] = [
    ("x-amz-tagging", "a=b"),
    ("x-amz-write-offset-bytes", "3"),
    ("x-amz-website-redirect-location", "/x"),
    ("x-amz-server-side-encryption", "aws:kms"),
    ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
    ("x-amz-object-lock-mode", "GOVERNANCE"),
    ("x-amz-acl", "public-read"),
    ("x-amz-grant-read", "id=1"),
    ("x-amz-storage-class", "GLACIER"),
];

#[test]
fn unsupported_headers_are_refused_on_put_copy_and_multipart_alike() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let path = |name: &str| fixture.directory.path().join("bucket").join(name);
    std::fs::write(path("key"), "before").unwrap();
    std::fs::write(path("source"), "source").unwrap();
    for (name, value) in REFUSED {
        let line = format!("{name}: {value}\r\n");
        let copy = format!("{line}x-amz-copy-source: /bucket/source\r\n");
        for (method, target, lines, body) in [
            ("PUT", "/bucket/key", &line, &b"after"[..]),
            ("PUT", "/bucket/key", &copy, b""),
            ("POST", "/bucket/key?uploads", &line, b""),
        ] {
            let answer = client.ask(method, target, lines, body);
            assert!(answer.status == 400 || answer.status == 501, "{method} {name}: {}", answer.text());
            assert_eq!(std::fs::read(path("key")).unwrap(), b"before", "{method} {name}");
        }
    }
    for line in [
        "x-amz-acl: private\r\n",
        "x-amz-acl: bucket-owner-full-control\r\n",
        "x-amz-storage-class: STANDARD\r\n",
    ] {
        assert_eq!(client.ask("PUT", "/bucket/key", line, b"after").status, 200, "{line}");
    }
    for lines in [
        "x-amz-copy-source: /bucket/source\r\nx-amz-copy-source-range: bytes=0-1\r\n",
        "x-amz-copy-source-if-match: x\r\n",
        "x-amz-if-match-size: 3\r\n",
        // A copy must not have a body.
        "x-amz-copy-source: /bucket/source\r\n",
    ] {
        let answer = client.ask("PUT", "/bucket/key", lines, b"body");
        assert!(answer.status == 400 || answer.status == 501, "{lines}: {}", answer.text());
    }
    assert_eq!(std::fs::read(path("key")).unwrap(), b"after");
    // Two lines of one header are refused, because one would be dropped.
    let lines = format!("{S3}Content-Encoding: br\r\nContent-Encoding: gzip\r\n");
    assert_eq!(client.ask("PUT", "/bucket/list", &lines, b"x").status, 400);
    assert!(!path("list").exists());
    // Headers that infrastructure adds do not concern the object.
    let lines = format!("{S3}X-Amz-Cf-Id: x\r\nX-Amz-Cf-Pop: y\r\nX-Amzn-Trace-Id: z\r\n");
    assert_eq!(client.ask("PUT", "/bucket/key", &lines, b"after").status, 200);
}

#[test]
fn a_part_number_or_an_upload_id_alone_replaces_no_object() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let path = fixture.directory.path().join("bucket/key");
    std::fs::write(&path, "before").unwrap();
    let id = begin(&mut client, "key");
    for (method, query) in [
        ("PUT", "partNumber=1".to_owned()),
        ("PUT", format!("uploadId={id}")),
        ("PUT", "versionId=null".to_owned()),
        ("PUT", "policy=x".to_owned()),
        ("DELETE", "partNumber=1".to_owned()),
    ] {
        let answer = client.ask(method, &format!("/bucket/key?{query}"), S3, b"part");
        assert!(answer.status == 400 || answer.status == 501, "{method} {query}: {}", answer.text());
        assert_eq!(std::fs::read(&path).unwrap(), b"before", "{method} {query}");
    }
}

#[test]
fn headers_in_the_query_of_a_presigned_url_count_as_headers() {
    let fixture = with_keys(SignatureVersions::V4Only);
    let mut client = Client::new(&fixture.server);
    let ask = |client: &mut Client, method: &str, path: &str, query: &[(&str, &str)], body: &[u8]| {
        client.ask(method, &Signed { query, ..Signed::new(method, path) }.presigned(), "", body)
    };
    let put = ask(&mut client, "PUT", "/bucket/key", &[("X-Amz-Meta-Run", "7")], b"hello");
    assert_eq!(put.status, 200, "{}", put.text());
    let head = ask(&mut client, "HEAD", "/bucket/key", &[("x-amz-checksum-mode", "ENABLED")], b"");
    assert_eq!(head.header("x-amz-meta-run"), Some("7"));
    assert!(head.header("x-amz-checksum-crc64nvme").is_some());
    let copy = ask(&mut client, "PUT", "/bucket/copy", &[("x-amz-copy-source", "/bucket/key")], b"");
    assert_eq!(copy.status, 200, "{}", copy.text());
    assert_eq!(std::fs::read(fixture.directory.path().join("bucket/copy")).unwrap(), b"hello");
    for (name, value) in REFUSED.into_iter().chain([("x-amz-checksum-crc32", "AAAAAA==")]) {
        let put = ask(&mut client, "PUT", "/bucket/refused", &[(name, value)], b"hello");
        assert!(put.status == 400 || put.status == 501, "{name}: {} {}", put.status, put.text());
    }
    assert!(!fixture.directory.path().join("bucket/refused").exists());
    // Two values of one field are ambiguous.
    let twice = Signed {
        query: &[("x-amz-meta-run", "7"), ("x-amz-meta-run", "8")],
        ..Signed::new("PUT", "/bucket/key")
    };
    assert_eq!(client.ask("PUT", &twice.presigned(), "", b"x").status, 400);
}

#[test]
fn a_field_that_the_signature_does_not_cover_is_no_header() {
    let fixture = with_keys(SignatureVersions::V2Too);
    std::fs::write(fixture.directory.path().join("bucket/private"), "TOP-SECRET").unwrap();
    let mut client = Client::new(&fixture.server);
    let url = Signed::new("PUT", "/bucket/drop").presigned();
    let added = format!("{url}&x-amz-copy-source=/bucket/private");
    assert_eq!(client.ask("PUT", &added, "", b"").status, 403);
    let now = time::OffsetDateTime::now_utc().unix_timestamp();
    let url = presigned_version_2("PUT", "/bucket/drop", now + 600);
    let added = client.ask("PUT", &format!("{url}&X-Amz-Copy-Source=/bucket/private"), "", b"");
    assert_eq!(element(&added, "Code").as_deref(), Some("AccessDenied"), "{}", added.text());
    assert!(!fixture.directory.path().join("bucket/drop").exists());
}

#[test]
fn a_range_to_copy_is_exact_or_refused() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    std::fs::write(fixture.directory.path().join("bucket/source"), "12345").unwrap();
    let id = begin(&mut client, "key");
    let target = format!("/bucket/key?partNumber=1&uploadId={id}");
    let copy = |client: &mut Client, range: &str| {
        let lines = format!("x-amz-copy-source: /bucket/source\r\nx-amz-copy-source-range: {range}\r\n");
        client.ask("PUT", &target, &lines, b"")
    };
    for range in [
        "0-2",
        "bytes=0",
        "bytes=hello-world",
        "bytes=0-bar",
        "bytes=hello-",
        "bytes=0-2,3-5",
        "bytes=-2",
        "bytes=3-",
        "bytes=3-2",
        "bytes=0-5",
        "bytes=5-9",
        "bytes=0-21",
        "bytes=+0-2",
    ] {
        let answer = copy(&mut client, range);
        assert_eq!(answer.status / 100, 4, "{range}: {}", answer.text());
        let code = element(&answer, "Code");
        assert!(matches!(code.as_deref(), Some("InvalidArgument" | "InvalidRange")), "{range}: {code:?}");
    }
    let parts = client.ask("GET", &format!("/bucket/key?uploadId={id}"), S3, b"");
    assert!(!parts.text().contains("<Part>"), "{}", parts.text());
    assert_eq!(copy(&mut client, "bytes=1-4").status, 200);
}

#[test]
fn an_access_list_that_was_read_can_be_written_back_and_no_other() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    std::fs::write(fixture.directory.path().join("bucket/f"), "x").unwrap();
    for target in ["/bucket/f?acl", "/bucket?acl"] {
        let list = client.ask("GET", target, S3, b"").text();
        let written = client.ask("PUT", target, S3, list.as_bytes());
        assert_eq!(written.status, 200, "{target} {list} {}", written.text());
        for (old, new) in [("FULL_CONTROL", "READ"), ("<ID>firstbyte</ID>", "<ID>other</ID>")] {
            assert!(list.contains(old), "{list}");
            let refused = client.ask("PUT", target, S3, list.replace(old, new).as_bytes());
            let code = element(&refused, "Code");
            assert_eq!(code.as_deref(), Some("AccessControlListNotSupported"), "{target} {new}");
        }
        assert_eq!(client.ask("PUT", target, S3, b"").status, 400, "{target}");
    }
}
