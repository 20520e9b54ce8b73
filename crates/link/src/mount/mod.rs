//! The second form of a link: a slow file system. It shows a directory at other directories, each
//! of which is one client. It delays and counts requests and limits the rate of reads.
//!
//! It emulates network storage on which names and attributes cost a round trip, without caches of
//! servers and bundled attributes. Each mount has a page cache of its own, as each machine has.
//! Imports go downwards: `fuse` -> `mirror`, `wire` -> `meter`.

mod counters;
mod fuse;
mod meter;
mod mirror;
mod place;
mod wire;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use firstbyte_location::shown;

use crate::error::{Error, Result};
use crate::rate::{Burst, Rate};
use counters::MountCounters;
pub use counters::MountSnapshot;
use fuse::{Client, Serving};
use meter::Rates;
use mirror::Mirror;
use wire::Wire;

/// The type of these mounts in the mount table, after `fuse.`.
const SUBTYPE: &str = "firstbyte-link";

/// The longest time to wait for a mount to end. The kernel needs no longer if nothing below it is
/// open.
const ENDING: Duration = Duration::from_millis(500);

/// A slow file system. [`SlowFsConfig::new`] has no delay and no limits.
#[derive(Clone, Debug)]
pub struct SlowFsConfig {
    /// The directory to show.
    pub to: PathBuf,
    /// Where to mount it. Each mount is a client.
    pub mounts: Vec<PathBuf>,
    /// Delay of each request.
    pub rtt: Duration,
    /// Rate of the data that all clients read.
    pub rate: Option<Rate>,
    /// A higher total rate for a while.
    pub burst: Option<Burst>,
    /// Rate of the data that one client reads.
    pub per_client: Option<Rate>,
}

impl SlowFsConfig {
    /// A mirror of the directory `to` at each of `mounts`.
    #[must_use]
    pub fn new(to: impl Into<PathBuf>, mounts: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        let mounts = mounts.into_iter().map(Into::into).collect();
        Self { to: to.into(), mounts, rtt: Duration::ZERO, rate: None, burst: None, per_client: None }
    }
}

/// Describes the emulated storage, for people.
impl fmt::Display for SlowFsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stand-in for network storage: ")?;
        crate::config::describe(f, self.rtt, self.rate, self.burst, self.per_client, "a mount")
    }
}

/// Mounts that are being served. They are unmounted when it is dropped.
#[derive(Debug)]
pub struct SlowFs {
    mounts: Vec<Mounted>,
    wire: Arc<Wire>,
    ended: Receiver<()>,
    /// Mounts that have not ended.
    left: usize,
}

#[derive(Debug)]
struct Mounted {
    directory: PathBuf,
    counters: Arc<MountCounters>,
}

impl SlowFs {
    /// Mounts; returns when all can be used.
    ///
    /// # Errors
    /// The burst has no lower total rate, a directory cannot be shown or mounted at, or this
    /// process may not mount. Nothing is mounted then.
    pub fn start(config: &SlowFsConfig) -> Result<Self> {
        Burst::check(config.burst, config.rate)?;
        let source = place::source(&config.to)?;
        let mut directories = Vec::new();
        for path in &config.mounts {
            directories.push(place::target(path, &source, &directories)?);
        }
        place::device()?;
        let rates = Rates { total: config.rate, burst: config.burst, client: config.per_client };
        let run = |source| Error::Run { source };
        let wire = Arc::new(Wire::start(config.rtt, rates, directories.len()).map_err(run)?);
        let (send, ended) = mpsc::channel();
        let mut fs = Self { mounts: Vec::new(), wire, ended, left: 0 };
        for directory in directories {
            let unreadable = |error| Error::place(&config.to, format!("cannot be shown: {error}"));
            let mirror = Arc::new(Mirror::new(&source).map_err(unreadable)?);
            let counters = Arc::new(MountCounters::default());
            let (wire, number) = (Arc::clone(&fs.wire), fs.mounts.len());
            let client = Client { mirror, wire, counters: Arc::clone(&counters), number };
            let name = format!("link:{}", shown(&source));
            let serving = client.mount(&directory, &name, SUBTYPE).map_err(|source| Error::Mount {
                path: directory.clone(),
                what: "cannot be mounted at",
                source,
            })?;
            place::read_ahead(&directory);
            fs.mounts.push(Mounted { directory, counters });
            fs.left += 1;
            let send = send.clone();
            thread::Builder::new().name("mounted".into()).spawn(move || wait(serving, &send)).map_err(run)?;
        }
        Ok(fs)
    }

    /// The directories, by their real paths, in the order of the configuration.
    pub fn directories(&self) -> impl Iterator<Item = &std::path::Path> {
        self.mounts.iter().map(|mounted| mounted.directory.as_path())
    }

    /// The counters of each mount so far.
    #[must_use]
    pub fn counters(&self) -> Vec<MountSnapshot> {
        self.mounts.iter().map(|mounted| mounted.counters.snapshot(mounted.directory.clone())).collect()
    }

    /// Waits until all are unmounted, by any program, but no longer than `patience`. Returns
    /// whether they are.
    #[must_use = "they may still be mounted"]
    pub fn wait(&mut self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        while self.left > 0
            && self.ended.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok()
        {
            self.left -= 1;
        }
        self.left == 0
    }

    /// Unmounts all. Files that are open below them fail once this process ends.
    ///
    /// # Errors
    /// The first error; the others are unmounted nevertheless.
    pub fn unmount(&mut self) -> Result<()> {
        let mut result = Ok(());
        if self.left > 0 {
            for mounted in &self.mounts {
                let path = &mounted.directory;
                match place::detach(path) {
                    // Another program was faster.
                    Ok(()) => {}
                    Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {}
                    Err(source) if result.is_ok() => {
                        result =
                            Err(Error::Mount { path: path.clone(), what: "cannot be unmounted", source });
                    }
                    Err(_) => {}
                }
            }
            if !self.wait(ENDING) {
                tracing::debug!("files below a mount are still open");
            }
        }
        self.wire.stop();
        result
    }
}

impl Drop for SlowFs {
    fn drop(&mut self) {
        if let Err(error) = self.unmount() {
            tracing::warn!("{error}");
        }
    }
}

/// Reports the end of a mount. If files below it stay open, that is the end of the process.
fn wait(serving: Serving, ended: &mpsc::Sender<()>) {
    if let Err(error) = serving.join() {
        tracing::warn!(%error, "a mount was lost");
    }
    // The receiver is gone where the link is over already.
    let _ = ended.send(());
}
