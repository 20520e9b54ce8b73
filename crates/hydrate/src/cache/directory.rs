//! Defines the names in the cache directory: its format, the files of a version, and the identity
//! that each map records.
//!
//! A file name is a hash that begins with the hash of the location, so all versions of a location
//! are in one directory. The identity in the map decides which version the file holds, so versions
//! with colliding names are never confused. A version may have several identifiers, of which the
//! identity contains only the strongest.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use firstbyte_location::{Algorithm, FileIdentity, Hasher, Location, Strength, Version, etag};
use firstbyte_store::{FileAccess, PrivateDirectory, SHORT_WAIT, Sharing, is_full};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::clock::random;
use crate::error::{Error, Result};
use crate::limits::{ATTEMPTS, POLL_INTERVAL};

/// The format of new caches. It is also the newest format that can be read.
const FORMAT: u32 = 3;
/// The file that marks a directory as a cache.
const FORMAT_FILE: &str = "format";
/// Start of the format file.
const FORMAT_PREFIX: &str = "firstbyte cache ";
/// Directory of the named versions.
pub(super) const OBJECTS: &str = "objects";
/// Directory of the packed objects.
pub(super) const PACKS: &str = "packs";
/// Directory of versions whose names are removed right after their files are created.
pub(super) const TEMPORARY: &str = "temporary";
/// Prefixes of names that may exist in a directory before it becomes a cache: a format file that is
/// being written, journals of uploads, and the directory of `fsck` at the root of an ext4 file
/// system. A directory that contains any other name, and no format file, is refused. It may hold
/// files of the user, or be a cache that has lost its format file.
const EARLIER_NAMES: [&str; 3] = ["format.", "upload-", "lost+found"];
/// File of the usage counters.
pub(super) const USAGE: &str = "usage";
/// Number of directories in [`OBJECTS`]. Each is named by two hex digits.
pub(super) const SHARDS: u64 = 256;

/// Behaviour if there is no cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoCacheAction {
    /// Neither create nor empty a cache: the verb only reads.
    Leave,
    Create,
}

/// Opens the directory of a cache. Returns `None` if `absent` is [`NoCacheAction::Leave`], and
/// there is no cache or only one of an older format.
pub(super) fn open(path: &Path, sharing: Sharing, absent: NoCacheAction) -> Result<Option<PrivateDirectory>> {
    let opened = match absent {
        NoCacheAction::Leave => PrivateDirectory::open(path, sharing),
        NoCacheAction::Create => PrivateDirectory::create(path, sharing),
    };
    let directory = match opened {
        Err(error) if absent == NoCacheAction::Leave && error.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        other => other.map_err(Error::cache(path, "cannot use the cache directory"))?,
    };
    if absent == NoCacheAction::Leave
        && (!directory.has(Path::new(FORMAT_FILE)) || format_if_older(&directory).is_some())
    {
        return Ok(None);
    }
    prepare(&directory)?;
    Ok(Some(directory))
}

/// Returns the format of a cache if it is too old for this version. Verbs that only read leave such
/// a cache unchanged; the next process that fills the cache empties it.
pub(super) fn format_if_older(directory: &PrivateDirectory) -> Option<u32> {
    read_format(directory).ok().and_then(|text| format_number(&text)).filter(|found| *found < FORMAT)
}

/// Returns whether a directory without a format file may become a cache although it contains
/// `name`.
fn may_precede_cache(name: &OsStr) -> bool {
    EARLIER_NAMES.iter().any(|earlier| name.as_bytes().starts_with(earlier.as_bytes()))
}

/// Creates the files and directories of a cache. Fails if the directory has other contents but no
/// format file.
fn prepare(directory: &PrivateDirectory) -> Result<()> {
    let name = Path::new(FORMAT_FILE);
    let path = directory.shown(name);
    for _ in 0..ATTEMPTS {
        match read_format(directory) {
            // The number is missing: the machine lost power before the text reached the disk, or
            // the file was cut short.
            Ok(text) if FORMAT_PREFIX.starts_with(&text) => match write_format(directory) {
                // The disk is full. The cache can still be used, and a later process writes the
                // format.
                Err(error) if is_full(&error) => return make_parts(directory),
                written => written.map_err(Error::cache(&path, "cannot write the cache's format"))?,
            },
            Ok(text) if check_format(directory.path(), &path, &text)? < FORMAT => {
                upgrade(directory).map_err(Error::cache(directory.path(), "cannot empty an older cache"))?;
            }
            Ok(_) => return make_parts(directory),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let failed = |what| Error::cache(directory.path(), what);
                let names = directory.names(Path::new("."));
                let names = names.map_err(failed("cannot read the cache directory"))?;
                if !names.iter().all(|name| may_precede_cache(name)) {
                    // Another process may have made the cache in between.
                    if directory.has(name) {
                        continue;
                    }
                    return Err(not_a_cache(directory.path()));
                }
                write_format(directory).map_err(failed("cannot write to the cache directory"))?;
            }
            Err(error) => return Err(Error::cache(&path, "cannot read the cache's format")(error)),
        }
    }
    Err(Error::cache(&path, "cannot write the cache's format")(io::ErrorKind::NotFound.into()))
}

/// Returns the text of the format file.
fn read_format(directory: &PrivateDirectory) -> io::Result<String> {
    let mut text = String::new();
    directory.file(Path::new(FORMAT_FILE), FileAccess::Read)?.take(64).read_to_string(&mut text)?;
    Ok(text)
}

/// Empties a cache of an older format. One process does this while the others wait and then see the
/// new format, so they do not empty it again: the files could be in use by then.
pub(super) fn upgrade(directory: &PrivateDirectory) -> io::Result<()> {
    let started = Instant::now();
    let _alone = loop {
        match directory.try_lock()? {
            Some(lock) => break lock,
            None if started.elapsed() > SHORT_WAIT => return Err(io::ErrorKind::TimedOut.into()),
            None => std::thread::sleep(POLL_INTERVAL),
        }
    };
    if format_number(&read_format(directory)?).is_some_and(|found| found < FORMAT) {
        drop_contents(directory)?;
        write_format(directory)?;
    }
    Ok(())
}

/// Removes everything from a cache of an older format, whose entries do not name their store. A
/// process of an older build that still uses the entries continues with its open files.
fn drop_contents(directory: &PrivateDirectory) -> io::Result<()> {
    let shards = (0..SHARDS).map(shard);
    for part in shards.chain([PACKS, TEMPORARY].map(PathBuf::from)) {
        for name in directory.names(&part)? {
            directory.remove(&part.join(name))?;
        }
    }
    directory.remove(Path::new(USAGE))
}

fn make_parts(directory: &PrivateDirectory) -> Result<()> {
    let failed =
        |part: &str| Error::cache(&directory.shown(Path::new(part)), "cannot make the cache directory");
    directory.restrict().map_err(failed(""))?;
    for part in [OBJECTS, TEMPORARY] {
        directory.directory(part).map_err(failed(part))?;
    }
    Ok(())
}

/// Parses the number in the text of a format file.
fn format_number(text: &str) -> Option<u32> {
    text.strip_prefix(FORMAT_PREFIX).and_then(|rest| rest.trim_end().parse().ok())
}

/// Returns the format of the directory. Fails if the text does not mark a cache, or if the format
/// is newer than [`FORMAT`].
fn check_format(dir: &Path, path: &Path, text: &str) -> Result<u32> {
    match format_number(text) {
        Some(found) if found > FORMAT => Err(Error::Newer { path: dir.to_owned(), found, known: FORMAT }),
        Some(found) => Ok(found),
        None => Err(not_a_cache(path)),
    }
}

fn not_a_cache(path: &Path) -> Error {
    let what = "it is not empty, and not a firstbyte cache; name a new directory";
    Error::cache(path, "cannot use the cache directory")(io::Error::new(io::ErrorKind::InvalidData, what))
}

/// Writes the format file atomically. The file is not synced, because that would take longer than
/// the rest of a mount.
fn write_format(directory: &PrivateDirectory) -> io::Result<()> {
    let temporary = format!("{FORMAT_FILE}.{:016x}", random());
    let temporary = Path::new(&temporary);
    let mut file = directory.file(temporary, FileAccess::CreateNew)?;
    let written = file
        .write_all(format!("{FORMAT_PREFIX}{FORMAT}\n").as_bytes())
        .and_then(|()| directory.rename(temporary, Path::new(FORMAT_FILE)));
    if written.is_err() {
        // An error of this removal is ignored, so that the caller gets the error of the write.
        let _ = directory.remove(temporary);
    }
    written
}

/// The two files of a version, by their names beneath the cache directory.
#[derive(Clone, Debug)]
pub(super) struct CachePaths {
    pub(super) map: PathBuf,
    pub(super) data: PathBuf,
}

impl CachePaths {
    pub(super) fn new(name: &Name) -> Self {
        Self::of_map(Path::new(OBJECTS).join(name.shard()).join(format!("{}.map", name.0)))
    }

    pub(super) fn of_map(map: PathBuf) -> Self {
        let data = map.with_extension("data");
        Self { map, data }
    }

    /// Creates random names for a version whose names are removed as soon as its files are open. A
    /// process id is no unique name, because processes in two containers may have the same id.
    pub(super) fn temporary() -> Self {
        let name = format!("{:016x}.map", random());
        Self::of_map(Path::new(TEMPORARY).join(name))
    }

    /// Removes both files, the data first. A map without data is discarded by the next open, but
    /// data without a map would never be found.
    pub(super) fn remove(&self, directory: &PrivateDirectory) -> io::Result<()> {
        directory.remove(&self.data)?;
        directory.remove(&self.map)
    }
}

/// Returns the directory of shard `index`.
pub(super) fn shard(index: u64) -> PathBuf {
    Path::new(OBJECTS).join(format!("{:02x}", index % SHARDS))
}

/// Returns whether the cache may contain versions. Reads one directory.
pub(super) fn has_contents(directory: &PrivateDirectory) -> bool {
    let is_empty = directory.names(Path::new(OBJECTS)).is_ok_and(|names| names.is_empty());
    !is_empty || directory.has(Path::new(PACKS))
}

/// Returns the maps in one shard, by their names beneath the cache directory, in any order. The
/// list is empty if the shard does not exist. Names that are not in this cache's form are left out,
/// so no other file is ever removed.
pub(super) fn maps(directory: &PrivateDirectory, shard: &Path) -> io::Result<Vec<PathBuf>> {
    let names = directory.names(shard)?.into_iter();
    Ok(names.filter(|name| Name::is_of_map(name.as_bytes())).map(|name| shard.join(name)).collect())
}

/// The identity of a cached version: its object, store and version. The map contains it as JSON
/// text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CachedIdentity {
    location: String,
    /// The store that holds the object, if the location does not name the store. Two stores may
    /// have the same bucket, key and `ETag`. The text is a hash of the store's endpoint, because an
    /// endpoint may contain secrets.
    store: String,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_modified: Option<String>,
    /// The four fields of a [`FileIdentity`].
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<[String; 4]>,
}

/// The file name of a version, without the extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name(pub(super) String);

impl Name {
    /// Returns the common prefix of the names of all versions of `location`.
    pub(super) fn prefix(location: &Location) -> String {
        format!("{:032x}-", xxh3_128(location_text(location).as_bytes()))
    }

    /// Returns whether a file name has the form of a map's name, which consists of two hashes.
    fn is_of_map(name: &[u8]) -> bool {
        let is_hash = |part: &[u8], digits| part.len() == digits && part.iter().all(u8::is_ascii_hexdigit);
        let Some(stem) = name.strip_suffix(b".map") else { return false };
        stem.split_at_checked(32).is_some_and(|(location, rest)| {
            is_hash(location, 32) && rest.strip_prefix(b"-").is_some_and(|version| is_hash(version, 16))
        })
    }

    /// Returns the directory of the files.
    fn shard(&self) -> &str {
        &self.0[..2]
    }
}

impl CachedIdentity {
    /// Creates the identity of a version. Returns `None` if the version has no length, because no
    /// data file can be created then.
    pub(super) fn new(location: &Location, store: &str, version: &Version) -> Option<Self> {
        let mut identity = Self {
            location: location_text(location),
            store: store.to_owned(),
            size: version.size?,
            etag: None,
            version_id: None,
            last_modified: None,
            file: None,
        };
        if let Some(etag) = version.if_match() {
            // Listings and headers write the same `ETag` in different forms, so one form is stored.
            identity.etag = etag::quoted(&etag::value(etag));
        } else if let Some(id) = version.fixed_id() {
            identity.version_id = Some(id.to_owned());
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

    /// Returns the location as text.
    pub(super) fn place(&self) -> &str {
        &self.location
    }

    /// Returns the hash of the store's endpoint.
    pub(super) fn store(&self) -> &str {
        &self.store
    }

    /// Returns the length of the object, bytes.
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

/// Returns the hash of a store's endpoint, as identities contain it. An empty endpoint, which means
/// the default service of the location's scheme, gives an empty text.
pub(super) fn store_hash(endpoint: &str) -> String {
    let endpoint = endpoint.trim_end_matches('/');
    if endpoint.is_empty() {
        return String::new();
    }
    Hasher::of(Algorithm::Sha256, endpoint.as_bytes()).to_hex()[..32].to_owned()
}

/// Returns whether two locations name the same object.
pub(super) fn is_same(found: &Location, wanted: &Location) -> bool {
    Name::prefix(found) == Name::prefix(wanted)
}

/// Converts a location to text that parses back to the same location. A path becomes a URL, because
/// a path may contain bytes that are not text. The path becomes absolute, because the cache
/// outlives the working directory.
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
                let identity = CachedIdentity::new(&location, "", version).unwrap();
                let back = CachedIdentity::from_text(&identity.to_text()).unwrap();
                assert_eq!(back, identity);
                assert_eq!(back.location().unwrap(), location);
                assert_eq!(&back.version(), version);
                assert!(identity.name().0.starts_with(&Name::prefix(&location)));
            }
        }
        let raw = Location::Local(OsStr::from_bytes(b"/d/\xff/%41").into());
        assert_eq!(CachedIdentity::new(&raw, "", &strong("\"a\"")).unwrap().location().unwrap(), raw);
    }

    #[test]
    fn a_version_has_the_same_name_from_a_listing_and_a_stat() {
        let location = Location::parse(OsStr::new("s3://b/k")).unwrap();
        let name = |version: &Version| CachedIdentity::new(&location, "", version).unwrap().name();
        let listed = strong("\"a\"");
        let stat =
            Version { version_id: Some("v".into()), last_modified: Some("Mon".into()), ..listed.clone() };
        assert_eq!(name(&listed), name(&stat));
        assert_ne!(name(&listed), name(&strong("\"b\"")));
        assert_ne!(name(&listed), name(&Version { size: Some(4), ..listed.clone() }));
        assert!(CachedIdentity::new(&location, "", &Version { size: None, ..listed }).is_none());
    }
}
