//! Measures the accuracy of a link's rates and delays, and the link's CPU time: `cargo run
//! --release --example accuracy`.
//!
//! The server, the link and the client share this machine, so a slow link may lack CPU time. The
//! last column is the CPU time of the link's thread.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use firstbyte_link::{Link, LinkConfig, LinkRate, Preset};

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Clock ticks per second in `/proc`: 100 on all common Linux systems.
const TICKS_PER_SECOND: f64 = 100.0;

fn main() {
    let server = server();
    println!("{:44} {:>10} {:>10} {:>7} {:>12}", "link", "asked", "measured", "error", "CPU s/GiB");
    let megabytes = |mb: u64| Some(LinkRate::bytes_per_second(mb * 1_000_000));
    let base = || LinkConfig::new(ANY, server.to_string());
    rate("no limit, 4 connections", base(), 4, 4 << 30);
    rate("function (75 MB/s, 20 ms), 1 connection", base().with_preset(Preset::Function), 1, 300 << 20);
    rate("function (75 MB/s, 20 ms), 16 connections", base().with_preset(Preset::Function), 16, 300 << 20);
    rate("region (400 MB/s, 30 ms), 10 connections", base().with_preset(Preset::Region), 10, 2 << 30);
    rate("region (400 MB/s, 30 ms), 64 connections", base().with_preset(Preset::Region), 64, 2 << 30);
    rate(
        "40 MB/s a connection, 1 connection",
        LinkConfig { per_connection: megabytes(40), ..base() },
        1,
        200 << 20,
    );
    rate("1 MB/s in all, 3 connections", LinkConfig { rate: megabytes(1), ..base() }, 3, 5 << 20);
    println!();
    println!("{:44} {:>10} {:>10} {:>7}", "round trip, median of 50", "asked", "measured", "error");
    for rtt in [1, 5, 20, 30, 100] {
        delay(LinkConfig { rtt: Duration::from_millis(rtt), ..base() });
    }
}

/// Starts a server that reads a length of eight bytes and sends that many bytes.
fn server() -> SocketAddr {
    let listener = TcpListener::bind(ANY).expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let block = vec![0; 256 << 10];
                let mut length = [0; 8];
                while stream.read_exact(&mut length).is_ok() {
                    let mut left = u64::from_be_bytes(length) as usize;
                    while left > 0 {
                        let n = left.min(block.len());
                        if stream.write_all(&block[..n]).is_err() {
                            return;
                        }
                        left -= n;
                    }
                }
            });
        }
    });
    address
}

fn fetch(stream: &mut TcpStream, length: u64, buffer: &mut [u8]) {
    stream.write_all(&length.to_be_bytes()).expect("a link");
    let mut left = length as usize;
    while left > 0 {
        let n = left.min(buffer.len());
        left -= stream.read(&mut buffer[..n]).expect("a link");
    }
}

fn rate(name: &str, config: LinkConfig, connections: u64, bytes: u64) {
    let asked = config.rate.or(config.per_connection).map(LinkRate::get);
    let link = Link::start(config).expect("a link");
    let address = link.address();
    let began = Instant::now();
    let first_bytes: Vec<Instant> = thread::scope(|scope| {
        let fetchers: Vec<_> = (0..connections)
            .map(|_| {
                scope.spawn(move || {
                    let mut buffer = vec![0; 256 << 10];
                    let mut stream = TcpStream::connect(address).expect("a link");
                    fetch(&mut stream, 1, &mut buffer);
                    let first = Instant::now();
                    fetch(&mut stream, bytes / connections, &mut buffer);
                    first
                })
            })
            .collect();
        fetchers.into_iter().map(|f| f.join().expect("a fetch")).collect()
    });
    // The round trip of the second request is a delay, so it does not count for the rate.
    let first = first_bytes.into_iter().min().unwrap_or(began);
    let round_trip = first.duration_since(began) / 2;
    let measured = bytes as f64 / (first.elapsed() - round_trip).as_secs_f64() / 1e6;
    let cost = link_cpu_seconds() / (bytes as f64 / f64::from(1 << 30));
    let (asked, error) = asked.map_or((String::new(), String::new()), |asked| {
        let asked = asked as f64 / 1e6;
        (format!("{asked:.1}"), format!("{:+.1} %", (measured / asked - 1.0) * 100.0))
    });
    println!("{name:44} {asked:>10} {measured:>10.1} {error:>7} {cost:>12.2}");
}

fn delay(config: LinkConfig) {
    let asked = config.rtt.as_secs_f64() * 1e3;
    let link = Link::start(config).expect("a link");
    let mut stream = TcpStream::connect(link.address()).expect("a link");
    stream.set_nodelay(true).expect("an option");
    let mut buffer = [0; 8];
    let connect = Instant::now();
    fetch(&mut stream, 1, &mut buffer);
    let connect = connect.elapsed().as_secs_f64() * 1e3;
    let mut times: Vec<f64> = (0..50)
        .map(|_| {
            let began = Instant::now();
            fetch(&mut stream, 1, &mut buffer);
            began.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    let name = format!("{asked} ms (with connecting: {connect:.2} ms)");
    println!("{name:44} {asked:>10.2} {median:>10.2} {:>+5.1} %", (median / asked - 1.0) * 100.0);
}

/// Returns the CPU time of the link's thread, in seconds.
fn link_cpu_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs");
    let stats = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    let link = stats.filter_map(|stat| Some(stat.split_once("(link) ")?.1.to_owned()));
    // The fields after the name: state is field 0, user time field 11, system time field 12.
    let ticks =
        |stat: String| stat.split(' ').skip(11).take(2).filter_map(|t| t.parse::<f64>().ok()).sum::<f64>();
    link.map(ticks).sum::<f64>() / TICKS_PER_SECOND
}
