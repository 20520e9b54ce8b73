//! Makes certificates for one test with openssl. They are self-signed, like those of `openssl req
//! -x509`, so each is both server certificate and trust anchor.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;

use crate::data::scratch;

/// The kinds of test certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateKind {
    /// A certificate as `openssl req -x509` makes it: CA:TRUE, for `localhost` and `127.0.0.1`.
    Authority,
    /// Like [`Authority`](Self::Authority), but with CA:FALSE.
    Leaf,
    /// Like [`Authority`](Self::Authority), but for another host.
    ForAnotherHost,
    /// Like [`Authority`](Self::Authority), but expired.
    Expired,
    /// Like [`Authority`](Self::Authority), but not yet valid.
    NotYetValid,
}

impl CertificateKind {
    fn constraints(self) -> &'static str {
        if self == Self::Leaf { "critical,CA:FALSE" } else { "critical,CA:TRUE" }
    }

    fn names(self) -> &'static str {
        if self == Self::ForAnotherHost { "DNS:elsewhere.invalid" } else { "DNS:localhost,IP:127.0.0.1" }
    }

    /// Returns the start and the end of the validity, in openssl's format.
    fn validity(self) -> [&'static str; 2] {
        match self {
            Self::Expired => ["20200101000000Z", "20200102000000Z"],
            Self::NotYetValid => ["20990101000000Z", "20990201000000Z"],
            _ => ["20200101000000Z", "20990101000000Z"],
        }
    }
}

/// A certificate and its key in PEM files. Dropping this value removes the files.
#[derive(Debug)]
pub struct Certificate {
    directory: TempDir,
}

impl Certificate {
    /// Makes a certificate.
    ///
    /// # Panics
    /// openssl is not installed or fails.
    #[must_use]
    pub fn make(made: CertificateKind) -> Self {
        let directory = scratch();
        let [from, to] = made.validity();
        let configuration = format!(
            "[req]\nprompt=no\ndistinguished_name=name\n[name]\nCN=firstbyte test\n\
            [ca]\ndefault_ca=own\n[own]\ndatabase=index\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\n\
            policy=any\nx509_extensions=extensions\n[any]\ncommonName=supplied\n\
            [extensions]\nbasicConstraints={}\nsubjectAltName={}\n",
            made.constraints(),
            made.names()
        );
        for (name, content) in [("configuration", configuration.as_str()), ("index", ""), ("serial", "01\n")]
        {
            fs::write(directory.path().join(name), content).expect("openssl's files");
        }
        let curve = "ec_paramgen_curve:prime256v1";
        let request = ["req", "-new", "-newkey", "ec", "-pkeyopt", curve, "-nodes", "-keyout", "private.key"];
        openssl(directory.path(), &[&request[..], &["-out", "request"]].concat());
        let sign = ["ca", "-batch", "-notext", "-selfsign", "-keyfile", "private.key", "-in", "request"];
        let period = ["-startdate", from, "-enddate", to, "-out", "public.crt"];
        openssl(directory.path(), &[&sign[..], &period[..]].concat());
        Self { directory }
    }

    /// Returns the directory of both files. They are named `public.crt` and `private.key`, as MinIO
    /// requires.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the path of the certificate.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.directory.path().join("public.crt")
    }

    /// Returns the path of the private key.
    #[must_use]
    pub fn key(&self) -> PathBuf {
        self.directory.path().join("private.key")
    }

    /// Makes the settings of a client that trusts only this certificate.
    ///
    /// # Panics
    /// The file is not a certificate.
    #[must_use]
    pub fn client(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_file(self.certificate()).expect("a certificate");
        roots.add(certificate).expect("a trust anchor");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider's versions");
        Arc::new(client.with_root_certificates(roots).with_no_client_auth())
    }
}

fn openssl(directory: &Path, args: &[&str]) {
    let mut command = Command::new("openssl");
    command.current_dir(directory).args(args).args(["-config", "configuration"]);
    let made = command.output().expect("openssl, which `scripts/need.sh servers` installs");
    assert!(made.status.success(), "{command:?}: {}", String::from_utf8_lossy(&made.stderr));
}
