//! Tests files and objects: conditions, listings, metadata, multipart uploads.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use crate::client::{Client, S3, content, serve};

const SHA256_OF_123456789: &str = "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=";

#[test]
fn conditions_on_reads_and_writes_hold() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let first = client.ask("PUT", "/bucket/f", "If-None-Match: *\r\n", b"one");
    assert_eq!(first.status, 201);
    let tag = first.header("etag").unwrap().to_owned();
    assert_eq!(client.ask("PUT", "/bucket/f", "If-None-Match: *\r\n", b"two").status, 412);
    assert_eq!(client.ask("GET", "/bucket/f", &format!("If-None-Match: {tag}\r\n"), b"").status, 304);
    assert_eq!(client.ask("PUT", "/bucket/f", &format!("If-Match: {tag}\r\n"), b"two").status, 204);
    assert_eq!(client.ask("GET", "/bucket/f", &format!("If-Match: {tag}\r\n"), b"").status, 412);
    assert_eq!(client.ask("DELETE", "/bucket/f", &format!("If-Match: {tag}\r\n"), b"").status, 412);
    assert_eq!(client.ask("DELETE", "/bucket/f", "", b"").status, 204);
    assert_eq!(client.ask("GET", "/bucket/f", "", b"").status, 404);
}

#[test]
fn a_path_that_ends_in_a_slash_removes_no_file() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let path = fixture.directory.path().join("bucket/f");
    std::fs::write(&path, "x").unwrap();
    assert_eq!(client.ask("DELETE", "/bucket/f/", "", b"").status, 404);
    assert_eq!(client.ask("DELETE", "/bucket/f/", S3, b"").status, 204);
    assert!(path.exists());
    std::fs::create_dir(fixture.directory.path().join("bucket/d")).unwrap();
    assert_eq!(client.ask("DELETE", "/bucket/d/", "", b"").status, 204);
}

#[test]
fn listings_for_programs_name_every_file_once() {
    let fixture = serve(|_| {});
    for number in 0..2000 {
        std::fs::write(fixture.directory.path().join(format!("bucket/{number}")), "x").unwrap();
    }
    let mut client = Client::new(&fixture.server);
    let text = client.ask("GET", "/?format=ndjson&recursive", "", b"").text();
    let files: std::collections::BTreeSet<_> =
        text.lines().filter(|line| line.contains("\"kind\":\"file\"")).collect();
    assert_eq!(files.len(), 2000);
    let moved = client.ask("GET", "/bucket?format=json", "", b"");
    assert_eq!((moved.status, moved.header("location")), (301, Some("/bucket/?format=json")));
}

#[test]
fn plain_answers_tell_what_was_stored_with_an_object() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let described =
        format!("{S3}Content-Type: text/x-run\r\nx-amz-meta-run: 7\r\nCache-Control: no-store\r\n");
    assert_eq!(client.ask("PUT", "/bucket/f", &described, b"123456789").status, 200);
    let s3 = client.ask("HEAD", "/bucket/f", &format!("{S3}x-amz-checksum-mode: ENABLED\r\n"), b"");
    for (method, range) in [("HEAD", ""), ("GET", ""), ("GET", "Range: bytes=2-4\r\n")] {
        let plain = client.ask(method, "/bucket/f", range, b"");
        // The CRC-64/NVME of `123456789` is ae8b14860a799888, the catalogue's check value.
        assert_eq!(plain.header("x-amz-checksum-crc64nvme"), Some("rosUhgp5mIg="), "{method} {range}");
        assert_eq!(plain.header("x-amz-checksum-type"), Some("FULL_OBJECT"));
        for name in ["content-type", "x-amz-meta-run", "cache-control", "etag", "last-modified"] {
            assert_eq!(plain.header(name), s3.header(name), "{name} of {method} {range}");
            assert!(plain.header(name).is_some(), "{name}");
        }
    }
    std::fs::write(fixture.directory.path().join("bucket/f"), "changed by hand").unwrap();
    let changed = client.ask("GET", "/bucket/f", "", b"");
    assert_eq!((changed.header("x-amz-checksum-type"), changed.header("x-amz-meta-run")), (None, None));
}

#[test]
fn a_stored_type_cannot_make_a_file_a_page_of_this_origin() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    for kind in ["text/html", "TEXT/HTML", "text/xml", "application/xhtml+xml"] {
        let described = format!("{S3}Content-Type: {kind}\r\n");
        assert_eq!(client.ask("PUT", "/bucket/data", &described, b"<script>").status, 200);
        let plain = client.ask("GET", "/bucket/data", "", b"");
        assert!(plain.header("content-security-policy").unwrap().starts_with("sandbox"), "{kind}");
    }
}

#[test]
fn an_object_is_its_own_first_part_and_has_no_second() {
    let fixture = serve(|_| {});
    std::fs::write(fixture.directory.path().join("bucket/f"), "123456789").unwrap();
    let mut client = Client::new(&fixture.server);
    let first = client.ask("GET", "/bucket/f?partNumber=1", "", b"");
    assert_eq!((first.status, first.text().as_str()), (206, "123456789"));
    assert_eq!(first.header("content-range"), Some("bytes 0-8/9"));
    let second = client.ask("GET", "/bucket/f?partNumber=2", "", b"");
    assert_eq!(second.status, 416);
    assert!(second.text().contains("InvalidPartNumber"), "{}", second.text());
    let both = client.ask("GET", "/bucket/f?partNumber=1", "Range: bytes=0-1\r\n", b"");
    assert_eq!(both.status, 400);
}

#[test]
fn limited_transfers_are_whole() {
    let fixture = serve(|config| {
        config.limits.rate = Some(50_000_000);
        config.limits.connection_rate = Some(20_000_000);
    });
    let bytes = content(3_000_000);
    std::fs::write(fixture.directory.path().join("f"), &bytes).unwrap();
    let mut client = Client::new(&fixture.server);
    assert_eq!(client.ask("GET", "/f", "", b"").body, bytes);
    let part = client.ask("GET", "/f", "Range: bytes=1000000-\r\n", b"");
    assert_eq!(part.body, bytes[1_000_000..]);
}

#[test]
fn a_download_that_is_resumed_gets_no_part_of_another_version() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let first = client.ask("PUT", "/bucket/f", S3, b"one one");
    let tag = first.header("etag").unwrap().to_owned();
    let resume = |tag: &str| format!("Range: bytes=4-\r\nIf-Range: {tag}\r\n");
    for route in ["", S3] {
        let part = client.ask("GET", "/bucket/f", &format!("{route}{}", resume(&tag)), b"");
        assert_eq!((part.status, part.body.as_slice()), (206, &b"one"[..]), "{route}");
    }
    client.ask("PUT", "/bucket/f", S3, b"two two");
    for route in ["", S3] {
        let whole = client.ask("GET", "/bucket/f", &format!("{route}{}", resume(&tag)), b"");
        assert_eq!((whole.status, whole.body.as_slice()), (200, &b"two two"[..]), "{route}");
    }
}

#[test]
fn an_answer_whose_file_is_rewritten_in_place_breaks_off() {
    // The file is larger than all buffers of a connection together.
    const SIZE: usize = 48 << 20;
    let fixture = serve(|_| {});
    let path = fixture.directory.path().join("bucket/f");
    for route in ["", S3] {
        std::fs::write(&path, vec![1; SIZE]).unwrap();
        let mut client = Client::new(&fixture.server);
        client.send(format!("GET /bucket/f HTTP/1.1\r\nHost: localhost\r\n{route}\r\n").as_bytes());
        while client.buffer.is_empty() {
            client.fill();
        }
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[2; 1000], SIZE as u64 / 2).unwrap();
        while client.fill() > 0 {}
        assert!(client.buffer.len() < SIZE, "{route}");
        let again = Client::new(&fixture.server).ask("GET", "/bucket/f", route, b"");
        assert_eq!(again.body.len(), SIZE, "{route}");
    }
}

#[test]
fn a_file_rewritten_in_place_has_no_checksum_though_its_time_was_set_back() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let path = fixture.directory.path().join("bucket/f");
    let mode = format!("{S3}x-amz-checksum-mode: ENABLED\r\n");
    let described = format!("{S3}x-amz-checksum-sha256: {SHA256_OF_123456789}\r\nx-amz-meta-run: 7\r\n");
    for _ in 0..50 {
        assert_eq!(client.ask("PUT", "/bucket/f", &described, b"123456789").status, 200);
        let kept = client.ask("HEAD", "/bucket/f", &mode, b"");
        assert_eq!(kept.header("x-amz-checksum-sha256"), Some(SHA256_OF_123456789));
        let modified = path.metadata().unwrap().modified().unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"X", 0).unwrap();
        file.set_modified(modified).unwrap();
        let changed = client.ask("GET", "/bucket/f", &mode, b"");
        assert_eq!((changed.text().as_str(), changed.header("x-amz-meta-run")), ("X23456789", Some("7")));
        assert_eq!(changed.header("x-amz-checksum-sha256"), None, "{}", changed.head);
        assert_eq!(changed.header("x-amz-checksum-crc64nvme"), None, "{}", changed.head);
    }
}

#[test]
fn a_file_that_is_replaced_keeps_its_permissions_and_owner() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    for (name, mode) in [("private", 0o600), ("script", 0o755)] {
        let path = fixture.directory.path().join("bucket").join(name);
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let owner = (path.metadata().unwrap().uid(), path.metadata().unwrap().gid());
        for headers in ["", S3] {
            let status = client.ask("PUT", &format!("/bucket/{name}"), headers, b"new").status;
            let found = path.metadata().unwrap();
            assert_eq!((status / 100, found.mode() & 0o7777), (2, mode), "{name} {headers}");
            assert_eq!((found.uid(), found.gid()), owner, "{name} {headers}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }
}

#[test]
fn a_plain_put_stores_what_describes_its_content() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let headers = "Content-Encoding: gzip\r\nContent-Language: de\r\nContent-Disposition: inline\r\n\
                   Content-Type: text/x-run\r\nCache-Control: no-cache\r\n";
    assert_eq!(client.ask("PUT", "/bucket/f", headers, b"x").status, 201);
    assert_eq!(client.ask("PUT", "/bucket/f.json", "Content-Type: text/plain\r\n", b"{}").status, 201);
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    assert_eq!(client.ask("PUT", "/bucket/g", form, b"x").status, 201);
    for route in ["", S3] {
        let found = client.ask("GET", "/bucket/f", route, b"");
        for (name, value) in [
            ("content-encoding", Some("gzip")),
            ("content-language", Some("de")),
            ("content-disposition", Some("inline")),
            ("content-type", Some("text/x-run")),
            ("cache-control", None),
        ] {
            assert_eq!(found.header(name), value, "{name} {route}");
        }
        let kind = |client: &mut Client, key: &str| {
            client.ask("HEAD", key, route, b"").header("content-type").map(str::to_owned)
        };
        assert_eq!(kind(&mut client, "/bucket/f.json").as_deref(), Some("application/json"));
        assert_eq!(kind(&mut client, "/bucket/g").as_deref(), Some("application/octet-stream"));
    }
}

#[test]
fn repeated_user_metadata_is_joined() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let headers = format!("{S3}x-amz-meta-a: 1\r\nx-amz-meta-a: 2\r\n");
    assert_eq!(client.ask("PUT", "/bucket/f", &headers, b"x").status, 200);
    assert_eq!(client.ask("HEAD", "/bucket/f", S3, b"").header("x-amz-meta-a"), Some("1,2"));
}

#[test]
fn entries_that_are_no_files_are_never_a_failure_of_the_server() {
    let fixture = serve(|_| {});
    let bucket = fixture.directory.path().join("bucket");
    symlink("loop", bucket.join("loop")).unwrap();
    symlink("nowhere", bucket.join("dangling")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bucket.join("socket")).unwrap();
    let mut client = Client::new(&fixture.server);
    for (name, status) in [("loop", 404), ("dangling", 404), ("socket", 403)] {
        for route in ["", S3] {
            let answer = client.ask("GET", &format!("/bucket/{name}"), route, b"");
            assert_eq!(answer.status, status, "{name} {route} {}", answer.text());
        }
        let archive = client.ask("GET", &format!("/bucket/?archive=tar&name={name}"), "", b"");
        assert_eq!(archive.status, status, "{name}");
    }
}

#[test]
fn a_path_that_is_too_long_for_the_kernel_is_refused_as_such() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let path = format!("/bucket/{}", vec!["a".repeat(200); 25].join("/"));
    for (method, body) in [("GET", &b""[..]), ("PUT", b"x"), ("DELETE", b"")] {
        assert_eq!(client.ask(method, &path, "", body).status, 414, "{method}");
    }
}

#[test]
fn head_has_the_headers_that_a_link_asks_for_as_get_has() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    client.ask("PUT", "/bucket/f", &format!("{S3}Cache-Control: no-store\r\n"), b"x");
    let asked = [
        ("content-type", "text/csv"),
        ("cache-control", "max-age=5"),
        ("content-disposition", "inline"),
        ("content-encoding", "br"),
        ("content-language", "de"),
        ("expires", "Thu, 01 Dec 1994 16:00:00 GMT"),
    ];
    let query: Vec<String> =
        asked.iter().map(|(name, value)| format!("response-{name}={}", value.replace(' ', "%20"))).collect();
    for method in ["GET", "HEAD"] {
        let answer = client.ask(method, &format!("/bucket/f?x-id=x&{}", query.join("&")), "", b"");
        for (name, value) in asked {
            assert_eq!(answer.header(name), Some(value), "{method} {}", answer.head);
        }
    }
    let broken = client.ask("HEAD", "/bucket/f?x-id=x&response-content-type=a%0Ab", "", b"");
    assert_eq!(broken.status, 400);
}

#[test]
fn an_answer_of_not_modified_has_what_a_cache_needs() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let stored = "Cache-Control: max-age=60\r\nExpires: Thu, 01 Dec 1994 16:00:00 GMT\r\n";
    let put = client.ask("PUT", "/bucket/f", &format!("{S3}{stored}"), b"x");
    let known = format!("If-None-Match: {}\r\n", put.header("etag").unwrap());
    for kind in ["", S3] {
        let answer = client.ask("GET", "/bucket/f", &format!("{kind}{known}"), b"");
        assert_eq!((answer.status, answer.header("cache-control")), (304, Some("max-age=60")), "{kind}");
        assert_eq!(answer.header("expires"), Some("Thu, 01 Dec 1994 16:00:00 GMT"), "{kind}");
    }
}
