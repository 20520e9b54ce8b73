//! Tests rights by prefix: their boundaries, and that links, listings and refusals reveal nothing
//! outside them.

use std::os::unix::fs::symlink;

use firstbyte_serve::{Authentication, ServerKeys};

use crate::client::{Answer, Client, Fixture, serve};
use crate::signing::Signed;

/// HTTP Basic with alice:secret.
const ALICE: &str = "Authorization: Basic YWxpY2U6c2VjcmV0\r\n";

fn serve_keys(lines: &str) -> Fixture {
    let keys = ServerKeys::parse(lines).unwrap();
    let fixture = serve(|config| config.authentication = Authentication::Keys(keys));
    let bucket = fixture.directory.path().join("bucket");
    for directory in ["public", "public-secret", "other/deep"] {
        std::fs::create_dir_all(bucket.join(directory)).unwrap();
        std::fs::write(bucket.join(directory).join("f"), format!("in {directory}")).unwrap();
    }
    std::fs::write(bucket.join("public.txt"), "beside").unwrap();
    fixture
}

fn get_as_alice(fixture: &Fixture, path: &str) -> Answer {
    Client::new(&fixture.server).ask("GET", path, ALICE, b"")
}

fn s3(fixture: &Fixture, method: &str, path: &str, query: &[(&str, &str)], body: &[u8]) -> Answer {
    let (target, lines) = Signed { query, ..Signed::new(method, path) }.by_header();
    Client::new(&fixture.server).ask(method, &target, &lines, body)
}

#[test]
fn a_prefix_ends_at_a_slash() {
    for prefix in ["bucket/public", "bucket/public/", "/bucket/public"] {
        let fixture = serve_keys(&format!("alice secret write {prefix}\n"));
        assert_eq!(get_as_alice(&fixture, "/bucket/public/f").text(), "in public");
        assert_eq!(get_as_alice(&fixture, "/bucket/public/").status, 200);
        assert_eq!(s3(&fixture, "GET", "/bucket/public/f", &[], b"").text(), "in public");
        for beyond in ["/bucket/public-secret/f", "/bucket/public.txt", "/bucket/other/deep/f"] {
            assert_eq!(get_as_alice(&fixture, beyond).status, 403, "{prefix}: {beyond}");
            assert_eq!(s3(&fixture, "GET", beyond, &[], b"").status, 403, "{prefix}: {beyond}");
            let put = Client::new(&fixture.server).ask("PUT", beyond, ALICE, b"overwritten");
            assert_eq!(put.status, 403, "{prefix}: {beyond}");
            assert_eq!(s3(&fixture, "PUT", beyond, &[], b"overwritten").status, 403);
            assert_eq!(s3(&fixture, "DELETE", beyond, &[], b"").status, 403);
        }
        assert_eq!(get_as_alice(&fixture, "/bucket/public-secret/").status, 403);
        let begun = "POST /.firstbyte/uploads?path=/bucket/public-secret/ HTTP/1.1\r\nHost: localhost\r\n";
        let mut client = Client::new(&fixture.server);
        client.send(format!("{begun}x-firstbyte-page: 1\r\n{ALICE}Content-Length: 2\r\n\r\n{{}}").as_bytes());
        assert_eq!(client.answer(false).status, 403);
    }
}

#[test]
fn a_refusal_does_not_tell_which_names_exist() {
    let fixture = serve_keys("alice secret write bucket/public\n");
    let same = |there: &Answer, missing: &Answer| {
        assert_eq!((there.status, there.text()), (missing.status, missing.text()));
        assert_eq!(there.status, 403, "{}", there.text());
    };
    for (there, missing) in [
        ("/bucket/other/deep/f", "/bucket/other/deep/missing"),
        ("/bucket/other/deep/", "/bucket/other/missing/"),
        ("/bucket/other/deep", "/bucket/other/missing"),
        ("/bucket/public.txt", "/bucket/public.md"),
        ("/bucket/other/deep/f", "/missing-bucket/f"),
    ] {
        same(&get_as_alice(&fixture, there), &get_as_alice(&fixture, missing));
        same(&s3(&fixture, "GET", there, &[], b""), &s3(&fixture, "GET", missing, &[], b""));
    }
    let copy = |source: &str| {
        let headers = [("host", "localhost"), ("x-amz-copy-source", source)];
        let (target, lines) =
            Signed { headers: &headers, ..Signed::new("PUT", "/bucket/public/copy") }.by_header();
        Client::new(&fixture.server).ask("PUT", &target, &lines, b"")
    };
    same(&copy("/bucket/other/deep/f"), &copy("/bucket/other/deep/missing"));
    same(&copy("/bucket/other/deep/f"), &copy("/missing-bucket/f"));
    let list = |bucket: &str| s3(&fixture, "GET", bucket, &[("list-type", "2"), ("prefix", "other/")], b"");
    same(&list("/bucket"), &list("/missing-bucket"));
}

#[test]
fn a_link_that_leads_out_of_the_prefix_is_refused() {
    let fixture = serve_keys("alice secret write bucket/public\nbob word read\n");
    let bucket = fixture.directory.path().join("bucket");
    symlink("../public-secret/f", bucket.join("public/file")).unwrap();
    symlink("../other", bucket.join("public/directory")).unwrap();
    symlink("f", bucket.join("public/within")).unwrap();
    assert_eq!(get_as_alice(&fixture, "/bucket/public/within").text(), "in public");
    assert_eq!(s3(&fixture, "GET", "/bucket/public/within", &[], b"").text(), "in public");
    for path in ["/bucket/public/file", "/bucket/public/directory/deep/f", "/bucket/public/directory/"] {
        assert_eq!(get_as_alice(&fixture, path).status, 404, "{path}");
        assert_eq!(s3(&fixture, "GET", path, &[], b"").status, 404, "{path}");
    }
    let written = Client::new(&fixture.server).ask("PUT", "/bucket/public/directory/new", ALICE, b"x");
    assert!(written.status >= 400, "{}", written.status);
    assert!(s3(&fixture, "PUT", "/bucket/public/directory/new", &[], b"x").status >= 400);
    assert!(s3(&fixture, "DELETE", "/bucket/public/directory/deep/f", &[], b"").status >= 400);
    assert!(!bucket.join("other/new").exists() && bucket.join("other/deep/f").exists());
    let listed = get_as_alice(&fixture, "/bucket/public/?format=json").text();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&listed).unwrap();
    let mut names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["f", "within"]);
    // With an access key for the whole directory, links to anywhere inside it are followed. The
    // header is base64 of bob:word.
    let whole = "Authorization: Basic Ym9iOndvcmQ=\r\n";
    let followed = Client::new(&fixture.server).ask("GET", "/bucket/public/file", whole, b"");
    assert_eq!(followed.text(), "in public-secret");
}

#[test]
fn listings_show_a_restricted_key_what_it_may_read_and_the_way_there() {
    let fixture = serve_keys("alice secret read bucket/public\nalice secret read bucket/other/deep\n");
    std::fs::create_dir(fixture.directory.path().join("second")).unwrap();
    for (path, shown) in [
        ("/?format=json", &["bucket"][..]),
        ("/bucket/?format=json", &["other", "public"]),
        ("/bucket/other/?format=json", &["deep"]),
        (
            "/?format=json&recursive",
            &[
                "bucket",
                "bucket/other",
                "bucket/other/deep",
                "bucket/other/deep/f",
                "bucket/public",
                "bucket/public/f",
            ],
        ),
    ] {
        let answer = get_as_alice(&fixture, path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let rows: Vec<serde_json::Value> = serde_json::from_slice(&answer.body).unwrap();
        let mut names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, shown, "{path}");
    }
    let page =
        Client::new(&fixture.server).ask("GET", "/bucket/", &format!("{ALICE}Accept: text/html\r\n"), b"");
    assert_eq!(page.status, 200);
    assert!(page.text().contains("public/") && !page.text().contains("public-secret"));
    let keys = |query: &[(&str, &str)]| {
        let answer = s3(&fixture, "GET", "/bucket", query, b"");
        assert_eq!(answer.status, 200, "{}", answer.text());
        let text = answer.text();
        let all = text.split(['<', '>']).collect::<Vec<_>>();
        let named = |tag: &str| {
            all.windows(2)
                .filter(|pair| pair[0] == tag && !pair[1].is_empty())
                .map(|pair| pair[1].to_owned())
                .collect::<Vec<_>>()
        };
        let mut found = named("Key");
        found.extend(named("Prefix").into_iter().filter(|prefix| prefix.ends_with('/')));
        found
    };
    assert_eq!(keys(&[("list-type", "2")]), ["other/deep/f", "public/f"]);
    assert_eq!(keys(&[("list-type", "2"), ("prefix", "publ")]), ["public/f"]);
    assert_eq!(keys(&[("delimiter", "/")]), ["other/", "public/"]);
    let buckets = s3(&fixture, "GET", "/", &[], b"").text();
    assert!(buckets.contains("<Name>bucket</Name>") && !buckets.contains("second"), "{buckets}");
}

#[test]
fn uploads_in_progress_of_others_are_not_listed() {
    let fixture = serve_keys("alice secret write bucket\n");
    for key in ["/bucket/public/a", "/bucket/public-secret/b"] {
        assert_eq!(s3(&fixture, "POST", key, &[("uploads", "")], b"").status, 200);
    }
    let directory = fixture.directory.path().to_owned();
    let mut config = firstbyte_serve::Config::new(&directory);
    config.authentication =
        Authentication::Keys(ServerKeys::parse("alice secret read bucket/public\n").unwrap());
    let server = firstbyte_serve::Server::start(config).unwrap();
    let (target, lines) = Signed { query: &[("uploads", "")], ..Signed::new("GET", "/bucket") }.by_header();
    let listed = Client::new(&server).ask("GET", &target, &lines, b"").text();
    assert!(listed.contains("public/a") && !listed.contains("public-secret"), "{listed}");
}

#[test]
fn a_prefix_that_no_path_can_have_is_refused_when_the_file_is_read() {
    for prefix in ["a/../b", "a//b", ".."] {
        let refused = ServerKeys::parse(&format!("alice secret read {prefix}\n")).unwrap_err();
        assert!(refused.contains("line 1") && refused.contains(prefix), "{refused}");
    }
}
