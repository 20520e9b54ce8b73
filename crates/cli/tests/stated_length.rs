//! Files whose content differs from the length that they state. Files in `/proc` state no length,
//! files in `/sys` state too much, and a growing file states too little. A copy must have the bytes
//! that reading returns, and a move must never delete the only copy.

use crate::support;

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};

use firstbyte_testkit::{SshClientKind, Sshd, WeakFs, Weakness, bytes, scratch};
use support::place::Place;
use support::servers::S3;
use support::{Ran, World, names_below};

/// A file that states no length, and a file that states more than it has.
const PSEUDO: [&str; 2] = ["/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled"];

#[test]
fn a_pseudo_file_is_read_to_its_end() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    for path in PSEUDO {
        let content = fs::read(path).unwrap();
        let receipt = world.run(&["--json", "cp", path, "copy"]).ok().receipt();
        assert_eq!(
            (world.read("copy"), &receipt["bytes"]),
            (content.clone(), &content.len().into()),
            "{path}"
        );
        assert_eq!(world.run(&["cat", path]).ok().stdout, content, "{path}");
        assert_eq!(world.run(&["cp", path, "-"]).ok().stdout, content, "{path}");
        world.run(&["cp", path, "s3://bucket/copy"]).ok();
        assert_eq!(fs::read(s3.root.join("bucket/copy")).unwrap(), content, "{path}");
        world.run(&["check", "--content", "copy", "s3://bucket/copy"]).ok();
        fs::remove_file(world.path("copy")).unwrap();
    }
    assert_eq!(
        world.run(&["cat", "--range", "0-4", PSEUDO[0]]).ok().stdout,
        fs::read(PSEUDO[0]).unwrap()[..5]
    );
    assert_eq!(world.run(&["check", "--content", PSEUDO[0], "s3://bucket/copy"]).code, Some(1));
}

#[test]
fn a_pseudo_file_on_a_host_is_read_to_its_end() {
    let (s3, scratch) = (S3::ours(), scratch());
    let sshd = Sshd::start(scratch.path());
    let mut world = World::with_s3(&s3);
    world.set("FIRSTBYTE_SSH", &sshd.ssh(SshClientKind::Friend));
    for path in PSEUDO {
        let (content, location) = (fs::read(path).unwrap(), format!("{}{path}", sshd.url()));
        world.run(&["cp", &location, "copy"]).ok();
        assert_eq!(world.read("copy"), content, "{path}");
        assert_eq!(world.run(&["cat", &location]).ok().stdout, content, "{path}");
        world.run(&["cp", &location, "s3://bucket/copy"]).ok();
        assert_eq!(fs::read(s3.root.join("bucket/copy")).unwrap(), content, "{path}");
    }
}

#[test]
fn a_tree_that_states_no_lengths_is_copied_moved_and_never_lost() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    let contents =
        [("a", bytes(1, 10)), ("d/b", bytes(2, 3 << 20)), ("d/c", bytes(3, 20 << 20)), ("empty", Vec::new())];
    for (name, content) in &contents {
        world.write(&format!("back/{name}"), content);
    }
    fs::create_dir(world.path("m")).unwrap();
    let _mounted = WeakFs::mount(&world.path("back"), &world.path("m"), Weakness::StatesNoLength);
    assert_eq!(fs::metadata(world.path("m/d/b")).unwrap().len(), 0);
    // An empty copy, as earlier versions made it, must not count as complete.
    world.write("out/a", b"");
    let modified = fs::metadata(world.path("back/a")).unwrap().modified().unwrap();
    fs::File::open(world.path("out/a")).unwrap().set_modified(modified).unwrap();
    for (verb, place) in
        [("cp", "out"), ("sync", "synced"), ("cp", "s3://bucket/out"), ("sync", "s3://bucket/out")]
    {
        let args: &[&str] = if verb == "cp" { &["cp", "-r", "m/", place] } else { &["sync", "m", place] };
        world.run(args).ok();
    }
    for (name, content) in &contents {
        assert!(&world.read(&format!("out/{name}")) == content, "{name}");
        assert!(&world.read(&format!("synced/{name}")) == content, "{name}");
        assert!(&fs::read(s3.root.join("bucket/out").join(name)).unwrap() == content, "{name}");
    }
    world.run(&["check", "--content", "m", "out"]).ok();
    world.run(&["check", "--content", "m", "s3://bucket/out"]).ok();
    world.write("out/a", b"");
    assert_eq!(world.run(&["check", "m", "out"]).code, Some(1));

    world.run(&["mv", "m/a", "moved"]).ok();
    assert_eq!(world.read("moved"), contents[0].1);
    world.run(&["mv", "-r", "m/", "s3://bucket/moved"]).ok();
    assert!(names_below(&world.path("back")).is_empty());
    for (name, content) in &contents[1..] {
        assert!(&fs::read(s3.root.join("bucket/moved").join(name)).unwrap() == content, "{name}");
    }
}

#[test]
fn a_lazy_open_refuses_what_states_no_length() {
    let place = Place::new(World::new());
    let world = &place.world;
    world.write("back/a", b"content");
    fs::create_dir(world.path("m")).unwrap();
    let _mounted = WeakFs::mount(&world.path("back"), &world.path("m"), Weakness::StatesNoLength);
    place.mount("m", &[]);
    assert!(fs::read(world.path("mnt/a")).is_err(), "an empty file is no answer");
    assert_ne!(world.run(&["hydrate", "m/a"]).code, Some(0));
}

/// Serves one PUT. Before it reads the body, it calls `change`. Returns the bodies that arrived
/// completely.
fn uploaded_while(content: &[u8], change: fn(&std::path::Path)) -> (Ran, Vec<Vec<u8>>) {
    let mut world = World::new();
    let path = world.write("log", content);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    world.set("FIRSTBYTE_ENDPOINT_URL", &format!("http://{address}"));
    for (name, value) in
        [("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s"), ("AWS_REGION", "us-east-1")]
    {
        world.set(name, value);
    }
    let server = std::thread::spawn(move || {
        let mut whole = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            while reader.read_line(&mut head).unwrap() > 2 {
                let line = head.lines().last().unwrap_or_default();
                if let Some(value) = line.strip_prefix("content-length: ") {
                    length = value.parse().unwrap();
                }
            }
            if head.starts_with("GET /end") {
                return whole;
            }
            if head.starts_with("PUT") {
                change(&path);
                let mut body = Vec::new();
                let read = reader.take(length).read_to_end(&mut body);
                if read.is_ok() && body.len() as u64 == length {
                    whole.push(body);
                }
            }
            let answer = b"HTTP/1.1 200 OK\r\netag: \"e\"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            // The client may have disconnected already, which the test intends.
            let _ = stream.write_all(answer);
        }
        whole
    });
    let ran = world.run(&["cp", "log", "s3://b/log"]);
    TcpStream::connect(address).unwrap().write_all(b"GET /end HTTP/1.1\r\n\r\n").unwrap();
    (ran, server.join().unwrap())
}

#[test]
fn a_file_that_grows_while_it_is_sent_is_uploaded_as_it_was() {
    let content = bytes(1, 15 << 20);
    let (ran, whole) = uploaded_while(&content, |path| {
        OpenOptions::new().append(true).open(path).unwrap().write_all(b"one more line\n").unwrap();
    });
    ran.ok();
    assert!(whole == [content]);
}

#[test]
fn a_file_that_changes_while_it_is_sent_leaves_the_object_as_it_was() {
    let (ran, whole) = uploaded_while(&bytes(1, 15 << 20), |path| {
        let mut file = OpenOptions::new().write(true).open(path).unwrap();
        file.write_all(b"another beginning").unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(b"and more").unwrap();
    });
    ran.fails(1, &["changed while it was read"]);
    assert!(whole.is_empty());
}
