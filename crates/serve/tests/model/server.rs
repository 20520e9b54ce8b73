//! A server in a process of its own, which can be killed at any moment and started again at the
//! same address: this test program, run again with the variable [`SERVE`].

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use firstbyte_serve::{Config, Writing};
use firstbyte_testkit::until;

/// Holds `ADDRESS DIRECTORY` where this program is to be the server.
const SERVE: &str = "FIRSTBYTE_TEST_SERVE";

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) directory: PathBuf,
    /// The shell commands before the server's, such as limits on it.
    limits: &'static str,
    child: Mutex<Child>,
    starts: AtomicU64,
}

impl Server {
    pub(crate) fn start(directory: &Path, limits: &'static str) -> Self {
        // Free now; a server that finds it taken ends at once, and the test says so.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Mutex::new(spawn(directory, address, limits));
        Self { address, directory: directory.to_owned(), limits, child, starts: AtomicU64::new(1) }
    }

    /// How often it was started. What was asked of an earlier start has ended.
    pub(crate) fn starts(&self) -> u64 {
        self.starts.load(SeqCst)
    }

    /// `kill -9`, and a start.
    pub(crate) fn kill_and_start(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        *child = spawn(&self.directory, self.address, self.limits);
        self.starts.fetch_add(1, SeqCst);
    }

    /// Waits until the server was started again after `start`.
    pub(crate) fn wait_for_start_after(&self, start: u64) {
        until("the server answers, or is killed and started again", || self.starts() > start);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap();
        // It may have ended by itself: then there is nothing to kill, and waiting returns at once.
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn spawn(directory: &Path, address: SocketAddr, limits: &str) -> Child {
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(format!("{limits} exec \"$0\" \"$@\""))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "server::a_server_answers_until_it_is_stopped", "--nocapture"])
        .env(SERVE, format!("{address} {}", directory.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("the server listens", || {
        assert_eq!(child.try_wait().unwrap(), None, "the server ended by itself");
        // Without a listener, a socket may be given the very port it connects to, and meet itself.
        TcpStream::connect(address).is_ok_and(|stream| stream.local_addr().ok() != stream.peer_addr().ok())
    });
    child
}

/// Serves until it is killed where [`SERVE`] says so; otherwise starts a server, asks it, and stops
/// it.
#[test]
fn a_server_answers_until_it_is_stopped() {
    let told = std::env::var(SERVE).ok();
    let own = tempfile::tempdir().unwrap();
    let directory = told.as_ref().map_or(own.path(), |told| Path::new(told.split_once(' ').unwrap().1));
    let mut config = Config::new(directory);
    config.limits.smallest_part = 1;
    config.writing = Writing::Allowed;
    if let Some(told) = &told {
        config.listen = told.split_once(' ').unwrap().0.parse().unwrap();
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
