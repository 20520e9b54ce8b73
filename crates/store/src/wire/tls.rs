//! TLS for outgoing connections: rustls, blocking, HTTP/1.1 only.
//!
//! A session is made, and its handshake done, by [`Connection`](super::Connection), which then reads through [`read`].
//! Neither waits longer than the socket's deadline, however the other end spreads its bytes. The end of a stream counts
//! only with the peer's close_notify: without it the end may have been cut off.

use std::io::{self, Read};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};

use super::{Origin, trust};
use crate::{Error, Result};

/// One TLS connection's state.
pub(super) type Session = rustls::ClientConnection;

/// Buffers from this size on are filled many records at a time; a record has 16 KiB.
const BULK: usize = 32 << 10;

/// Agrees on keys with the other end, within `deadline` in total.
pub(super) fn handshake(session: &mut Session, mut socket: &TcpStream, deadline: Duration) -> io::Result<()> {
    let until = Instant::now() + deadline;
    loop {
        send(session, socket)?;
        if !session.is_handshaking() {
            return socket.set_read_timeout(Some(deadline));
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        match session.read_tls(&mut socket) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed in the handshake")),
            Ok(_) => process(session, socket)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads plaintext into `buffer`; 0 at the proper end of the stream.
pub(super) fn read(session: &mut Session, socket: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let mut waiting = None;
    loop {
        if let Some(count) = take_plaintext(session, buffer)? {
            return Ok(count);
        }
        let plain = if buffer.len() < BULK {
            receive(session, socket)?;
            0
        } else {
            receive_into(session, socket, buffer)?
        };
        send(session, socket)?;
        if plain > 0 {
            return Ok(plain);
        }
        // Records may be empty, or come a byte at a time: bytes on the wire are no progress by themselves.
        let began = *waiting.get_or_insert_with(Instant::now);
        if socket.read_timeout()?.is_some_and(|deadline| began.elapsed() > deadline) {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

/// Takes what the socket has, up to a record.
fn receive(session: &mut Session, mut socket: &TcpStream) -> io::Result<()> {
    session.read_tls(&mut socket)?;
    process(session, socket)
}

/// Takes what the socket has, many records at once; returns how much plaintext lies in `buffer`.
///
/// The library takes a record at a time from the socket, which is two system calls for every 16 KiB. So the socket is
/// read into the whole of `buffer` first, and the plaintext, which is shorter and was copied aside by the library, is
/// laid over the ciphertext that it came from.
fn receive_into(session: &mut Session, mut socket: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let received = socket.read(buffer)?;
    if received == 0 {
        session.read_tls(&mut io::empty())?;
    }
    let (mut fed, mut plain) = (0, 0);
    while fed < received {
        let count = session.read_tls(&mut &buffer[fed..received])?;
        if count == 0 {
            // What comes behind close_notify is not part of the stream.
            break;
        }
        fed += count;
        process(session, socket)?;
        if plain < fed {
            plain += take_plaintext(session, &mut buffer[plain..fed])?.unwrap_or(0);
        }
    }
    Ok(plain)
}

fn process(session: &mut Session, mut socket: &TcpStream) -> io::Result<()> {
    let processed = session.process_new_packets();
    processed.map(drop).map_err(|error| {
        // The other end is told why, if it still listens.
        let _ = session.write_tls(&mut socket);
        io::Error::new(io::ErrorKind::InvalidData, error)
    })
}

/// Sends what the protocol itself has to say: handshake messages, answers to key updates.
fn send(session: &mut Session, mut socket: &TcpStream) -> io::Result<()> {
    while session.wants_write() {
        session.write_tls(&mut socket)?;
    }
    Ok(())
}

/// Takes the plaintext that is there: 0 is the end of the stream, `None` that more has to be received.
fn take_plaintext(session: &mut Session, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match session.reader().read(buffer) {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            let why = "closed without TLS's close_notify, so the end may be missing";
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, why))
        }
        Err(error) => Err(error),
    }
}

/// What TLS connections have in common; certificates are read when the first one is made, since plain HTTP needs none
/// and reading the system's takes milliseconds. Sessions are resumed from the configuration's own memory.
pub(super) struct Tls {
    ca_bundle: Option<PathBuf>,
    config: OnceLock<Arc<ClientConfig>>,
}

impl Tls {
    pub(super) fn new(ca_bundle: Option<PathBuf>) -> Self {
        Self { ca_bundle, config: OnceLock::new() }
    }

    pub(super) fn session(&self, origin: &Origin) -> Result<Session> {
        let unusable = |why: String| Error::Unreachable { endpoint: origin.to_string(), detail: why };
        let config = match self.config.get() {
            Some(config) => Arc::clone(config),
            None => {
                let built = Arc::new(self.build()?);
                Arc::clone(self.config.get_or_init(|| built))
            }
        };
        let name = ServerName::try_from(origin.host.clone()).map_err(|error| unusable(error.to_string()))?;
        Session::new(config, name).map_err(|error| unusable(error.to_string()))
    }

    fn build(&self) -> Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        let named = match &self.ca_bundle {
            Some(path) => trust::read_bundle(path, &mut roots)?,
            None => {
                // A damaged certificate among the system's makes only its own authority unusable.
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                Vec::new()
            }
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = trust::Trust::new(roots, named, &provider)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Options { what: "TLS".to_owned(), why: error.to_string() })?;
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        Ok(builder.with_no_client_auth())
    }
}
