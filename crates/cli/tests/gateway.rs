//! `serve` of a remote location, and `--via`. The gateways are processes, which are killed, return
//! wrong content, or are missing.

use crate::support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};

use firstbyte_testkit::{
    ACCESS_KEY, BUCKET, Certificate, CertificateKind, SECRET_KEY, Scripted, ScriptedReply, bytes, count,
    free_port, until,
};
use rustix::process::{Pid, Signal, kill_process};
use support::World;
use support::place::Place;
use support::servers::S3;

/// A gateway in a process of its own. Dropping it kills the process.
struct Gateway {
    child: Child,
    url: String,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // The test may have killed the process already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Gateway {
    fn start(world: &World, cache: &str, options: &[&str]) -> Self {
        let base = ["serve", "s3://bucket", "--listen", "127.0.0.1:0", "--fresh", "0s", "--cache", cache];
        let mut command = world.command(&[&base[..], options].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http"), "serve said {url:?}");
        Self { child, url: url.trim().trim_end_matches('/').to_owned() }
    }

    fn ask(&self, target: &str, headers: &str) -> Vec<u8> {
        ask(self.url.trim_start_matches("http://"), target, headers)
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.url.trim_start_matches("http://")).unwrap()
    }

    /// Returns the value of a counter from the metrics of the gateway.
    fn counter(&self, name: &str) -> u64 {
        let text = String::from_utf8(self.ask("/.firstbyte/metrics", "")).unwrap();
        let line =
            text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

/// Sends a request to a server and returns the whole response.
fn ask(address: &str, target: &str, headers: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n").unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    all
}

fn put(s3: &S3, key: &str, content: &[u8]) {
    let path = s3.root.join(BUCKET).join(key);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

#[test]
fn a_kill_loses_no_finished_block_and_the_cache_is_one_like_any_other() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    let (content, block) = (bytes(1, 3 << 20), 128 << 10);
    put(&s3, "k", &content);
    let mut fetched = 0;
    for run in 0..count("FIRSTBYTE_GATEWAY_KILLS", 6) {
        let mut gateway = Gateway::start(&world, "cache", &[]);
        let from = usize::try_from(run).unwrap() * block % content.len();
        let range = format!("Range: bytes={from}-{}\r\n", from + block - 1);
        assert!(gateway.ask("/bucket/k", &range).ends_with(&content[from..from + block]));
        // The first run has cached the first block, so later runs do not fetch it again.
        assert!(gateway.ask("/bucket/k", "Range: bytes=0-9\r\n").ends_with(&content[..10]));
        let received = gateway.counter("firstbyte_gateway_origin_bytes_total");
        let is_new = from != 0 || run == 0;
        assert_eq!(received, if is_new && run < 24 { block as u64 } else { 0 }, "run {run}");
        fetched += received;
        gateway.child.kill().unwrap();
        gateway.child.wait().unwrap();
    }
    let status = world.run(&["--json", "status", "s3://bucket/k", "--cache", "cache"]).ok();
    let text = String::from_utf8(status.stdout).unwrap();
    assert!(text.contains(&format!(":{fetched}")), "{fetched} bytes: {text}");
    world.run(&["-q", "hydrate", "s3://bucket/k", "--cache", "cache"]).ok();
    let gateway = Gateway::start(&world, "cache", &[]);
    assert!(gateway.ask("/bucket/k", "").ends_with(&content));
    assert_eq!(gateway.counter("firstbyte_gateway_origin_bytes_total"), 0);
    world.run(&["-q", "release", "s3://bucket/k", "--cache", "cache"]).ok();
    assert!(gateway.ask("/bucket/k", "").ends_with(&content));
}

#[test]
fn memory_stays_within_the_ceiling_with_many_clients() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    let content = bytes(2, 8 << 20);
    put(&s3, "k", &content);
    (0..50).for_each(|number| put(&s3, &format!("small-{number}"), &content[..100_000]));
    let gateway = Gateway::start(&world, "cache", &["--memory", "32MiB"]);
    let clients = usize::try_from(count("FIRSTBYTE_GATEWAY_CLIENTS", 300)).unwrap();
    // The clients never read their responses.
    let open: Vec<TcpStream> = (0..clients)
        .map(|number| {
            let mut stream = gateway.connect();
            let name = if number % 2 == 0 { "k".to_owned() } else { format!("small-{}", number % 50) };
            write!(stream, "GET /bucket/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            stream
        })
        .collect();
    until("all are connected", || gateway.counter("firstbyte_connections ") > clients as u64);
    assert!(gateway.ask("/bucket/k", "").ends_with(&content));
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.child.id())).unwrap();
    let peak = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    let kib: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    // The limit is the memory ceiling, plus what each connection and a debug build need.
    assert!(kib < (32 << 10) + 24 * 1024 + 16 * clients as u64, "{peak}");
    drop(open);
}

#[test]
fn several_gateways_fetch_each_byte_once_and_one_that_is_killed_costs_no_read() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    let content = bytes(3, 150 << 20);
    put(&s3, "big", &content);
    let mut gateways: Vec<Gateway> =
        (0..3).map(|number| Gateway::start(&world, &format!("cache{number}"), &[])).collect();
    let via = gateways.iter().map(|gateway| gateway.url.clone()).collect::<Vec<_>>().join(",");
    for copy in ["one", "two"] {
        world.run(&["-q", "cp", "s3://bucket/big", copy, "--via", &via]).ok();
        assert!(world.read(copy) == content, "{copy}");
    }
    let fetched: u64 = gateways.iter().map(|it| it.counter("firstbyte_gateway_origin_bytes_total")).sum();
    // If the machine is busy, requests are late and a few are repeated. Gateways that do not share
    // would each have fetched everything.
    assert!(fetched > 100 << 20 && fetched < 2 * (150 << 20), "{fetched}");
    gateways[1].child.kill().unwrap();
    gateways[1].child.wait().unwrap();
    let read = world.run(&["cat", "s3://bucket/big", "--via", &via]).ok();
    assert!(read.stdout == content);
    world.run(&["-q", "hydrate", "s3://bucket/big", "--cache", "own", "--via", &via]).ok();
    let again = world.run(&["--json", "status", "s3://bucket/big", "--cache", "own"]).ok();
    assert!(String::from_utf8(again.stdout).unwrap().contains("hydrated"));
}

/// Returns how many bytes of bodies a server has sent.
fn sent(address: &str) -> u64 {
    let text = String::from_utf8(ask(address, "/.firstbyte/metrics", "")).unwrap();
    ["firstbyte_sendfile_bytes_total ", "firstbyte_copied_bytes_total "]
        .iter()
        .filter_map(|name| text.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok()))
        .sum()
}

#[test]
fn mounts_that_share_read_from_each_other_and_a_killed_one_costs_no_read() {
    let s3 = S3::ours();
    let content = bytes(6, 140 << 20);
    put(&s3, "big", &content);
    let ports = [free_port(), free_port()];
    let via = ports.map(|port| format!("http://127.0.0.1:{port}")).join(",");
    let places = [(); 2].map(|()| Place::new(World::with_s3(&s3)));
    let receipts: Vec<_> = (0..2)
        .map(|node| {
            let share = format!("127.0.0.1:{}", ports[node]);
            places[node].mount("s3://bucket", &["--cache", "cache", "--share", &share, "--via", &via])
        })
        .collect();
    for place in &places {
        assert!(place.read("big").unwrap() == content);
    }
    // If the machine is busy, a node that does not answer in time is bypassed. So the origin may
    // send some bytes more than once.
    let shared: u64 = ports.iter().map(|port| sent(&format!("127.0.0.1:{port}"))).sum();
    assert!(shared > 0, "the nodes read nothing from each other; the origin sent {}", sent(s3.address()));
    let pid = i32::try_from(receipts[1]["pid"].as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    places[0].world.run(&["-q", "release", "s3://bucket/big", "--cache", "cache"]).ok();
    assert!(places[0].read("big").unwrap() == content);
    let reach = ["mount", "s3://bucket", "mnt2", "--cache", "c", "--share"];
    std::fs::create_dir(places[0].world.path("mnt2")).unwrap();
    let other = [&reach[..], &["127.0.0.1:1", "--via", "http://127.0.0.1:2"]].concat();
    places[0].world.run(&other).fails(2, &["none of the gateways of --via is here"]);
    places[0].unmount().ok();
    // The killed mount has left its mount point behind.
    places[1].unmount();
}

#[test]
fn a_shared_mount_opens_what_it_shows_and_nothing_beside_it() {
    let s3 = S3::ours();
    put(&s3, "dir/in", b"shown");
    put(&s3, "outside", b"not shown");
    let place = Place::new(World::with_s3(&s3));
    let address = format!("127.0.0.1:{}", free_port());
    let via = format!("http://{address}");
    place.mount("s3://bucket/dir", &["--cache", "cache", "--share", &address, "--via", &via]);
    let answer = |target: &str| String::from_utf8_lossy(&ask(&address, target, "")).into_owned();
    assert!(answer("/bucket/dir/in").ends_with("shown"), "{}", answer("/bucket/dir/in"));
    assert!(answer("/bucket/outside").starts_with("HTTP/1.1 404"), "{}", answer("/bucket/outside"));
    assert!(!answer("/bucket/").contains("outside"), "{}", answer("/bucket/"));
    assert_eq!(place.read("in").unwrap(), b"shown");
    place.unmount().ok();
}

#[test]
fn a_gateway_reads_from_the_origin_and_not_through_gateways() {
    let s3 = S3::ours();
    let mut world = World::with_s3(&s3);
    let content = bytes(5, 2 << 20);
    put(&s3, "k", &content);
    let asked = Scripted::start(|_, _| ScriptedReply::answer("500 Internal Server Error", &[], b""));
    world.set("FIRSTBYTE_VIA", asked.url());
    let gateway = Gateway::start(&world, "cache", &[]);
    assert!(gateway.ask("/bucket/k", "").ends_with(&content));
    assert_eq!(asked.count(), 0, "the gateway asked another one");
    assert_eq!(gateway.counter("firstbyte_gateway_origin_bytes_total"), content.len() as u64);
}

#[test]
fn wrong_gateways_are_passed_by() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    let content = bytes(4, 20 << 20);
    put(&s3, "k", &content);
    // The gateways, one after another: one that is not a gateway, one that never answers, one that
    // is missing, and one with wrong content.
    let page = Scripted::start(|_, _| ScriptedReply::answer("200 OK", &[], b"hello"));
    let mute = Scripted::start(|_, _| ScriptedReply::Silence);
    let real = Gateway::start(&world, "cache", &[]);
    let url = real.url.clone();
    let liar = Scripted::start(move |_, head| {
        let target = head.split(' ').nth(1).unwrap().to_owned();
        let lines: Vec<&str> =
            head.lines().skip(1).filter(|line| !line.to_lowercase().starts_with("host")).collect();
        let mut stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
        let lines = lines.join("\r\n");
        write!(
            stream,
            "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{}\r\n\r\n",
            lines.trim()
        )
        .unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        // A bit in the second half is wrong.
        let at = all.len() / 2;
        all[at] ^= 1;
        ScriptedReply::SendAndClose(all)
    });
    for (name, via) in [
        ("page", page.url().to_owned()),
        ("mute", mute.url().to_owned()),
        ("none", "http://127.0.0.1:9".to_owned()),
        ("liar", liar.url().to_owned()),
        ("all", format!("{},{},http://127.0.0.1:9,{}", page.url(), mute.url(), liar.url())),
    ] {
        world.run(&["-q", "cp", "s3://bucket/k", name, "--via", &via]).ok();
        assert!(world.read(name) == content, "{name}");
    }
    assert!(liar.count() > 0, "the gateway was asked");
}

#[test]
fn listings_of_a_manifest_need_no_origin() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    for key in ["run/a", "run/b/c", "run/b/d", "other/x"] {
        put(&s3, key, b"content");
    }
    world.run(&["-q", "plan", "s3://bucket", "--shards", "2", "--out", "m"]).ok();
    let gateway = Gateway::start(&world, "cache", &["--names", "m", "--hydrate"]);
    put(&s3, "run/later", b"content");
    let listed = |server: &str, location: &str| {
        let ran = world.run(&["--endpoint-url", server, "ls", "-R", location]).ok();
        let mut names: Vec<String> =
            String::from_utf8(ran.stdout).unwrap().lines().map(str::to_owned).collect();
        names.sort();
        names
    };
    assert_eq!(listed(&gateway.url, "s3://bucket/run/"), ["a", "b/c", "b/d"]);
    assert_eq!(listed(&s3.url, "s3://bucket/run/"), ["a", "b/c", "b/d", "later"]);
    until("all planned objects are in the cache", || {
        let status = world.run(&["--json", "status", "-r", "s3://bucket/", "--cache", "cache"]).ok();
        String::from_utf8(status.stdout).unwrap().matches("\"hydrated\"").count() >= 4
    });
    for (manifest, fact) in [("missing", "missing"), ("m", "no object of s3://bucket/third")] {
        let serve = ["serve", "s3://bucket/third", "--cache", "cache2", "--names", manifest];
        world.run(&serve).fails(1, &[fact]);
    }
}

#[test]
fn a_list_of_gateways_that_cannot_be_meant_is_one_clear_line() {
    let s3 = S3::ours();
    let mut world = World::with_s3(&s3);
    put(&s3, "k", b"content");
    for (via, fact) in [
        (",", "names no gateway"),
        ("http://a:1,http://A:1/", "twice"),
        ("a:1", "is no gateway"),
        ("slurm", "SLURM_JOB_NODELIST"),
        ("@missing", "missing"),
    ] {
        let ran = world.run(&["cat", "s3://bucket/k", "--via", via]);
        assert!(ran.code == Some(2) || ran.code == Some(1), "{via}: {ran:?}");
        assert!(ran.stderr.to_lowercase().contains(&fact.to_lowercase()), "{via}: {ran:?}");
    }
    world.write("gateways", b"# none is here\nhttp://127.0.0.1:9\n");
    assert_eq!(world.run(&["cat", "s3://bucket/k", "--via", "@gateways"]).ok().stdout, b"content");
    world.set("FIRSTBYTE_VIA", "http://127.0.0.1:9");
    assert_eq!(world.run(&["cat", "s3://bucket/k"]).ok().stdout, b"content");
}

#[test]
fn a_gateway_that_cannot_start_says_why() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    world.run(&["serve", "s3://missing", "--cache", "cache"]).fails(1, &["s3://missing: no such bucket"]);
    world.run(&["serve", "s3://bucket", "--cache", "cache", "--write"]).fails(2, &["only reads"]);
    world
        .run(&["serve", "s3://bucket", "--cache", "cache", "--listen", "0.0.0.0:0"])
        .fails(2, &["without keys", "s3://bucket"]);
    world.run(&["serve", "s3://", "--bucket", "x", "--cache", "cache"]).fails(2, &["many buckets"]);
    world
        .run(&["serve", "s3://bucket", "--bucket", "a/b", "--cache", "cache"])
        .fails(2, &["cannot be called `a/b`"]);
    let page = Scripted::start(|_, _| ScriptedReply::answer("200 OK", &[], b"hello"));
    let signed = format!("{}/d?sig=1", page.url());
    world.run(&["serve", &signed, "--cache", "cache"]).fails(2, &["?sig=***: a URL"]);
    std::fs::create_dir(world.path("directory")).unwrap();
    for option in [&["--names", "nosuch"][..], &["--replay", "nosuch"], &["--hydrate"], &["--stale", "5s"]] {
        world
            .run(&[&["serve", "directory"][..], option].concat())
            .fails(2, &[option[0], "is for a remote LOCATION"]);
    }
    let keys = world.write("keys", format!("{ACCESS_KEY} {SECRET_KEY} read\n").as_bytes());
    let gateway = Gateway::start(&world, "cache", &["--auth", keys.to_str().unwrap()]);
    put(&s3, "k", &bytes(5, 1 << 20));
    let via = ["cp", "s3://bucket/k", "copy", "--via", &gateway.url, "--via-key", "keys"];
    world.run(&via).ok();
    assert!(world.read("copy") == bytes(5, 1 << 20));
}

#[test]
fn a_gateway_speaks_tls_and_its_certificate_is_checked() {
    let s3 = S3::ours();
    let mut world = World::with_s3(&s3);
    let content = bytes(8, 3 << 20);
    put(&s3, "k", &content);
    let certificate = Certificate::make(CertificateKind::Authority);
    let (chain, key) = (certificate.certificate(), certificate.key());
    let tls = ["--tls-cert", chain.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let gateway = Gateway::start(&world, "cache", &tls);
    assert!(gateway.url.starts_with("https://"), "{}", gateway.url);
    let direct = ["--endpoint-url", &gateway.url, "cat", "s3://bucket/k"];
    world.run(&direct).fails(1, &["not signed by a trusted authority"]);
    // A gateway whose certificate is not trusted is bypassed, as any gateway that fails.
    assert!(world.run(&["cat", "s3://bucket/k", "--via", &gateway.url]).ok().stdout == content);
    world.set("FIRSTBYTE_CA_BUNDLE", chain.to_str().unwrap());
    assert!(world.run(&direct).ok().stdout == content);
    assert!(world.run(&["cat", "s3://bucket/k", "--via", &gateway.url]).ok().stdout == content);
}

#[test]
fn a_cache_that_is_smaller_than_a_segment_serves_all_of_it() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    let content = bytes(9, 20 << 20);
    put(&s3, "k", &content);
    let gateway = Gateway::start(&world, "cache", &["--cache-size", "1MiB"]);
    for target in [["--endpoint-url", &gateway.url], ["--via", &gateway.url]] {
        let read = world.run(&[&["cat", "s3://bucket/k"][..], &target[..]].concat()).ok();
        assert!(read.stdout == content, "{target:?}");
    }
}

#[test]
fn a_mount_shares_beyond_loopback_with_keys_only() {
    let s3 = S3::ours();
    let place = Place::new(World::with_s3(&s3));
    put(&s3, "k", b"content");
    let (port, node) = (free_port(), rustix::system::uname());
    let via = format!("http://{}:{port}", node.nodename().to_string_lossy());
    let share = format!("0.0.0.0:{port}");
    let mount = ["mount", "s3://bucket", "mnt", "--cache", "cache", "--share", &share, "--via", &via];
    place.world.run(&mount).fails(2, &["--share", "could read the bucket", "--via-key"]);
    assert!(!place.is_mounted() && !place.world.path("cache").exists());
}

#[test]
fn a_mount_that_cannot_be_shared_makes_no_cache() {
    let s3 = S3::ours();
    let place = Place::new(World::with_s3(&s3));
    put(&s3, "k", b"content");
    place.world.write("src/x", b"content");
    place.world.write("no-key", b"nonsense");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (taken, free) = (taken.local_addr().unwrap().to_string(), format!("127.0.0.1:{}", free_port()));
    for (source, share, options, facts) in [
        ("s3://bucket", &taken, &[][..], &["cannot listen on"][..]),
        ("src", &free, &[], &["buckets of object stores only"]),
        ("s3://bucket", &free, &["--via-key", "no-key"], &["no-key"]),
        (
            "s3://bucket",
            &free,
            &["--share-tls-cert", "no-key", "--share-tls-key", "no-key"],
            &["no-key", "TLS"],
        ),
    ] {
        let via = format!("http://{share}");
        let mount = ["mount", source, "mnt", "--cache", "cache", "--share", share, "--via", &via];
        let ran = place.world.run(&[&mount[..], options].concat());
        let code = ran.code.unwrap();
        assert!(code == 1 || code == 2, "{ran:?}");
        ran.fails(code, facts);
        assert!(!place.is_mounted() && !place.world.path("cache").exists(), "{source}, {share}, {options:?}");
    }
}
