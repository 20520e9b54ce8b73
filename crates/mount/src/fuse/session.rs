//! Opens the connection to the kernel, serves it with a few threads, and asks the kernel to drop
//! unused inodes (FORGET).

use std::ffi::OsStr;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use fuser::{BackgroundSession, Config, INodeNo, MountOption, Notifier, Session, SessionACL};
use rustix_futex_sync::RwLock;

use super::Fuse;
use super::opening::{FileOpener, PassthroughFile};
use super::prune::InodePruner;
use super::splice::ReplySplicer;
use crate::filesystem::FileSystem;
use crate::handles::HandleTable;
use crate::inodes::Fullness;
use crate::options::AllowedUsers;
use crate::reader::OpenFile;

/// Minimum and maximum number of threads that receive requests. None of them waits for a network.
/// With two threads, one can look up names while the other copies bytes; more than four only
/// compete for the kernel's queue. Each thread has a buffer of 16 MiB, which is meant for writes.
/// The mount is read-only, so only one page of the buffer is used.
const THREADS: RangeInclusive<usize> = 2..=4;
/// Time to wait for the kernel's FORGET after a request, and the interval of checks.
const FORGET_WAIT: Duration = Duration::from_millis(50);
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Pause before the next round of requests, if the kernel still holds too many inodes.
const ROUND_PAUSE: Duration = Duration::from_millis(200);

/// A mount that is being served.
pub(crate) struct ServedMount(BackgroundSession);

impl ServedMount {
    /// Waits until the file system is unmounted and no file below it is open.
    pub(crate) fn join(self) -> io::Result<()> {
        self.0.join()
    }
}

/// Asks the kernel to forget inodes: through the [`InodePruner`] if the kernel supports its
/// message, otherwise by invalidating their names.
#[derive(Default)]
pub(super) struct InodeForgetter {
    notifier: OnceLock<Notifier>,
    pruning: InodePruner,
    is_running: AtomicBool,
}

impl InodeForgetter {
    /// Asks the kernel to forget unused inodes. The kernel keeps inodes as long as it has memory,
    /// and this process has to keep them as long. Without such requests, `ls -lR` of a bucket would
    /// leave an inode for every object.
    fn forget(&self, core: &FileSystem, handles: &HandleTable<OpenFile, PassthroughFile>) {
        let most = core.inodes.bounds().soft;
        // A listing may add inodes while the loop runs, and may be the last request for a long
        // time. So the loop repeats until there are few inodes. It asks for each inode only once.
        let mut last_asked = 0;
        loop {
            let len = core.inodes.len();
            let oldest = core.inodes.oldest(last_asked, len.saturating_sub(most / 8 * 7));
            let Some(last) = oldest.last().filter(|_| len > most) else { break };
            last_asked = *last;
            let expected = len - oldest.len() / 2;
            if self.pruning.forget(&oldest) {
                wait_until(|| core.inodes.len() <= expected);
                continue;
            }
            let Some(notifier) = self.notifier.get() else { break };
            for ino in oldest.into_iter().filter(|ino| !handles.is_open(*ino)) {
                if let Some((directory, name)) = core.inodes.directory_and_name(ino) {
                    // The call fails if the kernel has already forgotten the name.
                    let _ = notifier.inval_entry(INodeNo(directory), OsStr::from_bytes(&name));
                }
            }
            wait_until(|| core.inodes.len() <= expected);
        }
        if core.inodes.len() > most {
            // The inodes that remain are in use.
            thread::sleep(ROUND_PAUSE);
        }
    }
}

/// Waits a moment for the kernel's FORGET requests. Without the wait, the kernel would be asked
/// again for inodes whose FORGET is on its way.
fn wait_until(arrived: impl Fn() -> bool) {
    let begun = Instant::now();
    while begun.elapsed() < FORGET_WAIT && !arrived() {
        thread::sleep(POLL_INTERVAL);
    }
}

impl Fuse {
    /// Serves a mount that was made on `device`, on threads of its own.
    pub(crate) fn serve(self, device: OwnedFd, access: AllowedUsers) -> io::Result<ServedMount> {
        let config = config(access)?;
        let shared = self.shared();
        serving(Session::from_fd(self, device, config.acl, config)?, &shared)
    }

    /// Mounts with the help of `fusermount3`, and serves the mount.
    pub(crate) fn mount(
        self,
        directory: &Path,
        source: &str,
        access: AllowedUsers,
    ) -> io::Result<ServedMount> {
        let mut config = config(access)?;
        let shared = self.shared();
        let name = MountOption::FSName(source.replace(',', "_"));
        let kind = MountOption::Subtype("firstbyte".into());
        config.mount_options =
            vec![MountOption::RO, MountOption::NoAtime, MountOption::DefaultPermissions, name, kind];
        serving(Session::new(self, directory, &config)?, &shared)
    }

    /// Returns the parts that use the connection to the kernel directly. They get it once it
    /// exists.
    fn shared(&self) -> ConnectionUsers {
        ConnectionUsers {
            forgetting: Arc::clone(&self.forgetting),
            splicing: Arc::clone(&self.splicing),
            opening: Arc::clone(&self.opening),
        }
    }

    /// Asks the kernel to forget the oldest inodes, if it holds many.
    pub(super) fn bound_memory(&self) {
        if self.core.inodes.fullness() == Fullness::Room
            || self.forgetting.is_running.swap(true, Ordering::Relaxed)
        {
            return;
        }
        let (core, handles, forgetting) =
            (Arc::clone(&self.core), Arc::clone(&self.opening.handles), Arc::clone(&self.forgetting));
        // This work must not run on a thread that answers requests: the kernel may have locked the
        // directory while it waits for a reply from such a thread.
        self.pool.run(move || {
            forgetting.forget(&core, &handles);
            forgetting.is_running.store(false, Ordering::Relaxed);
        });
    }
}

/// The parts of a file system that use the connection directly.
struct ConnectionUsers {
    forgetting: Arc<InodeForgetter>,
    splicing: Arc<ReplySplicer>,
    opening: Arc<FileOpener>,
}

fn serving(session: Session<Fuse>, connected: &ConnectionUsers) -> io::Result<ServedMount> {
    connected.splicing.set_connection(session.as_fd());
    connected.forgetting.pruning.set_connection(session.as_fd());
    // Setting cannot fail, because no other code sets the notifiers.
    let _ = connected.forgetting.notifier.set(session.notifier());
    let _ = connected.opening.notifier.set(session.notifier());
    Ok(ServedMount(session.spawn()?))
}

fn config(access: AllowedUsers) -> io::Result<Config> {
    let mut config = Config::default();
    config.acl = match access {
        AllowedUsers::Owner => SessionACL::Owner,
        AllowedUsers::Everyone => SessionACL::All,
    };
    let processors = thread::available_parallelism().map_or(2, usize::from);
    config.n_threads = Some(startable_threads(processors.clamp(*THREADS.start(), *THREADS.end()))?);
    // A reply must be written to the descriptor from which the request was read. If all threads
    // share one descriptor, it is known.
    config.clone_fd = false;
    Ok(config)
}

/// Returns how many of the `wanted` threads this process may start, besides one more that waits for
/// them. The session starts its threads itself, and if one of them cannot be started, the mount
/// just ends. So the limit is tested before.
fn startable_threads(wanted: usize) -> io::Result<usize> {
    let hold = Arc::new(RwLock::new(()));
    let held = hold.write();
    let mut started = Vec::new();
    let mut refused = None;
    while started.len() <= wanted && refused.is_none() {
        let hold = Arc::clone(&hold);
        match thread::Builder::new().spawn(move || drop(hold.read())) {
            Ok(thread) => started.push(thread),
            Err(error) => refused = Some(error),
        }
    }
    drop(held);
    let count = started.len();
    started.into_iter().for_each(|thread| drop(thread.join()));
    match refused {
        Some(error) if count < 2 => Err(error),
        _ => Ok(count - 1),
    }
}
