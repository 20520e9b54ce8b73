//! Maps objects to their records: a hash table in a file that every process maps and that is
//! changed only by atomic operations.
//!
//! A slot belongs to one object from its first use until the table is replaced, so an object has
//! only one slot. To insert a record, its place is written last; to remove a record, its place is
//! cleared first. A search begins at a slot that depends on the location and ends at an empty slot,
//! so all versions of a location are near each other. A header as long as a slot precedes the
//! slots.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use firstbyte_location::to_usize;
use firstbyte_store::{FileAccess, PrivateDirectory};
use rustix::fs::{FallocateFlags, fallocate};
use xxhash_rust::xxh3::xxh3_64;

use super::super::Exempt;
use super::super::clock::Timestamp;
use super::super::mapping::{Atomics, SharedMapping};
use super::place::{ALIGNMENT, RecordPlace};

/// Number of slots of the first table, which takes three pages on the disk.
pub(super) const FIRST_TABLE_SLOTS: u64 = 256;
/// Flag: the user exempted the object from eviction.
pub(in super::super) const PINNED: u64 = 1;
/// Flag: the content matches the checksum of the store, or the store has none.
pub(in super::super) const COMPLETE: u64 = 2;

const SLOT_SIZE: u64 = size_of::<Slot>() as u64;

#[repr(C)]
struct Slot {
    /// The tag of the object, or 0 if the slot is empty.
    tag: AtomicU64,
    /// The [`RecordPlace`] of the object's record, or 0 if there is no record.
    place: AtomicU64,
    flags: AtomicU64,
    /// The time at which the object was last opened, as a [`Timestamp`].
    last_use: AtomicU64,
}

// SAFETY: all fields are atomics.
unsafe impl Atomics for Slot {}

/// The header before the slots.
#[repr(C)]
struct Header {
    /// Number of slots that are not empty.
    claimed: AtomicU64,
    _unused: [AtomicU64; 3],
}

// SAFETY: all fields are atomics.
unsafe impl Atomics for Header {}

/// Returns the tag of an object. The upper half is the hash of the location, at which a search
/// begins; the lower half is the hash of the identity. The tag is never 0.
pub(in super::super) fn tag(location: &str, identity: &[u8]) -> u64 {
    (hash_location(location) << 32 | xxh3_64(identity) & 0xFFFF_FFFF).max(1)
}

/// Hashes a location to 32 bits.
fn hash_location(location: &str) -> u64 {
    xxh3_64(location.as_bytes()) >> 32
}

/// A copy of a slot, taken at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct SlotCopy {
    pub(in super::super) tag: u64,
    pub(in super::super) place: RecordPlace,
    pub(in super::super) flags: u64,
    pub(in super::super) last_use: Timestamp,
}

impl SlotCopy {
    /// Returns whether the slot is in use: its object is cached, or pinned before it is fetched.
    fn is_live(&self) -> bool {
        !self.place.is_absent() || self.is_pinned()
    }

    pub(in super::super) fn is_pinned(&self) -> bool {
        self.flags & PINNED != 0
    }

    /// Returns whether the object is exempt from an eviction.
    pub(in super::super) fn is_exempt(&self, exempt: Exempt) -> bool {
        exempt.covers(self.is_pinned(), self.last_use)
    }
}

impl Slot {
    fn load(&self) -> SlotCopy {
        SlotCopy {
            tag: self.tag.load(Ordering::Acquire),
            place: RecordPlace::from_word(self.place.load(Ordering::SeqCst)),
            flags: self.flags.load(Ordering::Acquire),
            last_use: Timestamp::from_word(self.last_use.load(Ordering::Relaxed)),
        }
    }
}

/// The result of [`PackTable::insert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableInsertion {
    /// The record was inserted.
    Here,
    /// The object already had this record.
    Already(RecordPlace),
    /// Too few slots are empty, so the table must be replaced first.
    Full,
}

#[derive(Debug)]
pub(super) struct PackTable {
    number: u64,
    /// Number of slots: a power of two, or 0 before the first table exists.
    slots: u64,
    mapped: Option<SharedMapping>,
}

impl PackTable {
    /// Returns the table that is used before the first table file exists. Its number is 0, and it
    /// has no slots.
    pub(super) fn empty() -> Self {
        Self { number: 0, slots: 0, mapped: None }
    }

    pub(super) fn file_name(number: u64) -> PathBuf {
        format!("{number}.table").into()
    }

    /// Opens table `number`. Fails if its length is not a whole number of slots.
    pub(super) fn open(dir: &PrivateDirectory, number: u64) -> io::Result<Self> {
        let file = dir.file(&Self::file_name(number), FileAccess::Write)?;
        let len = file.metadata()?.len();
        let slots = (len / SLOT_SIZE).saturating_sub(1);
        if !slots.is_power_of_two() || len != Self::bytes(slots) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Self::map(&file, number, slots)
    }

    /// Creates table `number` and allocates all of its disk space at once: if the disk fills up
    /// later, a store into a page without space would raise a signal.
    pub(super) fn create(dir: &PrivateDirectory, number: u64, slots: u64) -> io::Result<Self> {
        let name = Self::file_name(number);
        let file = dir.file(&name, FileAccess::Create)?;
        firstbyte_store::truncate(&file)?;
        let made = allocate(&file, Self::bytes(slots)).and_then(|()| Self::map(&file, number, slots));
        if made.is_err() {
            let _ = dir.remove(&name);
        }
        made
    }

    fn map(file: &File, number: u64, slots: u64) -> io::Result<Self> {
        let len = usize::try_from(Self::bytes(slots)).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(Self { number, slots, mapped: Some(SharedMapping::new(file, len)?) })
    }

    /// Returns the length of a table of `slots` slots, bytes.
    pub(super) fn bytes(slots: u64) -> u64 {
        (1 + slots) * SLOT_SIZE
    }

    /// Returns the bytes of disk that the table takes.
    pub(super) fn on_disk(&self) -> u64 {
        if self.slots == 0 { 0 } else { Self::bytes(self.slots).next_multiple_of(ALIGNMENT) }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the number of slots with a record or a pin.
    pub(super) fn live(&self) -> u64 {
        self.in_order(0).filter(|slot| slot.load().is_live()).count() as u64
    }

    pub(super) fn look_up(&self, tag: u64) -> Option<SlotCopy> {
        self.find(tag).map(Slot::load)
    }

    /// Inserts the record of an object, unless the object already has a record.
    pub(super) fn insert(&self, tag: u64, place: RecordPlace, flags: u64) -> TableInsertion {
        let Some(slot) = self.claim(tag) else { return TableInsertion::Full };
        slot.flags.fetch_and(PINNED, Ordering::AcqRel);
        slot.flags.fetch_or(flags, Ordering::AcqRel);
        slot.last_use.store(Timestamp::now().word(), Ordering::Relaxed);
        match slot.place.compare_exchange(0, place.word(), Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => TableInsertion::Here,
            Err(other) => TableInsertion::Already(RecordPlace::from_word(other)),
        }
    }

    /// Removes a record. Returns false if the object's slot does not contain this record.
    pub(super) fn remove(&self, tag: u64, place: RecordPlace) -> bool {
        self.find(tag).is_some_and(|slot| {
            let cleared =
                slot.place.compare_exchange(place.word(), 0, Ordering::SeqCst, Ordering::SeqCst).is_ok();
            if cleared {
                slot.flags.store(0, Ordering::Release);
            }
            cleared
        })
    }

    /// Sets and clears flags of an object. Returns false if the object needs a new slot and too few
    /// are empty: the table must then be replaced by a larger one.
    pub(super) fn set_flags(&self, tag: u64, set: u64, clear: u64) -> bool {
        let slot = if set == 0 { self.find(tag) } else { self.claim(tag) };
        if let Some(slot) = slot {
            slot.flags.fetch_and(!clear, Ordering::AcqRel);
            slot.flags.fetch_or(set, Ordering::AcqRel);
        }
        slot.is_some() || set == 0
    }

    pub(super) fn touch(&self, tag: u64, now: Timestamp) {
        if let Some(slot) = self.find(tag) {
            slot.last_use.store(now.word(), Ordering::Relaxed);
        }
    }

    /// Returns copies of at most `most` slots that are in use and `wanted`, beginning at slot
    /// `from` and wrapping around. Also returns whether all slots were examined.
    pub(super) fn sample(
        &self,
        from: u64,
        most: usize,
        wanted: impl Fn(&SlotCopy) -> bool,
    ) -> (Vec<SlotCopy>, bool) {
        let mut found = Vec::new();
        for slot in self.in_order(from) {
            if found.len() == most {
                return (found, false);
            }
            let seen = slot.load();
            if !seen.place.is_absent() && wanted(&seen) {
                found.push(seen);
            }
        }
        (found, true)
    }

    /// Returns copies of the slots of records with the hash of `location`.
    pub(super) fn slots_of_location(&self, location: &str) -> Vec<SlotCopy> {
        let hash = hash_location(location);
        let seen = self.search(hash << 32).map(Slot::load);
        seen.filter(|seen| seen.tag >> 32 == hash && !seen.place.is_absent()).collect()
    }

    /// Copies the slots of `other` that are in use. Other threads may change `other` during the
    /// copy.
    pub(super) fn copy_from(&self, other: &Self) {
        for seen in other.in_order(0).map(Slot::load).filter(SlotCopy::is_live) {
            let Some(slot) = self.claim(seen.tag) else { continue };
            slot.flags.store(seen.flags, Ordering::Release);
            slot.last_use.store(seen.last_use.word(), Ordering::Relaxed);
            slot.place.store(seen.place.word(), Ordering::SeqCst);
        }
    }

    /// Finds the slot of an object, or claims an empty one. Returns `None` if too few slots are
    /// empty, because searches would become long.
    fn claim(&self, tag: u64) -> Option<&Slot> {
        let claimed = &self.mapped.as_ref()?.at::<Header>(0).claimed;
        for slot in self.in_order(tag >> 32) {
            let mut found = slot.tag.load(Ordering::Acquire);
            if found == 0 {
                if claimed.load(Ordering::Relaxed) >= self.slots / 4 * 3 {
                    return None;
                }
                match slot.tag.compare_exchange(0, tag, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => {
                        claimed.fetch_add(1, Ordering::Relaxed);
                        return Some(slot);
                    }
                    Err(other) => found = other,
                }
            }
            if found == tag {
                return Some(slot);
            }
        }
        None
    }

    /// Finds the slot of an object, if it has one.
    fn find(&self, tag: u64) -> Option<&Slot> {
        self.search(tag).find(|slot| slot.tag.load(Ordering::Acquire) == tag)
    }

    /// Returns the slots in which an object may be: those from the slot at which its search begins,
    /// up to the first empty slot.
    fn search(&self, tag: u64) -> impl Iterator<Item = &Slot> {
        self.in_order(tag >> 32).take_while(|slot| slot.tag.load(Ordering::Acquire) != 0)
    }

    /// Returns all slots, starting at slot `from` and wrapping around at the end.
    fn in_order(&self, from: u64) -> impl Iterator<Item = &Slot> {
        let mask = self.slots.wrapping_sub(1);
        let at = move |index: u64| to_usize((1 + (from.wrapping_add(index) & mask)) * SLOT_SIZE);
        let mapped = self.mapped.as_ref();
        (0..self.slots).filter_map(move |index| Some(mapped?.at(at(index))))
    }
}

/// Allocates disk space for the whole file, whose bytes are then 0.
fn allocate(file: &File, len: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, len) {
        Err(rustix::io::Errno::OPNOTSUPP) => file.write_all_at(&vec![0; to_usize(len)], 0),
        other => Ok(other?),
    }
}
