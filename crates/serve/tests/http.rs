//! The connection loop as clients see it: raw sockets against a running server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use firstbyte_serve::{Authentication, Config, Keys, Running, Server, Writing};

struct Fixture {
    directory: tempfile::TempDir,
    server: Running,
}

fn serve(configure: impl FnOnce(&mut Config)) -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("bucket")).unwrap();
    let mut config = Config::new(directory.path());
    config.writing = Writing::Allowed;
    configure(&mut config);
    let server = Server::start(config).unwrap();
    Fixture { directory, server }
}

/// Bytes that tell a wrong offset: a multiplicative generator, from a seed.
fn content(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    fn new(server: &Running) -> Self {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self { stream, buffer: Vec::new() }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    fn ask(&mut self, method: &str, target: &str, headers: &str, body: &[u8]) -> Answer {
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        self.send(
            format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{length}{headers}\r\n").as_bytes(),
        );
        self.send(body);
        self.answer(method == "HEAD")
    }

    fn fill(&mut self) -> usize {
        let mut piece = [0; 65536];
        let count = self.stream.read(&mut piece).unwrap();
        self.buffer.extend_from_slice(&piece[..count]);
        count
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count {
            assert_ne!(self.fill(), 0, "the connection ended early");
        }
        self.buffer.drain(..count).collect()
    }

    fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.take(end + 2);
                return String::from_utf8(line[..end].to_vec()).unwrap();
            }
            assert_ne!(self.fill(), 0, "the connection ended early");
        }
    }

    fn answer(&mut self, bodiless: bool) -> Answer {
        let status = self.line();
        let mut head = String::new();
        loop {
            match self.line() {
                line if line.is_empty() => break,
                line => head.push_str(&(line + "\n")),
            }
        }
        let status: u16 = status.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer { status, head, body: Vec::new() };
        if bodiless || status == 304 || status == 204 || status == 100 {
            return answer;
        }
        if answer.header("transfer-encoding").is_some() {
            loop {
                let size = usize::from_str_radix(&self.line(), 16).unwrap();
                answer.body.extend(self.take(size));
                self.line();
                if size == 0 {
                    return answer;
                }
            }
        }
        answer.body = self.take(answer.header("content-length").unwrap().parse().unwrap());
        answer
    }

    fn ended(&mut self) -> bool {
        self.buffer.is_empty() && self.fill() == 0
    }
}

fn metric(client: &mut Client, name: &str) -> u64 {
    let text = client.ask("GET", "/.firstbyte/metrics", "", b"").text();
    let line = text.lines().find(|line| line.starts_with(&format!("firstbyte_{name} "))).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn every_get_leaves_by_sendfile_whatever_came_before_on_its_connection() {
    let fixture = serve(|_| {});
    let bytes = content(3_000_000);
    std::fs::write(fixture.directory.path().join("bucket/file"), &bytes).unwrap();
    let mut client = Client::new(&fixture.server);
    for _ in 0..3 {
        let before = metric(&mut client, "sendfile_bytes_total");
        assert_eq!(client.ask("HEAD", "/bucket/file", "", b"").header("content-length"), Some("3000000"));
        assert_eq!(client.ask("GET", "/bucket?list-type=2", "", b"").status, 200);
        assert_eq!(client.ask("PUT", "/bucket/other", "", b"small").status / 100, 2);
        assert_eq!(client.ask("GET", "/bucket/file", "", b"").body, bytes);
        let part = client.ask("GET", "/bucket/file", "Range: bytes=1000000-1999999\r\n", b"");
        assert_eq!(part.status, 206);
        assert_eq!(part.header("content-range"), Some("bytes 1000000-1999999/3000000"));
        assert_eq!(part.body, bytes[1_000_000..2_000_000]);
        let s3 =
            client.ask("GET", "/bucket/file", "Range: bytes=-7\r\nx-amz-date: 20260101T000000Z\r\n", b"");
        assert_eq!((s3.status, s3.body.as_slice()), (206, &bytes[2_999_993..]));
        assert_eq!(metric(&mut client, "sendfile_bytes_total") - before, 4_000_007);
    }
}

#[test]
fn requests_sent_ahead_are_answered_in_order() {
    let fixture = serve(|_| {});
    for name in ["a", "b", "c"] {
        std::fs::write(fixture.directory.path().join(name), name.repeat(10)).unwrap();
    }
    let mut client = Client::new(&fixture.server);
    let requests: String = ["a", "b", "c"]
        .iter()
        .map(|name| format!("GET /{name} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        .collect();
    client.send(requests.as_bytes());
    for name in ["a", "b", "c"] {
        assert_eq!(client.answer(false).text(), name.repeat(10));
    }
}

#[test]
fn chunked_bodies_arrive_whole_and_a_cut_one_leaves_the_old_file() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    client.send(b"PUT /f HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(b"5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nTrailer: x\r\n\r\n");
    assert_eq!(client.answer(false).status, 201);
    let path = fixture.directory.path().join("f");
    assert_eq!(std::fs::read(&path).unwrap(), b"hello world");
    client.send(b"PUT /f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nonly this");
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.answer(false).status, 400);
    assert_eq!(std::fs::read(&path).unwrap(), b"hello world");
    let left: Vec<_> = std::fs::read_dir(fixture.directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("firstbyte-part")), "{left:?}");
}

#[test]
fn a_client_that_waits_is_told_to_go_on_only_when_its_body_is_wanted() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    client.send(b"PUT /f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.answer(true).status, 100);
    client.send(b"hi");
    assert_eq!(client.answer(false).status, 201);
    let refusing = serve(|config| config.writing = Writing::Refused);
    let mut client = Client::new(&refusing.server);
    client.send(b"PUT /f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.answer(false).status, 403);
    assert!(client.ended());
}

#[test]
fn unfinished_heads_are_dropped_and_others_served_meanwhile() {
    let fixture = serve(|config| config.limits.head = Duration::from_millis(300));
    std::fs::write(fixture.directory.path().join("f"), "x").unwrap();
    let mut slow: Vec<Client> = (0..100).map(|_| Client::new(&fixture.server)).collect();
    for client in &mut slow {
        client.send(b"GET /f HTTP/1.1\r\nHost: loc");
    }
    assert_eq!(Client::new(&fixture.server).ask("GET", "/f", "", b"").status, 200);
    assert!(slow.iter_mut().all(Client::ended));
}

#[test]
fn malformed_heads_are_answered_and_the_connection_ends() {
    let fixture = serve(|_| {});
    for (bytes, status) in [
        (&b"nonsense\r\n\r\n"[..], 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    ] {
        let mut client = Client::new(&fixture.server);
        client.send(bytes);
        assert_eq!(client.answer(false).status, status);
        assert!(client.ended());
    }
}

#[test]
fn a_running_answer_is_finished_when_the_server_stops() {
    let Fixture { directory, server } = serve(|_| {});
    let bytes = content(20_000_000);
    std::fs::write(directory.path().join("big"), &bytes).unwrap();
    let mut client = Client::new(&server);
    let mut idle = Client::new(&server);
    assert_eq!(idle.ask("HEAD", "/big", "", b"").status, 200);
    client.send(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n");
    while client.buffer.is_empty() {
        client.fill();
    }
    let stopping = std::thread::spawn(move || server.stop());
    assert!(idle.ended());
    assert_eq!(client.answer(false).body, bytes);
    stopping.join().unwrap();
}

#[test]
fn conditions_on_reads_and_writes_hold() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let first = client.ask("PUT", "/bucket/f", "If-None-Match: *\r\n", b"one");
    assert_eq!(first.status, 201);
    let tag = first.header("etag").unwrap().to_owned();
    assert_eq!(client.ask("PUT", "/bucket/f", "If-None-Match: *\r\n", b"two").status, 412);
    assert_eq!(client.ask("GET", "/bucket/f", &format!("If-None-Match: {tag}\r\n"), b"").status, 304);
    assert_eq!(client.ask("PUT", "/bucket/f", &format!("If-Match: {tag}\r\n"), b"two").status, 204);
    assert_eq!(client.ask("GET", "/bucket/f", &format!("If-Match: {tag}\r\n"), b"").status, 412);
    assert_eq!(client.ask("DELETE", "/bucket/f", &format!("If-Match: {tag}\r\n"), b"").status, 412);
    assert_eq!(client.ask("DELETE", "/bucket/f", "", b"").status, 204);
    assert_eq!(client.ask("GET", "/bucket/f", "", b"").status, 404);
}

#[test]
fn pages_of_other_sites_and_rebound_names_are_refused() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    assert_eq!(client.ask("PUT", "/f", "Origin: http://evil.example\r\n", b"x").status, 403);
    assert_eq!(client.ask("PUT", "/f", "Origin: http://localhost\r\n", b"x").status, 201);
    client.send(b"GET /f HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert_eq!(client.answer(false).status, 403);
}

#[test]
fn keys_open_what_their_prefix_covers_and_nothing_else() {
    let keys = Keys::parse("alice secret write bucket/a/\nbob word read\n").unwrap();
    let fixture = serve(|config| config.authentication = Authentication::Keys(keys));
    std::fs::write(fixture.directory.path().join("bucket/f"), "x").unwrap();
    let mut client = Client::new(&fixture.server);
    // alice:secret, bob:word, alice:wrong
    let (alice, bob, wrong) = ("YWxpY2U6c2VjcmV0", "Ym9iOndvcmQ=", "YWxpY2U6d3Jvbmc=");
    let basic = |who: &str| format!("Authorization: Basic {who}\r\n");
    assert_eq!(client.ask("GET", "/bucket/f", "", b"").status, 401);
    assert_eq!(client.ask("GET", "/bucket/f", &basic(wrong), b"").status, 401);
    assert_eq!(client.ask("GET", "/bucket/f", &basic(alice), b"").status, 403);
    assert_eq!(client.ask("GET", "/bucket/f", &basic(bob), b"").status, 200);
    assert_eq!(client.ask("PUT", "/bucket/a/f", &basic(alice), b"x").status, 201);
    assert_eq!(client.ask("PUT", "/bucket/b", &basic(alice), b"x").status, 403);
    assert_eq!(client.ask("PUT", "/bucket/a/f", &basic(bob), b"x").status, 403);
    assert_eq!(client.ask("GET", "/bucket?list-type=2", "", b"").status, 403);
}

fn escapes(directory: &Path) -> Vec<String> {
    let name = directory.file_name().unwrap().to_str().unwrap();
    let mut targets =
        vec!["/out/secret".to_owned(), "/out".to_owned(), "/out/".to_owned(), "/chain/secret".to_owned()];
    let dots = [
        "..",
        "%2e%2e",
        "%2E.",
        ".%2e",
        "%252e%252e",
        "..;",
        "%c0%ae%c0%ae",
        "..%00",
        "%2e%2e%2f..",
        "..%5c..",
    ];
    let slashes = ["/", "%2f", "%2F", "%5c", "\\", "//", "/./", "%252f"];
    for dots in dots {
        for slash in slashes {
            for depth in [1, 2, 6] {
                let up = format!("{dots}{slash}").repeat(depth);
                targets.push(format!("/{up}secret"));
                targets.push(format!("/bucket/{up}outside/secret"));
                targets.push(format!("/bucket{slash}{up}{name}/../outside/secret"));
            }
        }
    }
    targets
}

#[test]
fn no_form_of_traversal_reaches_outside() {
    let around = tempfile::tempdir().unwrap();
    let (inside, outside) = (around.path().join("inside"), around.path().join("outside"));
    std::fs::create_dir_all(inside.join("bucket")).unwrap();
    std::fs::create_dir(&outside).unwrap();
    for secret in [around.path().join("secret"), outside.join("secret")] {
        std::fs::write(secret, "TOP-SECRET").unwrap();
    }
    std::os::unix::fs::symlink(&outside, inside.join("out")).unwrap();
    std::os::unix::fs::symlink("out", inside.join("chain")).unwrap();
    std::os::unix::fs::symlink("../../outside", inside.join("bucket/up")).unwrap();
    std::os::unix::fs::symlink("/proc/self/root", inside.join("bucket/magic")).unwrap();
    let mut config = Config::new(&inside);
    config.writing = Writing::Allowed;
    let server = Server::start(config).unwrap();
    let mut targets = escapes(&inside);
    targets.extend(["/bucket/up/secret", "/bucket/magic/etc/passwd"].map(str::to_owned));
    assert!(targets.len() >= 200);
    for target in targets {
        for (method, headers) in [("GET", ""), ("GET", "x-amz-date: x\r\n"), ("PUT", ""), ("DELETE", "")] {
            let answer = Client::new(&server).ask(
                method,
                &target,
                headers,
                if method == "PUT" { b"HACKED" } else { b"" },
            );
            assert!(!answer.text().contains("SECRET"), "{method} {target}");
        }
    }
    for secret in [around.path().join("secret"), outside.join("secret")] {
        assert_eq!(std::fs::read_to_string(secret).unwrap(), "TOP-SECRET");
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn listings_for_programs_name_every_file_once() {
    let fixture = serve(|_| {});
    for number in 0..2000 {
        std::fs::write(fixture.directory.path().join(format!("bucket/{number}")), "x").unwrap();
    }
    let mut client = Client::new(&fixture.server);
    let text = client.ask("GET", "/?format=ndjson&recursive", "", b"").text();
    let files: std::collections::BTreeSet<_> =
        text.lines().filter(|line| line.contains("\"kind\":\"file\"")).collect();
    assert_eq!(files.len(), 2000);
    let moved = client.ask("GET", "/bucket?format=json", "", b"");
    assert_eq!((moved.status, moved.header("location")), (301, Some("/bucket/?format=json")));
}
