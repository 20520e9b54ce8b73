//! Makes requests that a client could send, and requests that no client should send.

use sha2::{Digest as _, Sha256};

use crate::random::Random;
use crate::signing::{Chain, Form, Signed};

const METHODS: [&str; 9] = ["GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH", "CONNECT", "GE T"];

const PATHS: [&str; 24] = [
    "/",
    "/bucket",
    "/bucket/",
    "/bucket/key",
    "/bucket/a/b",
    "/bucket/dir/",
    "/bucket/%00",
    "/bucket/%2e%2e/other/object",
    "/bucket/../other/object",
    "/other/object",
    "/other",
    "/bucket/.firstbyte/tmp/x",
    "/bucket/.FIRSTBYTE/x",
    "/bucket/k%C3%A4",
    "/bucket/%ff%fe",
    "/bucket//k",
    "/bucket/a%2Fb",
    "/.firstbyte/uploads",
    "/.firstbyte/metrics",
    "/.firstbyte/changes/delete",
    "/.firstbyte/login",
    "*",
    "http://other/bucket/key",
    "/bucket/key?x?y#z",
];

/// Query fields, with meaningful values.
const QUERIES: [(&str, &str); 34] = [
    ("uploads", ""),
    ("uploadId", "0"),
    ("partNumber", "1"),
    ("partNumber", "10001"),
    ("partNumber", "-1"),
    ("list-type", "2"),
    ("prefix", "a"),
    ("delimiter", "/"),
    ("max-keys", "99999999999"),
    ("max-keys", "0"),
    ("continuation-token", "AA=="),
    ("start-after", "\u{10ffff}"),
    ("marker", "a"),
    ("encoding-type", "url"),
    ("delete", ""),
    ("acl", ""),
    ("tagging", ""),
    ("versionId", "null"),
    ("attributes", ""),
    ("location", ""),
    ("versioning", ""),
    ("versions", ""),
    ("policy", ""),
    ("response-content-type", "text/html"),
    ("response-expires", "x"),
    ("X-Amz-Meta-Run", "7"),
    ("archive", "tar"),
    ("format", "ndjson"),
    ("recursive", ""),
    ("path", "/bucket/"),
    ("x-id", "GetObject"),
    ("select", ""),
    ("restore", ""),
    ("uploadId", "../../../other"),
];

const HEADERS: [(&str, &str); 48] = [
    ("range", "bytes=0-0"),
    ("range", "bytes=-0"),
    ("range", "bytes=18446744073709551615-"),
    ("if-match", "*"),
    ("if-none-match", "*"),
    ("if-range", "\"x\""),
    ("if-modified-since", "Sunday, 06-Nov-94 08:49:37 GMT"),
    ("if-unmodified-since", "9999"),
    ("content-type", "text/html,image/png"),
    ("content-type", "multipart/form-data; boundary=edge"),
    ("content-type", "multipart/form-data; boundary="),
    ("content-encoding", "gzip,aws-chunked"),
    ("content-encoding", "aws-chunked"),
    ("content-md5", "x"),
    ("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg=="),
    ("expect", "100-continue"),
    ("expect", "more"),
    ("transfer-encoding", "chunked"),
    ("transfer-encoding", "gzip, chunked"),
    ("connection", "close"),
    ("connection", "upgrade"),
    ("upgrade", "h2c"),
    ("x-amz-copy-source", "/bucket/key"),
    ("x-amz-copy-source", "other/object"),
    ("x-amz-copy-source", "bucket/..%2f..%2fother/object"),
    ("x-amz-copy-source", "%"),
    ("x-amz-copy-source-range", "bytes=0-1"),
    ("x-amz-copy-source-if-match", "x"),
    ("x-amz-metadata-directive", "REPLACE"),
    ("x-amz-acl", "public-read"),
    ("x-amz-meta-a", "b"),
    ("x-amz-meta-\u{e4}", "b"),
    ("x-amz-storage-class", "GLACIER"),
    ("x-amz-tagging", "a=b"),
    ("x-amz-checksum-crc32", "AAAAAA=="),
    ("x-amz-checksum-sha256", "x"),
    ("x-amz-checksum-type", "COMPOSITE"),
    ("x-amz-checksum-algorithm", "CRC32"),
    ("x-amz-sdk-checksum-algorithm", "MD4"),
    ("x-amz-trailer", "x-amz-checksum-crc32"),
    ("x-amz-decoded-content-length", "18446744073709551615"),
    ("x-amz-write-offset-bytes", "1"),
    ("x-amz-mp-object-size", "-5"),
    ("x-amz-expected-bucket-owner", "x"),
    ("origin", "http://evil.example"),
    ("sec-fetch-site", "cross-site"),
    ("x-firstbyte-page", "1"),
    ("cookie", "firstbyte_session=x"),
];

const DOCUMENTS: [&str; 8] = [
    "<Delete><Object><Key>a</Key></Object><Object><Key>../other/object</Key></Object></Delete>",
    "<Delete><Quiet>true</Quiet><Object><Key>&#0;</Key><VersionId>1</VersionId></Object></Delete>",
    "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>x</ETag></Part></CompleteMultipartUpload>",
    "<CompleteMultipartUpload><Part><PartNumber>99999999999999999999</PartNumber></Part></CompleteMultipartUpload>",
    "<CreateBucketConfiguration><LocationConstraint>eu</LocationConstraint></CreateBucketConfiguration>",
    "<?xml version=\"1.0\"?><!DOCTYPE a [<!ENTITY b \"bbbb\"><!ENTITY c \"&b;&b;&b;\">]><Delete><Object><Key>&c;</Key></Object></Delete>",
    "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>",
    "{\"name\": \"x\", \"size\": 1e300, \"names\": [\"..\"], \"existing\": \"replace\"}",
];

/// Makes the bytes of one request, or of two on one connection.
pub(crate) fn request(random: &mut Random) -> Vec<u8> {
    let mut bytes = match random.below(5) {
        0 => plain(random),
        1 => signed_request(random),
        2 => chunked_put(random),
        3 => form(random),
        _ => document(random),
    };
    if random.once_in(3) {
        bytes = random.mutate(bytes);
    }
    if random.once_in(10) {
        let next = plain(random);
        bytes.extend(next);
    }
    bytes
}

fn target(random: &mut Random) -> (&'static str, Vec<(&'static str, String)>) {
    let count = random.below(4);
    let query = (0..count).map(|_| {
        let (name, value) = QUERIES[random.below(QUERIES.len())];
        let value = if random.once_in(5) { random.text(20) } else { value.to_owned() };
        (name, value)
    });
    let query = query.collect();
    (PATHS[random.below(PATHS.len())], query)
}

fn headers(random: &mut Random, most: usize) -> Vec<(&'static str, String)> {
    let count = random.below(most + 1);
    (0..count)
        .map(|_| {
            let (name, value) = HEADERS[random.below(HEADERS.len())];
            let value = if random.once_in(6) { random.text(40) } else { value.to_owned() };
            (name, value)
        })
        .collect()
}

fn body(random: &mut Random) -> Vec<u8> {
    let length = *random.of(&[&0, &1, &10, &3000, &70_000, &300_000]);
    vec![b'x'; length]
}

/// Makes a request from these parts. Sometimes it announces a wrong length.
fn message(random: &mut Random, method: &str, target: &str, lines: &str, body: &[u8]) -> Vec<u8> {
    let length = match random.below(12) {
        0 => format!("content-length: {}\r\n", body.len() + 1),
        1 => format!("content-length: {}\r\n", body.len().saturating_sub(1)),
        2 => format!("content-length: +{}\r\n", body.len()),
        3 => String::new(),
        4 => format!("content-length: {0}\r\ncontent-length: {0}\r\n", body.len()),
        _ => format!("content-length: {}\r\n", body.len()),
    };
    let host = random.of(&[
        "localhost",
        "localhost",
        "localhost",
        "127.0.0.1",
        "evil.example",
        "bucket.localhost",
        "\u{1}",
    ]);
    let version = random.of(&["1.1", "1.1", "1.1", "1.0", "1.2", "2.0"]);
    let head = format!("{method} {target} HTTP/{version}\r\nhost: {host}\r\n{length}{lines}\r\n");
    [head.as_bytes(), body].concat()
}

fn lines(headers: &[(&str, String)]) -> String {
    headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
}

fn plain(random: &mut Random) -> Vec<u8> {
    let (path, query) = target(random);
    let query: Vec<String> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) };
    let mut lines = lines(&headers(random, 6));
    if random.once_in(2) {
        // HTTP Basic with alice:secret.
        lines.push_str("authorization: Basic YWxpY2U6c2VjcmV0\r\n");
    }
    let (method, body) = (METHODS[random.below(METHODS.len())], body(random));
    message(random, method, &target, &lines, &body)
}

/// Makes headers to sign. Each name occurs once, and the names are in order.
fn to_sign(random: &mut Random, most: usize) -> Vec<(&'static str, String)> {
    let mut all = headers(random, most);
    all.retain(|(name, value)| {
        name.is_ascii() && value.is_ascii() && value.trim() == value && !value.contains("  ")
    });
    all.push(("host", "localhost".to_owned()));
    all.sort();
    all.dedup_by(|one, other| one.0 == other.0);
    all
}

fn as_strs<'a>(pairs: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    pairs.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

fn signed_request(random: &mut Random) -> Vec<u8> {
    let (path, query) = target(random);
    let headers = to_sign(random, 4);
    let (method, body) = (METHODS[random.below(METHODS.len())], body(random));
    let (query, headers) = (as_strs(&query), as_strs(&headers));
    let signed = Signed { query: &query, headers: &headers, ..Signed::new(method, path) };
    if random.once_in(3) {
        let lines: String = headers
            .iter()
            .filter(|(name, _)| *name != "host")
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        return message(random, method, &signed.presigned(), &lines, &body);
    }
    let hash = hex::encode(Sha256::digest(&body));
    let payload = random.of(&["UNSIGNED-PAYLOAD", hash.as_str(), "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "x"]);
    let (target, lines, _) = signed.with_payload(payload);
    message(random, method, &target, &lines, &body)
}

/// Makes a PUT of an object or a part in S3's chunks, signed or not, with or without trailers.
fn chunked_put(random: &mut Random) -> Vec<u8> {
    let content = body(random);
    let payload = random.of(&[
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    ]);
    let length = if random.once_in(6) { random.below(400_000) } else { content.len() };
    let mut headers = to_sign(random, 2);
    headers.retain(|(name, _)| {
        !["x-amz-decoded-content-length", "x-amz-trailer", "transfer-encoding"].contains(name)
    });
    headers.push(("x-amz-decoded-content-length", length.to_string()));
    let has_trailer = payload.ends_with("TRAILER");
    if has_trailer {
        headers.push((
            "x-amz-trailer",
            random.of(&["x-amz-checksum-crc32", "x-amz-checksum-crc32", "host", "x"]).to_owned(),
        ));
    }
    headers.sort();
    headers.dedup_by(|one, other| one.0 == other.0);
    let headers = as_strs(&headers);
    let query: &[_] = if random.once_in(4) { &[("partNumber", "1"), ("uploadId", "0")] } else { &[] };
    let signed = Signed { query, headers: &headers, ..Signed::new("PUT", "/bucket/chunked") };
    let (target, lines, mut chain) = signed.with_payload(payload);
    let chain = payload.starts_with("STREAMING-AWS4").then_some(&mut chain);
    let mut coded = encode_chunks(random, &content, chain, has_trailer);
    coded.extend(b"\r\n");
    if random.once_in(5) {
        coded.truncate(random.below(coded.len()));
    }
    if random.once_in(4) {
        return in_http_chunks(random, &target, &lines, &coded);
    }
    message(random, "PUT", &target, &lines, &coded)
}

/// Encodes `content` in S3's chunks, some of which are malformed. `chain` signs them.
fn encode_chunks(
    random: &mut Random,
    content: &[u8],
    mut chain: Option<&mut Chain>,
    has_trailer: bool,
) -> Vec<u8> {
    let mut coded = Vec::new();
    let mut rest = content;
    loop {
        let (piece, behind) = rest.split_at(rest.len().min(random.below(66_000) + 1));
        let end: &[u8] = if piece.is_empty() { b"" } else { b"\r\n" };
        let mut chunk = match &mut chain {
            Some(chain) => chain.chunk(piece),
            None => [format!("{:x}\r\n", piece.len()).as_bytes(), piece, end].concat(),
        };
        if random.once_in(20) {
            chunk = random.mutate(chunk);
        }
        if random.once_in(40) {
            coded.extend(random.of(&[
                &b"ffffffffffffffff\r\n"[..],
                b"fffffffffffffffff\r\n",
                b"0x1\r\nx\r\n",
                b"-1\r\n",
                b"1;a=b;c\r\nx\r\n",
            ]));
        }
        coded.extend(chunk);
        if piece.is_empty() {
            break;
        }
        rest = behind;
    }
    if has_trailer {
        let value = random.of(&["AAAAAA==", "x", ""]);
        coded.extend(format!("x-amz-checksum-crc32:{value}\r\n").as_bytes());
        if let Some(chain) = chain {
            let signature = chain.trailer("x-amz-checksum-crc32", value);
            coded.extend(format!("x-amz-trailer-signature:{signature}\r\n").as_bytes());
        }
        if random.once_in(10) {
            coded.extend("x-amz-meta-a: b\r\n".repeat(random.below(5000)).as_bytes());
        }
    }
    coded
}

/// Makes a PUT whose body, already in S3's chunks, is also encoded in HTTP's chunks.
fn in_http_chunks(random: &mut Random, target: &str, lines: &str, coded: &[u8]) -> Vec<u8> {
    let mut outer = Vec::new();
    for piece in coded.chunks(random.below(30_000) + 1) {
        outer.extend(format!("{:x}\r\n", piece.len()).as_bytes());
        outer.extend(piece);
        outer.extend(b"\r\n");
    }
    outer.extend(b"0\r\n\r\n");
    let head =
        format!("PUT {target} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n{lines}\r\n");
    [head.as_bytes(), &outer].concat()
}

fn form(random: &mut Random) -> Vec<u8> {
    let key = random.of(&["form", "dir/${filename}", "../other/object", "a/", ""]);
    let content = "x".repeat(random.of(&[&0, &10, &100_000]).to_owned());
    let form = Form { is_right: !random.once_in(4), days: *random.of(&[&0, &10]), ..Form::new(key) };
    let mut body = form.body(&content);
    if random.once_in(2) {
        let (name, value) = HEADERS[random.below(HEADERS.len())];
        let length = *random.of(&[&1, &1, &2000, &100_000]);
        let field = format!(
            "--edge\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{}\r\n",
            value.repeat(length)
        );
        let at = *random.of(&[&0, &0, &body.len()]);
        body.splice(at..at, field.into_bytes());
    }
    if random.once_in(3) {
        body = random.mutate(body);
    }
    let kind = random.of(&[
        "multipart/form-data; boundary=edge",
        "multipart/form-data; boundary=\"edge\"",
        "multipart/form-data",
    ]);
    let lines = format!("content-type: {kind}\r\n{}", lines(&headers(random, 1)));
    let target = random.of(&["/bucket", "/bucket/", "/", "/other", "/bucket/key"]);
    message(random, "POST", target, &lines, &body)
}

fn document(random: &mut Random) -> Vec<u8> {
    let mut body = DOCUMENTS[random.below(DOCUMENTS.len())].as_bytes().to_vec();
    if random.once_in(2) {
        body = random.mutate(body);
    }
    if random.once_in(20) {
        body = body.repeat(2000);
    }
    let (path, query) = target(random);
    let (query, method) = (as_strs(&query), random.of(&["POST", "PUT"]));
    let headers = to_sign(random, 2);
    let headers = as_strs(&headers);
    let signed = Signed { query: &query, headers: &headers, ..Signed::new(method, path) };
    let (target, lines, _) = signed.with_payload(&hex::encode(Sha256::digest(&body)));
    message(random, method, &target, &lines, &body)
}
