//! What an interrupted download left: the partial file, the journal, and which chunks of it count.

use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use firstbyte_location::{ByteRange, Strength, shown};
use firstbyte_store::{Beneath, Error as StoreError, LocalFile, Over, Privacy};

use crate::journal::{Header, Journal, Record};
use crate::plan::Plan;
use crate::run::Run;
use crate::{Error, Job, Result, verify};

/// A download to be gone on with. Holds the lock on the partial file.
pub(crate) struct Found {
    pub(crate) header: Header,
    pub(crate) records: Vec<Record>,
    pub(crate) journal: Journal,
    pub(crate) partial: LocalFile,
}

/// How long a lock on a partial file is waited for: a copy just killed may hold it until its last thread is gone.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// Opens the partial file for `path`, a job's destination.
pub(crate) fn open_partial(run: &Run<'_>, job: &Job, path: &Path) -> Result<LocalFile> {
    let started = Instant::now();
    loop {
        match run.open_partial(job, path) {
            Err(StoreError::Io { source, .. })
                if source.kind() == ErrorKind::WouldBlock && started.elapsed() < LOCK_WAIT =>
            {
                std::thread::sleep(LOCK_WAIT / 50);
            }
            other => return Ok(other?),
        }
    }
}

/// Removes what a killed copy left of a file that is complete: the partial file of a later attempt, or a journal that was
/// about to be removed; there must be one of them. A copy that is under way keeps its own.
pub(crate) fn clear(root: &Beneath, name: &Path) -> Result<()> {
    let journal = Journal::path_for(name);
    match LocalFile::open_beneath(root, name, Over::File, Privacy::Owner) {
        Ok(partial) => {
            root.remove_file(&journal)?;
            Ok(partial.discard()?)
        }
        Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Looks for a download of the job's source to `path` that can be gone on with; clears away one that cannot.
pub(crate) fn find(run: &Run<'_>, job: &Job, path: &Path) -> Result<Option<Found>> {
    let place = Journal::path_for(path);
    if !place.exists() {
        return Ok(None);
    }
    // The lock first: the journal may be that of a copy under way.
    let partial = open_partial(run, job, path)?;
    let loaded = Journal::load(partial.directory(), place.clone()).map_err(Error::io(shown(&place)))?;
    let Some((journal, header, records)) = loaded else {
        Journal::forget(partial.directory(), &place).map_err(Error::io(shown(&place)))?;
        partial.empty()?;
        return Ok(None);
    };
    let mut found = Found { header, records, journal, partial };
    let length = found.partial.file().metadata().map_err(Error::io(shown(path)))?.len();
    let plan = Plan::download(found.header.size());
    let usable = found.header.is_of(&job.source.to_string())
        && found.header.chunk() == plan.chunk()
        && found.header.version().strength() > Strength::None
        && length == found.header.size();
    if !usable {
        tracing::debug!(path = %shown(path), "what an earlier copy left is of another object: starting over");
        found.discard()?;
        return Ok(None);
    }
    if !found.header.is_of_this_boot() {
        found.keep_proven(&plan)?;
    }
    tracing::debug!(path = %shown(path), chunks = found.records.len(), of = plan.count(), "going on with a download");
    Ok(Some(found))
}

impl Found {
    /// Starts over: forgets all chunks.
    pub(crate) fn discard(self) -> Result<()> {
        self.journal.remove().map_err(Error::io(shown(&self.journal.path())))?;
        self.partial.empty()?;
        Ok(self.partial.discard()?)
    }

    /// The bytes of the first chunk that is not there; at the end of the object, its last byte's chunk.
    pub(crate) fn first_missing(&self) -> ByteRange {
        let plan = Plan::download(self.header.size());
        let mut done = vec![false; plan.count() as usize];
        for record in &self.records {
            if let Some(done) = done.get_mut(record.index as usize) {
                *done = true;
            }
        }
        let last = plan.count().saturating_sub(1);
        let index =
            done.iter().position(|done| !done).map_or(last, |index| u32::try_from(index).unwrap_or(last));
        plan.range(index)
    }

    /// Keeps the chunks whose bytes on the disk have the CRC that was recorded: after a restart of the machine
    /// nothing else is certain.
    fn keep_proven(&mut self, plan: &Plan) -> Result<()> {
        let mut proven = Vec::new();
        for record in self.records.drain(..) {
            if let Some(checksum) = &record.checksum
                && verify::of_range(self.partial.file(), plan.range(record.index), checksum.algorithm)?
                    == *checksum
            {
                proven.push(record);
            }
        }
        let header = Header::new(self.header.source(), &self.header.version(), plan.size(), plan.chunk());
        let place = self.journal.path().to_owned();
        self.journal = Journal::create(self.partial.directory(), place.clone(), &header)
            .map_err(Error::io(shown(&place)))?;
        for record in &proven {
            self.journal.append(record).map_err(Error::io(shown(&place)))?;
        }
        self.records = proven;
        Ok(())
    }
}
