//! Describes the faults of certificates and host keys.

use std::fmt;

/// The reason why a certificate or host key is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateFault {
    /// Neither the certificate nor the authority that signed it is trusted.
    Untrusted,
    /// The certificate has expired.
    Expired,
    /// The certificate is not yet valid.
    Early,
    /// The certificate is for other host names.
    Name,
    /// The SSH key of the host is unknown or has changed.
    HostKey,
    /// Any other fault.
    Other,
}

impl CertificateFault {
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::Untrusted => "name the authority's certificate, or the server's own, with --ca-bundle",
            Self::Expired => "renew the server's certificate, or check this machine's clock",
            Self::Early => "check this machine's clock, and the server's certificate",
            Self::Name => "use a name in the certificate, or issue one with this name as subjectAltName",
            Self::HostKey => {
                "check the fingerprint, then connect once with ssh to add the key to known_hosts"
            }
            Self::Other => "check the server's certificate",
        }
    }
}

impl fmt::Display for CertificateFault {
    /// Formats the fault. The caller appends the names in the certificate, or a library's message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Untrusted => "its certificate is not signed by a trusted authority",
            Self::Expired => "its certificate has expired",
            Self::Early => "its certificate is not yet valid",
            Self::Name => "its certificate is not for this host, but for ",
            Self::HostKey => "its host key is not accepted: ",
            Self::Other => "its certificate is refused: ",
        })
    }
}
