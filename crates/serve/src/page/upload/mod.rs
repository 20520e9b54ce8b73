//! Uploads from the page: parts of one file, in any order and several at a time, each written where it belongs.
//!
//! There is no merge pass: the partial file has the final length from the start, and completing it is a rename.
//! A part is *missing*, *receiving* (one request writes it) or *held* (whole, its CRC32C right, in the [`journal`]).
//! A held part is never written again, so a late or repeated request cannot damage it. [`Uploads`] remembers the
//! uploads in progress; it may forget any that no request uses, for the journal knows all of it.
//!
//! Everything here is plain blocking code on descriptors of the destination directory; HTTP is [`super::protocol`]'s.

mod destination;
mod error;
mod journal;

use std::collections::HashMap;
use std::fs::FileTimes;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::Serialize;

pub(crate) use destination::Existing;
pub(crate) use error::{Error, Result};
use journal::Journal;
pub(crate) use journal::Source;

/// Uploads remembered at once; each may hold two descriptors and 10 KB. Idle ones make room.
const MOST_OPEN: usize = 256;
/// An upload nobody added to for this long is removed when its directory's uploads are next looked at: long enough
/// to come back after a holiday week, short enough that forgotten ones do not fill the disk.
const EXPIRES_AFTER: Duration = Duration::from_secs(14 * 24 * 3600);

/// Device and inode of the directory, and the id: the same upload whatever way the path was written.
type Place = (u64, u64, String);

/// The uploads in progress.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    open: Mutex<HashMap<Place, Arc<Upload>>>,
}

/// One file on its way in.
#[derive(Debug)]
pub(crate) struct Upload {
    id: String,
    source: Source,
    directory: OwnedFd,
    journal: Journal,
    parts: Mutex<Vec<Part>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Missing,
    Receiving,
    Held,
}

/// What the page is told of an upload.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    /// Names it in later requests.
    pub(crate) id: String,
    /// What is being uploaded.
    #[serde(flatten)]
    pub(crate) source: Source,
    /// Bytes in every part but the last.
    pub(crate) part_size: u64,
    /// Numbers of the parts held, from 0.
    pub(crate) held: Vec<usize>,
    /// Seconds since 1970 when a part last arrived.
    pub(crate) touched: u64,
    /// What already has that name, where something has.
    pub(crate) existing: Option<Occupant>,
}

/// The file that stands where an upload is to go.
#[derive(Debug, Serialize)]
pub(crate) struct Occupant {
    /// Its length in bytes.
    pub(crate) size: u64,
    /// Its modification time, milliseconds since 1970.
    pub(crate) mtime: i64,
}

/// What a request for a part may do.
#[derive(Debug)]
pub(crate) enum Claim {
    /// Nothing: it is held already.
    Held,
    /// Write it; nobody else does meanwhile.
    Write(Box<PartWriter>),
}

impl Uploads {
    /// Begins the upload of `source` into `directory`, or finds what is there of it.
    pub(crate) fn begin(&self, directory: OwnedFd, source: Source) -> Result<Status> {
        destination::check_name(&source.name)?;
        let id = source.id();
        let mut open = lock(&self.open);
        let place = place(&directory, &id)?;
        if let Some(upload) = open.get(&place) {
            return upload.status();
        }
        check_space(&directory, source.size)?;
        let (journal, held) = Journal::create(directory.as_fd(), &source)?;
        let upload = remember(&mut open, place, Upload::new(id, source, directory, journal, &held))?;
        upload.status()
    }

    /// The upload `id` of `directory`, from memory or from its journal.
    pub(crate) fn find(&self, directory: OwnedFd, id: &str) -> Result<Arc<Upload>> {
        if !journal::is_id(id) {
            return Err(Error::NoUpload(id.into()));
        }
        let mut open = lock(&self.open);
        let place = place(&directory, id)?;
        if let Some(upload) = open.get(&place) {
            return Ok(upload.clone());
        }
        let (journal, source, held) = Journal::open(directory.as_fd(), id)?;
        remember(&mut open, place, Upload::new(id.into(), source, directory, journal, &held))
    }

    /// Everything unfinished in `directory`; what has expired is removed on the way.
    pub(crate) fn list(&self, directory: &OwnedFd) -> Result<Vec<Status>> {
        let mut found = Vec::new();
        for entry in rustix::fs::Dir::read_from(directory).map_err(|e| Error::io(".", e))? {
            let entry = entry.map_err(|e| Error::io(".", e))?;
            let Some(id) = journal::id_of_journal(entry.file_name().to_bytes()) else { continue };
            let own = rustix::io::fcntl_dupfd_cloexec(directory, 0).map_err(|e| Error::io(".", e))?;
            // One that another process holds, or that ended meanwhile, is not ours to offer.
            let Ok(upload) = self.find(own, id) else { continue };
            let status = upload.status()?;
            let age = SystemTime::now().duration_since(upload.journal.last_change()).unwrap_or_default();
            drop(upload);
            if age < EXPIRES_AFTER { found.push(status) } else { self.discard(directory, id)? }
        }
        Ok(found)
    }

    /// Ends upload `id` and removes what is there of it.
    pub(crate) fn discard(&self, directory: &OwnedFd, id: &str) -> Result<()> {
        if !journal::is_id(id) {
            return Err(Error::NoUpload(id.into()));
        }
        let mut open = lock(&self.open);
        let place = place(directory, id)?;
        if open.get(&place).is_some_and(|upload| Arc::strong_count(upload) > 1) {
            return Err(Error::InUse(id.into()));
        }
        open.remove(&place);
        Journal::remove(directory.as_fd(), id)
    }

    /// Checks that every part is held, makes the file durable as asked and puts it in place; gives the name it got.
    pub(crate) fn complete(&self, directory: OwnedFd, id: &str, existing: Existing) -> Result<String> {
        let upload = self.find(directory, id)?;
        let name = upload.finish(existing)?;
        lock(&self.open).remove(&place(&upload.directory, id)?);
        Ok(name)
    }
}

impl Upload {
    fn new(id: String, source: Source, directory: OwnedFd, journal: Journal, held: &[bool]) -> Self {
        let parts = held.iter().map(|held| if *held { Part::Held } else { Part::Missing }).collect();
        Self { id, source, directory, journal, parts: Mutex::new(parts) }
    }

    /// What the page is told of it.
    pub(crate) fn status(&self) -> Result<Status> {
        let held =
            lock(&self.parts).iter().enumerate().filter(|(_, p)| **p == Part::Held).map(|(n, _)| n).collect();
        let touched =
            self.journal.last_change().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        Ok(Status {
            id: self.id.clone(),
            source: self.source.clone(),
            part_size: self.source.part_size(),
            held,
            touched,
            existing: destination::occupant(self.directory.as_fd(), &self.source.name)?,
        })
    }

    /// Asks to write part `number`, `length` bytes long.
    pub(crate) fn claim(self: &Arc<Self>, number: usize, length: u64) -> Result<Claim> {
        let (offset, expected) = self.source.part(number);
        if number >= self.source.part_count() {
            return Err(Error::NoPart { number, parts: self.source.part_count() });
        }
        if length != expected {
            return Err(Error::Length { number, expected, got: length });
        }
        let part = &mut lock(&self.parts)[number];
        match *part {
            Part::Held => Ok(Claim::Held),
            Part::Receiving => Err(Error::InUse(format!("part {number}"))),
            Part::Missing => {
                *part = Part::Receiving;
                let crc = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
                let part = PartWriter { upload: self.clone(), number, next: offset, left: length, crc };
                Ok(Claim::Write(Box::new(part)))
            }
        }
    }

    fn finish(&self, existing: Existing) -> Result<String> {
        // Held over the rename, so that no second completion comes in between.
        let parts = lock(&self.parts);
        let missing: Vec<usize> =
            parts.iter().enumerate().filter(|(_, p)| **p != Part::Held).map(|(n, _)| n).collect();
        if !missing.is_empty() {
            return Err(Error::Incomplete(missing));
        }
        let data = &self.journal.data;
        let times = FileTimes::new().set_modified(self.source.modified());
        // A file system that cannot keep the time, or what is said of the file, keeps the bytes all the same.
        let _ = data.set_times(times);
        let _ = self.source.metadata().write(data);
        // People who upload expect the file to be there after a power cut; it costs them one flush a file.
        data.sync_data().map_err(|e| Error::io(&self.source.name, e))?;
        let from = journal::data_name(&self.id);
        let name = destination::put_in_place(self.directory.as_fd(), &from, &self.source.name, existing)?;
        Journal::remove(self.directory.as_fd(), &self.id)?;
        Ok(name)
    }
}

/// Writes one part in place; what was not finished counts as missing again.
#[derive(Debug)]
pub(crate) struct PartWriter {
    upload: Arc<Upload>,
    number: usize,
    next: u64,
    left: u64,
    crc: crc_fast::Digest,
}

impl PartWriter {
    /// Writes the next bytes of the part.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let length = bytes.len() as u64;
        self.left = self.left.checked_sub(length).ok_or(Error::TooLong(self.number))?;
        self.crc.update(bytes);
        self.upload
            .journal
            .data
            .write_all_at(bytes, self.next)
            .map_err(|e| Error::io(&self.upload.source.name, e))?;
        self.next += length;
        Ok(())
    }

    /// Checks the part against the sender's CRC32C and records it.
    pub(crate) fn finish(self, expected: u32) -> Result<()> {
        if self.left != 0 {
            return Err(Error::Short { number: self.number, missing: self.left });
        }
        if self.crc.finalize() != u64::from(expected) {
            return Err(Error::Checksum(self.number));
        }
        self.upload.journal.record(self.number, expected)?;
        lock(&self.upload.parts)[self.number] = Part::Held;
        Ok(())
    }
}

impl Drop for PartWriter {
    fn drop(&mut self) {
        let part = &mut lock(&self.upload.parts)[self.number];
        if *part == Part::Receiving {
            *part = Part::Missing;
        }
    }
}

fn place(directory: &OwnedFd, id: &str) -> Result<Place> {
    let stat = rustix::fs::fstat(directory).map_err(|e| Error::io(".", e))?;
    Ok((stat.st_dev, stat.st_ino, id.into()))
}

fn remember(open: &mut HashMap<Place, Arc<Upload>>, place: Place, upload: Upload) -> Result<Arc<Upload>> {
    if open.len() >= MOST_OPEN {
        open.retain(|_, upload| Arc::strong_count(upload) > 1);
    }
    if open.len() >= MOST_OPEN {
        return Err(Error::TooMany);
    }
    let upload = Arc::new(upload);
    open.insert(place, upload.clone());
    Ok(upload)
}

/// Refuses at once what cannot fit, rather than after an hour.
fn check_space(directory: &OwnedFd, size: u64) -> Result<()> {
    let free = rustix::fs::fstatvfs(directory).map(|s| s.f_bavail.saturating_mul(s.f_frsize));
    match free {
        Ok(free) if size > free => Err(Error::Space { size, free }),
        _ => Ok(()),
    }
}

/// A panic elsewhere leaves plain values here, usable as they are.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
