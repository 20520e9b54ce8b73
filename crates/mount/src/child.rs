//! One name in a directory, with the attributes that a listing or a stat gives.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use firstbyte_location::{Entry, FileIdentity, Kind, Version};
use firstbyte_store::Stat;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

/// One name in a directory. Kept small, since wide directories have many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) name: Box<[u8]>,
    /// A file or a directory.
    pub(crate) kind: Kind,
    pub(crate) modified: Option<SystemTime>,
    pub(crate) pin: Pin,
}

/// A listing has the store's date to the millisecond, a stat to the second. What both have is
/// shown, so that a file's time is the same however it was found.
fn whole_seconds(time: SystemTime) -> SystemTime {
    time.duration_since(UNIX_EPOCH).map_or(time, |since| UNIX_EPOCH + Duration::from_secs(since.as_secs()))
}

/// The identity of a file's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pin {
    /// A directory, which has none.
    Directory,
    /// A strong `ETag` and a length.
    Tagged(u64, Box<str>),
    /// A local file.
    Local(u64, Box<FileIdentity>),
    /// Any other version that a server reports.
    Other(Box<Version>),
    /// Not in the listing; a stat reports it.
    Unknown,
}

impl Pin {
    /// The pin of the content that `version` describes. A listing has the `ETag` and the length, a
    /// stat also a version id and times; the pin is made of what both have, so that an object is
    /// the same inode however it was found.
    pub(crate) fn of(version: Version) -> Self {
        match (version.size, version.if_match().is_some(), version.file) {
            (Some(size), true, _) => Self::Tagged(size, version.etag.unwrap_or_default().into()),
            (Some(size), false, Some(file)) => Self::Local(size, Box::new(file)),
            _ => Self::Other(Box::new(version)),
        }
    }

    /// The version for the engine; `None` if there is nothing to read.
    pub(crate) fn version(&self) -> Option<Version> {
        Some(match self {
            Self::Tagged(size, etag) => {
                Version { size: Some(*size), etag: Some(etag.as_ref().into()), ..Version::default() }
            }
            Self::Local(size, file) => {
                Version { size: Some(*size), file: Some(**file), ..Version::default() }
            }
            Self::Other(version) => version.as_ref().clone(),
            Self::Directory | Self::Unknown => return None,
        })
    }

    /// Length in bytes, where it is known.
    pub(crate) fn size(&self) -> Option<u64> {
        match self {
            Self::Directory => Some(0),
            Self::Tagged(size, _) | Self::Local(size, _) => Some(*size),
            Self::Other(version) => version.size,
            Self::Unknown => None,
        }
    }
}

impl Child {
    pub(crate) fn directory(name: &[u8]) -> Self {
        Self { name: name.into(), kind: Kind::Directory, modified: None, pin: Pin::Directory }
    }

    /// From a listing.
    pub(crate) fn from_entry(entry: Entry) -> Self {
        let version = Version { size: entry.size, etag: entry.etag, ..Version::default() };
        let pin = match entry.kind {
            Kind::Directory => Pin::Directory,
            // A length of 0 that is not credible is asked for when the file is looked up.
            _ if !version.has_credible_length() => Pin::Unknown,
            _ => Some(Pin::of(version)).filter(|pin| matches!(pin, Pin::Tagged(..))).unwrap_or(Pin::Unknown),
        };
        Self { name: entry.name.into(), kind: entry.kind, modified: entry.modified.map(whole_seconds), pin }
    }

    /// From a stat of what is called `name`.
    pub(crate) fn from_stat(name: &[u8], stat: Stat) -> Self {
        let modified = match &stat.version.last_modified {
            Some(text) => OffsetDateTime::parse(text, &Rfc2822).ok().map(SystemTime::from),
            None => stat.modified,
        };
        let pin = if stat.kind == Kind::Directory { Pin::Directory } else { Pin::of(stat.version) };
        Self { name: name.into(), kind: stat.kind, modified, pin }
    }

    /// Whether its attributes are known.
    pub(crate) fn is_known(&self) -> bool {
        self.pin != Pin::Unknown
    }
}
