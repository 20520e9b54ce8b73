//! Starts the servers against which stores are tested. Each server listens on a free port and
//! serves its own directory.

use std::path::Path;
use std::sync::{Arc, Once, Weak};

use rustix_futex_sync::Mutex;

use crate::certificate::Certificate;
use crate::process::Process;

/// The access key of every test server.
pub const ACCESS_KEY: &str = "testkit";
/// The secret of the access key. MinIO requires eight characters or more.
pub const SECRET_KEY: &str = "testkit-secret";
/// The account of Azure's emulators.
pub const AZURE_ACCOUNT: &str = "devstoreaccount1";
/// The key of the account. All emulators have the same fixed key.
pub const AZURE_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// The bucket of every test server. It is a directory of this name below the server's root.
pub const BUCKET: &str = "bucket";

/// Sets the environment variables that the credential chain reads first to the test servers' keys.
/// Must be called before a server is started.
pub fn set_credentials() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (name, value) in [
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
            ("AWS_REGION", "us-east-1"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ] {
            // SAFETY: two kinds of code read the environment. Rust code locks it. C code reads it
            // when it makes connections, and no test makes one before this call.
            unsafe { std::env::set_var(name, value) };
        }
    });
}

/// Starts versitygw, a gateway from S3 to plain files, over `root`.
#[must_use]
pub fn versitygw(root: &Path) -> Process {
    make_bucket(root);
    Process::start("versitygw", |command, address| {
        command.args(["--access", ACCESS_KEY, "--secret", SECRET_KEY, "--quiet", "--port"]);
        command.arg(address.to_string()).arg("posix").arg(root);
    })
}

/// Starts MinIO, an object store with its own format, over `root`.
#[must_use]
pub fn minio(root: &Path) -> Process {
    minio_with(root, None)
}

/// Starts MinIO over `root`, with TLS if a certificate is given.
#[must_use]
pub fn minio_with(root: &Path, certificate: Option<&Certificate>) -> Process {
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

/// Starts nginx over the files below `root`, with directory pages. `/bucket/denied/` is forbidden.
/// nginx keeps its own files in the directory `state`.
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
    // nginx runs as a single process, because worker processes would survive when the test kills
    // the master.
    format!(
        "daemon off; master_process off; pid \"{state}/pid\"; events {{ worker_connections 64; }}
        http {{
            access_log off; client_body_temp_path \"{state}/body\"; proxy_temp_path \"{state}/proxy\";
            fastcgi_temp_path \"{state}/fastcgi\"; uwsgi_temp_path \"{state}/uwsgi\";
            scgi_temp_path \"{state}/scgi\";
            server {{
                listen {address}; root \"{root}\"; autoindex on;
                location /{BUCKET}/denied/ {{ deny all; }}
            }}
        }}"
    )
}

/// Starts fake-gcs-server, an emulator of Google Cloud Storage, with objects in memory and without
/// buckets.
#[must_use]
pub fn fake_gcs_server() -> Process {
    Process::start("fake-gcs-server", |command, address| {
        command.args(["-scheme", "http", "-backend", "memory", "-log-level", "error"]);
        command.arg("-host").arg(address.ip().to_string()).arg("-port").arg(address.port().to_string());
        // The host name for reading objects. The emulator takes any other name for a bucket's.
        command.arg("-public-host").arg(address.to_string());
    })
}

/// Starts Azurite, an emulator of Azure Blob Storage, with blobs in memory and without containers.
/// Azurite takes a second to start, so concurrent tests share one process.
#[must_use]
pub fn azurite() -> Arc<Process> {
    static RUNNING: Mutex<Weak<Process>> = Mutex::new(Weak::new());
    let mut running = RUNNING.lock();
    if let Some(process) = running.upgrade() {
        return process;
    }
    let process = Arc::new(Process::start("azurite-blob", |command, address| {
        command.args(["--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"]);
        command.arg("--blobHost").arg(address.ip().to_string());
        command.arg("--blobPort").arg(address.port().to_string());
        // If Azurite writes files, it writes them to its working directory.
        command.current_dir(std::env::temp_dir());
    }));
    *running = Arc::downgrade(&process);
    process
}

/// Returns the connection string of an Azure emulator at `url`, with this key.
#[must_use]
pub fn azure_connection(url: &str, key: &str) -> String {
    format!("AccountName={AZURE_ACCOUNT};AccountKey={key};BlobEndpoint={url}/{AZURE_ACCOUNT}")
}

fn make_bucket(root: &Path) {
    std::fs::create_dir_all(root.join(BUCKET)).expect("the bucket's directory");
}
