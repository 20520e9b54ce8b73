//! Runs a server in a separate process, which can be killed at any moment and restarted at the same
//! address. The process is this test program, started again with the variable [`SERVE`]. The server
//! has both keys and TLS, or neither.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use firstbyte_serve::{Authentication, Config, ServerKeys, TlsFiles, WritePolicy};
use firstbyte_testkit::{Certificate, CertificateKind, until, wait_limit};
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::client::Stream;
use crate::signing::{KEY, SECRET};

/// Environment variable that makes this program the server: `ADDRESS CERTIFICATE DIRECTORY`. The
/// certificate is `-` for an open server without TLS.
const SERVE: &str = "FIRSTBYTE_TEST_SERVE";

/// Keys, and a certificate that the client trusts.
pub(crate) struct Security {
    certificate: Certificate,
    client: Arc<ClientConfig>,
}

impl Security {
    /// Makes a certificate for a server with the single key of `signing`.
    pub(crate) fn make() -> Self {
        let certificate = Certificate::make(CertificateKind::Leaf);
        let client = certificate.client();
        Self { certificate, client }
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// Keys and certificate; `None` for an open server without TLS.
    pub(crate) security: Option<Security>,
    pub(crate) directory: PathBuf,
    /// Shell commands, such as limits, that run before the server.
    limits: &'static str,
    child: Mutex<Child>,
    starts: AtomicU64,
}

impl Server {
    pub(crate) fn start(directory: &Path, limits: &'static str, security: Option<Security>) -> Self {
        // The address is free now. If another process takes the address before the server starts,
        // the server ends at once and the test reports that.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Mutex::new(spawn(directory, address, limits, security.as_ref()));
        let directory = directory.to_owned();
        Self { address, security, directory, limits, child, starts: AtomicU64::new(1) }
    }

    /// Connects to the server, over TLS if it has a certificate.
    pub(crate) fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(wait_limit()))?;
        stream.set_nodelay(true)?;
        let Some(security) = &self.security else { return Ok(Box::new(stream)) };
        let name = "localhost".try_into().unwrap();
        let session = ClientConnection::new(security.client.clone(), name).unwrap();
        Ok(Box::new(StreamOwned::new(session, stream)))
    }

    /// Returns the number of starts. Requests to earlier starts have all ended.
    pub(crate) fn starts(&self) -> u64 {
        self.starts.load(SeqCst)
    }

    /// Kills the server (`kill -9`) and starts it again.
    pub(crate) fn kill_and_start(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        *child = spawn(&self.directory, self.address, self.limits, self.security.as_ref());
        self.starts.fetch_add(1, SeqCst);
    }

    /// Waits until the server has been started again after start number `start`.
    pub(crate) fn wait_for_start_after(&self, start: u64) {
        until("the server answers, or is killed and started again", || self.starts() > start);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap();
        // The server may have ended already. In that case the kill fails, and the wait returns at
        // once.
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn spawn(directory: &Path, address: SocketAddr, limits: &str, security: Option<&Security>) -> Child {
    let certificate = security.map_or(Path::new("-"), |security| security.certificate.directory());
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(format!("{limits} exec \"$0\" \"$@\""))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "server::a_server_answers_until_it_is_stopped", "--nocapture"])
        .env(SERVE, format!("{address} {} {}", certificate.display(), directory.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("the server listens", || {
        assert_eq!(child.try_wait().unwrap(), None, "the server ended by itself");
        // Without a listener, a socket may get as its own port the one that it connects to, and so
        // connect to itself.
        TcpStream::connect(address).is_ok_and(|stream| stream.local_addr().ok() != stream.peer_addr().ok())
    });
    child
}

/// Serves until killed if [`SERVE`] is set. Otherwise starts a server, sends a request, and stops
/// it.
#[test]
fn a_server_answers_until_it_is_stopped() {
    let told = std::env::var(SERVE).ok();
    let told: Option<Vec<&str>> = told.as_ref().map(|told| told.splitn(3, ' ').collect());
    let own = tempfile::tempdir().unwrap();
    let directory = told.as_ref().map_or(own.path(), |told| Path::new(told[2]));
    let mut config = Config::new(directory);
    config.limits.smallest_part = 1;
    config.writing = WritePolicy::Allowed;
    if let Some(told) = &told {
        config.listen = told[0].parse().unwrap();
        if told[1] != "-" {
            let at = |name| Path::new(told[1]).join(name);
            config.tls = Some(TlsFiles { certificate: at("public.crt"), key: at("private.key") });
            let keys = ServerKeys::parse(&format!("{KEY} {SECRET} write\n")).unwrap();
            config.authentication = Authentication::Keys(keys);
        }
    }
    let running = firstbyte_serve::Server::start(config).unwrap();
    while told.is_some() {
        std::thread::park();
    }
    let address = running.address();
    assert!(TcpStream::connect(address).is_ok());
    running.stop();
    assert!(TcpStream::connect(address).is_err());
}
