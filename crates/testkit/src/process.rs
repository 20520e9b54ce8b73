//! Starts and ends a server process for one test. Also runs code without root's privileges, and
//! records tests that were not run because they need root.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix_futex_sync::Mutex;

use crate::wait::{until, wait_limit};

/// Range of ports for test servers. Linux assigns only higher ports to connections.
const PORTS: Range<u16> = 20_000..32_000;

/// A running server. Dropping this value kills exactly this process and waits for its end.
#[derive(Debug)]
pub struct Process {
    child: Child,
    address: SocketAddr,
    scheme: &'static str,
}

impl Process {
    /// Starts `program` and waits until it answers. `configure` gets a free address to listen on,
    /// and adds the program's arguments.
    ///
    /// # Panics
    /// The program is not installed, ends at once, or does not answer in time.
    pub fn start(program: &str, configure: impl FnOnce(&mut Command, SocketAddr)) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let mut command = Command::new(find(program));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        configure(&mut command, address);
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {program}: {error}"));
        let mut process = Self { child, address, scheme: "http" };
        until(&format!("{program} answers on {address}"), || {
            if let Some(status) = process.child.try_wait().expect("a child to ask") {
                panic!("{program} ended at once: {status}; run {command:?} by hand to see why");
            }
            answers(address)
        });
        process
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the address on which the process listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the server, without a `/` at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Returns the same process with a URL that begins with `https`.
    pub(crate) fn over_tls(self) -> Self {
        let mut process = self;
        process.scheme = "https";
        process
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The call fails if the process has ended already. `wait` then returns at once.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// True if a server at `address` sends any byte. A successful connection is not enough: MinIO first
/// listens on its port to check that the port is free, and closes it again before it serves
/// (`checkPortAvailability` in its cmd/net.go).
fn answers(address: SocketAddr) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(wait_limit()))?;
        // Any HTTP or TLS server responds to this. An SSH server sends its version first.
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        stream.read_exact(&mut [0])
    };
    ask().is_ok()
}

/// Finds a free port that no other test gets while this process lives. The system does not assign
/// the port to connections.
///
/// # Panics
/// All ports are taken.
#[must_use]
pub fn free_port() -> u16 {
    static RESERVED: Mutex<Vec<File>> = Mutex::new(Vec::new());
    // The lock files of one user may not be accessible to another, so each user begins with other
    // ports.
    let user = rustix::process::geteuid().as_raw();
    let first = PORTS.start + u16::try_from(user % 12).expect("a small number") * 1000;
    let directory = std::env::temp_dir().join(format!("firstbyte-test-ports-{user}"));
    std::fs::create_dir_all(&directory).expect("a directory for the locks of ports");
    let mut reserved = RESERVED.lock();
    for port in (first..PORTS.end).chain(PORTS.start..first) {
        let lock = File::create(directory.join(port.to_string())).expect("a file for the lock of a port");
        // Checked by connecting, because a test listener could be inherited by another thread's
        // child process, which keeps it until it executes its program. The listener could then be
        // mistaken for the server.
        if lock.try_lock().is_ok() && TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            reserved.push(lock);
            return port;
        }
    }
    panic!("all ports of {PORTS:?} are taken");
}

/// Finds a program on `PATH`, in Debian's directory for daemons, in that of `go install`, or in
/// those of the tests' packages from PyPI and npm.
fn find(program: &str) -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv");
    let (pypi, npm) = (packages.join("servers"), packages.join("azurite/node_modules/.bin"));
    std::env::split_paths(&path)
        .chain([home.join("go/bin"), "/usr/sbin".into(), "/usr/local/bin".into(), pypi, npm])
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| {
            panic!("{program} is not installed; `scripts/need.sh servers` (part of `make test`) installs it")
        })
}

/// Runs `work` on a thread without root's privileges, so that file permissions apply even if root
/// runs the tests.
///
/// # Panics
/// `work` panics, or the thread may not change its user.
pub fn unprivileged<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let run = || {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::fs::Uid::from_raw(65534);
                // The call affects only the current thread, which ends after `work`.
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            work()
        };
        scope.spawn(run).join().unwrap()
    })
}

/// True if a test that needs root cannot run: `if lacks_root() { return; }`. If the environment
/// variable `FIRSTBYTE_NOT_RUN` names a file, a line with the test's name is appended to the file.
/// `make test` prints these lines at its end.
///
/// # Panics
/// The file cannot be written.
#[must_use]
#[track_caller]
pub fn lacks_root() -> bool {
    if rustix::process::geteuid().is_root() {
        return false;
    }
    let thread = std::thread::current();
    // If all tests run on one thread, the thread's name is not that of the test.
    let place = std::panic::Location::caller();
    let test = thread.name().filter(|name| *name != "main").map_or(place.to_string(), str::to_owned);
    let line = format!("not run: {test}: needs root\n");
    eprint!("{line}");
    if let Some(list) = std::env::var_os("FIRSTBYTE_NOT_RUN") {
        let opened = File::options().append(true).create(true).open(list);
        // One write call for the whole line, so that lines of other processes do not mix with it.
        opened.and_then(|mut list| list.write_all(line.as_bytes())).expect("the list of tests not run");
    }
    true
}
