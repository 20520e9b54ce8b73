//! Sends multipart uploads to a running server: whole, half, repeated and late parts, in any order.
//! An object is made of whole parts.
#![no_main]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::LazyLock;

use firstbyte_serve::{Config, RunningServer, Server, WritePolicy};
use libfuzzer_sys::fuzz_target;

static SERVER: LazyLock<RunningServer> = LazyLock::new(|| {
    let directory = std::env::temp_dir().join(format!("firstbyte-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("bucket")).expect("a directory");
    let mut config = Config::new(directory);
    config.writing = WritePolicy::Allowed;
    Server::start(config).expect("a server")
});

/// A part that is half sent: its connection, and the bytes that are still to be sent.
type Late = (TcpStream, Vec<u8>);

struct Upload {
    server: SocketAddr,
    id: String,
    /// Bytes and tag of every part that has arrived, by the part's number.
    parts: BTreeMap<u8, (Vec<u8>, String)>,
    late: Vec<Late>,
}

impl Upload {
    fn begin(server: SocketAddr) -> Self {
        let (_, _, text) = ask(server, "POST", "/bucket/key?uploads", b"");
        let id = text.split("<UploadId>").nth(1).and_then(|rest| rest.split('<').next()).expect("an upload");
        Self { server, id: id.to_owned(), parts: BTreeMap::new(), late: Vec::new() }
    }

    fn target(&self, number: u8) -> String {
        format!("/bucket/key?uploadId={}&partNumber={number}", self.id)
    }

    fn part(&mut self, number: u8, bytes: Vec<u8>) {
        let (status, head, _) = ask(self.server, "PUT", &self.target(number), &bytes);
        assert_eq!(status, 200, "{head}");
        let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).expect("a tag").to_owned();
        self.parts.insert(number, (bytes, tag));
    }

    fn half(&mut self, number: u8, mut bytes: Vec<u8>) {
        if self.late.len() < 4 {
            let mut stream = TcpStream::connect(self.server).expect("a connection");
            stream.write_all(head("PUT", &self.target(number), bytes.len()).as_bytes()).expect("a head");
            let rest = bytes.split_off(bytes.len() / 2);
            stream.write_all(&bytes).expect("half a part");
            self.late.push((stream, rest));
        }
    }

    /// Completes the upload with all parts. Parts that are still on their way must not reach the
    /// object.
    fn complete(mut self) {
        let row = |(number, (_, tag)): (&u8, &(Vec<u8>, String))| {
            format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>")
        };
        let rows: String = self.parts.iter().map(row).collect();
        let body = format!("<CompleteMultipartUpload>{rows}</CompleteMultipartUpload>");
        let target = format!("/bucket/key?uploadId={}", self.id);
        let (status, head, text) = ask(self.server, "POST", &target, body.as_bytes());
        assert_eq!(status, 200, "{head} {text}");
        for (mut stream, rest) in self.late.drain(..) {
            // The server may have closed the connection already.
            let _ = stream.write_all(&rest);
            let _ = stream.read(&mut [0]);
        }
        let expected: Vec<u8> = self.parts.values().flat_map(|(bytes, _)| bytes.clone()).collect();
        let (_, _, object) = ask(self.server, "GET", "/bucket/key", b"");
        assert!(object.as_bytes() == expected, "a mixture");
    }
}

fn head(method: &str, target: &str, length: usize) -> String {
    format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nx-amz-date: 20260101T000000Z\r\nConnection: close\r\n\
         Content-Length: {length}\r\n\r\n"
    )
}

fn ask(server: SocketAddr, method: &str, target: &str, body: &[u8]) -> (u16, String, String) {
    let mut stream = TcpStream::connect(server).expect("a connection");
    stream.write_all(head(method, target, body.len()).as_bytes()).expect("a head");
    stream.write_all(body).expect("a body");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, head.to_lowercase(), body.to_owned())
}

fuzz_target!(|steps: Vec<(u8, u8)>| {
    let mut upload = Upload::begin(SERVER.address());
    for (at, (step, length)) in steps.into_iter().take(40).enumerate() {
        let number = step % 4 + 1;
        // The bytes are ASCII, so that an object is text. Each step has its own character.
        let bytes = vec![b'0' + (at % 64) as u8; usize::from(length) + 1];
        match step / 4 % 4 {
            0 | 1 => upload.part(number, bytes),
            2 => upload.half(number, bytes),
            _ => drop(upload.late.pop()),
        }
    }
    if upload.parts.is_empty() {
        upload.part(1, b"the only part".to_vec());
    }
    upload.complete();
});
