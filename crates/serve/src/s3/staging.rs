//! Multipart uploads on disk.
//!
//! An upload lives in `BUCKET/.firstbyte/uploads/ID/`: `upload.json` says what it will be, `data` is the file in the making,
//! `N.json` records part N, `N.data` holds a part that got no place. All of it is on disk, so that a server started again
//! knows its uploads; what is in memory only saves reading it back.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstbyte_location::{Algorithm, ByteRange};
use rustix::fs::{AtFlags, Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::etag::Identity;
use crate::root::{EntryPath, RESERVED, Root};
use crate::s3::checksum::Values;
use crate::s3::metadata::ObjectMetadata;
use crate::s3::objects::copy_range;
use crate::s3::placement::{Place, Placement};

/// What an upload will become.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Description {
    pub(crate) key: String,
    pub(crate) object: ObjectMetadata,
    #[serde(default)]
    pub(crate) algorithm: Option<String>,
}

/// A complete part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PartRecord {
    pub(crate) length: u64,
    pub(crate) place: Place,
    pub(crate) checksums: Values,
}

impl PartRecord {
    /// Its tag: the checksum every part has, in a form no client takes for an MD5.
    pub(crate) fn etag(&self) -> String {
        let sum = self.checksums.get(&Algorithm::Crc64Nvme).map_or("", String::as_str);
        format!("{}-{:x}", hex::encode(sum.trim_end_matches('=')), self.length)
    }
}

/// One upload in progress.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) directory: EntryPath,
    pub(crate) description: Description,
    pub(crate) data: Arc<File>,
    pub(crate) placement: Mutex<Placement>,
    pub(crate) parts: Mutex<BTreeMap<i32, PartRecord>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn staging(bucket: &EntryPath) -> EntryPath {
    bucket.join(RESERVED.as_ref()).join("uploads".as_ref())
}

/// Removes what an emptied bucket holds of past uploads. Blocking.
pub(crate) fn remove_staging(root: &Root, bucket: &EntryPath) {
    // Uploads still in progress keep it, and with it the bucket.
    let _ = root.remove(&staging(bucket), AtFlags::REMOVEDIR);
    let _ = root.remove(&bucket.join(RESERVED.as_ref()), AtFlags::REMOVEDIR);
}

impl Upload {
    pub(crate) fn create(root: &Root, directory: EntryPath, description: Description) -> io::Result<Self> {
        let parent = root.make_directory(&directory)?;
        let data = open_at(&parent, "data", OFlags::CREATE | OFlags::EXCL)?;
        write_json(&parent, "upload.json", &description)?;
        let parts = Mutex::default();
        Ok(Self { directory, description, data: Arc::new(data), placement: Mutex::default(), parts })
    }

    /// Reads an upload back from disk.
    pub(crate) fn load(root: &Root, directory: EntryPath) -> io::Result<Self> {
        let parent = root.open_directory(&directory)?;
        let description = read_json(&parent, "upload.json")?;
        let data = open_at(&parent, "data", OFlags::empty())?;
        let mut parts = BTreeMap::new();
        let mut placement = Placement::default();
        for entry in rustix::fs::Dir::read_from(&parent)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(number) = name.strip_suffix(".json").and_then(|number| number.parse::<i32>().ok())
            else {
                continue;
            };
            parts.insert(number, read_json::<PartRecord>(&parent, &name)?);
        }
        for (number, part) in &parts {
            placement.place(u64::try_from(*number).unwrap_or(1), part.length);
        }
        let (placement, parts) = (Mutex::new(placement), Mutex::new(parts));
        Ok(Self { directory, description, data: Arc::new(data), placement, parts })
    }

    /// Where part `number` goes: the file and the offset.
    pub(crate) fn destination(
        &self,
        root: &Root,
        number: i32,
        length: u64,
    ) -> io::Result<(Arc<File>, Place)> {
        let place = lock(&self.placement).place(u64::try_from(number).unwrap_or(1), length);
        // Whatever was there under this number is being overwritten.
        lock(&self.parts).remove(&number);
        match place {
            Place::At(_) => Ok((self.data.clone(), place)),
            Place::Apart => {
                let parent = root.open_directory(&self.directory)?;
                let file = open_at(&parent, &format!("{number}.data"), OFlags::CREATE | OFlags::TRUNC)?;
                Ok((Arc::new(file), place))
            }
        }
    }

    /// Keeps a complete part; gives its tag. Blocking.
    pub(crate) fn record(&self, root: &Root, number: i32, part: PartRecord) -> io::Result<String> {
        let parent = root.open_directory(&self.directory)?;
        write_json(&parent, &format!("{number}.json"), &part)?;
        let etag = part.etag();
        lock(&self.parts).insert(number, part);
        Ok(etag)
    }

    /// Brings the listed parts together in `data`; gives the whole's length and checksums. Blocking.
    pub(crate) fn assemble(
        &self,
        root: &Root,
        parts: &[(i32, PartRecord)],
    ) -> io::Result<(Arc<File>, &'static str, u64)> {
        let parent = root.open_directory(&self.directory)?;
        let mut offset = 0;
        let in_place = parts.iter().all(|(_, part)| {
            let fits = part.place == Place::At(offset) || part.place == Place::Apart;
            offset += part.length;
            fits
        });
        let (file, name) = if in_place {
            (self.data.clone(), "data")
        } else {
            (Arc::new(open_at(&parent, "whole", OFlags::CREATE | OFlags::TRUNC)?), "whole")
        };
        let mut offset = 0;
        for (number, part) in parts {
            match part.place {
                Place::At(place) if !in_place => {
                    copy_range(&self.data, ByteRange::at(place, part.length), &file, offset)?;
                }
                Place::At(_) => {}
                Place::Apart => {
                    let apart = open_at(&parent, &format!("{number}.data"), OFlags::empty())?;
                    copy_range(&apart, ByteRange::new(0, part.length), &file, offset)?;
                }
            }
            offset += part.length;
        }
        file.set_len(offset)?;
        Ok((file, name, offset))
    }

    /// Removes its files and directory. Blocking.
    pub(crate) fn remove(&self, root: &Root) -> io::Result<()> {
        remove_upload(root, &self.directory)
    }
}

/// Removes the uploads below `staging` that nobody will end: their file was put in place already and only the removal was
/// cut short, or nothing came for `age`. Those in `open` stay. Blocking.
pub(crate) fn remove_abandoned(
    root: &Root,
    staging: &EntryPath,
    age: Duration,
    open: impl Fn(&str) -> bool,
) -> io::Result<()> {
    let directory = match root.open_directory(staging) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        done => done?,
    };
    for entry in rustix::fs::Dir::read_from(&directory)? {
        let id = entry?.file_name().to_string_lossy().into_owned();
        let below = staging.join(id.as_ref());
        if !id.starts_with('.') && !open(&id) && is_abandoned(root, &below, age).unwrap_or(false) {
            tracing::info!(upload = %below, "removing what is left of an upload");
            remove_upload(root, &below)?;
        }
    }
    Ok(())
}

fn is_abandoned(root: &Root, upload: &EntryPath, age: Duration) -> io::Result<bool> {
    let parent = root.open_directory(upload)?;
    let has = |name: &str| rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    // The file is made before its description and leaves by being renamed to its final place.
    if has("upload.json") && !has("data") {
        return Ok(true);
    }
    // Every part recorded moves it.
    let touched = File::from(parent).metadata()?.modified()?;
    Ok(touched.elapsed().is_ok_and(|since| since > age))
}

fn remove_upload(root: &Root, upload: &EntryPath) -> io::Result<()> {
    let parent = root.open_directory(upload)?;
    for entry in rustix::fs::Dir::read_from(&parent)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            rustix::fs::unlinkat(&parent, entry.file_name(), AtFlags::empty())?;
        }
    }
    root.remove(upload, AtFlags::REMOVEDIR)?;
    // The last upload takes the staging directories along.
    let above = upload.parent();
    if root.remove(&above, AtFlags::REMOVEDIR).is_ok() {
        let _ = root.remove(&above.parent(), AtFlags::REMOVEDIR);
    }
    Ok(())
}

pub(crate) fn open_at(parent: &std::os::fd::OwnedFd, name: &str, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o666))?.into())
}

pub(crate) fn write_json(
    parent: &std::os::fd::OwnedFd,
    name: &str,
    value: &impl Serialize,
) -> io::Result<()> {
    let bytes = serde_json::to_vec(value).map_err(io::Error::from)?;
    let new = format!("{name}.new");
    open_at(parent, &new, OFlags::CREATE | OFlags::TRUNC)?.write_all_at(&bytes, 0)?;
    Ok(rustix::fs::renameat(parent, new, parent, name)?)
}

pub(crate) fn read_json<T: for<'de> Deserialize<'de>>(
    parent: &std::os::fd::OwnedFd,
    name: &str,
) -> io::Result<T> {
    let bytes = io::read_to_string(open_at(parent, name, OFlags::empty())?)?;
    serde_json::from_str(&bytes).map_err(io::Error::from)
}

/// Keys, ids and beginnings of the uploads on disk. Blocking.
pub(crate) fn read_uploads(root: &Root, staging: &EntryPath) -> io::Result<Vec<(String, String, Identity)>> {
    let directory = match root.open_directory(staging) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        done => done?,
    };
    let mut uploads = Vec::new();
    for entry in rustix::fs::Dir::read_from(&directory)? {
        let id = entry?.file_name().to_string_lossy().into_owned();
        // One that ends meanwhile is none.
        let Ok(parent) = root.open_directory(&staging.join(id.as_ref())) else { continue };
        let Ok(description) = read_json::<Description>(&parent, "upload.json") else { continue };
        let identity = Identity::from(&rustix::fs::statat(&parent, "upload.json", AtFlags::empty())?);
        uploads.push((description.key, id, identity));
    }
    Ok(uploads)
}
