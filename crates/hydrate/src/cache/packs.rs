//! Packs objects of at most one block into common files, so that these objects need no files, locks
//! and maps of their own.
//!
//! ```text
//! DIR/packs/state      counters and facts that all processes share: see `state`
//! DIR/packs/N.table    which record holds which object: see `table`
//! DIR/packs/N.pack     records, one after another: see `record`
//! ```
//! A process appends a record to a pack that no other process has locked. It then publishes the
//! record in the table, which every process maps, by its place: the pack's number, the offset and
//! the length. No byte of a pack is ever overwritten, and the number of a pack is never used again,
//! so a place always refers to the same record. To remove a record, its place is cleared in the
//! table, and then the record is punched out of the pack.
//!
//! Invariants:
//!
//! - A record contains the identity of its object and a CRC of the whole record. Each read compares
//!   both, so a place that is outdated, lost or wrong is only a miss.
//! - Only the thread that clears a place subtracts the record's bytes from the count.
//! - A record is published after it was written, because a process may be killed at any moment.
//!
//! Called by [`Packed`](super::packed::Packed), and by eviction, release, status and verification.

mod place;
mod record;
mod recover;
mod state;
mod table;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use firstbyte_location::shown;
use firstbyte_store::{FileAccess, PrivateDirectory};
use rustix_futex_sync::{Mutex, RwLock};

use super::clock::Timestamp;
use super::directory::PACKS;
use super::lock::{Guard, LockFile, LockMode, OPEN, VersionLocks, leases, try_lock};
use super::punch::punch_range;
use super::usage::{CacheUsage, on_disk, subtract};
use super::{Exempt, Shared};
use crate::limits::{ATTEMPTS, POLL_INTERVAL};

use place::ALIGNMENT;
pub(super) use place::RecordPlace;
pub(super) use record::{PackRecord, cost};
use state::PackState;
pub(super) use table::{COMPLETE, PINNED, SlotCopy, tag};
use table::{FIRST_TABLE_SLOTS, PackTable, TableInsertion};

/// Length in bytes at which a pack is full, so that the next record begins a new pack.
const MAX_PACK_SIZE: u64 = 64 << 20;
/// Number of packs that a new process tries to continue, beginning with the youngest.
const MAX_CONTINUED_PACKS: u32 = 4;
/// Maximum number of packs that are kept open for reading.
const MAX_OPEN_PACKS: usize = 64;
/// A range behind the end of the state file, on which punching is tested.
const BEYOND_END: Range<u64> = 1 << 20..(1 << 20) + 4096;
/// The lock on the table. Shared by threads that remove records, exclusive for a thread that
/// replaces the table.
const TABLE_LOCK: Range<u64> = 3..4;

/// The packs of a cache directory, as opened by this process.
#[derive(Debug)]
pub(super) struct Packs {
    dir: PrivateDirectory,
    state: PackState,
    /// The locks on the table and on leases. They are byte ranges of the state file.
    locks: VersionLocks,
    table: RwLock<Arc<PackTable>>,
    /// The pack that this process appends to.
    appending: Mutex<Option<AppendedPack>>,
    /// Packs open for reading.
    reading: RwLock<HashMap<u32, Arc<File>>>,
}

/// A pack to which this process appends. The process has locked it.
#[derive(Debug)]
struct AppendedPack {
    number: u32,
    file: Arc<LockFile>,
    /// The offset of the next record.
    end: u64,
}

/// The result of [`Packs::insert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PackInsertion {
    /// The record was written and published.
    Here,
    /// The object already had a record.
    Already,
    /// The table is full, and there is no room for a larger one.
    NoRoom,
}

/// The reason why a record was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnreadReason {
    /// Another thread has removed the record.
    Gone,
    /// The record was not as it had been written, and has been removed.
    Damaged,
    /// The record's pack cannot be opened now, for example because no file descriptor is left. The
    /// record stays.
    Unopened,
}

impl Packs {
    /// Opens the packs in a cache directory. Returns `None` if the file system cannot punch holes,
    /// because removing a record would then free nothing.
    ///
    /// # Errors
    /// Errors of creating or mapping files.
    pub(super) fn open(cache: &PrivateDirectory, usage: &CacheUsage) -> io::Result<Option<Self>> {
        let dir = cache.directory(PACKS)?;
        let recover = |state: &PackState, unclean| recover::recover(&dir, state, unclean, usage);
        let state = PackState::open(&dir, Path::new("state"), recover)?;
        // Punching behind the end of the file changes nothing, and shows whether punching is
        // supported.
        if punch_range(state.file(), BEYOND_END) == Err(rustix::io::Errno::OPNOTSUPP) {
            return Ok(None);
        }
        let table = RwLock::new(Arc::new(PackTable::empty()));
        let locks = VersionLocks::new(Arc::clone(state.file()));
        let packs =
            Self { dir, state, locks, table, appending: Mutex::default(), reading: RwLock::default() };
        packs.current();
        Ok(Some(packs))
    }

    /// Returns the bytes of disk that the usage counters include for all packs and their table.
    pub(super) fn accounted_bytes(&self) -> &AtomicU64 {
        &self.state.page().charged
    }

    /// Returns the slot of an object, if the table has a record of the object.
    pub(super) fn look_up(&self, tag: u64) -> Option<SlotCopy> {
        self.current().look_up(tag).filter(|seen| !seen.place.is_absent())
    }

    /// Reads a record. A damaged record is removed.
    pub(super) fn read<'a>(
        &self,
        seen: &SlotCopy,
        buffer: &'a mut Vec<u8>,
        shared: &Shared,
    ) -> Result<PackRecord<'a>, UnreadReason> {
        let number = seen.place.pack();
        let file = match self.pack(number) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let pack = self.dir.shown(&pack_name(number));
                tracing::warn!("{}: cannot be opened: {error}", shown(&pack));
                return Err(UnreadReason::Unopened);
            }
            file => file.ok(),
        };
        if let Some(record) = file.and_then(|file| record::read(&file, seen.place, buffer)) {
            return Ok(record);
        }
        if self.remove(seen, Exempt::None, shared).is_none() {
            return Err(UnreadReason::Gone);
        }
        let pack = self.dir.shown(&pack_name(number));
        tracing::warn!("{}: a record was damaged, and is dropped", shown(&pack));
        Err(UnreadReason::Damaged)
    }

    /// Writes a record and publishes it. The caller must have added the record's bytes to the usage
    /// counters and to `accounted_bytes`.
    ///
    /// # Errors
    /// Errors of the file system, such as a full disk. The record is then not published.
    pub(super) fn insert(
        &self,
        tag: u64,
        record: &[u8],
        flags: u64,
        exempt: Exempt,
        shared: &Arc<Shared>,
    ) -> io::Result<PackInsertion> {
        let (number, file, at) = self.allocate(record.len())?;
        let place = RecordPlace::new(number, at, record.len());
        if let Err(error) = file.write_all_at(record, at) {
            punch(&file, place);
            return Err(error);
        }
        let published = self.publish(tag, place, flags, exempt, shared);
        if published != PackInsertion::Here {
            // // If the table was replaced after the place was published in it, the new table may
            // contain the place too.
            self.current().remove(tag, place);
            punch(&file, place);
        }
        Ok(published)
    }

    fn publish(
        &self,
        tag: u64,
        place: RecordPlace,
        flags: u64,
        exempt: Exempt,
        shared: &Arc<Shared>,
    ) -> PackInsertion {
        for _ in 0..ATTEMPTS {
            let table = self.current();
            match table.insert(tag, place, flags) {
                TableInsertion::Already(other) if other != place => return PackInsertion::Already,
                TableInsertion::Already(_) | TableInsertion::Here => {
                    fence(Ordering::SeqCst);
                    // The table may have been copied before this slot was filled. So wait until the
                    // copy is complete, and look at the new table.
                    self.wait_for_replacement();
                    if self.state.page().table.load(Ordering::SeqCst) == table.number() {
                        return PackInsertion::Here;
                    }
                }
                TableInsertion::Full if self.grow(&table, exempt, shared).is_some() => {}
                TableInsertion::Full => return PackInsertion::NoRoom,
            }
        }
        PackInsertion::NoRoom
    }

    /// Clears a record's place and frees its bytes. Returns the number of bytes freed, or `None` if
    /// the record is exempt, was already removed, or cannot be punched.
    pub(super) fn remove(&self, seen: &SlotCopy, exempt: Exempt, shared: &Shared) -> Option<u64> {
        let _stays = self.keep_table();
        let table = self.current();
        let now = table.look_up(seen.tag).filter(|now| now.place == seen.place)?;
        if now.is_exempt(exempt) {
            return None;
        }
        let bytes = seen.place.bytes();
        let freeing = shared.usage.begin_freeing(bytes);
        if !table.remove(seen.tag, seen.place) {
            return None;
        }
        // If the pack is unlinked, it cannot be opened, and its bytes are already free.
        let number = seen.place.pack();
        if let Ok(file) = self.pack(number)
            && !punch(&file, seen.place)
        {
            return None;
        }
        subtract(self.accounted_bytes(), bytes);
        freeing.complete();
        self.remove_if_empty(number);
        Some(bytes)
    }

    /// Sets or clears flags of an object, even if the object is not cached yet, because a job pins
    /// an object before fetching it.
    pub(super) fn set_flags(&self, tag: u64, set: u64, clear: u64, shared: &Arc<Shared>) {
        for _ in 0..ATTEMPTS {
            let table = self.current();
            if !table.set_flags(tag, set, clear) && self.grow(&table, Exempt::Pinned, shared).is_none() {
                return;
            }
            self.wait_for_replacement();
            if self.state.page().table.load(Ordering::SeqCst) == table.number() {
                return;
            }
        }
    }

    /// Records the current time as an object's last use.
    pub(super) fn touch(&self, tag: u64) {
        self.current().touch(tag, Timestamp::now());
    }

    /// Returns at most `most` published records that are `wanted`, from slot `from` on and wrapping
    /// around at the end of the table. Also returns whether all slots were examined.
    pub(super) fn sample(
        &self,
        from: u64,
        most: usize,
        wanted: impl Fn(&SlotCopy) -> bool,
    ) -> (Vec<SlotCopy>, bool) {
        self.current().sample(from, most, wanted)
    }

    /// Returns all published records.
    pub(super) fn all(&self) -> Vec<SlotCopy> {
        self.sample(0, usize::MAX, |_| true).0
    }

    /// Returns the published records of one location, and of other locations with the same hash.
    pub(super) fn records_of_location(&self, location: &str) -> Vec<SlotCopy> {
        self.current().slots_of_location(location)
    }

    /// Claims the exclusive right to fetch an object, like the lease of a version's blocks. Returns
    /// the locked byte range, which the caller must unlock, or `None` if another fetch has the
    /// right.
    pub(super) fn try_lease(&self, tag: u64) -> Option<Range<u64>> {
        let part = leases((tag >> 8)..(tag >> 8) + 1);
        self.locks.try_lock(part.clone(), LockMode::Exclusive).then_some(part)
    }

    pub(super) fn end_lease(&self, part: Range<u64>) {
        self.locks.unlock(part);
    }

    /// Returns the lock that a process takes to replace the table.
    #[cfg(test)]
    pub(super) fn begin_replacing(&self) -> Guard<'_> {
        self.locks.guard(TABLE_LOCK, LockMode::Exclusive).unwrap()
    }

    /// Returns the table that all processes use now.
    fn current(&self) -> Arc<PackTable> {
        for _ in 0..ATTEMPTS {
            let number = self.state.page().table.load(Ordering::SeqCst);
            let known = Arc::clone(&self.table.read());
            if number == known.number() {
                return known;
            }
            // If this table does not exist any more, another one has replaced it, and the loop
            // tries again.
            if let Ok(table) = PackTable::open(&self.dir, number) {
                *self.table.write() = Arc::new(table);
            }
        }
        Arc::new(PackTable::empty())
    }

    /// Waits until no process replaces the table, and prevents replacement while the guard lives.
    /// If a process was killed while replacing the table, its lock is free, and the old table is
    /// still in use.
    fn keep_table(&self) -> Guard<'_> {
        loop {
            if let Some(guard) = self.locks.guard(TABLE_LOCK, LockMode::Shared) {
                return guard;
            }
            std::thread::sleep(POLL_INTERVAL / 5);
        }
    }

    fn wait_for_replacement(&self) {
        if self.state.page().replacing.load(Ordering::SeqCst) != 0 {
            drop(self.keep_table());
        }
    }

    /// Replaces a table by a larger one without the removed records, unless another thread has
    /// replaced it. Returns `None` if there is no room for the new table.
    fn grow(&self, full: &PackTable, exempt: Exempt, shared: &Arc<Shared>) -> Option<()> {
        let slots = (full.live() * 2).next_power_of_two().max(FIRST_TABLE_SLOTS);
        let bytes = PackTable::bytes(slots).next_multiple_of(ALIGNMENT);
        let page = self.state.page();
        let is_replaced = || page.table.load(Ordering::SeqCst) != full.number();
        // Room is made before the lock is taken, because eviction takes the same lock to remove
        // records.
        let (mut reservation, _alone) = loop {
            self.wait_for_replacement();
            if is_replaced() {
                return Some(());
            }
            let reservation = shared.reserve(bytes, exempt)?;
            if let Some(alone) = self.locks.guard(TABLE_LOCK, LockMode::Exclusive) {
                if is_replaced() {
                    return Some(());
                }
                break (reservation, alone);
            }
            // Another thread replaces the table or removes a record. If its process is killed, its
            // lock is freed.
            drop(reservation);
            std::thread::sleep(POLL_INTERVAL / 5);
        };
        let number = full.number() + 1;
        let table = PackTable::create(&self.dir, number, slots);
        let table = table.inspect_err(|error| tracing::warn!("{}: {error}", shown(self.dir.path()))).ok()?;
        reservation.charge(&page.charged);
        reservation.keep();
        page.replacing.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        table.copy_from(full);
        page.table.store(number, Ordering::SeqCst);
        page.replacing.store(0, Ordering::SeqCst);
        let freeing = shared.usage.begin_freeing(full.on_disk());
        if self.dir.remove(&PackTable::file_name(full.number())).is_ok() {
            subtract(&page.charged, full.on_disk());
            freeing.complete();
        }
        Some(())
    }

    /// Allocates space for a record of `length` bytes. Returns the number of the pack, its file,
    /// and the offset of the record.
    fn allocate(&self, length: usize) -> io::Result<(u32, Arc<LockFile>, u64)> {
        let mut appending = self.appending.lock();
        let pack = match appending.take().filter(|pack| pack.end < MAX_PACK_SIZE) {
            Some(pack) => appending.insert(pack),
            None => appending.insert(self.continue_pack().map_or_else(|| self.new_pack(), Ok)?),
        };
        let at = pack.end;
        pack.end += cost(length);
        Ok((pack.number, Arc::clone(&pack.file), at))
    }

    /// Finds a pack that was created since the machine started, that has room, and that no process
    /// appends to. An older pack is not continued, because after a power cut the table may contain
    /// places of records that the pack has lost.
    fn continue_pack(&self) -> Option<AppendedPack> {
        let page = self.state.page();
        let next = page.next_pack.load(Ordering::SeqCst) as u32;
        let first_open = page.first_open_pack.load(Ordering::SeqCst) as u32;
        (first_open.max(next.saturating_sub(MAX_CONTINUED_PACKS))..next).rev().find_map(|number| {
            let file = LockFile::new(self.dir.file(&pack_name(number), FileAccess::Write).ok()?);
            if !try_lock(&file, &OPEN, LockMode::Exclusive).ok()? {
                return None;
            }
            let meta = file.metadata().ok()?;
            let is_usable = meta.nlink() > 0 && meta.len() < MAX_PACK_SIZE;
            is_usable.then(|| AppendedPack {
                number,
                file: Arc::new(file),
                end: meta.len().next_multiple_of(ALIGNMENT),
            })
        })
    }

    fn new_pack(&self) -> io::Result<AppendedPack> {
        let next = &self.state.page().next_pack;
        for _ in 0..ATTEMPTS {
            let number = next.fetch_add(1, Ordering::SeqCst);
            let number = u32::try_from(number).map_err(|_| io::ErrorKind::StorageFull)?;
            match self.dir.file(&pack_name(number), FileAccess::CreateNew) {
                Ok(file) => {
                    let file = LockFile::new(file);
                    // // Another process that looks for empty packs may have locked or removed the
                    // new pack already. Then the loop tries the next number.
                    if try_lock(&file, &OPEN, LockMode::Exclusive)? && file.metadata()?.nlink() > 0 {
                        return Ok(AppendedPack { number, file: Arc::new(file), end: 0 });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// Removes a pack if no byte of the pack is left and no process appends to it.
    fn remove_if_empty(&self, number: u32) {
        let name = pack_name(number);
        let is_empty = self.pack(number).is_ok_and(|file| on_disk(&file) == 0);
        if !is_empty {
            return;
        }
        let Ok(file) = self.dir.file(&name, FileAccess::Write).map(LockFile::new) else { return };
        if try_lock(&file, &OPEN, LockMode::Exclusive).unwrap_or(false) && on_disk(&file) == 0 {
            let _ = self.dir.remove(&name);
            self.reading.write().remove(&number);
        }
    }

    /// Returns a pack that is open for reading and punching, opening it if necessary.
    fn pack(&self, number: u32) -> io::Result<Arc<File>> {
        if let Some(file) = self.reading.read().get(&number) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(self.dir.file(&pack_name(number), FileAccess::Write)?);
        let mut reading = self.reading.write();
        if reading.len() >= MAX_OPEN_PACKS {
            reading.clear();
        }
        reading.insert(number, Arc::clone(&file));
        Ok(file)
    }
}

fn pack_name(number: u32) -> PathBuf {
    format!("{number}.pack").into()
}

/// Punches a record out of its pack. Returns whether its bytes are free now.
fn punch(file: &File, place: RecordPlace) -> bool {
    punch_range(file, place.offset()..place.offset() + place.bytes()).is_ok()
}
