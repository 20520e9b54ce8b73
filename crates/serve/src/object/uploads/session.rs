//! Holds the state of an upload while requests work on it, and its open files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Weak};

use firstbyte_location::{Algorithm, ByteRange, Hasher};
use rustix::fs::{AtFlags, OFlags};
use rustix_futex_sync::Mutex;

use super::error::{Error, Result};
use super::journal::{ArrivedPart, DATA, JournalLine, PartPlace, PartsJournal, WHOLE, open_at};
use super::placement::Placement;
use crate::object::copying::read_range;
use crate::token::random_token;

/// The permission of a claim to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimGate {
    /// The claim may write.
    Open,
    /// The upload is being ended, so the claim may not write.
    Revoked,
    /// The part is complete, so the claim may not write.
    Recorded,
}

/// The upload's record of a claim that is still being written.
#[derive(Clone, Debug)]
pub(super) struct ClaimBeingWritten {
    pub(super) number: u32,
    pub(super) place: PartPlace,
    /// Locked while a piece is written.
    pub(super) gate: Arc<Mutex<ClaimGate>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum UploadPhase {
    #[default]
    Open,
    Ending,
    Ended,
}

#[derive(Debug, Default)]
pub(super) struct UploadState {
    pub(super) phase: UploadPhase,
    pub(super) placement: Placement,
    pub(super) parts: BTreeMap<u32, ArrivedPart>,
    pub(super) unverified: BTreeSet<u32>,
    pub(super) running: Vec<ClaimBeingWritten>,
    /// The journal's length in bytes when it was last read; 0 before that.
    pub(super) journal: u64,
    pub(super) session: Weak<UploadSession>,
}

/// The open files of an upload, for as long as a request works on it.
#[derive(Debug)]
pub(super) struct UploadSession {
    pub(super) directory: OwnedFd,
    pub(super) data: Arc<File>,
    pub(super) journal: Mutex<PartsJournal>,
}

impl UploadSession {
    /// Removes a file that is not a part. If this fails, the file is removed with the upload.
    pub(super) fn remove(&self, name: &str) {
        let _ = rustix::fs::unlinkat(&self.directory, name, AtFlags::empty());
    }

    /// Frees the space of an assembled file that was not published, perhaps because the disk is
    /// full. A file with a second name is left unchanged, because it may have been published.
    pub(super) fn free_unpublished_space(&self, recorded: &BTreeMap<u32, ArrivedPart>) {
        let placed = recorded.values().filter_map(|part| match part.place {
            PartPlace::At(offset) => Some(offset + part.length),
            PartPlace::Apart(_) => None,
        });
        let _ = shorten(&self.directory, DATA, placed.max().unwrap_or(0));
        let _ = shorten(&self.directory, WHOLE, 0);
    }

    pub(super) fn append(&self, line: &JournalLine) -> Result<u64> {
        let mut journal = self.journal.lock();
        journal.append(line).map_err(|error| Error::io("journal", error))?;
        Ok(journal.length())
    }

    pub(super) fn open(&self, place: &PartPlace) -> Result<(Arc<File>, u64)> {
        match place {
            PartPlace::At(offset) => Ok((self.data.clone(), *offset)),
            PartPlace::Apart(name) => {
                let file = open_at(&self.directory, name, OFlags::empty());
                Ok((Arc::new(file.map_err(|error| Error::io(name, error))?), 0))
            }
        }
    }

    /// True if the bytes of `part` match the recorded checksum.
    fn matches_checksum(&self, part: &ArrivedPart) -> bool {
        let Some((algorithm, expected)) =
            part.checksums.iter().find(|(algorithm, _)| **algorithm != Algorithm::Md5)
        else {
            return false;
        };
        let mut hasher = Hasher::new(*algorithm);
        let read = self.open(&part.place).map(|(file, offset)| {
            read_range(&file, ByteRange::at(offset, part.length), |bytes| {
                hasher.update(bytes);
                Ok(())
            })
        });
        matches!(read, Ok(Ok(()))) && hasher.finish().to_base64() == *expected
    }
}

/// Truncates the file `name` to `length`, if the file is longer and has no other name.
fn shorten(directory: &OwnedFd, name: &str, length: u64) -> std::io::Result<()> {
    let file = open_at(directory, name, OFlags::empty())?;
    let metadata = file.metadata()?;
    if metadata.nlink() == 1 && metadata.len() > length { file.set_len(length) } else { Ok(()) }
}

impl UploadState {
    /// Records a complete part. Returns the part that it replaces.
    pub(super) fn record(
        &mut self,
        session: &UploadSession,
        number: u32,
        part: &ArrivedPart,
    ) -> Result<Option<ArrivedPart>> {
        self.journal = session.append(&JournalLine::Part(number, part.clone()))?;
        self.unverified.remove(&number);
        Ok(self.parts.insert(number, part.clone()))
    }

    /// Chooses the place of a part: its slot if the slot is free, otherwise a separate file.
    pub(super) fn place(&mut self, session: &UploadSession, number: u32, length: u64) -> Result<PartPlace> {
        let known = self.placement.length();
        let slot = self.placement.slot(number, length);
        if let (None, Some(length)) = (known, self.placement.length()) {
            self.journal = session.append(&JournalLine::Slots(length)).inspect_err(|_| {
                self.placement = Placement::default();
            })?;
        }
        let taken = |slot: u64| {
            let mut places = self
                .parts
                .values()
                .map(|part| &part.place)
                .chain(self.running.iter().map(|running| &running.place));
            places.any(|place| *place == PartPlace::At(slot))
        };
        Ok(match slot {
            Some(slot) if !taken(slot) => PartPlace::At(slot),
            _ => PartPlace::Apart(format!("apart-{}", random_token())),
        })
    }

    /// Refuses further claims and pieces, after waiting for pieces that are being written.
    pub(super) fn end(&mut self) {
        self.phase = UploadPhase::Ending;
        for running in self.running.drain(..) {
            let mut gate = running.gate.lock();
            if *gate == ClaimGate::Open {
                *gate = ClaimGate::Revoked;
            }
        }
    }
}

/// Verifies by checksum the parts that were recorded before the last reboot. Parts whose bytes did
/// not reach the disk are dropped.
pub(super) fn verify(state: &mut UploadState, session: &UploadSession) -> Result<()> {
    for number in std::mem::take(&mut state.unverified) {
        let Some(part) = state.parts.get(&number).cloned() else { continue };
        let line = if session.matches_checksum(&part) {
            JournalLine::Part(number, part)
        } else {
            state.parts.remove(&number);
            JournalLine::Lost(number)
        };
        state.journal = session.append(&line)?;
    }
    Ok(())
}
