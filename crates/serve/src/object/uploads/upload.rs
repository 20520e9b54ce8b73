//! Implements one multipart upload: its complete parts, the parts being written, and the assembly
//! of the file.
//!
//! A part is recorded when it is complete; until then the previous part of the same number stays
//! valid. A new part is written into its slot of the final file if the slot is free, otherwise into
//! a separate file, so bytes of a recorded part are never overwritten. Ending an upload first
//! revokes running claims, so that no claim writes to the published file.
//!
//! Descriptors are open only while a request works on the upload ([`UploadSession`]). If another
//! process has appended to the journal, the state is read from the journal again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use firstbyte_location::ByteRange;
use rustix::fs::OFlags;
use rustix_futex_sync::{Mutex, MutexGuard};

use super::description::Description;
use super::error::{Error, Result};
use super::journal::{self, ArrivedPart, JournalLine, PartPlace, PartsJournal, open_at};
use super::part::Claim;
use super::placement::Placement;
use super::session::{ClaimBeingWritten, ClaimGate, UploadPhase, UploadSession, UploadState, verify};
use crate::object::copying::copy_range;
use crate::object::metadata::ObjectMetadata;
use crate::object::publish::{self, FinishedFile};
use crate::object::reserved::{self, Area};
use crate::object::root::ServedRoot;
use crate::object::staging;
use crate::path::EntryPath;

/// Maximum number of attempts to lock the journal, with a pause of one millisecond after each.
const CLOSING_ATTEMPTS: u32 = 500;

/// The rule for sending a part again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResendRule {
    /// Allowed at any time. The part that was completed last is valid.
    Replaces,
    /// Refused while another request sends the part, and after the part is complete.
    Refused,
}

/// The result of a claim.
#[derive(Debug)]
pub(crate) enum ClaimResult {
    /// The part is already complete, so it need not be sent.
    Held(ArrivedPart),
    /// The right to write the part.
    Write(Arc<Claim>),
}

/// The parts of the completed file, in order, and its metadata.
#[derive(Debug)]
pub(crate) struct WholeUpload {
    pub(crate) parts: Vec<(u32, ArrivedPart)>,
    pub(crate) object: ObjectMetadata,
}

#[derive(Debug)]
pub(crate) struct ServedUpload {
    pub(crate) id: String,
    pub(crate) description: Description,
    root: ServedRoot,
    bucket: EntryPath,
    /// Locked by the request that completes or removes the upload.
    ending: Mutex<()>,
    state: Arc<Mutex<UploadState>>,
}

impl ServedUpload {
    /// Makes the state of the upload `id` in the staging of `bucket`.
    pub(super) fn new(root: ServedRoot, bucket: EntryPath, id: String, description: Description) -> Self {
        Self { id, description, root, bucket, ending: Mutex::default(), state: Arc::default() }
    }

    fn directory(&self) -> Result<OwnedFd> {
        let open = reserved::open_entry(&self.root, &self.bucket, Area::Uploads, &self.id);
        open.map_err(|error| self.io_error(error))
    }

    /// True if the upload was completed or removed.
    pub(super) fn has_ended(&self) -> bool {
        // If the state is locked, a request is still using the upload, so it has not ended.
        self.state.try_lock().is_some_and(|state| state.phase == UploadPhase::Ended)
    }

    /// True while a request may still write a part.
    pub(super) fn has_claims(&self) -> bool {
        Arc::strong_count(&self.state) > 1
    }

    /// Claims part `number` (from 1) of `length` bytes. Blocking.
    pub(crate) fn claim(&self, number: u32, length: u64, resending: ResendRule) -> Result<ClaimResult> {
        let (mut state, session) = self.open(UploadPhase::Open)?;
        if resending == ResendRule::Refused {
            if let Some(part) = state.parts.get(&number) {
                return Ok(ClaimResult::Held(part.clone()));
            }
            if state.running.iter().any(|running| running.number == number) {
                return Err(Error::InUse(number));
            }
        }
        let place = state.place(&session, number, length)?;
        let file = match &place {
            PartPlace::At(_) => session.data.clone(),
            PartPlace::Apart(name) => {
                let file = open_at(&session.directory, name, OFlags::CREATE | OFlags::EXCL);
                Arc::new(file.map_err(|error| Error::io(name, error))?)
            }
        };
        let running = ClaimBeingWritten { number, place, gate: Arc::new(Mutex::new(ClaimGate::Open)) };
        state.running.push(running.clone());
        drop(state);
        Ok(ClaimResult::Write(Arc::new(Claim {
            id: self.id.clone(),
            state: self.state.clone(),
            session,
            file,
            running,
            length,
        })))
    }

    /// Returns the complete parts, by number. Blocking.
    pub(crate) fn parts(&self) -> Result<BTreeMap<u32, ArrivedPart>> {
        let (mut state, session) = self.open(UploadPhase::Ending)?;
        verify(&mut state, &session)?;
        Ok(state.parts.clone())
    }

    /// Returns the time at which a part was last recorded. Blocking.
    pub(crate) fn touched(&self) -> Result<SystemTime> {
        let directory = self.directory()?;
        let journal = open_at(&directory, journal::JOURNAL, OFlags::empty());
        let modified = journal.and_then(|journal| journal.metadata()?.modified());
        modified.map_err(|error| self.io_error(error))
    }

    /// Assembles the parts that `choose` selects, passes the file to `put` for publishing, and ends
    /// the upload. If a step fails, the upload continues, but its parts in flight are lost.
    /// Blocking.
    pub(super) fn complete<T, E: From<Error>>(
        &self,
        choose: impl FnOnce(&BTreeMap<u32, ArrivedPart>) -> std::result::Result<WholeUpload, E>,
        put: impl FnOnce(FinishedFile<'_>) -> publish::Result<T>,
    ) -> std::result::Result<T, E> {
        let _alone = self.ending.lock();
        let (session, parts, whole) = {
            let (mut state, session) = self.open(UploadPhase::Open)?;
            verify(&mut state, &session)?;
            let whole = choose(&state.parts)?;
            state.end();
            (session, state.parts.clone(), whole)
        };
        let done = self.publish(&session, &parts, &whole, put);
        if done.is_err() {
            session.free_unpublished_space(&parts);
        }
        self.state.lock().phase = if done.is_ok() { UploadPhase::Ended } else { UploadPhase::Open };
        if done.is_ok() {
            self.remove_files();
        }
        Ok(done?)
    }

    /// Ends the upload and removes its files. Blocking.
    pub(super) fn remove(&self) -> Result<()> {
        let _alone = self.ending.lock();
        {
            let (mut state, _session) = self.open(UploadPhase::Open)?;
            state.end();
            state.phase = UploadPhase::Ended;
        }
        self.remove_files();
        Ok(())
    }

    fn publish<T>(
        &self,
        session: &UploadSession,
        recorded: &BTreeMap<u32, ArrivedPart>,
        whole: &WholeUpload,
        put: impl FnOnce(FinishedFile<'_>) -> publish::Result<T>,
    ) -> Result<T> {
        let (file, name) = assemble(session, recorded, &whole.parts)?;
        whole.object.write(&file).map_err(|error| Error::io(name, error))?;
        let length = session.append(&JournalLine::Whole(name.to_owned()))?;
        self.state.lock().journal = length;
        let directory = session.directory.as_fd();
        let finished = FinishedFile { directory, name: name.as_ref(), file: &file };
        Ok(put(finished)?)
    }

    /// Opens the upload's files, or reuses the open ones. Fails if the upload's phase is later than
    /// `latest`.
    fn open(&self, latest: UploadPhase) -> Result<(MutexGuard<'_, UploadState>, Arc<UploadSession>)> {
        let mut state = self.state.lock();
        match (state.phase, latest) {
            (UploadPhase::Ended, _) => return Err(Error::NoUpload(self.id.clone())),
            (UploadPhase::Ending, UploadPhase::Open) => return Err(Error::Ending(self.id.clone())),
            _ => {}
        }
        if let Some(session) = state.session.upgrade() {
            return Ok((state, session));
        }
        let directory = self.directory()?;
        let mut journal = self.open_journal(&directory)?;
        if journal.length() != state.journal {
            let recorded = journal.resume().map_err(|error| Error::io(journal::JOURNAL, error))?;
            if recorded.has_ended(&directory) {
                return Err(Error::NoUpload(self.id.clone()));
            }
            state.placement = Placement::of(recorded.slots.or(self.description.slots));
            (state.parts, state.unverified) = (recorded.parts, recorded.unverified);
            state.journal = journal.length();
        }
        let data =
            open_at(&directory, journal::DATA, OFlags::empty()).map_err(|error| self.io_error(error))?;
        let session =
            Arc::new(UploadSession { directory, data: Arc::new(data), journal: Mutex::new(journal) });
        state.session = Arc::downgrade(&session);
        Ok((state, session))
    }

    /// Opens the journal. If the journal is locked, waits a moment, because another request of this
    /// process may be about to close it.
    fn open_journal(&self, directory: &OwnedFd) -> Result<PartsJournal> {
        for _ in 0..CLOSING_ATTEMPTS {
            match PartsJournal::open(directory).map_err(|error| self.io_error(error))? {
                Some(journal) => return Ok(journal),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        Err(Error::Elsewhere(self.id.clone()))
    }

    fn io_error(&self, error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::NotFound => Error::NoUpload(self.id.clone()),
            _ => Error::io(format!("upload {}", self.id), error),
        }
    }

    fn remove_files(&self) {
        let parent = reserved::open(&self.root, &self.bucket, Area::Uploads);
        let removed = parent.and_then(|parent| staging::remove_tree(&parent, self.id.as_ref()));
        if let Err(error) = removed {
            // The error is only logged: a sweep removes the upload later.
            tracing::warn!(%error, bucket = %self.bucket, upload = self.id, "an ended upload cannot be removed");
        }
        reserved::tidy(&self.root, &self.bucket);
    }
}

/// Assembles the chosen parts: in `data` if no recorded part is changed by that, otherwise in a
/// separate file.
fn assemble(
    session: &UploadSession,
    recorded: &BTreeMap<u32, ArrivedPart>,
    chosen: &[(u32, ArrivedPart)],
) -> Result<(Arc<File>, &'static str)> {
    let failed = |error| Error::io("the whole file", error);
    let mut total = 0;
    let mut placed = 0;
    let mut fits = true;
    for (number, part) in chosen {
        if recorded.get(number) != Some(part) {
            return Err(Error::Changed(*number));
        }
        if let PartPlace::At(offset) = part.place {
            fits &= offset == total;
            placed += 1;
        }
        total += part.length;
    }
    // The data file becomes the result only if no recorded part would be truncated or overwritten.
    let all_placed = recorded.values().filter(|part| matches!(part.place, PartPlace::At(_))).count();
    let in_place = fits && placed == all_placed;
    let (file, name) = if in_place {
        (session.data.clone(), journal::DATA)
    } else {
        let whole = open_at(&session.directory, journal::WHOLE, OFlags::CREATE | OFlags::TRUNC);
        (Arc::new(whole.map_err(failed)?), journal::WHOLE)
    };
    let mut offset = 0;
    for (_, part) in chosen {
        if !(in_place && matches!(part.place, PartPlace::At(_))) {
            let (from, start) = session.open(&part.place)?;
            copy_range(&from, ByteRange::at(start, part.length), &file, offset).map_err(failed)?;
        }
        offset += part.length;
    }
    file.set_len(total).map_err(failed)?;
    Ok((file, name))
}
