//! Tests bodies of S3 requests. Each coding is read equally with and without keys. Complete bodies
//! are stored. All others are refused, and then the existing object is kept.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use firstbyte_location::{Algorithm, Hasher};
use firstbyte_serve::{Authentication, ServerKeys};
use firstbyte_testkit::{until, wait_limit};

use crate::client::{Answer, Client, Fixture, S3, content, element, serve};
use crate::signing::{Chain, Signed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Keys,
    None,
}

const BOTH: [Access; 2] = [Access::Keys, Access::None];

fn serve_with(access: Access) -> Fixture {
    serve(|config| {
        if access == Access::Keys {
            config.authentication = Authentication::Keys(ServerKeys::parse("alice secret write\n").unwrap());
        }
        config.limits.smallest_part = 1;
    })
}

/// The framing of a body in HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length,
    /// Chunked encoding, with chunks of this many bytes.
    Chunked(usize),
}

/// Sends a signed request with the body that `code` makes. Headers must be in ascending order.
fn send(
    fixture: &Fixture,
    target: (&str, &[(&str, &str)]),
    headers: &[(&str, &str)],
    payload: &str,
    framing: Framing,
    code: impl FnOnce(&mut Chain) -> Vec<u8>,
) -> Answer {
    let mut all = vec![("host", "localhost")];
    all.extend_from_slice(headers);
    all.sort_unstable();
    let signed = Signed { query: target.1, headers: &all, ..Signed::new("PUT", target.0) };
    let (target, lines, mut chain) = signed.with_payload(payload);
    let body = code(&mut chain);
    let mut client = Client::new(&fixture.server);
    let framed = match framing {
        Framing::Length => format!("Content-Length: {}\r\n", body.len()),
        Framing::Chunked(_) => "Transfer-Encoding: chunked\r\n".to_owned(),
    };
    client.send(format!("PUT {target} HTTP/1.1\r\nHost: localhost\r\n{framed}{lines}\r\n").as_bytes());
    match framing {
        Framing::Length => client.send(&body),
        Framing::Chunked(size) => {
            for piece in body.chunks(size) {
                client.send(&[format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
            }
            client.send(b"0\r\n\r\n");
        }
    }
    client.answer(false)
}

fn crc32(bytes: &[u8]) -> String {
    Hasher::of(Algorithm::Crc32, bytes).to_base64()
}

fn unsigned_chunks(bytes: &[u8], size: usize, behind: &str) -> Vec<u8> {
    let mut encode_body = Vec::new();
    for piece in bytes.chunks(size) {
        encode_body.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        encode_body.extend_from_slice(piece);
        encode_body.extend_from_slice(b"\r\n");
    }
    encode_body.extend_from_slice(format!("0\r\n{behind}").as_bytes());
    encode_body
}

fn signed_chunks(chain: &mut Chain, bytes: &[u8], size: usize) -> Vec<u8> {
    let mut encode_body: Vec<u8> = bytes.chunks(size).flat_map(|piece| chain.chunk(piece)).collect();
    encode_body.extend(chain.chunk(b""));
    encode_body
}

/// A SHA-256 that matches no body here.
const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

const TRAILER: (&str, &str) = ("x-amz-trailer", "x-amz-checksum-crc32");

/// Encodes `bytes` as a body in the coding that the value `payload` of `x-amz-content-sha256`
/// names.
fn encode_body(payload: &str, bytes: &[u8], size: usize, chain: &mut Chain) -> Vec<u8> {
    let sum = crc32(bytes);
    match payload {
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => {
            unsigned_chunks(bytes, size, &format!("x-amz-checksum-crc32:{sum}\r\n\r\n"))
        }
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" => {
            [signed_chunks(chain, bytes, size), b"\r\n".to_vec()].concat()
        }
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => {
            let chunks = signed_chunks(chain, bytes, size);
            let signature = chain.trailer("x-amz-checksum-crc32", &sum);
            let trailers =
                format!("x-amz-checksum-crc32:{sum}\r\nx-amz-trailer-signature:{signature}\r\n\r\n");
            [chunks, trailers.into_bytes()].concat()
        }
        _ => unsigned_chunks(bytes, size, "\r\n"),
    }
}

const CODINGS: [&str; 4] = [
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
    "UNSIGNED-PAYLOAD",
];

fn headers_of<'a>(payload: &str, length: &'a str) -> Vec<(&'a str, &'a str)> {
    let mut headers =
        vec![("content-encoding", "gzip,aws-chunked"), ("x-amz-decoded-content-length", length)];
    if payload.ends_with("TRAILER") {
        headers.push(TRAILER);
    }
    headers
}

#[test]
fn every_coding_is_decoded_alike_with_keys_and_without_whole_and_as_a_part() {
    let bytes = content(300_001);
    for access in BOTH {
        let fixture = serve_with(access);
        for payload in CODINGS {
            for (framing, size) in [
                (Framing::Length, 65_536),
                (Framing::Chunked(8_191), 100_000),
                (Framing::Chunked(77_777), 300_001),
            ] {
                let length = bytes.len().to_string();
                let headers = headers_of(payload, &length);
                let code = |chain: &mut Chain| encode_body(payload, &bytes, size, chain);
                let put = send(&fixture, ("/bucket/whole", &[]), &headers, payload, framing, code);
                assert_eq!(put.status, 200, "{access:?} {payload} {framing:?}: {}", put.text());
                let path = fixture.directory.path().join("bucket/whole");
                assert!(std::fs::read(&path).unwrap() == bytes, "{access:?} {payload} {framing:?}");
                let get = Signed::new("GET", "/bucket/whole").presigned();
                let get = Client::new(&fixture.server).ask("GET", &get, "", b"");
                assert_eq!(get.header("content-encoding"), Some("gzip"), "{access:?} {payload}");
                std::fs::remove_file(path).unwrap();

                let id = begin(&fixture);
                let query = [("partNumber", "1"), ("uploadId", id.as_str())];
                let code = |chain: &mut Chain| encode_body(payload, &bytes, size, chain);
                let part = send(&fixture, ("/bucket/parts", &query), &headers, payload, framing, code);
                assert_eq!(part.status, 200, "{access:?} {payload} {framing:?}: {}", part.text());
            }
        }
    }
}

fn begin(fixture: &Fixture) -> String {
    let target = Signed { query: &[("uploads", "")], ..Signed::new("POST", "/bucket/parts") }.presigned();
    let answer = Client::new(&fixture.server).ask("POST", &target, "", b"");
    element(&answer, "UploadId").unwrap_or_else(|| panic!("{}", answer.text()))
}

/// An invalid body, and headers to send besides those of its coding.
struct InvalidBody {
    name: &'static str,
    payload: &'static str,
    headers: Vec<(&'static str, &'static str)>,
    body: Vec<u8>,
}

fn wrong_bodies() -> Vec<InvalidBody> {
    let trailer = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
    let length = ("x-amz-decoded-content-length", "5");
    let wrong = |name, payload, headers: &[_], body: &[u8]| InvalidBody {
        name,
        payload,
        headers: headers.to_vec(),
        body: body.to_vec(),
    };
    let sum = crc32(b"hello");
    let right = format!("5\r\nhello\r\n0\r\nx-amz-checksum-crc32:{sum}\r\n\r\n");
    vec![
        wrong("a trailer that never comes", trailer, &[length, TRAILER], b"5\r\nhello\r\n0\r\n\r\n"),
        wrong(
            "a trailer with another sum",
            trailer,
            &[length, TRAILER],
            b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n",
        ),
        wrong(
            "a trailer that was not announced",
            trailer,
            &[length, ("x-amz-trailer", "x-amz-checksum-sha1")],
            right.as_bytes(),
        ),
        wrong("trailers without a name for them", trailer, &[length], right.as_bytes()),
        wrong(
            "a trailer no one knows",
            trailer,
            &[length, ("x-amz-trailer", "x-amz-meta-a")],
            right.as_bytes(),
        ),
        wrong("no last chunk", trailer, &[length, TRAILER], b"5\r\nhello\r\n"),
        wrong("bytes behind the end", trailer, &[length, TRAILER], format!("{right}more").as_bytes()),
        wrong("another length", trailer, &[("x-amz-decoded-content-length", "6"), TRAILER], right.as_bytes()),
        wrong(
            "a shorter length",
            trailer,
            &[("x-amz-decoded-content-length", "4"), TRAILER],
            right.as_bytes(),
        ),
        wrong(
            "a hash of a chunked body",
            "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
            &[("content-encoding", "aws-chunked"), length],
            b"5\r\nhello\r\n0\r\n\r\n",
        ),
        wrong("no chunks", "UNSIGNED-PAYLOAD", &[("content-encoding", "aws-chunked")], b"hello"),
        wrong(
            "a length of another body",
            "UNSIGNED-PAYLOAD",
            &[("x-amz-decoded-content-length", "4")],
            b"hello",
        ),
        wrong("a hash of another body", ZEROS, &[], b"hello"),
        wrong("no hash", "required", &[], b"hello"),
        wrong("keys of another kind", "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", &[length], b"0\r\n\r\n"),
        wrong("another MD5", "UNSIGNED-PAYLOAD", &[("content-md5", "XUFAKrxLKna5cZ2REBfFkh==")], b"hello"),
        wrong("no MD5", "UNSIGNED-PAYLOAD", &[("content-md5", "x")], b"hello"),
        wrong("another checksum", "UNSIGNED-PAYLOAD", &[("x-amz-checksum-crc32", "AAAAAA==")], b"hello"),
        wrong(
            "an algorithm no one knows",
            "UNSIGNED-PAYLOAD",
            &[("x-amz-sdk-checksum-algorithm", "ADLER")],
            b"hello",
        ),
    ]
}

#[test]
fn a_body_that_is_not_what_its_request_says_replaces_nothing() {
    for access in BOTH {
        let fixture = serve_with(access);
        let path = fixture.directory.path().join("bucket/key");
        std::fs::write(&path, "before").unwrap();
        for InvalidBody { name, payload, headers, body } in wrong_bodies() {
            for target in ["/bucket/key", "/bucket/directory/"] {
                let code = |_: &mut Chain| body.clone();
                let put = send(&fixture, (target, &[]), &headers, payload, Framing::Length, code);
                assert!(
                    (400..=501).contains(&put.status),
                    "{access:?} {name}: {} {}",
                    put.status,
                    put.text()
                );
                assert_ne!(put.status, 500, "{access:?} {name}: {}", put.text());
            }
            assert_eq!(std::fs::read(&path).unwrap(), b"before", "{access:?} {name}");
            assert!(!fixture.directory.path().join("bucket/directory").exists(), "{access:?} {name}");
        }
    }
}

#[test]
fn a_wrong_hash_is_named_and_counts_as_no_guess() {
    let fixture = serve_with(Access::Keys);
    for _ in 0..12 {
        let put = send(&fixture, ("/bucket/key", &[]), &[], ZEROS, Framing::Length, |_| b"x".to_vec());
        assert_eq!(element(&put, "Code").as_deref(), Some("XAmzContentSHA256Mismatch"));
    }
}

#[test]
fn a_signed_chunk_that_was_changed_replaces_nothing() {
    let fixture = serve_with(Access::Keys);
    let bytes = content(100_000);
    for payload in ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"] {
        let length = bytes.len().to_string();
        let headers = headers_of(payload, &length);
        let changes: [fn(&mut Vec<u8>); 4] = [
            |body| body[200] ^= 1,
            |body| {
                let last = body.len() - 8;
                body[last] ^= 1;
            },
            |body| {
                let at = body.windows(16).position(|text| text == b"chunk-signature=").unwrap();
                body[at + 16] = if body[at + 16] == b'0' { b'1' } else { b'0' };
            },
            |body| {
                let text = String::from_utf8_lossy(&body[..9]).into_owned();
                let digits = text.split(';').next().unwrap().len();
                body.drain(digits..digits + 81);
            },
        ];
        for (number, change) in changes.iter().enumerate() {
            let put = send(&fixture, ("/bucket/key", &[]), &headers, payload, Framing::Length, |chain| {
                let mut body = encode_body(payload, &bytes, 65_536, chain);
                change(&mut body);
                body
            });
            assert_eq!(put.status / 100, 4, "{payload} {number}: {}", put.text());
            assert!(!fixture.directory.path().join("bucket/key").exists(), "{payload} {number}");
        }
    }
}

/// Nine digits are needed for a chunk of 4 GiB.
#[test]
fn the_size_of_a_chunk_may_have_more_than_eight_digits() {
    for access in BOTH {
        let fixture = serve_with(access);
        let sum = crc32(b"hello");
        let body = format!("000000005\r\nhello\r\n0\r\nx-amz-checksum-crc32:{sum}\r\n\r\n").into_bytes();
        let headers = [("x-amz-decoded-content-length", "5"), TRAILER];
        let payload = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
        let put = send(&fixture, ("/bucket/key", &[]), &headers, payload, Framing::Length, |_| body);
        assert_eq!(put.status, 200, "{access:?}: {}", put.text());
        assert_eq!(std::fs::read(fixture.directory.path().join("bucket/key")).unwrap(), b"hello");
    }
}

#[test]
fn a_chunk_is_on_disk_before_it_has_ended() {
    const CHUNK: u64 = 5 << 30;
    for payload in ["STREAMING-UNSIGNED-PAYLOAD-TRAILER", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"] {
        let fixture = serve_with(Access::Keys);
        let length = CHUNK.to_string();
        let mut headers = vec![("host", "localhost"), ("x-amz-decoded-content-length", length.as_str())];
        if payload.ends_with("TRAILER") {
            headers.push(TRAILER);
        }
        let signed = Signed { headers: &headers, ..Signed::new("PUT", "/bucket/key") };
        let (target, lines, _) = signed.with_payload(payload);
        let mut client = Client::new(&fixture.server);
        let head =
            format!("PUT {target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n{lines}\r\n");
        client.send(head.as_bytes());
        let line = format!("{CHUNK:x};chunk-signature={}\r\n", "0".repeat(64));
        client.send(format!("{:x}\r\n{line}\r\n", line.len()).as_bytes());
        let piece = content(1 << 20);
        for _ in 0..8 {
            client.send(&[format!("{:x}\r\n", piece.len()).as_bytes(), &piece, b"\r\n"].concat());
        }
        let staged = fixture.directory.path().join("bucket/.firstbyte/tmp");
        until("the beginning of the chunk is on disk", || {
            let entries = std::fs::read_dir(&staged).into_iter().flatten();
            entries.filter_map(|entry| entry.ok()?.metadata().ok()).map(|data| data.len()).sum::<u64>()
                > 7 << 20
        });
    }
}

#[test]
fn documents_are_checked_like_contents() {
    for access in BOTH {
        let fixture = serve_with(access);
        let path = fixture.directory.path().join("bucket/key");
        std::fs::write(&path, "x").unwrap();
        let body = b"<Delete><Object><Key>key</Key></Object></Delete>";
        let sums = [
            ("content-md5", Hasher::of(Algorithm::Md5, body).to_base64()),
            ("x-amz-checksum-sha256", Hasher::of(Algorithm::Sha256, body).to_base64()),
            ("x-amz-checksum-crc64nvme", Hasher::of(Algorithm::Crc64Nvme, body).to_base64()),
        ];
        let ask = |name: &str, value: &str| {
            let headers = [("host", "localhost"), (name, value)];
            let mut headers = headers.to_vec();
            headers.sort_unstable();
            let signed =
                Signed { query: &[("delete", "")], headers: &headers, ..Signed::new("POST", "/bucket") };
            let (target, lines) = signed.by_header();
            Client::new(&fixture.server).ask("POST", &target, &lines, body)
        };
        for (name, right) in &sums {
            let wrong = Hasher::of(Algorithm::from_name(name.rsplit('-').next().unwrap()).unwrap(), b"y");
            let refused = ask(name, &wrong.to_base64());
            assert_eq!(refused.status, 400, "{access:?} {name}: {}", refused.text());
            assert!(path.exists(), "{access:?} {name}");
            assert_eq!(ask(name, right).status, 200, "{access:?} {name}");
            assert!(!path.exists());
            std::fs::write(&path, "x").unwrap();
        }
    }
}

#[test]
fn a_form_is_checked_by_the_checksums_among_its_fields() {
    let fixture = serve_with(Access::None);
    let post = |fields: &[(&str, &str)]| {
        let mut body = String::new();
        for (name, value) in [("key", "posted")].iter().chain(fields) {
            body.push_str(&format!(
                "--edge\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
            ));
        }
        let file = "Content-Disposition: form-data; name=\"file\"; filename=\"f\"";
        body.push_str(&format!("--edge\r\n{file}\r\n\r\nhello\r\n--edge--\r\n"));
        let kind = "Content-Type: multipart/form-data; boundary=edge\r\n";
        Client::new(&fixture.server).ask("POST", "/bucket", kind, body.as_bytes()).status
    };
    let path = fixture.directory.path().join("bucket/posted");
    let md5 = Hasher::of(Algorithm::Md5, b"hello").to_base64();
    for (name, value) in [
        ("x-amz-checksum-crc32", "AAAAAA=="),
        ("x-amz-checksum-sha256", "AAAA"),
        ("content-md5", "AAAA"),
        ("x-amz-website-redirect-location", "/x"),
        ("x-amz-acl", "public-read"),
        ("x-amz-storage-class", "GLACIER"),
        ("content-encoding", "aws-chunked"),
        ("x-amz-meta-a", "a\rb"),
        ("cache-control", "a\nb"),
    ] {
        let status = post(&[(name, value)]);
        assert!((400..=501).contains(&status) && status != 500, "{name}: {status}");
        assert!(!path.exists(), "{name}");
    }
    let right =
        [("x-amz-checksum-crc32", crc32(b"hello")), ("content-md5", md5), ("x-amz-acl", "private".into())];
    let right: Vec<(&str, &str)> = right.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert!(post(&right) < 300);
    assert_eq!(std::fs::read(path).unwrap(), b"hello");
}

#[test]
fn a_plain_put_is_checked_too_and_never_stores_the_framing_of_s3() {
    let fixture = serve_with(Access::None);
    let mut client = Client::new(&fixture.server);
    let md5 = Hasher::of(Algorithm::Md5, b"hello").to_base64();
    let put = |client: &mut Client, lines: &str| client.ask("PUT", "/bucket/plain", lines, b"hello").status;
    assert_eq!(put(&mut client, "Content-MD5: XUFAKrxLKna5cZ2REBfFkh==\r\n"), 400);
    assert_eq!(put(&mut client, "Content-Encoding: gzip, aws-chunked\r\n"), 415);
    assert!(!fixture.directory.path().join("bucket/plain").exists());
    assert_eq!(put(&mut client, &format!("Content-MD5: {md5}\r\n")), 201);
}

#[test]
fn a_key_with_a_slash_at_its_end_keeps_its_metadata() {
    let fixture = serve_with(Access::None);
    let mut client = Client::new(&fixture.server);
    let described = format!("{S3}x-amz-meta-mode: 16877\r\nCache-Control: no-store\r\n");
    assert_eq!(client.ask("PUT", "/bucket/k/", &described, b"").status, 200);
    std::fs::write(fixture.directory.path().join("bucket/k/entry"), "x").unwrap();
    let head = client.ask("HEAD", "/bucket/k/", S3, b"");
    assert_eq!(
        (head.header("x-amz-meta-mode"), head.header("cache-control")),
        (Some("16877"), Some("no-store"))
    );
    assert_eq!(head.header("content-type"), Some("application/x-directory"));
    let copy = format!("{S3}x-amz-copy-source: /bucket/k/\r\n");
    assert_eq!(client.ask("PUT", "/bucket/copy/", &copy, b"").status, 200);
    assert_eq!(client.ask("HEAD", "/bucket/copy/", S3, b"").header("x-amz-meta-mode"), Some("16877"));
    assert_eq!(client.ask("PUT", "/bucket/k/", S3, b"").status, 200);
    assert_eq!(client.ask("HEAD", "/bucket/k/", S3, b"").header("x-amz-meta-mode"), None);
    client.send(
        format!("PUT /bucket/k/ HTTP/1.1\r\nHost: localhost\r\n{S3}Transfer-Encoding: chunked\r\n\r\n")
            .as_bytes(),
    );
    client.send(b"3\r\nabc\r\n0\r\n\r\n");
    assert_eq!(client.answer(false).status, 400);
}

#[test]
fn a_checksum_that_no_content_has_is_refused_before_the_body_comes() {
    let fixture = serve(|_| {});
    for (name, code) in [
        ("x-amz-checksum-sha256", "InvalidRequest"),
        ("x-amz-checksum-crc64nvme", "InvalidRequest"),
        ("content-md5", "InvalidDigest"),
    ] {
        let mut stream = TcpStream::connect(fixture.server.address()).unwrap();
        let head = format!(
            "PUT /bucket/key HTTP/1.1\r\nHost: localhost\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\n\
             {name}: bad\r\nContent-Length: 1000\r\n\r\n"
        );
        // The body is never sent.
        stream.write_all(head.as_bytes()).unwrap();
        stream.set_read_timeout(Some(wait_limit())).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.contains(&format!("<Code>{code}</Code>")), "{name}: {answer}");
    }
    assert!(!fixture.directory.path().join("bucket/key").exists());
}

#[test]
fn a_part_is_read_with_its_own_checksum() {
    let fixture = serve(|config| config.limits.smallest_part = 1);
    let mut client = Client::new(&fixture.server);
    let named = format!("{S3}x-amz-checksum-algorithm: CRC32\r\n");
    let begun = client.ask("POST", "/bucket/key?uploads", &named, b"");
    let id = element(&begun, "UploadId").unwrap();
    let mut listed = String::new();
    for (number, content) in [(1, b"hello"), (2, b"world")] {
        let sum = crc32(content);
        let target = format!("/bucket/key?partNumber={number}&uploadId={id}");
        let part = client.ask("PUT", &target, &format!("{S3}x-amz-checksum-crc32: {sum}\r\n"), content);
        let tag = part.header("etag").unwrap().trim_matches('"').to_owned();
        listed += &format!(
            "<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag><ChecksumCRC32>{sum}</ChecksumCRC32></Part>"
        );
    }
    let document = format!("<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>");
    let done = client.ask("POST", &format!("/bucket/key?uploadId={id}"), S3, document.as_bytes());
    assert_eq!(done.status, 200, "{}", done.text());
    for (number, content) in [(1, b"hello"), (2, b"world")] {
        let target = format!("/bucket/key?partNumber={number}");
        for method in ["GET", "HEAD"] {
            let read = client.ask(method, &target, &format!("{S3}x-amz-checksum-mode: ENABLED\r\n"), b"");
            assert_eq!(read.header("x-amz-checksum-crc32"), Some(&*crc32(content)), "{method} {number}");
            assert_eq!(read.header("x-amz-checksum-type"), Some("COMPOSITE"));
        }
    }
}
