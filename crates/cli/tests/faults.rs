//! Every method of reading or writing an object, under the same faults. All methods must send the
//! same number of requests, and end with the same outcome and message. A mount returns EIO to the
//! reader; the message is in the log of the mount.

use crate::support;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use firstbyte::{Client, ClientOptions};
use firstbyte_hydrate::{HydrationSettings, Hydrator};
use firstbyte_location::Location;
use firstbyte_store::Store;
use firstbyte_testkit::{Scripted, ScriptedReply, bytes};
use support::World;
use support::place::Place;

/// Length of the object, bytes. It is less than one block of the cache, so each method needs only
/// one request.
const LENGTH: usize = 100_000;
const SEED: u64 = 3;
/// Bytes after which the body of a reply is cut off.
const CUT_BYTES: usize = 20_000;
/// Bytes after which a body is cut off in the fault `often`. The object then takes twenty requests.
const OFTEN_CUT_BYTES: usize = LENGTH / 20;
/// Pause between the pieces of a slow body. It is too short to count as a stall.
const PIECE_PAUSE: Duration = Duration::from_millis(100);
/// Body of a reply that reports an error.
const ERROR: &[u8] = b"<Error><Code>InternalError</Code><Message>try again</Message></Error>";
/// Body of the reply that begins an upload.
const CREATED: &[u8] =
    b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
/// Number of requests for a read or write if every attempt fails: the first attempt and nine
/// retries.
const ALL_ATTEMPTS: usize = 10;

/// The reply to a read. Arguments: the number of the read, from 0; the offset; and the bytes of the
/// object from that offset.
type Answer = fn(usize, usize, &[u8]) -> ScriptedReply;

/// A fault, and the outcome that every method must have.
struct Fault {
    name: &'static str,
    answer: Answer,
    /// Expected number of reads that reach the server.
    reads: usize,
    /// Text that every method must report; empty if the object must arrive.
    says: &'static str,
}

const FAULTS: [Fault; 9] = [
    Fault { name: "cut", answer: |_, at, rest| sent(at, rest, CUT_BYTES).then_close(), reads: 5, says: "" },
    // The body is cut off more often than a request may be retried in a row. Each reply brings
    // some bytes, after which retries are counted anew.
    Fault {
        name: "often",
        answer: |_, at, rest| sent(at, rest, OFTEN_CUT_BYTES).then_close(),
        reads: 20,
        says: "",
    },
    // All bytes arrive slowly. The client must not send another request.
    Fault {
        name: "slow",
        answer: |_, at, rest| match sent(at, rest, LENGTH) {
            ScriptedReply::Send(bytes) => {
                ScriptedReply::Trickle { bytes, step: LENGTH / 20, pause: PIECE_PAUSE }
            }
            other => other,
        },
        reads: 1,
        says: "",
    },
    // An error with status 200, in the middle of the object. It must not count as content.
    Fault {
        name: "error in 200",
        answer: |number, at, rest| match number {
            0 => sent(at, rest, CUT_BYTES).then_close(),
            _ => ScriptedReply::answer("200 OK", &["content-type: application/xml"], ERROR),
        },
        reads: 2,
        says: "changed",
    },
    // Each reply ends properly, but has fewer bytes than requested.
    Fault { name: "short", answer: |_, at, rest| short(at, rest), reads: 5, says: "" },
    // The server closes the connection without a reply.
    Fault {
        name: "dead",
        answer: |_, _, _| ScriptedReply::Close,
        reads: ALL_ATTEMPTS,
        says: "connection lost",
    },
    // The server stops sending. The client must notice, and repeat the request.
    Fault {
        name: "stall",
        answer: |number, at, rest| sent(at, rest, if number == 0 { LENGTH / 2 } else { LENGTH }),
        reads: 2,
        says: "",
    },
    // Each read gets bytes of the first half or none, so half of the object never arrives.
    Fault {
        name: "broken",
        answer: |_, at, rest| sent(at, rest, (LENGTH / 2).saturating_sub(at)).then_close(),
        reads: ALL_ATTEMPTS,
        says: "ended 50000 bytes early",
    },
    Fault {
        name: "storm",
        answer: |_, _, _| ScriptedReply::answer("503 Slow Down", &[], b""),
        reads: ALL_ATTEMPTS,
        says: "asks to slow down",
    },
];

/// Returns a reply whose head states the length of `rest`, but whose body has only the first `most`
/// bytes.
fn sent(at: usize, rest: &[u8], most: usize) -> ScriptedReply {
    let length = format!("content-length: {}", rest.len());
    let range = format!("content-range: bytes {at}-{}/{LENGTH}", LENGTH - 1);
    let body = &rest[..most.min(rest.len())];
    match at {
        0 => ScriptedReply::raw("200 OK", &[&length, "etag: \"v\"", "accept-ranges: bytes"], body),
        _ => ScriptedReply::raw("206 Partial Content", &[&length, "etag: \"v\"", &range], body),
    }
}

/// Returns a reply with status 206 that has only the beginning of the requested range. The first
/// request has no range, so its reply states the whole length, and its body is cut off.
fn short(at: usize, rest: &[u8]) -> ScriptedReply {
    let body = &rest[..CUT_BYTES.min(rest.len())];
    if at == 0 {
        return sent(at, rest, CUT_BYTES).then_close();
    }
    let range = format!("content-range: bytes {at}-{}/{LENGTH}", at + body.len() - 1);
    ScriptedReply::answer("206 Partial Content", &["etag: \"v\"", &range], body)
}

/// A server with one object and one fault. It counts reads.
struct Faulty {
    server: Scripted,
    reads: Arc<AtomicUsize>,
    content: Arc<Vec<u8>>,
}

impl Faulty {
    fn start(fault: &Fault) -> Self {
        let (reads, content) = (Arc::new(AtomicUsize::new(0)), Arc::new(bytes(SEED, LENGTH)));
        let (counted, served, answer) = (Arc::clone(&reads), Arc::clone(&content), fault.answer);
        let server = Scripted::start(move |_, head| {
            if head.starts_with("HEAD") {
                let length = format!("content-length: {LENGTH}");
                return ScriptedReply::raw("200 OK", &[&length, "etag: \"v\"", "accept-ranges: bytes"], b"");
            }
            let asked =
                head.split("range: bytes=").nth(1).and_then(|text| text.split('-').next()?.parse().ok());
            let at: usize = asked.unwrap_or(0);
            answer(counted.fetch_add(1, Ordering::SeqCst), at, &served[at..])
        });
        Self { server, reads, content }
    }

    fn url(&self) -> String {
        format!("{}/object", self.server.url())
    }
}

/// A method of reading the object: its name, and a function that returns the content or an error
/// message.
type ReadMethod = (&'static str, fn(&str) -> Result<Vec<u8>, String>);

const READ_METHODS: [ReadMethod; 6] = [
    ("cp", |url| {
        let world = World::new();
        let ran = world.run(&["cp", url, "copy"]);
        if ran.code == Some(0) { Ok(world.read("copy")) } else { Err(ran.stderr) }
    }),
    ("cat", |url| {
        let ran = World::new().run(&["cat", url]);
        if ran.code == Some(0) { Ok(ran.stdout) } else { Err(ran.stderr) }
    }),
    ("hydrate", |url| {
        let world = World::new();
        let ran = world.run(&["hydrate", "--cache", "cache", url]);
        // The object is not read: reading it from the cache would send no request.
        let rows = world.run(&["--json", "status", "--cache", "cache", url]).ok().stdout;
        let is_hydrated = String::from_utf8_lossy(&rows).contains("\"hydrated\"");
        match (ran.code, is_hydrated) {
            (Some(0), true) => Ok(bytes(SEED, LENGTH)),
            _ => Err(ran.stderr),
        }
    }),
    ("mount", |url| {
        let place = Place::new(World::new());
        let receipt = place.mount(url, &["--cache", "cache"]);
        place.read("object").map_err(|_| fs::read_to_string(receipt["log"].as_str().unwrap()).unwrap())
    }),
    ("open", |url| {
        let mut content = Vec::new();
        let mut file = Client::new(ClientOptions::default()).unwrap().open(url).unwrap();
        file.read_to_end(&mut content).map(|_| content).map_err(|error| error.to_string())
    }),
    ("read_many", |url| {
        let store = Store::new(firstbyte_store::StoreOptions::default()).unwrap();
        let hydrator = Hydrator::new(store, HydrationSettings::default()).unwrap();
        let handle = hydrator.open(&Location::parse(url.as_ref()).unwrap()).unwrap().handle();
        let mut content = vec![0; LENGTH];
        let (one, other) = content.split_at_mut(LENGTH / 3);
        let ranges: &mut [(u64, &mut [u8])] = &mut [(0, one), (LENGTH as u64 / 3, other)];
        let read = handle.read_ranges_while(ranges, Duration::MAX, &mut || true);
        read.map(|_| content).map_err(|error| error.to_string())
    }),
];

/// Returns how one method deviates from the outcome that is expected for a fault.
fn differences(fault: &Fault, (way, read): &ReadMethod) -> Vec<String> {
    let faulty = Faulty::start(fault);
    let got = read(&faulty.url());
    let reads = faulty.reads.load(Ordering::SeqCst);
    let mut found = Vec::new();
    match &got {
        Ok(content) if fault.says.is_empty() && *content == *faulty.content => {}
        Err(text) if !fault.says.is_empty() && text.contains(fault.says) => {}
        Ok(content) => found.push(format!("{} bytes", content.len())),
        Err(text) => found.push(format!("says {text}")),
    }
    // If the machine is busy, a pause may count as a stall and cause one more request.
    let reads = if fault.name == "slow" { reads.saturating_sub(1).max(1) } else { reads };
    if reads * 5 > fault.reads * 6 || reads * 6 < fault.reads * 5 {
        found.push(format!("{reads} reads instead of {}", fault.reads));
    }
    found.into_iter().map(|what| format!("{way} under {}: {what}", fault.name)).collect()
}

/// Takes about 17 s, because nine retries pause that long. All cases wait concurrently.
#[test]
fn every_way_to_read_makes_as_many_requests_and_says_the_same() {
    let differing = Mutex::new(Vec::new());
    let suspects = &differing;
    thread::scope(|scope| {
        for fault in &FAULTS {
            for way in &READ_METHODS {
                scope.spawn(move || {
                    if !differences(fault, way).is_empty() {
                        suspects.lock().unwrap().push((fault, way));
                    }
                });
            }
        }
    });
    // If the machine is busy, a pause may count as a stall and cause one more request. So each case
    // that deviates is repeated alone, and fails only if it deviates every time.
    let again = differing.into_inner().unwrap().into_iter().flat_map(|(fault, way)| {
        let tries: Vec<Vec<String>> = (0..3).map(|_| differences(fault, way)).collect();
        tries.into_iter().min_by_key(Vec::len).unwrap_or_default()
    });
    let found: Vec<String> = again.collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_write_is_sent_as_often_as_a_read() {
    let server = Scripted::start(|_, _| ScriptedReply::answer("503 Slow Down", &[], b""));
    let world = World::new();
    world.write("object", &bytes(SEED, LENGTH));
    let ran = world.run(&["cp", "object", &format!("{}/object", server.url())]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("asks to slow down"), "{ran:?}");
    assert_eq!(server.heads().iter().filter(|head| head.starts_with("PUT")).count(), ALL_ATTEMPTS);
}

/// Sends the same error codes inside a reply with status 200 and with an error status, because S3
/// does both.
#[test]
fn a_completion_is_sent_as_often_with_an_error_inside_a_200_as_with_one_of_its_status() {
    for status in ["200 OK", "500 Internal Server Error"] {
        let completions = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&completions);
        let server = Scripted::start(move |_, head| {
            let is_completion = head.starts_with("POST") && head.contains("uploadId=");
            match head.split(' ').next() {
                Some("POST") if is_completion && counted.fetch_add(1, Ordering::SeqCst) < ALL_ATTEMPTS => {
                    ScriptedReply::answer(status, &["content-type: application/xml"], ERROR)
                }
                Some("POST") => ScriptedReply::answer("200 OK", &[], CREATED),
                Some("PUT") => ScriptedReply::answer("200 OK", &["etag: \"part\""], b""),
                Some("DELETE") => ScriptedReply::answer("204 No Content", &[], b""),
                _ => ScriptedReply::answer("404 Not Found", &[], b""),
            }
        });
        let mut world = World::new();
        for (name, value) in [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")] {
            world.set(name, value);
        }
        world.set("AWS_ENDPOINT_URL", server.url());
        world.set("AWS_REGION", "us-east-1");
        world.write("object", &bytes(SEED, 20 << 20));
        let ran = world.run(&["cp", "object", "s3://bucket/object"]);
        assert_eq!(ran.code, Some(1), "{status}: {ran:?}");
        assert!(ran.stderr.contains("InternalError"), "{status}: {ran:?}");
        assert_eq!(completions.load(Ordering::SeqCst), ALL_ATTEMPTS, "{status}: {ran:?}");
    }
}

#[test]
fn a_mount_counts_the_requests_that_it_sent_again() {
    let fault = Fault {
        name: "two failures",
        answer: |number, at, rest| match number {
            0 | 1 => ScriptedReply::answer("503 Slow Down", &[], b""),
            _ => sent(at, rest, LENGTH),
        },
        reads: 3,
        says: "",
    };
    let faulty = Faulty::start(&fault);
    let place = Place::new(World::new());
    let receipt = place.mount(&faulty.url(), &["--cache", "cache", "--metrics", "127.0.0.1:0"]);
    assert!(place.read("object").unwrap() == *faulty.content);
    let address =
        receipt["metrics"].as_str().unwrap().trim_start_matches("http://").trim_end_matches("/metrics");
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).unwrap();
    assert!(text.lines().any(|line| line.ends_with("store_retries_total 2")), "{text}");
}
