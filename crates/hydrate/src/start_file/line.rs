//! Reads and writes the lines of a start file.

use firstbyte_location::{ByteRange, FileIdentity, Location, Version};
use serde::{Deserialize, Serialize};

use super::location;

/// The format that this release reads and writes.
const FORMAT: u64 = 1;

/// A line of a start file.
#[derive(Clone, Debug, PartialEq)]
pub enum StartLine {
    /// The location that was mounted. It is on the first line.
    Root(Location),
    /// A directory whose names were looked up.
    Directory(Location),
    /// A range that was read.
    Read {
        /// The location of the object.
        location: Location,
        /// The version of the object. `None` in files of older releases.
        version: Option<Version>,
        /// The byte range that was read.
        range: ByteRange,
        /// The start of the read in milliseconds since the mount. In files of older releases, a
        /// number that only gives the order.
        at: u64,
    },
}

/// A line in the form in which it is written. Names are relative to the root.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Root {
        start_file: u64,
        root: String,
    },
    Directory {
        list: String,
    },
    Read {
        read: String,
        from: u64,
        to: u64,
        #[serde(default)]
        at: u64,
        #[serde(flatten)]
        version: WrittenVersion,
    },
}

#[derive(Serialize, Deserialize)]
struct WrittenVersion {
    size: Option<u64>,
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

impl StartLine {
    /// Parses a line of a file. `root` is the location that the file's first line names.
    pub(super) fn parse(line: &[u8], root: Option<&Location>) -> Result<Self, String> {
        if !line.starts_with(b"{") {
            return parse_old(line).ok_or_else(|| "no line of a start file".to_owned());
        }
        let any: serde_json::Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        if any["start_file"].as_u64().is_some_and(|format| format > FORMAT) {
            return Err("of a newer format; update firstbyte here, or record it again".to_owned());
        }
        let written: Written =
            serde_json::from_value(any).map_err(|_| "no line of a start file".to_owned())?;
        let below = |name: &str| match root {
            Some(root) if name.is_empty() => Ok(root.clone()),
            Some(root) => Ok(root.join(name.as_bytes())),
            None => Err("the first line names no location".to_owned()),
        };
        Ok(match written {
            Written::Root { root, .. } => {
                let parsed = location(root.as_bytes());
                Self::Root(parsed.ok_or_else(|| format!("`{root}` is no location"))?)
            }
            Written::Directory { list } => Self::Directory(below(&list)?),
            Written::Read { from, to, .. } if from > to => {
                return Err("a range that ends before it begins".to_owned());
            }
            Written::Read { read, from, to, at, version } => Self::Read {
                location: below(&read)?,
                version: Some(version.into()),
                range: ByteRange::new(from, to),
                at,
            },
        })
    }

    /// Encodes the line, including its newline. Returns `None` if a name is not UTF-8, or is not
    /// below the root.
    #[must_use]
    pub fn to_bytes(&self, root: Option<&Location>) -> Option<Vec<u8>> {
        let below = |location: &Location| match root {
            Some(root) if location == root => Some(String::new()),
            Some(root) => String::from_utf8(location.name_below(root)?).ok(),
            None => None,
        };
        let written = match self {
            Self::Root(root) => {
                // Secrets are left out: when the file is used, the given location has its own.
                let root = root.to_text().unwrap_or_else(|| root.to_string());
                Written::Root { start_file: FORMAT, root }
            }
            Self::Directory(location) => Written::Directory { list: below(location)? },
            Self::Read { location, version, range, at } => Written::Read {
                read: below(location)?,
                from: range.start,
                to: range.end,
                at: *at,
                version: version.clone().unwrap_or_default().into(),
            },
        };
        let mut line = serde_json::to_vec(&written).ok()?;
        line.push(b'\n');
        Some(line)
    }
}

/// Parses a line of an older release: `START END LOCATION`.
fn parse_old(line: &[u8]) -> Option<StartLine> {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let mut number = || std::str::from_utf8(words.next()?).ok()?.parse::<u64>().ok();
    let (start, end) = (number()?, number()?);
    let location = location(words.next()?)?;
    let range = (start <= end).then(|| ByteRange::new(start, end))?;
    Some(StartLine::Read { location, version: None, range, at: 0 })
}

impl From<Version> for WrittenVersion {
    fn from(version: Version) -> Self {
        let Version { size, etag, version_id, last_modified, file } = version;
        Self { size, etag, version_id, last_modified, file: file.map(FileIdentity::to_words) }
    }
}

impl From<WrittenVersion> for Version {
    fn from(version: WrittenVersion) -> Self {
        let WrittenVersion { size, etag, version_id, last_modified, file } = version;
        let file = file.as_ref().and_then(FileIdentity::from_words);
        Self { size, etag, version_id, last_modified, file }
    }
}
