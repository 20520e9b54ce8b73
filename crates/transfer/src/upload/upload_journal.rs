//! Records multipart uploads in progress, so that the next run can resume them.
//!
//! Each pair of source and destination has one small file in the state directory. No file is
//! written beside the source, which may be read-only or watched by other programs. The file
//! contains the id of the upload, the version of the source, and a digest of the options with which
//! the upload was begun. If the version or the options are different now, the old upload is aborted
//! and a new one begins. The endpoint is part of the file's name, so an upload to another service
//! is neither continued nor aborted. A run locks the file, so a second run at the same time does
//! not resume.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use firstbyte_location::{Location, shown};
use firstbyte_store::{Algorithm, FileAccess, Hasher, Part, PrivateDirectory, Sharing, Stat, Store, Upload};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::plan::ChunkPlan;

pub(super) struct UploadJournal {
    directory: PrivateDirectory,
    name: PathBuf,
    file: File,
}

#[derive(Serialize, Deserialize)]
struct Record {
    destination: String,
    upload_id: String,
    /// The version of the source as text. It is only compared.
    source_version: String,
    part_size: u64,
    /// [`Store::digest_of_writes`]. Empty in the journals of older builds, which did not record it.
    #[serde(default)]
    options: String,
}

impl UploadJournal {
    /// Opens or creates the journal. Returns `None` if that fails: the upload works, but cannot be
    /// resumed.
    pub(super) fn open(
        directory: &Path,
        source: &Location,
        destination: &Location,
        service: &str,
    ) -> Option<Self> {
        let source = source.as_local().and_then(|path| std::fs::canonicalize(path).ok())?;
        let key = format!("{}\0{destination}\0{service}", shown(&source));
        let name = Hasher::of(Algorithm::Sha256, key.as_bytes()).to_hex();
        let name = PathBuf::from(format!("upload-{}.json", &name[..32]));
        let path = directory.join(&name);
        let open = || {
            let directory = PrivateDirectory::create(directory, Sharing::Private)?;
            let file = directory.file(&name, FileAccess::Create)?;
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            Ok::<_, std::io::Error>((directory, file))
        };
        match open() {
            Ok((directory, file)) => Some(Self { directory, name, file }),
            Err(error) => {
                tracing::warn!(%error, path = %shown(&path), "this upload will not resume");
                None
            }
        }
    }

    /// Returns the upload to resume and the parts that it has. Returns `None` if a new upload must
    /// begin.
    pub(super) fn resume(
        &self,
        store: &Store,
        destination: &Location,
        stat: &Stat,
        plan: &ChunkPlan,
        options: &str,
    ) -> Option<(Upload, Vec<Part>)> {
        let mut text = String::new();
        (&self.file).rewind().ok()?;
        (&self.file).read_to_string(&mut text).ok()?;
        let record: Record = serde_json::from_str(&text).ok()?;
        let upload = Upload { location: destination.clone(), id: record.upload_id };
        if record.source_version != stat.version.to_string()
            || record.part_size != plan.chunk_size()
            || record.options != options
            || record.destination != destination.to_string()
        {
            tracing::info!(%destination, "the source or the options have changed: aborting the old upload");
            if let Err(error) = store.abort_upload(&upload) {
                tracing::warn!(%error, "the old upload could not be aborted");
            }
            return None;
        }
        // Listing the parts fails if the store no longer has the upload.
        let mut parts = store.list_parts(&upload).ok()?;
        parts.retain(|part| part.number > 0 && part.size == plan.range(part.number - 1).len());
        Some((upload, parts))
    }

    /// Records a new upload.
    pub(super) fn write(&self, upload: &Upload, stat: &Stat, plan: &ChunkPlan, options: &str) -> Result<()> {
        let record = Record {
            destination: upload.location.to_string(),
            upload_id: upload.id.clone(),
            source_version: stat.version.to_string(),
            part_size: plan.chunk_size(),
            options: options.to_owned(),
        };
        let write = || {
            let text = serde_json::to_vec(&record)?;
            firstbyte_store::truncate(&self.file)?;
            (&self.file).rewind()?;
            (&self.file).write_all(&text)
        };
        write().map_err(Error::io(shown(&self.directory.shown(&self.name))))
    }

    pub(super) fn remove(&self) -> Result<()> {
        let removed = self.directory.remove(&self.name);
        removed.map_err(Error::io(shown(&self.directory.shown(&self.name))))
    }
}
