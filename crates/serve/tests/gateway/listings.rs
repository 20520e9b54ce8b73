//! Tests that listings through a gateway equal those of the origin, page by page.

use crate::client::{Client, S3, element};
use crate::origin::{Gateway, Origin, Plan, planned};

fn filled_origin() -> Origin {
    let origin = Origin::start();
    for number in 0..25 {
        origin.put(&format!("a/{number:02}/f"), b"x");
        origin.put(&format!("b-{number:02}"), b"xy");
    }
    for key in ["a.txt", "a/x", "z/ü/é", "z/a b+c&d"] {
        origin.put(key, b"xyz");
    }
    origin
}

/// Returns all keys, common prefixes, sizes and tags of a listing that is read in pages of `keys`
/// entries.
fn list_all(server: &firstbyte_serve::RunningServer, query: &str, keys: usize) -> Vec<String> {
    let (mut found, mut token) = (Vec::new(), String::new());
    loop {
        let target = format!("/bucket?list-type=2&max-keys={keys}{query}{token}");
        let page = Client::new(server).ask("GET", &target, S3, b"");
        assert_eq!(page.status, 200, "{target}: {}", page.text());
        let text = page.text();
        let rows =
            text.split("<Contents>").skip(1).map(|row| row.split("</Contents>").next().unwrap().to_owned());
        let mut rows: Vec<String> = rows.collect();
        let prefixes = text.split("<CommonPrefixes>").skip(1);
        rows.extend(prefixes.map(|row| row.split("</CommonPrefixes>").next().unwrap().to_owned()));
        assert!(rows.len() <= keys, "{target}");
        found.extend(rows);
        match element(&page, "NextContinuationToken") {
            Some(next) => token = format!("&continuation-token={next}"),
            None => {
                // Within one page, all keys come before all prefixes.
                found.sort();
                return found;
            }
        }
    }
}

fn sort_lines(text: String) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Parameters of listings with different delimiters, prefixes and starts.
const QUERIES: [&str; 15] = [
    "",
    "&delimiter=%2F",
    "&prefix=a%2F",
    "&prefix=a%2F&delimiter=%2F",
    "&prefix=a",
    "&prefix=a&delimiter=%2F",
    "&prefix=b-1",
    "&prefix=a%2F0&delimiter=%2F",
    "&prefix=z%2F",
    "&delimiter=-",
    "&delimiter=f",
    "&start-after=a%2F20%2Ff",
    "&start-after=a%2F20%2Ff&delimiter=%2F",
    "&prefix=none",
    "&prefix=a%2F05%2Ff%2F",
];

#[test]
fn pages_of_any_size_are_those_of_the_origin() {
    let origin = filled_origin();
    let gateway = Gateway::before(&origin, &Plan::default());
    for query in QUERIES {
        let expected = list_all(&origin.server, query, 1000);
        for keys in [1, 2, 7, 1000] {
            assert_eq!(list_all(&gateway.server, query, keys), expected, "{query} by {keys}");
        }
    }
}

#[test]
fn with_names_of_a_manifest_the_origin_is_not_asked_for_listings() {
    let origin = filled_origin();
    let one = Gateway::before(&origin, &Plan { names: Some(planned(&origin)), ..Plan::default() });
    let names = Some(planned(&origin));
    let all = Gateway::before(&origin, &Plan { names, location: "s3://", ..Plan::default() });
    let expected = QUERIES.map(|query| list_all(&origin.server, query, 1000));
    let plain = origin.get("/bucket/a/", "").text();
    assert_eq!(one.get("/bucket/a.txt", "").text(), "xyz");
    origin.put("a/new", b"not planned");
    let _stopped = origin.stop();
    for gateway in [&one, &all] {
        for (query, expected) in QUERIES.iter().zip(&expected) {
            for keys in [1, 7, 1000] {
                assert_eq!(&list_all(&gateway.server, query, keys), expected, "{query} by {keys}");
            }
        }
        assert_eq!(sort_lines(gateway.get("/bucket/a/", "").text()), sort_lines(plain.clone()));
        assert!(gateway.get("/", S3).text().contains("<Name>bucket</Name>"));
    }
    assert!(all.get("/", S3).text().contains("<Name>another</Name>"));
    let rows = one.get("/bucket/a/?format=json", "").text();
    assert!(rows.contains("\"etag\"") && rows.contains("\"modified\":\"20"), "{rows}");
}

#[test]
fn the_first_version_of_the_call_and_lists_of_buckets_work() {
    let origin = filled_origin();
    let gateway = Gateway::before(&origin, &Plan::default());
    let first = gateway.get("/bucket?delimiter=%2F&max-keys=2", S3);
    assert_eq!(element(&first, "NextMarker").as_deref(), Some("a/"), "{}", first.text());
    let second = gateway.get("/bucket?delimiter=%2F&max-keys=2&marker=a%2F", S3).text();
    assert!(second.contains("<Key>b-00</Key>") && !second.contains("<Prefix>a/</Prefix>"), "{second}");
    assert!(gateway.get("/", S3).text().contains("<Name>bucket</Name>"));
    assert_eq!(gateway.ask("HEAD", "/bucket", S3).status, 200);
    assert_eq!(gateway.get("/bucket?location", S3).status, 200);
    assert_eq!(gateway.get("/bucket?versions", S3).status, 501);
}

#[test]
fn all_buckets_of_a_service_are_served() {
    let origin = filled_origin();
    std::fs::create_dir(origin.directory.path().join("second")).unwrap();
    let gateway = Gateway::before(&origin, &Plan { location: "s3://", ..Plan::default() });
    let buckets = gateway.get("/", S3).text();
    assert!(buckets.contains("<Name>bucket</Name>") && buckets.contains("<Name>second</Name>"), "{buckets}");
    assert_eq!(gateway.get("/bucket/a.txt", S3).text(), "xyz");
    assert_eq!(gateway.get("/bucket/a.txt", "").text(), "xyz");
    assert_eq!(gateway.ask("HEAD", "/third", S3).status, 404);
    let missing = gateway.get("/third/x", S3);
    assert!(missing.status == 404 && missing.text().contains("NoSuchBucket"), "{}", missing.text());
    assert!(gateway.get("/bucket/none", S3).text().contains("NoSuchKey"));
    assert_eq!(list_all(&gateway.server, "", 1000), list_all(&origin.server, "", 1000));
}

#[test]
fn plain_listings_have_the_origins_names_and_directories_redirect() {
    let origin = filled_origin();
    let gateway = Gateway::before(&origin, &Plan::default());
    for path in ["/bucket/", "/bucket/a/", "/bucket/z/", "/bucket/?recursive"] {
        let expected = sort_lines(origin.get(path, "").text());
        let expected: Vec<_> =
            expected.into_iter().filter(|name| !path.contains('?') || !name.ends_with('/')).collect();
        assert_eq!(sort_lines(gateway.get(path, "").text()), expected, "{path}");
    }
    let rows = gateway.get("/bucket/a/?format=json", "").text();
    assert!(rows.contains("\"name\":\"x\"") && rows.contains("\"kind\":\"directory\""), "{rows}");
    let moved = gateway.get("/bucket/a", "");
    assert_eq!((moved.status, moved.header("location")), (301, Some("/bucket/a/")));
    assert_eq!(gateway.get("/bucket/none/", "").status, 404);
    assert_eq!(gateway.get("/bucket/z/a%20b+c&d", "").text(), "xyz");
    let page = gateway.get("/bucket/a/", "Accept: text/html\r\n").text();
    assert!(page.contains("<title>") && page.contains("/bucket/a/x\""), "{page}");
}
