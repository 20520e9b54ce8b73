//! Tests TLS with unusual records, key updates and closures, and with untrusted servers. Content is
//! compared byte by byte, truncation is detected, and no call takes longer than its deadline.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use firstbyte_location::{ByteRange, Location};
use firstbyte_store::{Error, Get, Payload, PutOptions, Result, Sink, Store, StoreOptions};
use firstbyte_testkit::{BodyEnding, Certificate, CertificateKind, TlsBehaviour, TlsPeer, bytes, wait_limit};
use rustls::version::{TLS12, TLS13};

fn store_with(certificate: &Certificate, read_deadline: Duration) -> Store {
    let ca_bundle = Some(certificate.certificate());
    Store::new(StoreOptions { ca_bundle, read_deadline, retries: 0, ..StoreOptions::default() }).unwrap()
}

fn store(certificate: &Certificate) -> Store {
    store_with(certificate, wait_limit())
}

fn at(peer: &TlsPeer, name: &str) -> Location {
    Location::parse(format!("{}/{name}", peer.url()).as_ref()).unwrap()
}

/// Reads an object in steps of `step` bytes.
fn read(store: &Store, location: &Location, range: Option<ByteRange>, step: usize) -> Result<Vec<u8>> {
    let mut body = store.get(location, &Get { range, ..Get::default() })?;
    let (mut content, mut buffer) = (Vec::new(), vec![0; step]);
    loop {
        match body.read(&mut buffer)? {
            0 => return Ok(content),
            count => content.extend_from_slice(&buffer[..count]),
        }
    }
}

/// Runs `work` on a thread. Panics if `work` does not end in time.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = channel();
    thread::spawn(move || done.send(work()));
    wait.recv_timeout(wait_limit() * 2).expect("an end in time")
}

/// Returns unusual but legal ways to send records. Each has a description, and a content length
/// that it can transfer quickly.
fn shapes() -> Vec<(&'static str, TlsBehaviour, usize)> {
    let usual = TlsBehaviour::default();
    let old = TlsBehaviour { version: &TLS12, ..usual.clone() };
    vec![
        ("the largest records", usual.clone(), 3_000_001),
        ("TLS 1.2", old.clone(), 3_000_001),
        ("segments of one byte", TlsBehaviour { segment: 1, ..usual.clone() }, 120_001),
        ("segments of one byte, TLS 1.2", TlsBehaviour { segment: 1, ..old.clone() }, 120_001),
        ("records of one byte", TlsBehaviour { record: 1, batch: 1, ..usual.clone() }, 20_001),
        ("a thousand records in a segment", TlsBehaviour { record: 1, batch: 1000, ..usual.clone() }, 60_001),
        ("the same, TLS 1.2", TlsBehaviour { record: 1, batch: 1000, ..old.clone() }, 60_001),
        (
            "records and segments that never meet",
            TlsBehaviour { record: 16_001, segment: 4099, ..usual.clone() },
            900_001,
        ),
        (
            "split handshake messages",
            TlsBehaviour { fragment: Some(64), record: 64, ..usual.clone() },
            200_001,
        ),
        (
            "split handshake messages, TLS 1.2",
            TlsBehaviour { fragment: Some(64), record: 64, ..old },
            200_001,
        ),
        ("KeyUpdate", TlsBehaviour { key_update: Some(50_000), ..usual.clone() }, 900_001),
        (
            "KeyUpdate and segments of one byte",
            TlsBehaviour { key_update: Some(9_000), segment: 1, ..usual },
            90_001,
        ),
    ]
}

#[test]
fn all_forms_of_records_give_the_same_bytes_and_keep_the_connection() {
    let certificate = Certificate::make(CertificateKind::Leaf);
    for (shape, unusual, length) in shapes() {
        let content = bytes(5, length);
        let peer = TlsPeer::start(&certificate, unusual, content.clone());
        let (store, location) = (store(&certificate), at(&peer, "x"));
        for step in [997, 16 << 10, 64 << 10, 1 << 20] {
            assert!(read(&store, &location, None, step).unwrap() == content, "{shape}, {step}");
            let (start, end) = (length / 3, length / 3 + length / 2);
            let range = ByteRange::new(start as u64, end as u64);
            assert!(read(&store, &location, Some(range), step).unwrap() == content[start..end], "{shape}");
        }
        let sink = Sink::new(tempfile::tempfile().unwrap());
        let mut body = store.get(&location, &Get::default()).unwrap();
        let written = body.write_to(&sink, 0, u64::MAX, &mut vec![0; 256 << 10], None, &mut |_| {}).unwrap();
        let mut found = Vec::new();
        sink.file().read_to_end(&mut found).unwrap();
        assert!((written, &found) == (length as u64, &content), "{shape}");
        assert_eq!(peer.connections(), 1, "{shape}: kept alive");
    }
}

#[test]
fn uploads_arrive_unchanged_with_all_forms_of_records() {
    let certificate = Certificate::make(CertificateKind::Leaf);
    let content = bytes(6, 1_000_003);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&content).unwrap();
    for (shape, unusual, _) in shapes() {
        let peer = TlsPeer::start(&certificate, unusual, b"x".to_vec());
        let (store, options) = (store(&certificate), PutOptions::default());
        store.put(&at(&peer, "a"), Payload::Bytes(&content), &options).unwrap();
        let range = ByteRange::new(0, content.len() as u64);
        store.put(&at(&peer, "b"), Payload::File(&file, range), &options).unwrap();
        assert!(peer.puts() == [content.clone(), content.clone()], "{shape}");
        assert_eq!(peer.connections(), 1, "{shape}");
    }
}

#[test]
fn concurrent_connections_with_key_updates_do_not_mix_their_bytes() {
    let certificate = Certificate::make(CertificateKind::Leaf);
    let content = bytes(7, 2_000_003);
    let unusual = TlsBehaviour { key_update: Some(70_000), segment: 5003, ..TlsBehaviour::default() };
    let peer = TlsPeer::start(&certificate, unusual, content.clone());
    let (store, location) = (store(&certificate), at(&peer, "x"));
    thread::scope(|scope| {
        for reader in 0..8_usize {
            let (store, location, content) = (&store, &location, &content);
            scope.spawn(move || {
                let (start, end) = (reader * 100_001, reader * 100_001 + 1_000_000);
                let range = ByteRange::new(start as u64, end as u64);
                assert!(read(store, location, Some(range), 128 << 10).unwrap() == content[start..end]);
            });
        }
    });
}

#[test]
fn a_body_without_length_is_complete_only_with_close_notify() {
    let certificate = Certificate::make(CertificateKind::Leaf);
    let content = bytes(8, 300_007);
    for version in [&TLS12, &TLS13] {
        let peer = |ending| {
            let unusual = TlsBehaviour { version, ending, ..TlsBehaviour::default() };
            TlsPeer::start(&certificate, unusual, content.clone())
        };
        for step in [997, 256 << 10] {
            let notified = peer(BodyEnding::Notified);
            assert!(read(&store(&certificate), &at(&notified, "x"), None, step).unwrap() == content);
            let cut = peer(BodyEnding::Unnotified);
            let error = read(&store(&certificate), &at(&cut, "x"), None, step).unwrap_err();
            assert!(matches!(error, Error::Disconnected { .. }), "{error}");
            assert!(error.is_transient() && error.to_string().contains("close_notify"), "{error}");
        }
    }
}

#[test]
fn a_truncated_body_is_a_transient_error() {
    let certificate = Certificate::make(CertificateKind::Leaf);
    for ending in [BodyEnding::Cut, BodyEnding::CutNotified] {
        for step in [997, 256 << 10] {
            let unusual = TlsBehaviour { ending, endings: 1, ..TlsBehaviour::default() };
            let content = bytes(9, 500_000);
            let peer = TlsPeer::start(&certificate, unusual, content.clone());
            let (store, location) = (store(&certificate), at(&peer, "x"));
            let error = read(&store, &location, None, step).unwrap_err();
            assert!(error.is_transient(), "{ending:?}: {error}");
            assert!(read(&store, &location, None, step).unwrap() == content, "{ending:?}");
        }
    }
}

#[test]
fn bytes_after_close_notify_are_ignored() {
    let certificate = Certificate::make(CertificateKind::Leaf);
    for version in [&TLS12, &TLS13] {
        for step in [997, 256 << 10] {
            let content = bytes(10, 100_000);
            let unusual =
                TlsBehaviour { version, ending: BodyEnding::NotifiedThenJunk, ..TlsBehaviour::default() };
            let peer = TlsPeer::start(&certificate, unusual, content.clone());
            let (store, location) = (store(&certificate), at(&peer, "x"));
            let found = in_time(move || read(&store, &location, None, step));
            assert!(found.unwrap() == content, "{step}");
        }
    }
}

/// Starts a listener that sends `bytes` one by one, with a pause after each byte, and then stays
/// silent. Returns its URL.
fn silent_peer(bytes: &'static [u8], pause: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/x", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            thread::spawn(move || {
                let _ = bytes.iter().try_for_each(|byte| {
                    thread::sleep(pause);
                    socket.write_all(&[*byte])
                });
                // The connection stays open longer than any test waits.
                thread::sleep(wait_limit() * 3);
            });
        }
    });
    url
}

#[test]
fn a_slow_or_stalled_handshake_fails_after_the_deadline() {
    let certificate = Certificate::make(CertificateKind::Leaf);
    // The head of a record of 16 KiB with a handshake message, followed by zeros.
    static TRICKLE: [u8; 4000] = {
        let mut bytes = [0; 4000];
        (bytes[0], bytes[1], bytes[2], bytes[3]) = (0x16, 3, 3, 0x40);
        bytes
    };
    let deadline = Duration::from_millis(400);
    for url in [silent_peer(&[], deadline), silent_peer(&TRICKLE, Duration::from_millis(100))] {
        let store = store_with(&certificate, deadline);
        let location = Location::parse(url.as_ref()).unwrap();
        let began = Instant::now();
        let error = in_time(move || store.stat(&location)).unwrap_err();
        // The GET after the HEAD may find that the endpoint has stopped answering.
        assert!(matches!(error, Error::TimedOut { .. } | Error::Unresponsive { .. }), "{error}");
        assert!(began.elapsed() < wait_limit(), "{:?}", began.elapsed());
    }
}

#[test]
fn certificates_are_checked_for_authority_validity_and_name() {
    for made in [CertificateKind::Authority, CertificateKind::Leaf] {
        let certificate = Certificate::make(made);
        for version in [&TLS12, &TLS13] {
            let unusual = TlsBehaviour { version, ..TlsBehaviour::default() };
            let peer = TlsPeer::start(&certificate, unusual, b"content".to_vec());
            assert_eq!(
                read(&store(&certificate), &at(&peer, "x"), None, 99).unwrap(),
                b"content",
                "{made:?}"
            );
        }
    }
    let refusal = |made, trusted: &dyn Fn(&Certificate) -> Store| {
        let certificate = Certificate::make(made);
        let peer = TlsPeer::start(&certificate, TlsBehaviour::default(), b"content".to_vec());
        let error = read(&trusted(&certificate), &at(&peer, "x"), None, 99).unwrap_err();
        assert!(!error.is_transient() && error.concerns_store(), "{error}");
        format!("{error}; {}", error.advice().unwrap())
    };
    let other = Certificate::make(CertificateKind::Authority);
    let message = refusal(CertificateKind::Authority, &|_| store(&other));
    assert!(
        message.contains("not signed by a trusted authority") && message.contains("--ca-bundle"),
        "{message}"
    );
    let message = refusal(CertificateKind::Authority, &|_| Store::new(StoreOptions::default()).unwrap());
    assert!(
        message.contains("not signed by a trusted authority") && message.contains("--ca-bundle"),
        "{message}"
    );
    let message = refusal(CertificateKind::Expired, &store);
    assert!(message.contains("expired") && message.contains("renew"), "{message}");
    let message = refusal(CertificateKind::NotYetValid, &store);
    assert!(message.contains("not yet valid") && message.contains("clock"), "{message}");
    let message = refusal(CertificateKind::ForAnotherHost, &store);
    assert!(message.contains("127.0.0.1") && message.contains("elsewhere.invalid"), "{message}");
}
