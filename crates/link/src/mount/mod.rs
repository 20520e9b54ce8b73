//! Emulates a slow file system, the second form of a link. It mirrors a directory at several mount
//! points, one for each client. It delays and counts requests, and limits the rate of reads.
//!
//! The file system behaves like network storage on which names and attributes cost a round trip
//! each, and whose server has no caches. Each mount has its own page cache, as a separate machine
//! would. Imports go downwards: `fuse` -> `mirror`, `wire` -> `meter`.

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
use crate::rate::{BurstBucket, LinkRate};
use counters::MountCounters;
pub use counters::MountSnapshot;
use fuse::{MirrorClient, ServedMirror};
use meter::MeterRates;
use mirror::Mirror;
use wire::ReplyWire;

/// Type of these mounts in the mount table, after `fuse.`.
const SUBTYPE: &str = "firstbyte-link";

/// Maximum wait for the end of a mount. The kernel needs less time if no file on the mount is open.
const UNMOUNT_WAIT: Duration = Duration::from_millis(500);

/// The settings of a slow file system. [`SlowFsConfig::new`] sets no delay and no limits.
#[derive(Clone, Debug)]
pub struct SlowFsConfig {
    /// The directory to mirror.
    pub to: PathBuf,
    /// The mount points, one for each client.
    pub mounts: Vec<PathBuf>,
    /// The delay of each request.
    pub rtt: Duration,
    /// The rate at which all clients together read data.
    pub rate: Option<LinkRate>,
    /// Rate and size of a burst above the total rate.
    pub burst: Option<BurstBucket>,
    /// The rate at which one client reads data.
    pub per_client: Option<LinkRate>,
}

impl SlowFsConfig {
    /// Returns settings that mirror the directory `to` at each of `mounts`.
    #[must_use]
    pub fn new(to: impl Into<PathBuf>, mounts: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        let mounts = mounts.into_iter().map(Into::into).collect();
        Self { to: to.into(), mounts, rtt: Duration::ZERO, rate: None, burst: None, per_client: None }
    }
}

impl fmt::Display for SlowFsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stand-in for network storage: ")?;
        crate::config::describe(f, self.rtt, self.rate, self.burst, self.per_client, "a mount")
    }
}

/// The running mounts of a mirrored directory. Dropping the value unmounts them.
#[derive(Debug)]
pub struct SlowFs {
    mounts: Vec<Mounted>,
    wire: Arc<ReplyWire>,
    ended: Receiver<()>,
    /// Number of mounts that have not ended yet.
    left: usize,
}

#[derive(Debug)]
struct Mounted {
    directory: PathBuf,
    counters: Arc<MountCounters>,
}

impl SlowFs {
    /// Mounts all mount points. Returns when all mounts are usable.
    ///
    /// # Errors
    /// A burst is given without a total rate, or its rate is below the total rate. A directory
    /// cannot be mirrored, or cannot be a mount point. Or this process may not mount. In all cases
    /// nothing is mounted.
    pub fn start(config: &SlowFsConfig) -> Result<Self> {
        BurstBucket::check(config.burst, config.rate)?;
        let source = place::source(&config.to)?;
        let mut directories = Vec::new();
        for path in &config.mounts {
            directories.push(place::target(path, &source, &directories)?);
        }
        place::check_device()?;
        let rates = MeterRates { total: config.rate, burst: config.burst, client: config.per_client };
        let run = |source| Error::Run { source };
        let wire = Arc::new(ReplyWire::start(config.rtt, rates, directories.len()).map_err(run)?);
        let (send, ended) = mpsc::channel();
        let mut fs = Self { mounts: Vec::new(), wire, ended, left: 0 };
        for directory in directories {
            let unreadable = |error| Error::place(&config.to, format!("cannot be shown: {error}"));
            let mirror = Arc::new(Mirror::new(&source).map_err(unreadable)?);
            let counters = Arc::new(MountCounters::default());
            let (wire, number) = (Arc::clone(&fs.wire), fs.mounts.len());
            let client = MirrorClient { mirror, wire, counters: Arc::clone(&counters), number };
            let name = format!("link:{}", shown(&source));
            let serving = client.mount(&directory, &name, SUBTYPE).map_err(|source| Error::Mount {
                path: directory.clone(),
                what: "cannot be mounted at",
                source,
            })?;
            place::set_read_ahead(&directory);
            fs.mounts.push(Mounted { directory, counters });
            fs.left += 1;
            let send = send.clone();
            thread::Builder::new().name("mounted".into()).spawn(move || wait(serving, &send)).map_err(run)?;
        }
        Ok(fs)
    }

    /// Returns the real paths of the mount points, in the order of the configuration.
    pub fn directories(&self) -> impl Iterator<Item = &std::path::Path> {
        self.mounts.iter().map(|mounted| mounted.directory.as_path())
    }

    /// Returns the counters of each mount so far.
    #[must_use]
    pub fn counters(&self) -> Vec<MountSnapshot> {
        self.mounts.iter().map(|mounted| mounted.counters.snapshot(mounted.directory.clone())).collect()
    }

    /// Waits until all mounts are unmounted, by whatever program, but no longer than `patience`.
    /// Returns true if all are unmounted.
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

    /// Unmounts all mounts. Files that are still open will fail when this process ends.
    ///
    /// # Errors
    /// The first error. The other mounts are still unmounted.
    pub fn unmount(&mut self) -> Result<()> {
        let mut result = Ok(());
        if self.left > 0 {
            for mounted in &self.mounts {
                let path = &mounted.directory;
                match place::detach(path) {
                    Ok(()) => {}
                    // Another program has already unmounted the directory.
                    Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {}
                    Err(source) if result.is_ok() => {
                        result =
                            Err(Error::Mount { path: path.clone(), what: "cannot be unmounted", source });
                    }
                    Err(_) => {}
                }
            }
            if !self.wait(UNMOUNT_WAIT) {
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

/// Waits for the end of a mount, and reports the end. Open files keep a mount alive until this
/// process ends.
fn wait(serving: ServedMirror, ended: &mpsc::Sender<()>) {
    if let Err(error) = serving.join() {
        tracing::warn!(%error, "a mount was lost");
    }
    // Fails only if the link has ended and dropped the receiver.
    let _ = ended.send(());
}
