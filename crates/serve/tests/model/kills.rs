//! Tests which files remain after a server was killed in the middle of a write, or had no disk
//! space.

use firstbyte_testkit::until;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::client::{Client, S3};
use crate::content::{content, writes};
use crate::server::Server;

struct World {
    directory: tempfile::TempDir,
    server: Server,
}

fn world(limits: &'static str) -> World {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("bucket")).unwrap();
    let server = Server::start(directory.path(), limits, None);
    World { directory, server }
}

/// Returns every file below `directory`.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Sends a request head and half of the body, and waits until some bytes are on disk.
fn half(world: &World, target: &str, bytes: &[u8]) -> TcpStream {
    let on_disk = || {
        files(world.directory.path()).iter().map(|path| path.metadata().map_or(0, |m| m.len())).sum::<u64>()
    };
    let before = on_disk();
    let count_before = files(world.directory.path()).len();
    let mut stream = TcpStream::connect(world.server.address).unwrap();
    let length = bytes.len();
    let head = format!("PUT {target} HTTP/1.1\r\nHost: localhost\r\n{S3}Content-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&bytes[..length / 2]).unwrap();
    // If a part is overwritten in place, no file grows, so the wait ends after a fixed time.
    let begun = std::time::Instant::now();
    while on_disk() == before && files(world.directory.path()).len() == count_before {
        if begun.elapsed() > Duration::from_secs(2) {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(100));
    stream
}

#[test]
fn a_put_cut_by_a_kill_leaves_nothing_and_keeps_no_bucket() {
    let world = world("");
    let bytes = content(1, 1 << 16);
    let streams = ["/bucket/a", "/bucket/d/b"].map(|target| half(&world, target, &bytes));
    world.server.kill_and_start();
    drop(streams);
    until("the sweep removes it", || files(world.directory.path()).is_empty());
    let mut client = Client::new(&world.server);
    until("the bucket can be removed", || client.ask("DELETE", "/bucket", S3, b"").unwrap().status == 204);
}

#[test]
fn a_bucket_is_removed_with_what_a_killed_server_left_in_it() {
    let world = world("");
    let stream = half(&world, "/bucket/d/b", &content(1, 1 << 16));
    world.server.kill_and_start();
    drop(stream);
    let removed = Client::new(&world.server).ask("DELETE", "/bucket", S3, b"").unwrap();
    assert_eq!(removed.status, 204, "{}", removed.text());
}

#[test]
fn a_part_overwritten_half_way_is_the_old_one_after_a_kill() {
    let world = world("");
    let mut client = Client::new(&world.server);
    let begun = client.ask("POST", "/bucket/key?uploads", S3, b"").unwrap();
    let id = begun.element("UploadId").unwrap();
    let target = format!("/bucket/key?uploadId={id}&partNumber=1");
    let tag = client.ask("PUT", &target, S3, &content(1, 1 << 16)).unwrap().etag();
    let stream = half(&world, &target, &content(2, 1 << 16));
    world.server.kill_and_start();
    drop(stream);
    let mut client = Client::new(&world.server);
    let body = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{tag}</ETag></Part>\
         </CompleteMultipartUpload>"
    );
    let done = client.ask("POST", &format!("/bucket/key?uploadId={id}"), S3, body.as_bytes()).unwrap();
    assert_eq!(done.status, 200, "{}", done.text());
    let object = client.ask("GET", "/bucket/key", "", b"").unwrap().body;
    assert_eq!(writes(&object), Ok(vec![1]));
    assert_eq!(files(&world.directory.path().join("bucket")).len(), 1, "nothing is left beside it");
}

#[test]
fn hundreds_of_open_uploads_take_no_descriptors() {
    let world = world("ulimit -n 256;");
    let mut client = Client::new(&world.server);
    for number in 0..600 {
        let begun = client.ask("POST", &format!("/bucket/{number}?uploads"), S3, b"").unwrap();
        assert_eq!(begun.status, 200, "{number}: {}", begun.text());
        if number % 10 == 0 {
            let id = begun.element("UploadId").unwrap();
            let target = format!("/bucket/{number}?uploadId={id}&partNumber=1");
            assert_eq!(client.ask("PUT", &target, S3, b"part").unwrap().status, 200);
        }
    }
    let another = Client::new(&world.server).ask("PUT", "/bucket/object", S3, b"x").unwrap();
    assert_eq!(another.status, 200);
}

#[test]
fn an_upload_that_cannot_be_begun_leaves_nothing() {
    // No file may grow in this process. For the server this is like a full disk, with another error
    // number.
    let world = world("trap '' XFSZ; ulimit -f 0;");
    let mut client = Client::new(&world.server);
    for key in ["a", "d/b"] {
        let refused = client.ask("POST", &format!("/bucket/{key}?uploads"), S3, b"").unwrap();
        assert!(refused.status >= 500, "{}", refused.text());
        assert!((500..600).contains(&client.ask("PUT", &format!("/bucket/{key}"), S3, b"x").unwrap().status));
    }
    assert_eq!(files(world.directory.path()), [] as [PathBuf; 0]);
    let uploads = world.directory.path().join("bucket/.firstbyte/uploads");
    assert!(!uploads.exists() || std::fs::read_dir(uploads).unwrap().next().is_none());
    assert_eq!(client.ask("DELETE", "/bucket", S3, b"").unwrap().status, 204);
}
