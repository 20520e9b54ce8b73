//! Tests of the page's upload protocol, with raw requests over TCP to a real server.

mod client;

use std::fs;
use std::io::Write;
use std::net::TcpStream;

use client::{PART_BYTES, ask, begin, begin_named, complete, content, id, names, part, put, serve};
use firstbyte_serve::{Authentication, Config, Server, ServerKeys, WritePolicy};
use serde_json::json;

#[test]
fn parts_sent_in_parallel_out_of_order_and_twice_make_the_whole_file() {
    let place = tempfile::tempdir().unwrap();
    let server = serve(place.path(), WritePolicy::Allowed);
    let (to, whole) = (server.address(), content());
    let begun = begin(to);
    assert_eq!(begun["part_size"], PART_BYTES);
    let id = id(&begun);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let sends: Vec<_> = [2, 0, 1, 0, 2, 1]
            .map(|number| {
                let (id, whole) = (&id, &whole);
                scope.spawn(move || put(to, id, number, part(whole, number)).status)
            })
            .into();
        sends.into_iter().map(|send| send.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 3, "{statuses:?}");
    // The second request of each pair arrived during the first request or after it.
    assert!(statuses.iter().all(|status| [200, 201, 409].contains(status)), "{statuses:?}");
    assert_eq!(put(to, &id, 1, part(&whole, 1)).status, 200);
    let done = complete(to, &id, "refuse");
    assert_eq!((done.status, done.json()["name"].as_str()), (200, Some("data.bin")));
    assert!(fs::read(place.path().join("data.bin")).unwrap() == whole, "the content is another");
    assert_eq!(names(place.path()), ["data.bin"]);
    let modified = fs::metadata(place.path().join("data.bin")).unwrap().modified().unwrap();
    assert_eq!(modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis(), 1_700_000_000_123);
}

#[test]
fn what_the_browser_says_of_a_file_is_kept_with_it() {
    let place = tempfile::tempdir().unwrap();
    let to = serve(place.path(), WritePolicy::Allowed);
    let said = json!({ "name": "f", "size": 1, "mtime": 1_700_000_000_123_i64, "type": "application/x-lab" });
    let begun = ask(to.address(), "POST", "/.firstbyte/uploads?path=/", &[], said.to_string().as_bytes());
    let id = id(&begun.json());
    assert_eq!(put(to.address(), &id, 0, b"x").status, 201);
    assert_eq!(complete(to.address(), &id, "refuse").status, 200);
    let answer = ask(to.address(), "GET", "/f", &[], b"");
    assert_eq!(answer.header("content-type"), Some("application/x-lab"), "{}", answer.head);
    assert_eq!(answer.header("x-amz-meta-mtime"), Some("1700000000.123"), "{}", answer.head);
}

#[test]
fn a_damaged_or_misshapen_part_is_refused_and_stays_missing() {
    let place = tempfile::tempdir().unwrap();
    let server = serve(place.path(), WritePolicy::Allowed);
    let (to, whole) = (server.address(), content());
    let id = id(&begin(to));
    let target = |number: usize| format!("/.firstbyte/uploads/{id}/{number}?path=/");
    let bytes = part(&whole, 2);
    let wrong = ask(to, "PUT", &target(2), &[("x-firstbyte-crc32c", "00000000")], bytes);
    assert_eq!((wrong.status, wrong.json()["error"].as_str()), (400, Some("checksum")));
    for (number, length) in [(2, bytes.len() - 1), (1, bytes.len()), (0, 0)] {
        let wrong = put(to, &id, number, &bytes[..length]);
        assert_eq!((wrong.status, wrong.json()["error"].as_str()), (400, Some("length")), "part {number}");
    }
    assert_eq!(put(to, &id, 3, bytes).json()["error"], "no-part");
    assert_eq!(ask(to, "PUT", &target(2), &[], bytes).status, 400, "without a checksum");
    // Announces the whole part, sends half of it, and disconnects.
    let announced = bytes.len().to_string();
    let headers = [("x-firstbyte-crc32c", "00000000"), ("content-length", announced.as_str())];
    let mut stream = TcpStream::connect(to).unwrap();
    let [crc, length] = headers.map(|(name, value)| format!("{name}: {value}\r\n"));
    let head =
        format!("PUT {} HTTP/1.1\r\nHost: {to}\r\nx-firstbyte-page: 1\r\n{crc}{length}\r\n", target(2));
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&bytes[..bytes.len() / 2]).unwrap();
    drop(stream);
    let missing = complete(to, &id, "refuse");
    assert_eq!((missing.status, missing.json()["error"].as_str()), (409, Some("incomplete")));
    assert!(!place.path().join("data.bin").exists());
    // The server may still be ending the interrupted request. The page, like this loop, repeats the
    // part until the server accepts it.
    while put(to, &id, 2, bytes).status == 409 {}
    assert_eq!(begin(to)["held"], json!([2]));
}

#[test]
fn an_upload_goes_on_after_a_server_restart_with_the_parts_it_had() {
    let place = tempfile::tempdir().unwrap();
    let whole = content();
    let first = serve(place.path(), WritePolicy::Allowed);
    let begun = begin(first.address());
    assert_eq!(put(first.address(), &id(&begun), 1, part(&whole, 1)).status, 201);
    drop(first);

    let second = serve(place.path(), WritePolicy::Allowed);
    let to = second.address();
    let left = ask(to, "GET", "/.firstbyte/uploads?path=/", &[], b"").json();
    assert_eq!((left[0]["name"].as_str(), &left[0]["held"]), (Some("data.bin"), &json!([1])));
    let again = begin(to);
    assert_eq!((again["id"].clone(), again["held"].clone()), (begun["id"].clone(), json!([1])));
    for number in [0, 2] {
        assert_eq!(put(to, &id(&again), number, part(&whole, number)).status, 201);
    }
    assert_eq!(complete(to, &id(&again), "refuse").status, 200);
    assert!(fs::read(place.path().join("data.bin")).unwrap() == whole, "the content is another");
    assert_eq!(ask(to, "GET", "/.firstbyte/uploads?path=/", &[], b"").json(), json!([]));
}

#[test]
fn a_file_that_is_there_is_only_replaced_when_asked() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("small"), "old").unwrap();
    let server = serve(place.path(), WritePolicy::Allowed);
    let to = server.address();
    let upload = || {
        let begun = begin_named(to, "/", "small", 3).json();
        assert_eq!(begun["existing"]["size"], 3);
        assert_eq!(put(to, &id(&begun), 0, b"new").status, 201);
        id(&begun)
    };
    let first = upload();
    let refused = complete(to, &first, "refuse");
    assert_eq!((refused.status, refused.json()["error"].as_str()), (409, Some("exists")));
    assert_eq!(fs::read(place.path().join("small")).unwrap(), b"old");
    assert_eq!(complete(to, &first, "keep-both").json()["name"], "small (1)");
    assert_eq!(fs::read(place.path().join("small")).unwrap(), b"old");
    assert_eq!(complete(to, &upload(), "replace").json()["name"], "small");
    assert_eq!(fs::read(place.path().join("small")).unwrap(), b"new");
    assert_eq!(names(place.path()), ["small", "small (1)"]);
}

#[test]
fn an_empty_file_and_missing_folders_are_made() {
    let place = tempfile::tempdir().unwrap();
    let server = serve(place.path(), WritePolicy::Allowed);
    let begun = begin_named(server.address(), "/a/b%2520c/", "empty", 0).json();
    let target = format!("/.firstbyte/uploads/{}/complete?path=/a/b%2520c/", id(&begun));
    assert_eq!(ask(server.address(), "POST", &target, &[], b"{}").status, 200);
    assert_eq!(fs::metadata(place.path().join("a/b c/empty")).unwrap().len(), 0);
}

#[test]
fn an_abandoned_upload_is_removed_and_then_unknown() {
    let place = tempfile::tempdir().unwrap();
    let server = serve(place.path(), WritePolicy::Allowed);
    let to = server.address();
    let id = id(&begin(to));
    assert_eq!(names(place.path()), [".firstbyte"]);
    assert!(!ask(to, "GET", "/?format=ndjson", &[], b"").text().contains("firstbyte"), "it is hidden");
    assert_eq!(ask(to, "DELETE", &format!("/.firstbyte/uploads/{id}?path=/"), &[], b"").status, 204);
    assert!(names(place.path()).is_empty());
    assert_eq!(put(to, &id, 0, &content()[..PART_BYTES]).json()["error"], "no-upload");
}

#[test]
fn nothing_outside_the_directory_can_be_named() {
    let outer = tempfile::tempdir().unwrap();
    let inner = outer.path().join("served");
    fs::create_dir(&inner).unwrap();
    std::os::unix::fs::symlink(outer.path(), inner.join("out")).unwrap();
    let server = serve(&inner, WritePolicy::Allowed);
    let to = server.address();
    for path in [
        "/../",
        "/%2e%2e/",
        "/%252e%252e/",
        "/a/../../",
        "/out/",
        "/out/x/",
        "/.firstbyte/",
        "/%2500/",
        "//x/",
    ] {
        let answer = begin_named(to, path, "x", 1);
        assert!((400..500).contains(&answer.status), "{path}: {}", answer.head);
    }
    let long = "n".repeat(256);
    for name in ["..", ".", "", "a/b", "../x", "/x", "a\0b", ".firstbyte", ".x.firstbyte-part", &long] {
        let answer = begin_named(to, "/", name, 1);
        assert_eq!((answer.status, answer.json()["error"].as_str()), (400, Some("name")), "{name:?}");
    }
    for id in ["..", "%2e%2e", "x", &"0".repeat(32), &format!("{}/", "0".repeat(31))] {
        assert!((400..500).contains(&complete(to, id, "replace").status), "{id}");
    }
    assert_eq!(names(&inner), ["out"]);
    assert_eq!(names(outer.path()), ["served"]);
}

#[test]
fn a_read_only_server_refuses_and_its_page_does_not_offer() {
    let place = tempfile::tempdir().unwrap();
    let read_only = serve(place.path(), WritePolicy::Refused);
    assert_eq!(begin_named(read_only.address(), "/", "x", 1).status, 403);
    let page = ask(read_only.address(), "GET", "/", &[("accept", "text/html")], b"").text();
    assert!(page.contains("class=\"scroller\"") && !page.contains("id=\"pick-files\""));
    let writable = serve(place.path(), WritePolicy::Allowed);
    let page = ask(writable.address(), "GET", "/", &[("accept", "text/html")], b"").text();
    assert!(page.contains("id=\"pick-files\""));
    assert!(names(place.path()).is_empty());
}

#[test]
fn another_site_cannot_make_a_browser_upload() {
    let place = tempfile::tempdir().unwrap();
    let server = serve(place.path(), WritePolicy::Allowed);
    let body = json!({ "name": "x", "size": 1, "mtime": 0 }).to_string();
    for headers in [
        vec![("origin", "https://evil.example")],
        vec![("origin", "null")],
        vec![("sec-fetch-site", "cross-site")],
        vec![("x-firstbyte-page", "")],
    ] {
        let answer = ask(server.address(), "POST", "/.firstbyte/uploads?path=/", &headers, body.as_bytes());
        assert_eq!(answer.status, 403, "{headers:?}");
    }
    assert!(names(place.path()).is_empty());
}

#[test]
fn odd_names_are_links_and_text_never_markup() {
    use std::os::unix::ffi::OsStrExt;
    let place = tempfile::tempdir().unwrap();
    let odd: [&[u8]; 4] = [b"<img src=x onerror=alert(1)>", b"javascript:alert(1)", b"a\nb", b"bad\xff"];
    for name in odd {
        fs::write(place.path().join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }
    let server = serve(place.path(), WritePolicy::Refused);
    let page = ask(server.address(), "GET", "/", &[("accept", "text/html")], b"");
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let text = page.text();
    assert!(!text.contains("<img") && text.contains("&lt;img src=x onerror=alert(1)&gt;"));
    for (href, name) in [("/javascript%3Aalert%281%29", odd[1]), ("/a%0Ab", odd[2]), ("/bad%FF", odd[3])] {
        assert!(text.contains(&format!("href=\"{href}\"")), "{href}");
        assert_eq!(ask(server.address(), "GET", href, &[], b"").body, name);
    }
}

#[test]
fn an_uploaded_document_is_fenced_off_from_the_page() {
    let place = tempfile::tempdir().unwrap();
    for name in ["x.html", "x.svg", "x.txt"] {
        fs::write(place.path().join(name), "<script>1</script>").unwrap();
    }
    for (writing, fenced) in [(WritePolicy::Allowed, true), (WritePolicy::Refused, false)] {
        let server = serve(place.path(), writing);
        for name in ["/x.html", "/x.svg", "/x.txt"] {
            let answer = ask(server.address(), "GET", name, &[], b"");
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
            let policy = answer.header("content-security-policy").unwrap_or_default();
            assert_eq!(policy.starts_with("sandbox"), fenced && name != "/x.txt", "{name} {writing:?}");
            assert!(!policy.contains("allow-same-origin"));
        }
    }
}

#[test]
fn a_browser_signs_in_with_its_key_and_out_again() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("own")).unwrap();
    let mut config = Config::new(place.path());
    config.writing = WritePolicy::Allowed;
    config.authentication =
        Authentication::Keys(ServerKeys::parse("ann s3cret write own/\nann s3cret read\n").unwrap());
    let server = Server::start(config).unwrap();
    let to = server.address();
    let html = ("accept", "text/html");
    let form = ask(to, "GET", "/own/?x=1", &[html], b"");
    assert_eq!(form.status, 401);
    assert!(form.text().contains("type=\"password\"") && form.text().contains("value=\"/own/?x=1\""));
    let sign_in = |form: &str| {
        let kind = ("content-type", "application/x-www-form-urlencoded");
        ask(to, "POST", "/.firstbyte/login", &[kind], form.as_bytes())
    };
    assert_eq!(sign_in("key=ann&secret=wrong&next=/").status, 401);
    assert_eq!(sign_in("key=ann&secret=s3cret&next=//evil.example/").header("location"), Some("/"));
    let welcome = sign_in("key=ann&secret=s3cret&next=%2Fown%2F%3Fx%3D1");
    assert_eq!((welcome.status, welcome.header("location")), (303, Some("/own/?x=1")));
    let cookie = welcome.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let session = ("cookie", cookie.split(';').next().unwrap());
    assert!(ask(to, "GET", "/own/", &[html, session], b"").text().contains("id=\"pick-files\""));
    assert!(
        !ask(to, "GET", "/", &[html, session], b"").text().contains("id=\"pick-files\""),
        "only below own/"
    );
    let body = json!({ "name": "x", "size": 0, "mtime": 0 }).to_string();
    let begin = |path: &str| {
        ask(to, "POST", &format!("/.firstbyte/uploads?path={path}"), &[session], body.as_bytes()).status
    };
    assert_eq!((begin("/own/"), begin("/")), (200, 403));
    assert_eq!(ask(to, "POST", "/.firstbyte/logout", &[session], b"").status, 303);
    assert_eq!(ask(to, "GET", "/own/", &[html, session], b"").status, 401);
    for _ in 0..10 {
        sign_in("key=ann&secret=guess&next=/");
    }
    assert_eq!(sign_in("key=ann&secret=s3cret&next=/").status, 429, "guessing is stopped");
}

#[test]
fn two_files_of_one_name_size_and_time_are_not_mixed() {
    let place = tempfile::tempdir().unwrap();
    let (one, other) = (content(), content().into_iter().map(|byte| !byte).collect::<Vec<u8>>());
    let server = serve(place.path(), WritePolicy::Allowed);
    let to = server.address();
    let id = id(&begin(to));
    assert_eq!(put(to, &id, 0, part(&one, 0)).status, 201);
    // The second file is picked after the first upload was abandoned.
    let again = begin(to);
    let sum = |bytes: &[u8]| format!("{:08x}", crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes));
    assert_eq!((&again["held"], &again["crc32c"]), (&json!([0]), &json!([sum(part(&one, 0))])));
    for number in 0..3 {
        assert_eq!(put(to, &id, number, part(&other, number)).status, 201, "part {number}");
        assert_eq!(put(to, &id, number, part(&other, number)).status, 200, "part {number} is held now");
    }
    // Meanwhile the first upload continues in another tab.
    assert_eq!(put(to, &id, 1, part(&one, 1)).status, 201);
    let sums: Vec<_> = (0..3).map(|number| sum(part(&other, number))).collect();
    let body = json!({ "existing": "refuse", "crc32c": sums }).to_string();
    let target = format!("/.firstbyte/uploads/{id}/complete?path=/");
    let refused = ask(to, "POST", &target, &[], body.as_bytes());
    assert_eq!((refused.status, refused.json()["error"].as_str()), (409, Some("incomplete")));
    assert_eq!(put(to, &id, 1, part(&other, 1)).status, 201);
    assert_eq!(ask(to, "POST", &target, &[], body.as_bytes()).status, 200);
    assert!(fs::read(place.path().join("data.bin")).unwrap() == other, "the content is another");
}
