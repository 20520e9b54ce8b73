//! Implements the page's side of the upload protocol, with a separate connection for each request.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use firstbyte_serve::{Config, RunningServer, Server, WritePolicy};
use serde_json::{Value, json};

/// Length in bytes of a file in three parts: two full parts and a short one.
const SIZE: usize = (20 << 20) + 5;
pub(crate) const PART_BYTES: usize = 8 << 20;

pub(crate) fn content() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(SIZE).collect()
}

pub(crate) fn part(whole: &[u8], number: usize) -> &[u8] {
    &whole[number * PART_BYTES..whole.len().min((number + 1) * PART_BYTES)]
}

pub(crate) fn serve(directory: &Path, writing: WritePolicy) -> RunningServer {
    let mut config = Config::new(directory);
    config.writing = writing;
    Server::start(config).unwrap()
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Sends one request on a separate connection. Adds `Host` and the header that marks the page's
/// requests, unless `headers` has them.
pub(crate) fn ask(
    to: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let mut stream = TcpStream::connect(to).unwrap();
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "content-length") {
        head += &format!("content-length: {}\r\n", body.len());
    }
    for (name, value) in
        [("x-firstbyte-page", "1")].iter().chain(headers).filter(|(_, value)| !value.is_empty())
    {
        if *name == "x-firstbyte-page" && headers.contains(&(*name, "")) {
            continue;
        }
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    // A server that refuses a request early may close before it has read the whole request.
    let _ = stream.write_all(body);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    let end = all.windows(4).position(|window| window == b"\r\n\r\n").expect("an answer's head");
    let head = String::from_utf8(all[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head, body: all[end + 4..].to_vec() }
}

pub(crate) fn begin_named(to: SocketAddr, path: &str, name: &str, size: usize) -> Answer {
    let body = json!({ "name": name, "size": size, "mtime": 1_700_000_000_123_i64 }).to_string();
    ask(to, "POST", &format!("/.firstbyte/uploads?path={path}"), &[], body.as_bytes())
}

pub(crate) fn begin(to: SocketAddr) -> Value {
    let answer = begin_named(to, "/", "data.bin", SIZE);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

pub(crate) fn id(begun: &Value) -> String {
    begun["id"].as_str().unwrap().to_owned()
}

pub(crate) fn put(to: SocketAddr, id: &str, number: usize, bytes: &[u8]) -> Answer {
    let crc = format!("{:08x}", crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes));
    ask(
        to,
        "PUT",
        &format!("/.firstbyte/uploads/{id}/{number}?path=/"),
        &[("x-firstbyte-crc32c", &crc)],
        bytes,
    )
}

pub(crate) fn complete(to: SocketAddr, id: &str, existing: &str) -> Answer {
    let body = json!({ "existing": existing }).to_string();
    ask(to, "POST", &format!("/.firstbyte/uploads/{id}/complete?path=/"), &[], body.as_bytes())
}

pub(crate) fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
