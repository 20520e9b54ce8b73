//! Makes a TLS acceptor from a certificate and a key.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config::Tls;
use crate::error::{Error, Result};

/// Reads the PEM files of `tls`.
pub(crate) fn acceptor(tls: &Tls) -> Result<TlsAcceptor> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&tls.certificate)
        .and_then(Iterator::collect)
        .map_err(|cause| error(&tls.certificate, &cause))?;
    if chain.is_empty() {
        return Err(error(&tls.certificate, &"it holds no certificate"));
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|cause| error(&tls.key, &cause))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|cause| error(&tls.certificate, &cause))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn error(path: &Path, reason: &impl std::fmt::Display) -> Error {
    Error::Tls { path: path.to_path_buf(), reason: reason.to_string() }
}
