//! Tests directories as objects: keys that end in `/` and were put are listed and kept like any
//! other key.

use crate::client::{Client, S3, element, serve};

const DESCRIBED: &str = "x-amz-meta-mode: 16877\r\n";

fn keys(client: &mut Client, query: &str) -> Vec<String> {
    let text = client.ask("GET", &format!("/bucket?list-type=2{query}"), S3, b"").text();
    let rest = text.split("<Key>").skip(1);
    rest.map(|key| key.split('<').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_directory_that_was_put_is_listed_beside_its_entries_and_outlives_them() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    for headers in [S3, &format!("{S3}{DESCRIBED}")] {
        assert_eq!(client.ask("PUT", "/bucket/d/", headers, b"").status, 200);
        assert_eq!(client.ask("PUT", "/bucket/d/e/f", S3, b"x").status, 200);
        assert_eq!(keys(&mut client, ""), ["d/", "d/e/f"]);
        assert_eq!(keys(&mut client, "&prefix=d/&delimiter=/"), ["d/"]);
        assert_eq!(keys(&mut client, "&start-after=d/"), ["d/e/f"]);
        assert_eq!(client.ask("DELETE", "/bucket/d/e/f", S3, b"").status, 204);
        assert_eq!(keys(&mut client, ""), ["d/"]);
        let head = client.ask("HEAD", "/bucket/d/", S3, b"");
        let kept = headers.contains("mode").then_some("16877");
        assert_eq!((head.status, head.header("x-amz-meta-mode")), (200, kept));
        assert_eq!(client.ask("DELETE", "/bucket/d/", S3, b"").status, 204);
        assert!(!fixture.directory.path().join("bucket/d").exists());
    }
}

#[test]
fn a_directory_that_was_put_and_deleted_is_listed_no_longer_and_keeps_its_entries() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    client.ask("PUT", "/bucket/d/", &format!("{S3}{DESCRIBED}"), b"");
    client.ask("PUT", "/bucket/d/f", S3, b"x");
    assert_eq!(client.ask("DELETE", "/bucket/d/", S3, b"").status, 204);
    assert_eq!(keys(&mut client, ""), ["d/f"]);
    assert_eq!(client.ask("HEAD", "/bucket/d/", S3, b"").header("x-amz-meta-mode"), None);
    client.ask("DELETE", "/bucket/d/f", S3, b"");
    assert!(keys(&mut client, "").is_empty());
    assert!(!fixture.directory.path().join("bucket/d").exists());
}

#[test]
fn pages_of_one_key_show_a_directory_that_was_put_and_its_entries_once() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    for key in ["d/", "d/a", "d/e/", "d/e/b", "d/z"] {
        client.ask("PUT", &format!("/bucket/{key}"), S3, b"");
    }
    let (mut shown, mut marker) = (Vec::new(), String::new());
    loop {
        let target = format!("/bucket?prefix=d/&delimiter=/&max-keys=1&marker={marker}");
        let page = client.ask("GET", &target, S3, b"").text();
        let between = |tag: &str| Some(page.split_once(&format!("<{tag}>"))?.1.split('<').next()?.to_owned());
        let common = page.split_once("<CommonPrefixes>").map(|(_, rest)| rest);
        let prefix = common.and_then(|rest| rest.split_once("<Prefix>")?.1.split('<').next());
        shown.extend(between("Key").or(prefix.map(str::to_owned)));
        match between("NextMarker") {
            Some(next) => marker = next,
            None => break,
        }
    }
    assert_eq!(shown, ["d/", "d/a", "d/e/", "d/z"]);
}

#[test]
fn a_key_below_a_file_is_missing_for_readers() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    client.ask("PUT", "/bucket/f", S3, b"x");
    for key in ["f/", "f/x", "f/x/y"] {
        let answer = client.ask("GET", &format!("/bucket/{key}"), S3, b"");
        assert_eq!(answer.status, 404, "{key}");
        assert!(answer.text().contains("<Code>NoSuchKey</Code>"), "{key}: {}", answer.text());
        assert_eq!(client.ask("HEAD", &format!("/bucket/{key}"), S3, b"").status, 404, "{key}");
    }
    assert_eq!(client.ask("PUT", "/bucket/f/x", S3, b"x").status, 400);
}

#[test]
fn a_key_that_no_file_can_have_is_missing_for_readers_and_deletions() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let long = format!("{}/k", "n".repeat(256));
    for key in ["a//b", "/k", "a/../b", "./a", ".firstbyte/k", &long] {
        let path = format!("/bucket/{key}");
        let got = client.ask("GET", &path, S3, b"");
        assert_eq!((got.status, element(&got, "Code").as_deref()), (404, Some("NoSuchKey")), "{key}");
        assert_eq!(client.ask("HEAD", &path, S3, b"").status, 404, "{key}");
        assert_eq!(client.ask("DELETE", &path, S3, b"").status, 204, "{key}");
        assert_eq!(client.ask("DELETE", &path, &format!("{S3}If-Match: *\r\n"), b"").status, 404, "{key}");
        let named = format!("<Delete><Object><Key>{key}</Key></Object></Delete>");
        let deleted = client.ask("POST", "/bucket?delete", S3, named.as_bytes());
        assert_eq!(element(&deleted, "Key").as_deref(), Some(key), "{}", deleted.text());
        assert!(deleted.text().contains("<Deleted>"), "{}", deleted.text());
        assert_eq!(client.ask("PUT", &path, S3, b"x").status, 400, "{key}");
    }
    assert_eq!(client.ask("DELETE", "/missing/a//b", S3, b"").status, 404);
}

#[test]
fn lists_leave_out_links_to_directories_and_names_through_them_work() {
    let fixture = serve(|_| {});
    let bucket = fixture.directory.path().join("bucket");
    std::fs::create_dir(bucket.join("run")).unwrap();
    std::fs::write(bucket.join("run/k"), "x").unwrap();
    std::os::unix::fs::symlink("run", bucket.join("latest")).unwrap();
    let mut client = Client::new(&fixture.server);
    for query in ["list-type=2", "list-type=2&delimiter=/", "delimiter=/&prefix=l", "versions"] {
        let listed = client.ask("GET", &format!("/bucket?{query}"), S3, b"").text();
        assert!(!listed.contains("latest"), "{query}: {listed}");
    }
    let below = client.ask("GET", "/bucket?list-type=2&prefix=latest/", S3, b"");
    assert_eq!(element(&below, "Key").as_deref(), Some("latest/k"));
    assert_eq!(client.ask("GET", "/bucket/latest/k", S3, b"").body, b"x");
}
