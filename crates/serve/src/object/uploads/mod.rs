//! Implements multipart uploads: one engine for S3 and for the upload page.
//!
//! An upload is a directory in its bucket's staging ([`mod@journal`] describes its files). A
//! request for a part finds the upload ([`Uploads::find`]), claims the part
//! ([`ServedUpload::claim`]), writes it and records it ([`Claim::record`]). A request that ends the
//! upload completes or removes it. [`mod@upload`] has the rules. The code is blocking and
//! independent of HTTP.

mod description;
mod error;
mod journal;
mod part;
mod placement;
mod session;
mod upload;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, OFlags};
use rustix_futex_sync::Mutex;

pub(crate) use description::{BrowserFile, Description, UploadOrigin};
pub(crate) use error::{Error, Result};
pub(crate) use journal::ArrivedPart;
use journal::{PartsJournal, open_at};
pub(crate) use part::Claim;
pub(crate) use upload::{ClaimResult, ResendRule, ServedUpload, WholeUpload};

use crate::http::etag::EtagIdentity;
use crate::object::publish::{self, FinishedFile};
use crate::object::reserved::{self, Area};
use crate::object::root::ServedRoot;
use crate::object::staging::{self, TemporaryDirectory};
use crate::path::EntryPath;

/// Maximum number of uploads in memory, about 10 KB each. Above it, idle uploads are forgotten and
/// read from disk again when needed.
const MAX_UPLOADS_IN_MEMORY: usize = 1024;

/// The uploads of one server.
#[derive(Debug)]
pub(crate) struct Uploads {
    root: ServedRoot,
    /// Uploads by bucket and id.
    known: Mutex<HashMap<(EntryPath, String), Arc<ServedUpload>>>,
}

/// An upload in a listing.
#[derive(Debug)]
pub(crate) struct ListedUpload {
    pub(crate) id: String,
    pub(crate) description: Description,
    /// The version of the upload's description. Its modification time is the time at which the
    /// upload began.
    pub(crate) begun: EtagIdentity,
}

impl Uploads {
    /// Creates the collection of uploads below `root`.
    pub(crate) fn new(root: ServedRoot) -> Self {
        Self { root, known: Mutex::default() }
    }

    /// Creates an upload in the staging of `bucket`, which must exist. It appears on disk
    /// atomically. Blocking.
    pub(crate) fn create(
        &self,
        bucket: &EntryPath,
        id: &str,
        description: &Description,
    ) -> Result<Arc<ServedUpload>> {
        let failed = |error| Error::io(format!("upload {id}"), error);
        description.object.check().map_err(|reason| failed(reason.into()))?;
        let made = TemporaryDirectory::create(&self.root, bucket).map_err(failed)?;
        let text = serde_json::to_vec(description).map_err(|error| failed(error.into()))?;
        let fill = |directory: &OwnedFd| -> io::Result<()> {
            let create = OFlags::CREATE | OFlags::EXCL;
            // Refuses the upload now if the file system has no room for the metadata. Otherwise the
            // client would learn this only after sending all parts.
            description.object.write(&open_at(directory, journal::DATA, create)?)?;
            PartsJournal::create(directory)?;
            open_at(directory, journal::DESCRIPTION, create)?.write_all_at(&text, 0)
        };
        fill(made.directory()).map_err(failed)?;
        match made.rename(&self.root, bucket, Area::Uploads, id) {
            // Two requests created the same upload at once. The page may do so.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
                ) => {}
            done => done.map_err(failed)?,
        }
        self.find(bucket, id)
    }

    /// Finds the upload `id` of `bucket`. Blocking.
    pub(crate) fn find(&self, bucket: &EntryPath, id: &str) -> Result<Arc<ServedUpload>> {
        if !is_id(id) {
            return Err(Error::NoUpload(id.to_owned()));
        }
        let name = (bucket.clone(), id.to_owned());
        if let Some(upload) = self.known.lock().get(&name).filter(|upload| !upload.has_ended()) {
            return Ok(upload.clone());
        }
        let open = reserved::open_entry(&self.root, bucket, Area::Uploads, id);
        let description =
            open.and_then(|open| read_description(&open)).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => Error::NoUpload(id.to_owned()),
                _ => Error::io(format!("upload {id}"), error),
            })?;
        let mut known = self.known.lock();
        known.retain(|_, upload| !upload.has_ended());
        if known.len() >= MAX_UPLOADS_IN_MEMORY {
            known.retain(|_, upload| Arc::strong_count(upload) > 1 || upload.has_claims());
        }
        let new =
            || Arc::new(ServedUpload::new(self.root.clone(), bucket.clone(), id.to_owned(), description));
        Ok(known.entry(name).or_insert_with(new).clone())
    }

    /// Lists the uploads of `bucket`, unsorted. Blocking.
    pub(crate) fn list(&self, bucket: &EntryPath) -> io::Result<Vec<ListedUpload>> {
        let mut listed = Vec::new();
        for id in self.ids(bucket)? {
            // Skips uploads that end meanwhile.
            let Ok(open) = reserved::open_entry(&self.root, bucket, Area::Uploads, &id) else {
                continue;
            };
            let Ok(description) = read_description(&open) else { continue };
            let Ok(begun) = rustix::fs::statat(&open, journal::DESCRIPTION, AtFlags::empty()) else {
                continue;
            };
            if journal::exists(&open, journal::DATA) {
                listed.push(ListedUpload { id, description, begun: EtagIdentity::from(&begun) });
            }
        }
        Ok(listed)
    }

    fn ids(&self, bucket: &EntryPath) -> io::Result<Vec<String>> {
        let directory = match reserved::open(&self.root, bucket, Area::Uploads) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            done => done?,
        };
        let mut ids = Vec::new();
        for entry in rustix::fs::Dir::read_from(&directory)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if is_id(&name) {
                ids.push(name);
            }
        }
        Ok(ids)
    }

    /// Completes `upload`: `choose` selects the parts, and `put` publishes the result. If `choose`
    /// or `put` fails, the upload continues, but parts in flight have to be sent again. Blocking.
    pub(crate) fn complete<T, E: From<Error>>(
        &self,
        upload: &ServedUpload,
        choose: impl FnOnce(&BTreeMap<u32, ArrivedPart>) -> std::result::Result<WholeUpload, E>,
        put: impl FnOnce(FinishedFile<'_>) -> publish::Result<T>,
    ) -> std::result::Result<T, E> {
        let done = upload.complete(choose, put)?;
        self.forget(upload);
        Ok(done)
    }

    /// Ends `upload` and removes its files. Blocking.
    pub(crate) fn remove(&self, upload: &ServedUpload) -> Result<()> {
        upload.remove()?;
        self.forget(upload);
        Ok(())
    }

    /// Ends all uploads of `bucket`, except those on which another process works. Blocking.
    pub(crate) fn remove_all(&self, bucket: &EntryPath) -> io::Result<()> {
        for id in self.ids(bucket)? {
            if let Err(error) = self.find(bucket, &id).and_then(|upload| self.remove(&upload)) {
                tracing::debug!(%error, "an upload ended before its bucket was removed, or did not end");
            }
        }
        self.sweep(bucket, Duration::MAX)
    }

    fn forget(&self, upload: &ServedUpload) {
        self.known.lock().retain(|_, known| !std::ptr::eq(Arc::as_ptr(known), upload));
    }

    /// Removes the uploads of `bucket` whose removal was interrupted, and the uploads that received
    /// nothing for the time `abandoned`. Keeps uploads on which a request works. Blocking.
    pub(crate) fn sweep(&self, bucket: &EntryPath, abandoned: Duration) -> io::Result<()> {
        let parent = match reserved::open(&self.root, bucket, Area::Uploads) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            done => done?,
        };
        for id in self.ids(bucket)? {
            // The lock is held during the removal, so that no request can begin to work on the
            // upload.
            let Some(_locked) = lock_finished_or_abandoned(&parent, &id, abandoned)? else { continue };
            tracing::info!(%bucket, upload = id, "removing what is left of an upload");
            staging::remove_tree(&parent, id.as_ref())?;
            self.known.lock().remove(&(bucket.clone(), id));
        }
        reserved::tidy(&self.root, bucket);
        Ok(())
    }
}

/// Locks the upload `id` in `parent` if it has ended or was abandoned.
fn lock_finished_or_abandoned(
    parent: &OwnedFd,
    id: &str,
    abandoned: Duration,
) -> io::Result<Option<Option<PartsJournal>>> {
    let directory = match reserved::open_in(parent, id.as_ref()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        done => done?,
    };
    let mut journal = match PartsJournal::open(&directory) {
        // A new upload has a journal. If the journal is missing, a removal was interrupted.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(None)),
        Err(error) => return Err(error),
        Ok(None) => return Ok(None),
        Ok(Some(journal)) => journal,
    };
    let touched = journal.touched()?;
    let over = match read_description(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(_) => touched.elapsed().is_ok_and(|since| since > abandoned),
        Ok(description) => {
            description.has_expired(touched, abandoned) || journal.read()?.has_ended(&directory)
        }
    };
    Ok(over.then_some(Some(journal)))
}

fn read_description(directory: &OwnedFd) -> io::Result<Description> {
    let text = io::read_to_string(open_at(directory, journal::DESCRIPTION, OFlags::empty())?)?;
    serde_json::from_str(&text).map_err(io::Error::from)
}

/// True if `id` is a valid upload id. Only valid ids become part of a file name.
pub(crate) fn is_id(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests;
