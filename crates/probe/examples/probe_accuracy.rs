//! Prints how accurately probes measure links of known rates, and links that replay the model of
//! such a probe. Also prints the bytes per second of `function-burst`.
//!
//! Run it with `cargo run -p firstbyte-probe --example probe_accuracy -- [SECONDS] [PART...]`, with
//! MinIO installed. The parts are region, function, burst, spread, series. SECONDS (default: 20) is
//! the time of each probe.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use firstbyte_advise::model::{Cloud, Latency, ServiceModel};
use firstbyte_advise::units::Seconds;
use firstbyte_link::{
    BurstBucket, Link, LinkConfig, LinkRate, Preset, Replay, RunningLink, WaitDistribution,
};
use firstbyte_location::{ByteRange, Location};
use firstbyte_probe::{Budget, ModelIdentity, ProbeOptions, ProbeReport, ProbeRights, probe};
use firstbyte_store::{Cancel, Get, Payload, Store, StoreOptions};
use firstbyte_testkit::{BUCKET, bytes, minio, scratch, set_credentials};

const LARGE: usize = 256 << 20;

fn main() {
    let mut words = std::env::args().skip(1).peekable();
    let seconds = words.peek().and_then(|word| word.parse::<f64>().ok());
    if seconds.is_some() {
        words.next();
    }
    let parts: Vec<String> = words.collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|word| word == part);
    if wanted("series") {
        series();
    }
    set_credentials();
    let (root, disk) = (scratch(), scratch());
    let server = minio(root.path());
    let address = server.address().to_string();
    fill(&address);
    let bench = Bench { address, time: Duration::from_secs_f64(seconds.unwrap_or(20.0)), disk };
    let preset = |preset: Preset| bench.link().with_preset(preset);
    let rate = |mb: u64| Some(LinkRate::bytes_per_second(mb * 1_000_000));
    let bursting = LinkConfig {
        rtt: Duration::from_millis(20),
        rate: rate(40),
        burst: Some(BurstBucket { bytes: 150_000_000, rate: LinkRate::bytes_per_second(160_000_000) }),
        ..bench.link()
    };
    let latency = Latency {
        p50: Seconds(0.025),
        p95: Some(Seconds(0.067)),
        p99: Some(Seconds(0.105)),
        source: String::new(),
    };
    let wait = WaitDistribution::of(&latency);
    let spread = LinkConfig {
        rtt: wait.map_or(Duration::ZERO, |wait| wait.floor()),
        wait,
        per_connection: rate(20),
        ..bench.link()
    };
    for (name, config) in [
        ("region", preset(Preset::Region)),
        ("function", preset(Preset::Function)),
        ("burst", bursting),
        ("spread", spread),
    ] {
        if wanted(name) {
            bench.probe_twice(name, config);
        }
    }
}

/// The server behind all links.
struct Bench {
    address: String,
    time: Duration,
    disk: tempfile::TempDir,
}

fn fill(address: &str) {
    let store = store(&format!("http://{address}"));
    let put = |name: &str, content: &[u8]| {
        let location = Location::parse(format!("s3://{BUCKET}/{name}").as_ref()).expect("a location");
        store.put(&location, Payload::Bytes(content), &Default::default()).expect("an object");
    };
    put("large", &bytes(1, LARGE));
    for number in 0..300 {
        put(&format!("small/{number}"), &bytes(number, 20_000));
    }
}

fn store(url: &str) -> Store {
    let (endpoint_url, region) = (Some(url.to_owned()), Some("us-east-1".to_owned()));
    Store::new(StoreOptions { endpoint_url, region, ..StoreOptions::default() }).expect("a store")
}

impl Bench {
    fn link(&self) -> LinkConfig {
        LinkConfig::new(([127, 0, 0, 1], 0).into(), &self.address)
    }

    fn probe(&self, link: &RunningLink) -> ProbeReport {
        let location = Location::parse(format!("s3://{BUCKET}/").as_ref()).expect("a location");
        let budget = Budget { time: self.time, spending: None };
        let options = ProbeOptions {
            budget,
            rights: ProbeRights::ReadOnly,
            disk: self.disk.path().to_owned(),
            cancel: Cancel::new(),
        };
        probe(&store(&format!("http://{}", link.address())), &location, &options).expect("a report")
    }

    /// Returns the median time to the first byte without a link, in seconds. A link adds its delay
    /// to this time.
    fn own_first_byte(&self) -> f64 {
        let store = store(&format!("http://{}", self.address));
        let location = Location::parse(format!("s3://{BUCKET}/large").as_ref()).expect("a location");
        let mut times: Vec<f64> = (0..200)
            .map(|_| {
                let began = Instant::now();
                let get = Get { range: Some(ByteRange::new(0, 1)), ..Get::default() };
                let mut body = store.get(&location, &get).expect("an object");
                while body.read(&mut [0; 1]).expect("a byte") > 0 {}
                began.elapsed().as_secs_f64()
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }

    /// Probes a link, and then a link that replays the model of the first.
    fn probe_twice(&self, name: &str, config: LinkConfig) {
        println!("== {name}: {config}");
        let (own, asked) =
            (self.own_first_byte(), config.wait.as_ref().map_or(config.rtt, WaitDistribution::median));
        let link = Link::start(config).expect("a link");
        let first = self.probe(&link);
        for (name, line) in first.lines() {
            println!("   {name:11}  {line}");
        }
        let expected = asked.as_secs_f64() + own;
        let found = first.latencies.first_byte.expect("a first byte").p50;
        println!(
            "   first byte: the link {:.1} ms and the server alone {:.1} ms, found {:.1} ms: {:+.1} %",
            asked.as_secs_f64() * 1e3,
            own * 1e3,
            found * 1e3,
            (found / expected - 1.0) * 100.0
        );
        let seen = link.counters();
        let (sent, received) = (first.spent.requests.total(), first.spent.bytes);
        println!("   server counted {} requests, the probe {sent}", seen.requests);
        println!(
            "   link passed {} bytes to the client, the probe received {received}",
            seen.bytes_to_client
        );
        drop(link);
        let model = first.model(&identity(name));
        let replay = Replay::of(&model).expect("a model with figures");
        let again = Link::start(self.link().with_model(replay)).expect("a link");
        let second = self.probe(&again).model(&identity(name));
        compare(&model, &second);
    }
}

/// Prints the values of two models.
fn compare(first: &ServiceModel, second: &ServiceModel) {
    type Figure = fn(&ServiceModel) -> Option<f64>;
    let figures: [(&str, Figure); 5] = [
        ("first byte, s", |model| Some(model.latency.first_byte.as_ref()?.p50.0)),
        ("connection, B/s", |model| Some(model.rates.connection.as_ref()?.rate.0)),
        ("total, B/s", |model| Some(model.rates.total.as_ref()?.rate.0)),
        ("burst, B/s", |model| Some(model.rates.total.as_ref()?.burst?.0)),
        ("bucket, B", |model| Some(model.rates.total.as_ref()?.bucket?.0)),
    ];
    for (name, figure) in figures {
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.4}"));
        let (one, other) = (figure(first), figure(second));
        let change = one.zip(other).map(|(one, other)| format!("{:+.1} %", (other / one - 1.0) * 100.0));
        println!("   replayed {name}: {} then {} {}", shown(one), shown(other), change.unwrap_or_default());
    }
}

fn identity(name: &str) -> ModelIdentity {
    ModelIdentity {
        name: name.to_owned(),
        cloud: Cloud::Any,
        bills: Vec::new(),
        machine: "this machine".to_owned(),
        day: "2026-11-27".parse().expect("a day"),
        processors: 2.0,
        memory: 8e9,
    }
}

/// Prints the number of bytes that `function-burst` carries in each second, over four connections.
/// Published values: 369 MB in the first second, 1,065 MB in ten seconds.
fn series() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            thread::spawn(move || {
                let piece = vec![7; 1 << 20];
                while connection.write_all(&piece).is_ok() {}
            });
        }
    });
    let config = LinkConfig::new(([127, 0, 0, 1], 0).into(), address.to_string());
    let link = Link::start(config.with_preset(Preset::FunctionBurst)).expect("a link");
    let bins: Vec<AtomicU64> = (0..10).map(|_| AtomicU64::new(0)).collect();
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut connection = TcpStream::connect(link.address()).expect("a connection");
                let mut piece = vec![0; 1 << 20];
                while let Ok(read) = connection.read(&mut piece) {
                    let Some(bin) = bins.get(began.elapsed().as_secs() as usize) else { break };
                    bin.fetch_add(read as u64, Ordering::Relaxed);
                }
            });
        }
    });
    let megabytes: Vec<f64> = bins.iter().map(|bin| bin.load(Ordering::Relaxed) as f64 / 1e6).collect();
    println!("== series: MB in each second {megabytes:.1?}, in ten {:.1}", megabytes.iter().sum::<f64>());
    println!("   published: 369 in the first, 1,065 in ten; 77.3 in each of the rest");
}
