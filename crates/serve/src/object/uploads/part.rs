//! Represents a request's claim to write one part.
//!
//! The claim's place has no bytes of other claims or of recorded parts. The claim writes only
//! there, until the claim is recorded, or revoked because the upload ends. The claim is released
//! when its last owner is dropped. A write that still runs for a cancelled request is an owner too.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::SystemTime;

use rustix_futex_sync::Mutex;

use super::error::{Error, Result};
use super::journal::{ArrivedPart, PartPlace};
use super::session::{ClaimBeingWritten, ClaimGate, UploadSession, UploadState};
use crate::object::checksum::ChecksumValues;
use crate::object::writer::WriteAt;

/// The right of one request to write one part. Offsets are relative to the part.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(super) id: String,
    pub(super) state: Arc<Mutex<UploadState>>,
    pub(super) session: Arc<UploadSession>,
    pub(super) file: Arc<File>,
    pub(super) running: ClaimBeingWritten,
    pub(super) length: u64,
}

impl WriteAt for Claim {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let gate = self.running.gate.lock();
        if *gate != ClaimGate::Open {
            return Err(io::Error::other(Error::Ending(self.id.clone())));
        }
        if offset.saturating_add(bytes.len() as u64) > self.length {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the body is longer than announced"));
        }
        let start = match self.running.place {
            PartPlace::At(start) => start,
            PartPlace::Apart(_) => 0,
        };
        FileExt::write_all_at(&*self.file, bytes, start + offset)
    }
}

impl Claim {
    /// Returns the announced length of the part in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Records that all `length` bytes are written and have these checksums. The part replaces an
    /// earlier part of the same number. No write of this claim may run at the same time. Blocking.
    ///
    /// # Errors
    /// The body was short, the upload is being ended, or the journal cannot be written. The earlier
    /// part stays.
    pub(crate) fn record(&self, length: u64, checksums: ChecksumValues) -> Result<ArrivedPart> {
        let ClaimBeingWritten { number, place, gate } = &self.running;
        if length < self.length {
            return Err(Error::Short { number: *number, missing: self.length - length });
        }
        let part = ArrivedPart { length, place: place.clone(), checksums, arrived: SystemTime::now() };
        let before = {
            let mut state = self.state.lock();
            let mut gate = gate.lock();
            if *gate != ClaimGate::Open {
                return Err(Error::Ending(self.id.clone()));
            }
            let before = state.record(&self.session, *number, &part)?;
            *gate = ClaimGate::Recorded;
            before
        };
        if let Some(PartPlace::Apart(name)) = before.map(|part| part.place) {
            self.session.remove(&name);
        }
        Ok(part)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.state.lock().running.retain(|other| !Arc::ptr_eq(&other.gate, &self.running.gate));
        let recorded = *self.running.gate.lock() == ClaimGate::Recorded;
        if let (false, PartPlace::Apart(name)) = (recorded, &self.running.place) {
            self.session.remove(name);
        }
    }
}
