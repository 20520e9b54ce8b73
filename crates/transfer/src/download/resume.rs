//! Finds the partial file and the journal of an interrupted download, and decides which of its
//! chunks are valid.

use std::path::Path;

use firstbyte_location::{ByteRange, Strength, shown};
use firstbyte_store::{LocalFile, PartialPermissions};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::job::CopyJob;
use crate::journal::{ChunkRecord, Journal, JournalHeader, JournalSource};
use crate::plan::ChunkPlan;
use crate::verify;

/// A download that can be resumed. The partial file is locked while this value lives.
pub(super) struct Resumable {
    pub(super) header: JournalHeader,
    pub(super) records: Vec<ChunkRecord>,
    pub(super) journal: Journal,
    pub(super) partial: LocalFile,
}

/// Looks for a download of the job's source to `path` that can be resumed. If there is a download
/// that cannot be resumed, removes it.
pub(super) fn find(context: &Context<'_>, job: &CopyJob, path: &Path) -> Result<Option<Resumable>> {
    let place = Journal::path_for(path);
    if !place.exists() {
        return Ok(None);
    }
    // The lock is taken before the journal is read, because the journal may belong to a running
    // copy.
    let privacy =
        if job.source.as_local().is_some() { PartialPermissions::Owner } else { PartialPermissions::Usual };
    let partial = context.open_partial(job, path, privacy)?;
    if !partial.is_resumable() {
        partial.discard()?;
        return Ok(None);
    }
    let loaded = Journal::load(partial.directory(), place.clone()).map_err(Error::io(shown(&place)))?;
    let Some((journal, header, records)) = loaded else {
        Journal::remove_at(partial.directory(), &place).map_err(Error::io(shown(&place)))?;
        partial.truncate()?;
        return Ok(None);
    };
    let mut found = Resumable { header, records, journal, partial };
    let length = found.partial.file().metadata().map_err(Error::io(shown(path)))?.len();
    let plan = ChunkPlan::download(found.header.size());
    let (source, service) = (job.source.to_string(), context.store.service_of(&job.source));
    let usable = found.header.is_of(JournalSource { source: &source, service: &service })
        && found.header.chunk() == plan.chunk_size()
        && found.header.version().strength() > Strength::None
        && length == found.header.size()
        && job.check_version(&found.header.version()).is_ok()
        && job.version_id().is_none_or(|id| found.header.version().version_id.as_deref() == Some(id));
    if !usable {
        tracing::debug!(path = %shown(path), "the partial file is of another object: starting over");
        found.discard()?;
        return Ok(None);
    }
    if !found.header.is_of_this_boot() {
        found.keep_intact(&plan)?;
    }
    tracing::debug!(path = %shown(path), chunks = found.records.len(), of = plan.count(), "resuming a download");
    Ok(Some(found))
}

impl Resumable {
    /// Discards all chunks, so that the download starts over.
    pub(super) fn discard(self) -> Result<()> {
        self.journal.remove().map_err(Error::io(shown(&self.journal.path())))?;
        self.partial.truncate()?;
        Ok(self.partial.discard()?)
    }

    /// Returns the byte range of the first missing chunk, or of the last chunk if none is missing.
    pub(super) fn first_missing(&self) -> ByteRange {
        let plan = ChunkPlan::download(self.header.size());
        let mut done = vec![false; plan.count() as usize];
        for record in &self.records {
            if let Some(done) = done.get_mut(record.index as usize) {
                *done = true;
            }
        }
        let last = plan.count().saturating_sub(1);
        let index = plan.chunk_indexes().find(|index| !done[*index as usize]).unwrap_or(last);
        plan.range(index)
    }

    /// Keeps only the chunks whose bytes on the disk have the recorded CRC. After a restart of the
    /// machine, no other chunk can be trusted.
    fn keep_intact(&mut self, plan: &ChunkPlan) -> Result<()> {
        let mut intact = Vec::new();
        for record in self.records.drain(..) {
            if let Some(checksum) = &record.checksum
                && verify::of_range(self.partial.file(), plan.range(record.index), checksum.algorithm)?
                    == *checksum
            {
                intact.push(record);
            }
        }
        let header =
            JournalHeader::new(self.header.origin(), &self.header.version(), plan.size(), plan.chunk_size());
        let place = self.journal.path().to_owned();
        self.journal = Journal::create(self.partial.directory(), place.clone(), &header)
            .map_err(Error::io(shown(&place)))?;
        for record in &intact {
            self.journal.append(record).map_err(Error::io(shown(&place)))?;
        }
        self.records = intact;
        Ok(())
    }
}
