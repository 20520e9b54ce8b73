//! Reads and fills one small object, of at most one block, in the packs. A packed version has no
//! file of its own, and is opened without a system call.

use std::cell::Cell;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use firstbyte_location::{Checksum, Hasher, Location, Strength, Version, to_usize};
use firstbyte_store::is_full;

use super::cached::Pin;
use super::directory::CachedIdentity;
use super::fill::FillOutcome;
use super::packs::{COMPLETE, PINNED, PackInsertion, PackRecord, Packs, SlotCopy, UnreadReason, cost, tag};
use super::verify::{VerificationReport, VersionVerification};
use super::{Cache, Exempt, Shared, evict};
use crate::block::BLOCK;
use crate::error::Error;

thread_local! {
    /// The thread's buffer for a record that is being read.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Calls `work` with the thread's buffer.
fn with_scratch<T>(work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut buffer = SCRATCH.take();
    let done = work(&mut buffer);
    SCRATCH.set(buffer);
    done
}

/// One version of a small object that is in a pack or can be put into one.
#[derive(Debug)]
pub struct Packed {
    shared: Arc<Shared>,
    identity: CachedIdentity,
    /// The identity as text, as the record contains it.
    text: Vec<u8>,
    tag: u64,
    checksum: OnceLock<Checksum>,
}

impl Cache {
    /// Returns one version of a small object. Returns `None` if the version must be opened by
    /// [`version`](Self::version): if it has more than one block, if it has no strong identifier,
    /// or if the file system cannot punch holes into files.
    #[must_use]
    pub fn packed(&self, location: &Location, version: &Version) -> Option<Packed> {
        self.shared.packs.as_ref()?;
        let is_small = version.size.is_some_and(|size| size <= BLOCK);
        if !is_small || version.strength() != Strength::Strong {
            return None;
        }
        let identity = CachedIdentity::new(location, &self.store, version)?;
        let text = identity.to_text();
        let tag = tag(identity.place(), &text);
        Some(Packed { shared: Arc::clone(&self.shared), identity, text, tag, checksum: OnceLock::new() })
    }
}

impl Packed {
    /// Reads a record, and returns the object that the record's identity names.
    pub(super) fn from_record(shared: &Arc<Shared>, seen: &SlotCopy) -> Result<Self, UnreadReason> {
        let packs = shared.packs.as_ref().ok_or(UnreadReason::Gone)?;
        let text =
            with_scratch(|buffer| packs.read(seen, buffer, shared).map(|record| record.text.to_vec()))?;
        let identity = CachedIdentity::from_text(&text).ok_or(UnreadReason::Gone)?;
        Ok(Self { shared: Arc::clone(shared), identity, text, tag: seen.tag, checksum: OnceLock::new() })
    }

    fn packs(&self) -> Option<&Packs> {
        self.shared.packs.as_ref()
    }

    /// Looks up the object's slot. Returns `None` if the object is absent.
    pub(super) fn slot(&self) -> Option<SlotCopy> {
        self.packs()?.look_up(self.tag)
    }

    /// Calls `work` with the content. Returns `None` if the object is absent or its record is
    /// damaged.
    pub fn with_content<T>(&self, work: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let (packs, seen) = (self.packs()?, self.slot()?);
        with_scratch(|buffer| {
            let record = packs.read(&seen, buffer, &self.shared).ok()?;
            (record.text == self.text).then(|| work(record.content))
        })
    }

    /// Sets the checksum that the object must have. Ignored if a checksum was set before.
    pub fn set_checksum(&self, checksum: Checksum) {
        let _ = self.checksum.set(checksum);
    }

    /// Returns whether the object is cached. A read may still find its record damaged.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.slot().is_some()
    }

    /// Reads bytes from `offset` on. Returns their number, which is 0 if the object is absent or
    /// `offset` is at the end.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        let read = |content: &[u8]| {
            let rest = content.get(to_usize(offset)..).unwrap_or_default();
            let length = rest.len().min(buffer.len());
            buffer[..length].copy_from_slice(&rest[..length]);
            length
        };
        self.with_content(read).unwrap_or(0)
    }

    /// Puts the object into a pack. If there is no room, evicts versions that are not `exempt`.
    ///
    /// # Panics
    /// If `content` is not as long as the object.
    pub fn fill(&self, content: &[u8], exempt: Exempt) -> FillOutcome {
        assert!(content.len() as u64 == self.identity.size(), "not the bytes of the object");
        let Some(packs) = self.packs() else { return FillOutcome::NoRoom };
        if self.is_present() {
            return FillOutcome::Already;
        }
        let flags = self
            .checksum
            .get()
            .map_or(0, |checksum| self.compare(checksum, content).map_or(0, |()| COMPLETE));
        // Each record gets a buffer of its own. A buffer per thread would stay allocated in each of
        // the hundreds of threads that fetch small objects, although only a few write at the same
        // time.
        let record = PackRecord::encode(&self.text, content);
        let write = || {
            let Some(mut reservation) = self.shared.reserve(cost(record.len()), exempt) else {
                return Ok(FillOutcome::NoRoom);
            };
            reservation.charge(packs.accounted_bytes());
            Ok(match packs.insert(self.tag, &record, flags, exempt, &self.shared)? {
                PackInsertion::Here => {
                    reservation.keep();
                    FillOutcome::Kept
                }
                PackInsertion::Already => FillOutcome::Already,
                PackInsertion::NoRoom => FillOutcome::NoRoom,
            })
        };
        match write() {
            Err(error) if is_full(&error) && evict::free_disk(&self.shared, BLOCK, exempt) => {
                write().unwrap_or(FillOutcome::NoRoom)
            }
            Err(error) => {
                if !is_full(&error) {
                    tracing::warn!("cannot cache an object: {error}");
                }
                FillOutcome::NoRoom
            }
            Ok(stored) => stored,
        }
    }

    fn compare(&self, expected: &Checksum, content: &[u8]) -> Result<(), Error> {
        let place = self.identity.location().map_or_else(String::new, |location| location.to_string());
        expected.verify(&Hasher::of(expected.algorithm, content), &place).map_err(Error::Checksum)
    }

    /// Returns whether the object is cached and matches the store's checksum, if the store has one.
    /// An empty object always is.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.identity.size() == 0 || self.slot().is_some_and(|seen| seen.flags & COMPLETE != 0)
    }

    /// Compares the object with the checksum that was set. Without one, the object counts as
    /// complete.
    ///
    /// # Errors
    /// [`Error::Checksum`]: the content differs from that of the object in the store. The cached
    /// content is dropped.
    pub fn verify_complete(&self) -> Result<VersionVerification, Error> {
        let (Some(packs), Some(seen)) = (self.packs(), self.slot()) else {
            return Ok(VersionVerification::Missing);
        };
        let compared =
            self.checksum.get().map(|checksum| self.with_content(|content| self.compare(checksum, content)));
        match compared {
            Some(None) => Ok(VersionVerification::Missing),
            Some(Some(Err(error))) => {
                packs.remove(&seen, Exempt::None, &self.shared);
                Err(error)
            }
            None | Some(Some(Ok(()))) => {
                packs.set_flags(self.tag, COMPLETE, 0, &self.shared);
                Ok(VersionVerification::Complete)
            }
        }
    }

    /// Claims the exclusive right to fetch the object, among all processes. Returns `None` while
    /// another holder has it.
    #[must_use]
    pub fn lease(&self) -> Option<PackedLease> {
        let part = self.packs()?.try_lease(self.tag)?;
        Some(PackedLease { shared: Arc::clone(&self.shared), part })
    }

    /// Exempts the object from eviction, or ends the exemption.
    pub fn pin(&self, pin: Pin) {
        let (set, clear) = match pin {
            Pin::Pinned => (PINNED, 0),
            Pin::Unpinned => (0, PINNED),
        };
        if let Some(packs) = self.packs() {
            packs.set_flags(self.tag, set, clear, &self.shared);
        }
    }

    /// Records the current time as the object's last use.
    pub fn touch(&self) {
        if let Some(packs) = self.packs() {
            packs.touch(self.tag);
        }
    }

    /// Returns the bytes of disk that the object needs, or 0 if it is cached.
    #[must_use]
    pub fn cost_if_missing(&self) -> u64 {
        if self.is_present() { 0 } else { cost(self.record_length()) }
    }

    pub(super) fn record_length(&self) -> usize {
        PackRecord::length(self.text.len(), to_usize(self.identity.size()))
    }

    pub(super) fn identity(&self) -> &CachedIdentity {
        &self.identity
    }

    /// Removes the object even if it is pinned. Returns the number of bytes freed, or `None` if the
    /// object was absent.
    pub(super) fn release(&self) -> Option<u64> {
        let packs = self.packs()?;
        packs.set_flags(self.tag, 0, PINNED, &self.shared);
        packs.remove(&self.slot()?, Exempt::None, &self.shared)
    }
}

impl Cache {
    /// Reads and verifies every packed object. Damaged objects are dropped.
    pub(super) fn verify_packed(&self) -> VerificationReport {
        let mut report = VerificationReport::default();
        for seen in self.shared.packs.as_ref().map(Packs::all).unwrap_or_default() {
            match Packed::from_record(&self.shared, &seen) {
                Ok(_) => report.blocks += 1,
                Err(UnreadReason::Damaged) => report.wrong += 1,
                Err(UnreadReason::Gone | UnreadReason::Unopened) => continue,
            }
            report.versions += 1;
        }
        report
    }
}

/// The exclusive right to fetch a small object, until it is dropped.
#[derive(Debug)]
pub struct PackedLease {
    shared: Arc<Shared>,
    part: Range<u64>,
}

impl Drop for PackedLease {
    fn drop(&mut self) {
        if let Some(packs) = &self.shared.packs {
            packs.end_lease(self.part.clone());
        }
    }
}
