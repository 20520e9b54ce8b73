//! Mounts a location, serves it, and unmounts it. The command line mounts in two steps: `prepare`
//! waits for the store, and `attach` attaches the mount to the directory.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firstbyte_hydrate::Hydrator;
use firstbyte_location::Location;
use firstbyte_store::{Moment, Store};
use rustix::mount::UnmountFlags;
use rustix_futex_sync::Mutex;

use crate::blocking_pool::BlockingPool;
use crate::child::Child;
use crate::control::ControlListener;
use crate::error::{Error, Result};
use crate::filesystem::{FIRST_PAGE_NAMES, FileSystem};
use crate::fuse::{Fuse, Passthrough, ServedMount};
use crate::options::{MountOptions, PassthroughUse};
use crate::source::{Children, MountSource};
use crate::{metrics, mountpoint, replay};

/// Read-ahead of the kernel, KiB. A link with 400 MB/s and a round trip of 30 ms needs 12 MB in
/// flight, which the hydration engine requests by itself. The kernel only has to request the next
/// piece before its reader needs it.
const READ_AHEAD_KIB: u32 = 1024;

/// A mount that is being served.
pub struct Mount {
    directory: PathBuf,
    metrics: Option<SocketAddr>,
    served: Mutex<Option<Served>>,
}

/// Parts of a served mount for which [`Mount::wait`] waits, and which it then drops.
struct Served {
    session: ServedMount,
    control: Option<ControlListener>,
    core: Arc<FileSystem>,
}

/// A mount that is ready except for its hydration engine and the kernel.
pub struct PreparedMount {
    directory: PathBuf,
    device: OwnedFd,
    source: Arc<MountSource>,
    /// The first names of the root's listing, and the time at which the listing began.
    children: Option<(Vec<Child>, Moment)>,
    /// The location as the mount table shows it.
    name: String,
    /// The listening socket of the metrics server.
    metrics: Option<TcpListener>,
    options: MountOptions,
}

impl PreparedMount {
    /// Mounts the location, with reads through `hydrator`. Waits for nothing outside this machine.
    ///
    /// # Errors
    /// Mounting is not possible.
    pub fn attach(self, hydrator: Hydrator) -> Result<Mount> {
        let Self { directory, device, source, children, name, metrics, options } = self;
        let core = Arc::new(FileSystem::new(source, hydrator, &options)?);
        if let Some((children, begun)) = children {
            core.keep(b"", children, begun);
        }
        let metrics = metrics.map(|listener| metrics::serve(listener, &core)).transpose()?;
        let control =
            options.control.as_deref().map(|path| ControlListener::start(path, &core)).transpose()?;
        let fuse =
            Fuse::new(Arc::clone(&core), BlockingPool::new(options.deadline), passthrough(&core, &options));
        let session = if mountpoint::attach(&device, &directory, &name, options.access)? {
            fuse.serve(device, options.access).map_err(|error| {
                // The mount is removed, because no thread answers its requests.
                let _ = mountpoint::detach(&directory, UnmountFlags::DETACH);
                Error::io(&directory, "cannot be served", error)
            })?
        } else {
            drop(device);
            by_helper(fuse, &directory, &name, &options)?
        };
        mountpoint::set_read_ahead(&directory, READ_AHEAD_KIB);
        if let Some(start) = options.replay.clone() {
            replay::begin(&core, start)?;
        }
        Ok(Mount { directory, metrics, served: Mutex::new(Some(Served { session, control, core })) })
    }
}

impl Mount {
    /// Mounts `location` at `directory`, with reads through `store` and `hydrator`. Returns when
    /// the mount can be used.
    ///
    /// # Errors
    /// The errors of [`prepare`](Self::prepare) and [`PreparedMount::attach`].
    pub fn start(
        store: Store,
        hydrator: Hydrator,
        location: &Location,
        directory: &Path,
        options: &MountOptions,
    ) -> Result<Self> {
        Self::prepare(store, location, directory, options)?.attach(hydrator)
    }

    /// Does all steps that wait for the store or are likely to fail. Nothing is mounted or written
    /// yet, but a mount that a dead daemon has left at the directory is removed.
    ///
    /// # Errors
    /// A mount at the directory would hide something, this process cannot mount, or the location
    /// does not exist.
    pub fn prepare(
        store: Store,
        location: &Location,
        directory: &Path,
        options: &MountOptions,
    ) -> Result<PreparedMount> {
        let directory = mountpoint::mounted_directory(directory)?;
        refuse_overlap(location, &directory)?;
        mountpoint::prepare(&directory, options.occupied)?;
        // The device is opened first, so that limits of this machine are reported before any
        // request is sent.
        let device = mountpoint::device(&directory)?;
        mountpoint::check_may_mount(&directory)?;
        let metrics = options.metrics.map(metrics::listen).transpose()?;
        let begun = Moment::now();
        let (source, children) = MountSource::open(store, location.clone(), options)?;
        let first = |children: Children| children.take(FIRST_PAGE_NAMES + 1).collect::<Result<Vec<_>>>();
        let children = children.map(first).transpose()?.map(|children| (children, begun));
        let name = mountpoint::shown(&location.to_string());
        Ok(PreparedMount { directory, device, source, children, name, metrics, options: options.clone() })
    }

    /// Returns the real path of the directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the address of the metrics server.
    #[must_use]
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// Unmounts the location. Open files can still be read until they are closed; after that,
    /// [`wait`](Self::wait) returns.
    ///
    /// # Errors
    /// The error of the unmount.
    pub fn stop(&self) -> Result<()> {
        mountpoint::unmount(&self.directory, mountpoint::UnmountMode::Lazy).map(drop)
    }

    /// Waits until the location was unmounted, by this or any other program, and no file below it
    /// is open. Then the cache is closed, unless a fetch is still running.
    ///
    /// # Errors
    /// The connection to the kernel broke.
    pub fn wait(&self) -> Result<()> {
        let served = self.served.lock().take();
        let Some(Served { session, control, core }) = served else { return Ok(()) };
        let ended = session.join();
        drop(control);
        if let Some(recorder) = &core.recorder {
            recorder.finish();
        }
        ended.map_err(|error| Error::io(&self.directory, "lost", error))
    }
}

/// Refuses a local source that contains the mount, or is below the mount. Reading such a source
/// would send requests to the mount itself, and this process would wait for itself.
fn refuse_overlap(location: &Location, directory: &Path) -> Result<()> {
    let Some(source) = location.as_local().and_then(|path| std::fs::canonicalize(path).ok()) else {
        return Ok(());
    };
    if directory.starts_with(&source) || source.starts_with(directory) {
        return Err(Error::Overlap { path: directory.to_owned(), source_path: source });
    }
    Ok(())
}

/// Decides how the kernel can read hydrated files directly. It cannot if there is no cache, or if
/// the options forbid it.
fn passthrough(core: &FileSystem, options: &MountOptions) -> Passthrough {
    match core.hydrator.cache() {
        Some(cache) if options.passthrough == PassthroughUse::WherePossible => {
            if mountpoint::is_stacked(cache.directory()) { Passthrough::Stacked } else { Passthrough::Plain }
        }
        _ => Passthrough::Off,
    }
}

fn by_helper(fuse: Fuse, directory: &Path, name: &str, options: &MountOptions) -> Result<ServedMount> {
    fuse.mount(directory, name, options.access)
        .map_err(|error| refused_by_helper(directory, &error.to_string()))
}

/// Converts the message of `fusermount3`.
fn refused_by_helper(directory: &Path, message: &str) -> Error {
    let (path, detail) = (directory.to_owned(), message.trim().to_owned());
    // The texts are those of util/fusermount.c in libfuse 3.14 (2026-11-28).
    let advice = match &detail {
        text if text.contains("user_allow_other") => "or leave --allow-other out",
        text if text.contains("no write access to mountpoint") => "name a directory that you can write to",
        text if text.contains("mount_max") => "or unmount another one",
        _ => return Error::NoPrivilege { path, detail },
    };
    Error::HelperRefused { path, detail, advice }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_the_helper_is_one_line_with_its_own_advice() {
        let line = |message| refused_by_helper(Path::new("/m"), message).to_string();
        let other = line(
            "fusermount3: option allow_other only allowed if 'user_allow_other' is set in /etc/fuse.conf\n",
        );
        assert!(other.ends_with("in /etc/fuse.conf; or leave --allow-other out"), "{other}");
        let place = line("fusermount3: user has no write access to mountpoint /m\n");
        assert!(!place.contains('\n') && !place.contains("install"), "{place}");
        assert!(line("fusermount3: mount failed: Operation not permitted\n").contains("install fuse3"));
    }

    #[test]
    fn a_local_source_and_its_mount_may_not_contain_each_other() {
        let scratch = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(scratch.path()).unwrap();
        for name in ["source/inside", "source-of-another-name", "link"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("source"), root.join("link/source")).unwrap();
        let refused = |source: &str, directory: &str| {
            let source = Location::Local(root.join(source));
            refuse_overlap(&source, &root.join(directory)).is_err()
        };
        assert!(refused("source", "source/inside") && refused("link/source", "source/inside"));
        assert!(refused("source", "source") && refused("source/inside", "source"));
        assert!(!refused("source", "source-of-another-name") && !refused("source", "link"));
        assert!(!refused("no-such-source", "source"));
    }
}
