//! Reads and writes the lines of a start file.

use firstbyte_location::{ByteRange, FileIdentity, Location, Version, may_lead_out};
use serde::{Deserialize, Serialize};

use super::location;

/// The format that this release reads and writes.
const FORMAT: u64 = 1;

/// Maximum offset of a byte in an object: the maximum in a file on Linux.
pub(super) const MAX_OFFSET: u64 = i64::MAX as u64;

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
            return match root {
                Some(_) => Err("of an older format, in a file of this one".to_owned()),
                None => parse_old(line),
            };
        }
        let any: serde_json::Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        if any["start_file"].as_u64().is_some_and(|format| format > FORMAT) {
            return Err("of a newer format; update firstbyte here, or record it again".to_owned());
        }
        let written: Written =
            serde_json::from_value(any).map_err(|_| "no line of a start file".to_owned())?;
        let below = |name: &str| match root {
            Some(root) if name.is_empty() => Ok(root.clone()),
            Some(_) if may_lead_out(name.as_bytes()) => Err(format!("`{name}` leads out of the location")),
            Some(root) => Ok(root.join(name.as_bytes())),
            None => Err("the first line names no location".to_owned()),
        };
        Ok(match written {
            Written::Root { root, .. } => {
                let parsed = location(root.as_bytes());
                Self::Root(parsed.ok_or_else(|| format!("`{root}` is no location"))?)
            }
            Written::Directory { list } => Self::Directory(below(&list)?),
            Written::Read { read, from, to, at, version } => Self::Read {
                location: below(&read)?,
                range: checked(from, to, version.size)?,
                version: Some(version.into()),
                at,
            },
        })
    }

    /// Encodes the line, including its newline. Returns `None` if a name is not UTF-8, is not below
    /// the root, or may lead out of the root.
    #[must_use]
    pub fn to_bytes(&self, root: Option<&Location>) -> Option<Vec<u8>> {
        let below = |location: &Location| match root {
            Some(root) if location == root => Some(String::new()),
            Some(root) => {
                let name = location.name_below(root).filter(|name| !may_lead_out(name))?;
                String::from_utf8(name).ok()
            }
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
fn parse_old(line: &[u8]) -> Result<StartLine, String> {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let mut number = || std::str::from_utf8(words.next()?).ok()?.parse::<u64>().ok();
    let range = number().zip(number());
    let location = words.next().and_then(location);
    let ((start, end), location) = range.zip(location).ok_or("no line of a start file")?;
    Ok(StartLine::Read { location, version: None, range: checked(start, end, None)?, at: 0 })
}

/// Returns the range of a read. Fails if the range, or the `size` of the object, exceeds
/// [`MAX_OFFSET`], so that blocks can be computed. A read may end behind the object.
fn checked(from: u64, to: u64, size: Option<u64>) -> Result<ByteRange, String> {
    if from > to {
        return Err("a range that ends before it begins".to_owned());
    }
    match to.max(size.unwrap_or(0)) {
        end if end > MAX_OFFSET => Err(format!("byte {end} of an object, where the last is {MAX_OFFSET}")),
        _ => Ok(ByteRange::new(from, to)),
    }
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
