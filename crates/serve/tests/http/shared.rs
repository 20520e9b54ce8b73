//! Tests links that the page copies. They are signed with the visitor's key, for one file and a
//! limited time. Also tests the page for a name that does not exist.

use base64::Engine as _;
use firstbyte_serve::{Authentication, Buckets, ServerKeys};
use firstbyte_testkit::until;
use serde_json::{Value, json};

use crate::client::{Answer, Client, Fixture, serve};

const PAGE: &str = "x-firstbyte-page: 1\r\n";
const HTML: &str = "Accept: text/html\r\n";

fn with_keys(base: &str, buckets: Buckets) -> Fixture {
    let keys = ServerKeys::parse("ann secret write bucket\nbob word read bucket/public\n").unwrap();
    let fixture = serve(|config| {
        config.authentication = Authentication::Keys(keys);
        base.clone_into(&mut config.base_path);
        config.buckets = buckets;
    });
    std::fs::write(fixture.directory.path().join("bucket/a b"), "content").unwrap();
    std::fs::write(fixture.directory.path().join("beside"), "x").unwrap();
    fixture
}

fn basic(key: &str, secret: &str) -> String {
    let credentials = base64::engine::general_purpose::STANDARD.encode(format!("{key}:{secret}"));
    format!("Authorization: Basic {credentials}\r\n")
}

fn ask(fixture: &Fixture, base: &str, path: &str, seconds: u64, headers: &str) -> Answer {
    let target = format!("{base}/.firstbyte/links?path={path}");
    Client::new(&fixture.server).ask(
        "POST",
        &target,
        headers,
        json!({ "seconds": seconds }).to_string().as_bytes(),
    )
}

fn link(fixture: &Fixture, base: &str, path: &str, seconds: u64) -> String {
    let answer = ask(fixture, base, path, seconds, &format!("{PAGE}{}", basic("ann", "secret")));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let value: Value = serde_json::from_slice(&answer.body).unwrap();
    value["url"].as_str().unwrap().to_owned()
}

fn get(fixture: &Fixture, target: &str) -> Answer {
    Client::new(&fixture.server).ask("GET", target, "", b"")
}

#[test]
fn a_link_opens_its_file_and_no_other_without_a_key() {
    for base in ["", "/files"] {
        let fixture = with_keys(base, Buckets::FirstLevel);
        let url = link(&fixture, base, "/bucket/a%2520b", 3600);
        let answer = get(&fixture, &url);
        assert_eq!((answer.status, answer.text().as_str()), (200, "content"), "{url}");
        assert_eq!(get(&fixture, &url.replace("a%20b", "other")).status, 403, "{url}");
        assert_eq!(get(&fixture, &url.replace("Expires=3600", "Expires=7200")).status, 403, "{url}");
        assert_eq!(Client::new(&fixture.server).ask("PUT", &url, "", b"x").status, 403, "{url}");
    }
}

#[test]
fn a_link_to_a_file_of_the_one_bucket_names_it() {
    let fixture = with_keys("", Buckets::Named("lab".into()));
    let url = link(&fixture, "", "/bucket/a%2520b", 60);
    assert!(url.starts_with("/lab/bucket/a%20b?"), "{url}");
    assert_eq!(get(&fixture, &url).text(), "content");
}

#[test]
fn a_link_ends() {
    let fixture = with_keys("", Buckets::FirstLevel);
    let url = link(&fixture, "", "/bucket/a%2520b", 1);
    until("the link has expired", || get(&fixture, &url).status == 403);
}

#[test]
fn a_link_gives_what_its_maker_may_read_and_no_other_site_can_ask_for_one() {
    let fixture = with_keys("", Buckets::FirstLevel);
    let bob = format!("{PAGE}{}", basic("bob", "word"));
    let (ann, from_elsewhere) = (format!("{PAGE}{}", basic("ann", "secret")), basic("ann", "secret"));
    for (path, seconds, headers, status) in [
        ("/bucket/a%2520b", 60, &bob, 403),
        ("/bucket/a%2520b", 60, &PAGE.to_owned(), 403),
        ("/bucket/a%2520b", 60, &from_elsewhere, 403),
        ("/bucket/a%2520b", 0, &ann, 400),
        ("/bucket/a%2520b", 8 * 24 * 3600, &ann, 400),
        ("/bucket/..%252fbeside", 60, &ann, 400),
    ] {
        let answer = ask(&fixture, "", path, seconds, headers);
        assert_eq!(answer.status, status, "{path} {seconds} {headers}: {}", answer.text());
    }
}

#[test]
fn a_file_beside_the_buckets_has_no_link() {
    let keys = ServerKeys::parse("ann secret read\n").unwrap();
    let fixture = serve(|config| config.authentication = Authentication::Keys(keys));
    let answer = ask(&fixture, "", "/beside", 60, &format!("{PAGE}{}", basic("ann", "secret")));
    assert_eq!(answer.status, 409, "{}", answer.text());
    assert!(answer.text().contains("move it into a directory"), "{}", answer.text());
}

#[test]
fn a_browser_gets_a_page_for_a_missing_name_and_programs_get_a_line() {
    let fixture = serve(|_| {});
    for target in ["/bucket/no%3Cb%3E", "/nowhere/", "/bucket/x/"] {
        let page = Client::new(&fixture.server).ask("GET", target, HTML, b"");
        assert_eq!(page.status, 404);
        assert!(page.header("content-type").unwrap().starts_with("text/html"), "{}", page.head);
        assert!(
            page.text().contains("<h1>Not found</h1>") && !page.text().contains("<b>"),
            "{}",
            page.text()
        );
        let line = get(&fixture, target);
        assert_eq!((line.status, line.text().as_str()), (404, "there is no such file or directory\n"));
    }
}
