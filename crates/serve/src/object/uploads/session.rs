//! The state of an upload while requests work on it, and its open files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Weak};

use firstbyte_location::{Algorithm, ByteRange, Hasher};
use rustix::fs::{AtFlags, OFlags};
use rustix_futex_sync::Mutex;

use super::error::{Error, Result};
use super::journal::{DATA, Journal, Line, Part, Place, WHOLE, open_at};
use super::placement::Placement;
use crate::object::copying::read_range;
use crate::token::random_token;

/// What the holder of a claim may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// Write.
    Open,
    /// Nothing: the upload is being ended.
    Revoked,
    /// Nothing more: the part has arrived.
    Recorded,
}

/// The upload's own record of a claim.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) number: u32,
    pub(super) place: Place,
    /// Locked while a piece is written.
    pub(super) gate: Arc<Mutex<Gate>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Open,
    Ending,
    Ended,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) placement: Placement,
    pub(super) parts: BTreeMap<u32, Part>,
    pub(super) doubtful: BTreeSet<u32>,
    pub(super) running: Vec<Running>,
    /// The journal's length when it was last looked at; zero before that.
    pub(super) journal: u64,
    pub(super) session: Weak<Session>,
}

/// The open files of an upload, for as long as a request works on it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) directory: OwnedFd,
    pub(super) data: Arc<File>,
    pub(super) journal: Mutex<Journal>,
}

impl Session {
    /// Removes a file that is no longer, or will not be, a part. What stays goes with the upload.
    pub(super) fn remove(&self, name: &str) {
        let _ = rustix::fs::unlinkat(&self.directory, name, AtFlags::empty());
    }

    /// Gives back the space of a whole that was assembled and not published. A full disk may be why
    /// it was not. A file that has another name by now is left as it is.
    pub(super) fn give_back(&self, recorded: &BTreeMap<u32, Part>) {
        let placed = recorded.values().filter_map(|part| match part.place {
            Place::At(offset) => Some(offset + part.length),
            Place::Apart(_) => None,
        });
        let _ = shorten(&self.directory, DATA, placed.max().unwrap_or(0));
        let _ = shorten(&self.directory, WHOLE, 0);
    }

    pub(super) fn append(&self, line: &Line) -> Result<u64> {
        let mut journal = self.journal.lock();
        journal.append(line).map_err(|error| Error::io("journal", error))?;
        Ok(journal.length())
    }

    pub(super) fn open(&self, place: &Place) -> Result<(Arc<File>, u64)> {
        match place {
            Place::At(offset) => Ok((self.data.clone(), *offset)),
            Place::Apart(name) => {
                let file = open_at(&self.directory, name, OFlags::empty());
                Ok((Arc::new(file.map_err(|error| Error::io(name, error))?), 0))
            }
        }
    }

    /// Whether the bytes of `part` are those that were recorded.
    fn holds(&self, part: &Part) -> bool {
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

/// Cuts the file `name` to `length`, if it is longer and has no other name.
fn shorten(directory: &OwnedFd, name: &str, length: u64) -> std::io::Result<()> {
    let file = open_at(directory, name, OFlags::empty())?;
    let metadata = file.metadata()?;
    if metadata.nlink() == 1 && metadata.len() > length { file.set_len(length) } else { Ok(()) }
}

impl State {
    /// Notes a part as arrived; gives the one it takes the place of.
    pub(super) fn record(&mut self, session: &Session, number: u32, part: &Part) -> Result<Option<Part>> {
        self.journal = session.append(&Line::Part(number, part.clone()))?;
        self.doubtful.remove(&number);
        Ok(self.parts.insert(number, part.clone()))
    }

    /// Decides where a part goes: into its slot where that is free, else apart.
    pub(super) fn place(&mut self, session: &Session, number: u32, length: u64) -> Result<Place> {
        let known = self.placement.length();
        let slot = self.placement.slot(number, length);
        if let (None, Some(length)) = (known, self.placement.length()) {
            self.journal = session.append(&Line::Slots(length)).inspect_err(|_| {
                self.placement = Placement::default();
            })?;
        }
        let taken = |slot: u64| {
            let mut places = self
                .parts
                .values()
                .map(|part| &part.place)
                .chain(self.running.iter().map(|running| &running.place));
            places.any(|place| *place == Place::At(slot))
        };
        Ok(match slot {
            Some(slot) if !taken(slot) => Place::At(slot),
            _ => Place::Apart(format!("apart-{}", random_token())),
        })
    }

    /// Lets no part in any more: waits for the pieces being written, refuses the following.
    pub(super) fn end(&mut self) {
        self.phase = Phase::Ending;
        for running in self.running.drain(..) {
            let mut gate = running.gate.lock();
            if *gate == Gate::Open {
                *gate = Gate::Revoked;
            }
        }
    }
}

/// Compares the bytes of parts recorded under another boot; those that were not kept are no longer
/// parts.
pub(super) fn verify(state: &mut State, session: &Session) -> Result<()> {
    for number in std::mem::take(&mut state.doubtful) {
        let Some(part) = state.parts.get(&number).cloned() else { continue };
        let line = if session.holds(&part) {
            Line::Part(number, part)
        } else {
            state.parts.remove(&number);
            Line::Lost(number)
        };
        state.journal = session.append(&line)?;
    }
    Ok(())
}
