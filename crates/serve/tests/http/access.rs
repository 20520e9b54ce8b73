//! Tests limits on requests: origins, keys, path traversal.

use std::path::Path;

use firstbyte_serve::{Authentication, Config, Server, ServerKeys, WritePolicy};

use crate::client::{Client, serve};

#[test]
fn pages_of_other_sites_and_rebound_names_are_refused() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    assert_eq!(client.ask("PUT", "/f", "Origin: http://evil.example\r\n", b"x").status, 403);
    assert_eq!(client.ask("PUT", "/f", "Origin: http://localhost\r\n", b"x").status, 201);
    client.send(b"GET /f HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert_eq!(client.answer(false).status, 403);
}

#[test]
fn keys_open_what_their_prefix_covers_and_nothing_else() {
    let keys = ServerKeys::parse("alice secret write bucket/a/\nbob word read\n").unwrap();
    let fixture = serve(|config| config.authentication = Authentication::Keys(keys));
    std::fs::write(fixture.directory.path().join("bucket/f"), "x").unwrap();
    let mut client = Client::new(&fixture.server);
    // Base64 of alice:secret, bob:word and alice:wrong.
    let (alice, bob, wrong) = ("YWxpY2U6c2VjcmV0", "Ym9iOndvcmQ=", "YWxpY2U6d3Jvbmc=");
    let basic = |who: &str| format!("Authorization: Basic {who}\r\n");
    assert_eq!(client.ask("GET", "/bucket/f", "", b"").status, 401);
    assert_eq!(client.ask("GET", "/bucket/f", &basic(wrong), b"").status, 401);
    assert_eq!(client.ask("GET", "/bucket/f", &basic(alice), b"").status, 403);
    assert_eq!(client.ask("GET", "/bucket/f", &basic(bob), b"").status, 200);
    assert_eq!(client.ask("PUT", "/bucket/a/f", &basic(alice), b"x").status, 201);
    assert_eq!(client.ask("PUT", "/bucket/b", &basic(alice), b"x").status, 403);
    assert_eq!(client.ask("PUT", "/bucket/a/f", &basic(bob), b"x").status, 403);
    assert_eq!(client.ask("GET", "/bucket?list-type=2", "", b"").status, 403);
}

fn escapes(directory: &Path) -> Vec<String> {
    let name = directory.file_name().unwrap().to_str().unwrap();
    let mut targets =
        vec!["/out/secret".to_owned(), "/out".to_owned(), "/out/".to_owned(), "/chain/secret".to_owned()];
    let dots = [
        "..",
        "%2e%2e",
        "%2E.",
        ".%2e",
        "%252e%252e",
        "..;",
        "%c0%ae%c0%ae",
        "..%00",
        "%2e%2e%2f..",
        "..%5c..",
    ];
    let slashes = ["/", "%2f", "%2F", "%5c", "\\", "//", "/./", "%252f"];
    for dots in dots {
        for slash in slashes {
            for depth in [1, 2, 6] {
                let up = format!("{dots}{slash}").repeat(depth);
                targets.push(format!("/{up}secret"));
                targets.push(format!("/bucket/{up}outside/secret"));
                targets.push(format!("/bucket{slash}{up}{name}/../outside/secret"));
            }
        }
    }
    targets
}

#[test]
fn no_form_of_traversal_reaches_outside() {
    let around = tempfile::tempdir().unwrap();
    let (inside, outside) = (around.path().join("inside"), around.path().join("outside"));
    std::fs::create_dir_all(inside.join("bucket")).unwrap();
    std::fs::create_dir(&outside).unwrap();
    for secret in [around.path().join("secret"), outside.join("secret")] {
        std::fs::write(secret, "TOP-SECRET").unwrap();
    }
    std::os::unix::fs::symlink(&outside, inside.join("out")).unwrap();
    std::os::unix::fs::symlink("out", inside.join("chain")).unwrap();
    std::os::unix::fs::symlink("../../outside", inside.join("bucket/up")).unwrap();
    std::os::unix::fs::symlink("/proc/self/root", inside.join("bucket/magic")).unwrap();
    let mut config = Config::new(&inside);
    config.writing = WritePolicy::Allowed;
    let server = Server::start(config).unwrap();
    let mut targets = escapes(&inside);
    targets.extend(["/bucket/up/secret", "/bucket/magic/etc/passwd"].map(str::to_owned));
    assert!(targets.len() >= 200);
    for target in targets {
        for (method, headers) in [("GET", ""), ("GET", "x-amz-date: x\r\n"), ("PUT", ""), ("DELETE", "")] {
            let answer = Client::new(&server).ask(
                method,
                &target,
                headers,
                if method == "PUT" { b"HACKED" } else { b"" },
            );
            assert!(!answer.text().contains("SECRET"), "{method} {target}");
        }
    }
    for secret in [around.path().join("secret"), outside.join("secret")] {
        assert_eq!(std::fs::read_to_string(secret).unwrap(), "TOP-SECRET");
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn everything_lies_below_the_base_path() {
    let fixture = serve(|config| config.base_path = "/data".to_owned());
    std::fs::write(fixture.directory.path().join("bucket/f"), "x").unwrap();
    assert!(fixture.server.url().ends_with("/data"));
    let mut client = Client::new(&fixture.server);
    assert_eq!(client.ask("GET", "/data/bucket/f", "", b"").text(), "x");
    assert_eq!(client.ask("GET", "/bucket/f", "", b"").status, 404);
    assert_eq!(client.ask("GET", "/database/f", "", b"").status, 404);
    let moved = client.ask("GET", "/data/bucket", "", b"");
    assert_eq!((moved.status, moved.header("location")), (301, Some("/data/bucket/")));
    let page = client.ask("GET", "/data/bucket/", "Accept: text/html\r\n", b"");
    assert_eq!(page.status, 200);
    let links = page.text();
    let rooted = links.split("href=\"/").skip(1).chain(links.split("src=\"/").skip(1));
    for link in rooted {
        assert!(link.starts_with("data/"), "a link leaves the base path: /{}", &link[..link.len().min(40)]);
    }
    assert!(client.ask("GET", "/data/bucket?list-type=2", "", b"").text().contains("<Key>f</Key>"));
}

#[test]
fn below_a_base_path_a_false_signature_and_none_are_refused() {
    let keys = ServerKeys::parse("alice secret write\n").unwrap();
    let fixture = serve(|config| {
        config.base_path = "/data".to_owned();
        config.authentication = Authentication::Keys(keys);
    });
    let mut client = Client::new(&fixture.server);
    let date = "x-amz-date: 20260101T000000Z\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\n";
    let signed = format!(
        "Authorization: AWS4-HMAC-SHA256 Credential=alice/20260101/us-east-1/s3/aws4_request, \
            SignedHeaders=host, Signature=00\r\n{date}"
    );
    assert_eq!(client.ask("GET", "/data/bucket?list-type=2", &signed, b"").status, 403);
    // The request names a key, but has no signature.
    let named = "/data/bucket?list-type=2&X-Amz-Credential=alice/20260101/us-east-1/s3/aws4_request";
    assert_eq!(client.ask("GET", named, "", b"").status, 403);
    assert_eq!(client.ask("GET", "/data/bucket?list-type=2", date, b"").status, 403);
}

#[test]
fn a_password_reads_pages_whose_parameters_have_names_of_s3() {
    let keys = ServerKeys::parse("alice secret read\n").unwrap();
    let fixture = serve(|config| config.authentication = Authentication::Keys(keys));
    std::fs::write(fixture.directory.path().join("bucket/page.html"), "page").unwrap();
    let mut client = Client::new(&fixture.server);
    let password = "Authorization: Basic YWxpY2U6c2VjcmV0\r\n";
    for query in ["session=7", "location=here&policy", "prefix=a"] {
        let answer = client.ask("GET", &format!("/bucket/page.html?{query}"), password, b"");
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b"page"[..]), "{query}");
    }
    assert_eq!(client.ask("GET", "/bucket?list-type=2", "", b"").status, 403);
}
