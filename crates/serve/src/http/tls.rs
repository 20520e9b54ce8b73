//! Makes a TLS acceptor from a certificate and a key.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config::TlsFiles;
use crate::error::{Error, Result};

/// Reads the PEM files of `tls`. Also returns the DNS names of the certificate, without wildcard
/// names, because a `*` may stand for a bucket.
pub(crate) fn acceptor(tls: &TlsFiles) -> Result<(TlsAcceptor, Vec<String>)> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&tls.certificate)
        .and_then(Iterator::collect)
        .map_err(|cause| error(&tls.certificate, &cause))?;
    let Some(leaf) = chain.first() else {
        return Err(error(&tls.certificate, &"it holds no certificate"));
    };
    let names = webpki::EndEntityCert::try_from(leaf)
        .map(|leaf| leaf.valid_dns_names().filter(|name| !name.contains('*')).map(str::to_owned).collect());
    // An unreadable certificate is refused below, with a better reason.
    let names = names.unwrap_or_default();
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|cause| error(&tls.key, &cause))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|cause| error(&tls.certificate, &cause))?;
    Ok((TlsAcceptor::from(Arc::new(config)), names))
}

fn error(path: &Path, reason: &impl std::fmt::Display) -> Error {
    Error::Tls { path: path.to_path_buf(), reason: reason.to_string() }
}
