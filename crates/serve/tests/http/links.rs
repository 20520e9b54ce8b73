//! Tests symbolic links in place of a bucket's staging: the targets are never changed.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use firstbyte_serve::{Config, Server, WritePolicy};

use crate::client::{Client, S3};
use crate::uploads::begin;

const ID: &str = "0123456789abcdef0123456789abcdef";

/// Returns every entry below `directory`, with its content.
fn tree(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.append(&mut tree(&path));
            found.insert(path, Vec::new());
        } else {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    found
}

/// Makes a directory that looks like a bucket's old staging, which a sweep would remove.
fn make_old_staging(directory: &Path) {
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    for name in ["tmp", "uploads", "trash"] {
        let entry = directory.join(name).join(ID);
        std::fs::create_dir_all(&entry).unwrap();
        for file in ["precious", "origin", "entry", "journal", "data"] {
            std::fs::write(entry.join(file), "bucket/old").unwrap();
            std::fs::File::options().write(true).open(entry.join(file)).unwrap().set_modified(old).unwrap();
        }
        std::fs::write(directory.join(name).join("precious"), "x").unwrap();
    }
}

/// Paths of links, each with the link's target below the directory that [`make_old_staging`] makes.
const LINKS: [(&str, &str); 6] = [
    (".firstbyte", ""),
    (".firstbyte/tmp", "tmp"),
    (".firstbyte/uploads", "uploads"),
    (".firstbyte/trash", "trash"),
    (".firstbyte/uploads/0123456789abcdef0123456789abcdef", "uploads/0123456789abcdef0123456789abcdef"),
    (".firstbyte/trash/0123456789abcdef0123456789abcdef", "trash/0123456789abcdef0123456789abcdef"),
];

/// Uses the staging by every kind of request: writes, parts, uploads, removals, and changes from
/// the page.
fn use_staging(client: &mut Client) {
    client.ask("PUT", "/bucket/plain", "", b"x");
    client.ask("PUT", "/bucket/s3", S3, b"x");
    client.ask("POST", "/bucket/parts?uploads", S3, b"");
    client.ask("GET", "/bucket?uploads", S3, b"");
    for (method, target) in [
        ("PUT", "/bucket/old?partNumber=1&uploadId="),
        ("GET", "/bucket/old?uploadId="),
        ("POST", "/bucket/old?uploadId="),
        ("DELETE", "/bucket/old?uploadId="),
    ] {
        client.ask(method, &format!("{target}{ID}"), S3, b"");
    }
    let page = "x-firstbyte-page: 1\r\n";
    for (target, body) in [
        ("changes/delete", r#"{"entries":["old"]}"#.to_owned()),
        ("changes/restore", format!(r#"{{"ids":["{ID}"]}}"#)),
        ("uploads", r#"{"name":"new","size":1,"mtime":0}"#.to_owned()),
        (&format!("uploads/{ID}/complete"), "{}".to_owned()),
    ] {
        client.ask("POST", &format!("/.firstbyte/{target}?path=/bucket/"), page, body.as_bytes());
    }
    client.ask("DELETE", &format!("/.firstbyte/uploads/{ID}?path=/bucket/"), page, b"");
    client.ask("DELETE", "/bucket", S3, b"");
}

#[test]
fn a_link_in_the_place_of_unfinished_writes_leads_nowhere() {
    for (link, to) in LINKS {
        let directory = tempfile::tempdir().unwrap();
        let (bucket, other) = (directory.path().join("bucket"), directory.path().join("other"));
        std::fs::create_dir_all(bucket.join(link).parent().unwrap()).unwrap();
        std::fs::write(bucket.join("old"), "kept").unwrap();
        make_old_staging(&other);
        symlink(other.join(to), bucket.join(link)).unwrap();
        let before = tree(&other);
        // With an age of zero, every sweep removes everything that it reaches.
        let mut config = Config::new(directory.path());
        config.writing = WritePolicy::Allowed;
        config.limits.abandoned = Duration::ZERO;
        let server = Server::start(config).unwrap();
        use_staging(&mut Client::new(&server));
        server.stop();
        assert_eq!(tree(&other), before, "{link}");
    }
}

#[test]
fn a_write_that_finds_a_link_there_is_refused_and_others_go_on() {
    let fixture = crate::client::serve(|_| {});
    std::fs::create_dir_all(fixture.directory.path().join("free")).unwrap();
    symlink("/nowhere", fixture.directory.path().join("bucket/.firstbyte")).unwrap();
    let mut client = Client::new(&fixture.server);
    assert_eq!(client.ask("PUT", "/bucket/f", "", b"x").status, 403);
    assert_eq!(client.ask("PUT", "/bucket/f", S3, b"x").status, 403);
    assert_eq!(client.ask("PUT", "/free/f", S3, b"x").status, 200);
    std::fs::remove_file(fixture.directory.path().join("bucket/.firstbyte")).unwrap();
    begin(&mut client, "key");
}
