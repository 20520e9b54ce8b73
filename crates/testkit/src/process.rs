//! A server run for one test, and ended with it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take to listen: far more than any needs, on a busy machine too.
const START: Duration = Duration::from_secs(60);

/// A running server; dropping it kills exactly this process and waits for it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    address: SocketAddr,
    scheme: &'static str,
}

impl Process {
    /// Starts `program` as `configure` says, told a free port, and waits until it listens there. `what` says how to get the program.
    ///
    /// # Panics
    /// When the program is not installed, ends at once, or does not listen in time.
    pub fn start(program: &str, configure: impl FnOnce(&mut Command, SocketAddr)) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let mut command = Command::new(find(program));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        configure(&mut command, address);
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {program}: {error}"));
        let mut process = Self { child, address, scheme: "http" };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = process.child.try_wait().expect("a child to ask") {
                panic!("{program} ended at once: {status}; run {command:?} by hand to see why");
            }
            assert!(started.elapsed() < START, "{program} does not listen on {address} after {START:?}");
            thread::sleep(Duration::from_millis(5));
        }
        process
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL, without a `/` at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// The same process, whose URL begins with `https`.
    pub(crate) fn over_tls(self) -> Self {
        let mut process = self;
        process.scheme = "https";
        process
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself: then there is nothing to kill, and waiting returns at once.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nobody listens on now. Between this and a server's own bind somebody else could take it; the server
/// would end at once then, and the test say so.
///
/// # Panics
/// When the machine has no free port.
#[must_use]
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("its number").port()
}

/// The program on `PATH`, where Debian keeps daemons, or where `go install` puts what it builds.
fn find(program: &str) -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([home.join("go/bin"), "/usr/sbin".into(), "/usr/local/bin".into()])
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| {
            panic!("{program} is not installed; `scripts/need.sh servers` (part of `make test`) installs it")
        })
}
