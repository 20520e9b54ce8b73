//! TLS as users see it: servers that are trusted, messages about others, connections that are cut,
//! and the targets of redirects.

use crate::support;

use std::io::Write;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use firstbyte_testkit::{
    BodyEnding, Certificate, CertificateKind, Scripted, ScriptedReply, TlsBehaviour, TlsPeer, bytes, until,
};
use rustls::version::{TLS12, TLS13};
use support::servers::S3;
use support::{World, names_below};

/// Makes a world that trusts only this certificate.
fn trusting(certificate: &Certificate) -> World {
    let mut world = World::new();
    world.set("FIRSTBYTE_CA_BUNDLE", certificate.certificate().to_str().unwrap());
    world
}

#[test]
fn objects_and_trees_go_there_and_back_over_our_own_tls() {
    let certificate = Certificate::make(CertificateKind::Authority);
    let (chain, key) = (certificate.certificate(), certificate.key());
    let options = ["--write", "--tls-cert", chain.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let s3 = S3::ours_with(&options);
    let mut world = World::with_s3(&s3);
    world.set("FIRSTBYTE_CA_BUNDLE", chain.to_str().unwrap());
    let content = bytes(3, 20 << 20);
    world.write("big", &content);
    world.run(&["cp", "big", "s3://bucket/up"]).ok();
    world.run(&["cp", "s3://bucket/up", "down"]).ok();
    assert!(world.read("down") == content);
    let part = world.run(&["cat", "--range", "1000000-1999999", &format!("{}/bucket/up", s3.url)]).ok();
    assert!(part.stdout == content[1_000_000..2_000_000]);
    for number in 0..100_u8 {
        world.write(&format!("tree/{}/{number}", number % 7), &bytes(number.into(), 5000));
    }
    world.run(&["cp", "-r", "tree/", "s3://bucket/tree/"]).ok();
    world.run(&["cp", "-r", "s3://bucket/tree/", "back/"]).ok();
    assert_eq!(names_below(&world.path("back")), names_below(&world.path("tree")));
    for name in names_below(&world.path("tree")) {
        assert!(world.read(&format!("back/{name}")) == world.read(&format!("tree/{name}")), "{name}");
    }
}

#[test]
fn a_self_signed_certificate_is_trusted_by_the_bundle_and_every_other_is_refused_in_one_line() {
    let certificate = Certificate::make(CertificateKind::Authority);
    let peer = TlsPeer::start(&certificate, TlsBehaviour::default(), b"content".to_vec());
    let url = format!("{}/x", peer.url());
    let world = World::new();
    let bundle = certificate.certificate();
    let bundle = bundle.to_str().unwrap();
    assert_eq!(world.run(&["cat", &url, "--ca-bundle", bundle]).ok().stdout, b"content");
    world.run(&["cp", &url, "x"]).fails(1, &["not signed by a trusted authority", "--ca-bundle"]);
    let other = Certificate::make(CertificateKind::Authority);
    trusting(&other).run(&["cat", &url]).fails(1, &["not signed by a trusted authority", "--ca-bundle"]);
    world.run(&["cat", &url, "--ca-bundle", "none.pem"]).fails(2, &["CA bundle none.pem"]);
    for (made, facts) in [
        (CertificateKind::Expired, ["has expired", "renew"]),
        (CertificateKind::NotYetValid, ["not yet valid", "clock"]),
        (CertificateKind::ForAnotherHost, ["not for this host, but for elsewhere.invalid", "subjectAltName"]),
    ] {
        let certificate = Certificate::make(made);
        let peer = TlsPeer::start(&certificate, TlsBehaviour::default(), b"content".to_vec());
        let ran = trusting(&certificate).run(&["cp", &format!("{}/x", peer.url()), "x"]);
        ran.fails(1, &[peer.url().split("://").nth(1).unwrap(), facts[0], facts[1]]);
    }
    assert!(world.names().is_empty());
}

#[test]
fn a_body_that_is_cut_is_fetched_again_and_one_without_an_end_is_never_complete() {
    let certificate = Certificate::make(CertificateKind::Leaf);
    let content = bytes(4, 3_000_001);
    for ending in [BodyEnding::Cut, BodyEnding::CutNotified] {
        let unusual = TlsBehaviour { ending, endings: 2, ..TlsBehaviour::default() };
        let peer = TlsPeer::start(&certificate, unusual, content.clone());
        let world = trusting(&certificate);
        let receipt = world.run(&["--json", "cp", &format!("{}/x", peer.url()), "x"]).ok().receipt();
        assert!(world.read("x") == content, "{ending:?}");
        assert!(receipt["requests"].as_u64().unwrap() > 2, "asked for again: {receipt}");
    }
    for version in [&TLS12, &TLS13] {
        let unusual = TlsBehaviour { version, ending: BodyEnding::Unnotified, ..TlsBehaviour::default() };
        let peer = TlsPeer::start(&certificate, unusual, content.clone());
        let world = trusting(&certificate);
        world.run(&["cp", &format!("{}/x", peer.url()), "x"]).fails(1, &["close_notify"]);
        assert!(!world.path("x").exists());
    }
}

#[test]
fn a_server_that_stalls_in_the_handshake_is_given_up() {
    // One server sends nothing. The other stops in the middle of its first record.
    for said in [&b""[..], b"\x16\x03\x03\x40\x00\x02"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}/x", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for mut socket in listener.incoming().flatten() {
                let _ = socket.write_all(said);
                held.push(socket);
            }
        });
        World::new().run(&["cat", &url, "--read-timeout", "300ms"]).fails(1, &["no answer", &url]);
    }
}

#[test]
fn a_server_that_asks_to_renegotiate_gets_no_renegotiation() {
    let certificate = Certificate::make(CertificateKind::Authority);
    let port = firstbyte_testkit::free_port();
    let world = trusting(&certificate);
    let log = world.write("log", b"");
    let said = {
        let log = log.clone();
        move |what: &str| String::from_utf8_lossy(&std::fs::read(&log).unwrap()).contains(what)
    };
    let mut server = Command::new("openssl")
        .args(["s_server", "-tls1_2", "-msg", "-accept", &port.to_string()])
        .arg("-cert")
        .arg(certificate.certificate())
        .arg("-key")
        .arg(certificate.key())
        .stdin(Stdio::piped())
        .stdout(std::fs::File::create(&log).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the server", || said("ACCEPT"));
    let mut commands = server.stdin.take().unwrap();
    let heard = said.clone();
    let typist = std::thread::spawn(move || {
        // A line `R` on the standard input of openssl's server requests a renegotiation. A server
        // that gets the line during the handshake exits, so the loop first waits for the client's
        // request.
        until("the request", || heard("/x HTTP/1.1"));
        while commands.write_all(b"R\n").and_then(|()| commands.flush()).is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let address = format!("127.0.0.1:{port}");
    world.run(&["cat", &format!("https://{address}/x"), "--read-timeout", "2s"]).fails(1, &[&address]);
    assert!(said("HelloRequest"), "the server has requested a renegotiation");
    // The server may have ended already.
    let _ = server.kill();
    server.wait().unwrap();
    typist.join().unwrap();
}

#[test]
fn redirects_from_https_to_http_are_refused_unless_allowed_and_carry_no_credentials() {
    let certificate = Certificate::make(CertificateKind::Leaf);
    let plain = Scripted::start(|_, _| ScriptedReply::answer("200 OK", &["etag: \"v\""], b"content"));
    let redirect = Some(format!("{}/there", plain.url()));
    let peer = TlsPeer::start(&certificate, TlsBehaviour { redirect, ..TlsBehaviour::default() }, Vec::new());
    let world = trusting(&certificate);
    let url = format!("{}/x", peer.url().replace("://", "://user:secret@"));
    for args in [&["cp", &url, "x"][..], &["cat", &url], &["stat", &url], &["ls", &format!("{url}/")]] {
        let ran = world.run(args).fails(1, &[plain.url(), "--allow-plain-redirects"]);
        assert!(!ran.stderr.contains("secret"), "{ran:?}");
    }
    assert!(plain.heads().is_empty() && world.names().is_empty(), "nothing is asked of it");
    assert_eq!(world.run(&["--allow-plain-redirects", "cat", &url]).ok().stdout, b"content");
    assert!(plain.heads().iter().all(|head| !head.to_lowercase().contains("authorization")));
}

#[test]
fn redirects_to_https_are_followed_and_a_loop_of_them_ends() {
    let certificate = Certificate::make(CertificateKind::Leaf);
    let content = bytes(5, 100_000);
    let secure = TlsPeer::start(&certificate, TlsBehaviour::default(), content.clone());
    let target = format!("location: {}/x", secure.url());
    let plain = Scripted::start(move |_, _| ScriptedReply::answer("302 Found", &[&target], b""));
    let world = trusting(&certificate);
    assert!(world.run(&["cat", &format!("{}/x", plain.url())]).ok().stdout == content);
    let round = TlsPeer::start(
        &certificate,
        TlsBehaviour { redirect: Some("/again".into()), ..TlsBehaviour::default() },
        Vec::new(),
    );
    world.run(&["cat", &format!("{}/x", round.url())]).fails(1, &["more than 10 redirects"]);
}
