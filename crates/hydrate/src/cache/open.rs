//! Opens a cached version: finds or makes its two files, and repairs them after an unclean stop.
//!
//! A process that finds the version open in no other process holds its lock exclusively and
//! prepares it: it makes the files, replaces corrupt ones, and raises the epoch if the last process
//! did not close the version or the machine has restarted. Other processes wait until then. A
//! process never removes files that another process has open; only users may, by hand.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};

use firstbyte_location::Checksum;
use firstbyte_store::Sink;

use super::block_map::{BlockMap, DIRTY, DURABLE, Header, PINNED, Stamp, first_cost, write_new};
use super::clock::boot;
use super::directory::{Identity, Paths};
use super::lock::{LockFile, Mode, OPEN, Opener, VersionLocks, lock_open, opened, try_lock};
use super::usage::on_disk;
use super::verified_runs::VerifiedRuns;
use super::{Exempt, Retention, Shared};
use crate::limits::ATTEMPTS;
use crate::{BLOCK, Error, Result};

/// One version that is open.
#[derive(Debug)]
pub(super) struct OpenVersion {
    pub(super) shared: Arc<Shared>,
    pub(super) map: BlockMap,
    pub(super) data: Sink,
    pub(super) locks: VersionLocks,
    pub(super) paths: Paths,
    pub(super) identity: Identity,
    pub(super) stamp: Stamp,
    pub(super) checksum: OnceLock<Checksum>,
    pub(super) verified: Mutex<VerifiedRuns>,
    pub(super) retention: Retention,
}

/// The action if a version has no files, or corrupt ones.
#[derive(Clone, Copy)]
pub(super) enum IfMissing<'a> {
    Create(&'a Identity),
    Skip,
}

/// Opens the version at `paths`. `None` if it is missing and is not to be created.
pub(super) fn open(
    shared: &Arc<Shared>,
    paths: Paths,
    missing: IfMissing,
    retention: Retention,
) -> Result<Option<OpenVersion>> {
    for _ in 0..ATTEMPTS {
        let map = match open_map(&paths.map, missing) {
            Ok(map) => LockFile::new(map),
            Err(error) if error.kind() == io::ErrorKind::NotFound && matches!(missing, IfMissing::Skip) => {
                return Ok(None);
            }
            Err(error) => {
                return Err(Error::cache(&paths.map, "cannot open the map of a cached object")(error));
            }
        };
        let opener = lock_open(&map)
            .map_err(Error::cache(&paths.map, "another process keeps a cached object locked"))?;
        let meta = map.metadata().map_err(Error::cache(&paths.map, "cannot read a cached object"))?;
        // Removed between open and lock.
        if meta.nlink() == 0 {
            continue;
        }
        return prepare(shared, paths, Arc::new(map), meta.len(), missing, opener, retention);
    }
    Err(Error::cache(&paths.map, "other processes keep removing a cached object")(
        io::ErrorKind::ResourceBusy.into(),
    ))
}

fn open_map(path: &Path, missing: IfMissing) -> io::Result<File> {
    let create = matches!(missing, IfMissing::Create(_));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(create).truncate(false).mode(0o600);
    match options.open(path) {
        Err(error) if create && error.kind() == io::ErrorKind::NotFound => {
            let shard = path.parent().unwrap_or(path);
            match fs::DirBuilder::new().mode(0o700).create(shard) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => options.open(path),
            }
        }
        other => other,
    }
}

fn prepare(
    shared: &Arc<Shared>,
    paths: Paths,
    file: Arc<LockFile>,
    len: u64,
    missing: IfMissing,
    opener: Opener,
    retention: Retention,
) -> Result<Option<OpenVersion>> {
    let invalid = |what| {
        let error = io::Error::new(io::ErrorKind::InvalidData, what);
        Err(Error::cache(&paths.map, "cannot open a cached object")(error))
    };
    let existing = read_existing(&file, len, &paths.data);
    let existing = existing.map_err(Error::cache(&paths.map, "cannot read a cached object"))?;
    let (header, data) = match (existing, missing) {
        (Some(existing), _) => existing,
        (None, IfMissing::Create(identity)) if opener == Opener::First => {
            create(shared, &paths, &file, identity)?
        }
        (None, IfMissing::Skip) => return Ok(None),
        (None, IfMissing::Create(_)) => return invalid("it is corrupt, and in use"),
    };
    let identity = Identity::from_text(&header.text).filter(|identity| match missing {
        IfMissing::Create(wanted) => identity == wanted,
        IfMissing::Skip => true,
    });
    let Some(identity) = identity else { return invalid("it is another object of the same hash") };
    let failed = || Error::cache(&paths.map, "cannot map a cached object");
    let map = BlockMap::new(Arc::clone(&file), &header).map_err(failed())?;
    if opener == Opener::First {
        recover(shared, &map, &file, &data);
    }
    opened(&file).map_err(failed())?;
    let stamp = Stamp::new(boot(), map.live().epoch.load(Ordering::Acquire));
    Ok(Some(OpenVersion {
        shared: Arc::clone(shared),
        map,
        data: Sink::new(data),
        locks: VersionLocks::new(file),
        paths,
        identity,
        stamp,
        checksum: OnceLock::new(),
        verified: Mutex::default(),
        retention,
    }))
}

/// Header and data file, if both files are intact. `len` is the length of the map.
fn read_existing(map: &File, len: u64, data: &Path) -> io::Result<Option<(Header, File)>> {
    let Some(header) = Header::read(map)?.filter(|header| header.map_len() == len) else { return Ok(None) };
    let file = match OpenOptions::new().read(true).write(true).open(data) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok((file.metadata()?.len() == header.size).then_some((header, file)))
}

/// Makes both files, replacing any content. The header is written last: without it, all else is
/// ignored.
fn create(shared: &Arc<Shared>, paths: &Paths, map: &File, identity: &Identity) -> Result<(Header, File)> {
    let failed = || Error::cache(&paths.map, "cannot make room for a cached object");
    let text = identity.to_text();
    let too_long = || failed()(io::ErrorKind::InvalidFilename.into());
    let header_len = Header::to_bytes(identity.size(), &text, boot(), 0).ok_or_else(too_long)?.len();
    let bytes = first_cost(header_len, identity.size().div_ceil(BLOCK));
    let reservation =
        shared.reserve(bytes, Exempt::Pinned).ok_or_else(|| failed()(io::ErrorKind::StorageFull.into()))?;
    let header = Header::to_bytes(identity.size(), &text, boot(), bytes).ok_or_else(too_long)?;
    let make = || -> io::Result<(Header, File)> {
        firstbyte_store::empty(map)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let data = options.open(&paths.data)?;
        data.set_len(identity.size())?;
        write_new(map, identity.size(), &text, &header)?;
        Ok((Header::read(map)?.ok_or(io::ErrorKind::InvalidData)?, data))
    };
    match make() {
        Ok(made) => {
            reservation.keep();
            Ok(made)
        }
        Err(error) => {
            // No other process uses it, and the next to open it makes it again.
            let _ = paths.remove();
            Err(failed()(error))
        }
    }
}

/// Repairs a version that no other process has open.
fn recover(shared: &Shared, map: &BlockMap, map_file: &File, data: &File) {
    let live = map.live();
    let flags = live.flags.load(Ordering::Relaxed);
    let same_boot = live.boot.swap(boot(), Ordering::Relaxed) == boot();
    if flags & DIRTY == 0 && same_boot {
        return;
    }
    live.epoch.fetch_add(1, Ordering::Relaxed);
    live.flags.fetch_and(!DIRTY, Ordering::Relaxed);
    let (before, now) = (live.charged.load(Ordering::Relaxed), on_disk(map_file) + on_disk(data));
    if !same_boot {
        // The usage counters include this number: see `evict::charged`.
        live.charged.store(now, Ordering::Relaxed);
    } else if now < before {
        let freeing = shared.usage.free(before - now);
        live.charged.store(now, Ordering::SeqCst);
        freeing.done();
    }
    if flags & DURABLE == 0 {
        live.complete.store(0, Ordering::Relaxed);
        live.present.store(map.count_present(), Ordering::Relaxed);
    }
}

impl Drop for OpenVersion {
    fn drop(&mut self) {
        let live = self.map.live();
        let free = || self.shared.usage.free(live.charged.load(Ordering::SeqCst));
        if self.retention == Retention::Temporary {
            free().done();
            return;
        }
        // The last process to close it marks it clean.
        if !try_lock(self.locks.file(), &OPEN, Mode::Exclusive).unwrap_or(false) {
            return;
        }
        let removed = self.locks.file().metadata().is_ok_and(|meta| meta.nlink() == 0);
        let empty =
            live.flags.load(Ordering::Acquire) & PINNED == 0 && live.present.load(Ordering::Acquire) == 0;
        live.flags.fetch_and(!DIRTY, Ordering::Release);
        let freeing = (removed || empty).then(free);
        if let Some(freeing) = freeing
            && (removed || self.paths.remove().is_ok())
        {
            freeing.done();
        }
    }
}
