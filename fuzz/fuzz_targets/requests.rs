//! Sends whole requests, head and body, to a running server with keys. The server neither answers
//! 500 nor dies. Bytes after an `X` are sent as the chunked body of a PUT.
#![no_main]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::LazyLock;

use firstbyte_serve::{Authentication, Config, ServerKeys, RunningServer, Server, WritePolicy};
use libfuzzer_sys::fuzz_target;

static SERVER: LazyLock<RunningServer> = LazyLock::new(|| {
    let directory = std::env::temp_dir().join(format!("firstbyte-fuzz-requests-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("bucket")).expect("a directory");
    let mut config = Config::new(directory);
    config.writing = WritePolicy::Allowed;
    config.authentication = Authentication::Keys(ServerKeys::parse("alice secret write\n").expect("a key"));
    Server::start(config).expect("a server")
});

/// A head with the key by HTTP Basic, because the fuzzer cannot sign.
const CHUNKED: &[u8] = b"PUT /bucket/key HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic YWxpY2U6c2VjcmV0\r\n\
    transfer-encoding: chunked\r\n\r\n";

fuzz_target!(|bytes: &[u8]| {
    let request = match bytes.strip_prefix(b"X") {
        Some(body) => [CHUNKED, body].concat(),
        None => bytes.to_vec(),
    };
    let mut stream = TcpStream::connect(SERVER.address()).expect("a connection");
    // A server that refuses a request early may close before it has read the whole request.
    let _ = stream.write_all(&request);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 "));
    assert!(!answer.starts_with(b"HTTP/1.1 500"), "{}", String::from_utf8_lossy(&answer));
});
