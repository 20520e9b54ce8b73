//! TLS for outgoing connections: rustls, blocking, HTTP/1.1 only.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::Origin;
use crate::{Error, Result};

/// One TLS connection's state.
pub(super) type Session = rustls::ClientConnection;

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
