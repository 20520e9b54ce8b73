//! Encrypts outgoing connections with rustls: blocking, for HTTP/1.1 only.
//!
//! [`HttpConnection`](super::HttpConnection) creates a session, performs its handshake, and reads
//! through [`read`]. Neither the handshake nor a read takes longer than the socket's deadline,
//! however slowly the peer sends. The end of a stream is accepted only after close_notify, because
//! a stream without it may have been truncated.

use std::io::{self, Read};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};

use super::trust;
use crate::error::{Error, Result};
use crate::limits::RECORD;
use crate::options::StoreOptions;
use crate::origin::Origin;

/// The state of a TLS connection.
pub(super) type TlsSession = rustls::ClientConnection;

/// Performs the handshake, within `deadline` in total.
pub(super) fn handshake(
    session: &mut TlsSession,
    mut socket: &TcpStream,
    deadline: Duration,
) -> io::Result<()> {
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

/// Returns true if a handshake failed because the response was not TLS.
pub(super) fn is_plain(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    matches!(cause, Some(rustls::Error::InvalidMessage(_)))
}

/// Reads plaintext into `buffer`. Returns 0 at the correct end of the stream.
pub(super) fn read(session: &mut TlsSession, socket: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let mut waiting = None;
    loop {
        if let Some(count) = take_plaintext(session, buffer)? {
            return Ok(count);
        }
        // A larger buffer is filled with several records at a time.
        let plain = if buffer.len() <= RECORD {
            receive(session, socket)?;
            0
        } else {
            receive_into(session, socket, buffer)?
        };
        send(session, socket)?;
        if plain > 0 {
            return Ok(plain);
        }
        // The deadline is not extended when bytes arrive, because records may be empty or arrive
        // byte by byte.
        let began = *waiting.get_or_insert_with(Instant::now);
        if socket.read_timeout()?.is_some_and(|deadline| began.elapsed() > deadline) {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

/// Reads up to one record from the socket.
fn receive(session: &mut TlsSession, mut socket: &TcpStream) -> io::Result<()> {
    session.read_tls(&mut socket)?;
    process(session, socket)
}

/// Reads many records from the socket at once. Returns the length of the plaintext in `buffer`.
///
/// The library reads one record at a time, which takes two system calls per 16 KiB. This function
/// first reads ciphertext into the whole `buffer`, and passes it to the library. Then it overwrites
/// the ciphertext with the plaintext, which is shorter and which the library holds elsewhere.
fn receive_into(session: &mut TlsSession, mut socket: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let received = socket.read(buffer)?;
    if received == 0 {
        session.read_tls(&mut io::empty())?;
    }
    let (mut fed, mut plain) = (0, 0);
    while fed < received {
        let count = session.read_tls(&mut &buffer[fed..received])?;
        if count == 0 {
            // Bytes after close_notify do not belong to the stream.
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

/// Returns true if an idle session has received neither plaintext nor its end. Records of the
/// protocol itself, such as session tickets, are processed. `is_silent` returns true if the socket
/// has nothing to read.
pub(super) fn is_quiet(
    session: &mut TlsSession,
    socket: &TcpStream,
    is_silent: impl Fn(&TcpStream) -> bool,
) -> bool {
    loop {
        match session.process_new_packets() {
            Ok(state) if state.plaintext_bytes_to_read() == 0 && !state.peer_has_closed() => {}
            _ => return false,
        }
        if is_silent(socket) {
            return true;
        }
        let mut received = socket;
        // The socket has bytes or its end, so this read does not wait.
        if !matches!(session.read_tls(&mut received), Ok(1..)) {
            return false;
        }
    }
}

fn process(session: &mut TlsSession, mut socket: &TcpStream) -> io::Result<()> {
    let processed = session.process_new_packets();
    processed.map(drop).map_err(|error| {
        // Sends the alert, if the peer still reads.
        let _ = session.write_tls(&mut socket);
        io::Error::new(io::ErrorKind::InvalidData, error)
    })
}

/// Sends handshake messages, and responses to key updates.
fn send(session: &mut TlsSession, mut socket: &TcpStream) -> io::Result<()> {
    while session.wants_write() {
        session.write_tls(&mut socket)?;
    }
    Ok(())
}

/// Takes plaintext that is available. Returns 0 at the end of the stream, and `None` if more bytes
/// must be received first.
fn take_plaintext(session: &mut TlsSession, buffer: &mut [u8]) -> io::Result<Option<usize>> {
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

/// Finds certificate authorities that are configured outside the options.
pub(crate) type FindBundle = fn(&StoreOptions) -> Option<PathBuf>;

/// The configuration of all TLS connections. Certificates are read before the first TLS connection,
/// because that takes milliseconds and plain HTTP needs none. The configuration caches sessions for
/// resumption.
pub(super) struct TlsConfig {
    options: Arc<StoreOptions>,
    find_bundle: FindBundle,
    config: OnceLock<Arc<ClientConfig>>,
}

impl TlsConfig {
    pub(super) fn new(options: Arc<StoreOptions>, find_bundle: FindBundle) -> Self {
        Self { options, find_bundle, config: OnceLock::new() }
    }

    pub(super) fn with_options(&self, options: Arc<StoreOptions>) -> Self {
        Self::new(options, self.find_bundle)
    }

    pub(super) fn session(&self, origin: &Origin) -> Result<TlsSession> {
        let unusable = |why: String| Error::unreachable(origin, why, None);
        let config = match self.config.get() {
            Some(config) => Arc::clone(config),
            None => {
                let built = Arc::new(self.build()?);
                Arc::clone(self.config.get_or_init(|| built))
            }
        };
        let name = ServerName::try_from(origin.host.clone()).map_err(|error| unusable(error.to_string()))?;
        TlsSession::new(config, name).map_err(|error| unusable(error.to_string()))
    }

    fn build(&self) -> Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        let bundle = self.options.ca_bundle.clone().or_else(|| (self.find_bundle)(&self.options));
        let named = match bundle {
            Some(path) => trust::read_bundle(&path, &mut roots)?,
            None => {
                // Malformed certificates of the system are ignored.
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                Vec::new()
            }
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = trust::CertificateTrust::new(roots, named, &provider)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Options { what: "TLS".to_owned(), why: error.to_string() })?;
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        Ok(builder.with_no_client_auth())
    }
}
