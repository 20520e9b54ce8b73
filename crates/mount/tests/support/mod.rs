//! Mounts a real location for one test.

pub mod keys;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use firstbyte_hydrate::cache::{Cache, CacheLimits};
use firstbyte_hydrate::{HydrationSettings, Hydrator};
use firstbyte_location::Location;
use firstbyte_mount::{Mount, MountOptions};
use firstbyte_store::Store;
use firstbyte_testkit::{Backend, Subject, scratch};
use tempfile::TempDir;

/// A mounted location, which is unmounted when this value is dropped.
pub struct Mounted {
    pub subject: Subject,
    pub mount: Mount,
    pub directory: TempDir,
    cache: TempDir,
}

/// Returns options for tests. Names are valid for a minute, so that no test depends on its own
/// speed.
pub fn options() -> MountOptions {
    MountOptions { metadata_ttl: Duration::from_secs(60), ..MountOptions::default() }
}

impl Mounted {
    pub fn start(place: Backend, plant: impl FnOnce(&Subject)) -> Self {
        Self::with(place, &options(), plant)
    }

    pub fn with(place: Backend, options: &MountOptions, plant: impl FnOnce(&Subject)) -> Self {
        Self::limited(place, options, None, plant)
    }

    /// Mounts with a cache of at most `cache_size` bytes.
    pub fn limited(
        place: Backend,
        options: &MountOptions,
        cache_size: Option<u64>,
        plant: impl FnOnce(&Subject),
    ) -> Self {
        let subject = Subject::start(place);
        plant(&subject);
        let (directory, cache) = (scratch(), scratch());
        let kept = Some(cache.path());
        let mount = mount_with(&subject.store, &subject.base, directory.path(), options, kept, cache_size);
        let mount = mount.unwrap();
        Self { subject, mount, directory, cache }
    }

    /// Unmounts the location, and mounts it again with the same cache.
    pub fn again(&mut self, options: &MountOptions) {
        self.mount.stop().unwrap();
        self.mount.wait().unwrap();
        let Subject { store, base, .. } = &self.subject;
        let cache = Some(self.cache.path());
        self.mount = mount_with(store, base, self.directory.path(), options, cache, None).unwrap();
    }

    /// Opens the mount's cache again, like another process.
    pub fn cache(&self) -> Cache {
        Cache::open(self.cache.path(), CacheLimits { size: None, reserve: 0 }).unwrap()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Returns the number of bytes received from the store so far.
    pub fn received(&self) -> u64 {
        self.subject.store.counters().received
    }

    /// Returns the number of requests sent to the store so far.
    pub fn requests(&self) -> u64 {
        self.subject.store.counters().requests
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Some tests have already ended the mount.
        let _ = self.mount.stop();
        let ended = self.mount.wait();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

/// Mounts a location with a separate hydration engine that caches nothing.
pub fn mount(
    store: &Store,
    location: &Location,
    directory: &Path,
    options: &MountOptions,
) -> firstbyte_mount::Result<Mount> {
    mount_with(store, location, directory, options, None, None)
}

/// Mounts a location with a separate hydration engine.
pub fn mount_with(
    store: &Store,
    location: &Location,
    directory: &Path,
    options: &MountOptions,
    cache: Option<&Path>,
    cache_size: Option<u64>,
) -> firstbyte_mount::Result<Mount> {
    let settings = HydrationSettings {
        cache: cache.map(Path::to_owned),
        cache_size,
        deadline: options.deadline,
        ..HydrationSettings::default()
    };
    let hydrator = Hydrator::new(store.clone(), settings).unwrap();
    Mount::start(store.clone(), hydrator, location, directory, options)
}

/// Returns the content of every file below a directory, by relative path.
pub fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(directory: &Path, root: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                walk(&path, root, files);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    let mut files = BTreeMap::new();
    walk(root, root, &mut files);
    files
}

/// Returns the value of a counter of a mount.
pub fn counter(mounted: &Mounted, name: &str) -> u64 {
    use std::io::{Read, Write};
    let mut connection = std::net::TcpStream::connect(mounted.mount.metrics().unwrap()).unwrap();
    connection.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let line = answer.lines().find(|line| line.starts_with(&format!("firstbyte_mount_{name} ")));
    line.unwrap_or_else(|| panic!("{name}: {answer}")).rsplit(' ').next().unwrap().parse().unwrap()
}
