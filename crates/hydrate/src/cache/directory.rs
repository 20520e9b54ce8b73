//! Names in the cache directory: its format, the files of a version, and the identity that each map
//! records.
//!
//! A file name is a hash that begins with the hash of the location, so all versions of a location
//! are in one directory. The identity in the map decides, so versions with colliding names are
//! never confused. Only the strongest fact about a version counts: a listing reports an `ETag` and
//! a stat also a version id, and both identify the same bytes.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use firstbyte_location::{FileIdentity, Location, Strength, Version, etag};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::limits::ATTEMPTS;
use crate::{Error, Result};

/// The format written, and the newest format read.
const FORMAT: u32 = 2;
/// Start of the format file.
const TITLE: &str = "firstbyte cache ";
/// Directory of the named versions.
pub(super) const OBJECTS: &str = "objects";
/// Directory of packed objects.
pub(super) const PACKS: &str = "packs";
/// Directory of versions whose name is removed right after they are made.
pub(super) const TEMPORARY: &str = "temporary";
/// Directories in [`OBJECTS`], named by two hex digits.
pub(super) const SHARDS: u64 = 256;

/// Creates the directory and its parts. Refuses a directory that is not a cache.
pub(super) fn prepare(dir: &Path) -> Result<()> {
    let make = |path: &Path| DirBuilder::new().recursive(true).mode(0o700).create(path);
    make(dir).map_err(Error::cache(dir, "cannot make the cache directory"))?;
    let path = dir.join("format");
    for _ in 0..ATTEMPTS {
        let mut text = String::new();
        let read = File::open(&path).and_then(|file| file.take(64).read_to_string(&mut text));
        match read {
            // Lost in a power cut before it reached the disk. Each map records its own format.
            Ok(0) => drop(fs::remove_file(&path)),
            Ok(_) => {
                if check(dir, &path, &text)? < FORMAT {
                    // Older builds would not count what this one adds.
                    fs::remove_file(&path).map_err(Error::cache(&path, "cannot write the cache's format"))?;
                    continue;
                }
                for part in [OBJECTS, TEMPORARY] {
                    let part = dir.join(part);
                    make(&part).map_err(Error::cache(&part, "cannot make the cache directory"))?;
                }
                return Ok(());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                write_format(dir, &path).map_err(Error::cache(dir, "cannot write to the cache directory"))?;
            }
            Err(error) => return Err(Error::cache(&path, "cannot read the cache's format")(error)),
        }
    }
    Err(Error::cache(&path, "cannot write the cache's format")(io::ErrorKind::NotFound.into()))
}

/// The format of the directory.
fn check(dir: &Path, path: &Path, text: &str) -> Result<u32> {
    match text.strip_prefix(TITLE).and_then(|rest| rest.trim_end().parse().ok()) {
        Some(found) if found > FORMAT => Err(Error::Newer { path: dir.to_owned(), found, known: FORMAT }),
        Some(found) => Ok(found),
        None => {
            let what = "it is not a firstbyte cache; use another directory";
            let error = io::Error::new(io::ErrorKind::InvalidData, what);
            Err(Error::cache(path, "cannot use the cache directory")(error))
        }
    }
}

/// Writes the format file atomically: a temporary file, then a link, which never replaces the file
/// of another process. Not synced: that takes longer than the rest of a mount.
fn write_format(dir: &Path, path: &Path) -> io::Result<()> {
    let temporary = dir.join(format!("format.{}.{}", std::process::id(), unique()));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary);
    let written = file.and_then(|mut file| {
        file.write_all(format!("{TITLE}{FORMAT}\n").as_bytes())?;
        fs::hard_link(&temporary, path)
    });
    let _ = fs::remove_file(&temporary);
    match written {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// A number unique in this process.
fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The two files of a version.
#[derive(Clone, Debug)]
pub(super) struct Paths {
    pub(super) map: PathBuf,
    pub(super) data: PathBuf,
}

impl Paths {
    pub(super) fn new(objects: &Path, name: &Name) -> Self {
        Self::of_map(objects.join(name.shard()).join(format!("{}.map", name.0)))
    }

    pub(super) fn of_map(map: PathBuf) -> Self {
        let data = map.with_extension("data");
        Self { map, data }
    }

    /// Files for a version whose name is removed as soon as it is open.
    pub(super) fn temporary(dir: &Path) -> Self {
        let name = format!("{}.{}.map", std::process::id(), unique());
        Self::of_map(dir.join(TEMPORARY).join(name))
    }

    /// Removes both files. The data first: a map without data is started over, but data without a
    /// map would never be found.
    pub(super) fn remove(&self) -> io::Result<()> {
        for path in [&self.data, &self.map] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The directory of shard `index`.
pub(super) fn shard(objects: &Path, index: u64) -> PathBuf {
    objects.join(format!("{:02x}", index % SHARDS))
}

/// Whether the cache may hold versions. Reads only the first directory entry.
pub(super) fn has_contents(dir: &Path) -> bool {
    let is_empty = |part| fs::read_dir(dir.join(part)).is_ok_and(|mut entries| entries.next().is_none());
    !is_empty(OBJECTS) || dir.join(PACKS).exists()
}

/// The maps in one shard, in any order; empty if the shard does not exist.
pub(super) fn maps(shard: &Path) -> io::Result<Vec<OsString>> {
    let entries = match fs::read_dir(shard) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
    names.filter(|name| name.as_ref().map_or(true, |name| name.as_bytes().ends_with(b".map"))).collect()
}

/// The object and version of a pair of files: the text of the map, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    location: String,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_modified: Option<String>,
    /// The words of a [`FileIdentity`].
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<[String; 4]>,
}

/// The name of a version's files, without the extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name(pub(super) String);

impl Name {
    /// The common prefix of the names of all versions of `location`.
    pub(super) fn prefix(location: &Location) -> String {
        format!("{:032x}-", xxh3_128(location_text(location).as_bytes()))
    }

    /// The directory of the files.
    fn shard(&self) -> &str {
        &self.0[..2]
    }
}

impl Identity {
    /// `None` if the version has no length: no file can be made for it.
    pub(super) fn new(location: &Location, version: &Version) -> Option<Self> {
        let mut identity = Self {
            location: location_text(location),
            size: version.size?,
            etag: None,
            version_id: None,
            last_modified: None,
            file: None,
        };
        if let Some(etag) = version.if_match() {
            // The same however a listing or a header wrote it.
            identity.etag = etag::quoted(&etag::value(etag));
        } else if version.version_id.is_some() {
            identity.version_id.clone_from(&version.version_id);
        } else if version.strength() == Strength::Strong {
            identity.file = version.file.map(FileIdentity::to_words);
        } else {
            identity.etag.clone_from(&version.etag);
            identity.last_modified.clone_from(&version.last_modified);
        }
        Some(identity)
    }

    pub(super) fn to_text(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(super) fn from_text(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }

    pub(super) fn name(&self) -> Name {
        let location = xxh3_128(self.location.as_bytes());
        Name(format!("{location:032x}-{:016x}", xxh3_64(&self.to_text())))
    }

    /// The location, as text.
    pub(super) fn place(&self) -> &str {
        &self.location
    }

    /// Bytes of the object.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn location(&self) -> Option<Location> {
        Location::parse(OsStr::new(&self.location)).ok()
    }

    pub(super) fn version(&self) -> Version {
        Version {
            size: Some(self.size),
            etag: self.etag.clone(),
            version_id: self.version_id.clone(),
            last_modified: self.last_modified.clone(),
            file: self.file.as_ref().and_then(FileIdentity::from_words),
        }
    }
}

/// Whether two locations are the same object.
pub(super) fn is_same(found: &Location, wanted: &Location) -> bool {
    Name::prefix(found) == Name::prefix(wanted)
}

/// A location as text that parses back to it. A path becomes a URL, because it may hold any bytes,
/// and absolute, because the cache outlives the working directory.
pub(super) fn location_text(location: &Location) -> String {
    let Location::Local(path) = location else { return location.to_string() };
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let parts = absolute.as_os_str().as_bytes().split(|byte| *byte == b'/');
    let encoded: Vec<String> = parts.map(|part| percent_encode(part, NON_ALPHANUMERIC).to_string()).collect();
    format!("file://{}", encoded.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strong(etag: &str) -> Version {
        Version { size: Some(3), etag: Some(etag.into()), ..Version::default() }
    }

    #[test]
    fn every_kind_of_location_and_version_is_parsed_back_from_its_text() {
        let file = FileIdentity { device: 1, inode: u64::MAX, modified_ns: -5, changed_ns: i128::MAX };
        let versions = [
            strong("\"a\""),
            Version { etag: None, version_id: Some("v".into()), ..strong("") },
            Version { etag: None, file: Some(file), ..strong("") },
            Version { etag: Some("W/\"x\"".into()), last_modified: Some("Mon".into()), ..strong("") },
        ];
        for location in ["s3://b/a//b ü", "https://h:1/a%20b?c", "/d/a b"] {
            let location = Location::parse(OsStr::new(location)).unwrap();
            for version in &versions {
                let identity = Identity::new(&location, version).unwrap();
                let back = Identity::from_text(&identity.to_text()).unwrap();
                assert_eq!(back, identity);
                assert_eq!(back.location().unwrap(), location);
                assert_eq!(&back.version(), version);
                assert!(identity.name().0.starts_with(&Name::prefix(&location)));
            }
        }
        let raw = Location::Local(OsStr::from_bytes(b"/d/\xff/%41").into());
        assert_eq!(Identity::new(&raw, &strong("\"a\"")).unwrap().location().unwrap(), raw);
    }

    #[test]
    fn a_version_has_the_same_name_from_a_listing_and_a_stat() {
        let location = Location::parse(OsStr::new("s3://b/k")).unwrap();
        let name = |version: &Version| Identity::new(&location, version).unwrap().name();
        let listed = strong("\"a\"");
        let stat =
            Version { version_id: Some("v".into()), last_modified: Some("Mon".into()), ..listed.clone() };
        assert_eq!(name(&listed), name(&stat));
        assert_ne!(name(&listed), name(&strong("\"b\"")));
        assert_ne!(name(&listed), name(&Version { size: Some(4), ..listed.clone() }));
        assert!(Identity::new(&location, &Version { size: None, ..listed }).is_none());
    }
}
