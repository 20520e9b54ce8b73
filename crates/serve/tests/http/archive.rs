//! Tests archives: a directory, or a selection of its entries, as a tar file.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::time::{Duration, UNIX_EPOCH};

use firstbyte_serve::{Authentication, ServerKeys};

use crate::client::{Client, Fixture, connect, content, serve};

/// Returns names and contents of an archive's entries. Directories have no content.
fn entries(archive: &[u8]) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut archive = tar::Archive::new(archive);
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        let is_file = entry.header().entry_type().is_file();
        found.insert(entry.path_bytes().into_owned(), is_file.then_some(bytes));
    }
    found
}

fn names(archive: &[u8]) -> Vec<String> {
    entries(archive).into_keys().map(|name| String::from_utf8_lossy(&name).into_owned()).collect()
}

fn planted_fixture() -> Fixture {
    let fixture = serve(|_| {});
    let bucket = fixture.directory.path().join("bucket");
    std::fs::create_dir_all(bucket.join("sub/empty")).unwrap();
    std::fs::write(bucket.join("sub/f"), "in sub").unwrap();
    std::fs::write(bucket.join("top"), "").unwrap();
    fixture
}

#[test]
fn a_directory_arrives_whole_with_odd_and_long_names() {
    let fixture = planted_fixture();
    let bucket = fixture.directory.path().join("bucket");
    let long = "n".repeat(250);
    std::fs::create_dir_all(bucket.join("deep").join(&long)).unwrap();
    let odd: [&[u8]; 5] = [b"bad\xff", b"a\nb", b"-rf", "näme".as_bytes(), b"..."];
    for name in odd {
        std::fs::write(bucket.join("deep").join(&long).join(OsStr::from_bytes(name)), name).unwrap();
    }
    // The file is longer than a piece, and its length is not a multiple of a block.
    let big = content((3 << 20) + 77);
    std::fs::write(bucket.join("big"), &big).unwrap();
    std::fs::write(bucket.join(".x.firstbyte-part"), "hidden").unwrap();
    let mut client = Client::new(&fixture.server);
    let answer = client.ask("GET", "/bucket/?archive=tar", "", b"");
    assert_eq!(answer.header("content-type"), Some("application/x-tar"));
    let named = "attachment; filename=\"bucket.tar\"; filename*=UTF-8''bucket%2Etar";
    assert_eq!(answer.header("content-disposition"), Some(named));
    let found = entries(&answer.body);
    assert_eq!(found[&b"bucket/big"[..]].as_deref(), Some(&big[..]));
    assert_eq!(found[&b"bucket/sub/empty"[..]], None);
    for name in odd {
        let path = [b"bucket/deep/", long.as_bytes(), b"/", name].concat();
        assert_eq!(found[&path].as_deref(), Some(name), "{}", String::from_utf8_lossy(name));
    }
    assert!(!found.keys().any(|name| name.windows(9).any(|part| part == b"firstbyte")));
    let all = client.ask("GET", "/?archive=tar", "", b"");
    assert!(names(&all.body).contains(&"bucket/sub/f".to_owned()));
    assert_eq!(client.ask("HEAD", "/bucket/?archive=tar", "", b"").status, 200);
    assert_eq!(client.ask("GET", "/bucket/?archive=zip", "", b"").status, 400);
}

#[test]
fn other_programs_read_an_archive() {
    let fixture = planted_fixture();
    let answer = Client::new(&fixture.server).ask("GET", "/bucket/?archive=tar", "", b"");
    let to = tempfile::tempdir().unwrap();
    let mut tar = std::process::Command::new("tar")
        .args(["-x", "-f", "-", "-C"])
        .arg(to.path())
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    tar.stdin.take().unwrap().write_all(&answer.body).unwrap();
    assert!(tar.wait().unwrap().success());
    assert_eq!(std::fs::read_to_string(to.path().join("bucket/sub/f")).unwrap(), "in sub");
    assert!(to.path().join("bucket/sub/empty").is_dir());
}

#[test]
fn a_selection_has_what_was_named_and_nothing_from_elsewhere() {
    let fixture = planted_fixture();
    let mut client = Client::new(&fixture.server);
    let picked = client.ask("GET", "/bucket/?archive=tar&name=sub&name=top", "", b"");
    assert_eq!(names(&picked.body), ["sub", "sub/empty", "sub/f", "top"]);
    for name in ["..", "%252e%252e", "sub%2Ff", "", ".", "missing", ".firstbyte", "%2500", "sub/../top"] {
        let answer = client.ask("GET", &format!("/bucket/?archive=tar&name={name}"), "", b"");
        assert_eq!(answer.status, 404, "{name}");
    }
}

#[test]
fn links_lead_to_files_inside_and_nowhere_else() {
    let fixture = planted_fixture();
    let bucket = fixture.directory.path().join("bucket");
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "TOP-SECRET").unwrap();
    symlink(outside.path(), bucket.join("out")).unwrap();
    symlink(outside.path().join("secret"), bucket.join("out-file")).unwrap();
    symlink("..", bucket.join("loop")).unwrap();
    symlink("sub/f", bucket.join("inside")).unwrap();
    let answer = Client::new(&fixture.server).ask("GET", "/bucket/?archive=tar", "", b"");
    assert_eq!(
        names(&answer.body),
        ["bucket", "bucket/inside", "bucket/sub", "bucket/sub/empty", "bucket/sub/f", "bucket/top"]
    );
    assert_eq!(entries(&answer.body)[&b"bucket/inside"[..]].as_deref(), Some(&b"in sub"[..]));
    for name in ["out", "out-file"] {
        let picked =
            Client::new(&fixture.server).ask("GET", &format!("/bucket/?archive=tar&name={name}"), "", b"");
        assert_eq!(picked.status, 404, "{name}");
    }
}

#[test]
fn a_key_gets_what_it_may_read() {
    let keys = ServerKeys::parse("alice secret read bucket/sub/f\nalice secret read bucket/own\n").unwrap();
    let fixture = serve(|config| config.authentication = Authentication::Keys(keys));
    let bucket = fixture.directory.path().join("bucket");
    for directory in ["sub", "own", "other"] {
        std::fs::create_dir(bucket.join(directory)).unwrap();
        std::fs::write(bucket.join(directory).join("f"), "x").unwrap();
        std::fs::write(bucket.join(directory).join("g"), "x").unwrap();
    }
    symlink("../other/f", bucket.join("own/link")).unwrap();
    // HTTP Basic with alice:secret.
    let alice = "Authorization: Basic YWxpY2U6c2VjcmV0\r\n";
    let mut client = Client::new(&fixture.server);
    let answer = client.ask("GET", "/bucket/?archive=tar", alice, b"");
    let expected = ["bucket", "bucket/own", "bucket/own/f", "bucket/own/g", "bucket/sub", "bucket/sub/f"];
    assert_eq!(names(&answer.body), expected);
    let picked = client.ask("GET", "/bucket/?archive=tar&name=other", alice, b"");
    let missing = client.ask("GET", "/bucket/?archive=tar&name=missing", alice, b"");
    assert_eq!((picked.status, picked.text()), (404, missing.text()));
    assert_eq!(client.ask("GET", "/bucket/other/?archive=tar", alice, b"").status, 403);
    assert_eq!(client.ask("GET", "/bucket/?archive=tar", "", b"").status, 401);
}

/// Reads a response until it ends or breaks off. Calls `change` when its head has arrived.
fn cut_answer(fixture: &Fixture, change: impl FnOnce()) -> Vec<u8> {
    let mut stream = connect(&fixture.server);
    stream.write_all(b"GET /bucket/?archive=tar HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut all = vec![0; 4096];
    stream.read_exact(&mut all).unwrap();
    change();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let _ = stream.read_to_end(&mut all);
    all
}

#[test]
fn a_file_that_changes_under_way_breaks_the_answer_off() {
    // The file is longer than all buffers of the sockets and the server together.
    let size = 64 << 20;
    for change in ["none", "shorter", "longer", "other bytes"] {
        let fixture = serve(|_| {});
        let path = fixture.directory.path().join("bucket/big");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(size).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
        let all = cut_answer(&fixture, || match change {
            "shorter" => file.set_len(size / 2).unwrap(),
            "longer" => file.set_len(size + 1).unwrap(),
            "other bytes" => (&file).write_all(b"new").unwrap(),
            _ => {}
        });
        assert_eq!(all.ends_with(b"\r\n0\r\n\r\n"), change == "none", "{change}: {} bytes", all.len());
    }
}

#[test]
fn to_a_client_of_http_1_0_a_broken_answer_is_a_reset_and_no_end() {
    let fixture = serve(|_| {});
    let path = fixture.directory.path().join("bucket/big");
    let file = std::fs::File::create(&path).unwrap();
    for change in [false, true] {
        file.set_len(64 << 20).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
        let mut stream = connect(&fixture.server);
        stream.write_all(b"GET /bucket/?archive=tar HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; 4096]).unwrap();
        if change {
            file.set_len(32 << 20).unwrap();
        }
        assert_eq!(stream.read_to_end(&mut Vec::new()).is_err(), change);
    }
}
