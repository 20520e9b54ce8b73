//! TLS for outgoing connections: rustls, blocking, HTTP/1.1 only.

use std::io::{self, Read};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::Origin;
use crate::{Error, Result};

/// One TLS connection's state.
pub(super) type Session = rustls::ClientConnection;

/// Buffers from this size on are filled many records at a time; a record has 16 KiB.
const BULK: usize = 32 << 10;

/// Reads plaintext into `buffer`; 0 at the proper end of the stream.
///
/// The library takes a record at a time from the socket, which is two system calls for every 16 KiB. So the socket is
/// read into the whole of `buffer` first, and the plaintext, which is shorter and was copied aside by the library, is
/// laid over the ciphertext that it came from.
pub(super) fn read(session: &mut Session, mut socket: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    if buffer.len() < BULK {
        return rustls::Stream::new(session, &mut socket).read(buffer);
    }
    loop {
        let mut plain = take_plaintext(session, buffer)?;
        if plain > 0 {
            return Ok(plain);
        }
        let received = socket.read(buffer)?;
        let mut fed = 0;
        if received == 0 {
            // The library tells a proper end from a cut.
            session.read_tls(&mut io::empty())?;
            return take_plaintext(session, buffer);
        }
        while fed < received {
            fed += session.read_tls(&mut &buffer[fed..received])?;
            session
                .process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            plain += take_plaintext(session, &mut buffer[plain..fed])?;
        }
        while session.wants_write() {
            session.write_tls(&mut socket)?;
        }
        if plain > 0 {
            return Ok(plain);
        }
    }
}

/// Takes what plaintext is there; none is 0.
fn take_plaintext(session: &mut Session, buffer: &mut [u8]) -> io::Result<usize> {
    match session.reader().read(buffer) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        other => other,
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
        match &self.ca_bundle {
            Some(path) => {
                let refuse =
                    |why: String| Error::Options { what: format!("CA bundle {}", path.display()), why };
                let certificates = CertificateDer::pem_file_iter(path)
                    .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
                    .map_err(|error| refuse(error.to_string()))?;
                for certificate in certificates {
                    roots.add(certificate).map_err(|error| refuse(error.to_string()))?;
                }
                if roots.is_empty() {
                    return Err(refuse("no certificate in it".to_owned()));
                }
            }
            None => {
                // A damaged certificate among the system's makes only its own authority unusable.
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Options { what: "TLS".to_owned(), why: error.to_string() })?;
        Ok(builder.with_root_certificates(roots).with_no_client_auth())
    }
}
