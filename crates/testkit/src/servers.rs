//! Starts the servers that stores are tested against. Each listens on a free port and serves its
//! own directory.

use std::path::Path;
use std::sync::Once;

use crate::{Certificate, Process};

/// The access key of every test server.
pub const ACCESS_KEY: &str = "testkit";
/// Its secret. MinIO requires eight characters or more.
pub const SECRET_KEY: &str = "testkit-secret";
/// The bucket of every test server: a directory of this name below its root.
pub const BUCKET: &str = "bucket";

/// Sets the environment variables that the credential chain reads first to the test servers' keys.
/// Call it before starting a server.
pub fn set_credentials() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (name, value) in [
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
            ("AWS_REGION", "us-east-1"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ] {
            // SAFETY: the environment is read by Rust code, which locks it, and by C code that
            // makes connections, which no test does before this call.
            unsafe { std::env::set_var(name, value) };
        }
    });
}

/// versitygw, a gateway from S3 to plain files, over `root`.
#[must_use]
pub fn versitygw(root: &Path) -> Process {
    make_bucket(root);
    Process::start("versitygw", |command, address| {
        command.args(["--access", ACCESS_KEY, "--secret", SECRET_KEY, "--quiet", "--port"]);
        command.arg(address.to_string()).arg("posix").arg(root);
    })
}

/// MinIO, an object store of its own format, over `root`.
#[must_use]
pub fn minio(root: &Path) -> Process {
    minio_with(root, None)
}

/// MinIO over `root`, with TLS if a certificate is given.
pub(crate) fn minio_with(root: &Path, certificate: Option<&Certificate>) -> Process {
    make_bucket(root);
    let process = Process::start("minio", |command, address| {
        command.env("MINIO_ROOT_USER", ACCESS_KEY).env("MINIO_ROOT_PASSWORD", SECRET_KEY);
        command.env("MINIO_BROWSER", "off").env("MINIO_UPDATE", "off").env("HOME", root);
        command.args(["server", "--quiet", "--address"]).arg(address.to_string());
        if let Some(certificate) = certificate {
            command.arg("--certs-dir").arg(certificate.directory());
        }
        command.arg(root);
    });
    if certificate.is_some() { process.over_tls() } else { process }
}

/// nginx over the files below `root`, with directory pages; `/bucket/denied/` is forbidden. `state`
/// holds its own files.
///
/// # Panics
/// When its configuration cannot be written.
#[must_use]
pub fn nginx(root: &Path, state: &Path) -> Process {
    make_bucket(root);
    let configuration = state.join("nginx.conf");
    Process::start("nginx", |command, address| {
        let text = nginx_configuration(root, state, &address.to_string());
        std::fs::write(&configuration, text).expect("nginx.conf");
        command.arg("-p").arg(state).arg("-c").arg(&configuration).arg("-e").arg(state.join("error.log"));
    })
}

fn nginx_configuration(root: &Path, state: &Path, address: &str) -> String {
    let (root, state) = (root.display(), state.display());
    // A single process: workers would survive when the test kills the master.
    format!(
        "daemon off; master_process off; pid {state}/pid; events {{ worker_connections 64; }}
        http {{
            access_log off; client_body_temp_path {state}/body; proxy_temp_path {state}/proxy;
            fastcgi_temp_path {state}/fastcgi; uwsgi_temp_path {state}/uwsgi; scgi_temp_path {state}/scgi;
            server {{
                listen {address}; root {root}; autoindex on;
                location /{BUCKET}/denied/ {{ deny all; }}
            }}
        }}"
    )
}

fn make_bucket(root: &Path) {
    std::fs::create_dir_all(root.join(BUCKET)).expect("the bucket's directory");
}
