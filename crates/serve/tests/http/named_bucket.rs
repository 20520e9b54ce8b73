//! Tests `Buckets::Named`: the directory itself is the bucket, with and without its name in the
//! path.

use firstbyte_serve::{Authentication, Buckets, ServerKeys};

use crate::client::{Client, Fixture, serve};

fn serve_bucket(keys: Option<&str>) -> Fixture {
    let fixture = serve(|config| {
        config.buckets = Buckets::Named("data".to_owned());
        if let Some(keys) = keys {
            config.authentication = Authentication::Keys(ServerKeys::parse(keys).unwrap());
        }
    });
    let root = fixture.directory.path();
    std::fs::create_dir_all(root.join("sub")).unwrap();
    std::fs::write(root.join("key"), "content").unwrap();
    std::fs::write(root.join("sub/key"), "below").unwrap();
    fixture
}

#[test]
fn an_unsigned_get_names_an_object_with_the_bucket_and_without() {
    let fixture = serve_bucket(None);
    let mut client = Client::new(&fixture.server);
    for (path, content) in [
        ("/data/key", "content"),
        ("/key", "content"),
        ("/data/sub/key", "below"),
        ("/d%61ta/sub/key", "below"),
        ("/sub/key", "below"),
    ] {
        assert_eq!(client.ask("GET", path, "", b"").text(), content, "{path}");
        assert_eq!(client.ask("HEAD", path, "", b"").status, 200, "{path}");
        let part = client.ask("GET", path, "Range: bytes=0-2\r\n", b"");
        assert_eq!((part.status, part.text().as_str()), (206, &content[..3]), "{path}");
    }
    assert_eq!(client.ask("GET", "/data/key", "x-amz-date: x\r\n", b"").text(), "content");
    assert_eq!(client.ask("GET", "/data/missing", "", b"").status, 404);
    assert_eq!(client.ask("GET", "/database", "", b"").status, 404);
    assert_eq!(client.ask("PUT", "/data/new", "", b"put").status, 201);
    assert_eq!(std::fs::read(fixture.directory.path().join("new")).unwrap(), b"put");
    let moved = client.ask("GET", "/data/sub", "", b"");
    assert_eq!((moved.status, moved.header("location")), (301, Some("/data/sub/")));
    for path in ["/data/", "/"] {
        assert!(client.ask("GET", path, "Accept: application/json\r\n", b"").text().contains("\"key\""));
    }
}

#[test]
fn a_directory_of_the_buckets_own_name_lies_below_the_bucket() {
    let fixture = serve_bucket(None);
    let root = fixture.directory.path();
    std::fs::create_dir(root.join("data")).unwrap();
    std::fs::write(root.join("data/key"), "inner").unwrap();
    let mut client = Client::new(&fixture.server);
    // Every form of request gets the same object, even from an S3 client without signatures.
    assert_eq!(client.ask("GET", "/data/key", "", b"").text(), "content");
    assert_eq!(client.ask("GET", "/data/key", "x-amz-date: x\r\n", b"").text(), "content");
    assert_eq!(client.ask("GET", "/data/data/key", "", b"").text(), "inner");
    assert_eq!(client.ask("GET", "/data/data/key", "x-amz-date: x\r\n", b"").text(), "inner");
    // The page's links use the bucket's name.
    let moved = client.ask("GET", "/data/data", "", b"");
    assert_eq!((moved.status, moved.header("location")), (301, Some("/data/data/")));
    let page = client.ask("GET", "/data/", "Accept: text/html\r\n", b"").text();
    assert!(page.contains("href=\"/data/data/\""), "{page}");
    let moved = client.ask("GET", "/", "Accept: text/html\r\n", b"");
    assert_eq!((moved.status, moved.header("location")), (307, Some("/data/")));
}

#[test]
fn rights_hold_for_both_forms() {
    let fixture = serve_bucket(Some("alice secret read sub\n"));
    let mut client = Client::new(&fixture.server);
    let alice = "Authorization: Basic YWxpY2U6c2VjcmV0\r\n";
    for form in ["", "/data"] {
        assert_eq!(client.ask("GET", &format!("{form}/sub/key"), alice, b"").text(), "below");
        assert_eq!(client.ask("GET", &format!("{form}/key"), alice, b"").status, 403);
        assert_eq!(client.ask("GET", &format!("{form}/sub/key"), "", b"").status, 401);
    }
}
