//! Tests a link between real sockets: bytes arrive unchanged, faults occur as the random draws
//! decided, and the counters match.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use firstbyte_link::{
    Chance, Faults, Link, LinkConfig, LinkCounts, LinkRate, Preset, RandomDelay, RunningLink,
};
use firstbyte_testkit::wait_limit;

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Returns pseudo-random bytes that depend on `seed`.
fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Starts a server that calls `serve` for each connection on a thread of its own, until the process
/// ends.
fn server(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind(ANY).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Starts a server that sends back the bytes that it receives. The server closes after the client.
fn echo() -> SocketAddr {
    server(|mut stream| {
        let mut other = stream.try_clone().unwrap();
        // The copy fails in tests whose client closes early.
        let _ = std::io::copy(&mut stream, &mut other);
        let _ = other.shutdown(Shutdown::Write);
    })
}

/// Starts a server that answers each line with an HTTP head and a body of `length` bytes.
fn web(length: usize) -> SocketAddr {
    server(move |mut stream| {
        let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
        answer.extend(content(1, length));
        let mut request = [0];
        while stream.read_exact(&mut request).is_ok() {
            if request == *b"\n" && stream.write_all(&answer).is_err() {
                break;
            }
        }
    })
}

fn start(to: SocketAddr, change: impl FnOnce(LinkConfig) -> LinkConfig) -> RunningLink {
    Link::start(change(LinkConfig::new(ANY, to.to_string()))).unwrap()
}

/// Sends one line. Returns the response: `length` bytes, or fewer if the connection ends.
fn request(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut answer = vec![0; length];
    if stream.write_all(b"GET /\n").is_err() {
        return Vec::new();
    }
    let mut filled = 0;
    while filled < length {
        match stream.read(&mut answer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    answer.truncate(filled);
    answer
}

/// Sends bytes, and reads the same number of bytes. Writes and reads at the same time, because
/// otherwise each side would wait for the other to read.
fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    thread::scope(|scope| {
        let mut writer = stream.try_clone().unwrap();
        scope.spawn(move || {
            writer.write_all(bytes).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        back
    })
}

#[test]
fn bytes_come_out_as_they_went_in_over_every_kind_of_link() {
    let bytes = content(7, 3 << 20);
    let slow = |config: LinkConfig| LinkConfig {
        rate: Some(LinkRate::bytes_per_second(20_000_000)),
        rtt: Duration::from_millis(3),
        ..config
    };
    let single = |config: LinkConfig| LinkConfig {
        per_connection: Some(LinkRate::bytes_per_second(30_000_000)),
        ..config
    };
    let links = [
        start(echo(), |config| config),
        start(echo(), slow),
        start(echo(), single),
        start(echo(), |config| config.with_preset(Preset::Function)),
        start(echo(), |config| config.with_preset(Preset::Region)),
    ];
    for link in links {
        assert!(exchange(link.address(), &bytes) == bytes);
        let counters = link.stop();
        let length = bytes.len() as u64;
        let expected = LinkCounts {
            connections: 1,
            bytes_to_server: length,
            bytes_to_client: length,
            ..LinkCounts::default()
        };
        // The number of requests depends on timing: the echo server may answer parts of a message.
        assert_eq!(LinkCounts { requests: 0, ..counters }, expected);
    }
}

#[test]
fn shutting_down_one_direction_leaves_the_other_open() {
    let counting = server(|mut stream| {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        stream.write_all(format!("{} bytes", bytes.len()).as_bytes()).unwrap();
    });
    let link = start(counting, |config| LinkConfig { rtt: Duration::from_millis(2), ..config });
    assert_eq!(exchange(link.address(), &content(1, 100_000)), b"100000 bytes");
}

#[test]
fn bytes_that_the_server_sends_first_arrive() {
    let greeting = server(|mut stream| stream.write_all(b"220 ready").unwrap());
    let link = start(greeting, |config| LinkConfig { rtt: Duration::from_millis(2), ..config });
    let mut heard = String::new();
    TcpStream::connect(link.address()).unwrap().read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "220 ready");
    assert_eq!(link.stop().requests, 0);
}

#[test]
fn many_connections_share_a_link_and_each_gets_its_own_bytes() {
    const CONNECTIONS: u64 = 200;
    let link = start(echo(), |config| LinkConfig {
        rate: Some(LinkRate::bytes_per_second(50_000_000)),
        rtt: Duration::from_millis(2),
        ..config
    });
    thread::scope(|scope| {
        for seed in 0..CONNECTIONS {
            let address = link.address();
            scope.spawn(move || {
                let bytes = content(seed, 30_000);
                assert!(exchange(address, &bytes) == bytes, "connection {seed}");
            });
        }
    });
    let counters = link.stop();
    assert_eq!((counters.connections, counters.bytes_to_client), (CONNECTIONS, CONNECTIONS * 30_000));
}

#[test]
fn client_bytes_after_server_bytes_count_as_a_request() {
    let link = start(web(5_000), |config| config);
    let mut stream = TcpStream::connect(link.address()).unwrap();
    for _ in 0..9 {
        assert_eq!(request(&mut stream, answer_length(5_000)).len(), answer_length(5_000));
    }
    assert_eq!(link.stop().requests, 9);
}

/// Returns the length of a response of `web(length)`.
fn answer_length(length: usize) -> usize {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").len() + length
}

/// Makes twenty requests, each on a new connection. Returns the responses, and the counters.
fn answer_twenty_requests(faults: Faults, seed: u64) -> (Vec<Vec<u8>>, LinkCounts) {
    const LENGTH: usize = 50_000;
    let link = start(web(LENGTH), |config| LinkConfig { faults, seed, ..config });
    let ask = |_| request(&mut TcpStream::connect(link.address()).unwrap(), answer_length(LENGTH));
    ((0..20).map(ask).collect(), link.stop())
}

#[test]
fn a_cut_ends_the_response_early() {
    let faults = Faults { cut: Chance::new(1.0), ..Faults::default() };
    let (answers, counters) = answer_twenty_requests(faults, 3);
    assert!(answers.iter().all(|answer| answer.len() < answer_length(50_000)));
    assert_eq!((counters.requests, counters.cuts), (20, 20));
}

#[test]
fn corruption_changes_one_byte_after_the_first_kibibyte() {
    let (clean, _) = answer_twenty_requests(Faults::default(), 3);
    let (answers, counters) =
        answer_twenty_requests(Faults { corrupt: Chance::new(1.0), ..Faults::default() }, 3);
    for (answer, clean) in answers.iter().zip(&clean) {
        let changed: Vec<usize> = (0..clean.len()).filter(|i| answer[*i] != clean[*i]).collect();
        assert!(changed.len() == 1 && changed[0] >= 1024, "{changed:?}");
    }
    assert_eq!(counters.corruptions, 20);
}

#[test]
fn a_duplicated_segment_shifts_what_follows() {
    let (clean, _) = answer_twenty_requests(Faults::default(), 3);
    let (answers, counters) =
        answer_twenty_requests(Faults { duplicate: Chance::new(1.0), ..Faults::default() }, 3);
    assert!(answers.iter().zip(&clean).all(|(answer, clean)| answer[..1024] == clean[..1024]));
    // If the last segment of a response is duplicated, the copy comes after the bytes that the test
    // reads.
    assert!(answers.iter().zip(&clean).filter(|(answer, clean)| answer != clean).count() >= 15);
    assert_eq!(counters.duplicates, 20);
    assert!(counters.bytes_to_client >= 20 * answer_length(50_000) as u64);
}

#[test]
fn delays_and_stalls_change_no_byte() {
    let hold = RandomDelay { chance: Chance::new(1.0), duration: Duration::from_millis(5) };
    let (clean, _) = answer_twenty_requests(Faults::default(), 3);
    let (answers, counters) =
        answer_twenty_requests(Faults { delay: hold, stall: hold, ..Faults::default() }, 3);
    assert!(answers == clean);
    assert_eq!((counters.delays, counters.stalls), (20, 20));
}

#[test]
fn the_same_seed_gives_the_same_faults_and_another_seed_others() {
    let half = Chance::new(0.5);
    let corrupt = Faults { corrupt: half, ..Faults::default() };
    let (first, counters) = answer_twenty_requests(corrupt, 11);
    let (again, _) = answer_twenty_requests(corrupt, 11);
    let (other, _) = answer_twenty_requests(corrupt, 12);
    assert!(first == again);
    assert!(first != other);
    assert!((1..20).contains(&counters.corruptions), "{counters:?}");
}

#[test]
fn a_response_of_unknown_length_is_cut_too() {
    // In a response of unknown length, the link chooses the positions of faults within the first
    // 64 MiB. So a cut with probability 1 occurs before the end of these.
    let endless = server(|mut stream| while stream.write_all(&[7; 65_536]).is_ok() {});
    let link = start(endless, |config| LinkConfig {
        faults: Faults { cut: Chance::new(1.0), ..Faults::default() },
        ..config
    });
    let mut stream = TcpStream::connect(link.address()).unwrap();
    stream.write_all(b"go").unwrap();
    let mut sink = vec![0; 1 << 16];
    while stream.read(&mut sink).is_ok_and(|n| n > 0) {}
    let counters = link.stop();
    assert_eq!(counters.cuts, 1);
    assert!(counters.bytes_to_client <= 64 << 20);
}

#[test]
fn if_the_target_refuses_the_client_is_closed_and_the_link_continues() {
    let gone = TcpListener::bind(ANY).unwrap().local_addr().unwrap();
    let link = start(gone, |config| config);
    for _ in 0..3 {
        let mut stream = TcpStream::connect(link.address()).unwrap();
        assert!(!matches!(stream.read(&mut [0]), Ok(n) if n > 0));
    }
    assert_eq!(link.stop().connections, 3);
}

#[test]
fn when_the_client_closes_the_server_side_is_closed() {
    let (ended, end) = std::sync::mpsc::channel();
    let endless = server(move |mut stream| {
        while stream.write_all(&[7; 65_536]).is_ok() {}
        ended.send(()).unwrap();
    });
    let link = start(endless, |config| LinkConfig { rtt: Duration::from_millis(2), ..config });
    let mut stream = TcpStream::connect(link.address()).unwrap();
    stream.read_exact(&mut [0; 1000]).unwrap();
    drop(stream);
    end.recv_timeout(wait_limit()).expect("the server to see its connection end");
}

#[test]
fn a_client_that_does_not_read_slows_the_server_down() {
    let endless = server(|mut stream| while stream.write_all(&[7; 65_536]).is_ok() {});
    let link = start(endless, |config| config);
    let mut idle = TcpStream::connect(link.address()).unwrap();
    idle.read_exact(&mut [0; 1]).unwrap();
    // Another connection still works. Meanwhile the first connection has time to fill its buffers.
    let mut busy = TcpStream::connect(link.address()).unwrap();
    busy.read_exact(&mut vec![0; 256 << 20]).unwrap();
    let delivered = link.counters().bytes_to_client;
    assert!(delivered < (256 << 20) + (64 << 20), "{delivered}");
}

#[test]
fn stopping_a_link_ends_its_connections() {
    let link = start(echo(), |config| config);
    let mut stream = TcpStream::connect(link.address()).unwrap();
    stream.write_all(b"x").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    assert_eq!(link.stop().bytes_to_client, 1);
    assert!(!matches!(stream.read(&mut [0]), Ok(n) if n > 0));
}

#[test]
fn an_address_in_use_or_a_target_without_a_port_is_named_in_the_error() {
    let taken = TcpListener::bind(ANY).unwrap();
    let address = taken.local_addr().unwrap();
    let error = Link::start(LinkConfig::new(address, "127.0.0.1:1")).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{address}: cannot listen")), "{error}");
    let error = Link::start(LinkConfig::new(ANY, "127.0.0.1")).unwrap_err().to_string();
    assert!(error.starts_with("127.0.0.1: cannot resolve"), "{error}");
}
