//! Opening a version: its two files, found or made, and put right after an unclean stop.
//!
//! Whoever finds that nobody else has the version open holds its lock exclusively for a moment and prepares it: makes it,
//! starts over what is corrupt, raises the epoch where the last one to have it did not close it or the machine has
//! restarted. Everybody else waits for that moment. Nobody removes files that another has open, but for users by hand.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};

use firstbyte_store::Sink;

use super::boot::boot;
use super::entry::{Entry, Stamp};
use super::evict::Spare;
use super::header::{DIRTY, DURABLE, Header, PINNED};
use super::identity::{Identity, Name};
use super::lock::{First, Lockable, Locks, OPEN, Share, enter, entered, set};
use super::map::{Map, first_cost, write_new};
use super::usage::on_disk;
use super::{Keep, OpenVersion, Shared};
use crate::{BLOCK, Error, Result};

/// How often files that others remove at the same instant are made again.
const ATTEMPTS: usize = 100;

/// Where the two files of a version lie.
#[derive(Clone, Debug)]
pub(super) struct Paths {
    pub(super) map: PathBuf,
    pub(super) data: PathBuf,
}

impl Paths {
    pub(super) fn new(objects: &Path, name: &Name) -> Self {
        Self::of_map(objects.join(name.shard()).join(format!("{}.map", name.0)))
    }

    /// Those of a version known by its map.
    pub(super) fn of_map(map: PathBuf) -> Self {
        let data = map.with_extension("data");
        Self { map, data }
    }

    /// The data first: a map without data is started over, data without a map would be found by nobody.
    pub(super) fn remove(&self) -> io::Result<()> {
        for path in [&self.data, &self.map] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// What to do where a version has no files, or corrupt ones.
#[derive(Clone, Copy)]
pub(super) enum Missing<'a> {
    /// Make them.
    Create(&'a Identity),
    /// Leave it at that.
    Leave,
}

/// Opens the version at `paths`. `None` where it is missing and is to be left so.
pub(super) fn open(
    shared: &Arc<Shared>,
    paths: Paths,
    missing: Missing,
    keep: Keep,
) -> Result<Option<OpenVersion>> {
    for _ in 0..ATTEMPTS {
        let map = match open_map(&paths.map, missing) {
            Ok(map) => Lockable::new(map),
            Err(error) if error.kind() == io::ErrorKind::NotFound && matches!(missing, Missing::Leave) => {
                return Ok(None);
            }
            Err(error) => {
                return Err(Error::cache(&paths.map, "cannot open the map of a cached object")(error));
            }
        };
        let first = enter(&map)
            .map_err(Error::cache(&paths.map, "another process does not let go of a cached object"))?;
        // Removed between our open and our lock.
        if map.metadata().is_ok_and(|meta| meta.nlink() == 0) {
            continue;
        }
        return prepare(shared, paths, Arc::new(map), missing, first, keep);
    }
    Err(Error::cache(&paths.map, "others keep removing a cached object")(io::ErrorKind::ResourceBusy.into()))
}

fn open_map(path: &Path, missing: Missing) -> io::Result<File> {
    let create = matches!(missing, Missing::Create(_));
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
    map: Arc<Lockable>,
    missing: Missing,
    first: First,
    keep: Keep,
) -> Result<Option<OpenVersion>> {
    let failed = Error::cache(&paths.map, "cannot read a cached object");
    let found = whole(&map, &paths.data).map_err(failed)?;
    let (header, data) = match (found, missing) {
        (Some(found), _) => found,
        (None, Missing::Create(identity)) if first == First::Yes => create(shared, &paths, &map, identity)?,
        (None, Missing::Leave) => return Ok(None),
        (None, Missing::Create(_)) => {
            let error = io::Error::new(io::ErrorKind::InvalidData, "it is corrupt, and in use");
            return Err(Error::cache(&paths.map, "cannot open a cached object")(error));
        }
    };
    let identity = Identity::from_text(&header.text).filter(|found| match missing {
        Missing::Create(wanted) => found == wanted,
        Missing::Leave => true,
    });
    let Some(identity) = identity else {
        let error = io::Error::new(io::ErrorKind::InvalidData, "it is another object of the same hash");
        return Err(Error::cache(&paths.map, "cannot open a cached object")(error));
    };
    let failed = || Error::cache(&paths.map, "cannot map a cached object");
    let mapped = Map::new(Arc::clone(&map), &header).map_err(failed())?;
    if first == First::Yes {
        recover(shared, &mapped, &map, &data);
    }
    entered(&map).map_err(failed())?;
    let stamp = Stamp::new(boot(), mapped.live().epoch.load(Ordering::Acquire));
    let locks = Locks::new(map);
    Ok(Some(OpenVersion {
        shared: Arc::clone(shared),
        map: mapped,
        data: Sink::new(data),
        locks,
        paths,
        identity,
        stamp,
        checksum: OnceLock::new(),
        proven: Mutex::default(),
        keep,
    }))
}

/// Header and data, if both files are what they should be.
fn whole(map: &File, data: &Path) -> io::Result<Option<(Header, File)>> {
    let Some(header) = Header::read(map)? else { return Ok(None) };
    if map.metadata()?.len() != header.map_len() {
        return Ok(None);
    }
    let file = match OpenOptions::new().read(true).write(true).open(data) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok((file.metadata()?.len() == header.size).then_some((header, file)))
}

/// Makes both files, over whatever there is. The map comes last: without its header all else counts for nothing.
fn create(shared: &Arc<Shared>, paths: &Paths, map: &File, identity: &Identity) -> Result<(Header, File)> {
    let failed = || Error::cache(&paths.map, "cannot make room for a cached object");
    let text = identity.to_text();
    let too_long = || failed()(io::ErrorKind::InvalidFilename.into());
    let size = Header::to_bytes(identity.size(), &text, boot(), 0).ok_or_else(too_long)?.len();
    let bytes = first_cost(size, identity.size().div_ceil(BLOCK));
    let reservation =
        shared.reserve(bytes, Spare::Pinned).ok_or_else(|| failed()(io::ErrorKind::StorageFull.into()))?;
    let header = Header::to_bytes(identity.size(), &text, boot(), bytes).ok_or_else(too_long)?;
    let make = || -> io::Result<File> {
        firstbyte_store::empty(map)?;
        let data = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&paths.data)?;
        data.set_len(identity.size())?;
        write_new(map, identity.size(), &text, &header)?;
        Ok(data)
    };
    match make().and_then(|data| Ok((Header::read(map)?.ok_or(io::ErrorKind::InvalidData)?, data))) {
        Ok(made) => {
            reservation.keep();
            Ok(made)
        }
        Err(error) => {
            // Nobody else has it, and an empty map is made again by whoever comes next.
            let _ = paths.remove();
            Err(failed()(error))
        }
    }
}

/// Puts a version right that nobody has open.
fn recover(shared: &Shared, map: &Map, map_file: &File, data: &File) {
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
        // So it has been counted until now: see `evict::charged`.
        live.charged.store(now, Ordering::Relaxed);
    } else if now < before {
        let returning = shared.usage.returning(before - now);
        live.charged.store(now, Ordering::SeqCst);
        returning.done();
    }
    if flags & DURABLE == 0 {
        live.complete.store(0, Ordering::Relaxed);
        live.present.store(count(map), Ordering::Relaxed);
    }
}

/// Blocks that are marked present. Pages of the map that do not exist are stepped over.
pub(super) fn count(map: &Map) -> u64 {
    let (mut block, mut present) = (0, 0);
    while block < map.blocks() {
        match map.word(block) {
            Some(word) => {
                present += u64::from(Entry(word.load(Ordering::Relaxed)).is_present());
                block += 1;
            }
            None => block = map.after_hole(block),
        }
    }
    present
}

impl Drop for OpenVersion {
    fn drop(&mut self) {
        let live = self.map.live();
        let returning = || self.shared.usage.returning(live.charged.load(Ordering::SeqCst));
        if self.keep == Keep::Never {
            returning().done();
            return;
        }
        // The last to close it leaves it clean.
        if !set(self.locks.file(), &OPEN, Share::Exclusive).unwrap_or(false) {
            return;
        }
        let removed = self.locks.file().metadata().is_ok_and(|meta| meta.nlink() == 0);
        let unwanted =
            live.flags.load(Ordering::Acquire) & PINNED == 0 && live.present.load(Ordering::Acquire) == 0;
        live.flags.fetch_and(!DIRTY, Ordering::Release);
        let returning = (removed || unwanted).then(returning);
        if let Some(returning) = returning
            && (removed || self.paths.remove().is_ok())
        {
            returning.done();
        }
    }
}
