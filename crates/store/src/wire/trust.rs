//! Decides which servers are trusted: servers whose certificate is signed by a trusted authority,
//! and servers whose own certificate is in the user's CA bundle. The name and the validity of the
//! certificate are checked in both cases.
//!
//! The second rule is for certificates from `openssl req -x509`, which are both an authority's and
//! a server's certificate. webpki refuses an authority's certificate for a server. curl and the AWS
//! tools accept such a certificate if it is in the bundle.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::{CertificateFault, Error, Result};

/// Adds the certificates of a PEM file to `roots`. Returns the certificates. As in the bundle of
/// the system, a certificate that cannot be parsed is left out: large bundles contain old ones.
pub(super) fn read_bundle(path: &Path, roots: &mut RootCertStore) -> Result<Vec<CertificateDer<'static>>> {
    let refuse = |why: String| Error::Options { what: format!("CA bundle {}", path.display()), why };
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(|error| refuse(error.to_string()))?;
    let mut faults = Vec::new();
    for (number, certificate) in (1..).zip(&certificates) {
        if let Err(error) = roots.add(certificate.clone()) {
            tracing::warn!(bundle = %path.display(), number, %error, "a certificate is left out");
            faults.push(error);
        }
    }
    match faults.last() {
        Some(error) if faults.len() == certificates.len() => Err(refuse(error.to_string())),
        None if certificates.is_empty() => Err(refuse("no certificate in it".to_owned())),
        _ => Ok(certificates),
    }
}

/// A certificate verifier that applies the two rules.
#[derive(Debug)]
pub(super) struct CertificateTrust {
    authorities: Arc<WebPkiServerVerifier>,
    /// The certificates in the user's CA bundle.
    named: Vec<CertificateDer<'static>>,
}

impl CertificateTrust {
    pub(super) fn new(
        roots: RootCertStore,
        named: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self> {
        let built =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build();
        let authorities = built.map_err(|_| Error::Options {
            what: "TLS".to_owned(),
            why: "this system has no certificate authorities; install ca-certificates or use --ca-bundle"
                .to_owned(),
        })?;
        Ok(Self { authorities, named })
    }
}

impl ServerCertVerifier for CertificateTrust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let verified =
            self.authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // webpki checks the validity period before it reports this error, so only the name has
            // to be checked here.
            Err(rustls::Error::InvalidCertificate(cause))
                if is_authority(&cause) && self.named.iter().any(|named| named == end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// Returns true if a server's certificate was refused because it belongs to an authority.
fn is_authority(cause: &CertificateError) -> bool {
    let CertificateError::Other(other) = cause else { return false };
    other.0.downcast_ref::<webpki::Error>() == Some(&webpki::Error::CaUsedAsEndEntity)
}

pub(super) fn refusal(endpoint: String, cause: &CertificateError) -> Error {
    use CertificateError as Cause;
    let (fault, detail) = match cause {
        Cause::UnknownIssuer => (CertificateFault::Untrusted, String::new()),
        cause if is_authority(cause) => (CertificateFault::Untrusted, String::new()),
        Cause::Expired | Cause::ExpiredContext { .. } => (CertificateFault::Expired, String::new()),
        Cause::NotValidYet | Cause::NotValidYetContext { .. } => (CertificateFault::Early, String::new()),
        Cause::NotValidForName => (CertificateFault::Name, "another host".to_owned()),
        Cause::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            (CertificateFault::Name, "no name at all".to_owned())
        }
        Cause::NotValidForNameContext { presented, .. } => {
            let names: Vec<_> = presented.iter().map(|name| bare(name)).collect();
            (CertificateFault::Name, names.join(", "))
        }
        other => (CertificateFault::Other, other.to_string()),
    };
    Error::Certificate { endpoint, fault, detail }
}

/// Returns the host in webpki's `DnsName("host")`.
fn bare(shown: &str) -> &str {
    let inner = shown.split_once('(').map_or(shown, |(_, inner)| inner.trim_end_matches(')'));
    inner.trim_matches('"')
}
