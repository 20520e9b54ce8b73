//! Opens a cached version: finds or creates its two files, and repairs them after an unclean stop.
//!
//! The first process that opens the version locks it exclusively and initializes it: it creates the
//! files or replaces corrupt ones. It raises the epoch if the last process did not close the
//! version, or if the machine has restarted. Other processes wait for this. No process removes
//! files that another process has open; only a user can do that by hand.
//!
//! A map describes one data file, which was created for the map and is recognized by its inode. No
//! process empties a data file or makes it longer, so a data file that is not as long as the object
//! has been cut short.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use firstbyte_location::Checksum;
use firstbyte_store::{FileAccess, PrivateDirectory, Sink};
use rustix_futex_sync::Mutex;

use super::block_map::{BlockMap, DIRTY, DURABLE, INTACT, MapHeader, PINNED, Stamp, first_cost, write_new};
use super::clock::boot;
use super::directory::{CachePaths, CachedIdentity};
use super::lock::{
    LockFile, LockMode, LockWait, OPEN, Opener, VersionLocks, let_others_open, lock_open, try_lock,
};
use super::usage::{Reservation, on_disk};
use super::verified_runs::VerifiedRuns;
use super::{Exempt, Retention, Shared};
use crate::block::BLOCK;
use crate::error::{Error, Result};
use crate::limits::ATTEMPTS;

/// An open version.
#[derive(Debug)]
pub(super) struct OpenVersion {
    pub(super) shared: Arc<Shared>,
    pub(super) map: BlockMap,
    pub(super) data: Sink,
    pub(super) locks: VersionLocks,
    pub(super) paths: CachePaths,
    pub(super) identity: CachedIdentity,
    pub(super) stamp: Stamp,
    pub(super) checksum: OnceLock<Checksum>,
    pub(super) verified: Mutex<VerifiedRuns>,
    pub(super) retention: Retention,
}

/// Action to take if the files of a version are missing or corrupt.
#[derive(Clone, Copy)]
pub(super) enum MissingAction<'a> {
    Create(&'a CachedIdentity),
    Skip,
}

/// Opens the version at `paths`. Returns `None` if its files are missing and `missing` is
/// [`MissingAction::Skip`].
///
/// Room for a new version is made before its map is locked; [`lock`](super::lock) gives the order.
pub(super) fn open(
    shared: &Arc<Shared>,
    paths: CachePaths,
    missing: MissingAction,
    retention: Retention,
    waiting: LockWait,
) -> Result<Option<OpenVersion>> {
    let shown = shared.dir.shown(&paths.map);
    let mut room = None;
    for _ in 0..ATTEMPTS {
        let map = match (open_map(&shared.dir, &paths.map, room.is_some()), missing) {
            (Err(error), MissingAction::Skip) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            (Err(error), MissingAction::Create(identity)) if error.kind() == io::ErrorKind::NotFound => {
                room = Some(reserve(shared, &paths, identity)?);
                continue;
            }
            (opened, _) => {
                LockFile::new(opened.map_err(Error::cache(&shown, "cannot open the map of a cached object"))?)
            }
        };
        let opener = lock_open(&map, waiting)
            .map_err(Error::cache(&shown, "another process keeps a cached object locked"))?;
        let meta = map.metadata().map_err(Error::cache(&shown, "cannot read a cached object"))?;
        // The map was removed after it was opened and before it was locked.
        if meta.nlink() == 0 {
            continue;
        }
        let failed = || Error::cache(&shown, "cannot read a cached object");
        let existing = read_existing(&shared.dir, &map, &meta, &paths.data).map_err(failed())?;
        let (header, data) = match (existing, missing) {
            // The data file was replaced by another file of the same name.
            (Some((header, data)), _) if opener == Opener::Later && !header.is_about(&data) => {
                return Err(invalid(&shown, "its data was replaced, and it is in use"));
            }
            (Some(existing), _) => existing,
            (None, MissingAction::Skip) => return Ok(None),
            (None, MissingAction::Create(identity)) if opener == Opener::First => match room.take() {
                Some(room) => create(shared, &paths, &map, identity, room)?,
                None => {
                    drop(map);
                    room = Some(reserve(shared, &paths, identity)?);
                    continue;
                }
            },
            (None, MissingAction::Create(_)) => return Err(invalid(&shown, "it is corrupt, and in use")),
        };
        let files = Files { map: Arc::new(map), data, header };
        return prepare(shared, paths, files, missing, opener, retention).map(Some);
    }
    if shared.dir.is_removed() {
        let gone =
            io::Error::new(io::ErrorKind::NotFound, "it was removed while in use; mount or run it again");
        return Err(Error::cache(shared.dir.path(), "cannot use the cache directory")(gone));
    }
    Err(Error::cache(&shown, "other processes keep removing a cached object")(
        io::ErrorKind::ResourceBusy.into(),
    ))
}

/// Opens the map of a version. If `may_create`, creates the map and its directory.
fn open_map(directory: &PrivateDirectory, map: &Path, may_create: bool) -> io::Result<File> {
    let opening = if may_create { FileAccess::Create } else { FileAccess::Write };
    match directory.file(map, opening) {
        Err(error) if may_create && error.kind() == io::ErrorKind::NotFound => {
            directory.make_directory(map.parent().unwrap_or(map))?;
            directory.file(map, opening)
        }
        other => other,
    }
}

fn invalid(shown: &Path, what: &'static str) -> Error {
    let error = io::Error::new(io::ErrorKind::InvalidData, what);
    Error::cache(shown, "cannot open a cached object")(error)
}

/// The map and the data file of a version, both intact.
struct Files {
    map: Arc<LockFile>,
    data: DataFile,
    header: MapHeader,
}

/// The data file of a version.
struct DataFile {
    file: File,
    inode: u64,
}

impl DataFile {
    /// Returns the data file, or `None` if its length is not `size`.
    fn of_size(file: File, size: u64) -> io::Result<Option<Self>> {
        let found = file.metadata()?;
        Ok((found.len() == size).then(|| Self { inode: found.ino(), file }))
    }
}

impl MapHeader {
    /// Returns whether the map describes this data file.
    fn is_about(&self, data: &DataFile) -> bool {
        self.live.data.load(Ordering::Relaxed) == data.inode
    }
}

fn prepare(
    shared: &Arc<Shared>,
    paths: CachePaths,
    files: Files,
    missing: MissingAction,
    opener: Opener,
    retention: Retention,
) -> Result<OpenVersion> {
    let shown = shared.dir.shown(&paths.map);
    let Files { map: file, data, header } = files;
    let identity = CachedIdentity::from_text(&header.text).filter(|identity| match missing {
        MissingAction::Create(wanted) => identity == wanted,
        MissingAction::Skip => true,
    });
    let identity = identity.ok_or_else(|| invalid(&shown, "it is another object of the same hash"))?;
    let failed = || Error::cache(&shown, "cannot map a cached object");
    let map = BlockMap::new(Arc::clone(&file), &header).map_err(failed())?;
    if opener == Opener::First {
        recover(shared, &map, &file, &data);
    }
    let_others_open(&file).map_err(failed())?;
    let stamp = Stamp::new(boot(), map.live().epoch.load(Ordering::Acquire));
    Ok(OpenVersion {
        shared: Arc::clone(shared),
        map,
        data: Sink::new(data.file),
        locks: VersionLocks::new(file),
        paths,
        identity,
        stamp,
        checksum: OnceLock::new(),
        verified: Mutex::default(),
        retention,
    })
}

/// Reads the header of the map and opens the data file. Returns `None` unless both files have the
/// right lengths.
fn read_existing(
    directory: &PrivateDirectory,
    map: &File,
    meta: &Metadata,
    data: &Path,
) -> io::Result<Option<(MapHeader, DataFile)>> {
    let header = MapHeader::read(map)?.filter(|header| header.map_len() == meta.len());
    let Some(header) = header else { return Ok(None) };
    let file = match directory.file(data, FileAccess::Write) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(DataFile::of_size(file, header.size)?.map(|data| (header, data)))
}

/// Reserves room for the files of a new version. The caller must hold no lock, because this may
/// evict.
fn reserve<'a>(
    shared: &'a Arc<Shared>,
    paths: &CachePaths,
    identity: &CachedIdentity,
) -> Result<Reservation<'a>> {
    let failed = Error::cache(&shared.dir.shown(&paths.map), "cannot make room for a cached object");
    let header = MapHeader::to_bytes(identity.size(), &identity.to_text(), 0, 0, 0);
    let cost = header.map(|header| first_cost(header.len(), identity.size().div_ceil(BLOCK)));
    let room = match cost {
        None => Err(io::ErrorKind::InvalidFilename),
        Some(bytes) => shared.reserve(bytes, Exempt::Pinned).ok_or(io::ErrorKind::StorageFull),
    };
    room.map_err(|kind| failed(kind.into()))
}

/// Creates both files, replacing any content. The header is written last: a map without a header is
/// ignored.
fn create(
    shared: &Arc<Shared>,
    paths: &CachePaths,
    map: &File,
    identity: &CachedIdentity,
    room: Reservation<'_>,
) -> Result<(MapHeader, DataFile)> {
    let (text, size) = (identity.to_text(), identity.size());
    let make = || -> io::Result<(MapHeader, DataFile)> {
        firstbyte_store::truncate(map)?;
        let data = new_data(&shared.dir, &paths.data)?;
        data.set_len(size)?;
        let data = DataFile::of_size(data, size)?.ok_or(io::ErrorKind::InvalidData)?;
        let header = MapHeader::to_bytes(size, &text, boot(), room.bytes(), data.inode);
        write_new(map, size, &text, &header.ok_or(io::ErrorKind::InvalidFilename)?)?;
        Ok((MapHeader::read(map)?.ok_or(io::ErrorKind::InvalidData)?, data))
    };
    match make() {
        Ok(made) => {
            room.keep();
            Ok(made)
        }
        Err(error) => {
            // An error is ignored: no other process uses the files, and the next process that opens
            // the version creates them again.
            let _ = paths.remove(&shared.dir);
            let map = shared.dir.shown(&paths.map);
            Err(Error::cache(&map, "cannot make the files of a cached object")(error))
        }
    }
}

/// Creates a new data file. An old file of this name belonged to a map that no longer exists. The
/// old file is removed and not overwritten, because processes may still read it.
fn new_data(directory: &PrivateDirectory, name: &Path) -> io::Result<File> {
    match directory.file(name, FileAccess::CreateNew) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            directory.remove(name)?;
            directory.file(name, FileAccess::CreateNew)
        }
        made => made,
    }
}

/// Repairs a version that no other process has open.
fn recover(shared: &Shared, map: &BlockMap, map_file: &File, data: &DataFile) {
    let live = map.live();
    let same_boot = live.boot.swap(boot(), Ordering::Relaxed) == boot();
    // If the recorded inode differs, blocks are verified before use. It differs in a copied cache,
    // and in a cache of an earlier build, which recorded none.
    let was_intact = live.generation.fetch_or(INTACT, Ordering::Relaxed) & INTACT != 0;
    let same_data = live.data.swap(data.inode, Ordering::Relaxed) == data.inode && was_intact;
    if !same_data {
        live.flags.fetch_and(!DURABLE, Ordering::Relaxed);
    }
    let flags = live.flags.load(Ordering::Relaxed);
    if flags & DIRTY == 0 && same_boot && same_data {
        return;
    }
    live.epoch.fetch_add(1, Ordering::Relaxed);
    live.flags.fetch_and(!DIRTY, Ordering::Relaxed);
    let (before, now) = (live.charged.load(Ordering::Relaxed), on_disk(map_file) + on_disk(&data.file));
    if !same_boot {
        // The usage counters already include this number, see `evict::accounted_bytes_of`.
        live.charged.store(now, Ordering::Relaxed);
    } else if now < before {
        let freeing = shared.usage.begin_freeing(before - now);
        live.charged.store(now, Ordering::SeqCst);
        freeing.complete();
    }
    if flags & DURABLE == 0 {
        live.complete.store(0, Ordering::Relaxed);
        live.present.store(map.count_present(), Ordering::Relaxed);
    }
}

impl OpenVersion {
    /// Returns the path of the data file for messages.
    pub(super) fn shown_data(&self) -> PathBuf {
        self.shared.dir.shown(&self.paths.data)
    }
}

impl Drop for OpenVersion {
    fn drop(&mut self) {
        let live = self.map.live();
        let free = || self.shared.usage.begin_freeing(live.charged.load(Ordering::SeqCst));
        if self.retention == Retention::Temporary {
            free().complete();
            return;
        }
        // The last process that closes the version marks it clean.
        if !try_lock(self.locks.file(), &OPEN, LockMode::Exclusive).unwrap_or(false) {
            return;
        }
        let removed = self.locks.file().metadata().is_ok_and(|meta| meta.nlink() == 0);
        // An object without blocks has nothing to keep but the files, which show that it was
        // hydrated.
        let empty = self.map.blocks() > 0
            && live.flags.load(Ordering::Acquire) & PINNED == 0
            && live.present.load(Ordering::Acquire) == 0;
        live.flags.fetch_and(!DIRTY, Ordering::Release);
        let freeing = (removed || empty).then(free);
        if let Some(freeing) = freeing
            && (removed || self.paths.remove(&self.shared.dir).is_ok())
        {
            freeing.complete();
        }
    }
}
