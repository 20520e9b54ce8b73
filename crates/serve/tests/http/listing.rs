//! Tests listings of a directory for clients that are not browsers.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use firstbyte_serve::{Buckets, WritePolicy};

use crate::client::{Client, S3, element, serve};

fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_client_that_does_not_ask_for_html_gets_all_names_a_line_each() {
    let fixture = serve(|config| config.writing = WritePolicy::Refused);
    let bucket = fixture.directory.path().join("bucket");
    for number in 0..2500 {
        std::fs::write(bucket.join(format!("f{number:04}")), "").unwrap();
    }
    std::fs::create_dir(bucket.join("sub")).unwrap();
    for name in [&b"a\nb"[..], b"bad\xff", "näme <b>".as_bytes()] {
        std::fs::write(bucket.join(OsStr::from_bytes(name)), "").unwrap();
    }
    std::fs::write(bucket.join(".x.firstbyte-part"), "").unwrap();
    let mut client = Client::new(&fixture.server);
    for accept in
        ["", "Accept: */*\r\n", "Accept: text/plain\r\n", "User-Agent: curl/8.14.1\r\nAccept: */*\r\n"]
    {
        let answer = client.ask("GET", "/bucket/", accept, b"");
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"), "{accept}");
        let text = answer.text();
        let lines = lines(&text);
        assert_eq!(lines.len(), 2504, "{accept}");
        assert!(["a\\nb", "bad\\xff", "näme <b>", "sub/", "f2499"].iter().all(|name| lines.contains(name)));
    }
    let page = client.ask("GET", "/bucket/", "Accept: text/html,*/*;q=0.8\r\n", b"");
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.text().contains("<script>"));
    let asked = client.ask("GET", "/bucket/?format=text", "Accept: text/html\r\n", b"");
    assert_eq!(lines(&asked.text()).len(), 2504);
    let below = client.ask("GET", "/?recursive", "", b"").text();
    assert!(lines(&below).contains(&"bucket/sub/") && lines(&below).contains(&"bucket/f0000"), "{below}");
}

#[test]
fn programs_that_follow_links_get_a_link_to_every_entry() {
    let fixture = serve(|config| config.base_path = "/base".to_owned());
    let bucket = fixture.directory.path().join("bucket");
    std::fs::create_dir(bucket.join("sub dir")).unwrap();
    for number in 0..1500 {
        std::fs::write(bucket.join(format!("f{number:04}")), "x").unwrap();
    }
    std::fs::write(bucket.join("<img src=x onerror=alert(1)>"), "x").unwrap();
    let mut client = Client::new(&fixture.server);
    for agent in ["Wget/1.25.0", "rclone/v1.60.1", "Python/3.13 aiohttp/3.13.2"] {
        let headers = format!("User-Agent: {agent}\r\nAccept: */*\r\n");
        let page = client.ask("GET", "/base/bucket/", &headers, b"").text();
        let links: Vec<&str> =
            page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(links.len(), 1502, "{agent}");
        assert!(!page.contains("<img") && links.contains(&"/base/bucket/sub%20dir/"), "{agent}");
        assert_eq!(client.ask("GET", links[0], &headers, b"").status, 200, "{}", links[0]);
    }
}

#[test]
fn links_from_the_root_lead_below_a_bucket_of_an_entrys_name() {
    let fixture = serve(|config| config.buckets = Buckets::Named("bucket".to_owned()));
    let mut client = Client::new(&fixture.server);
    let moved = client.ask("GET", "/", "User-Agent: Wget/1.25.0\r\n", b"");
    assert_eq!((moved.status, moved.header("location")), (307, Some("/bucket/")));
}

#[test]
fn a_page_that_begins_at_a_key_is_current_unless_the_client_allows_it_an_age() {
    let fixture = serve(|config| config.writing = WritePolicy::Refused);
    let bucket = fixture.directory.path().join("bucket");
    let mut client = Client::new(&fixture.server);
    let mut shows = |name: &str, headers: &str| {
        let page = client.ask("GET", "/bucket?list-type=2&start-after=a", headers, b"");
        assert_eq!(page.status, 200);
        page.text().contains(&format!("<Key>{name}</Key>"))
    };
    std::fs::write(bucket.join("b"), "").unwrap();
    assert!(shows("b", ""));
    std::fs::write(bucket.join("c"), "").unwrap();
    assert!(!shows("c", "Cache-Control: no-transform, Max-Age=600\r\n"));
    assert!(shows("c", "Cache-Control: max-age=0\r\n"));
    std::fs::write(bucket.join("d"), "").unwrap();
    assert!(shows("d", "Cache-Control: max-age=soon\r\n"));
    std::fs::write(bucket.join("e"), "").unwrap();
    assert!(shows("e", ""));
}

#[test]
fn s3_lists_owners_on_request_and_takes_empty_parameters_as_none() {
    let fixture = serve(|_| {});
    std::fs::create_dir(fixture.directory.path().join("bucket/d")).unwrap();
    std::fs::write(fixture.directory.path().join("bucket/d/a"), "x").unwrap();
    let mut client = Client::new(&fixture.server);
    for (query, owner) in [
        ("list-type=2&delimiter=&continuation-token=", false),
        ("list-type=2&fetch-owner=true", true),
        ("list-type=2&fetch-owner=false", false),
        ("delimiter=", true),
        ("versions&delimiter=", true),
    ] {
        let listed = client.ask("GET", &format!("/bucket?{query}"), S3, b"");
        assert_eq!(listed.status, 200, "{query}: {}", listed.text());
        assert_eq!(element(&listed, "Key").as_deref(), Some("d/a"), "{query}: {}", listed.text());
        assert!(!listed.text().contains("<Delimiter>"), "{query}: {}", listed.text());
        assert_eq!(listed.text().contains("<Owner>"), owner, "{query}: {}", listed.text());
    }
}

#[test]
fn a_listing_says_to_caches_that_it_depends_on_the_client() {
    let fixture = serve(|_| {});
    std::fs::write(fixture.directory.path().join("bucket/f"), "x").unwrap();
    let mut client = Client::new(&fixture.server);
    for (target, varies) in [("/bucket/", true), ("/bucket/missing", true), ("/bucket/f", false)] {
        let answer = client.ask("GET", target, "", b"");
        let names: Vec<&str> = answer.head.lines().filter_map(|line| line.strip_prefix("vary: ")).collect();
        assert_eq!(names.contains(&"accept, user-agent"), varies, "{target}: {names:?}");
    }
}

#[test]
fn a_redirect_to_a_directory_stays_on_this_server() {
    let fixture = serve(|_| {});
    std::fs::create_dir(fixture.directory.path().join(format!("\\{}", "evil.example"))).unwrap();
    let mut client = Client::new(&fixture.server);
    let moved = client.ask("GET", "/\\evil.example?q", "", b"");
    assert_eq!((moved.status, moved.header("location")), (301, Some("/%5Cevil.example/?q")));
}
