//! Tests that content, ranges, conditions and headers of objects through a gateway equal the
//! origin's.

use std::time::Duration;

use firstbyte_testkit::{Scripted, ScriptedReply};

use crate::client::{Client, S3};
use crate::origin::{Gateway, Origin, Plan, version};

/// Length in bytes of an object that is longer than one look-up in the cache (1 MiB), and shorter
/// than two.
const LENGTH: usize = (1 << 20) + 300_001;

#[test]
fn content_and_headers_are_the_origins_cold_and_cached_by_both_apis() {
    let origin = Origin::start();
    origin.put("a/big.bin", &version(1, LENGTH));
    origin.put("a/small.csv", b"a,b\n1,2\n");
    origin.put("a/empty", b"");
    let gateway = Gateway::before(&origin, &Plan::default());
    for key in ["/bucket/a/big.bin", "/bucket/a/small.csv", "/bucket/a/empty"] {
        for headers in ["", S3] {
            let expected = origin.get(key, headers);
            for state in ["cold", "cached", "again"] {
                let found = gateway.get(key, headers);
                assert_eq!((found.status, &found.body), (200, &expected.body), "{key} {state}");
                for name in ["etag", "last-modified", "content-type", "accept-ranges", "content-length"] {
                    assert_eq!(found.header(name), expected.header(name), "{key} {state} {name}");
                }
                let head = gateway.ask("HEAD", key, headers);
                assert_eq!(head.header("content-length"), expected.header("content-length"), "{key} {state}");
                assert_eq!(head.header("etag"), expected.header("etag"), "{key} {state}");
            }
        }
    }
    // The bucket's name is optional in the path.
    assert_eq!(gateway.get("/a/small.csv", "").text(), "a,b\n1,2\n");
}

#[test]
fn metadata_and_checksums_pass() {
    let origin = Origin::start();
    let described = "x-amz-meta-run: 7\r\nx-amz-meta-mtime: 1700000000.25\r\nContent-Type: text/x-special\r\n\
                     Cache-Control: max-age=5\r\nContent-Language: de\r\nContent-Disposition: inline\r\n\
                     x-amz-content-sha256: UNSIGNED-PAYLOAD\r\n";
    let put =
        Client::new(&origin.server).ask("PUT", "/bucket/k", &format!("{described}{S3}"), b"hello world");
    assert_eq!(put.status, 200, "{}", put.text());
    let gateway = Gateway::before(&origin, &Plan::default());
    let checked = format!("{S3}x-amz-checksum-mode: ENABLED\r\n");
    let (expected, found) = (origin.get("/bucket/k", &checked), gateway.get("/bucket/k", &checked));
    assert_eq!(found.text(), "hello world");
    for name in [
        "x-amz-meta-run",
        "x-amz-meta-mtime",
        "content-type",
        "cache-control",
        "content-language",
        "content-disposition",
        "x-amz-checksum-crc64nvme",
        "x-amz-checksum-type",
        "etag",
    ] {
        assert!(expected.header(name).is_some(), "{name}");
        assert_eq!(found.header(name), expected.header(name), "{name}");
    }
}

#[test]
fn every_range_is_that_of_the_object() {
    let origin = Origin::start();
    let content = version(2, LENGTH);
    origin.put("k", &content);
    let ends = [0, 1, 131_071, 131_072, 131_073, 400_000, LENGTH - 1, LENGTH];
    for headers in ["", S3] {
        let gateway = Gateway::before(&origin, &Plan::default());
        for start in ends {
            for end in ends.into_iter().filter(|end| *end > start) {
                let range = format!("{headers}Range: bytes={start}-{}\r\n", end - 1);
                let found = gateway.get("/bucket/k", &range);
                assert_eq!(found.status, 206, "{start}-{end}");
                assert!(found.body == content[start..end], "{start}-{end}");
                let stated = format!("bytes {start}-{}/{LENGTH}", end - 1);
                assert_eq!(found.header("content-range"), Some(stated.as_str()));
            }
        }
        let past = gateway.get("/bucket/k", &format!("{headers}Range: bytes={LENGTH}-\r\n"));
        assert_eq!(past.status, 416);
        assert_eq!(
            gateway.get("/bucket/k", &format!("{headers}Range: bytes=-5\r\n")).body,
            content[LENGTH - 5..]
        );
    }
}

#[test]
fn conditions_are_judged_by_the_origins_tag() {
    let origin = Origin::start();
    origin.put("k", b"content");
    let gateway = Gateway::before(&origin, &Plan::default());
    let etag = gateway.get("/bucket/k", "").header("etag").unwrap().to_owned();
    for headers in ["", S3] {
        let ask = |line: &str| gateway.get("/bucket/k", &format!("{headers}{line}\r\n")).status;
        assert_eq!(ask(&format!("If-Match: {etag}")), 200);
        assert_eq!(ask("If-Match: \"other\""), 412);
        assert_eq!(ask(&format!("If-None-Match: {etag}")), 304);
        assert_eq!(ask(&format!("If-Range: {etag}\r\nRange: bytes=0-0")), 206);
        assert_eq!(ask("If-Range: \"other\"\r\nRange: bytes=0-0"), 200);
    }
    assert_eq!(gateway.get("/bucket/none", "").status, 404);
    assert_eq!(gateway.get("/bucket/none", S3).text().matches("NoSuchKey").count(), 1);
    assert_eq!(gateway.get("/other/k", S3).text().matches("NoSuchBucket").count(), 1);
}

#[test]
fn writes_are_refused_by_every_way_and_change_nothing() {
    let origin = Origin::start();
    origin.put("k", b"content");
    let gateway = Gateway::before(&origin, &Plan::default());
    let ask = |method: &str, target: &str, headers: &str, body: &[u8]| {
        Client::new(&gateway.server).ask(method, target, headers, body)
    };
    for (method, target) in [("PUT", "/bucket/k"), ("DELETE", "/bucket/k"), ("POST", "/bucket/k")] {
        let refused = ask(method, target, "", b"other");
        assert!(
            refused.status == 405 && refused.text().contains("only reads"),
            "{method}: {}",
            refused.text()
        );
    }
    for (method, target) in [
        ("PUT", "/bucket/k"),
        ("DELETE", "/bucket/k"),
        ("POST", "/bucket/k?uploads"),
        ("PUT", "/bucket/k?partNumber=1&uploadId=x"),
        ("DELETE", "/bucket"),
        ("PUT", "/bucket/k?acl"),
    ] {
        let refused = ask(method, target, &format!("{S3}x-amz-content-sha256: UNSIGNED-PAYLOAD\r\n"), b"");
        assert_eq!(refused.status, 403, "{method} {target}: {}", refused.text());
        assert!(refused.text().contains("s3://bucket"), "{method} {target}: {}", refused.text());
    }
    assert_eq!(gateway.get("/bucket/k", "").text(), "content");
    assert_eq!(origin.get("/bucket/k", "").text(), "content");
}

#[test]
fn an_object_without_a_version_is_one_stream_each_time() {
    let content = version(3, 700_000);
    let body = content.clone();
    let origin = Scripted::start(move |_, head| match head.starts_with("HEAD") {
        true => ScriptedReply::raw("200 OK", &["content-length: 700000"], b""),
        false => ScriptedReply::answer("200 OK", &[], &body),
    });
    let plan = Plan { location: Box::leak(format!("{}/", origin.url()).into_boxed_str()), ..Plan::default() };
    let gateway = Gateway::start("http://127.0.0.1:1", &plan, |_| {});
    for headers in ["", "Range: bytes=10-20\r\n"] {
        let found = gateway.get("/dir/x", headers);
        assert_eq!(found.status, 200, "{}", found.text());
        assert!(found.body == content && found.header("etag").is_none(), "{}", found.head);
    }
    let gets = origin.heads().iter().filter(|head| head.starts_with("GET")).count();
    assert_eq!(gets, 2, "nothing is cached");
}

#[test]
fn a_cache_smaller_than_the_object_serves_it_whole() {
    let origin = Origin::start();
    let content = version(4, 6 << 20);
    origin.put("k", &content);
    let gateway = Gateway::before(&origin, &Plan { cache_size: Some(2 << 20), ..Plan::default() });
    for _ in 0..2 {
        assert!(gateway.get("/bucket/k", "").body == content);
    }
}

#[test]
fn the_counters_tell_hits_origin_bytes_requests_and_price() {
    let origin = Origin::start();
    origin.put("k", &version(5, LENGTH));
    let gateway = Gateway::before(&origin, &Plan { fresh: Duration::from_secs(600), ..Plan::default() });
    (0..3).for_each(|_| drop(gateway.get("/bucket/k", "")));
    let text = gateway.get("/metrics", "").text();
    let value = |name: &str| -> f64 {
        let line =
            text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert_eq!(value("firstbyte_gateway_lookups_total{result=\"asked\"}"), 1.0);
    assert_eq!(value("firstbyte_gateway_lookups_total{result=\"fresh\"}"), 2.0);
    assert_eq!(value("firstbyte_gateway_origin_bytes_total"), LENGTH as f64);
    assert!(value("firstbyte_gateway_bytes_total{from=\"cache\"}") >= 2.0 * LENGTH as f64);
    assert_eq!(value("firstbyte_gateway_waiting"), 0.0);
    assert!(value("firstbyte_gateway_origin_usd_total") > 0.0);
}

#[test]
fn what_a_gateway_does_not_know_of_its_origin_is_not_made_up() {
    let origin = Origin::start();
    origin.put("k", b"content");
    let gateway = Gateway::before(&origin, &Plan::default());
    for query in ["k?tagging", "k?acl", "k?retention", "k?legal-hold"] {
        let refused = gateway.get(&format!("/bucket/{query}"), S3);
        assert!(
            refused.status == 501 && refused.text().contains("NotImplemented"),
            "{query}: {}",
            refused.text()
        );
        assert!(refused.text().contains("s3://bucket"), "{query}: {}", refused.text());
    }
    for query in [
        "versioning",
        "acl",
        "tagging",
        "policy",
        "lifecycle",
        "encryption",
        "object-lock",
        "cors",
        "logging",
        "ownershipControls",
        "requestPayment",
        "publicAccessBlock",
    ] {
        assert_eq!(gateway.get(&format!("/bucket?{query}"), S3).status, 501, "{query}");
        assert_ne!(origin.get(&format!("/bucket?{query}"), S3).status, 501, "{query}");
    }
    assert_eq!(gateway.get("/bucket?location", S3).status, 200);
}
