//! Sends odd, broken or hostile heads, chunked bodies, forms and documents to a server with keys.
//! Many are signed correctly.
//!
//! `FIRSTBYTE_HOSTILE_CASES` is the number of inputs, and `FIRSTBYTE_SEED` the seed. For every
//! input the server answers or disconnects. It never panics and never answers 500. Its memory stays
//! below a ceiling. It does not read or change files that the key does not cover.

mod cases;
mod random;
#[allow(dead_code, reason = "other tests sign by version 2")]
#[path = "../support/signing.rs"]
mod signing;

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use firstbyte_serve::{Authentication, Config, Server, ServerKeys, WritePolicy};
use firstbyte_testkit::wait_limit;

use random::Random;
use signing::{KEY, SECRET};

/// Number of threads that send requests.
const CLIENTS: u64 = 4;

/// Maximum number of bytes by which the process, client and server together, may grow. Each request
/// in progress holds a few pieces of a body (128 KiB each), and at most one XML document or the
/// fields of one form.
const MAX_GROWTH_BYTES: u64 = 64 << 20;

/// Content of an object in another bucket, which the key does not cover.
const PRIVATE: &str = "the content of a bucket that the key does not open";

static PANICS: AtomicUsize = AtomicUsize::new(0);

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

#[test]
fn whatever_comes_is_answered_and_nothing_fails_grows_or_leaks() {
    let cases = number("FIRSTBYTE_HOSTILE_CASES", 3000);
    let seed = number("FIRSTBYTE_SEED", u64::from(std::process::id()));
    eprintln!("{cases} cases, seed {seed}");
    let directory = tempfile::tempdir().unwrap();
    for bucket in ["bucket", "other"] {
        std::fs::create_dir(directory.path().join(bucket)).unwrap();
    }
    let private = directory.path().join("other/object");
    std::fs::write(&private, PRIVATE).unwrap();
    let mut config = Config::new(directory.path());
    config.writing = WritePolicy::Allowed;
    config.limits.smallest_part = 1;
    let keys = format!("{KEY} {SECRET} write bucket\n");
    config.authentication = Authentication::Keys(ServerKeys::parse(&keys).unwrap());
    let server = Server::start(config).unwrap();
    count_panics();
    // A hundred requests make the server allocate its threads and tables before the measurement.
    (0..100).for_each(|case| drop(send(server.address(), &cases::request(&mut Random::new(case)))));
    let before = memory("VmRSS");
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let address = server.address();
            scope.spawn(move || {
                for case in (client..cases).step_by(CLIENTS as usize) {
                    if case % 10_000 == 0 {
                        eprintln!("{case} cases, {} KiB", memory("VmRSS") >> 10);
                    }
                    let case = seed.wrapping_mul(1_000_003).wrapping_add(case);
                    let request = cases::request(&mut Random::new(case));
                    let answer = send(address, &request);
                    check_responses(&answer).unwrap_or_else(|why| {
                        panic!("case {case}: {why}\n{}\n{}", describe(&request), describe(&answer))
                    });
                }
            });
        }
    });
    assert_eq!(PANICS.load(SeqCst), 0, "seed {seed}: the server panicked");
    let grown = memory("VmHWM").saturating_sub(before);
    eprintln!("grown by {} KiB", grown >> 10);
    assert!(grown < MAX_GROWTH_BYTES, "seed {seed}: grown by {grown} bytes");
    assert_eq!(std::fs::read_to_string(private).unwrap(), PRIVATE);
    assert_eq!(std::fs::read_dir(directory.path().join("other")).unwrap().count(), 1);
}

/// Counts panics of all threads. They are still reported as usual.
fn count_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, SeqCst);
        report(panic);
    }));
}

/// Reads a figure of this process's memory, in bytes.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Sends bytes and closes the sending side. Returns everything that the server sends.
fn send(server: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(wait_limit())).unwrap();
    // A server that refuses a request early may close before it has read the whole request.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            panic!("no answer to {}", describe(bytes))
        }
        _ => answer,
    }
}

/// Checks the responses of a connection: no response may report a failure of the server, or show
/// another bucket.
fn check_responses(answer: &[u8]) -> Result<(), &'static str> {
    if !answer.is_empty() && !answer.starts_with(b"HTTP/1.1 ") {
        return Err("no answer of HTTP");
    }
    if answer.windows(PRIVATE.len()).any(|part| part == PRIVATE.as_bytes()) {
        return Err("the content of another bucket was sent");
    }
    let failed = answer.windows(13).any(|part| part.starts_with(b"HTTP/1.1 500"));
    if failed { Err("the server failed") } else { Ok(()) }
}

fn describe(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(4000)].escape_ascii().to_string().replace("\\r\\n", "\n")
}
