//! Implements an HTTPS server whose TLS is unusual, and in some settings broken: tiny records and
//! segments, handshake messages split over records, KeyUpdate within a body, and connections closed
//! with and without close_notify. The server has the same content at every path, supports ranges,
//! and records PUT requests.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix_futex_sync::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};

use crate::certificate::Certificate;

/// The framing of a body, and how its connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnding {
    /// Framed by `Content-Length`; the connection stays open.
    KeptAlive,
    /// Framed by the end of the connection, after close_notify.
    Notified,
    /// Framed by the end of the connection, without close_notify. An attacker could also cause such
    /// an end.
    Unnotified,
    /// Framed by `Content-Length`, but half of the body is missing. close_notify is sent.
    CutNotified,
    /// Framed by `Content-Length`, but half of the body is missing. close_notify is not sent.
    Cut,
    /// Framed by the end of the connection. More bytes follow close_notify in the same segment.
    NotifiedThenJunk,
}

/// Settings of the server's unusual behaviour.
#[derive(Clone, Debug)]
pub struct TlsBehaviour {
    /// The protocol version.
    pub version: &'static SupportedProtocolVersion,
    /// Maximum number of bytes in a TCP segment.
    pub segment: usize,
    /// Number of plaintext bytes in each record of a body.
    pub record: usize,
    /// Number of a body's records in each TCP write.
    pub batch: usize,
    /// Maximum number of bytes in each record outside bodies, which splits handshake messages over
    /// records.
    pub fragment: Option<usize>,
    /// Number of bytes of a body after which KeyUpdate is sent.
    pub key_update: Option<usize>,
    /// The framing and the end of bodies.
    pub ending: BodyEnding,
    /// URL to which every GET and HEAD is redirected.
    pub redirect: Option<String>,
    /// Number of bodies that end with `ending`. All later bodies use [`BodyEnding::KeptAlive`].
    pub endings: usize,
}

impl Default for TlsBehaviour {
    /// Usual behaviour: TLS 1.3 and the largest records.
    fn default() -> Self {
        Self {
            version: &rustls::version::TLS13,
            segment: usize::MAX,
            record: 16 << 10,
            batch: 4,
            fragment: None,
            key_update: None,
            ending: BodyEnding::KeptAlive,
            redirect: None,
            endings: usize::MAX,
        }
    }
}

/// An HTTPS server. Its threads end with the process.
pub struct TlsPeer {
    url: String,
    state: Arc<PeerState>,
}

struct PeerState {
    config: Arc<ServerConfig>,
    unusual: TlsBehaviour,
    content: Vec<u8>,
    puts: Mutex<Vec<Vec<u8>>>,
    connections: AtomicUsize,
    bodies: AtomicUsize,
}

impl TlsPeer {
    /// Serves `content` with this certificate.
    ///
    /// # Panics
    /// There is no port to listen on, or rustls refuses the certificate.
    #[must_use]
    pub fn start(certificate: &Certificate, unusual: TlsBehaviour, content: Vec<u8>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let url = format!("https://{}", listener.local_addr().expect("its address"));
        let config = Arc::new(configuration(certificate, &unusual));
        let state = Arc::new(PeerState {
            config,
            unusual,
            content,
            puts: Mutex::default(),
            connections: AtomicUsize::new(0),
            bodies: AtomicUsize::new(0),
        });
        let accepting = Arc::clone(&state);
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let state = Arc::clone(&accepting);
                state.connections.fetch_add(1, Ordering::SeqCst);
                // The handshake fails in tests where the client refuses the certificate.
                thread::spawn(move || drop(state.converse(&socket)));
            }
        });
        Self { url, state }
    }

    /// Returns the URL of the server, without a `/` at the end.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the number of connections so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Returns the bodies of PUT requests, in order of arrival.
    #[must_use]
    pub fn puts(&self) -> Vec<Vec<u8>> {
        self.state.puts.lock().clone()
    }
}

fn configuration(certificate: &Certificate, unusual: &TlsBehaviour) -> ServerConfig {
    let chain = vec![CertificateDer::from_pem_file(certificate.certificate()).expect("the certificate")];
    let key = PrivateKeyDer::from_pem_file(certificate.key()).expect("its key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[unusual.version])
        .expect("a protocol")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a certificate that fits its key");
    // In rustls, this size includes the record header of 5 bytes.
    config.max_fragment_size = unusual.fragment.map(|fragment| fragment + 5);
    config
}

/// The parts of a request's head that this server uses.
struct TlsRequestHead {
    method: String,
    range: Option<(usize, usize)>,
    length: usize,
}

impl TlsRequestHead {
    fn parse(head: &str) -> Self {
        let value = |name: &str| {
            let lines = head.lines().filter_map(|line| line.split_once(':'));
            lines
                .into_iter()
                .find(|(known, _)| known.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.trim())
        };
        let bound = |text: &str| text.parse().ok();
        let range = value("range").and_then(|text| text.strip_prefix("bytes=")?.split_once('-'));
        Self {
            method: head.split(' ').next().unwrap_or_default().to_owned(),
            range: range.and_then(|(start, end)| Some((bound(start)?, bound(end).unwrap_or(usize::MAX - 1)))),
            length: value("content-length").and_then(bound).unwrap_or(0),
        }
    }
}

/// Writes to the socket in segments of at most this many bytes.
struct Segments<'a>(&'a TcpStream, usize);

impl Write for Segments<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(&bytes[..bytes.len().min(self.1)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl PeerState {
    fn converse(&self, socket: &TcpStream) -> io::Result<()> {
        socket.set_nodelay(true)?;
        let mut session = ServerConnection::new(Arc::clone(&self.config)).map_err(io::Error::other)?;
        session.set_buffer_limit(None);
        let mut received = Vec::new();
        loop {
            let head = loop {
                if let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") {
                    break received.drain(..end + 4).collect::<Vec<u8>>();
                }
                if !self.receive(&mut session, socket, &mut received)? {
                    return Ok(());
                }
            };
            let asked = TlsRequestHead::parse(&String::from_utf8_lossy(&head));
            while received.len() < asked.length {
                if !self.receive(&mut session, socket, &mut received)? {
                    return Ok(());
                }
            }
            let body: Vec<u8> = received.drain(..asked.length).collect();
            if asked.method == "PUT" {
                self.puts.lock().push(body);
                let answer = b"HTTP/1.1 200 OK\r\nETag: \"put\"\r\nContent-Length: 0\r\n\r\n";
                session.writer().write_all(answer)?;
                self.flush(&mut session, socket)?;
            } else if !self.answer(&mut session, socket, &asked)? {
                return socket.shutdown(Shutdown::Both);
            }
        }
    }

    /// Reads the next bytes. False at the end of the connection.
    fn receive(
        &self,
        session: &mut ServerConnection,
        mut socket: &TcpStream,
        received: &mut Vec<u8>,
    ) -> io::Result<bool> {
        let count = session.read_tls(&mut socket)?;
        let processed = session.process_new_packets().map_err(io::Error::other);
        self.flush(session, socket)?;
        let ready = processed?.plaintext_bytes_to_read();
        let old = received.len();
        received.resize(old + ready, 0);
        session.reader().read_exact(&mut received[old..])?;
        Ok(count > 0)
    }

    fn flush(&self, session: &mut ServerConnection, socket: &TcpStream) -> io::Result<()> {
        while session.wants_write() {
            session.write_tls(&mut Segments(socket, self.unusual.segment))?;
        }
        Ok(())
    }

    /// Answers a GET or HEAD. Returns whether the connection stays open.
    fn answer(
        &self,
        session: &mut ServerConnection,
        socket: &TcpStream,
        asked: &TlsRequestHead,
    ) -> io::Result<bool> {
        if let Some(target) = &self.unusual.redirect {
            let head = format!("HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n");
            session.writer().write_all(head.as_bytes())?;
            return self.flush(session, socket).map(|()| true);
        }
        let whole = (0, self.content.len().saturating_sub(1));
        let (start, last) = asked.range.map_or(whole, |(start, last)| (start, last.min(whole.1)));
        let body = &self.content[start..=last];
        let is_head = asked.method == "HEAD";
        let ends = !is_head && self.bodies.fetch_add(1, Ordering::SeqCst) < self.unusual.endings;
        let ending = if ends { self.unusual.ending } else { BodyEnding::KeptAlive };
        let by_length = matches!(ending, BodyEnding::KeptAlive | BodyEnding::Cut | BodyEnding::CutNotified);
        let status = if asked.range.is_some() { "206 Partial Content" } else { "200 OK" };
        let mut head = format!("HTTP/1.1 {status}\r\nETag: \"v\"\r\nAccept-Ranges: bytes\r\n");
        if asked.range.is_some() {
            head.push_str(&format!("Content-Range: bytes {start}-{last}/{}\r\n", self.content.len()));
        }
        if by_length {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        if ending != BodyEnding::KeptAlive {
            head.push_str("Connection: close\r\n");
        }
        session.writer().write_all(format!("{head}\r\n").as_bytes())?;
        self.flush(session, socket)?;
        if is_head {
            return Ok(true);
        }
        let sent = if matches!(ending, BodyEnding::Cut | BodyEnding::CutNotified) {
            body.len() / 2
        } else {
            body.len()
        };
        self.send(session, socket, &body[..sent])?;
        match ending {
            BodyEnding::KeptAlive => return Ok(true),
            BodyEnding::Cut | BodyEnding::Unnotified => {}
            BodyEnding::Notified | BodyEnding::CutNotified => {
                session.send_close_notify();
                self.flush(session, socket)?;
            }
            BodyEnding::NotifiedThenJunk => {
                session.send_close_notify();
                let mut last = Vec::new();
                while session.wants_write() {
                    session.write_tls(&mut last)?;
                }
                // The client cannot read this many bytes at once.
                last.extend_from_slice(&[0x17; 20_000]);
                (&mut &*socket).write_all(&last)?;
            }
        }
        Ok(false)
    }

    /// Sends a body in records of the configured size, with key updates.
    fn send(&self, session: &mut ServerConnection, socket: &TcpStream, body: &[u8]) -> io::Result<()> {
        let (mut since_update, mut in_batch) = (0, 0);
        for record in body.chunks(self.unusual.record) {
            session.writer().write_all(record)?;
            since_update += record.len();
            in_batch += 1;
            if self.unusual.key_update.is_some_and(|every| since_update >= every) {
                session.refresh_traffic_keys().map_err(io::Error::other)?;
                since_update = 0;
            }
            if in_batch == self.unusual.batch {
                self.flush(session, socket)?;
                in_batch = 0;
            }
        }
        self.flush(session, socket)
    }
}
