//! Which object in which version a pair of files holds: the text in their map, and their name.
//!
//! Of a version only what pins the content counts, and the strongest alone: a listing tells an `ETag` where a stat tells
//! a version id as well, and both mean the same bytes. A name is a hash, of the location first, so that all versions of
//! one location stand in one directory; the text decides, so that two that collide are never taken for each other.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use firstbyte_location::{FileIdentity, Location, Strength, Version};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// What the map of a version says that it is of, as JSON.
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

/// The name of a version's files, without what they end in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name(pub(super) String);

impl Name {
    /// What the names of all versions of `location` begin with.
    pub(super) fn prefix(location: &Location) -> String {
        format!("{:032x}-", xxh3_128(text(location).as_bytes()))
    }

    /// The directory it stands in: one of 256, so that none grows beyond what a look at it may cost.
    pub(super) fn shard(&self) -> &str {
        &self.0[..2]
    }
}

impl Identity {
    /// Of a version that has a length; `None` for others, which no file could be made for.
    pub(super) fn new(location: &Location, version: &Version) -> Option<Self> {
        let mut identity = Self {
            location: text(location),
            size: version.size?,
            etag: None,
            version_id: None,
            last_modified: None,
            file: None,
        };
        if let Some(etag) = version.if_match() {
            identity.etag = Some(etag.to_owned());
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

/// A location as text that parses back to it: a path as a URL, since it may be any bytes, and absolute, since the cache
/// outlives the working directory.
fn text(location: &Location) -> String {
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
    fn every_kind_of_location_and_version_comes_back_from_its_text() {
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
    fn a_version_is_the_same_however_it_was_told_and_another_is_another() {
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
