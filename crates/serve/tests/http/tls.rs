//! Tests HTTPS, with a certificate made for the test.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_serve::{RunningServer, TlsFiles};
use firstbyte_testkit::{Certificate, CertificateKind, patience};
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::client::{Client, Fixture, connect, content, serve};

struct Secure {
    fixture: Fixture,
    client: Arc<ClientConfig>,
    _certificate: Certificate,
}

fn serve_tls() -> Secure {
    let certificate = Certificate::make(CertificateKind::Leaf);
    let tls = TlsFiles { certificate: certificate.certificate(), key: certificate.key() };
    let fixture = serve(|config| {
        config.tls = Some(tls);
        config.limits.head = patience(Duration::from_millis(150));
    });
    Secure { fixture, client: certificate.client(), _certificate: certificate }
}

impl Secure {
    fn connect(&self) -> Client<StreamOwned<ClientConnection, TcpStream>> {
        let name = "localhost".try_into().unwrap();
        let session = ClientConnection::new(self.client.clone(), name).unwrap();
        Client::over(StreamOwned::new(session, connect(&self.fixture.server)))
    }

    fn server(&self) -> &RunningServer {
        &self.fixture.server
    }
}

#[test]
fn files_and_objects_travel_over_tls() {
    let secure = serve_tls();
    assert!(secure.server().url().starts_with("https://"));
    let bytes = content(3_000_000);
    let mut client = secure.connect();
    let put = client.ask("PUT", "/bucket/f", "x-amz-date: 20260101T000000Z\r\n", &bytes);
    assert_eq!(put.status, 200, "{}", put.text());
    assert!(put.header("x-amz-checksum-crc64nvme").is_some());
    assert_eq!(std::fs::read(secure.fixture.directory.path().join("bucket/f")).unwrap(), bytes);
    assert_eq!(client.ask("GET", "/bucket/f", "", b"").body, bytes);
    let part = client.ask("GET", "/bucket/f", "Range: bytes=1000000-1999999\r\n", b"");
    assert_eq!((part.status, part.body.as_slice()), (206, &bytes[1_000_000..2_000_000]));
}

#[test]
fn handshakes_that_do_not_come_are_dropped_and_others_served_meanwhile() {
    let secure = serve_tls();
    let mut silent: Vec<Client> = (0..20).map(|_| Client::new(secure.server())).collect();
    // The client sends only the first bytes of a ClientHello record.
    silent[0].send(&[0x16, 0x03, 0x01, 0x02, 0x00]);
    assert_eq!(secure.connect().ask("GET", "/bucket/", "", b"").status, 200);
    assert!(silent.iter_mut().all(Client::has_ended));
}

#[test]
fn plain_http_to_a_tls_port_gets_no_response_and_harms_no_other_client() {
    let secure = serve_tls();
    let mut plain = Client::new(secure.server());
    plain.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    // The server sends at most a TLS alert (content type 21), then closes.
    while plain.fill() > 0 {}
    assert!(plain.buffer.first().is_none_or(|first| *first == 21), "{:?}", plain.buffer);
    assert_eq!(secure.connect().ask("GET", "/bucket/", "", b"").status, 200);
}
